"""What a history means: the file list by a dictionary, written without looking at the library."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from tests.builder.actions import AddAction, Row

Key = tuple[str, str | None]
"""A logical file: its canonical path and the unique id of its deletion vector."""

STRUCT = "struct"


@dataclass(frozen=True)
class ModelColumn:
    """A column, or a field of a struct, as it is at one version.

    Attributes:
        path: Its names as users say them.
        physical: Its names in statistics and partition values; rows are kept under them too.
        kind: The Delta type by name; of a struct, `STRUCT`.
        is_partition: Whether it is a partition column.
    """

    path: tuple[str, ...]
    physical: tuple[str, ...]
    kind: str
    is_partition: bool = False

    def value(self, row: Row) -> Any:  # noqa: ANN401 - a value of any column type
        """Gives the value in a row; null below a null struct, and in files from before the column was there."""
        found: Any = row
        for name in self.physical:
            found = None if found is None else found.get(name)
        return found


def columns_of(metadata: Mapping[str, Any]) -> list[ModelColumn]:
    """Lists the columns and the fields in structs that a metaData action speaks of."""
    is_mapped = metadata["configuration"].get("delta.columnMapping.mode", "none") != "none"

    def below(struct: Mapping[str, Any], path: tuple[str, ...], physical: tuple[str, ...]) -> Iterator[ModelColumn]:
        for field in struct["fields"]:
            inner = (*path, field["name"])
            other = field["metadata"]["delta.columnMapping.physicalName"] if is_mapped else field["name"]
            is_struct = isinstance(field["type"], dict)
            is_partition = not path and field["name"] in metadata["partitionColumns"]
            yield ModelColumn(inner, (*physical, other), STRUCT if is_struct else field["type"], is_partition)
            if is_struct:
                yield from below(field["type"], inner, (*physical, other))

    return list(below(json.loads(metadata["schemaString"]), (), ()))


def live_files(commits: Iterable[Sequence[dict[str, Any]]]) -> dict[Key, AddAction]:
    """Replays commits, oldest first. The newest action for a key wins; an add outlives a remove beside it."""
    live: dict[Key, AddAction] = {}
    for commit in commits:
        for action in commit:
            if "remove" in action:
                live.pop(file_key(action["remove"]), None)
        for action in commit:
            if "add" in action:
                live[file_key(action["add"])] = action["add"]
    return live


def removed_files(commits: Iterable[Sequence[dict[str, Any]]]) -> dict[Key, dict[str, Any]]:
    """Replays commits for the removed files that a checkpoint remembers."""
    gone: dict[Key, dict[str, Any]] = {}
    for commit in commits:
        gone |= {file_key(action["remove"]): action["remove"] for action in commit if "remove" in action}
        for action in commit:
            if "add" in action:
                gone.pop(file_key(action["add"]), None)
    return gone


def newest(commits: Sequence[Sequence[dict[str, Any]]], kind: str) -> dict[str, Any] | None:
    """Gives the content of the newest action of a kind; None where there is none."""
    found = [action[kind] for commit in commits for action in commit if kind in action]
    return found[-1] if found else None


def file_key(action: dict[str, Any]) -> Key:
    """Gives the key of a file action."""
    return canonical_path(action["path"]), dv_id(action.get("deletionVector"))


def canonical_path(raw: str) -> str:
    """Decodes a path of the log; `/p`, `file:/p` and `file:///p` are one."""
    if raw.startswith("file:"):
        raw = "/" + raw.removeprefix("file:").lstrip("/")
    return unquote(raw)


def dv_id(vector: dict[str, Any] | None) -> str | None:
    """Gives the unique id of a deletion vector; None without one."""
    if vector is None:
        return None
    name = vector["storageType"] + vector["pathOrInlineDv"]
    return name if vector.get("offset") is None else f"{name}@{vector['offset']}"
