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
from typing import TYPE_CHECKING, Generic, TypeVar

import numpy as np
import pyarrow as pa

from delta_sidecar._arrow import numbers_of, scalar, strings, valid_mask
from delta_sidecar.errors import UnreadableFileError
from delta_sidecar.log.actions import commit_schema
from delta_sidecar.log.names import checksum_path, read_checksum
from delta_sidecar.log.stats import parse_num_records
from delta_sidecar.plan import (
    FILE_LABEL,
    Consume,
    ConsumePhase,
    FileRef,
    ReadFiles,
    ReadFooters,
    ScanJson,
    StateMachinePhase,
    Terminus,
)
from delta_sidecar.predicate import Bounds, ColumnBounds, may_match
from delta_sidecar.replay.bases.checkpoint import BaseRows, CheckpointBase, is_torn
from delta_sidecar.replay.failures import raise_commit_failure, raise_unreachable
from delta_sidecar.replay.files import OPTIONAL_COLUMNS, FileColumns, struct_fields
from delta_sidecar.replay.footer_facts import (
    COUNTED,
    NOTHING,
    PATH,
    START,
    UNKNOWN,
    BaseFacts,
    CheckpointContent,
    Counts,
    Range,
    facts_of,
    is_plain_checkpoint,
    read_footer_facts,
)
from delta_sidecar.replay.pruning import bind_predicate
from delta_sidecar.replay.seen.seen import SeenSet
from delta_sidecar.replay.tail import LiveAdds, live_adds_plan

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from numpy.typing import NDArray

    from delta_sidecar.log.schema import ColumnPath
    from delta_sidecar.log.segment import Tail
    from delta_sidecar.predicate import Predicate
    from delta_sidecar.replay.footer_facts import ColumnFacts
    from delta_sidecar.replay.pruning import Pruning
    from delta_sidecar.replay.snapshot import Snapshot


# What a checkpoint has of files, rows and bytes, as far as its footers tell.
#
#     FooterCountsPhase -> (JsonLeafPhase) -> whatever `then` says
#
# Footers that were read when the checkpoint was trusted cost nothing. The top of a V2 checkpoint in JSON may have file
# actions of its own: it was kept then, and is counted too.


T = TypeVar("T")


class CountContinuation(ABC, Generic[T]):
    """What goes on once a base is counted."""

    @abstractmethod
    def counted(self, facts: BaseFacts, source: str) -> StateMachinePhase[T]:
        """Goes on with what it has; `source` says in words where that is from."""

    @abstractmethod
    def uncounted(self) -> StateMachinePhase[T]:
        """Goes on where there is no telling."""


def files_in_base(snapshot: Snapshot) -> StateMachinePhase[int | None]:
    """The start of a chain that ends in the number of files in the first base, without a request.

    A manifest tells, a checksum file of the same version, or footers that were read; None where none was.
    """
    choice = snapshot.choice
    if not choice.bases:
        return Terminus(0)
    base = choice.bases[0]
    facts = base.facts(None)
    if facts is not None:
        return _Files().counted(facts, base.name)
    if snapshot.counted is not None and snapshot.counted[0] == base.version:
        return Terminus(snapshot.counted[1])
    if not isinstance(base, CheckpointBase) or base.leaves is None:
        return Terminus(None)
    return count_base(base, FileColumns(()), None, 0, _Files())


class _Files(CountContinuation["int | None"]):
    """Ends in the number of files."""

    def counted(self, facts: BaseFacts, source: str) -> StateMachinePhase[int | None]:
        del source
        files = facts.counts.files
        return Terminus(files.lower if files.is_exact else None)

    def uncounted(self) -> StateMachinePhase[int | None]:
        return Terminus(None)


def count_base(
    base: CheckpointBase,
    columns: FileColumns,
    pruning: Pruning | None,
    most_requests: int,
    then: CountContinuation[T],
) -> StateMachinePhase[T]:
    """Counts what a checkpoint has.

    Args:
        base: The checkpoint. One that was not trusted yet must prove to be one, and to name no other files.
        columns: Makes batches of the files that are in JSON.
        pruning: Tells which of those may match; None: all may.
        most_requests: What may be spent on it.
        then: What goes on.
    """
    leaves = base.files if base.leaves is None else base.leaves
    tables = tuple(leaf for leaf in leaves if not leaf.path.endswith(".json"))
    texts = tuple(leaf for leaf in leaves if leaf.path.endswith(".json"))
    rows = BaseRows(SeenSet(), columns, pruning, path=leaves[0].path)
    return Consume(FooterCountsPhase(base, tables, texts, rows, most_requests, then))


