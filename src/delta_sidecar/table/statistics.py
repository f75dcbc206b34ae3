"""Statistics of data files, under the names that users see."""

from __future__ import annotations

import datetime as dt
import difflib
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from delta_sidecar._arrow import bits_of, booleans, numbers_of, scalar, strings, valid_mask, values_of
from delta_sidecar.errors import OptionError
from delta_sidecar.log.schema import type_at
from delta_sidecar.log.stats import ColumnStatistics, parse_statistics
from delta_sidecar.predicate import tree
from delta_sidecar.scan.config import LazyScanConfig
from delta_sidecar.sidecar.names import column_name
from delta_sidecar.table.filters import typed_partition_values

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from numpy.typing import NDArray

    from delta_sidecar.log.schema import ColumnPath, TableSchema
    from delta_sidecar.predicate import Predicate
    from delta_sidecar.scan.scanner import LazyDeltaScanner
    from delta_sidecar.table.pinned import TableHandle


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
    chosen = named_columns(snapshot.columns, columns)
    # With paths, the limit counts files that the scanner does not know.
    scanner = handle.scanner(predicate, limit if paths is None else None, snapshot=snapshot)
    found = scanner.scan_batches(READ) if paths is None else _named(scanner.scan_batches(READ), set(paths), limit)
    zone = handle.row_options.time_zone
    stats = (_values(batch, batch_statistics(batch, chosen, snapshot.columns, zone)) for batch in found)
    return _streamed(scanner, stats)


def _streamed(scanner: LazyDeltaScanner, batches: Iterable[Iterator[FileStats]]) -> Iterator[FileStats]:
    # However the stream ends, the requests end with it.
    with scanner:
        for batch in batches:
            yield from batch


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


def _values(found: pa.RecordBatch, stats: BatchStatistics) -> Iterator[FileStats]:
    names = tuple(stats.columns)
    known = list(stats.columns.values())
    rows = zip(
        found.column("path").to_pylist(),
        found.column("size").to_pylist(),
        stats.num_records.to_pylist(),
        stats.deleted.tolist(),
        _rows([column.null_count for column in known], found.num_rows),
        _rows([column.lower for column in known], found.num_rows),
        _rows([column.upper for column in known], found.num_rows),
        stats.tight.to_pylist(),
        strict=True,
    )
    for path, size, num_records, deleted, null_counts, lower, upper, tight in rows:
        nulls, lowest, highest = (_known(names, values) for values in (null_counts, lower, upper))
        yield FileStats(path, size, num_records, deleted, nulls, lowest, highest, tight)


def _rows(columns: Sequence[pa.Array], rows: int) -> Iterable[tuple[Any, ...]]:
    """The values of columns, row after row."""
    return zip(*map(values_of, columns), strict=True) if columns else [()] * rows


def _known(names: tuple[str, ...], values: tuple[Any, ...]) -> dict[str, Any]:
    return {name: value for name, value in zip(names, values, strict=True) if value is not None}


# Statistics of a batch of files, column by column: Arrow arrays with a row for each file.


READ = ("path", "size", "partition_values", "stats", "deletion_vector")
"""The columns of a batch of files that `batch_statistics` reads."""


@dataclass(frozen=True, slots=True)
class BatchStatistics:
    """Statistics of a batch of files, a row a file; null is unknown."""

    num_records: pa.Int64Array  # deleted rows included
    deleted: NDArray[np.int64]
    tight: pa.BooleanArray  # statistics are of the remaining rows; null for a file without statistics
    columns: Mapping[str, ColumnStatistics]  # by name


def batch_statistics(
    found: pa.RecordBatch, columns: Sequence[NamedColumn], table: TableSchema, zone: str
) -> BatchStatistics:
    """Parses the statistics of some columns of a batch of files with the columns `READ`.

    `zone` is the time zone of partition values that were written without one.

    Raises:
        LogCorruptionError: A partition value is none of its column's type.
    """
    rows, text = found.num_rows, found.column("stats")
    # The null type has no bounds, only counts of nulls.
    kinds = {
        column.physical: column.type if column.has_bounds else pa.null()
        for column in columns
        if not column.is_partition
    }
    stats = parse_statistics(text, kinds)
    num_records = _or_nulls(stats.num_records, pa.int64(), rows)
    tight = pc.fill_null(_or_nulls(stats.tight, pa.bool_(), rows), scalar(value=True, type=pa.bool_()))
    in_log = any(column.is_partition for column in columns)
    values = typed_partition_values(found.column("partition_values"), table, zone) if in_log else {}
    known = {
        column.name: _of_partitions(values[column.name], num_records)
        if column.is_partition
        else _of_statistics(stats.columns[column.physical], column.type, rows)
        for column in columns
    }
    deleted = pc.struct_field(found.column("deletion_vector"), ["cardinality"])
    return BatchStatistics(
        num_records=num_records,
        deleted=np.where(valid_mask(deleted), numbers_of(deleted), 0),
        tight=pc.if_else(text.is_null(), scalar(None, pa.bool_()), tight),
        columns=known,
    )


