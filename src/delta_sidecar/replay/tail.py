"""Replay of the tail: its live adds, and its keys."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from delta_sidecar._arrow import booleans, valid_mask
from delta_sidecar.errors import StrictModeError, UnreadableFileError
from delta_sidecar.log.actions import KEYS_SCHEMA, commit_schema
from delta_sidecar.log.identity import file_keys
from delta_sidecar.log.names import commit_path
from delta_sidecar.plan import FILE_LABEL, LINE, FileRef, Filter, ScanJson
from delta_sidecar.replay.files import struct_fields, tags_in_lines
from delta_sidecar.replay.request import ReplayProgress

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from numpy.typing import NDArray

    from delta_sidecar.log.segment import Commit
    from delta_sidecar.plan import Plan
    from delta_sidecar.replay.files import FileColumns, Pruning
    from delta_sidecar.replay.seen.seen import SeenSet


@dataclass(slots=True)
class LiveAdds:
    """Keeps the live adds of commits that come newest first, block by block.

    An add is live if no newer commit has its key. The keys of a commit's removes count from the next commit on:
    within one commit they do not hide its adds. An action that is not in Delta's format is an `UnreadableFileError`.
    """

    seen: SeenSet
    columns: FileColumns
    pruning: Pruning | None
    progress: ReplayProgress = field(default_factory=ReplayProgress)
    _version: int | None = None

    def __call__(self, batch: pa.RecordBatch) -> pa.RecordBatch | None:
        """Takes a block of one commit; gives its live files that may match."""
        version = batch.column(FILE_LABEL)[0].as_py()
        if version != self._version:
            self.flush()
            self._version = version
        for keys in _keys(batch, "remove"):
            self.seen.hold_back(keys)
        actions = batch.column("add")
        present = valid_mask(actions)
        if not present.any():
            return None
        lines = batch.column(LINE)
        if not present.all():
            chosen = booleans(present)
            actions, lines = actions.filter(chosen), lines.filter(chosen)
        add = struct_fields(actions)
        _require_paths(add["path"], version)
        live = self.seen.insert(file_keys(add))
        count = int(np.count_nonzero(live))
        self.progress.add(commit_adds=len(live), commit_hidden=len(live) - count)
        if not count:
            return None
        try:
            add["tags"] = tags_in_lines(lines, valid_mask(add["tags"]))
        except pa.ArrowInvalid as error:
            raise _not_delta(version, error) from error
        found = select(add, live, self.columns, self.pruning)
        self.progress.add(commit_pruned=count - (0 if found is None else found.num_rows))
        return found

    def flush(self) -> None:
        """Counts the removes of the commit that was being read. To be called after the last block."""
        self.seen.release()


@dataclass(frozen=True, slots=True)
class TailKeys:
    """Puts every key of the tail into a seen-set."""

    seen: SeenSet

    def take(self, batches: Iterator[pa.RecordBatch]) -> None:
        """Takes the blocks of all commits, in any order."""
        for batch in batches:
            for name in KEYS_SCHEMA.names:
                for keys in _keys(batch, name):
                    self.seen.insert(keys)


def live_adds_plan(commits: Sequence[Commit], columns: FileColumns, at_once: int | None = None) -> ScanJson:
    """Reads the actions of commits."""
    physical = tuple(name for _, name in columns.partition_columns)
    return ScanJson(files_of(commits), commit_schema(physical), lines_with=(b'"tags"',), at_once=at_once)


def tail_keys_plan(commits: Sequence[Commit], at_once: int | None = None) -> ScanJson:
    """Reads what keys are made of in commits; a replay reads them again."""
    return ScanJson(files_of(commits), KEYS_SCHEMA, keep=True, all_needed=True, at_once=at_once)


def files_of(commits: Iterable[Commit]) -> tuple[FileRef, ...]:
    """The files of commits."""
    return tuple(FileRef(path, size, version) for version, path, size in commits)


def select(
    add: dict[str, pa.Array], live: NDArray[np.bool_], columns: FileColumns, pruning: Pruning | None
) -> pa.RecordBatch | None:
    """Of `add` actions, those that are live and may match, as files."""
    if not live.all():
        chosen = booleans(live)
        add = {name: column.filter(chosen) for name, column in add.items()}
    rows = len(add["path"])
    if pruning is not None:
        keep = pruning.by_statistics(add, rows)
        if not keep.any():
            return None
        if not keep.all():
            chosen = booleans(keep)
            add = {name: column.filter(chosen) for name, column in add.items()}
            rows = len(add["path"])
    return columns.batch(add, rows)


def _keys(batch: pa.RecordBatch, name: str) -> list[pa.BinaryArray]:
    actions = batch.column(name)
    present = actions.drop_null() if actions.null_count else actions
    if not len(present):
        return []
    fields = struct_fields(present)
    _require_paths(fields["path"], batch.column(FILE_LABEL)[0].as_py())
    return [file_keys(fields)]


def _require_paths(paths: pa.StringArray, version: int) -> None:
    if paths.null_count or pc.min(pc.binary_length(paths)).as_py() == 0:
        error = pa.ArrowInvalid("there is a file action without a path")
        raise _not_delta(version, error) from error


def _not_delta(version: int, error: Exception) -> UnreadableFileError:
    path = commit_path(version)
    return UnreadableFileError(f"{path}: {error}", path, version)


# Strict mode: commits may hold `add`, `remove` and `commitInfo`, and anything else trips.


ALLOWED = ("add", "remove", "commitInfo")
"""Actions that strict mode takes."""

_KNOWN = ("metaData", "protocol", "txn", "domainMetadata", "cdc", "sidecar", "checkpointMetadata")
_PRESENT = pa.struct([])


@dataclass(frozen=True, slots=True)
class FeatureTripwire:
    """Lets blocks of commits through as they are, up to the first one with an action that strict mode does not take.

    It has no state; as a filter it stands in front of what takes the actions.
    """

    def __call__(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Takes a block of one commit.

        Raises:
            StrictModeError: There is something else in it.
        """
        allowed = _present(batch, ALLOWED)
        if not allowed.all():
            version = batch.column(FILE_LABEL)[0].as_py()
            found = next((name for name in _KNOWN if _present(batch, (name,)).any()), "an unknown action")
            msg = f"commit {version} has {found}, and strict mode takes only {', '.join(ALLOWED)}"
            raise StrictModeError(msg, found, version)
        return batch


def watched(plan: ScanJson) -> Plan:
    """A plan of commits with the tripwire in it."""
    others = (name for name in (*ALLOWED, *_KNOWN) if name not in plan.schema.names)
    schema = pa.schema([*plan.schema, *(pa.field(name, _PRESENT) for name in others)])
    return Filter(replace(plan, schema=schema), FeatureTripwire())


def _present(batch: pa.RecordBatch, names: tuple[str, ...]) -> NDArray[np.bool_]:
    found: NDArray[np.bool_] = np.logical_or.reduce([valid_mask(batch.column(name)) for name in names])
    return found
