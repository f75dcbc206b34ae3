"""The order of a metadata sidecar's rows, as typed values that can be sorted and compared.

    complete (no, yes), sort values (nulls first), path, id of the deletion vector

A file is complete if it has both bounds of every summary column. Every base has the same paths and partition values of
a file, and mostly the same statistics: its place in the order does not depend on the base.
"""

from __future__ import annotations

from decimal import Decimal, InvalidOperation
from itertools import takewhile
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from msgspec import Struct

from delta_sidecar._arrow import from_numpy, scalar, strings, to_numpy
from delta_sidecar.errors import SidecarError
from delta_sidecar.log.identity import unique_ids
from delta_sidecar.log.partition_values import PartitionTexts, read_known_values
from delta_sidecar.log.values import parse_timestamps
from delta_sidecar.sidecar.rows import bound_column, row_vectors

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from delta_sidecar.log.partition_values import PartitionColumn
    from delta_sidecar.log.schema import ColumnPath
    from delta_sidecar.sidecar.groups import Key, Run
    from delta_sidecar.sidecar.manifest import SortColumn
    from delta_sidecar.sidecar.schema import SidecarSchema


G = TypeVar("G", bound="Run")


class SidecarOrder(Struct, frozen=True):
    """The order of a sidecar's rows."""

    sort: tuple[SortColumn, ...]  # before path and deletion vector
    summaries: Mapping[ColumnPath, pa.DataType]  # summary columns, by physical path

    def of_rows(self, rows: pa.RecordBatch, schema: SidecarSchema) -> list[pa.Array]:
        """The values of rows of a sidecar, a column for each place in a key."""
        values = [
            without_nan(bound_column(rows, "min", value.column))
            if value.kind == "lower_bound"
            else typed(rows.column(schema.partition_columns[value.column[0]]), value.arrow_type)
            for value in self.sort
        ]
        complete = np.ones(rows.num_rows, dtype=np.bool_)
        for path in self.summaries:
            for side in ("min", "max"):
                complete &= to_numpy(without_nan(bound_column(rows, side, path)).is_valid())
        return [_flags(complete), *values, rows.column("path"), vector_ids(row_vectors(rows))]


