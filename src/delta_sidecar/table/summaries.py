"""A table's columns in a line each: what the statistics of its files come to, in one pass over them."""

from __future__ import annotations

from dataclasses import dataclass, field
from decimal import Decimal
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from delta_sidecar._arrow import bits_of, booleans, numbers_of, valid_mask, values_of
from delta_sidecar.table.statistics import READ, batch_statistics, named_columns

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from delta_sidecar.predicate import Predicate
    from delta_sidecar.table.pinned import TableHandle
    from delta_sidecar.table.statistics import BatchStatistics, KnownColumn, NamedColumn

Meaning: TypeAlias = Literal["value", "bound", "cut", "rounded"]
"""What a bound of a column is.

- `value`: a row has it, and no row has one beyond it. (NaN counts for nothing.)
- `bound`: no row has a value beyond it, and maybe none has just this one: rows have been deleted.
- `cut`: a text that may be the beginning of a longer one, or was made a little higher when it was cut off.
- `rounded`: a timestamp that may be rounded down, by less than a millisecond, or a decimal of more digits than a writer
  may have noted down.
"""

# Writers cut texts off after 32 characters, or after 64 bytes where no character ends there.
_CUT_CHARACTERS, _CUT_BYTES = 32, 61
# Some note decimals down as floating-point numbers.
_SURE_DIGITS = 15


@dataclass(frozen=True, slots=True)
class ColumnSummary:
    """What the statistics of all files tell of a column.

    Attributes:
        name: The column's name, that of a field of a struct `a.b`.
        type: Its Arrow type.
        minimum: The lowest of the lower bounds; None where no file has one.
        minimum_is: What it is; None where there is none.
        maximum: The highest of the upper bounds; None where no file has one.
        maximum_is: What it is; None where there is none.
        null_count: How many rows are null, of those in `rows`.
        null_count_is_exact: Whether it is just so many; else deleted rows may be among them.
        rows: How many rows there are in the files that tell how many are null. Deleted ones do not count.
        files: How many files have bounds, or nothing but nulls, or no rows.
        files_without: How many files have none: they may hold any value, also beyond the minimum and maximum.
    """

    name: str
    type: str
    minimum: Any
    minimum_is: Meaning | None
    maximum: Any
    maximum_is: Meaning | None
    null_count: int
    null_count_is_exact: bool
    rows: int
    files: int
    files_without: int


@dataclass(frozen=True, slots=True)
class TableSummary:
    """What the statistics of all files tell of a table.

    Attributes:
        version: The version.
        files: How many files there are.
        size: Their bytes together.
        rows: How many rows there are in the files that tell. Deleted ones do not count.
        deleted_rows: How many rows are deleted, in all files.
        files_without_rows: How many files do not tell how many rows they have.
        columns: What is known of each column.
    """

    version: int
    files: int
    size: int
    rows: int
    deleted_rows: int
    files_without_rows: int
    columns: tuple[ColumnSummary, ...]


def fold_stats(
    handle: TableHandle,
    columns: Sequence[str] | None = None,
    predicate: str | Sequence[Any] | Mapping[str, Any] | Predicate | None = None,
) -> TableSummary:
    """Goes through the statistics of all files once, in memory that does not grow with them.

    Args:
        handle: The table.
        columns: Only these columns; the name of a struct stands for all columns in it. None for all.
        predicate: Only files that may hold a matching row.

    Raises:
        OptionError: There is no such column.
    """
    snapshot = handle.snapshot()
    folds = [_Fold(column) for column in named_columns(snapshot.columns, columns)]
    files = size = rows = deleted = without = 0
    zone = handle.row_options.time_zone
    with handle.scanner(predicate, snapshot=snapshot) as scanner:
        for batch in scanner.scan_batches(READ):
            stats = batch_statistics(batch, [fold.column for fold in folds], snapshot.columns, zone)
            told = valid_mask(stats.num_records)
            files += batch.num_rows
            size += _sum(numbers_of(batch.column("size")))
            rows += _sum((numbers_of(stats.num_records) - stats.deleted)[told])
            deleted += _sum(stats.deleted)
            without += _sum(~told)
            seen = _Files.of(stats)
            for fold in folds:
                fold.take(stats.columns[fold.column.name], seen)
    summaries = tuple(fold.summary() for fold in folds)
    return TableSummary(snapshot.version, files, size, rows, deleted, without, summaries)


