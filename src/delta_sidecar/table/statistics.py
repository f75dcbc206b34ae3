"""Statistics of data files under the names that users see, and their summaries for a table's columns."""

from __future__ import annotations

import datetime as dt
import difflib
from dataclasses import dataclass, field
from decimal import Decimal
from itertools import product, starmap
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from msgspec import Struct

from delta_sidecar._arrow import from_numpy, scalar, strings, to_numpy, values_of
from delta_sidecar.errors import OptionError
from delta_sidecar.log.schema import type_at
from delta_sidecar.log.stats import ColumnStatistics, parse_statistics
from delta_sidecar.predicate import tree
from delta_sidecar.scan.config import LazyScanConfig
from delta_sidecar.sidecar.schema import column_name
from delta_sidecar.table.filters import typed_partition_values

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from numpy.typing import NDArray

    from delta_sidecar.log.schema import ColumnPath, TableSchema
    from delta_sidecar.predicate import Predicate
    from delta_sidecar.scan.scanner import LazyDeltaScanner
    from delta_sidecar.table.pinned import TableHandle

    _Beginnings = dict[ColumnPath, list[ColumnPath]]


@dataclass(frozen=True, slots=True)
class FileStats:
    """Statistics of one data file, as its writer recorded them in the log.

    If `tight_bounds` is false, bounds and counts are of all rows, deleted ones included. A text may be truncated: the
    lower bound is then below all values, the upper one above them, or their beginning. A timestamp may be rounded down
    to a millisecond.

    Columns have the names that users see, a field of a struct `a.b`; a name with a dot in it stands in back-quotes.
    Columns without statistics are left out. A partition column has its value as both bounds.

    Attributes:
        path: As in `DeltaFile.path`.
        size: In bytes.
        num_records: Rows in the file, deleted ones included; None if the log does not have it.
        deleted_rows: Number of deleted rows.
        null_counts: Number of null rows, by column.
        minimums: Lower bounds, by column.
        maximums: Upper bounds, by column.
        tight_bounds: True if bounds and counts are of the remaining rows; None for a file without statistics.
    """

    path: str
    size: int
    num_records: int | None
    deleted_rows: int
    null_counts: Mapping[str, int] = field(hash=False)
    minimums: Mapping[str, Any] = field(hash=False)
    maximums: Mapping[str, Any] = field(hash=False)
    tight_bounds: bool | None


def stats_for_files(
    handle: TableHandle,
    paths: Iterable[str] | None = None,
    columns: Sequence[str] | None = None,
    predicate: str | Sequence[Any] | Mapping[str, Any] | Predicate | None = None,
    limit: int | None = None,
) -> Iterator[FileStats]:
    """Streams the statistics of files, as they are found; arguments as for `DeltaTable.get_stats_for_files`.

    The name of a struct in `columns` stands for all columns in it; a path that the table does not have is ignored.
    """
    if isinstance(paths, str):
        msg = f"paths is a list of paths: [{paths!r}]"
        raise OptionError(msg)
    LazyScanConfig(limit=limit)
    snapshot = handle.snapshot()
    chosen = _named_columns(snapshot.columns, columns)
    # With paths, the limit counts files that the scanner does not know.
    scanner = handle.scanner(predicate, limit if paths is None else None, snapshot=snapshot)
    found = scanner.scan_batches(_READ) if paths is None else _named(scanner.scan_batches(_READ), set(paths), limit)
    parse = _Parser(chosen, snapshot.columns, handle.row_options.time_zone)
    return _streamed(scanner, map(parse, found))


