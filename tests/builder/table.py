"""The builder: a table directory whose log is written action by action, checkpoint by checkpoint."""

from __future__ import annotations

import datetime as dt
import os
import shutil
from copy import copy
from typing import TYPE_CHECKING, Any, Self

from tests.builder.actions import dump, metadata
from tests.builder.actions import protocol as protocol_action
from tests.builder.checkpoints import CheckpointForm, CheckpointState, write_checkpoint
from tests.builder.model import Key, ModelColumn, columns_of, live_files, newest, removed_files

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from tests.builder.actions import AddAction

DEFAULT_SCHEMA = {"id": "long", "value": "string"}


class TableBuilder:
    """A Delta table in a local directory, without data files.

    The first commit gets a protocol and a metaData action where it has none of its own.

    Attributes:
        root: The table's directory.
        log: Its `_delta_log`.
        commits: The actions of every version, as written; those of deleted commits too.
        checkpoints: Versions with a checkpoint, in the order of writing.
    """

    def __init__(
        self,
        root: Path,
        *,
        partition_columns: Sequence[str] = (),
        schema: Mapping[str, Any] | None = None,
        protocol: Mapping[str, Any] | None = None,
        configuration: Mapping[str, str] | None = None,
        create: bool = True,
        zone: dt.timedelta = dt.timedelta(),
    ) -> None:
        """Starts a table without versions.

        Args:
            root: The table's directory.
            partition_columns: Names of partition columns.
            schema: Names to Delta types, or Delta's whole struct.
            protocol: A protocol action; version 1 and 2 without.
            configuration: Table properties.
            create: Whether the first commit gets a protocol and a metaData action.
            zone: How far ahead of UTC the writer's clock is: partition timestamps are written in its time.
        """
        self.root = root
        self.log = root / "_delta_log"
        self.log.mkdir(parents=True, exist_ok=True)
        self.commits: list[list[dict[str, Any]]] = []
        self.checkpoints: list[int] = []
        self.zone = zone
        self._deleted: set[int] = set()
        self._create = create
        self._protocol = dict(protocol or protocol_action())
        self._metadata = metadata(schema or DEFAULT_SCHEMA, partition_columns, configuration=configuration)

    def copy(self, root: Path) -> Self:
        """Gives the same table in another directory; times of files stay, and neither is changed with the other."""
        shutil.copytree(self.root, root, dirs_exist_ok=True)
        other = copy(self)
        other.root, other.log = root, root / "_delta_log"
        other.commits = [list(commit) for commit in self.commits]
        other.checkpoints = list(self.checkpoints)
        other._deleted = set(self._deleted)
        return other

    @property
    def version(self) -> int:
        """The newest version; -1 before the first commit."""
        return len(self.commits) - 1

    def commit(self, actions: Sequence[dict[str, Any]] = ()) -> int:
        """Writes the next version and gives its number."""
        lines = list(actions)
        if not self.commits and self._create:
            kinds = {kind for action in lines for kind in action}
            first = {"protocol": self._protocol, "metaData": self._metadata}
            lines = [action for kind, action in first.items() if kind not in kinds] + lines
        self.commits.append(lines)
        self.commit_path(self.version).write_text("".join(dump(line) + "\n" for line in lines), encoding="utf-8")
        return self.version

    def checkpoint(  # noqa: PLR0913 - the axes that tests vary
        self,
        kind: str = "v1",
        *,
        struct_stats: bool = False,
        json_stats: bool = True,
        row_group_rows: int | None = None,
        parts: int = 2,
        sidecars: int = 2,
        tombstones: bool = True,
        top_last: bool = False,
        last_checkpoint: bool = True,
        int96: bool = False,
        partition_maps: bool = True,
    ) -> list[Path]:
        """Writes a checkpoint of the current version and gives its files; the named one is last.

        Args:
            kind: `v1`, `v1-multipart`, `v2-json`, `v2-parquet` or `v2-classic`.
            struct_stats: Whether statistics and partition values are there as native columns.
            json_stats: Whether statistics are there as JSON.
            row_group_rows: Rows in a row group; all in one without.
            parts: Parts of a `v1-multipart`.
            sidecars: V2-checkpoint sidecars; 0 puts the file actions into the checkpoint itself.
            tombstones: Whether removed files are remembered.
            top_last: Whether protocol and metaData come after the file actions.
            last_checkpoint: Whether `_last_checkpoint` points to it.
            int96: Whether native timestamps are Parquet's oldest ones, as Spark writes them.
            partition_maps: Whether partition values are there as texts.
        """
        top = [{name: found} for name in ("protocol", "metaData") if (found := newest(self.commits, name))]
        for name, key in (("txn", "appId"), ("domainMetadata", "domain")):
            found = [action[name] for commit in self.commits for action in commit if name in action]
            top += [{name: content} for content in {content[key]: content for content in found}.values()]
        removes = list(removed_files(self.commits).values()) if tombstones else []
        state = CheckpointState(self.version, list(self.model_files().values()), removes, top, self.zone)
        layout = (kind, struct_stats, json_stats, row_group_rows, parts, sidecars, top_last)
        form = CheckpointForm(*layout, int96, partition_maps)
        written = write_checkpoint(self.log, state, form)
        self.checkpoints.append(self.version)
        if last_checkpoint:
            self.last_checkpoint(dump(written.hint))
        return written.paths

    def checksum(self) -> Path:
        """Writes the checksum file of the current version."""
        live = self.model_files()
        content = {
            "tableSizeBytes": sum(action["size"] for action in live.values()),
            "numFiles": len(live),
            "numMetadata": 1,
            "numProtocol": 1,
            "metadata": newest(self.commits, "metaData"),
            "protocol": newest(self.commits, "protocol"),
        }
        path = self.log / f"{self.version:020}.crc"
        path.write_text(dump(content), encoding="utf-8")
        return path

    def last_checkpoint(self, text: str | None) -> None:
        """Writes any text to `_last_checkpoint`; None removes it."""
        path = self.log / "_last_checkpoint"
        if text is None:
            path.unlink(missing_ok=True)
        else:
            path.write_text(text, encoding="utf-8")

    def commit_path(self, version: int) -> Path:
        """Gives the file of a commit."""
        return self.log / f"{version:020}.json"

    def delete_commit(self, version: int) -> None:
        """Deletes the file of a commit; the model still knows it."""
        self.commit_path(version).unlink()
        self._deleted.add(version)

    def clean_up(self, *, inclusive: bool = False) -> None:
        """Deletes the commits before the newest checkpoint, and its own commit as well where inclusive."""
        for version in range(max(self.checkpoints) + inclusive):
            if version not in self._deleted:
                self.delete_commit(version)

    @staticmethod
    def tear(path: Path, at: int) -> None:
        """Cuts a file off at a byte, as a write that did not finish; a negative one counts from the end."""
        os.truncate(path, at if at >= 0 else path.stat().st_size + at)

    def readable_versions(self) -> list[int]:
        """Lists the versions that can still be replayed: from version 0 or from a checkpoint, without a gap."""
        readable = []
        for version in range(len(self.commits)):
            bases = [-1, *(base for base in self.checkpoints if base <= version)]
            if any(self._deleted.isdisjoint(range(base + 1, version + 1)) for base in bases):
                readable.append(version)
        return readable

    def model_files(self, version: int | None = None) -> dict[Key, AddAction]:
        """Gives the live files of a version, the newest without one, by the independent model."""
        return live_files(self.commits if version is None else self.commits[: version + 1])

    def model_action(self, kind: str, version: int | None = None) -> dict[str, Any] | None:
        """Gives the `protocol` or `metaData` in force at a version."""
        return newest(self.commits if version is None else self.commits[: version + 1], kind)

    def model_columns(self, version: int | None = None) -> list[ModelColumn]:
        """Gives the columns of a version, fields of structs among them."""
        return columns_of(self.model_action("metaData", version) or {})