@dataclass(frozen=True, slots=True)
class FooterCountsPhase(ConsumePhase[T]):
    """Reads the footers of a checkpoint.

    Attributes:
        base: The checkpoint.
        tables: Its files in Parquet.
        texts: Its files in JSON.
        rows: Makes files of the rows in those.
        most_requests: What may be spent on it.
        then: What goes on.
    """

    base: CheckpointBase
    tables: tuple[FileRef, ...]
    texts: tuple[FileRef, ...]
    rows: BaseRows = field(repr=False)
    most_requests: int
    then: CountContinuation[T] = field(repr=False)

    def plan(self) -> ReadFooters:
        """What they tell of files; of a checkpoint that was not trusted yet, also whether it is one."""
        content = () if self._is_trusted else CheckpointContent.columns
        columns = dict.fromkeys((*COUNTED, *content, *self._groups.columns))
        return ReadFooters(self.tables, tuple(columns), self.most_requests)

    def next(self, data: Iterator[pa.RecordBatch]) -> StateMachinePhase[T]:
        """Takes them, if all are there."""
        found = read_footer_facts(data)
        footers = [found[file.path] for file in self.tables if file.path in found]
        if len(footers) < len(self.tables) or not (self._is_trusted or is_plain_checkpoint(footers)):
            return self.then.uncounted()
        facts = facts_of(footers, self._groups.may_match)
        if self.texts:
            return Consume(JsonLeafPhase(self.texts, self.rows, facts, self.base.name, self.then))
        return self.then.counted(facts, f"the footers of {self.base.name}")

    def recover(self, error: Exception) -> StateMachinePhase[T] | None:
        """A torn checkpoint tells nothing; a store out of reach is another matter."""
        if is_torn(error):
            return self.then.uncounted()
        raise_unreachable("the checkpoint", error)
        return None

    @property
    def _is_trusted(self) -> bool:
        return self.base.leaves is not None

    @property
    def _groups(self) -> GroupPruning:
        return GroupPruning(self.rows.pruning)


@dataclass(frozen=True, slots=True)
class JsonLeafPhase(ConsumePhase[T]):
    """Counts the files that the top of a checkpoint in JSON has itself, and adds them to those of the footers."""

    files: tuple[FileRef, ...]
    rows: BaseRows = field(repr=False)
    facts: BaseFacts
    name: str
    then: CountContinuation[T] = field(repr=False)

    def plan(self) -> ScanJson:
        """The file, if it was kept."""
        physical = tuple(name for _, name in self.rows.columns.partition_columns)
        return ScanJson(self.files, commit_schema(physical), lines_with=(b'"tags"',), keep=True, kept_only=True)

    def next(self, data: Iterator[pa.RecordBatch]) -> StateMachinePhase[T]:
        """Takes it and the footers together."""
        total, is_read = NOTHING, False
        for batch in data:
            is_read = True
            files = self.rows(batch)
            total = total + counts_of(files) if files is not None else total
        if not is_read:
            return self.then.uncounted()
        inside = BaseFacts(total, total.bytes.upper, total.rows.upper)
        return self.then.counted(self.facts + inside, f"the files of {self.name}")

    def recover(self, error: Exception) -> StateMachinePhase[T] | None:
        """One that is not in Delta's format tells nothing."""
        return self.then.uncounted() if isinstance(error, UnreadableFileError) else None


# What the tail of a log adds to a table, and how much of the base it may hide, by what was read of it.
#
# Commits that were not read are bounded by their size: an action that names a file takes 20 bytes at least.


SHORTEST_ACTION = len('{"add":{"path":"a"}}')
"""Bytes that an action with a file takes at least."""

WANTED_COLUMNS = ("size", "stats")
"""Columns of files, beyond those that tell files apart, that counting looks at."""


