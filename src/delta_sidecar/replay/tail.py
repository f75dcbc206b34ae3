"""The tail: the commits after a base, their live adds and their keys."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from msgspec import Struct, field
from msgspec.structs import replace

from delta_sidecar._arrow import from_numpy, scalar, to_numpy
from delta_sidecar.errors import (
    AuthenticationError,
    CorruptCommitError,
    MissingCommitError,
    ObjectNotFoundError,
    ObjectTruncatedError,
    StorageError,
    StrictModeError,
    UnreadableFileError,
)
from delta_sidecar.log.actions import ADD_FIELDS, KEY, KEYS_SCHEMA
from delta_sidecar.log.identity import file_keys
from delta_sidecar.log.names import commit_path
from delta_sidecar.plan import FILE_LABEL, LINE, FileRef, Filter, ScanJson
from delta_sidecar.replay.files import struct_fields, tags_in_lines
from delta_sidecar.replay.request import ReplayProgress

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    from numpy.typing import NDArray

    from delta_sidecar.log.segment import CommitRange, LogSegment
    from delta_sidecar.plan import Plan
    from delta_sidecar.replay.files import FileColumns, Pruning
    from delta_sidecar.replay.seen.seen import SeenSet

TABLE_ACTIONS = ("protocol", "metaData")
"""Actions that tell how a table is to be read."""

WINDOW = 1_000
"""Commits in a window of a tail: names and requests are made for one window at a time, newest first."""


class LiveAdds(Struct):
    """Keeps the live adds of commits that come newest first, some together or one block by block.

    An add is live if no newer commit has its key. The keys of a commit's removes count from the next commit on:
    within one commit they do not hide its adds. An action that is not in Delta's format is an `UnreadableFileError`.
    """

    seen: SeenSet
    columns: FileColumns
    pruning: Pruning | None
    progress: ReplayProgress = field(default_factory=ReplayProgress)
    _version: int | None = None

    def __call__(self, batch: pa.RecordBatch) -> pa.RecordBatch | None:
        """Takes a block of one commit, or several commits; gives their live files that may match."""
        versions = to_numpy(batch.column(FILE_LABEL))
        removed, removed_in, _ = _actions(batch, "remove", versions)
        add, added_in, lines = _actions(batch, "add", versions)
        keys, live = file_keys(add), np.ones(len(added_in), dtype=np.bool_)
        removed_keys = file_keys(removed)
        for version in _in_order(versions):
            if version != self._version:
                self.flush()
                self._version = version
            # Commits come newest first.
            first, last = np.searchsorted(-removed_in, (-version, 1 - version)).tolist()
            self.seen.hold_back(removed_keys.slice(first, last - first))
            first, last = np.searchsorted(-added_in, (-version, 1 - version)).tolist()
            live[first:last] = self.seen.insert(keys.slice(first, last - first))
        count = int(np.count_nonzero(live))
        self.progress.add(commit_adds=len(live), commit_hidden=len(live) - count)
        if not count:
            return None
        if "tags" in add:
            add["tags"] = _tags(lines, add["tags"], added_in)
        found = select(add | {FILE_LABEL: from_numpy(added_in)}, live, self.columns, self.pruning)
        self.progress.add(commit_pruned=count - (0 if found is None else found.num_rows))
        return found

    def flush(self) -> None:
        """Counts the removes of the commit that was being read. To be called after the last block."""
        self.seen.release()


class TailKeys(Struct, frozen=True):
    """Puts every key of the tail into a seen-set."""

    seen: SeenSet

    def take(self, batches: Iterator[pa.RecordBatch]) -> None:
        """Takes the blocks of all commits, in any order."""
        for batch in batches:
            versions = to_numpy(batch.column(FILE_LABEL))
            for name in KEYS_SCHEMA.names:
                self.seen.insert(file_keys(_actions(batch, name, versions)[0]))


class Tail(Struct, frozen=True):
    """The commits after a base, newest first."""

    commits: CommitRange  # all that are listed
    newest: int
    base: int  # version of the base; the first of the tail is the next one

    @classmethod
    def of(cls, segment: LogSegment, base: int) -> Tail:
        """The commits of a listed log after a version."""
        return cls(segment.commits, segment.version, base)

    def __len__(self) -> int:
        return max(0, self.newest - self.base)

    def windows(self) -> Iterator[tuple[FileRef, ...]]:
        """The commits, at most `WINDOW` at a time; labels are versions."""
        first, sizes = self.commits.first, self.commits.sizes
        for newest in range(self.newest, self.base, -WINDOW):
            versions = range(newest, max(self.base, newest - WINDOW), -1)
            yield tuple([FileRef(commit_path(version), sizes[version - first], version) for version in versions])

    def up_to(self, version: int) -> Tail:
        """The tail up to a version."""
        return replace(self, newest=min(self.newest, version))

    def above(self, version: int) -> Tail:
        """The tail above a version."""
        return replace(self, base=max(self.base, version))


def live_adds_plan(
    commits: tuple[FileRef, ...],
    columns: FileColumns,
    pruning: Pruning | None,
    at_once: int | None = None,
    together: int = WINDOW,
) -> ScanJson:
    """Reads what is needed of the actions of commits, some of them together, and whether they have `TABLE_ACTIONS`."""
    physical = tuple(name for _, name in columns.partition_columns)
    fields = {*columns.fields(), *(("stats",) if pruning is not None and pruning.statistics else ())}
    with_lines = (b'"tags"',) if "tags" in fields else ()
    schema = commit_schema(physical, fields)
    return ScanJson(commits, schema, lines_with=with_lines, at_once=at_once, together=together)


def tail_keys_plan(commits: tuple[FileRef, ...], at_once: int | None = None) -> ScanJson:
    """Reads what keys are made of in commits; a replay reads them again."""
    return ScanJson(commits, KEYS_SCHEMA, keep=True, all_needed=True, at_once=at_once, together=WINDOW)


_ALL_FIELDS = frozenset(each.name for each in ADD_FIELDS)
_PRESENT = pa.struct([])


def commit_schema(partition_columns: tuple[str, ...] = (), fields: Collection[str] = _ALL_FIELDS) -> pa.Schema:
    """The schema that a replay reads the lines of a commit with.

    Args:
        partition_columns: Their physical names.
        fields: Those of `add` that are read.
    """
    # JSON has objects, not maps: one with the known columns, and one whose content is read from the text of the line.
    values = pa.struct([(name, pa.string()) for name in partition_columns])
    types = {each.name: each.type for each in ADD_FIELDS} | {"partitionValues": values, "tags": pa.struct([])}
    if not partition_columns:
        del types["partitionValues"]
    add = pa.struct([(name, kind) for name, kind in types.items() if name in fields])
    return pa.schema({"add": add, "remove": KEY} | dict.fromkeys(TABLE_ACTIONS, _PRESENT))


def select(
    add: dict[str, pa.Array], live: NDArray[np.bool_], columns: FileColumns, pruning: Pruning | None
) -> pa.RecordBatch | None:
    """Of `add` actions, those that are live and may match, as files; with their labels, if they have any."""
    if not live.all():
        chosen = from_numpy(live)
        add = {name: column.filter(chosen) for name, column in add.items()}
    rows = len(add["path"])
    if pruning is not None:
        keep = pruning.by_statistics(add, rows)
        if not keep.any():
            return None
        if not keep.all():
            chosen = from_numpy(keep)
            add = {name: column.filter(chosen) for name, column in add.items()}
            rows = len(add["path"])
    labels = add.pop(FILE_LABEL, None)
    found = columns.batch(add, rows)
    return found if labels is None else found.append_column(FILE_LABEL, labels)


def _actions(
    batch: pa.RecordBatch, name: str, versions: NDArray[np.int64]
) -> tuple[dict[str, pa.Array], NDArray[np.int64], pa.StringArray]:
    """The fields of the actions of a name, with the version and the text of each."""
    actions, lines = batch.column(name), batch.column(LINE)
    if actions.null_count:
        present = to_numpy(actions.is_valid())
        chosen = from_numpy(present)
        actions, lines, versions = actions.filter(chosen), lines.filter(chosen), versions[present]
    fields = struct_fields(actions)
    paths = fields["path"]
    if paths.null_count or pc.min(pc.binary_length(paths)).as_py() == 0:
        error = pa.ArrowInvalid("there is a file action without a path")
        missing = np.flatnonzero(to_numpy(pc.equal(pc.fill_null(pc.binary_length(paths), _NO_LENGTH), _NO_LENGTH)))
        raise _not_delta(int(versions[missing[0]]), error) from error
    return fields, versions, lines


def _tags(lines: pa.StringArray, tags: pa.Array, versions: NDArray[np.int64]) -> pa.StringArray:
    present = to_numpy(tags.is_valid())
    try:
        return tags_in_lines(lines, present)
    except pa.ArrowInvalid as failure:
        for version in _in_order(versions):
            chosen = versions == version
            try:
                tags_in_lines(lines.filter(from_numpy(chosen)), present[chosen])
            except pa.ArrowInvalid as error:
                raise _not_delta(version, error) from error
        raise _not_delta(int(versions[0]), failure) from failure


_NO_LENGTH = scalar(0, pa.int32())


def _in_order(versions: NDArray[np.int64]) -> list[int]:
    """The versions of a batch, each once, in the order in which they come."""
    return versions[np.flatnonzero(np.diff(versions, prepend=-1))].tolist()  # type: ignore[no-any-return]


def _not_delta(version: int, error: Exception) -> UnreadableFileError:
    path = commit_path(version)
    return UnreadableFileError(f"{path}: {error}", path, version)


# Strict mode: commits may hold `add`, `remove` and `commitInfo`, and anything else trips.


ALLOWED = ("add", "remove", "commitInfo")
"""Actions that strict mode takes."""

_KNOWN = ("metaData", "protocol", "txn", "domainMetadata", "cdc", "sidecar", "checkpointMetadata")


class FeatureTripwire(Struct, frozen=True):
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
    """A plan of commits, one by one, with the tripwire in it."""
    others = (name for name in (*ALLOWED, *_KNOWN) if name not in plan.schema.names)
    schema = pa.schema([*plan.schema, *(pa.field(name, _PRESENT) for name in others)])
    return Filter(msgspec.structs.replace(plan, schema=schema, together=0), FeatureTripwire())


def _present(batch: pa.RecordBatch, names: tuple[str, ...]) -> NDArray[np.bool_]:
    found: NDArray[np.bool_] = np.logical_or.reduce([to_numpy(batch.column(name).is_valid()) for name in names])
    return found


# What a failure to read a commit means for the table.


@contextmanager
def naming_commits(table: str) -> Iterator[None]:
    """Explains which commit cannot be read, and what that means for the table."""
    try:
        yield
    except UnreadableFileError as error:
        explained = _commit_failure(table, error)
        if explained is not None:
            raise explained from error
        raise


def _commit_failure(table: str, error: UnreadableFileError) -> Exception | None:
    cause, version = error.__cause__, error.label
    if isinstance(cause, ObjectNotFoundError):
        msg = f"{table} cannot be read: commit {version} ({error.path}) was listed and is gone. Try again."
        return MissingCommitError(msg, version)
    if isinstance(cause, AuthenticationError):
        return AuthenticationError(f"{table} cannot be read: commit {version}: {cause}")
    if isinstance(cause, pa.ArrowException | ObjectTruncatedError):
        msg = (
            f"{table} cannot be read: commit {version} ({error.path}) is torn or not in Delta's format: {cause}. "
            f"Restore the file, or read a version before it."
        )
        return CorruptCommitError(msg, version)
    if isinstance(cause, StorageError):
        return StorageError(f"{table} cannot be read: commit {version} ({error.path}): {cause}")
    return None