Meaning: TypeAlias = Literal["value", "bound", "cut", "rounded"]
"""The precision of a column's minimum or maximum.

- `value`: a row has it, and no row has one beyond it. (NaN does not count.)
- `bound`: no row has a value beyond it, and maybe no row has it: rows have been deleted.
- `cut`: a text that may be the beginning of a longer one, or was rounded up when it was truncated.
- `rounded`: a timestamp that may be rounded down, by less than a millisecond, or a decimal with more digits than its
  writer may have kept.
"""


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
    folds = [_Fold(column) for column in _named_columns(snapshot.columns, columns)]
    parse = _Parser([fold.column for fold in folds], snapshot.columns, handle.row_options.time_zone)
    files = size = rows = deleted = without = 0
    with handle.scanner(predicate, snapshot=snapshot) as scanner:
        for batch in map(parse, scanner.scan_batches(_READ)):
            files += batch.found.num_rows
            size += _sum(to_numpy(batch.found.column("size")))
            rows += _sum(batch.left)
            deleted += _sum(batch.deleted)
            without += _sum(~batch.known)
            for fold in folds:
                fold.add(batch)
    summaries = tuple(fold.summary() for fold in folds)
    return TableSummary(snapshot.version, files, size, rows, deleted, without, summaries)


def _streamed(scanner: LazyDeltaScanner, batches: Iterable[_BatchStatistics]) -> Iterator[FileStats]:
    # However the stream ends, the requests end with it.
    with scanner:
        for batch in batches:
            yield from batch.files()


def _named(batches: Iterable[pa.RecordBatch], paths: set[str], limit: int | None) -> Iterator[pa.RecordBatch]:
    """The files of some paths, until all of them or enough are found."""
    left = len(paths) if limit is None else min(limit, len(paths))
    if not left:
        return
    for batch in batches:
        here = batch.filter(pc.is_in(batch.column("path"), value_set=strings(paths))).slice(0, left)
        if here.num_rows:
            yield here
        paths.difference_update(here.column("path").to_pylist())
        left = min(left - here.num_rows, len(paths))
        if not left:
            return


# Statistics of a batch of files, column by column: Arrow arrays with a row for each file.


_READ = ("path", "size", "partition_values", "stats", "deletion_vector")


class _BatchStatistics(Struct, frozen=True):
    """Statistics of a batch of files, a row a file; null is unknown."""

    found: pa.RecordBatch  # with the columns `_READ`
    num_records: pa.Int64Array  # deleted rows included
    known: NDArray[np.bool_]  # the number of records is known
    deleted: NDArray[np.int64]
    left: NDArray[np.int64]  # without deleted rows; 0 if unknown
    tight: pa.BooleanArray  # statistics are of the remaining rows; null for a file without statistics
    is_loose: NDArray[np.bool_]  # bounds and null counts may be of deleted rows
    columns: Mapping[str, ColumnStatistics]  # by name

    def files(self) -> Iterator[FileStats]:
        columns = self.columns.values()
        rows = zip(
            self.found.column("path").to_pylist(),
            self.found.column("size").to_pylist(),
            self.num_records.to_pylist(),
            self.deleted.tolist(),
            self._rows([column.null_count for column in columns]),
            self._rows([column.lower for column in columns]),
            self._rows([column.upper for column in columns]),
            self.tight.to_pylist(),
            strict=True,
        )
        return starmap(FileStats, rows)

    def _rows(self, arrays: Sequence[pa.Array]) -> Iterator[dict[str, Any]]:
        """The known values of some columns, row after row."""
        rows = zip(*map(values_of, arrays), strict=True) if arrays else [()] * self.found.num_rows
        for values in rows:
            yield {name: value for name, value in zip(self.columns, values, strict=True) if value is not None}


class _Parser(Struct, frozen=True):
    """Parses the statistics of some columns of batches of files."""

    columns: Sequence[_NamedColumn]
    table: TableSchema
    zone: str  # the time zone of partition values that were written without one

    def __call__(self, found: pa.RecordBatch) -> _BatchStatistics:
        rows, text = found.num_rows, found.column("stats")
        # The null type has no bounds, only counts of nulls.
        kinds = {
            column.physical: column.type if column.has_bounds else pa.null()
            for column in self.columns
            if not column.is_partition
        }
        stats = parse_statistics(text, kinds)
        num_records = or_nulls(stats.num_records, pa.int64(), rows)
        tight = pc.fill_null(or_nulls(stats.tight, pa.bool_(), rows), scalar(value=True, type=pa.bool_()))
        in_log = any(column.is_partition for column in self.columns)
        values = typed_partition_values(found.column("partition_values"), self.table, self.zone) if in_log else {}
        cardinality = pc.struct_field(found.column("deletion_vector"), ["cardinality"])
        deleted = np.where(to_numpy(cardinality.is_valid()), to_numpy(cardinality), 0)
        tight = pc.if_else(text.is_null(), scalar(None, pa.bool_()), tight)
        known = to_numpy(num_records.is_valid())
        return _BatchStatistics(
            found,
            num_records,
            known,
            deleted,
            left=np.where(known, to_numpy(num_records) - deleted, 0),
            tight=tight,
            is_loose=(deleted > 0) | ~to_numpy(tight),
            columns={
                column.name: _of_partitions(values[column.name], num_records)
                if column.is_partition
                else _of_statistics(stats.columns[column.physical], column.type, rows)
                for column in self.columns
            },
        )