@dataclass(frozen=True, slots=True)
class TailFacts:
    """The commits after some version.

    Attributes:
        live: What their live adds have that may match the predicate; those of commits that were not read too.
        keys: So many files of the state before them may be hidden by them, at most.
        read: How many of them were read.
        unread: How many were not.
    """

    live: Counts = NOTHING
    keys: int = 0
    read: int = 0
    unread: int = 0

    def with_unread(self, commits: Tail) -> TailFacts:
        """The same with older commits of which only the sizes are known."""
        if not commits:
            return self
        most = sum(size // SHORTEST_ACTION for _, _, size in commits)
        added = Counts(Range(0, most)).tidy()
        return TailFacts(self.live + added, self.keys + most, self.read, self.unread + len(commits))


NO_COMMITS = TailFacts()
"""A tail without commits."""


@dataclass(slots=True)
class TailCounter:
    """Counts what commits add that come newest first."""

    live: LiveAdds
    counts: Counts = NOTHING
    versions: set[int] = field(default_factory=set)

    def take(self, batches: Iterator[pa.RecordBatch], label: str) -> None:
        """Takes blocks of commits; `label` is the column that says which."""
        for batch in batches:
            self.versions.add(batch.column(label)[0].as_py())
            files = self.live(batch)
            if files is not None:
                self.counts = self.counts + counts_of(files)
        self.live.flush()

    def facts(self) -> TailFacts:
        """What the commits so far come to."""
        return TailFacts(self.counts, len(self.live.seen), len(self.versions))


def counted_columns(snapshot: Snapshot) -> FileColumns:
    """Makes batches of files with no more in them than counting needs."""
    names = snapshot.columns
    partition_columns = tuple(zip(names.partition_columns, names.physical_partition_columns, strict=True))
    return FileColumns(partition_columns, names.instants(), OPTIONAL_COLUMNS - set(WANTED_COLUMNS))


def counts_of(files: pa.RecordBatch) -> Counts:
    """What a batch of files has; of rows, as far as statistics tell."""
    number = files.num_rows
    size, known = _sum(files.column("size"))
    return Counts(Range.exactly(number), _rows(files), Range(size, size if known == number else None))


def _rows(files: pa.RecordBatch) -> Range:
    records = parse_num_records(files.column("stats"))
    vectors = files.column("deletion_vector")
    has_vector = valid_mask(vectors)
    deleted = struct_fields(vectors)["cardinality"]
    told = valid_mask(records) & (_values(records) >= 0)
    told_deleted = valid_mask(deleted) & (_values(deleted) >= 0)
    hidden = np.where(has_vector & told_deleted, _values(deleted), 0)
    left = np.maximum(_values(records) - hidden, 0)
    # Without a count of the deleted rows all of them may be.
    lower = np.where(told & (told_deleted | ~has_vector), left, 0)
    upper = sum(left.tolist()) if told.all() else None
    return Range(sum(lower.tolist()), upper)


def _sum(column: pa.Int64Array) -> tuple[int, int]:
    """The sum of the values that there are, and how many those are."""
    values = _values(column)[valid_mask(column) & (_values(column) >= 0)]
    # Python's numbers do not overflow.
    return sum(values.tolist()), len(values)


def _values(column: pa.Int64Array) -> NDArray[np.int64]:
    """The values, -1 where there is none."""
    return np.where(valid_mask(column), numbers_of(column), -1)


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


# Which row groups of a checkpoint may hold a file that matches, by the partition values that their footers tell.
#
# A row group counts only where every file in it has a value: then each file's own value lies between the smallest and
# the largest, and what cannot match with all of them cannot match with one. Values are in the typed columns of
# `partitionValues_parsed`, or in the map of texts where that has one key only, that of a text column.


_KEY = "add.partitionValues.key_value.key"
_VALUE = "add.partitionValues.key_value.value"


@dataclass(frozen=True, slots=True)
class GroupPruning:
    """Tests a predicate on row groups.

    Attributes:
        pruning: The predicate; None where every file may match.
    """

    pruning: Pruning | None

    @property
    def columns(self) -> tuple[str, ...]:
        """Dotted names of the leaf columns that it wants to know of."""
        if self.pruning is None or not self.pruning.partitions:
            return ()
        return (_KEY, _VALUE, *(_typed(path) for path in self.pruning.partitions))

    def may_match(self, group: Mapping[str, ColumnFacts]) -> bool:
        """Whether a row group may hold a file that matches."""
        if self.pruning is None or not self.pruning.partitions:
            return True
        found = {path: _bounds(group, path, kind) for path, kind in self.pruning.partitions.items()}
        return bool(may_match(self.pruning.predicate, _GroupBounds(found))[0].as_py())


@dataclass(frozen=True, slots=True)
class _GroupBounds(Bounds):
    """The bounds of one row group."""

    found: Mapping[ColumnPath, ColumnBounds | None]

    @property
    def num_rows(self) -> int:
        return 1

    def column(self, path: ColumnPath) -> ColumnBounds | None:
        return self.found.get(path)


def _bounds(group: Mapping[str, ColumnFacts], path: ColumnPath, kind: pa.DataType) -> ColumnBounds | None:
    facts = _facts(group, path, kind)
    if facts is None or facts.lower is None or facts.upper is None:
        return None
    try:
        lower, upper = (_array(text, kind) for text in (facts.lower, facts.upper))
    except (ValueError, OverflowError):
        # The column is of another type than the table's.
        return None
    return ColumnBounds(lower=lower, upper=upper, null_count=None, num_records=None)


def _facts(group: Mapping[str, ColumnFacts], path: ColumnPath, kind: pa.DataType) -> ColumnFacts | None:
    """The values of a partition column, where every file of the row group has one."""
    files, keys, values = group.get(PATH), group.get(_KEY), group.get(_VALUE)
    if files is None or files.values is None:
        return None
    if pa.types.is_string(kind) and keys is not None and values is not None:
        is_only_key = keys.lower == keys.upper == path[0]
        if is_only_key and keys.values == values.values == files.values:
            return values
    typed = group.get(_typed(path)) if pa.types.is_string(kind) or pa.types.is_integer(kind) else None
    return typed if typed is not None and typed.values == files.values else None


def _typed(path: ColumnPath) -> str:
    return f"add.partitionValues_parsed.{path[0]}"


def _array(text: str, kind: pa.DataType) -> pa.Array:
    if pa.types.is_string(kind):
        return strings([text])
    return pa.repeat(scalar(int(text), kind), 1)
