"""Keys of a metadata sidecar's rows: `(complete, sort value..., path, id of the deletion vector)`, and their order.

Values are compared place by place, null before everything else, texts by their bytes. A reader that has emitted some
row groups and goes on with a checkpoint asks which of its files lie `within` those.
"""

from __future__ import annotations

import re
from decimal import Decimal, InvalidOperation
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from delta_sidecar._arrow import bits_of, scalar, strings, valid_mask
from delta_sidecar.errors import SidecarError
from delta_sidecar.sidecar.schema import arrow_type

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from delta_sidecar.sidecar.groups import Key
    from delta_sidecar.sidecar.manifest import SortColumn


def within(first: Sequence[pa.Scalar], last: Sequence[pa.Scalar], columns: Sequence[pa.Array]) -> NDArray[np.bool_]:
    """Tells, row by row, which keys lie between two others, both included.

    Args:
        first: The lower key.
        last: The upper key.
        columns: The keys, a column for each place, each of the type of the scalars there. NaN is taken for null.

    Raises:
        ValueError: They do not have equally many places.
    """
    if not len(first) == len(last) == len(columns):
        msg = "keys of different lengths"
        raise ValueError(msg)
    rows = len(columns[0])
    above, below = np.zeros(rows, dtype=np.bool_), np.zeros(rows, dtype=np.bool_)
    at_first, at_last = np.ones(rows, dtype=np.bool_), np.ones(rows, dtype=np.bool_)
    for low, high, column in zip(first, last, columns, strict=True):
        if not at_first.any() and not at_last.any():
            break
        greater, equal, _ = _compared(column, low)
        above |= at_first & greater
        at_first &= equal
        _, equal, less = _compared(column, high)
        below |= at_last & less
        at_last &= equal
    inside: NDArray[np.bool_] = (above | at_first) & (below | at_last)
    return inside


def key_scalars(key: Key, sort: Sequence[SortColumn]) -> tuple[pa.Scalar, ...]:
    """A key of a manifest as typed values.

    A partition value is a raw text: where it is no value of the type, or NaN, it counts as null. A lower bound is as in
    Delta's statistics.

    Raises:
        SidecarError: The key has another length, or a lower bound is no value of its type.
    """
    complete, *values = key[:-2]
    path, vector = key[-2:]
    if len(values) != len(sort):
        msg = "a key of the manifest is out of form"
        raise SidecarError(msg)
    typed = [
        bound_scalar(value, arrow_type(each.type))
        if each.kind == "lower_bound"
        else partition_scalar(value, arrow_type(each.type))
        for value, each in zip(values, sort, strict=True)
    ]
    flag = scalar(int(complete or 0), pa.int8())
    return (flag, *typed, scalar(path, pa.string()), scalar(vector, pa.string()))


def partition_scalar(text: object, kind: pa.DataType) -> pa.Scalar:
    """A raw partition value as a value of its column; null where it is none, or the column has no order.

    Raises:
        SidecarError: It is no text.
    """
    if text is None or text == "" or pa.types.is_binary(kind):
        return scalar(None, kind)
    if not isinstance(text, str):
        msg = "a partition value of the manifest is no text"
        raise SidecarError(msg)
    try:
        value = _instant(text, kind) if pa.types.is_timestamp(kind) else strings([text]).cast(kind)[0]
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        return scalar(None, kind)
    return _without_nan(value)


def bound_scalar(value: object, kind: pa.DataType) -> pa.Scalar:
    """A bound as Delta's statistics write it, as a value of its column; null for null and NaN.

    Raises:
        SidecarError: It is no value of the column.
    """
    if value is None:
        return scalar(None, kind)
    try:
        if pa.types.is_timestamp(kind) and isinstance(value, str):
            return _instant(value, kind)
        if isinstance(value, str) != _is_text(value, kind) or isinstance(value, bool) != pa.types.is_boolean(kind):
            raise TypeError  # noqa: TRY301 - one reason for all
        if isinstance(value, Decimal | int) and pa.types.is_floating(kind):
            return scalar(float(value), kind)
        text = str(value).lower() if isinstance(value, bool) else _plain(value)
        return _without_nan(strings([text]).cast(kind)[0])
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError, TypeError, OverflowError, InvalidOperation) as error:
        msg = f"a bound of the manifest is no {kind}"
        raise SidecarError(msg) from error


_ZONE = re.compile(r"(?:[Zz]|[+-]\d{2}:?\d{2})$")


def _instant(text: str, kind: pa.TimestampType) -> pa.Scalar:
    """A timestamp in UTC; one without a zone is taken to be in UTC."""
    column = strings([text])
    zoned = _ZONE.search(text) is not None
    return (column.cast(pa.timestamp("us", "UTC")) if zoned else column.cast(pa.timestamp("us"))).cast(kind)[0]


def _is_text(value: object, kind: pa.DataType) -> bool:
    if pa.types.is_floating(kind):
        return isinstance(value, str)
    return bool(pa.types.is_string(kind) or pa.types.is_temporal(kind))


def _plain(value: object) -> str:
    return format(value, "f") if isinstance(value, Decimal) else str(value)


def _without_nan(value: pa.Scalar) -> pa.Scalar:
    odd = pa.types.is_floating(value.type) and value.is_valid and value.as_py() != value.as_py()
    return scalar(None, value.type) if odd else value


def _compared(column: pa.Array, value: pa.Scalar) -> tuple[NDArray[np.bool_], NDArray[np.bool_], NDArray[np.bool_]]:
    """Which values of a column are greater than, equal to and less than one."""
    valid = valid_mask(column)
    if pa.types.is_floating(column.type):
        valid &= ~bits_of(pc.is_nan(column))
    if not value.is_valid:
        return valid, ~valid, np.zeros(len(column), dtype=np.bool_)
    greater = bits_of(pc.greater(column, value)) & valid
    equal = bits_of(pc.equal(column, value)) & valid
    return greater, equal, ~greater & ~equal
