"""Timestamps as the log writes them, in statistics and partition values: ISO 8601, with or without a zone."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from delta_sidecar._arrow import bits_of, booleans, nullable_int64s, numbers_of, valid_mask

# Seconds from 1970 to the beginning of the year 0, and to the end of the year 9999.
_FIRST, _AFTER_LAST = -62_167_219_200, 253_402_300_800
_PER_SECOND = {"s": 1, "ms": 1_000, "us": 1_000_000}
_ZONE = r"(?:[Zz]|[+-]\d{2}:?\d{2})$"
_MICROS = pa.timestamp("us")


def parse_timestamps(text: pa.StringArray) -> tuple[pa.TimestampArray, pa.BooleanArray]:
    """Reads a column of timestamps as instants in UTC, those without a zone as if they were in UTC.

    Returns:
        The instants, without a zone in their type, and a mask of those that were written without one.

    Raises:
        pa.ArrowInvalid: A text is no timestamp.
    """
    zoned = pc.match_substring_regex(text, pattern=_ZONE)
    bits = bits_of(zoned)
    if bits.all():
        return _zoned(text), booleans(~bits)
    if not bits.any():
        return text.cast(_MICROS), booleans(~bits)
    nothing = pa.nulls(len(text), pa.string())
    with_zone = _zoned(pc.if_else(zoned, text, nothing))
    without = pc.if_else(zoned, nothing, text).cast(_MICROS)
    return pc.coalesce(with_zone, without), booleans(~bits)


def in_four_digits(moments: pa.TimestampArray) -> pa.TimestampArray:
    """The moments whose years have four digits, as texts of the log have them; null for the others."""
    if moments.type.unit not in _PER_SECOND:
        # Nanoseconds do not reach further.
        return moments
    numbers, per_second = numbers_of(moments), _PER_SECOND[moments.type.unit]
    known = valid_mask(moments)
    near = known & (numbers >= _FIRST * per_second) & (numbers < _AFTER_LAST * per_second)
    return moments if near.sum() == known.sum() else nullable_int64s(numbers, near).view(moments.type)


def _zoned(text: pa.StringArray) -> pa.TimestampArray:
    return text.cast(pa.timestamp("us", "UTC")).cast(_MICROS)
