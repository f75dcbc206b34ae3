"""Values of a data file in the type that the table has today.

Delta lets a column become wider (an int a long, a float a double, a decimal one with more digits, a date a timestamp),
and writers differ in how they lay out the same type: timestamps in milliseconds or nanoseconds, with or without a zone,
texts without a mark that they are texts. All of that is taken; whatever could change a value is refused.
"""

from __future__ import annotations

import pyarrow as pa

from delta_sidecar._arrow import nullable_int64s, numbers_of, valid_mask
from delta_sidecar.errors import UnreadableFileError

_WIDEST = 76


def cast_values(array: pa.Array, kind: pa.DataType, column: str, file: str) -> pa.Array:
    """Gives values in a type of single values.

    Args:
        array: The values as the file has them.
        kind: The table's type.
        column: The column's name, for messages.
        file: The file, for messages.

    Raises:
        UnreadableFileError: They cannot be had in this type, or not without a change.
    """
    held = array.type
    if held == kind:
        return array
    if not _is_readable_as(held, kind):
        msg = f"column {column} is {held} in {file}, and {kind} in the table: it cannot be read"
        raise UnreadableFileError(msg, file)
    try:
        return _cast(array, kind)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        msg = f"column {column} is {held} in {file}, and {kind} in the table, which cannot hold its values: {error}"
        raise UnreadableFileError(msg, file) from error


def _is_readable_as(held: pa.DataType, kind: pa.DataType) -> bool:
    types = pa.types
    if types.is_null(held):
        return True
    if types.is_integer(held):
        return bool(types.is_integer(kind) or types.is_floating(kind) or types.is_decimal(kind))
    if types.is_floating(held):
        return bool(types.is_floating(kind) and held.bit_width <= kind.bit_width)
    if types.is_decimal(held):
        return bool(types.is_decimal(kind))
    if types.is_date(held):
        # Midnight in which zone, nobody can tell.
        return bool(types.is_date(kind) or (types.is_timestamp(kind) and kind.tz is None))
    if types.is_timestamp(held):
        return bool(types.is_timestamp(kind))
    if types.is_fixed_size_binary(held):
        return bool(types.is_binary(kind))
    return bool(_is_bytes(held) and _is_bytes(kind))


def _is_bytes(kind: pa.DataType) -> bool:
    return bool(pa.types.is_string(kind) or pa.types.is_binary(kind))


def _cast(array: pa.Array, kind: pa.DataType) -> pa.Array:
    if pa.types.is_timestamp(kind) and pa.types.is_timestamp(array.type):
        # Whether a reading of the clock or a moment, the file has the same number.
        micros = _cut(array) if array.type.unit == "ns" else array.cast(pa.timestamp("us", array.type.tz))
        return micros.view(kind)
    if pa.types.is_decimal(kind) and pa.types.is_integer(array.type):
        return array.cast(pa.decimal256(_WIDEST, kind.scale)).cast(kind)
    return array.cast(kind)


def _cut(array: pa.TimestampArray) -> pa.Int64Array:
    """Microseconds of nanoseconds: what is finer is cut off, towards the past, as with Parquet's oldest timestamps."""
    return nullable_int64s(numbers_of(array.view(pa.int64())) // 1000, valid_mask(array))
