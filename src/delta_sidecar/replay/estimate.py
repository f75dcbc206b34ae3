"""How many files, rows and bytes a snapshot has, within bounds that always hold, by at most two more requests.

    (ChecksumCountsPhase) -> KeptTailPhase* -> (UnreadTailPhase) -> (phases that count the base) -> Estimate

Each source gives the state at its version: a checksum file, the manifest of a metadata sidecar, the footers of a
checkpoint, the start of the log. What the commits after that version add is counted where they were read with the
snapshot, and else bounded by their sizes; each key that they name may hide one file of that state, or none. Where
several sources tell, all of them are right.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from delta_sidecar.log.hints import read_checksum
from delta_sidecar.log.names import checksum_path
from delta_sidecar.plan import FILE_LABEL, Consume, ConsumePhase, ReadFiles, ScanJson, StateMachinePhase, Terminus
from delta_sidecar.replay.base_counts import CountContinuation, count_base
from delta_sidecar.replay.checkpoint import CheckpointBase
from delta_sidecar.replay.commits import LiveAdds, live_adds_plan
from delta_sidecar.replay.failures import raise_commit_failure
from delta_sidecar.replay.footer_facts import START, BaseFacts
from delta_sidecar.replay.pruning import bind_predicate
from delta_sidecar.replay.ranges import UNKNOWN, Counts, Range
from delta_sidecar.replay.seen import SeenSet
from delta_sidecar.replay.tail_counts import NO_COMMITS, TailCounter, TailFacts, counted_columns

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pyarrow as pa

    from delta_sidecar.log.tail import Tail
    from delta_sidecar.predicate import Predicate
    from delta_sidecar.replay.snapshot import Snapshot

MOST_REQUESTS = 2
"""Requests that are made beyond those of the snapshot."""

_CHECKSUM_BYTES = 4 << 20
_ONE_REQUEST = 8 << 20


@dataclass(frozen=True, slots=True)
class Estimate:
    """What a snapshot has.

    Attributes:
        counts: Files, rows and bytes; with a predicate those of files that may match.
        sources: What was used, in words.
    """

    counts: Counts
    sources: tuple[str, ...] = ()


def estimate(snapshot: Snapshot, predicate: Predicate | None = None) -> StateMachinePhase[Estimate]:
    """The start of the chain that ends in an `Estimate`, to be run by the executor that opened the snapshot.

    With a predicate, only files that may match count; it may be that none does.
    """
    choice = snapshot.choice
    usable = [version for version in choice.segment.checksums if version >= choice.base_version]
    live = LiveAdds(SeenSet(), counted_columns(snapshot), bind_predicate(snapshot.columns, predicate))
    state = _Estimating(snapshot, TailCounter(live))
    return Consume(ChecksumCountsPhase(state, max(usable))) if usable else state.below(None)


@dataclass(frozen=True, slots=True)
class _Estimating(CountContinuation[Estimate]):
    """What is known so far.

    Attributes:
        snapshot: The snapshot.
        counter: Counts what the commits that are read add.
        told: What the sources so far tell together.
        sources: Those sources, in words.
        unread: The commits after the base that were not read.
        tail: What the commits after the base come to.
    """

    snapshot: Snapshot = field(repr=False)
    counter: TailCounter = field(repr=False)
    told: Counts = UNKNOWN
    sources: tuple[str, ...] = ()
    unread: Tail | None = None
    tail: TailFacts = NO_COMMITS

    def count_tail(self, commits: Tail, then: _TailEnd) -> StateMachinePhase[Estimate]:
        """Counts commits that were kept, newest first, as far as they reach."""
        return Consume(KeptTailPhase(self, commits, then)) if commits else then.counted(self, commits)

    def below(self, version: int | None) -> StateMachinePhase[Estimate]:
        """Goes on with the commits up to a version, down to the base."""
        return self.count_tail(self.snapshot.choice.tail(version), _ToBase())

    def learn(self, facts: BaseFacts, tail: TailFacts, source: str) -> _Estimating:
        """Takes a source in, unless what it says contradicts the others: what was replayed or counted has the word."""
        found = (facts.under(tail.keys) + tail.live).tidy()
        if self.counter.live.pruning is not None:
            found = found.any_part()
        together = found.both(self.told)
        words = [source]
        words += [f"{_commits(tail.read)} after it"] if tail.read else []
        words += [f"the sizes of {_commits(tail.unread)} after it"] if tail.unread else []
        sources = (*(self.sources if together is not None else ()), *words)
        return replace(self, told=found if together is None else together, sources=sources)

    def to_base(self) -> StateMachinePhase[Estimate]:
        """Reads the commits that are missing, if that leaves enough for the base."""
        unread, choice = self.unread, self.snapshot.choice
        count = len(unread) if unread else 0
        cost = self._base_cost()
        is_cheap = unread is not None and all(size <= _ONE_REQUEST for _, _, size in unread.window())
        if unread and is_cheap and cost is not None and count + cost <= MOST_REQUESTS and not self.told.is_exact:
            return Consume(UnreadTailPhase(self, unread))
        tail = self.tail if not unread else self.tail.with_unread(unread)
        state = replace(self, tail=tail)
        if not choice.bases:
            return state.learn(START, tail, "the start of the log").done()
        return state.count_base(MOST_REQUESTS)

    def count_base(self, most_requests: int) -> StateMachinePhase[Estimate]:
        """Asks the base, or its footers, where they can tell more than is known."""
        is_settled = self.told.files.is_exact and self.told.bytes.is_exact
        if self.told.is_exact or (is_settled and self.tail.unread) or self._base_cost() is None:
            return self.done()
        base, live = self.snapshot.choice.bases[0], self.counter.live
        facts = base.facts(live.pruning)
        if facts is not None:
            return self.counted(facts, f"metadata sidecar {base.name}")
        if not isinstance(base, CheckpointBase):
            return self.done()
        return count_base(base, live.columns, live.pruning, most_requests, self)

    def counted(self, facts: BaseFacts, source: str) -> StateMachinePhase[Estimate]:
        return self.learn(facts, self.tail, source).done()

    def uncounted(self) -> StateMachinePhase[Estimate]:
        return self.done()

    def done(self) -> StateMachinePhase[Estimate]:
        return Terminus(Estimate(self.told, self.sources))

    def _base_cost(self) -> int | None:
        """Requests that counting the base takes at least; None where it cannot be counted."""
        bases = self.snapshot.choice.bases
        if not bases:
            return 0
        base = bases[0]
        if base.facts(self.counter.live.pruning) is not None:
            return 0
        if not isinstance(base, CheckpointBase):
            return None
        if base.leaves is not None:
            # They were read when it was trusted, and are kept.
            return 0
        is_read = len(base.files) <= MOST_REQUESTS and not any(file.path.endswith(".json") for file in base.files)
        return len(base.files) if is_read else None


class _TailEnd(ABC):
    """What goes on once commits are counted, as far as they were kept."""

    @abstractmethod
    def counted(self, state: _Estimating, rest: Tail) -> StateMachinePhase[Estimate]:
        """Goes on; `rest` are those that were not kept."""


@dataclass(frozen=True, slots=True)
class _ToChecksum(_TailEnd):
    """The commits after a checksum file are counted: that is a source. Those before it come next."""

    version: int
    facts: BaseFacts

    def counted(self, state: _Estimating, rest: Tail) -> StateMachinePhase[Estimate]:
        tail = state.counter.facts()
        name = checksum_path(self.version).rpartition("/")[2]
        learned = state.learn(self.facts, tail.with_unread(rest) if rest else tail, f"checksum file {name}")
        if rest:
            whole = replace(rest, base=state.snapshot.choice.base_version)
            return replace(learned, unread=whole, tail=tail).to_base()
        return learned.below(self.version)


@dataclass(frozen=True, slots=True)
class _ToBase(_TailEnd):
    """The commits after the base are counted."""

    def counted(self, state: _Estimating, rest: Tail) -> StateMachinePhase[Estimate]:
        return replace(state, unread=rest, tail=state.counter.facts()).to_base()


@dataclass(frozen=True, slots=True)
class ChecksumCountsPhase(ConsumePhase[Estimate]):
    """Reads a checksum file again, which was kept, for what it says of files."""

    state: _Estimating
    version: int

    def plan(self) -> ReadFiles:
        """The file."""
        return ReadFiles((checksum_path(self.version),), max_bytes=_CHECKSUM_BYTES)

    def next(self, data: Iterator[pa.RecordBatch]) -> StateMachinePhase[Estimate]:
        """Takes what it says; then the commits after it are counted."""
        for batch in data:
            content = batch.column("data")[0].as_py()
            checksum = read_checksum(content) if content is not None else None
            if checksum is not None and (checksum.num_files, checksum.num_bytes) != (None, None):
                counts = Counts(_range(checksum.num_files), Range(), _range(checksum.num_bytes)).tidy()
                facts = BaseFacts(counts, checksum.num_bytes, None)
                then = _ToChecksum(self.version, facts)
                return self.state.count_tail(self.state.snapshot.choice.segment.tail(self.version), then)
        return self.state.below(None)


@dataclass(frozen=True, slots=True)
class KeptTailPhase(ConsumePhase[Estimate]):
    """Counts what commits add that an earlier plan kept; no request is made."""

    state: _Estimating
    commits: Tail
    then: _TailEnd

    def plan(self) -> ScanJson:
        """The next window of commits."""
        plan = live_adds_plan(self.commits, _physical(self.state))
        return replace(plan, keep=True, kept_only=True)

    def next(self, data: Iterator[pa.RecordBatch]) -> StateMachinePhase[Estimate]:
        """Goes on with the next window, unless some of this one were not kept."""
        self.state.counter.take(data, FILE_LABEL)
        window = {version for version, _, _ in self.commits.window()}
        missing = window - self.state.counter.versions
        if missing:
            return self.then.counted(self.state, self.commits.up_to(max(missing)))
        return self.state.count_tail(self.commits.rest(), self.then)

    def recover(self, error: Exception) -> StateMachinePhase[Estimate] | None:
        """A commit that cannot be read fails a scan, and so it does an estimate; the error names it."""
        raise_commit_failure(self.state.snapshot.table, error)
        return None


@dataclass(frozen=True, slots=True)
class UnreadTailPhase(ConsumePhase[Estimate]):
    """Reads the few commits that are missing, and counts what they add."""

    state: _Estimating
    commits: Tail

    def plan(self) -> ScanJson:
        """The commits."""
        return replace(live_adds_plan(self.commits, _physical(self.state)), all_needed=True)

    def next(self, data: Iterator[pa.RecordBatch]) -> StateMachinePhase[Estimate]:
        """Goes on to the base with what is left of the requests."""
        state = self.state
        state.counter.take(data, FILE_LABEL)
        state = replace(state, tail=state.counter.facts(), unread=None)
        if not state.snapshot.choice.bases:
            return state.learn(START, state.tail, "the start of the log").done()
        return state.count_base(MOST_REQUESTS - len(self.commits))

    def recover(self, error: Exception) -> StateMachinePhase[Estimate] | None:
        """A commit that cannot be read fails a scan, and so it does an estimate; the error names it."""
        raise_commit_failure(self.state.snapshot.table, error)
        return None


def _physical(state: _Estimating) -> tuple[str, ...]:
    return tuple(state.snapshot.columns.physical_partition_columns)


def _range(number: int | None) -> Range:
    return Range() if number is None else Range.exactly(number)


def _commits(number: int) -> str:
    return f"{number:,} commit{'' if number == 1 else 's'}"
