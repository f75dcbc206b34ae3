"""Bounds that say less than they seem to: they are widened, or not believed."""

# ruff: noqa: ANN401 - literals and bounds of every type
from __future__ import annotations

import datetime as dt
import math
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from tests.predicate.keeping import keeps, keeps_exactly

INT64_MOST = 2**63 - 1
INT = pa.int32()


def test_floats_may_hide_nan() -> None:
    double = pa.float64()
    for text in (
        "c > 9",
        "c >= 9",
        "c != 1",
        "NOT (c < 9)",
        "NOT (c > 1)",
        "NOT (c >= 1)",
        "NOT (c IN (1, 2))",
        "NOT (c != 9)",
        "c = 'NaN'",
        "c IN (9, 'NaN')",
        "c < 'NaN'",
        "c >= 'NaN'",
    ):
        assert keeps(text, double, 1.0, 2.0), text
    for text in ("c = 9", "c = 0", "c < 1", "c <= 0.5", "c IN (0, 9)"):
        assert not keeps(text, double, 1.0, 2.0), text
    for text in ("c = 9", "c < 1", "c IN (0, 9)"):
        assert keeps(text, double, math.nan, math.nan), text
    assert not keeps("c = 9", double, math.nan, 2.0)
    assert keeps("c = 0", double, math.nan, 2.0)
    assert keeps("c = 0", double, -0.0, -0.0)
    assert keeps("c IN (0, 5)", double, -0.0, -0.0)
    assert keeps("c = -0.0", double, 0.0, 0.0)
    assert keeps("c <= 0.0", double, 0.0, 0.0)
    assert not keeps("c < 0.0", double, -0.0, 0.0)


def test_a_float_literal_is_kept_in_both_readings() -> None:
    """0.1 beside a float32 column is the double to Spark and the float to others."""
    single = np.float32(0.1)
    below, above = float(np.nextafter(single, np.float32(-1))), float(np.nextafter(single, np.float32(1)))
    for text in ("c = 0.1", "c <= 0.1", "c IN (0.1, 7)"):
        assert keeps(text, pa.float32(), float(single), float(single))
    assert not keeps("c = 0.1", pa.float32(), above * 2, 1.0)
    assert not keeps("c = 0.1", pa.float32(), 0.0, below / 2)
    assert not keeps("c IN (0.1, 7)", pa.float32(), 1.0, 2.0)
    assert keeps("c = 0.1", pa.float32(), 0.1, 0.1, bounds_type=pa.float64())


@pytest.mark.parametrize(("unit", "step"), [("us", 1000), ("ms", 1), ("ns", 1_000_000)])
def test_timestamps_are_cut_to_milliseconds(unit: str, step: int) -> None:
    zoned = pa.timestamp(unit, "UTC")
    upper = pa.array([dt.datetime(2026, 2, 8, tzinfo=dt.UTC)], zoned).view(pa.int64())[0].as_py()
    just_inside = "c >= '2026-02-08 00:00:00.001'"
    assert keeps(just_inside, zoned, upper - step, upper)
    assert keeps("c = '2026-02-08 00:00:00.001'", zoned, upper - step, upper)
    assert not keeps("c > '2026-02-08 00:00:00.001'", zoned, upper - step, upper)
    assert not keeps("c >= '2026-02-08 00:00:00.002'", zoned, upper - step, upper)
    assert not keeps("c IN ('2026-02-08 00:00:00.002', '2027-01-01')", zoned, upper - step, upper)
    assert not keeps("c < '2026-02-08'", zoned, upper, upper)
    assert keeps("c <= '2026-02-08'", zoned, upper, upper)


def test_timestamps_at_the_end_of_their_range_do_not_run_over() -> None:
    zoned = pa.timestamp("us", "UTC")
    assert keeps("c >= '9999-12-31 23:59:59.999999'", zoned, 0, INT64_MOST)
    assert keeps("c > '2026-02-08'", zoned, 0, INT64_MOST - 1)
    assert keeps("c < '2026-02-08'", zoned, -INT64_MOST - 1, 0)


def test_strings_may_be_cut() -> None:
    def keeping(text: str, lower: str | None, upper: str | None) -> bool:
        return keeps(text, pa.string(), lower, upper)

    # "abc" may stand for "abcz..."
    for text in ("c = 'abcd'", "c > 'abcd'", "c >= 'abcz'", "c > 'abc'", "c IN ('abcd', 'zzz')", "c LIKE 'abcd%'"):
        assert keeping(text, "a", "abc"), text
    for text in ("c = 'abd'", "c > 'abd'", "c >= 'b'", "c = ''", "c < 'a'", "c IN ('', 'abd', 'b')", "c LIKE 'abd%'"):
        assert not keeping(text, "a", "abc"), text
    assert not keeping("c <= 'Z'", "a", "b")
    # Bytes of UTF-8 decide, not UTF-16: an emoji is above U+FFFD.
    assert not keeping("c = '\U0001f600'", "a", "\uffee")
    assert keeping("c = 'ab\U0001f600'", "a", "ab\ufffd")
    assert keeping("c > 'x'", "a", "\ufffd")
    assert keeping("c = 'abzz'", "a", "ab\U0010ffff")


