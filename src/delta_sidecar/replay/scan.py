"""The chains that give the live files of a snapshot.

    reverse:  CommitReplayPhase -> (phases of the base) -> Scan
    forward:  TailKeysPhase     -> (phases of the base) -> CommitReplayPhase -> Scan

A tail is gone through in windows, a phase each. A scan that goes on where another one stopped only remembers the keys
of what that one went through.

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

from delta_sidecar.errors import PageTokenExpiredError, SidecarError, StrictModeError
from delta_sidecar.events import BaseChosen, Events, FallbackTriggered
from delta_sidecar.log.names import LogFileKind, parse_log_name
from delta_sidecar.plan import (
    Consume,
    ConsumePhase,
    FilterOrdered,
    PartialResult,
    PartialResultPhase,
    Plan,
    StateMachinePhase,
    Terminus,
)
from delta_sidecar.replay.bases.base import (
    CHECKPOINT_TIER,
    Base,
    Decided,
    Reading,
    ReplayContinuation,
    TrustContinuation,
)
from delta_sidecar.replay.bases.pieces import Course
from delta_sidecar.replay.bases.sidecar import SidecarBase
from delta_sidecar.replay.counts import Account
from delta_sidecar.replay.failures import raise_commit_failure
from delta_sidecar.replay.files import FileColumns
from delta_sidecar.replay.open import ListedSidecar
from delta_sidecar.replay.pruning import bind_predicate
from delta_sidecar.replay.resume import note_given
from delta_sidecar.replay.seen.seen import SeenSet
from delta_sidecar.replay.snapshot import BaseChoice, ChoosesBase
from delta_sidecar.replay.tail import LiveAdds, StrictMode, TailKeys, live_adds_plan, tail_keys_plan
from delta_sidecar.sidecar.names import manifest_name, sidecar_name

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    import pyarrow as pa

    from delta_sidecar.log.segment import Tail
    from delta_sidecar.plan import Place
    from delta_sidecar.plan.nodes import RowTest
    from delta_sidecar.predicate import Predicate
    from delta_sidecar.replay.resume import BrokenOff
    from delta_sidecar.replay.snapshot import Snapshot


@dataclass(frozen=True, slots=True)
class Manner:
    """How a log is replayed, beyond which files are wanted.

    Attributes:
        strict: Whether actions of commits other than add, remove and commitInfo trip.
        fallback: Whether the scan then goes on as if it were not strict, rather than fail.
        seen_memory: Most bytes of keys in memory.
        recent: Whether the newest files of a base are wanted first, as far as it is in order of time.
        start: Where to begin; None for the start. What comes before counts as given out.
        decided: What bases decided on before another scan broke off.
        columns: Makes the batches that are let through; None for batches of files.
        at_once: How many row groups of a metadata sidecar are fetched together.
        limit: Most files that are wanted, with those that count as given out where `start` is; None for all.
        account: Is kept up to date.
        events: Is told what happens.
    """

    strict: bool = False
    fallback: bool = True
    seen_memory: int | None = None
    recent: bool = False
    start: Place | None = None
    decided: tuple[Decided, ...] = ()
    columns: FileColumns | None = None
    at_once: int = 5
    limit: int | None = None
    account: Account = field(default_factory=Account, repr=False, compare=False)
    events: Events = field(default_factory=Events, repr=False, compare=False)

    @property
    def start_version(self) -> int | None:
        """The version of the commit to begin with; None where that is not in a commit."""
        name = None if self.start is None else parse_log_name(self.start.path)
        return name.version if name is not None and name.kind is LogFileKind.COMMIT else None

    @property
    def starts_in_base(self) -> bool:
        """Whether files of the base count as given out."""
        return self.start is not None and self.start_version is None


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
    snapshot: Snapshot,
    predicate: Predicate | None,
    without: frozenset[str] = frozenset(),
    manner: Manner | None = None,
) -> StateMachinePhase[Scan]:
    """The newest commits first, then the base.

    Args:
        snapshot: The table.
        predicate: Which files are wanted; None for all.
        without: Columns that nobody wants, of `OPTIONAL_COLUMNS`: they come as nulls.
        manner: How.
    """
    manner = manner or Manner()
    state = _start(snapshot, predicate, without, manner, forward=False)
    if manner.starts_in_base:
        return state.remember_tail()
    version = manner.start_version
    if version is None:
        return state.replay_tail()
    return state.remember(state.choice.tail().above(version), partial(state.replay_tail, version))


def forward_scan(
    snapshot: Snapshot,
    predicate: Predicate | None,
    without: frozenset[str] = frozenset(),
    manner: Manner | None = None,
) -> StateMachinePhase[Scan]:
    """The base first, then the commits after it. Arguments as for `reverse_scan`."""
    manner = manner or Manner()
    state = _start(snapshot, predicate, without, manner, forward=True)
    version = manner.start_version
    if version is None:
        return state.remember_tail()
    tail = state.choice.tail()
    return state.remember(tail.above(version), partial(state.replay, tail.up_to(version), state.end))


def _start(
    snapshot: Snapshot, predicate: Predicate | None, without: frozenset[str], manner: Manner, *, forward: bool
) -> _ScanState:
    names = snapshot.columns
    partition_columns = tuple(zip(names.partition_columns, names.physical_partition_columns, strict=True))
    reading = Reading(
        snapshot.table,
        _seen_set(manner),
        manner.columns or FileColumns(partition_columns, names.instants(), without),
        bind_predicate(snapshot.columns, predicate),
        forward,
        recent=manner.recent,
        start=manner.start if manner.start_version is None else None,
        decided=manner.decided,
        at_once=manner.at_once,
        limit=manner.limit,
        tally=manner.account.tally,
        events=manner.events,
    )
    strict = StrictMode(manner.strict, manner.fallback)
    return _ScanState(snapshot.table, snapshot.choice, snapshot, reading, manner, strict, events=manner.events)


def _seen_set(manner: Manner) -> SeenSet:
    return SeenSet() if manner.seen_memory is None else SeenSet(manner.seen_memory)


@dataclass(frozen=True, slots=True)
class _ScanState(ChoosesBase[Scan], ReplayContinuation[Scan]):
    """Where a scan stands: everything after the first base is replayed, or in forward order remembered."""

    snapshot: Snapshot
    reading: Reading
    manner: Manner
    strict: StrictMode

    def __post_init__(self) -> None:
        account = self.manner.account
        account.choice, account.seen, account.decided = self.choice, self.reading.seen, self.reading.decided

    def replay_tail(self, up_to: int | None = None) -> StateMachinePhase[Scan]:
        return self.replay(self.choice.tail(up_to), self.to_base)

    def remember_tail(self) -> StateMachinePhase[Scan]:
        return self.remember(self.choice.tail(), self.to_base)

    def remember(self, commits: Tail, then: Callable[[], StateMachinePhase[Scan]]) -> StateMachinePhase[Scan]:
        """Takes the keys of commits, and goes on."""
        return Consume(TailKeysPhase(self, commits, then)) if commits else then()

    def replay(self, commits: Tail, then: Callable[[], StateMachinePhase[Scan]]) -> StateMachinePhase[Scan]:
        """Goes through commits, and then on."""
        reading = self.reading
        for each in reading.decided:
            newer, older = commits.above(each.version), commits.up_to(each.version)
            if newer and older:
                return self.replay(newer, partial(self.replay, older, then))
        live = LiveAdds(reading.seen, reading.columns, reading.pruning, reading.tally)
        return PartialResult(CommitReplayPhase(self, commits, live, then)) if commits else then()

    def goes_on_after(self, error: Exception) -> bool:
        """Whether the error is that strict mode tripped, and the scan goes on without it."""
        if not isinstance(error, StrictModeError):
            return False
        self.strict.disarm(self.table, error)
        self.events(FallbackTriggered(table=self.table, action=error.action, version=error.version))
        return True

    def to_base(self) -> StateMachinePhase[Scan]:
        if self.choice.bases:
            return self.choice.bases[0].trust(self, with_table=False)
        self.events(BaseChosen(table=self.table, base="", version=-1, tier=CHECKPOINT_TIER))
        return self.replayed()

    def trusted(self, base: Base) -> StateMachinePhase[Scan]:
        self.events(BaseChosen(table=self.table, base=base.name, version=base.version, tier=base.tier))
        state = replace(self, choice=self.choice.learned(base))
        return base.replay(self.reading.of_base(), state)

    def distrusted(self, base: Base, error: Exception) -> StateMachinePhase[Scan]:
        """Goes on to the next base, unless files of this one count as given out."""
        if self.manner.starts_in_base:
            msg = f"{self.table}: {base.name}, which the page token is a place in, cannot be used: {error}"
            raise PageTokenExpiredError(msg) from error
        return ChoosesBase.distrusted(self, base, error)

    def onto(self, choice: BaseChoice) -> StateMachinePhase[Scan]:
        """Goes on with another base: in reverse the commits down to it come first; forward begins again.

        The other base may even be newer, where a listing came to show it. In reverse that does no harm, for what was
        given out is also remembered, and who goes on later remembers as much; the keys that forward remembered would
        hide files of it.
        """
        if self.reading.forward:
            # A base that is newer than one which broke off has files that came after that one, and are in no way
            # decided on: they come with the tail.
            reach = min((each.version for each in self.reading.decided), default=None)
            return replace(self, choice=replace(choice, reach=reach)).forgetful().remember_tail()
        reach = self.choice.tail_base
        return replace(self, choice=replace(choice, reach=reach)).replay_tail(reach)

    def replayed(self) -> StateMachinePhase[Scan]:
        commits = self.choice.tail()
        if self.reading.forward and commits:
            # Which adds of the tail are live is found as in reverse, from the newest commit down.
            state = self.forgetful()
            return state.replay(commits, state.end)
        return self.end()

    def broken(self, base: Base, error: Exception, decided: RowTest) -> StateMachinePhase[Scan]:
        """Goes on with the next base and passes over what this one decided on.

        It decided on files as of its version; the tail after it has the last word on them, and is not passed over.
        """
        # Of a base that is newer than the tail reaches, only files that are older than the tail were let through.
        known = Decided(self.choice.tail_base, decided)
        reading = replace(self.reading, decided=(*self.reading.decided, known), start=None)
        if not reading.forward:
            # Lookups in the frozen set may still be under way; what comes now goes into another one.
            reading = replace(reading, seen=deepcopy(reading.seen))
        # Where an earlier scan stood counts as decided on too, so that the next base begins at its start.
        manner = replace(self.manner, start=None)
        return ChoosesBase.distrusted(replace(self, reading=reading, manner=manner), base, error)

    def forgetful(self) -> _ScanState:
        return replace(self, reading=replace(self.reading, seen=_seen_set(self.manner), start=None))

    def end(self) -> StateMachinePhase[Scan]:
        pruning, choice = self.reading.pruning, self.choice
        predicate = pruning.predicate if pruning is not None else None
        snapshot = replace(self.snapshot, choice=choice)
        return Terminus(Scan(snapshot, predicate, choice.base_version, choice.unusable, len(self.reading.seen)))


@dataclass(frozen=True, slots=True)
class CommitReplayPhase(PartialResultPhase[Scan]):
    """Lets the live adds of commits through, newest commit first."""

    state: _ScanState = field(repr=False)
    commits: Tail
    live: LiveAdds = field(repr=False)
    then: Callable[[], StateMachinePhase[Scan]] = field(repr=False)

    def plan(self) -> Plan:
        """The next window of commits, filtered in order."""
        reading = self.state.reading
        physical = tuple(name for _, name in reading.columns.partition_columns)
        commits = self.state.strict.watch(live_adds_plan(self.commits, physical))
        return reading.rest(FilterOrdered(commits, self.live), self.commits.newest)

    def is_parallelizable(self) -> bool:
        """No: what a commit hides is known only once the newer ones are through."""
        return False

    def next(self) -> StateMachinePhase[Scan]:
        """The next window, or whatever comes after these commits."""
        self.live.flush()
        rest = self.commits.rest()
        return PartialResult(replace(self, commits=rest)) if rest else self.then()

    def recover(self, error: Exception) -> StateMachinePhase[Scan] | None:
        """A commit that cannot be read fails the scan; the error names it. One that trips is read again, unwatched.

        What it gave out before it tripped is remembered, and does not come again.
        """
        if isinstance(error, StrictModeError) and self.state.goes_on_after(error):
            return PartialResult(replace(self, commits=self.commits.up_to(error.version)))
        raise_commit_failure(self.state.table, error)
        return None


@dataclass(frozen=True, slots=True)
class TailKeysPhase(ConsumePhase[Scan]):
    """Remembers the keys of commits, so that the base can go first, or that a scan can go on after them."""

    state: _ScanState
    commits: Tail
    then: Callable[[], StateMachinePhase[Scan]] = field(repr=False)

    def plan(self) -> Plan:
        """Of the next window of commits, only what keys are made of."""
        return self.state.strict.watch(tail_keys_plan(self.commits))

    def next(self, data: Iterator[pa.RecordBatch]) -> StateMachinePhase[Scan]:
        """Takes them all."""
        TailKeys(self.state.reading.seen).take(data)
        rest = self.commits.rest()
        return Consume(replace(self, commits=rest)) if rest else self.then()

    def recover(self, error: Exception) -> StateMachinePhase[Scan] | None:
        """A commit that cannot be read fails the scan; the error names it. One that trips is read again, unwatched."""
        if self.state.goes_on_after(error):
            return Consume(self)
        raise_commit_failure(self.state.table, error)
        return None


# Which files a metadata sidecar let through on an earlier page, before it broke off: read again from the sidecar.


def given_again(snapshot: Snapshot, where: BrokenOff, predicate: Predicate | None) -> StateMachinePhase[RowTest]:
    """The start of a chain that ends in a test of which files those are.

    Args:
        snapshot: The table.
        where: Where the sidecar broke off.
        predicate: Which files were wanted.

    Raises:
        PageTokenExpiredError: The sidecar is gone, or another one.
    """
    tiers = {manifest_name(where.version): 1, sidecar_name(where.version): 2}
    segment = snapshot.choice.segment
    if where.base not in tiers or where.base not in segment.sidecars:
        raise _gone(snapshot.table, where.base, "it is gone")
    base = SidecarBase.of(ListedSidecar(where.version, tiers[where.base]), segment)
    if where.identity not in base.identity.values():
        raise _gone(snapshot.table, where.base, "it was replaced")
    return base.trust(_Again(snapshot, where, predicate), with_table=False)


@dataclass(frozen=True, slots=True)
class _Again(TrustContinuation["RowTest"], ReplayContinuation["RowTest"]):
    snapshot: Snapshot
    where: BrokenOff
    predicate: Predicate | None

    def trusted(self, base: Base) -> StateMachinePhase[RowTest]:
        if not isinstance(base, SidecarBase) or base.layout is None:
            raise _gone(self.snapshot.table, base.name, "it is no metadata sidecar")
        pruning = bind_predicate(self.snapshot.columns, self.predicate)
        where = self.where
        reading = Reading(self.snapshot.table, SeenSet(), FileColumns(()), pruning, where.forward, recent=where.recent)
        error = SidecarError("it broke off on an earlier page")
        course = Course.of(base, base.layout, reading, self)
        return note_given(course, self.where.index, error, of_segment=self.where.of_segment)

    def distrusted(self, base: Base, error: Exception) -> StateMachinePhase[RowTest]:
        raise _gone(self.snapshot.table, base.name, str(error)) from error

    def replayed(self) -> StateMachinePhase[RowTest]:
        raise _gone(self.snapshot.table, self.where.base, "it did not break off")

    def broken(self, base: Base, error: Exception, decided: RowTest) -> StateMachinePhase[RowTest]:
        del base, error
        return Terminus(decided)


def _gone(table: str, base: str, reason: str) -> PageTokenExpiredError:
    msg = (
        f"{table}: {base}, which files of earlier pages came from, cannot be read again ({reason}): begin at the first "
        f"page"
    )
    return PageTokenExpiredError(msg)
