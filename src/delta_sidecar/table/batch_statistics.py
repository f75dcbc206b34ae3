"""What the log tells of the values in a batch of files, column by column: Arrow arrays with a row for each file."""

from __future__ import annotations

import datetime as dt
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from delta_sidecar._arrow import bits_of, booleans, numbers_of, scalar, valid_mask
from delta_sidecar.log.stats import ColumnStatistics, parse_statistics
from delta_sidecar.table.partition_values import typed_partition_values

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from delta_sidecar.log.schema import TableSchema
    from delta_sidecar.table.column_names import NamedColumn

READ = ("path", "size", "partition_values", "stats", "deletion_vector")
"""The columns of a batch of files that this is made of."""


@dataclass(frozen=True, slots=True)
class KnownColumn:
    """What is known of a column; null is unknown.

    Attributes:
        lower: The lower bounds.
        upper: The upper bounds.
        null_count: How many rows are null.
    """

    lower: pa.Array
    upper: pa.Array
    null_count: pa.Int64Array


@dataclass(frozen=True, slots=True)
class BatchStatistics:
    """What is known of a batch of files.

    Attributes:
        num_records: Rows in each file, deleted ones included; null is unknown.
        deleted: How many of them are deleted.
        tight: Whether what is told is of the rows that are there; null for a file without statistics.
        columns: What is known of each column, by its name.
    """

    num_records: pa.Int64Array
    deleted: NDArray[np.int64]
    tight: pa.BooleanArray
    columns: Mapping[str, KnownColumn]


def batch_statistics(
    found: pa.RecordBatch, columns: Sequence[NamedColumn], table: TableSchema, zone: str
) -> BatchStatistics:
    """Reads the statistics of some columns of a batch of files.

    Args:
        found: The files, with the columns `READ`.
        columns: Which columns.
        table: The table's columns.
        zone: The time zone of partition values that were written without one.

    Raises:
        LogCorruptionError: A partition value is none of its column's type.
    """
    rows, text = found.num_rows, found.column("stats")
    # The null type has no bounds: of such a column only nulls are counted.
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


def _of_statistics(stats: ColumnStatistics, kind: pa.DataType, rows: int) -> KnownColumn:
    lower, upper = (_or_nulls(_comparable(bound), kind, rows) for bound in (stats.lower, stats.upper))
    return KnownColumn(lower, upper, _or_nulls(stats.null_count, pa.int64(), rows))


def _of_partitions(values: pa.Array, num_records: pa.Int64Array) -> KnownColumn:
    """Every row of a file has the same value."""
    is_null = booleans(~valid_mask(values))
    null_count = pc.if_else(is_null, num_records, scalar(0, pa.int64()))
    typed = _comparable(values)
    return KnownColumn(typed, typed, null_count)


def _comparable(bounds: pa.Array | None) -> pa.Array | None:
    """Bounds without those that no Python value stands for, and without NaN, which bounds nothing."""
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
