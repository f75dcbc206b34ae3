"""Dates and timestamps in the calendar of old Spark: Julian before 15 October 1582, and Gregorian from then on.

Spark 2 wrote that way, and newer versions still do if they are told to; a file's footer says so. Everyone else counts
in the Gregorian calendar throughout, so that the day which a file means by its number has another number:

    1582-10-04   -141428 in such a file   -141438 to everyone else
    1582-10-15   -141427                  -141427

A timestamp is moved with the day that it has in the time zone of its writer. What the clocks of a place showed before
1900 differed between the two as well, by minutes, and only Spark has the list of that: such timestamps of zones with a
history are unknown here.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from delta_sidecar._arrow import bits_of, nullable_int64s, numbers_of, valid_mask

if TYPE_CHECKING:
    import pyarrow.parquet as pq
    from numpy.typing import NDArray

_VERSION, _ZONE = b"org.apache.spark.version", b"org.apache.spark.timeZone"
_LEGACY_DATES, _LEGACY_INT96 = b"org.apache.spark.legacyDateTime", b"org.apache.spark.legacyINT96"
# From these versions on, a file is in the legacy calendar only if it says so.
_DATES_SINCE, _INT96_SINCE = (3, 0), (3, 1)

_GREGORIAN_FROM = -141_427
_ALIKE_FROM_SECOND = -2_208_988_800
_DAY = 86_400
_PER_SECOND = {"s": 1, "ms": 1_000, "us": 1_000_000, "ns": 1_000_000_000}

_UTC_NAMES = frozenset(("UTC", "GMT", "UCT", "UT", "Z", "Zulu", "Universal", "Greenwich"))
_OFFSET = re.compile(r"(?:UTC|GMT|UT)?([+-])(\d{1,2})(?::?(\d{2}))?")


@dataclass(frozen=True, slots=True)
class LegacyCalendar:
    """What of a file is in the legacy calendar.

    Attributes:
        dates: Whether dates are, and timestamps but those of Parquet's oldest form, INT96.
        int96: Whether timestamps in that form are.
        zone: The time zone of the writer.
    """

    dates: bool
    int96: bool
    zone: str

    def moved(self, values: pa.Array) -> pa.Array:
        """The same dates or timestamps for everyone; null where that is not known.

        Raises:
            pa.ArrowInvalid: The Gregorian calendar has no number for one of them.
        """
        numbers = numbers_of(values).astype(np.int64)
        change, known = self._changes(numbers, values.type)
        if known.all() and not change.any():
            return values
        known &= valid_mask(values)
        made = numbers + change
        if (known & ((made > numbers) != (change > 0))).any():
            msg = "a timestamp in the legacy calendar of Spark has no number in the Gregorian calendar"
            raise pa.ArrowInvalid(msg)
        array = nullable_int64s(made, known)
        return array.cast(pa.int32()).view(values.type) if values.type.bit_width == _NARROW else array.view(values.type)

    def bounds(self, values: pa.Array) -> pa.Array:
        """The same bounds of dates or timestamps for everyone; null where one is not known.

        A leap day that only the Julian calendar has is moved onto the day after it. Dates stay in their order, and
        moments of these two days do not: of what is moved, the smallest need not be the smallest any more.
        """
        moved = self.moved(values)
        if moved is values or pa.types.is_date(values.type):
            return moved
        return nullable_int64s(numbers_of(moved), bits_of(pc.equal(moved, values))).view(values.type)

    def _changes(self, numbers: NDArray[np.int64], kind: pa.DataType) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
        """By how much numbers change, and for which of them that is known."""
        known = np.ones(len(numbers), dtype=np.bool_)
        if pa.types.is_date(kind):
            per_day = 1 if pa.types.is_date32(kind) else _DAY * 1000
            return _days_between(numbers // per_day) * per_day, known
        per_second = _PER_SECOND[kind.unit]
        offset = _fixed_offset(self.zone)
        if offset is None:
            return np.zeros_like(numbers), numbers >= _ALIKE_FROM_SECOND * per_second
        return _days_between((numbers // per_second + offset) // _DAY) * (_DAY * per_second), known


_NARROW = 32


def legacy_calendar(metadata: pq.FileMetaData, zone: str) -> LegacyCalendar | None:
    """What of a file is in the legacy calendar.

    Args:
        metadata: Its footer.
        zone: The time zone of a writer that does not tell it.

    Returns:
        None where nothing is.
    """
    told = metadata.metadata or {}
    if _VERSION not in told:
        return None
    version = _numbers(told[_VERSION])
    dates = _LEGACY_DATES in told or version < _DATES_SINCE
    int96 = _LEGACY_INT96 in told or version < _INT96_SINCE
    if not dates and not int96:
        return None
    return LegacyCalendar(dates, int96, told[_ZONE].decode(errors="replace") if _ZONE in told else zone)


def _numbers(version: bytes) -> tuple[int, ...]:
    """The numbers that a version begins with; none where there are none, which counts as old."""
    found = re.match(rb"(\d+)\.(\d+)", version)
    return tuple(map(int, found.groups())) if found else ()


def _days_between(days: NDArray[np.int64]) -> NDArray[np.int64]:
    """How far days of the legacy calendar are from those of the same date in the Gregorian one."""
    moved = np.zeros(len(days), dtype=np.int64)
    old = np.flatnonzero(days < _GREGORIAN_FROM)
    if len(old):
        moved[old] = _gregorian(*_julian_date(days[old])) - days[old]
    return moved


def _julian_date(days: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
    """Year (0 is the one before 1), month and day in the Julian calendar."""
    # Counted from 1 March of the year -4800, so that a leap day is the last one of its year.
    since = days + 2_440_588 + 32_082
    years = (4 * since + 3) // 1461
    of_year = since - 1461 * years // 4
    months = (5 * of_year + 2) // 153
    return years - 4800 + months // 10, months + 3 - 12 * (months // 10), of_year - (153 * months + 2) // 5 + 1


def _gregorian(years: NDArray[np.int64], months: NDArray[np.int64], days: NDArray[np.int64]) -> NDArray[np.int64]:
    """Days since 1970 of dates in the Gregorian calendar; 29 February of a year without one is 1 March."""
    march = months + 12 * (months < 3) - 3  # noqa: PLR2004 - a leap day is the last one of a year that begins in March
    year = years + 4800 - (months < 3)  # noqa: PLR2004
    first = (153 * march + 2) // 5 + 365 * year + year // 4 - year // 100 + year // 400 - 32_045 - 2_440_588
    return first + days


def _fixed_offset(zone: str) -> int | None:
    """How many seconds a zone is ahead of UTC; None for one whose clocks were changed over time."""
    if zone.removeprefix("Etc/") in _UTC_NAMES:
        return 0
    found = _OFFSET.fullmatch(zone)
    if found is None:
        return None
    sign, hours, minutes = found.groups()
    return (1 if sign == "+" else -1) * (int(hours) * 3600 + int(minutes or 0) * 60)
