"""Dates and timestamps of a Parquet file as everyone counts them, whichever form and calendar its writer used."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from delta_sidecar._arrow import bits_of, nullable_int64s, numbers_of, valid_mask
from delta_sidecar.execute.parquet.pages import BINARY, I32, LIST, STRUCT, ThriftReader, list_of, struct_of

if TYPE_CHECKING:
    from typing import Any

    from numpy.typing import NDArray


@dataclass(frozen=True, slots=True)
class TimeRules:
    """What is made of dates and timestamps that leave room for doubt.

    Attributes:
        zone: The time zone of writers that do not tell theirs.
        is_strict: Whether one that cannot be known is an error; else they are taken for bounds, and it is null.
    """

    zone: str = "UTC"
    is_strict: bool = False


@dataclass(frozen=True, slots=True)
class FileTimes:
    """How dates and timestamps of one file are understood.

    Attributes:
        calendar: What is in the legacy calendar; None where nothing is.
        is_strict: Whether one that cannot be known is an error; else they are taken for bounds, and it is null.
    """

    calendar: LegacyCalendar | None
    is_strict: bool

    @classmethod
    def of(cls, metadata: pq.FileMetaData, rules: TimeRules) -> FileTimes:
        """What a footer says."""
        return cls(legacy_calendar(metadata, rules.zone), rules.is_strict)

    def understood(self, batch: pa.RecordBatch, *, with_int96: bool) -> pa.RecordBatch:
        """The same rows with dates and timestamps as everyone counts them.

        Args:
            batch: As the file has them.
            with_int96: Whether some are INT96, read by a footer that marks them.

        Raises:
            pa.ArrowInvalid: One cannot be known, and that is an error.
        """
        if with_int96:
            batch = replaced(batch, is_moment, self._moments)
        if self.calendar is not None and self.calendar.dates:
            batch = replaced(batch, is_in_calendar, self._moved)
        return batch

    def bounds(self, values: pa.Array) -> pa.Array:
        """Bounds out of a footer, of dates or timestamps but INT96; null where they are not known."""
        if self.calendar is None or not self.calendar.dates:
            return values
        return self.calendar.bounds(values)

    def _moments(self, values: pa.Array, name: str) -> pa.Array:
        if not pa.types.is_fixed_size_binary(values.type):
            return values
        found = moments(values)
        if self.is_strict and found.null_count > values.null_count:
            msg = f"column {name} has a timestamp that is beyond all that 64 bits of microseconds can tell"
            raise pa.ArrowInvalid(msg)
        if self.calendar is None or not self.calendar.int96:
            return found
        return self._moved(found, name)

    def _moved(self, values: pa.Array, name: str) -> pa.Array:
        calendar = self.calendar
        if calendar is None:
            return values
        if not self.is_strict:
            return calendar.bounds(values)
        found = calendar.moved(values)
        if found.null_count > values.null_count:
            msg = (
                f"column {name} has a timestamp from before 1900 in the legacy calendar of Spark, and the time zone "
                f"{calendar.zone}, whose clocks of that time are not known here: leave the column out, or read it with "
                "Spark"
            )
            raise pa.ArrowInvalid(msg)
        return found


def is_in_calendar(field: pa.Field) -> bool:
    """Whether a field is of days, or of moments: a reading of a clock is in no calendar of old."""
    kind = field.type
    return bool(pa.types.is_date(kind) or (pa.types.is_timestamp(kind) and kind.tz is not None))


# Parquet's oldest timestamps, INT96, which Spark still writes: eight bytes of nanoseconds, four of a Julian day.
#
# Arrow takes the day for a positive number. Spark's is negative before the year -4712, and also behind the year 287585,
# where its 64 bits of microseconds since the first Julian day run over: Arrow puts such a moment anywhere, some of them
# into our time. A bound that is wrong drops files, so the bytes are read as they are, and understood here.


_MOMENT = pa.timestamp("us")
_BYTES = pa.binary(12)
_LAYOUT = np.dtype([("nanos", "<i8"), ("day", "<i4")])

_EPOCH = 2_440_588
_DAY = 86_400_000_000
# As many days on either side of the epoch have microseconds in 64 bits.
_MOST_DAYS = 2**63 // _DAY

_MAGIC = b"PAR1"
_END = 8
# Fields of Parquet's FileMetaData and SchemaElement, and two of its types.
_SCHEMA = 2
_TYPE, _LENGTH, _REPETITION, _NAME, _FIELD_ID = 1, 2, 3, 4, 9
_INT96, _FIXED_BYTES = 3, 7
# What is no INT96 may have twelve bytes as well. So the columns that were are marked, by an id that nobody gives.
_ID_KEY, _MARK = b"PARQUET:field_id", b"2147483096"


def int96_columns(metadata: pq.FileMetaData) -> frozenset[int]:
    """Numbers of the leaf columns of a file that are INT96."""
    schema = metadata.schema
    return frozenset(leaf for leaf in range(metadata.num_columns) if schema.column(leaf).physical_type == "INT96")


def with_fixed_bytes(metadata: pq.FileMetaData) -> pq.FileMetaData:
    """A footer by which Arrow reads INT96 columns as twelve bytes a value, which look the same in a file.

    It is for reading rows alone: what it tells of the columns' statistics is not to be looked at.
    """
    sink = pa.BufferOutputStream()
    metadata.write_metadata_file(sink)
    whole = sink.getvalue().to_pybytes()
    length = int.from_bytes(whole[-_END : 4 - _END], "little")
    footer = _rewritten(whole[-_END - length : -_END])
    parts = (_MAGIC, footer, len(footer).to_bytes(4, "little"), _MAGIC)
    return pq.read_metadata(pa.BufferReader(b"".join(parts)))


def is_moment(field: pa.Field) -> bool:
    """Whether a field was INT96, by what such a footer says of it."""
    return (field.metadata or {}).get(_ID_KEY) == _MARK


def moments(values: pa.FixedSizeBinaryArray) -> pa.TimestampArray:
    """Microseconds out of the twelve bytes of INT96 values.

    Whatever the days are counted from, and whether they ran over, the same 64 bits come out. Null where that may not
    be so: a day that no 64 bits of microseconds reach, or more nanoseconds than a day has.
    """
    data = values.buffers()[1]
    if data is None:
        return pa.nulls(len(values), _MOMENT)
    raw = np.frombuffer(data, dtype=_LAYOUT, count=len(values), offset=values.offset * _LAYOUT.itemsize)
    day, nanos = raw["day"].astype(np.int64), raw["nanos"]
    micros = (day - _EPOCH) * _DAY + nanos // 1000
    known = valid_mask(values) & (np.abs(nanos // 1000) < _DAY)
    known &= (day >= -_MOST_DAYS) & (day <= _EPOCH + _MOST_DAYS) & ((day <= _EPOCH) | (micros >= 0))
    return nullable_int64s(micros, known).view(_MOMENT)


def _rewritten(footer: bytes) -> bytes:
    """The footer with another schema; all that comes after it stays as it is."""
    reader = ThriftReader(footer)
    number = kind = 0
    while (number, kind) != (_SCHEMA, LIST):
        if number:
            reader.value(kind, 0)
        number, kind = reader.field(number)
    start = reader.position
    elements = []
    for _ in range(reader.list_head()[1]):
        at = reader.position
        element = reader.struct(1)
        elements.append(_fixed(element) if element.get(_TYPE) == _INT96 else footer[at : reader.position])
    return footer[:start] + list_of(STRUCT, elements) + footer[reader.position :]


def _fixed(element: dict[int, Any]) -> bytes:
    kept = ((_REPETITION, I32), (_NAME, BINARY))
    return struct_of(
        (_TYPE, I32, _FIXED_BYTES),
        (_LENGTH, I32, _LAYOUT.itemsize),
        *((number, kind, element[number]) for number, kind in kept if number in element),
        (_FIELD_ID, I32, int(_MARK)),
    )


# Dates and timestamps in the calendar of old Spark: Julian before 15 October 1582, and Gregorian from then on.
#
# Spark 2 wrote that way, and newer versions still do if they are told to; a file's footer says so. Everyone else counts
# in the Gregorian calendar throughout, so that the day which a file means by its number has another number:
#
#     1582-10-04   -141428 in such a file   -141438 to everyone else
#     1582-10-15   -141427                  -141427
#
# A timestamp is moved with the day that it has in the time zone of its writer. What the clocks of a place showed before
# 1900 differed between the two as well, by minutes, and only Spark has the list of that: such timestamps of zones with
# a history are unknown here.


_VERSION, _ZONE = b"org.apache.spark.version", b"org.apache.spark.timeZone"
_LEGACY_DATES, _LEGACY_INT96 = b"org.apache.spark.legacyDateTime", b"org.apache.spark.legacyINT96"
# From these versions on, a file is in the legacy calendar only if it says so.
_DATES_SINCE, _INT96_SINCE = (3, 0), (3, 1)

_GREGORIAN_FROM = -141_427
_ALIKE_FROM_SECOND = -2_208_988_800
_LEGACY_CALENDAR_DAY = 86_400
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
            per_day = 1 if pa.types.is_date32(kind) else _LEGACY_CALENDAR_DAY * 1000
            return _days_between(numbers // per_day) * per_day, known
        per_second = _PER_SECOND[kind.unit]
        offset = _fixed_offset(self.zone)
        if offset is None:
            return np.zeros_like(numbers), numbers >= _ALIKE_FROM_SECOND * per_second
        return _days_between((numbers // per_second + offset) // _LEGACY_CALENDAR_DAY) * (
            _LEGACY_CALENDAR_DAY * per_second
        ), known


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


# Other values in the place of some, wherever they are: in columns, and inside structs, lists and maps of any depth.


Wanted: TypeAlias = Callable[[pa.Field], bool]
"""Whether values of a field are to be replaced; asked of fields that hold no others."""

Replace: TypeAlias = Callable[[pa.Array, str], pa.Array]
"""Makes the values that are to stand there, of as many rows; the column's name is for messages."""


