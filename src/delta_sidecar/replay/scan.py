"""The chains that give the live files of a snapshot.

    reverse:  CommitReplayPhase -> (phases of the base) -> Scan
    forward:  TailKeysPhase     -> (phases of the base) -> CommitReplayPhase -> Scan

What its phases are is the base's own business. Where one proves unusable before its first row, the commits up to it
are replayed too and the next base is taken; in reverse, what was already given out stays right, for it came from newer
commits.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from delta_sidecar.plan import (
    Consume,
    ConsumePhase,
    FilterOrdered,
    PartialResult,
    PartialResultPhase,
    Plan,
    ScanJson,
    StateMachinePhase,
    Terminus,
)
from delta_sidecar.predicate import Predicate, bind, to_physical
from delta_sidecar.replay.bases import Base, Reading, ReplayContinuation
from delta_sidecar.replay.choice import BaseChoice, ChoosesBase
from delta_sidecar.replay.commits import Commits, LiveAdds, TailKeys, live_adds_plan, tail_keys_plan
from delta_sidecar.replay.failures import explain_commit_failure
from delta_sidecar.replay.files import FileColumns
from delta_sidecar.replay.pruning import Pruning, pruning_for
from delta_sidecar.replay.seen import SeenSet

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pyarrow as pa

    from delta_sidecar.replay.snapshot import Snapshot


@dataclass(frozen=True, slots=True)
class Scan:
    """What a scan was about; the end of its chain.

    Attributes:
        snapshot: The table at its version, with logical and physical schema.
        predicate: The physical predicate that files were pruned by; None for all files.
        base_version: Version of the base that the replay ended on; -1 where it went down to version 0.
        unusable: Names of the bases that were passed over.
        seen_keys: How many keys of the tail were remembered.
    """

    snapshot: Snapshot
    predicate: Predicate | None
    base_version: int
    unusable: frozenset[str]
    seen_keys: int


def reverse_scan(snapshot: Snapshot, predicate: Predicate | None) -> StateMachinePhase[Scan]:
    """The newest commits first, then the base."""
    return _start(snapshot, predicate, forward=False).replay_tail()


def forward_scan(snapshot: Snapshot, predicate: Predicate | None) -> StateMachinePhase[Scan]:
    """The base first, then the commits after it."""
    return _start(snapshot, predicate, forward=True).remember_tail()


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
    reading = Reading(snapshot.table, SeenSet(), columns, bind_predicate(snapshot, predicate), forward)
    return _ScanState(snapshot.table, snapshot.choice, snapshot, reading)


@dataclass(frozen=True, slots=True)
class _ScanState(ChoosesBase[Scan], ReplayContinuation[Scan]):
    """Where a scan stands: everything after the first base is replayed, or in forward order remembered."""

    snapshot: Snapshot
    reading: Reading

    def replay_tail(self, up_to: int | None = None) -> StateMachinePhase[Scan]:
        commits = self.choice.tail(up_to)
        return PartialResult(CommitReplayPhase(self, commits, self.live_adds())) if commits else self.to_base()

    def remember_tail(self) -> StateMachinePhase[Scan]:
        commits = self.choice.tail()
        return Consume(TailKeysPhase(self, commits)) if commits else self.to_base()

    def live_adds(self) -> LiveAdds:
        return LiveAdds(self.reading.seen, self.reading.columns, self.reading.pruning)

    def to_base(self) -> StateMachinePhase[Scan]:
        return self.choice.bases[0].trust(self, with_table=False) if self.choice.bases else self.replayed()

    def trusted(self, base: Base) -> StateMachinePhase[Scan]:
        return base.replay(replace(self.reading, seen=self.reading.seen.freeze()), self)

    def onto(self, choice: BaseChoice) -> StateMachinePhase[Scan]:
        """Goes on with another base: in reverse the commits down to it come first; forward begins again.

        The other base may even be newer, where a listing came to show it. In reverse that does no harm, for what was
        given out is also remembered; the keys that forward remembered would hide files of it.
        """
        state = replace(self, choice=choice)
        return state.afresh().remember_tail() if self.reading.forward else state.replay_tail(self.choice.base_version)

    def afresh(self) -> _ScanState:
        return replace(self, reading=replace(self.reading, seen=SeenSet()))

    def replayed(self) -> StateMachinePhase[Scan]:
        commits = self.choice.tail()
        if self.reading.forward and commits:
            # Which adds of the tail are live is found as in reverse, from the newest commit down.
            state = self.afresh()
            return PartialResult(CommitReplayPhase(state, commits, state.live_adds(), is_last=True))
        return self.end()

    def end(self) -> StateMachinePhase[Scan]:
        pruning, choice = self.reading.pruning, self.choice
        predicate = pruning.predicate if pruning is not None else None
        snapshot = replace(self.snapshot, choice=choice)
        return Terminus(Scan(snapshot, predicate, choice.base_version, choice.unusable, len(self.reading.seen)))


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
        raise explain_commit_failure(self.state.table, error) from error


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
        TailKeys(self.state.reading.seen).take(data)
        return self.state.to_base()

    def recover(self, error: Exception) -> StateMachinePhase[Scan] | None:
        """A commit that cannot be read fails the scan; the error names it."""
        raise explain_commit_failure(self.state.table, error) from error
