"""Timestamps as the log writes them, in statistics and partition values: ISO 8601, with or without a zone."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from delta_sidecar._arrow import bits_of, booleans

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


def _zoned(text: pa.StringArray) -> pa.TimestampArray:
    return text.cast(pa.timestamp("us", "UTC")).cast(_MICROS)