def test_binary_may_be_cut() -> None:
    def keeping(text: str, lower: bytes, upper: bytes) -> bool:
        return keeps(text, pa.binary(), lower, upper)

    assert keeping("c = X'01FFFFFF'", b"\0", b"\x01")
    assert keeping(f"c = X'01{'FF' * 40}'", b"\0", b"\x01")
    assert keeping(f"c IN (X'01{'FF' * 40}', X'99')", b"\0", b"\x01")
    assert not keeping("c = X'02'", b"\0", b"\x01")
    assert not keeping("c > X'02'", b"\0", b"\x01")
    assert not keeping("c IN (X'02', X'03')", b"\0", b"\x01")


def test_exact_timestamps_without_a_zone_are_widened() -> None:
    zoned = pa.timestamp("us", "UTC")
    values = [dt.datetime(2026, 2, 8, tzinfo=dt.UTC)] * 3 + [None]
    flags = [True, False, None, True]
    assert keeps_exactly("c = '2026-02-08 16:00:00'", zoned, values, flags) == [True, False, True, False]
    assert keeps_exactly("c = '2026-02-07 08:00:00'", zoned, values, flags) == [True, False, True, False]
    assert keeps_exactly("c > '2026-02-08 16:00:00'", zoned, values, flags) == [False] * 4
    assert keeps_exactly("c < '2026-02-07 08:00:00'", zoned, values, flags) == [False] * 4
    assert keeps_exactly("c != '2026-02-08'", zoned, values, flags) == [True, False, True, False]
    assert keeps_exactly("c != '2026-02-07 08:00:00'", zoned, values, flags) == [True, True, True, False]
    assert keeps_exactly("c NOT IN ('2026-02-08', '2026-02-09')", zoned, values, flags) == [True, False, True, False]
    assert keeps_exactly("c IS NULL", zoned, values, flags) == [False, False, False, True]
    assert keeps_exactly("c > '2026-01-01'", zoned, [INT64_MOST, -INT64_MOST - 1], [True, True]) == [True, False]


@pytest.mark.parametrize(
    ("column", "stored", "inside", "outside", "lower", "upper"),
    [
        (pa.int64(), pa.int32(), "c = 5", "c = 50", 1, 9),
        (pa.int32(), pa.int64(), "c = 5", "c = 50", 1, 9),
        (pa.float64(), pa.int32(), "c = 5", "c = 50", 1, 9),
        (pa.float64(), pa.float32(), "c = 5", "c = 50", 1.0, 9.0),
        (pa.decimal128(12, 2), pa.int32(), "c = 5", "c = 50", 1, 9),
        (pa.decimal128(12, 4), pa.decimal128(10, 2), "c = 5", "c = 50", Decimal("1.25"), Decimal("9.75")),
        (pa.decimal128(10, 2), pa.decimal128(12, 4), "c = 5", "c = 50", Decimal("1.2500"), Decimal("9.7500")),
        (
            pa.timestamp("us"),
            pa.date32(),
            "c = '2026-02-08'",
            "c = '2026-03-08'",
            dt.date(2026, 2, 1),
            dt.date(2026, 2, 9),
        ),
        (pa.string(), pa.large_string(), "c = 'b'", "c = 'x'", "a", "c"),
        (pa.large_string(), pa.string(), "c = 'b'", "c = 'x'", "a", "c"),
        (pa.string_view(), pa.string_view(), "c = 'b'", "c = 'x'", "a", "c"),
        (pa.string(), pa.dictionary(pa.int32(), pa.string()), "c = 'b'", "c = 'x'", "a", "c"),
        (pa.bool_(), pa.bool_(), "c", "NOT c", True, True),
    ],
)
def test_bounds_of_another_type(
    column: pa.DataType, stored: pa.DataType, inside: str, outside: str, lower: Any, upper: Any
) -> None:
    assert keeps(inside, column, lower, upper, bounds_type=stored)
    assert not keeps(outside, column, lower, upper, bounds_type=stored)


@pytest.mark.parametrize(
    ("column", "stored", "text", "lower", "upper"),
    [
        (pa.int32(), pa.int64(), "c = 5", 2**40, 2**41),
        (pa.int32(), pa.string(), "c = 5", "10", "20"),
        (pa.string(), pa.int32(), "c = 'x'", 1, 2),
        (pa.float64(), pa.int64(), "c = 5", 2**60 + 1, 2**60 + 3),
        (pa.decimal128(10, 2), pa.decimal128(12, 4), "c = 5", Decimal("10.0001"), Decimal("20.0001")),
        (pa.timestamp("us", "UTC"), pa.timestamp("us"), "c = '2020-01-01'", 0, 1),
        (pa.timestamp("us", "UTC"), pa.date32(), "c = '2020-01-01'", 0, 1),
        (pa.int32(), pa.float64(), "c = 5", 10.0, 20.0),
    ],
)
def test_bounds_that_cannot_be_converted_are_unknown(
    column: pa.DataType, stored: pa.DataType, text: str, lower: Any, upper: Any
) -> None:
    assert keeps(text, column, lower, upper, bounds_type=stored)
