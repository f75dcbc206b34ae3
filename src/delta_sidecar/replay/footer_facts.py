"""What the footers of a checkpoint tell of its files, without a row being read.

Each row group says in how many rows a column has a value, and between which values they lie: so there are as many
files as paths, and their sizes together lie between so many times the smallest and so many times the largest.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, ClassVar

from delta_sidecar.errors import UnreadableFileError
from delta_sidecar.plan import FileSummary

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    import pyarrow as pa


# Whether Parquet files are those of a checkpoint, by what their footers tell.
#
# The protocol wants a protocol and a metaData action in every checkpoint, and one action in every row. A column that a
# file lacks is null in it: so a part of a checkpoint may do without `add`, as long as all its rows are other actions.


_ADD = "add.path"
_TOP = {
    "protocol": ("protocol.minReaderVersion",),
    "metaData": ("metaData.id", "metaData.schemaString"),
}
_SIDECAR = ("sidecar.path", "sidecar.sizeInBytes")
# Of each action, the fields that it cannot be without.
_OTHERS = {
    **_TOP,
    "txn": ("txn.appId", "txn.version"),
    "remove": ("remove.path", "remove.dataChange"),
    "domainMetadata": ("domainMetadata.domain",),
    "checkpointMetadata": ("checkpointMetadata.version",),
    "sidecar": _SIDECAR,
}


@dataclass(frozen=True, slots=True)
class CheckpointContent:
    """Refuses files that are not what a checkpoint is made of.

    Attributes:
        has_top: Whether protocol and metadata must be in one of the files: not so for V2-checkpoint sidecars.
    """

    has_top: bool
    columns: ClassVar[tuple[str, ...]] = (_ADD, *(leaf for leaves in _OTHERS.values() for leaf in leaves))

    def __call__(self, files: Sequence[FileSummary]) -> None:
        """Looks at the footers of all files.

        Raises:
            UnreadableFileError: A file is no part of a checkpoint; the message says why.
        """
        for name, leaves in _TOP.items() if self.has_top else ():
            if not any(_may_have(file, leaves) for file in files):
                _refuse(files[0], f"it has no {name}")
        for file in files:
            if _ADD not in file.values and not (self.has_top and _may_have(file, _SIDECAR)):
                _check_without_add(file)


def _may_have(file: FileSummary, leaves: Iterable[str]) -> bool:
    return any(file.values[leaf] != 0 for leaf in leaves if leaf in file.values)


def _check_without_add(file: FileSummary) -> None:
    if not file.values:
        _refuse(file, "it has none of the columns of a checkpoint")
    told = sum(max(file.values.get(leaf) or 0 for leaf in leaves) for leaves in _OTHERS.values())
    if told < file.rows:
        _refuse(file, f"it has no column {_ADD}, and {file.rows - told} of its rows are no other action")


def _refuse(file: FileSummary, why: str) -> None:
    msg = f"{file.path}: {why}"
    raise UnreadableFileError(msg, file.path)


# Numbers that are known within bounds, and what a table has of files, rows and bytes in such numbers.


@dataclass(frozen=True, slots=True)
class Range:
    """A number that is not known exactly. Both bounds hold, and belong to it.

    Attributes:
        lower: It is no smaller.
        upper: It is no larger; None where there is no telling.
    """

    lower: int = 0
    upper: int | None = None

    @classmethod
    def exactly(cls, number: int) -> Range:
        """A number that is known."""
        return cls(number, number)

    @property
    def is_exact(self) -> bool:
        """Whether the number is known."""
        return self.lower == self.upper

    def __add__(self, other: Range) -> Range:
        is_open = self.upper is None or other.upper is None
        return Range(self.lower + other.lower, None if is_open else (self.upper or 0) + (other.upper or 0))

    def both(self, other: Range) -> Range | None:
        """What is left where both are right; None where they contradict each other."""
        uppers = [upper for upper in (self.upper, other.upper) if upper is not None]
        found = Range(max(self.lower, other.lower), min(uppers, default=None))
        return found if found.upper is None or found.lower <= found.upper else None

    def at_most(self, most: int) -> Range:
        """The number, or `most` where it is larger."""
        return Range(min(self.lower, most), most if self.upper is None else min(self.upper, most))


ZERO = Range(0, 0)


@dataclass(frozen=True, slots=True)
class Counts:
    """How much there is of something that has files.

    Attributes:
        files: Files.
        rows: Rows in them that are not deleted.
        bytes: Their size together.
    """

    files: Range = Range()
    rows: Range = Range()
    bytes: Range = Range()

    def __add__(self, other: Counts) -> Counts:
        return Counts(self.files + other.files, self.rows + other.rows, self.bytes + other.bytes)

    @property
    def is_exact(self) -> bool:
        """Whether all three are known."""
        return self.files.is_exact and self.rows.is_exact and self.bytes.is_exact

    def both(self, other: Counts) -> Counts | None:
        """What is left where both are right; None where they contradict each other."""
        files, rows, size = (self.files.both(other.files), self.rows.both(other.rows), self.bytes.both(other.bytes))
        return None if files is None or rows is None or size is None else Counts(files, rows, size).tidy()

    def any_part(self) -> Counts:
        """Of some of the files, maybe none."""
        return Counts(Range(0, self.files.upper), Range(0, self.rows.upper), Range(0, self.bytes.upper))

    def tidy(self) -> Counts:
        """Where there are no files, there is nothing in them."""
        return NOTHING if self.files.upper == 0 else self


UNKNOWN = Counts()
"""Of any number of files."""

NOTHING = Counts(ZERO, ZERO, ZERO)
"""Of no files."""


PATH = "add.path"
SIZE = "add.size"
RECORDS = "add.stats_parsed.numRecords"
VECTOR = "add.deletionVector.storageType"
DELETED = "add.deletionVector.cardinality"
SIDECAR = "sidecar.path"
COUNTED = (PATH, SIZE, RECORDS, VECTOR, DELETED)


@dataclass(frozen=True, slots=True)
class ColumnFacts:
    """A column in a row group.

    Attributes:
        rows: Rows of the row group.
        values: In how many of them it has a value; None where that is not told.
        lower: The smallest value as a text; None where that is not told.
        upper: The largest.
    """

    rows: int
    values: int | None
    lower: str | None = None
    upper: str | None = None

    @property
    def count(self) -> Range:
        """In how many rows it has a value."""
        return Range(0, self.rows) if self.values is None else Range.exactly(self.values)

    @property
    def smallest(self) -> int | None:
        """The smallest value of a column of whole numbers; None where it is another column."""
        return _whole_number(self.lower)

    @property
    def largest(self) -> int | None:
        """The largest value of a column of whole numbers; None where it is another column."""
        return _whole_number(self.upper)


@dataclass(frozen=True, slots=True)
class FooterFacts:
    """The footer of one file.

    Attributes:
        path: The file.
        rows: How many rows it has.
        groups: What is told of its columns, row group by row group; a column that it lacks is not there.
    """

    path: str
    rows: int
    groups: tuple[dict[str, ColumnFacts], ...] = field(repr=False)

    def summary(self, columns: Iterable[str]) -> FileSummary:
        """What is told of columns over all row groups."""
        values: dict[str, int | None] = {}
        for name in columns:
            found = [group[name].values for group in self.groups if name in group]
            if found:
                values[name] = None if None in found else sum(value or 0 for value in found)
        return FileSummary(self.path, self.rows, values)


def read_footer_facts(batches: Iterable[pa.RecordBatch]) -> dict[str, FooterFacts]:
    """Takes what a `ReadFooters` gives, a batch for each file; by path."""
    found = {}
    for batch in batches:
        rows = batch.to_pylist()
        groups: list[dict[str, ColumnFacts]] = [{} for _ in range(rows[0]["group"])]
        for row in rows[1:]:
            groups[row["group"]][row["column"]] = ColumnFacts(row["rows"], row["values"], row["lower"], row["upper"])
        found[rows[0]["path"]] = FooterFacts(rows[0]["path"], rows[0]["rows"], tuple(groups))
    return found


@dataclass(frozen=True, slots=True)
class BaseFacts:
    """The state of a table at the version of a base.

    Attributes:
        counts: What it has.
        largest: No file is larger; None where that is not known.
        most_rows: No file has more rows; None where that is not known.
    """

    counts: Counts = NOTHING
    largest: int | None = 0
    most_rows: int | None = 0

    def __add__(self, other: BaseFacts) -> BaseFacts:
        return BaseFacts(
            self.counts + other.counts,
            _largest([self.largest, other.largest]),
            _largest([self.most_rows, other.most_rows]),
        )

    def under(self, keys: int) -> Counts:
        """What is left where so many files, whichever, may be hidden."""
        if keys == 0:
            return self.counts
        files, rows, size = self.counts.files, self.counts.rows, self.counts.bytes
        return Counts(
            Range(max(0, files.lower - keys), files.upper),
            Range(_without(rows.lower, keys, self.most_rows), rows.upper),
            Range(_without(size.lower, keys, self.largest), size.upper),
        )


def facts_of(files: Sequence[FooterFacts], may_match: Callable[[Mapping[str, ColumnFacts]], bool]) -> BaseFacts:
    """What the files of a base have; row groups where no file may match are left out."""
    total = BaseFacts()
    for file in files:
        for group in file.groups:
            if may_match(group):
                total += _group_facts(group)
    return BaseFacts(total.counts.tidy(), total.largest, total.most_rows)


def is_plain_checkpoint(files: Sequence[FooterFacts]) -> bool:
    """Whether files are all of a checkpoint: a top that names no V2-checkpoint sidecar."""
    try:
        CheckpointContent(has_top=True)([file.summary(CheckpointContent.columns) for file in files])
    except UnreadableFileError:
        return False
    return all(group[SIDECAR].count.upper == 0 for file in files for group in file.groups if SIDECAR in group)


def _group_facts(group: Mapping[str, ColumnFacts]) -> BaseFacts:
    paths = group.get(PATH)
    if paths is None or paths.count.upper == 0:
        return BaseFacts()
    size, largest = _sum(paths, group.get(SIZE))
    rows, most_rows = _sum(paths, group.get(RECORDS))
    deleted = _deleted(group)
    lower = 0 if deleted is None else max(0, rows.lower - deleted)
    return BaseFacts(Counts(paths.count, Range(lower, rows.upper), size), largest, most_rows)


def _sum(paths: ColumnFacts, column: ColumnFacts | None) -> tuple[Range, int | None]:
    """The sum of a column over the files of a row group, and its largest value; a file may lack one."""
    if column is None or column.smallest is None or column.largest is None or column.smallest < 0:
        return Range(), None
    lower = column.count.lower * column.smallest
    most = paths.count.upper
    is_whole = paths.values is not None and column.values == paths.values
    if not is_whole or most is None:
        return Range(lower), None
    return Range(lower, most * column.largest), column.largest


def _deleted(group: Mapping[str, ColumnFacts]) -> int | None:
    """Most rows that deletion vectors hide; None where there is no telling."""
    vectors, deleted = group.get(VECTOR), group.get(DELETED)
    if vectors is None and deleted is None:
        return 0
    if vectors is not None and vectors.count.upper == 0:
        return 0
    if vectors is None or deleted is None or deleted.values is None or deleted.values != vectors.values:
        return None
    return None if deleted.largest is None else deleted.values * deleted.largest


def _whole_number(text: str | None) -> int | None:
    # A writer may have chosen another type, and a text may be anything.
    return int(text) if text is not None and re.fullmatch(r"-?[0-9]{1,20}", text) else None


def _largest(values: Sequence[int | None]) -> int | None:
    return None if None in values else max(value or 0 for value in values)


def _without(lower: int, keys: int, most: int | None) -> int:
    return 0 if most is None else max(0, lower - keys * most)


START = BaseFacts()
"""The start of a log: there is nothing."""
