"""What a scan of a random table has to give, by the builder's model, in a form that compares."""

from __future__ import annotations

import json
import math
import tempfile
from contextlib import contextmanager
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from tests.builder import canonical_path, commit_info
from tests.builder.model import STRUCT
from tests.builder.strategies import Step
from tests.builder.values import WITHOUT_BOUNDS, arrow_type, typed
from tests.scan.reading import key_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from tests.builder import AddAction, Key, ModelColumn, TableBuilder
    from tests.builder.strategies import History

    from delta_sidecar import DeltaFile


@contextmanager
def built(history: History) -> Iterator[TableBuilder]:
    # A commit without a line could be one that was never written: writers put in at least who they are.
    steps = [
        Step(step.verb, {"actions": [commit_info()]}) if step.arguments == {"actions": []} else step
        for step in history.steps
    ]
    with tempfile.TemporaryDirectory() as root:
        yield replace(history, steps=tuple(steps)).build(Path(root) / "table")


def forms_of(history: History) -> dict[int, dict[str, Any]]:
    """How the checkpoint of each version was written."""
    forms: dict[int, dict[str, Any]] = {}
    version = -1
    for step in history.steps:
        version += step.verb == "commit"
        if step.verb == "checkpoint":
            forms[version] = step.arguments
    return forms


def contents(table: TableBuilder, version: int, forms: dict[int, dict[str, Any]]) -> dict[Key, dict[str, Any]]:
    """What a scan gives of each live file: the newest add, its statistics as the newest base still has them."""
    base = max((at for at in table.checkpoints if at <= version), default=None)
    before = {} if base is None else table.model_files(base)
    found: dict[Key, dict[str, Any]] = {}
    for key, newest in table.model_files(version).items():
        stats: Any = newest.get("stats")
        if base is not None and before.get(key) is newest and not forms[base]["json_stats"]:
            is_there = forms[base]["struct_stats"] and (forms[base]["kind"] != "v2-json" or forms[base]["sidecars"])
            stats = Statistics(stats, table.model_columns(base)) if is_there and stats is not None else None
        found[key] = content(newest, stats, table.model_columns(version))
    return found


def content(action: AddAction, stats: Any, columns: list[ModelColumn]) -> dict[str, Any]:  # noqa: ANN401 - a text or values
    return {
        "size": action["size"],
        "modification_time": action["modificationTime"],
        "partition_values": partition_values(action, columns),
        "raw_path": action["path"],
        "path": canonical_path(action["path"]) if not action["path"].startswith("file:") else None,
        "stats": stats,
        "tags": action.get("tags"),
        "vector": action.get("deletionVector"),
    }


def partition_values(action: AddAction, columns: list[ModelColumn]) -> dict[str, str | None]:
    """The raw partition values, under the names that the columns have at the version that is read."""
    return {column.path[0]: action["partitionValues"][column.physical[0]] for column in columns if column.is_partition}


class Statistics:
    """Statistics that have been through typed columns: equal to any text with the same values.

    Args:
        text: The statistics as the writer gave them.
        columns: The columns that the checkpoint had.
    """

    __hash__ = None

    def __init__(self, text: str, columns: list[ModelColumn]) -> None:
        self._columns = columns
        self._values = self._read(text)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, str) and self._values == self._read(other)

    def __repr__(self) -> str:
        return f"Statistics({self._values})"

    def _read(self, text: str) -> dict[Any, Any]:
        given = json.loads(text, parse_float=Decimal)
        out: dict[Any, Any] = {
            name: given[name] for name in ("numRecords", "tightBounds") if given.get(name) is not None
        }
        for part in ("minValues", "maxValues", "nullCount"):
            is_count = part == "nullCount"
            for column in self._columns:
                value = column.value(given.get(part) or {})
                is_there = not column.is_partition and (is_count or column.kind not in WITHOUT_BOUNDS)
                if value is not None and is_there and column.kind != STRUCT:
                    out[part, column.path] = _value(value, column.kind, is_count=is_count)
        return out


def _value(value: Any, kind: str, *, is_count: bool) -> Any:  # noqa: ANN401 - a value of any column type
    found = typed(value, pa.int64() if is_count else arrow_type(kind))
    return "NaN" if isinstance(found, float) and math.isnan(found) else found


def by_key(files: Iterable[DeltaFile]) -> dict[Key, dict[str, Any]]:
    found: dict[Key, dict[str, Any]] = {}
    for file in files:
        assert key_of(file) not in found, f"{file} comes twice"
        vector = file.deletion_vector
        found[key_of(file)] = {
            "size": file.size,
            "modification_time": file.modification_time,
            "partition_values": file.partition_values,
            "raw_path": file.raw_path,
            "path": file.path if not file.raw_path.startswith("file:") else None,
            "stats": file.stats,
            "tags": file.tags,
            "vector": None
            if vector is None
            else {
                name: value
                for name, value in {
                    "storageType": vector.storage_type,
                    "pathOrInlineDv": vector.path_or_inline_dv,
                    "offset": vector.offset,
                    "sizeInBytes": vector.size_in_bytes,
                    "cardinality": vector.cardinality,
                }.items()
                if value is not None
            },
        }
    return found


def shallow(files: list[DeltaFile]) -> list[Any]:
    """What every base has of a file."""
    return sorted(((key_of(f), f.size, f.partition_values, f.tags) for f in files), key=repr)


def shallow_model(table: TableBuilder, version: int) -> list[Any]:
    columns = table.model_columns(version)
    live = table.model_files(version)
    return sorted(((k, a["size"], partition_values(a, columns), a.get("tags")) for k, a in live.items()), key=repr)
