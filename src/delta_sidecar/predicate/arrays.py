"""Arrow arrays of literals, and arrays in the few layouts that comparisons work on."""

from __future__ import annotations

from decimal import Decimal
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from delta_sidecar import _arrow
from delta_sidecar.predicate.domain import Kind, kind_of, steps

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from delta_sidecar.predicate.literals import Value


def plain_type(type: pa.DataType) -> pa.DataType:  # noqa: A002 - the Arrow word
    """Gives the type that values of a type are compared in: the same values in a layout with all kernels."""
    if pa.types.is_dictionary(type):
        return plain_type(type.value_type)
    if pa.types.is_string_view(type):
        return pa.string()
    if pa.types.is_binary_view(type) or (kind_of(type) is Kind.BINARY and pa.types.is_fixed_size_binary(type)):
        return pa.binary()
    return pa.float64() if pa.types.is_floating(type) else type


def of(values: Sequence[Value], type: pa.DataType) -> pa.Array:  # noqa: A002
    """Makes an array without nulls from bound literals of a column of this type, in its plain type."""
    plain = plain_type(type)
    kind = kind_of(plain)
    if kind is Kind.BOOLEAN:
        return _arrow.booleans(np.array(values, dtype=np.bool_))
    if kind is Kind.FLOATING:
        return _over(np.array(values, dtype=np.float64), plain)
    if kind is Kind.DECIMAL:
        return _arrow.strings(
            format(value, "f") if isinstance(value, Decimal) else str(value) for value in values
        ).cast(plain)
    if kind is Kind.STRING:
        return _arrow.strings(str(value) for value in values).cast(plain)
    if kind is Kind.BINARY:
        return _binaries([value for value in values if isinstance(value, bytes)]).cast(plain)
    counts = [int(count) for value in values if (count := steps(value, plain)) is not None]
    sign = "u" if pa.types.is_unsigned_integer(plain) else "i"
    return _over(np.array(counts, dtype=f"{sign}{plain.bit_width // 8}"), plain)


def one(value: Value, type: pa.DataType) -> pa.Scalar:  # noqa: A002
    """Makes a scalar from a bound literal of a column of this type, in its plain type."""
    return of((value,), type)[0]


def _over(numbers: NDArray[np.generic], type: pa.DataType) -> pa.Array:  # noqa: A002
    return pa.Array.from_buffers(type, len(numbers), [None, pa.py_buffer(numbers)])


def _binaries(values: Sequence[bytes]) -> pa.Array:
    offsets = np.zeros(len(values) + 1, dtype=np.int64)
    np.cumsum([len(value) for value in values], out=offsets[1:])
    return pa.Array.from_buffers(
        pa.large_binary(), len(values), [None, pa.py_buffer(offsets), pa.py_buffer(b"".join(values))]
    )