def _of_statistics(stats: ColumnStatistics, kind: pa.DataType, rows: int) -> ColumnStatistics:
    lower, upper = (or_nulls(_comparable(bound), kind, rows) for bound in (stats.lower, stats.upper))
    return ColumnStatistics(lower, upper, or_nulls(stats.null_count, pa.int64(), rows))


def _of_partitions(values: pa.Array, num_records: pa.Int64Array) -> ColumnStatistics:
    # Every row of a file has the same value.
    null_count = pc.if_else(values.is_null(), num_records, scalar(0, pa.int64()))
    typed = _comparable(values)
    return ColumnStatistics(typed, typed, null_count)


def _comparable(bounds: pa.Array | None) -> pa.Array | None:
    """Bounds without those that Python has no value for, and without NaN, which bounds nothing."""
    if bounds is None or not len(bounds):
        return bounds
    if pa.types.is_floating(bounds.type):
        return pc.if_else(pc.is_nan(bounds), scalar(None, bounds.type), bounds)
    if pa.types.is_timestamp(bounds.type):
        ends: tuple[dt.date, dt.date] = dt.datetime.min.replace(tzinfo=dt.UTC), dt.datetime.max.replace(tzinfo=dt.UTC)
    elif pa.types.is_date32(bounds.type):
        ends = dt.date.min, dt.date.max
    else:
        return bounds
    first, last = (scalar(end, bounds.type) for end in ends)
    beyond = to_numpy(pc.less(bounds, first)) | to_numpy(pc.greater(bounds, last))
    return pc.if_else(from_numpy(beyond), scalar(None, bounds.type), bounds) if beyond.any() else bounds


def or_nulls(array: pa.Array | None, kind: pa.DataType, rows: int) -> pa.Array:
    """The array; nulls of a type if there is none."""
    return pa.nulls(rows, kind) if array is None else array


# The columns of a table that can have statistics, by name.


class _NamedColumn(Struct, frozen=True):
    """A column without fields of its own."""

    name: str  # logical, with the structs around it: parts joined by dots, a part with a dot in back-quotes
    physical: ColumnPath  # in the log
    type: pa.DataType
    has_bounds: bool  # the log's bounds can be compared with its values; else only nulls are counted
    is_partition: bool


def _named_columns(table: TableSchema, names: Sequence[str] | None = None) -> tuple[_NamedColumn, ...]:
    """Finds columns by name, in order; None for all. The name of a struct stands for all columns in it.

    Raises:
        OptionError: There is no such column.
    """
    if isinstance(names, str):
        msg = f"columns is a list of names: [{names!r}]"
        raise OptionError(msg)
    known = _leaves(table)
    if names is None:
        return tuple(known.values())
    indices = [(fold, _by_beginning(known, fold)) for fold in (tuple, _casefolded)]
    found: dict[ColumnPath, _NamedColumn] = {}
    for name in names:
        # A column with just this name comes before a field of a struct, a name as written before one in any case.
        for path, (fold, index) in product(((name,), tree.read(name)), indices):
            below = index.get(fold(path), [])
            if len({each[: len(path)] for each in below}) == 1:
                found |= {each: known[each] for each in below}
                break
        else:
            others = [column.name for column in known.values()]
            near = difflib.get_close_matches(name, others, n=3)
            hint = f"did you mean {' or '.join(near)}?" if near else f"the columns are {', '.join(others[:10])}"
            msg = f"there is no column {name!r}; {hint}"
            raise OptionError(msg)
    return tuple(found.values())


