"""Dates and timestamps that old Spark wrote: the same dates come out, whatever number a file has for them."""

from __future__ import annotations

import datetime as dt
import io

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from delta_sidecar.execute.parquet.times import LegacyCalendar, legacy_calendar

LEGACY = LegacyCalendar(dates=True, int96=True, zone="UTC")
# The first day of a century in the Julian calendar and how far it is from the same date in the Gregorian one, as
# everyone can look up: at 1500-03-01 both are ten days apart, and one less at each century before that was a leap year.
BEFORE_GREGORIAN, GREGORIAN = -141_428, -141_427
DAY = 86_400_000_000


def julian_to_days(year: int, month: int, day: int) -> int:
    """Counts the days since 1970 of a date in the Julian calendar, one year after another."""
    leap = sum(y % 4 == 0 for y in range(1, year))
    months = [31, 28 + (year % 4 == 0), 31, 30, 31, 30, 31, 31, 30, 31, 30, 31]
    # 1 January of the year 1 is two days earlier than in the Gregorian calendar.
    return (
        dt.date(1, 1, 1).toordinal()
        - 2
        - dt.date(1970, 1, 1).toordinal()
        + (365 * (year - 1) + leap + sum(months[: month - 1]) + day - 1)
    )


def gregorian(days: int) -> dt.date:
    return dt.date(1970, 1, 1) + dt.timedelta(days)


@given(st.dates(dt.date(1, 1, 1), dt.date(1582, 10, 4)))
def test_the_same_date_comes_out(date: dt.date) -> None:
    held = pa.array([julian_to_days(date.year, date.month, date.day), None], pa.int32()).view(pa.date32())
    assert LEGACY.moved(held).to_pylist() == [date, None]


@pytest.mark.parametrize(("year", "month"), [(1000, 3), (1500, 3), (900, 3)])
def test_a_leap_day_that_nobody_else_has_is_the_day_after(year: int, month: int) -> None:
    held = pa.array([julian_to_days(year, month, 1) - 1], pa.int32()).view(pa.date32())
    assert LEGACY.moved(held).to_pylist() == [dt.date(year, month, 1)]


def test_from_the_first_gregorian_day_on_nothing_changes() -> None:
    held = pa.array([BEFORE_GREGORIAN, GREGORIAN, 0, 20_000], pa.int32()).view(pa.date32())
    assert LEGACY.moved(held).to_pylist() == [
        dt.date(1582, 10, 4),
        dt.date(1582, 10, 15),
        gregorian(0),
        gregorian(20_000),
    ]
    later = held.slice(1)
    assert LEGACY.moved(later) is later


def test_years_before_the_first_one() -> None:
    """Spark gives 730 days before 1 January of the year 1 the date of 1 January of the year -1, which had 366 days."""
    first = julian_to_days(1, 1, 1)
    held = pa.array([first - 366, first - 731], pa.int32()).view(pa.date32())
    found = LEGACY.moved(held).view(pa.int32()).to_pylist()
    origin = (dt.date(1, 1, 1) - dt.date(1970, 1, 1)).days
    assert found == [origin - 366, origin - 731]


@pytest.mark.parametrize("unit", ["s", "ms", "us", "ns"])
def test_timestamps_of_every_unit_keep_their_time_of_day(unit: str) -> None:
    year = 1700 if unit == "ns" else 1000
    per_day = DAY * {"s": 1, "ms": 1_000, "us": 1_000_000, "ns": 1_000_000_000}[unit] // 1_000_000
    day = julian_to_days(year, 1, 1) if year < 1582 else (dt.date(year, 1, 1) - dt.date(1970, 1, 1)).days
    held = pa.array([day * per_day + 5, None, 7], pa.int64()).view(pa.timestamp(unit, "UTC"))
    expected = (dt.date(year, 1, 1) - dt.date(1970, 1, 1)).days * per_day + 5
    assert LEGACY.moved(held).view(pa.int64()).to_pylist() == [expected, None, 7]