@dataclass(frozen=True, slots=True)
class _Files:
    """A batch of files, one row for each.

    Attributes:
        told: Whether it is known how many rows there are.
        num_records: How many, deleted ones included; 0 where that is not known.
        left: How many, without the deleted ones; 0 where that is not known.
        is_loose: Whether bounds and counts may be of deleted rows.
    """

    told: NDArray[np.bool_]
    num_records: NDArray[np.int64]
    left: NDArray[np.int64]
    is_loose: NDArray[np.bool_]

    @classmethod
    def of(cls, stats: BatchStatistics) -> _Files:
        told = valid_mask(stats.num_records)
        num_records = np.where(told, numbers_of(stats.num_records), 0)
        left = np.where(told, num_records - stats.deleted, 0)
        return cls(told, num_records, left, (stats.deleted > 0) | ~bits_of(stats.tight))


@dataclass(slots=True)
class _Side:
    """The lowest or highest bound so far."""

    name: Literal["min", "max"]
    among_all: Any = None
    among_tight: Any = None

    def take(self, bounds: pa.Array, counted: NDArray[np.bool_], is_loose: NDArray[np.bool_]) -> None:
        self.among_all = self._beyond(self.among_all, bounds, counted)
        self.among_tight = self._beyond(self.among_tight, bounds, counted & ~is_loose)

    def meaning(self, column: NamedColumn) -> Meaning | None:
        found = self.among_all
        if found is None:
            return None
        if not column.is_partition:
            if isinstance(found, str) and (len(found) >= _CUT_CHARACTERS or len(found.encode()) >= _CUT_BYTES):
                return "cut"
            if pa.types.is_timestamp(column.type):
                return "rounded"
            if isinstance(found, Decimal) and len(found.as_tuple().digits) > _SURE_DIGITS:
                return "rounded"
        return "value" if self.among_tight == found else "bound"

    def _beyond(self, best: Any, bounds: pa.Array, counted: NDArray[np.bool_]) -> Any:  # noqa: ANN401 - any value
        kept = bounds if counted.all() else bounds.filter(booleans(counted))
        if kept.null_count == len(kept):
            return best
        (found,) = values_of(pa.repeat(pc.min_max(kept)[self.name], 1))
        if best is None:
            return found
        return min(best, found) if self.name == "min" else max(best, found)


@dataclass(slots=True)
class _Fold:
    """What is known of a column so far."""

    column: NamedColumn
    lowest: _Side = field(default_factory=lambda: _Side("min"))
    highest: _Side = field(default_factory=lambda: _Side("max"))
    null_count: int = 0
    is_exact: bool = True
    rows: int = 0
    files: int = 0
    files_without: int = 0

    def take(self, known: KnownColumn, files: _Files) -> None:
        self._count_nulls(known, files)
        null_count = np.where(valid_mask(known.null_count), numbers_of(known.null_count), -1)
        is_empty = files.told & (files.left <= 0)
        is_null = files.told & (null_count == files.num_records)
        if self.column.is_partition:
            # One value for all rows: it is there as long as a row is. Null is a value, and known.
            has_bounds = is_null | valid_mask(known.lower) | (null_count != 0)
            is_loose = ~files.told
        else:
            has_bounds = valid_mask(known.lower) & valid_mask(known.upper)
            is_loose = files.is_loose
        without = ~(has_bounds | is_null | is_empty)
        self.files += _sum(~without)
        self.files_without += _sum(without)
        self.lowest.take(known.lower, ~is_empty, is_loose)
        self.highest.take(known.upper, ~is_empty, is_loose)

    def summary(self) -> ColumnSummary:
        return ColumnSummary(
            name=self.column.name,
            type=str(self.column.type),
            minimum=self.lowest.among_all,
            minimum_is=self.lowest.meaning(self.column),
            maximum=self.highest.among_all,
            maximum_is=self.highest.meaning(self.column),
            null_count=self.null_count,
            null_count_is_exact=self.is_exact,
            rows=self.rows,
            files=self.files,
            files_without=self.files_without,
        )

    def _count_nulls(self, known: KnownColumn, files: _Files) -> None:
        told = valid_mask(known.null_count) & files.told
        counts = numbers_of(known.null_count)
        # In a file with deleted rows, only nowhere and everywhere is sure.
        everywhere = counts >= files.num_records
        unsure = told & files.is_loose & ~everywhere & (counts > 0) & (not self.column.is_partition)
        left = np.where(everywhere, files.left, np.minimum(counts, files.left))
        self.null_count += _sum(left[told])
        self.is_exact &= not unsure.any()
        self.rows += _sum(files.left[told])


def _sum(numbers: NDArray[Any]) -> int:
    return int(numbers.sum())
