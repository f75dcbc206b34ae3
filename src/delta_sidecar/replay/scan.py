"""The chains that give the live files of a snapshot.

    reverse:  CommitReplayPhase -> (CheckpointTopPhase) -> CheckpointReplayPhase... -> Scan
    forward:  TailKeysPhase     -> (CheckpointTopPhase) -> CheckpointReplayPhase... -> CommitReplayPhase -> Scan

Where a base proves unusable before its first row, the commits up to it are replayed too and the next older base is
taken; in reverse, what was already given out stays right, for it came from newer commits.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from delta_sidecar.plan import (
    Consume,
    ConsumePhase,
    FileRef,
    FilterOrdered,
    PartialResult,
    PartialResultPhase,
    Plan,
    ScanJson,
    StateMachinePhase,
    Terminus,
)
from delta_sidecar.predicate import Predicate, bind, to_physical
from delta_sidecar.replay.bases import BaseContinuation, CheckpointTopPhase, TrustedCheckpoint
from delta_sidecar.replay.checkpoint import BaseRows, base_plan
from delta_sidecar.replay.commits import Commits, LiveAdds, TailKeys, live_adds_plan, tail_keys_plan
from delta_sidecar.replay.failures import explain_base_failure, explain_commit_failure, no_base_left
from delta_sidecar.replay.files import FileColumns
from delta_sidecar.replay.opening import FileListingPhase, ListingContinuation, Opening
from delta_sidecar.replay.pruning import Pruning, pruning_for
from delta_sidecar.replay.seen import SeenSet

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pyarrow as pa

    from delta_sidecar.log.segment import CheckpointFiles, LogSegment
    from delta_sidecar.replay.snapshot import Snapshot


@dataclass(frozen=True, slots=True)
class Scan:
    """What a scan was about; the end of its chain.

    Attributes:
        snapshot: The table at its version, with logical and physical schema.
        predicate: The physical predicate that files were pruned by; None for all files.
        base_version: Version of the base that the replay ended on; -1 where it went down to version 0.
        unusable: Names of the checkpoints that were passed over.
        seen_keys: How many keys of the tail were remembered.
    """

    snapshot: Snapshot
    predicate: Predicate | None
    base_version: int
    unusable: frozenset[str]
    seen_keys: int


def reverse_scan(snapshot: Snapshot, predicate: Predicate | None) -> StateMachinePhase[Scan]:
    """The newest commits first, then the base."""
    state = _start(snapshot, predicate, forward=False)
    return state.replay_tail(state.snapshot.segment.tail(state.base_version))


def forward_scan(snapshot: Snapshot, predicate: Predicate | None) -> StateMachinePhase[Scan]:
    """The base first, then the commits after it."""
    state = _start(snapshot, predicate, forward=True)
    return state.remember_tail(state.snapshot.segment.tail(state.base_version))


def bind_predicate(snapshot: Snapshot, predicate: Predicate | None) -> Pruning | None:
    """Binds a predicate to a table's columns, in physical names.

    Raises:
        PredicateError: It names an unknown column, or compares one with a value of another type.
    """
    if predicate is None:
        return None
    columns = snapshot.columns
    physical = to_physical(bind(predicate, columns.logical), columns.physical_names)
    types = columns.bounded_types()
    partitions = {(name,) for name in columns.physical_partition_columns}
    return pruning_for(physical, types, frozenset(partitions & types.keys()))


def _start(snapshot: Snapshot, predicate: Predicate | None, *, forward: bool) -> _ScanState:
    names = snapshot.columns
    columns = FileColumns(
        tuple(zip(names.partition_columns, names.physical_partition_columns, strict=True)), names.instants()
    )
    return _ScanState(
        snapshot=snapshot,
        pruning=bind_predicate(snapshot, predicate),
        columns=columns,
        seen=SeenSet(),
        base_version=snapshot.segment.base_version,
        excluded=snapshot.excluded,
        forward=forward,
    )


@dataclass(frozen=True, slots=True)
class _ScanState(BaseContinuation[Scan], ListingContinuation[Scan]):
    """Where a scan stands: everything above `base_version` is replayed, or in forward order remembered."""

    snapshot: Snapshot
    pruning: Pruning | None
    columns: FileColumns
    seen: SeenSet
    base_version: int
    excluded: frozenset[str]
    forward: bool
    torn: Exception | None = None

    def replay_tail(self, commits: Commits) -> StateMachinePhase[Scan]:
        if not commits:
            return self.to_base()
        return PartialResult(CommitReplayPhase(self, commits, self.live_adds()))

    def remember_tail(self, commits: Commits) -> StateMachinePhase[Scan]:
        return Consume(TailKeysPhase(self, commits)) if commits else self.to_base()

    def live_adds(self) -> LiveAdds:
        return LiveAdds(self.seen, self.columns, self.pruning)

    def to_base(self) -> StateMachinePhase[Scan]:
        segment = self.snapshot.segment
        if not segment.checkpoints:
            return self.after_base()
        opened = self.snapshot.checkpoint
        if opened is not None and opened.files == segment.checkpoints[0]:
            return self.trusted(opened)
        return Consume(CheckpointTopPhase(segment, segment.checkpoints[0], self, with_table=False))

    def trusted(self, base: TrustedCheckpoint) -> StateMachinePhase[Scan]:
        rows = BaseRows(self.seen.freeze(), self.columns, self.pruning)
        texts = tuple(leaf for leaf in base.leaves if leaf.path.endswith(".json"))
        tables = tuple(leaf for leaf in base.leaves if not leaf.path.endswith(".json"))
        parts = tuple(part for part in (texts, tables) if part)
        return PartialResult(CheckpointReplayPhase(self, parts, rows))

    def distrusted(self, files: CheckpointFiles, error: Exception) -> StateMachinePhase[Scan]:
        segment = self.snapshot.segment
        left = replace(segment, checkpoints=segment.checkpoints[1:])
        excluded = self.excluded | {files.name}
        if left.checkpoints or left.from_start:
            return replace(self, excluded=excluded).on_segment(left)
        failure = no_base_left(self.snapshot.table, files, error)
        if left.complete:
            raise failure from error
        pinned = Opening(self.snapshot.table, self.snapshot.version)
        return Consume(FileListingPhase(pinned, replace(self, excluded=excluded, torn=failure), None, excluded))

    def unreachable(self) -> Exception | None:
        return self.torn

    def listed(self, segment: LogSegment) -> StateMachinePhase[Scan]:
        return self.on_segment(segment)

    def on_segment(self, segment: LogSegment) -> StateMachinePhase[Scan]:
        """Goes on with another base: in reverse the commits down to it come first; forward begins again.

        The other base may even be newer, where a listing came to show it. In reverse that does no harm, for what was
        given out is also remembered; the keys that forward remembered would hide files of it.
        """
        state = replace(self, snapshot=replace(self.snapshot, segment=segment), base_version=segment.base_version)
        commits = segment.tail(segment.base_version)
        if self.forward:
            return replace(state, seen=SeenSet()).remember_tail(commits)
        return state.replay_tail(tuple(entry for entry in commits if entry[0] <= self.base_version))

    def after_base(self) -> StateMachinePhase[Scan]:
        commits = self.snapshot.segment.tail(self.base_version)
        if self.forward and commits:
            # Which adds of the tail are live is found as in reverse, from the newest commit down.
            state = replace(self, seen=SeenSet(), forward=False)
            return PartialResult(CommitReplayPhase(state, commits, state.live_adds(), is_last=True))
        return self.end()

    def end(self) -> StateMachinePhase[Scan]:
        predicate = self.pruning.predicate if self.pruning is not None else None
        return Terminus(Scan(self.snapshot, predicate, self.base_version, self.excluded, len(self.seen)))


@dataclass(frozen=True, slots=True)
class CommitReplayPhase(PartialResultPhase[Scan]):
    """Lets the live adds of commits through, newest commit first."""

    state: _ScanState
    commits: Commits
    live: LiveAdds
    is_last: bool = False

    def plan(self) -> Plan:
        """The commits, filtered in order."""
        source = live_adds_plan(self.commits, self.state.snapshot.columns.physical_partition_columns)
        return FilterOrdered(source, self.live)

    def is_parallelizable(self) -> bool:
        """No: what a commit hides is known only once the newer ones are through."""
        return False

    def next(self) -> StateMachinePhase[Scan]:
        """The base, or the end."""
        self.live.flush()
        return self.state.end() if self.is_last else self.state.to_base()

    def recover(self, error: Exception) -> StateMachinePhase[Scan] | None:
        """A commit that cannot be read fails the scan; the error names it."""
        raise explain_commit_failure(self.state.snapshot.table, error) from error


@dataclass(frozen=True, slots=True)
class TailKeysPhase(ConsumePhase[Scan]):
    """Remembers the keys of the tail, so that the base can go first."""

    state: _ScanState
    commits: Commits

    def plan(self) -> ScanJson:
        """Only what keys are made of."""
        return tail_keys_plan(self.commits)

    def next(self, data: Iterator[pa.RecordBatch]) -> StateMachinePhase[Scan]:
        """Takes them all."""
        TailKeys(self.state.seen).take(data)
        return self.state.to_base()

    def recover(self, error: Exception) -> StateMachinePhase[Scan] | None:
        """A commit that cannot be read fails the scan; the error names it."""
        raise explain_commit_failure(self.state.snapshot.table, error) from error


@dataclass(frozen=True, slots=True)
class CheckpointReplayPhase(PartialResultPhase[Scan]):
    """Lets the live files of a checkpoint through. The seen-set does not change any more."""

    state: _ScanState
    parts: tuple[tuple[FileRef, ...], ...]
    rows: BaseRows = field(repr=False)

    def plan(self) -> Plan:
        """The first kind of files that is left."""
        return base_plan(self.parts[0], self.rows)

    def is_parallelizable(self) -> bool:
        """Yes."""
        return True

    def next(self) -> StateMachinePhase[Scan]:
        """The other kind of files, or what comes after the base."""
        if len(self.parts) > 1:
            return PartialResult(replace(self, parts=self.parts[1:]))
        return self.state.after_base()

    def recover(self, error: Exception) -> StateMachinePhase[Scan] | None:
        """Rows of it may have been given out: the scan fails, and the error names the file."""
        raise explain_base_failure(self.state.snapshot.table, error) from error
