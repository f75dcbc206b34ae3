"""What the tail of a log adds to a table, and how much of the base it may hide, by what was read of it.

Commits that were not read are bounded by their size: an action that names a file takes 20 bytes at least.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from delta_sidecar._arrow import numbers_of, valid_mask
from delta_sidecar.log.stats import parse_num_records
from delta_sidecar.replay.files import OPTIONAL_COLUMNS, FileColumns, struct_fields
from delta_sidecar.replay.ranges import NOTHING, Counts, Range

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pyarrow as pa
    from numpy.typing import NDArray

    from delta_sidecar.log.tail import Tail
    from delta_sidecar.replay.commits import LiveAdds
    from delta_sidecar.replay.snapshot import Snapshot

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
