"""Summaries of a table's columns: the statistics of its files, aggregated in one pass."""

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

    from delta_sidecar.log.stats import ColumnStatistics
    from delta_sidecar.predicate import Predicate
    from delta_sidecar.table.pinned import TableHandle
    from delta_sidecar.table.statistics import BatchStatistics, NamedColumn

Meaning: TypeAlias = Literal["value", "bound", "cut", "rounded"]
"""The precision of a column's minimum or maximum.

- `value`: a row has it, and no row has one beyond it. (NaN does not count.)
- `bound`: no row has a value beyond it, and maybe no row has it: rows have been deleted.
- `cut`: a text that may be the beginning of a longer one, or was rounded up when it was truncated.
- `rounded`: a timestamp that may be rounded down, by less than a millisecond, or a decimal with more digits than its
  writer may have kept.
"""

# Writers truncate texts after 32 characters, or after 64 bytes if no character ends there.
_CUT_CHARACTERS, _CUT_BYTES = 32, 61
# Some write decimals as floating-point numbers.
_SURE_DIGITS = 15


@dataclass(frozen=True, slots=True)
class ColumnSummary:
    """The statistics of a column over all files."""

    name: str  # a field of a struct is `a.b`
    type: str  # in Arrow's words
    minimum: Any  # the lowest of the lower bounds; None if no file has one
    minimum_is: Meaning | None
    maximum: Any  # the highest of the upper bounds; None if no file has one
    maximum_is: Meaning | None
    null_count: int  # among `rows`
    null_count_is_exact: bool  # else deleted rows may be counted
    rows: int  # rows, without deleted ones, of the files that have a count of nulls
    files: int  # files with bounds, with nothing but nulls, or without rows
    files_without: int  # the others: they may hold any value


@dataclass(frozen=True, slots=True)
class TableSummary:
    """The statistics of a table over all files."""

    version: int
    files: int
    size: int  # bytes of all files
    rows: int  # without deleted ones, in the files that have a count
    deleted_rows: int
    files_without_rows: int  # files without a count of rows
    columns: tuple[ColumnSummary, ...]


def fold_stats(
    handle: TableHandle,
    columns: Sequence[str] | None = None,
    predicate: str | Sequence[Any] | Mapping[str, Any] | Predicate | None = None,
) -> TableSummary:
    """Aggregates the statistics of all files in one pass, in memory that does not grow with their number.

    The name of a struct in `columns` stands for all columns in it; None for all.

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
            counts = _RowCounts.of(stats)
            files += batch.num_rows
            size += _sum(numbers_of(batch.column("size")))
            rows += _sum(counts.left)
            deleted += _sum(stats.deleted)
            without += _sum(~counts.known)
            for fold in folds:
                fold.add(stats.columns[fold.column.name], counts)
    summaries = tuple(fold.summary() for fold in folds)
    return TableSummary(snapshot.version, files, size, rows, deleted, without, summaries)


@dataclass(frozen=True, slots=True)
class _RowCounts:
    """Numbers of rows in a batch of files, an element a file."""

    known: NDArray[np.bool_]
    num_records: NDArray[np.int64]  # deleted rows included; 0 if unknown
    left: NDArray[np.int64]  # without deleted rows; 0 if unknown
    is_loose: NDArray[np.bool_]  # bounds and null counts may be of deleted rows

    @classmethod
    def of(cls, stats: BatchStatistics) -> _RowCounts:
        known = valid_mask(stats.num_records)
        num_records = np.where(known, numbers_of(stats.num_records), 0)
        left = np.where(known, num_records - stats.deleted, 0)
        return cls(known, num_records, left, (stats.deleted > 0) | ~bits_of(stats.tight))


@dataclass(slots=True)
class _Side:
    """The lowest or highest bound so far."""

    name: Literal["min", "max"]
    among_all: Any = None
    among_tight: Any = None

    def add(self, bounds: pa.Array, counted: NDArray[np.bool_], is_loose: NDArray[np.bool_]) -> None:
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
    """The summary of a column so far."""

    column: NamedColumn
    lowest: _Side = field(default_factory=lambda: _Side("min"))
    highest: _Side = field(default_factory=lambda: _Side("max"))
    null_count: int = 0
    is_exact: bool = True
    rows: int = 0
    files: int = 0
    files_without: int = 0

    def add(self, stats: ColumnStatistics, counts: _RowCounts) -> None:
        self._count_nulls(stats, counts)
        null_count = np.where(valid_mask(stats.null_count), numbers_of(stats.null_count), -1)
        is_empty = counts.known & (counts.left <= 0)
        is_null = counts.known & (null_count == counts.num_records)
        if self.column.is_partition:
            # One value for all rows, which stays as long as one of them does. Null is a value, and known.
            has_bounds = is_null | valid_mask(stats.lower) | (null_count != 0)
            is_loose = ~counts.known
        else:
            has_bounds = valid_mask(stats.lower) & valid_mask(stats.upper)
            is_loose = counts.is_loose
        without = ~(has_bounds | is_null | is_empty)
        self.files += _sum(~without)
        self.files_without += _sum(without)
        self.lowest.add(stats.lower, ~is_empty, is_loose)
        self.highest.add(stats.upper, ~is_empty, is_loose)

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

    def _count_nulls(self, stats: ColumnStatistics, counts: _RowCounts) -> None:
        known = valid_mask(stats.null_count) & counts.known
        nulls = numbers_of(stats.null_count)
        # With deleted rows, only counts of none and of all rows are exact.
        everywhere = nulls >= counts.num_records
        unsure = known & counts.is_loose & ~everywhere & (nulls > 0) & (not self.column.is_partition)
        left = np.where(everywhere, counts.left, np.minimum(nulls, counts.left))
        self.null_count += _sum(left[known])
        self.is_exact &= not unsure.any()
        self.rows += _sum(counts.left[known])


def _sum(numbers: NDArray[Any]) -> int:
    return int(numbers.sum())
