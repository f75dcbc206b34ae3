"""Dates and timestamps in Spark's legacy calendar: the same where both calendars agree, else refused or null."""

from __future__ import annotations

import io
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from delta_sidecar.execute.parquet.times import TimeChecks

LEGACY = TimeChecks(legacy_dates=True, legacy_int96=True, strict=True)
BOUNDS = TimeChecks(legacy_dates=True, legacy_int96=True, strict=False)
GREGORIAN, YEAR_1900 = -141_427, -2_208_988_800
PER_SECOND = {"s": 1, "ms": 1_000, "us": 1_000_000, "ns": 1_000_000_000}


def days(*numbers: int | None) -> pa.Array:
    return pa.array(numbers, pa.int32()).view(pa.date32())


def moments(*numbers: int | None, unit: str = "us", zone: str | None = "UTC") -> pa.Array:
    return pa.array(numbers, pa.int64()).view(pa.timestamp(unit, zone))


def check(checks: TimeChecks, column: pa.Array) -> pa.Array:
    """Checks a column, beside another one that says nothing of dates."""
    batch = pa.record_batch({"t": column, "n": pa.array(range(len(column)))})
    found = checks.check(batch, None)
    found.validate(full=True)
    assert found.column("n").equals(batch.column("n"))
    return found.column("t")


@pytest.mark.parametrize(
    ("right", "wrong", "message"),
    [
        (days(GREGORIAN, None, 0, 20_000), days(None, 0, GREGORIAN - 1), "a date from before 1582-10-15"),
        (
            pa.array([GREGORIAN * 86_400_000, None], pa.int64()).view(pa.date64()),
            pa.array([(GREGORIAN - 1) * 86_400_000, None], pa.int64()).view(pa.date64()),
            "a date from before 1582-10-15",
        ),
        *(
            (
                moments(YEAR_1900 * PER_SECOND[unit], None, 7, unit=unit),
                moments(7, YEAR_1900 * PER_SECOND[unit] - 1, unit=unit),
                "a timestamp from before 1900-01-01",
            )
            for unit in PER_SECOND
        ),
    ],
)
def test_a_value_is_the_same_in_both_calendars_or_refused(right: pa.Array, wrong: pa.Array, message: str) -> None:
    assert check(LEGACY, right).equals(right)
    assert check(BOUNDS, right).equals(right)
    with pytest.raises(pa.ArrowInvalid, match=f"column t has {message} in the legacy calendar of Spark, .* with Spark"):
        check(LEGACY, wrong)
    assert check(LEGACY, wrong.slice(len(wrong))).equals(wrong.slice(len(wrong)))
    found = check(BOUNDS, wrong)
    assert found.type == wrong.type
    assert found.null_count == wrong.null_count + 1
    kept = found.is_valid()
    assert found.filter(kept).equals(wrong.filter(kept))


def test_readings_of_a_clock_are_in_no_calendar() -> None:
    column = moments(YEAR_1900 * 10**6 * 2, zone=None)
    assert check(LEGACY, column).equals(column)


def test_values_at_every_depth() -> None:
    old, new = days(GREGORIAN - 1)[0].as_py(), days(GREGORIAN)[0].as_py()
    kind = pa.struct({"d": pa.date32(), "n": pa.int64()})
    nested: dict[str, tuple[pa.DataType, Any, Any, Any]] = {
        "t.d": (kind, {"d": new, "n": 1}, {"d": old, "n": 1}, {"d": None, "n": 1}),
        "t.element": (pa.list_(pa.date32()), [new, None], [new, old], None),
        "t.element.d": (pa.list_(kind), [{"d": new, "n": 1}], [{"d": old, "n": 1}], None),
        "t.key": (pa.map_(pa.date32(), pa.int64()), [(new, 1)], [(old, 1)], None),
        "t.value": (pa.map_(pa.string(), pa.date32()), [("k", new)], [("k", old)], None),
    }
    for name, (held, right, wrong, unknown) in nested.items():
        assert check(LEGACY, pa.array([right, None], held)).to_pylist() == [right, None]
        with pytest.raises(pa.ArrowInvalid, match=f"column {name} has a date from before"):
            check(LEGACY, pa.array([right, wrong], held))
        assert check(BOUNDS, pa.array([None, wrong], held)).to_pylist() == [None, unknown]


def test_bounds_of_a_footer() -> None:
    """A value from before is unknown, and yet it is none of those that both calendars have."""
    for make, first in ((days, GREGORIAN), (moments, YEAR_1900 * 10**6)):
        values = make(first - 1, first, first + 1, None)
        lower, upper = LEGACY.bounds(values, values, values.type)
        assert lower is not None
        assert lower.equals(make(None, first, first + 1, None))
        assert upper is not None
        assert upper.equals(make(first, first, first + 1, None))
    assert LEGACY.bounds(None, None, pa.date32()) == (None, None)
    clock = moments(0, zone=None)
    assert LEGACY.bounds(clock, clock, clock.type) == (clock, clock)


@pytest.mark.parametrize(
    ("pairs", "dates", "int96"),
    [
        ({}, False, False),
        ({"org.apache.spark.legacyDateTime": ""}, False, False),
        ({"org.apache.spark.version": "4.2.0"}, False, False),
        ({"org.apache.spark.version": "10.0.0"}, False, False),
        ({"org.apache.spark.version": "3.0.1"}, False, True),
        ({"org.apache.spark.version": "2.4.8"}, True, True),
        ({"org.apache.spark.version": "unknown"}, True, True),
        ({"org.apache.spark.version": "4.2.0", "org.apache.spark.legacyDateTime": ""}, True, False),
        ({"org.apache.spark.version": "3.5.1", "org.apache.spark.legacyINT96": ""}, False, True),
    ],
)
def test_a_footer_says_what_is_in_the_legacy_calendar(pairs: dict[str, str], *, dates: bool, int96: bool) -> None:
    into = io.BytesIO()
    pq.write_table(pa.table({"a": [1]}).replace_schema_metadata(pairs), into)
    expected = TimeChecks(legacy_dates=dates, legacy_int96=int96, strict=True)
    assert TimeChecks.of(pq.read_metadata(into), strict=True) == expected