def _leaves(table: TableSchema) -> dict[ColumnPath, _NamedColumn]:
    """The columns without fields of their own, by logical path. A list, a map and a variant are one column each."""
    structs = {path[:-1] for path in table.physical_names}
    leaves = {}
    for path, physical in table.physical_names.items():
        if path not in structs:
            is_partition, kind = path[0] in table.partition_columns, type_at(table.logical, path)
            has_bounds = is_partition or (physical in table.bounded_types and not pa.types.is_binary(kind))
            leaves[path] = _NamedColumn(column_name(path), physical, kind, has_bounds, is_partition)
    return leaves


def _by_beginning(paths: Iterable[ColumnPath], fold: Callable[[ColumnPath], ColumnPath]) -> _Beginnings:
    """Paths by their own beginnings, after `fold`."""
    found: _Beginnings = {}
    for path in paths:
        for end in range(1, len(path) + 1):
            found.setdefault(fold(path[:end]), []).append(path)
    return found


def _casefolded(path: ColumnPath) -> ColumnPath:
    return tuple(part.casefold() for part in path)


# Summaries of columns.


# Writers truncate texts after 32 characters, or after 64 bytes if no character ends there.
_CUT_CHARACTERS, _CUT_BYTES = 32, 61
# Some write decimals as floating-point numbers.
_SURE_DIGITS = 15


class _Side(Struct):
    """The lowest or highest bound so far."""

    name: Literal["min", "max"]
    among_all: Any = None
    among_tight: Any = None

    def add(self, bounds: pa.Array, counted: NDArray[np.bool_], is_loose: NDArray[np.bool_]) -> None:
        self.among_all = self._beyond(self.among_all, bounds, counted)
        self.among_tight = self._beyond(self.among_tight, bounds, counted & ~is_loose)

    def meaning(self, column: _NamedColumn) -> Meaning | None:
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
        kept = bounds if counted.all() else bounds.filter(from_numpy(counted))
        if kept.null_count == len(kept):
            return best
        (found,) = values_of(pa.repeat(pc.min_max(kept)[self.name], 1))
        if best is None:
            return found
        return min(best, found) if self.name == "min" else max(best, found)


class _Fold(Struct):
    """The summary of a column so far."""

    column: _NamedColumn
    lowest: _Side = msgspec.field(default_factory=lambda: _Side("min"))
    highest: _Side = msgspec.field(default_factory=lambda: _Side("max"))
    null_count: int = 0
    is_exact: bool = True
    rows: int = 0
    files: int = 0
    files_without: int = 0

    def add(self, batch: _BatchStatistics) -> None:
        stats, num_records = batch.columns[self.column.name], to_numpy(batch.num_records)
        nulls, counted = to_numpy(stats.null_count), _is_there(stats.null_count)
        is_empty = batch.known & (batch.left <= 0)
        is_null = batch.known & counted & (nulls == num_records)
        if self.column.is_partition:
            # One value for all rows, which stays as long as one of them does. Null is a value, and known.
            has_bounds = is_null | _is_there(stats.lower) | ~counted | (nulls != 0)
            is_loose = ~batch.known
        else:
            has_bounds = _is_there(stats.lower) & _is_there(stats.upper)
            is_loose = batch.is_loose
        without = ~(has_bounds | is_null | is_empty)
        self.files += _sum(~without)
        self.files_without += _sum(without)
        self.lowest.add(stats.lower, ~is_empty, is_loose)
        self.highest.add(stats.upper, ~is_empty, is_loose)
        counted = counted & batch.known
        everywhere = nulls >= num_records
        # With deleted rows, only counts of none and of all rows are exact.
        unsure = counted & batch.is_loose & ~everywhere & (nulls > 0)
        self.is_exact &= self.column.is_partition or not unsure.any()
        self.null_count += _sum(np.where(everywhere, batch.left, np.minimum(nulls, batch.left))[counted])
        self.rows += _sum(batch.left[counted])

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


def _is_there(values: pa.Array) -> NDArray[np.bool_]:
    there: NDArray[np.bool_] = to_numpy(values.is_valid())
    return there


def _sum(numbers: NDArray[Any]) -> int:
    return int(numbers.sum())