@pytest.mark.parametrize(("zone", "hours"), [("+05:30", 5.5), ("GMT-8", -8), ("UTC+0130", 1.5), ("Etc/UTC", 0)])
def test_the_day_is_that_of_the_writers_zone(zone: str, hours: float) -> None:
    calendar = LegacyCalendar(dates=True, int96=False, zone=zone)
    switch = GREGORIAN * DAY - int(hours * 3_600_000_000)
    held = pa.array([switch - 1, switch], pa.int64()).view(pa.timestamp("us", "UTC"))
    assert calendar.moved(held).view(pa.int64()).to_pylist() == [switch - 1 - 10 * DAY, switch]


def test_bounds_that_are_moved_are_none_but_for_dates() -> None:
    """29 February of 1500 at 23:00 comes after 1 March at 0:00, once both are moved."""
    leap_day = julian_to_days(1500, 3, 1) - 1
    held = pa.array([leap_day * DAY + 23 * DAY // 24, (leap_day + 1) * DAY, None, 7], pa.int64())
    moments = held.view(pa.timestamp("us", "UTC"))
    first, second, *_ = LEGACY.moved(moments).view(pa.int64()).to_pylist()
    assert first > second
    assert LEGACY.bounds(moments).view(pa.int64()).to_pylist() == [None, None, None, 7]
    later = moments.slice(2)
    assert LEGACY.bounds(later) is later
    dates = pa.array([leap_day, 7], pa.int32()).view(pa.date32())
    assert LEGACY.bounds(dates).to_pylist() == [dt.date(1500, 3, 1), gregorian(7)]


@pytest.mark.parametrize("zone", ["America/Los_Angeles", "PST", "+99:99:99", ""])
def test_where_clocks_were_changed_timestamps_before_1900_are_unknown(zone: str) -> None:
    calendar = LegacyCalendar(dates=True, int96=True, zone=zone)
    year_1900 = -2_208_988_800_000_000
    held = pa.array([year_1900 - 1, year_1900, None], pa.int64()).view(pa.timestamp("us", "UTC"))
    assert calendar.moved(held).view(pa.int64()).to_pylist() == [None, year_1900, None]
    date = pa.array([BEFORE_GREGORIAN], pa.int32()).view(pa.date32())
    assert calendar.moved(date).to_pylist() == [dt.date(1582, 10, 4)]


def test_what_no_number_can_tell_is_an_error() -> None:
    for kind, lowest in ((pa.date32(), -(2**31)), (pa.timestamp("us", "UTC"), -(2**63))):
        held = pa.array([lowest]).cast(pa.int32() if kind == pa.date32() else pa.int64()).view(kind)
        if kind == pa.date32():
            # That far back the Gregorian calendar is ahead of the Julian one.
            assert LEGACY.moved(held).view(pa.int32())[0].as_py() > lowest
        else:
            assert LEGACY.moved(held).view(pa.int64())[0].as_py() > lowest


@pytest.mark.parametrize(
    ("told", "expected"),
    [
        ({}, None),
        ({"org.apache.spark.legacyDateTime": ""}, None),
        ({"org.apache.spark.version": "4.2.0"}, None),
        ({"org.apache.spark.version": "10.0.0"}, None),
        ({"org.apache.spark.version": "3.0.1"}, LegacyCalendar(dates=False, int96=True, zone="Asia/Tokyo")),
        ({"org.apache.spark.version": "2.4.8"}, LegacyCalendar(dates=True, int96=True, zone="Asia/Tokyo")),
        (
            {
                "org.apache.spark.version": "4.2.0",
                "org.apache.spark.legacyDateTime": "",
                "org.apache.spark.timeZone": "UTC",
            },
            LegacyCalendar(dates=True, int96=False, zone="UTC"),
        ),
        (
            {"org.apache.spark.version": "3.5.1", "org.apache.spark.legacyINT96": "", "org.apache.spark.timeZone": "Z"},
            LegacyCalendar(dates=False, int96=True, zone="Z"),
        ),
    ],
)
def test_a_footer_says_what_is_in_the_legacy_calendar(told: dict[str, str], expected: LegacyCalendar | None) -> None:
    into = io.BytesIO()
    pq.write_table(pa.table({"a": [1]}).replace_schema_metadata(told), into)
    assert legacy_calendar(pq.read_metadata(into), "Asia/Tokyo") == expected
