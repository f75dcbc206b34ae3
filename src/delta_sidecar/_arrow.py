"""Arrow values made and taken apart without `pa.array` and `pa.scalar`, and timestamps without `as_py`.

All of those import pandas, where it is installed, on their first call: up to a second on the way to the
first file. Everything on the way from a log to a batch goes through these functions instead.
"""

from __future__ import annotations

import datetime as dt
import threading
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import xxhash

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from numpy.typing import NDArray


def strings(values: Iterable[str | None]) -> pa.StringArray:
    """Makes a string array."""
    builder = pa.lib.StringBuilder()
    for value in values:
        builder.append(value)
    return builder.finish()


def binaries(values: Sequence[bytes | None]) -> pa.BinaryArray:
    """Makes a binary array; over the memory of the value where there is only one."""
    bits = None
    if None in values:
        bits = pa.py_buffer(np.packbits([value is not None for value in values], bitorder="little"))
        values = [value or b"" for value in values]
    offsets = np.cumsum([0, *map(len, values)], dtype=np.int32)  # type: ignore[arg-type]
    content = pa.py_buffer(b"".join(values))  # type: ignore[arg-type]
    return pa.Array.from_buffers(pa.binary(), len(values), [bits, pa.py_buffer(offsets), content])


def from_numpy(values: NDArray[np.int64] | NDArray[np.bool_], valid: NDArray[np.bool_] | None = None) -> pa.Array:
    """Makes an array of a numpy array, over the memory of its numbers; null where `valid` is false."""
    bits = None if valid is None else pa.py_buffer(np.packbits(valid, bitorder="little"))
    if values.dtype == np.bool_:
        data = pa.py_buffer(np.packbits(values, bitorder="little"))
        return pa.Array.from_buffers(pa.bool_(), len(values), [bits, data])
    data = pa.py_buffer(np.ascontiguousarray(values, dtype=np.int64))
    return pa.Array.from_buffers(pa.int64(), len(values), [bits, data])


def to_numpy(array: pa.Array) -> NDArray[Any]:
    """The values of a boolean or fixed-width array; under a null a mask is false, and a number undefined."""
    if isinstance(array, pa.ChunkedArray):
        array = array.combine_chunks()
    first, last, data = array.offset, array.offset + len(array), array.buffers()[1]
    if pa.types.is_boolean(array.type):
        if array.null_count:
            return to_numpy(pc.fill_null(array, _FALSE))
        if not len(array):
            return np.zeros(0, dtype=np.bool_)
        packed = np.frombuffer(data, dtype=np.uint8)[first // 8 :]
        return np.unpackbits(packed, count=last - first // 8 * 8, bitorder="little")[first % 8 :].view(np.bool_)
    kind = "f" if pa.types.is_floating(array.type) else "u" if pa.types.is_unsigned_integer(array.type) else "i"
    width = np.dtype(f"{kind}{array.type.bit_width // 8}")
    return np.zeros(len(array), dtype=width) if data is None else np.frombuffer(data, dtype=width, count=last)[first:]


def values_of(array: pa.Array) -> list[Any]:
    """The values of an array in Python's types; timestamps are in microseconds, in UTC where they have a zone."""
    if not pa.types.is_timestamp(array.type):
        return array.to_pylist()  # type: ignore[no-any-return]
    epoch = dt.datetime(1970, 1, 1, tzinfo=None if array.type.tz is None else dt.UTC)
    micros = array.cast(pa.timestamp("us", array.type.tz)).view(pa.int64())
    return [None if value is None else epoch + dt.timedelta(microseconds=value) for value in micros.to_pylist()]


def scalar(value: object, type: pa.DataType) -> pa.Scalar:  # noqa: A002 - the Arrow word
    """Makes an Arrow scalar of a type from a Python value of the matching Python type."""
    if value is None:
        return pa.nulls(1, type)[0]
    if isinstance(value, dt.datetime):
        moment = value if value.tzinfo is None else value.astimezone(dt.UTC).replace(tzinfo=None)
        return strings([str(moment)]).cast(pa.timestamp("us")).cast(type)[0]
    text = format(value, "f") if isinstance(value, Decimal) else str(value)
    return strings([text]).cast(type)[0]


_FALSE = scalar(value=False, type=pa.bool_())


# Memory that Arrow's allocator keeps.


_MUCH_FREED = 4 << 20


class _Freed(threading.local):
    nbytes = 0


_freed = _Freed()


def release_soon(nbytes: int) -> None:
    """Counts memory that a thread frees about now; once it is much, what the allocator kept of it goes to the system.

    Over a long file that adds up. It is not done each time: new memory is cleared by the system first, which takes as
    long as decoding does.
    """
    _freed.nbytes += nbytes
    if _freed.nbytes >= _MUCH_FREED:
        _freed.nbytes = 0
        pa.default_memory_pool().release_unused()


# Digests that find damage in a file. They are no proof against forgery.


DIGEST_LENGTH = 32
"""Characters of a digest."""

xxh3_128 = xxhash.xxh3_128_hexdigest
"""The XXH3 digest of 128 bits, in small hexadecimal digits."""
