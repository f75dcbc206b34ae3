"""Arrow values made and taken apart without `pa.array` and `pa.scalar`, and timestamps without `as_py`.

All of those import pandas, where it is installed, on their first call: up to a second on the way to the
first file. Everything on the way from a log to a batch goes through these functions instead.
"""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import xxhash

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from numpy.typing import NDArray


UTC = dt.UTC


def strings(values: Iterable[str | None]) -> pa.StringArray:
    """Makes a string array."""
    builder = pa.lib.StringBuilder()
    for value in values:
        builder.append(value)
    return builder.finish()


def binaries(values: Sequence[bytes | None]) -> pa.BinaryArray:
    """Makes a binary array."""
    valid = np.array([value is not None for value in values], dtype=np.bool_)
    offsets = np.cumsum([0, *(len(value or b"") for value in values)], dtype=np.int32)
    bits = None if valid.all() else pa.py_buffer(np.packbits(valid, bitorder="little"))
    content = pa.py_buffer(b"".join(value or b"" for value in values))
    return pa.Array.from_buffers(pa.binary(), len(values), [bits, pa.py_buffer(offsets), content])


def int64s(values: NDArray[np.int64]) -> pa.Int64Array:
    """Makes an int64 array without nulls over the memory of a numpy array."""
    values = np.ascontiguousarray(values, dtype=np.int64)
    return pa.Array.from_buffers(pa.int64(), len(values), [None, pa.py_buffer(values)])


def nullable_int64s(values: NDArray[np.int64], valid: NDArray[np.bool_]) -> pa.Int64Array:
    """Makes an int64 array that is null where `valid` is false."""
    bits = np.packbits(valid, bitorder="little")
    return pa.Array.from_buffers(pa.int64(), len(values), [pa.py_buffer(bits), pa.py_buffer(values)])


def booleans(mask: NDArray[np.bool_]) -> pa.BooleanArray:
    """Makes a boolean array without nulls."""
    bits = np.packbits(mask, bitorder="little")
    return pa.Array.from_buffers(pa.bool_(), len(mask), [None, pa.py_buffer(bits)])


def bits_of(array: pa.BooleanArray) -> NDArray[np.bool_]:
    """A boolean array as a numpy mask; null counts as false."""
    if isinstance(array, pa.ChunkedArray):
        array = array.combine_chunks()
    if array.null_count:
        array = pc.fill_null(array, scalar(value=False, type=pa.bool_()))
    return _bitmap(array.buffers()[1], array.offset, len(array))


def valid_mask(array: pa.Array) -> NDArray[np.bool_]:
    """A mask of the values of an array that are not null."""
    if array.null_count == 0:
        return np.ones(len(array), dtype=np.bool_)
    return bits_of(array.is_valid())


def numbers_of(array: pa.Array) -> NDArray[Any]:
    """The values of a fixed-width array as numpy; the value under a null is undefined."""
    kind = "f" if pa.types.is_floating(array.type) else "u" if pa.types.is_unsigned_integer(array.type) else "i"
    width = np.dtype(f"{kind}{array.type.bit_width // 8}")
    data = array.buffers()[1]
    if data is None:
        return np.zeros(len(array), dtype=width)
    return np.frombuffer(data, dtype=width, count=len(array) + array.offset)[array.offset :]


def values_of(array: pa.Array) -> list[Any]:
    """The values of an array in Python's types; timestamps are in microseconds, in UTC where they have a zone."""
    if not pa.types.is_timestamp(array.type):
        return array.to_pylist()  # type: ignore[no-any-return]
    epoch = dt.datetime(1970, 1, 1, tzinfo=None if array.type.tz is None else UTC)
    micros = array.cast(pa.timestamp("us", array.type.tz)).view(pa.int64())
    return [None if value is None else epoch + dt.timedelta(microseconds=value) for value in micros.to_pylist()]


def scalar(value: object, type: pa.DataType) -> pa.Scalar:  # noqa: A002 - the Arrow word
    """Makes an Arrow scalar of a type from a Python value of the matching Python type."""
    if value is None:
        return pa.nulls(1, type)[0]
    if pa.types.is_boolean(type):
        return booleans(np.array([value], dtype=np.bool_))[0]
    if pa.types.is_binary(type) or pa.types.is_large_binary(type):
        if not isinstance(value, bytes):
            msg = f"not bytes: {value!r}"
            raise TypeError(msg)
        return binaries([value]).cast(type)[0]
    if pa.types.is_timestamp(type):
        return int64s(np.array([_epoch(value, type)], dtype=np.int64)).view(type)[0]
    if pa.types.is_date32(type):
        if not isinstance(value, dt.date):
            msg = f"not a date: {value!r}"
            raise TypeError(msg)
        days = np.array([(value - dt.date(1970, 1, 1)).days], dtype=np.int32)
        return pa.Array.from_buffers(type, 1, [None, pa.py_buffer(days)])[0]
    if isinstance(value, float) and pa.types.is_floating(type):
        return pa.Array.from_buffers(pa.float64(), 1, [None, pa.py_buffer(np.array([value], dtype=np.float64))]).cast(
            type, safe=False
        )[0]
    text = format(value, "f") if isinstance(value, Decimal) else str(value)
    return strings([text]).cast(type)[0]


def _bitmap(buffer: pa.Buffer | None, offset: int, length: int) -> NDArray[np.bool_]:
    if length == 0 or buffer is None:
        return np.zeros(length, dtype=np.bool_)
    data = np.frombuffer(buffer, dtype=np.uint8)
    first = offset // 8
    bits = np.unpackbits(data[first : (offset + length + 7) // 8], bitorder="little")
    start = offset - first * 8
    return bits[start : start + length].view(np.bool_)


def _epoch(value: object, type: pa.TimestampType) -> int:  # noqa: A002
    if not isinstance(value, dt.datetime):
        msg = f"not a timestamp: {value!r}"
        raise TypeError(msg)
    aware = value if value.tzinfo is not None else value.replace(tzinfo=UTC)
    micros = (aware - dt.datetime(1970, 1, 1, tzinfo=UTC)) // dt.timedelta(microseconds=1)
    per_second = {"s": 1, "ms": 1_000, "us": 1_000_000, "ns": 1_000_000_000}[type.unit]
    return micros * per_second // 1_000_000


# Digests that find damage in a file. They are no proof against forgery.


DIGEST_LENGTH = 32
"""Characters of a digest."""

xxh3_128 = xxhash.xxh3_128_hexdigest
"""The XXH3 digest of 128 bits, in small hexadecimal digits."""