class NewestRows(Struct, frozen=True):
    """The order of the rows of one row group, the newest first.

        time values of the sidecar's order downward, upper bound of the time column, modification time, place

    It depends on nothing but the row group, so that every scan finds its rows in the same order.
    """

    buckets: tuple[str, ...]  # columns of time buckets and dates that the row group is sorted by, in order
    times: tuple[str, ...]  # columns that decide the rest; files without a value come last

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns that it takes."""
        return (*self.buckets, *self.times)

    def first(self, rows: pa.RecordBatch, most: int | None) -> pa.RecordBatch:
        """The first rows of the order, or all, out of the rows of one row group in its own order."""
        count = rows.num_rows
        kept = count if most is None else min(most, count)
        upward = np.arange(count, dtype=np.int64)
        if not self.times:
            return rows.take(from_numpy(upward[::-1][:kept]))
        keys = [from_numpy(self._runs(rows)), *(rows.column(name) for name in self.times), from_numpy(upward)]
        return rows.take(_downward(keys).slice(0, kept))

    def _runs(self, rows: pa.RecordBatch) -> NDArray[np.int64]:
        """Numbers the runs of equal buckets: they are in order already."""
        begins = np.zeros(rows.num_rows, dtype=np.bool_)
        for name in self.buckets:
            column = rows.column(name)
            before, after = column.slice(0, len(column) - 1), column.slice(1)
            is_null = ~to_numpy(column.is_valid())
            begins[1:] |= to_numpy(pc.not_equal(before, after)) | (is_null[1:] != is_null[:-1])
        return np.cumsum(begins, dtype=np.int64)


def newest_first(groups: Sequence[G], order: SidecarOrder) -> tuple[G, ...]:
    """Row groups, or segments, in the order of the newest file that each may hold.

    Complete and incomplete rows are in order each. Incomplete ones have partition values as well, and come between the
    others by those; without them nothing is known of their time, and they come last.
    """
    down = tuple(reversed(groups))
    is_one_run = not down or bool(down[0].last_key[0]) == bool(down[-1].first_key[0])
    if is_one_run or not order.sort or order.sort[0].kind == "lower_bound":
        return down
    partitions = tuple(takewhile(lambda value: value.kind != "lower_bound", order.sort))
    texts = zip(*(group.last_key[1 : 1 + len(partitions)] for group in down), strict=True)
    values: list[pa.Array] = [
        typed(strings(map(_text, each)), value.arrow_type) for each, value in zip(texts, partitions, strict=True)
    ]
    upward = from_numpy(np.arange(len(down), dtype=np.int64)[::-1])
    return tuple(down[at] for at in _downward([*values, upward]).to_pylist())


def _downward(keys: Sequence[pa.Array]) -> pa.UInt64Array:
    """The order of rows by some values, each downward with nulls last."""
    names = [f"{number}" for number in range(len(keys))]
    return pc.sort_indices(pa.Table.from_arrays(keys, names=names), sort_keys=[(name, "descending") for name in names])


def _text(value: object) -> str | None:
    return value if isinstance(value, str) else None


def _flags(mask: NDArray[np.bool_]) -> pa.Int8Array:
    return pa.Array.from_buffers(pa.int8(), len(mask), [None, pa.py_buffer(mask.astype(np.int8))])


# Keys of a metadata sidecar's rows: `(complete, sort value..., path, id of the deletion vector)`, and their order.
#
# Values are compared place by place, null before everything else, texts by their bytes.


def key_scalars(key: Key, sort: Sequence[SortColumn]) -> tuple[pa.Scalar, ...]:
    """A key of a manifest as typed values.

    A partition value is a raw text: where it is no value of the type, or NaN, it counts as null. A lower bound is as in
    Delta's statistics.

    Raises:
        SidecarError: The key has another length, or a lower bound is no value of its type.
    """
    complete, *values, path, vector = key
    if len(values) != len(sort):
        msg = "a key of the manifest is out of form"
        raise SidecarError(msg)
    typed = [
        bound_scalar(value, each.arrow_type) if each.kind == "lower_bound" else partition_scalar(value, each.arrow_type)
        for value, each in zip(values, sort, strict=True)
    ]
    flag = scalar(int(complete or 0), pa.int8())
    return (flag, *typed, scalar(path, pa.string()), scalar(vector, pa.string()))


def comparable(value: pa.Scalar) -> tuple[bool, Any]:
    """A value that Python orders as a sidecar does: null first, texts by their bytes."""
    # Moments and days that Python cannot hold are numbers here.
    return value.is_valid, value.value if pa.types.is_temporal(value.type) else value.as_py()


def partition_scalar(text: object, kind: pa.DataType) -> pa.Scalar:
    """A raw partition value as a value of its column; null where it is none, or the column has no order.

    Raises:
        SidecarError: It is no text.
    """
    if text is None:
        return scalar(None, kind)
    if not isinstance(text, str):
        msg = "a partition value of the manifest is no text"
        raise SidecarError(msg)
    return typed(strings([text]), kind)[0]


def bound_scalar(value: object, kind: pa.DataType) -> pa.Scalar:
    """A bound as Delta's statistics write it, as a value of its column; null for null and NaN.

    Raises:
        SidecarError: It is no value of the column.
    """
    if value is None:
        return scalar(None, kind)
    try:
        if pa.types.is_timestamp(kind) and isinstance(value, str):
            return parse_timestamps(strings([value]))[0].cast(kind)[0]
        if isinstance(value, str) != _is_text(value, kind) or isinstance(value, bool) != pa.types.is_boolean(kind):
            raise TypeError  # noqa: TRY301 - one reason for all
        if isinstance(value, Decimal | int) and pa.types.is_floating(kind):
            return scalar(float(value), kind)
        text = str(value).lower() if isinstance(value, bool) else _plain(value)
        return without_nan(strings([text]).cast(kind))[0]
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError, TypeError, OverflowError, InvalidOperation) as error:
        msg = f"a bound of the manifest is no {kind}"
        raise SidecarError(msg) from error


def _is_text(value: object, kind: pa.DataType) -> bool:
    if pa.types.is_floating(kind):
        return isinstance(value, str)
    return bool(pa.types.is_string(kind) or pa.types.is_temporal(kind))


def _plain(value: object) -> str:
    return format(value, "f") if isinstance(value, Decimal) else str(value)


def typed(texts: pa.StringArray, kind: pa.DataType) -> pa.Array:
    """Partition values for comparing: a text that is no value of the type counts as null, and so does NaN.

    What a text counts as does not depend on the other texts.
    """
    column: PartitionColumn | None
    _, column = read_known_values(PartitionTexts(texts, np.ones(len(texts), dtype=np.bool_)), kind)
    return pa.nulls(len(texts), kind) if column is None else without_nan(column.values)


def without_nan(values: pa.Array) -> pa.Array:
    """The same values, null in the place of NaN: that is neither before nor after anything."""
    if not pa.types.is_floating(values.type):
        return values
    return pc.if_else(pc.is_nan(values), scalar(None, values.type), values)


def vector_ids(descriptors: pa.StructArray) -> pa.StringArray:
    """The ids of deletion vectors; the empty text without one. They do not depend on the other files."""
    ids = unique_ids(descriptors)
    return pc.fill_null(pa.nulls(len(descriptors), pa.string()) if ids is None else ids, scalar("", pa.string()))