def replaced(batch: pa.RecordBatch, is_wanted: Wanted, replace: Replace) -> pa.RecordBatch:
    """The same rows with other values.

    Args:
        batch: The rows.
        is_wanted: Which values are replaced.
        replace: By what.
    """
    fields = list(batch.schema)
    arrays = [
        _values(column, field, is_wanted, replace, field.name)
        for field, column in zip(fields, batch.columns, strict=True)
    ]
    return pa.RecordBatch.from_arrays(arrays, schema=pa.schema(map(_changed, fields, arrays)))


def is_held(field: pa.Field, is_wanted: Wanted) -> bool:
    """Whether a field is wanted, or holds one that is."""
    kind = field.type
    if not pa.types.is_nested(kind):
        return is_wanted(field)
    # A column that is nothing but repeated has its id at the list.
    return is_wanted(field) or any(is_held(kind.field(number), is_wanted) for number in range(kind.num_fields))


def relisted(column: pa.Array, kind: pa.DataType, values: pa.Array) -> pa.Array:
    """The same lists, or maps, over other values.

    Args:
        column: The lists.
        kind: Their type then.
        values: What they are made of then.
    """
    valid, offsets = column.buffers()[:2]
    return pa.Array.from_buffers(
        kind, len(column), [valid, offsets], null_count=column.null_count, offset=column.offset, children=[values]
    )


