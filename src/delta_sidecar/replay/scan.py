"""The chains that give the live files of a snapshot.

    reverse:  CommitReplayPhase -> (phases of the base) -> Scan
    forward:  TailKeysPhase     -> (phases of the base) -> CommitReplayPhase -> Scan

What its phases are is the base's own business. Where one proves unusable before its first row, the commits up to it
are replayed too and the next base is taken; in reverse, what was already given out stays right, for it came from newer
commits. One that breaks off later, and can tell how far it came, is followed by the next base as well, which goes on
with the files that it did not come to.
"""

from __future__ import annotations

from copy import deepcopy
from dataclasses import dataclass, field, replace
from functools import partial
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
from delta_sidecar.replay.failures import raise_commit_failure
from delta_sidecar.replay.files import FileColumns
from delta_sidecar.replay.pruning import Pruning, pruning_for
from delta_sidecar.replay.seen import SeenSet

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    import pyarrow as pa

    from delta_sidecar.plan.nodes import RowTest
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


def reverse_scan(
    snapshot: Snapshot, predicate: Predicate | None, without: frozenset[str] = frozenset()
) -> StateMachinePhase[Scan]:
    """The newest commits first, then the base.

    Args:
        snapshot: The table.
        predicate: Which files are wanted; None for all.
        without: Columns that nobody wants, of `OPTIONAL_COLUMNS`: they come as nulls.
    """
    return _start(snapshot, predicate, without, forward=False).replay_tail()


def forward_scan(
    snapshot: Snapshot, predicate: Predicate | None, without: frozenset[str] = frozenset()
) -> StateMachinePhase[Scan]:
    """The base first, then the commits after it. Arguments as for `reverse_scan`."""
    return _start(snapshot, predicate, without, forward=True).remember_tail()


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


def _start(snapshot: Snapshot, predicate: Predicate | None, without: frozenset[str], *, forward: bool) -> _ScanState:
    names = snapshot.columns
    partition_columns = tuple(zip(names.partition_columns, names.physical_partition_columns, strict=True))
    columns = FileColumns(partition_columns, names.instants(), without)
    reading = Reading(snapshot.table, SeenSet(), columns, bind_predicate(snapshot, predicate), forward)
    return _ScanState(snapshot.table, snapshot.choice, snapshot, reading)


@dataclass(frozen=True, slots=True)
class _ScanState(ChoosesBase[Scan], ReplayContinuation[Scan]):
    """Where a scan stands: everything after the first base is replayed, or in forward order remembered."""

    snapshot: Snapshot
    reading: Reading

    def replay_tail(self, up_to: int | None = None) -> StateMachinePhase[Scan]:
        return self.replay(self.choice.tail(up_to), self.to_base)

    def remember_tail(self) -> StateMachinePhase[Scan]:
        commits = self.choice.tail()
        return Consume(TailKeysPhase(self, commits)) if commits else self.to_base()

    def replay(self, commits: Commits, then: Callable[[], StateMachinePhase[Scan]]) -> StateMachinePhase[Scan]:
        """Goes through commits, and then on."""
        reading = self.reading
        live = LiveAdds(reading.seen, reading.columns, reading.pruning)
        return PartialResult(CommitReplayPhase(reading, commits, live, then)) if commits else then()

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
        if self.reading.forward:
            return state.forgetful().remember_tail()
        return state.replay_tail(self.choice.base_version)

    def replayed(self) -> StateMachinePhase[Scan]:
        commits = self.choice.tail()
        if self.reading.forward and commits:
            # Which adds of the tail are live is found as in reverse, from the newest commit down.
            state = self.forgetful()
            return state.replay(commits, state.end)
        return self.end()

    def broken(self, base: Base, error: Exception, decided: RowTest) -> StateMachinePhase[Scan]:
        """Goes on with the next base and passes over what this one decided on.

        It decided on files as of its version; the tail after it has the last word on them, and is not passed over. So
        forward lets the tail through now, and what is left comes in reverse.
        """
        if self.reading.forward:
            state = self.forgetful()
            state = replace(state, reading=replace(state.reading, forward=False))
            return state.replay(self.choice.tail(), partial(state.past, base, error, decided))
        # Lookups in the frozen set may still be under way; what comes now goes into another one.
        state = replace(self, reading=replace(self.reading, seen=deepcopy(self.reading.seen)))
        return state.past(base, error, decided)

    def past(self, base: Base, error: Exception, decided: RowTest) -> StateMachinePhase[Scan]:
        reading = replace(self.reading, decided=(*self.reading.decided, decided))
        return replace(self, reading=reading).distrusted(base, error)

    def forgetful(self) -> _ScanState:
        return replace(self, reading=replace(self.reading, seen=SeenSet()))

    def end(self) -> StateMachinePhase[Scan]:
        pruning, choice = self.reading.pruning, self.choice
        predicate = pruning.predicate if pruning is not None else None
        snapshot = replace(self.snapshot, choice=choice)
        return Terminus(Scan(snapshot, predicate, choice.base_version, choice.unusable, len(self.reading.seen)))


@dataclass(frozen=True, slots=True)
class CommitReplayPhase(PartialResultPhase[Scan]):
    """Lets the live adds of commits through, newest commit first."""

    reading: Reading
    commits: Commits
    live: LiveAdds = field(repr=False)
    then: Callable[[], StateMachinePhase[Scan]] = field(repr=False)

    def plan(self) -> Plan:
        """The commits, filtered in order."""
        physical = tuple(name for _, name in self.reading.columns.partition_columns)
        return self.reading.rest(FilterOrdered(live_adds_plan(self.commits, physical), self.live))

    def is_parallelizable(self) -> bool:
        """No: what a commit hides is known only once the newer ones are through."""
        return False

    def next(self) -> StateMachinePhase[Scan]:
        """Whatever comes after these commits."""
        self.live.flush()
        return self.then()

    def recover(self, error: Exception) -> StateMachinePhase[Scan] | None:
        """A commit that cannot be read fails the scan; the error names it."""
        raise_commit_failure(self.reading.table, error)
        return None


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
        raise_commit_failure(self.state.table, error)
        return None
