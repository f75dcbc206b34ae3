from __future__ import annotations

import datetime as dt
import json
import math
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from delta_sidecar.log.values import map_text, struct_text

PATIENTLY = settings(deadline=None)

TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=10)
NAMES = st.lists(TEXT.filter(bool), min_size=1, max_size=4, unique=True)
COLUMNS = {
    "s": (pa.string(), TEXT),
    "i": (pa.int64(), st.integers(-(2**63), 2**63 - 1)),
    "b": (pa.int8(), st.integers(-128, 127)),
    "d": (pa.float64(), st.floats()),
    "f": (pa.float32(), st.floats(width=32)),
    "o": (pa.bool_(), st.booleans()),
    "dec": (pa.decimal128(20, 4), st.decimals(-(10**15), 10**15, places=4)),
    "day": (pa.date32(), st.dates(dt.date(1, 1, 1), dt.date(9999, 12, 31))),
    "t": (pa.timestamp("us", "UTC"), st.datetimes(dt.datetime(1, 1, 2), timezones=st.just(dt.UTC))),  # noqa: DTZ001
    "n": (pa.timestamp("us"), st.datetimes(dt.datetime(1, 1, 2))),  # noqa: DTZ001
}
KIND = pa.struct([(name, kind) for name, (kind, _) in COLUMNS.items()])
ROW = st.fixed_dictionaries({name: st.none() | values for name, (_, values) in COLUMNS.items()})


def same(name: str, value: object, read: object) -> bool:
    """Tells whether a value in JSON is the one in the column."""
    if name in ("d", "f"):
        if not math.isfinite(value):
            return bool(read == {"inf": "Infinity", "-inf": "-Infinity", "nan": "NaN"}[str(value)])
        return float(read) == value
    if name == "dec":
        return Decimal(str(read)) == value
    if name in ("t", "n"):
        moment = dt.datetime.fromisoformat(read)
        return moment == value and (moment.tzinfo is None) == (name == "n")
    return bool(read == value if name != "day" else dt.date.fromisoformat(read) == value)


@PATIENTLY
@given(st.lists(st.none() | st.fixed_dictionaries({"a": st.none() | ROW, "z": st.none() | TEXT}), max_size=5))
def test_a_struct_is_read_back_from_its_json(rows: list[Any]) -> None:
    column = pa.array(rows, pa.struct([("a", KIND), ("z", pa.string())]))
    texts = struct_text(column).to_pylist()
    assert len(texts) == len(rows)
    for row, text in zip(rows, texts, strict=True):
        if row is None:
            assert text is None
            continue
        read = json.loads(text, parse_float=Decimal)
        assert read.keys() == {name for name, value in row.items() if value is not None}
        assert read.get("z") == row["z"]
        for name, value in (row["a"] or {}).items():
            inner = read["a"]
            assert (name in inner) == (value is not None)
            assert value is None or same(name, value, inner[name])


@PATIENTLY
@given(NAMES, st.data())
@example(['a"b', "c\\", "\n", ","], None)
def test_any_name_of_a_field(names: list[str], data: st.DataObject | None) -> None:
    row = {name: name if data is None else data.draw(TEXT) for name in names}
    column = pa.array([row], pa.struct([(name, pa.string()) for name in names]))
    assert json.loads(struct_text(column)[0].as_py()) == row


@PATIENTLY
@given(st.lists(st.none() | st.dictionaries(TEXT, st.none() | TEXT, max_size=3), max_size=5), st.data())
def test_a_map_is_read_back_from_its_json(rows: list[Any], data: st.DataObject) -> None:
    pairs = [None if row is None else list(row.items()) for row in rows]
    column = pa.array(pairs, pa.map_(pa.string(), pa.string()))
    start = data.draw(st.integers(0, len(rows)))
    texts = map_text(column.slice(start)).to_pylist()
    assert [None if text is None else json.loads(text) for text in texts] == rows[start:]


def test_structs_without_anything_to_say() -> None:
    kind = pa.struct([("a", pa.struct([("b", pa.int64())])), ("bin", pa.binary()), ("l", pa.list_(pa.int64()))])
    rows = [{"a": None, "bin": b"x", "l": [1]}, {"a": {"b": None}, "bin": None, "l": None}, None]
    assert struct_text(pa.array(rows, kind)).to_pylist() == ["{}", '{"a":{}}', None]
    assert struct_text(pa.array([{}], pa.struct([]))).to_pylist() == ["{}"]
    assert struct_text(pa.array([], kind)).to_pylist() == []
    assert map_text(pa.array([], pa.map_(pa.string(), pa.string()))).to_pylist() == []


def test_slices_of_structs() -> None:
    column = pa.array([{"a": 1}, {"a": None}, None, {"a": 4}], pa.struct([("a", pa.int64())]))
    assert struct_text(column.slice(1, 3)).to_pylist() == ["{}", None, '{"a":4}']


@pytest.mark.parametrize("zone", [None, "UTC"])
@pytest.mark.parametrize("unit", ["s", "ms", "us"])
def test_timestamps_of_years_without_four_digits_are_left_out(unit: str, zone: str | None) -> None:
    per_second = {"s": 1, "ms": 10**3, "us": 10**6}[unit]
    first, after_last = -62_167_219_200 * per_second, 253_402_300_800 * per_second
    numbers = [-(2**63), first - 1, first, 0, after_last - 1, after_last, 2**63 - 1]
    kind = pa.timestamp(unit, zone)
    texts = struct_text(pa.StructArray.from_arrays([pa.array(numbers).cast(kind)], names=["at"])).to_pylist()
    years = [json.loads(text).get("at", "")[:5] for text in texts]
    assert years == ["", "", "0000-", "1970-", "9999-", "", ""]
