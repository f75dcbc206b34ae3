"""Spans of time as Delta's table properties write them, such as `interval 1 week` or `interval 7 days 12 hours`."""

from __future__ import annotations

import re
from datetime import timedelta
from decimal import Decimal

_PIECE = re.compile(r"\s*([+-]?)\s*(\d{1,18})(?:\.(\d{1,9}))?\s+([a-z]+?)s?(?=\s|$)")
_MICROSECONDS = {
    "week": 7 * 86_400_000_000,
    "day": 86_400_000_000,
    "hour": 3_600_000_000,
    "minute": 60_000_000,
    "second": 1_000_000,
    "millisecond": 1_000,
    "microsecond": 1,
}


def read_interval(text: str) -> timedelta:
    """Reads a span of time. The word `interval` may be left out, and case does not count.

    Raises:
        ValueError: It is none, or less than nothing. Months and years have no fixed length and are refused.
    """
    left = re.sub(r"^interval(?=\s)", "", text.strip().lower())
    total, position = Decimal(0), 0
    while position < len(left):
        found = _PIECE.match(left, position)
        # As in Spark, only seconds have a fraction.
        if found is None or found[4] not in _MICROSECONDS or (found[3] and found[4] != "second"):
            raise ValueError(_EXPECTED)
        total += Decimal(f"{found[1]}{found[2]}.{found[3] or 0}") * _MICROSECONDS[found[4]]
        position = found.end()
    if position == 0 or total < 0:
        raise ValueError(_EXPECTED)
    try:
        return timedelta(microseconds=int(total))
    except OverflowError:
        raise ValueError(_EXPECTED) from None


_EXPECTED = "a span of time in weeks, days, hours, minutes or seconds, such as 'interval 7 days'"
