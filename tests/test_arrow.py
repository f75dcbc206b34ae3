"""Arrow values without pandas: right, and really without it."""

from __future__ import annotations

import datetime as dt
import math
import subprocess
import sys
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from delta_sidecar._arrow import binaries, from_numpy, scalar, strings, to_numpy, values_of

PATIENTLY = settings(deadline=None)
TEXT = st.text(st.characters(exclude_categories=["Cs"]))


@PATIENTLY
@given(st.lists(st.none() | TEXT))
def test_strings(values: list[str | None]) -> None:
    array = strings(values)
    assert array.type == pa.string()
    assert array.to_pylist() == values
    assert strings(value for value in values).equals(array)


@PATIENTLY
@given(st.lists(st.none() | st.binary()))
def test_binaries(values: list[bytes | None]) -> None:
    array = binaries(values)
    array.validate(full=True)
    assert array.type == pa.binary()
    assert array.to_pylist() == values


@PATIENTLY
@given(st.lists(st.integers(-(2**63), 2**63 - 1)), st.integers(1, 3))
def test_int64s(values: list[int], step: int) -> None:
    numbers = np.array(values, dtype=np.int64)
    assert from_numpy(numbers).to_pylist() == values
    assert from_numpy(numbers[::step]).to_pylist() == values[::step]
    assert to_numpy(from_numpy(numbers)).tolist() == values


@PATIENTLY
@given(st.lists(st.booleans()), st.data())
def test_booleans_and_back(values: list[bool], data: st.DataObject) -> None:
    array = from_numpy(np.array(values, dtype=np.bool_))
    array.validate(full=True)
    assert array.to_pylist() == values
    start = data.draw(st.integers(0, len(values)))
    length = data.draw(st.integers(0, len(values) - start))
    assert to_numpy(array.slice(start, length)).tolist() == values[start : start + length]


@PATIENTLY
@given(st.lists(st.none() | st.booleans()), st.data())
def test_null_bits_are_false(values: list[bool | None], data: st.DataObject) -> None:
    start = data.draw(st.integers(0, len(values)))
    array = pa.array(values, pa.bool_()).slice(start)
    assert to_numpy(array).tolist() == [value is True for value in values[start:]]
    assert to_numpy(pa.chunked_array([array, array])).tolist() == [value is True for value in values[start:]] * 2
    assert to_numpy(array.is_valid()).tolist() == [value is not None for value in values[start:]]


@pytest.mark.parametrize(
    "kind", [pa.int8(), pa.int16(), pa.int32(), pa.int64(), pa.uint8(), pa.uint64(), pa.float32(), pa.float64()]
)
def test_numbers_of_every_width(kind: pa.DataType) -> None:
    array = pa.array([1, 2, None, 4, 5], kind)
    assert to_numpy(array)[[0, 1, 3, 4]].tolist() == [1, 2, 4, 5]
    assert to_numpy(array.slice(3)).tolist() == [4, 5]
    assert len(to_numpy(pa.nulls(3, kind))) == 3


@pytest.mark.parametrize(
    ("value", "kind"),
    [
        ("ä\0b", pa.string()),
        ("", pa.string()),
        ("x", pa.large_string()),
        (True, pa.bool_()),
        (False, pa.bool_()),
        (-(2**63), pa.int64()),
        (2**63 - 1, pa.int64()),
        (-128, pa.int8()),
        (1.5, pa.float64()),
        (-0.0, pa.float64()),
        (math.inf, pa.float64()),
        (1e308, pa.float64()),
        (5e-324, pa.float64()),
        (0.1, pa.float32()),
        (Decimal("1.50"), pa.decimal128(10, 2)),
        (Decimal("1E+5"), pa.decimal128(10, 2)),
        (Decimal("-1E-7"), pa.decimal128(20, 10)),
        (dt.date(2026, 2, 10), pa.date32()),
        (dt.date(1, 1, 1), pa.date32()),
        (dt.datetime(2026, 2, 10, 1, 2, 3, 4, tzinfo=dt.UTC), pa.timestamp("us", "UTC")),
        (dt.datetime(1, 1, 1, tzinfo=dt.UTC), pa.timestamp("us", "UTC")),
        (dt.datetime(1969, 12, 31, 23, 59, 59, 999_999, tzinfo=dt.UTC), pa.timestamp("us", "UTC")),
        (dt.datetime(2026, 2, 10, 1, 2, 3, 4), pa.timestamp("us")),  # noqa: DTZ001
        (None, pa.int64()),
        (None, pa.struct([("a", pa.int64())])),
    ],
)
def test_scalars(value: object, kind: pa.DataType) -> None:
    made, expected = scalar(value, kind), pa.scalar(value, kind)
    assert made.type == kind
    assert made == expected
    assert str(made.as_py()) == str(expected.as_py())


def test_a_scalar_that_is_not_a_number() -> None:
    assert math.isnan(scalar(math.nan, pa.float64()).as_py())


def test_a_moment_of_another_zone() -> None:
    zone = dt.timezone(dt.timedelta(hours=5, minutes=30))
    made = scalar(dt.datetime(2026, 2, 10, 5, 30, tzinfo=zone), pa.timestamp("us", "UTC"))
    assert made.as_py() == dt.datetime(2026, 2, 10, tzinfo=dt.UTC)


@pytest.mark.parametrize(
    ("value", "kind"),
    [
        ("2026", pa.timestamp("us")),
        ("x", pa.int64()),
        (300, pa.int8()),
    ],
)
def test_a_value_of_another_type_is_refused(value: object, kind: pa.DataType) -> None:
    with pytest.raises((TypeError, pa.ArrowInvalid)):
        scalar(value, kind)


@pytest.mark.parametrize("unit", ["s", "ms", "us"])
@pytest.mark.parametrize("zone", [None, "UTC"])
def test_values(unit: str, zone: str | None) -> None:
    for held in (pa.array([0, None, -5, 253_402_300], pa.int64()).view(pa.timestamp(unit, zone)), pa.array([1, None])):
        assert values_of(held) == held.to_pylist()
        assert values_of(held.slice(1, 2)) == held.slice(1, 2).to_pylist()


def test_values_need_no_pandas() -> None:
    code = """
import sys
import numpy as np, pyarrow as pa
from delta_sidecar._arrow import from_numpy, values_of
moments = from_numpy(np.array([5])).view(pa.timestamp("us", "UTC"))
print(values_of(moments)[0].isoformat(), "pandas" in sys.modules)
moments.to_pylist()
print("pandas" in sys.modules)
"""
    run = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    # Where the usual way does without pandas, too, this one need not be.
    assert run.stdout.split() == ["1970-01-01T00:00:00.000005+00:00", "False", "True"]