def _values(column: pa.Array, field: pa.Field, is_wanted: Wanted, replace: Replace, name: str) -> pa.Array:
    kind = column.type
    if not is_held(field, is_wanted):
        return column
    if not pa.types.is_nested(kind):
        return replace(column, name)
    if pa.types.is_struct(kind):
        children = [
            _values(column.field(number), child, is_wanted, replace, f"{name}.{child.name}")
            for number, child in enumerate(kind)
        ]
        mask = column.is_null() if column.null_count else None
        return pa.StructArray.from_arrays(children, fields=list(map(_changed, kind, children)), mask=mask)
    if pa.types.is_map(kind):
        keys = _values(column.keys, kind.key_field, is_wanted, replace, f"{name}.key")
        items = _values(column.items, kind.item_field, is_wanted, replace, f"{name}.value")
        key, item = _changed(kind.key_field, keys).with_nullable(nullable=False), _changed(kind.item_field, items)
        return relisted(column, pa.map_(key, item), pa.StructArray.from_arrays([keys, items], fields=[key, item]))
    if not pa.types.is_list(kind) and not pa.types.is_large_list(kind):
        return column
    element = kind.value_field
    looked_at = element if is_held(element, is_wanted) else element.with_metadata(field.metadata)
    values = _values(column.values, looked_at, is_wanted, replace, f"{name}.element")
    made = pa.large_list if pa.types.is_large_list(kind) else pa.list_
    return relisted(column, made(_changed(element, values)), values)


def _changed(before: pa.Field, column: pa.Array) -> pa.Field:
    """The field of a column that may have changed, in which any value may be null."""
    return pa.field(before.name, column.type)