def _of_statistics(stats: ColumnStatistics, kind: pa.DataType, rows: int) -> ColumnStatistics:
    lower, upper = (_or_nulls(_comparable(bound), kind, rows) for bound in (stats.lower, stats.upper))
    return ColumnStatistics(lower, upper, _or_nulls(stats.null_count, pa.int64(), rows))


def _of_partitions(values: pa.Array, num_records: pa.Int64Array) -> ColumnStatistics:
    # Every row of a file has the same value.
    is_null = booleans(~valid_mask(values))
    null_count = pc.if_else(is_null, num_records, scalar(0, pa.int64()))
    typed = _comparable(values)
    return ColumnStatistics(typed, typed, null_count)


def _comparable(bounds: pa.Array | None) -> pa.Array | None:
    """Bounds without those that Python has no value for, and without NaN, which bounds nothing."""
    if bounds is None or not len(bounds):
        return bounds
    if pa.types.is_floating(bounds.type):
        return pc.if_else(pc.is_nan(bounds), scalar(None, bounds.type), bounds)
    if pa.types.is_timestamp(bounds.type):
        moments = dt.datetime.min.replace(tzinfo=dt.UTC), dt.datetime.max.replace(tzinfo=dt.UTC)
        first, last = (scalar(at, bounds.type) for at in moments)
    elif pa.types.is_date32(bounds.type):
        first, last = (scalar(at, bounds.type) for at in (dt.date.min, dt.date.max))
    else:
        return bounds
    beyond = bits_of(pc.less(bounds, first)) | bits_of(pc.greater(bounds, last))
    return pc.if_else(booleans(beyond), scalar(None, bounds.type), bounds) if beyond.any() else bounds


def _or_nulls(array: pa.Array | None, kind: pa.DataType, rows: int) -> pa.Array:
    return pa.nulls(rows, kind) if array is None else array


# The columns of a table that can have statistics, by name.


@dataclass(frozen=True, slots=True)
class NamedColumn:
    """A column without fields of its own."""

    name: str  # logical, with the structs around it: parts joined by dots, a part with a dot in back-quotes
    physical: ColumnPath  # in the log
    type: pa.DataType
    has_bounds: bool  # the log's bounds can be compared with its values; else only nulls are counted
    is_partition: bool


def named_columns(table: TableSchema, names: Sequence[str] | None = None) -> tuple[NamedColumn, ...]:
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
    found: dict[ColumnPath, NamedColumn] = {}
    # As written first, then in any case.
    indices = tuple(_PrefixIndex(known, fold) for fold in (tuple, _casefolded))
    for name in names:
        found |= _below(name, known, indices)
    return tuple(found.values())


def _leaves(table: TableSchema) -> dict[ColumnPath, NamedColumn]:
    """The columns without fields of their own, by logical path. A list, a map and a variant are one column each."""
    bounded = table.bounded_types
    structs = {path[:-1] for path in table.physical_names}
    partitions = frozenset(table.partition_columns)
    leaves = {}
    for path, physical in table.physical_names.items():
        if path in structs:
            continue
        is_partition = path[0] in partitions
        kind = type_at(table.logical, path)
        has_bounds = is_partition or (physical in bounded and not pa.types.is_binary(kind))
        leaves[path] = NamedColumn(column_name(path), physical, kind, has_bounds, is_partition)
    return leaves


class _PrefixIndex:
    """Columns by the beginnings of their paths, after `fold`."""

    def __init__(self, known: Mapping[ColumnPath, NamedColumn], fold: Callable[[ColumnPath], ColumnPath]) -> None:
        self._fold = fold
        self._paths: dict[ColumnPath, list[ColumnPath]] = {}
        for path in known:
            for end in range(1, len(path) + 1):
                self._paths.setdefault(fold(path[:end]), []).append(path)

    def below(self, path: ColumnPath) -> list[ColumnPath]:
        return self._paths.get(self._fold(path), [])


def _below(
    name: str, known: Mapping[ColumnPath, NamedColumn], indices: Iterable[_PrefixIndex]
) -> dict[ColumnPath, NamedColumn]:
    # A column with just this name comes before a field of a struct.
    for path in ((name,), tree.read(name)):
        for index in indices:
            found = index.below(path)
            if len({each[: len(path)] for each in found}) == 1:
                return {each: known[each] for each in found}
    others = [column.name for column in known.values()]
    near = difflib.get_close_matches(name, others, n=3)
    hint = f"did you mean {' or '.join(near)}?" if near else f"the columns are {', '.join(others[:10])}"
    msg = f"there is no column {name!r}; {hint}"
    raise OptionError(msg)


def _casefolded(path: ColumnPath) -> ColumnPath:
    return tuple(part.casefold() for part in path)
