"""Partition values, statistics and timestamps: what is read, and what counts as unknown."""

from __future__ import annotations

import datetime as dt
import json
import math
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from delta_sidecar.log.partition_values import lookup, read_partition_column
from delta_sidecar.log.stats import (
    FileStatistics,
    parse_num_records,
    parse_statistics,
    struct_leaves,
    struct_statistics,
)
from delta_sidecar.log.values import JAVA, is_text_of, parse_timestamps, value_text

PATIENTLY = settings(deadline=None)

UTC = dt.UTC
STAMP = pa.timestamp("us", "UTC")


def strings(*values: str | None) -> pa.StringArray:
    return pa.array(values, pa.string())


@pytest.mark.parametrize(
    ("kind", "texts", "values"),
    [
        (pa.string(), ["a", " b ", "ä"], ["a", " b ", "ä"]),
        (pa.int64(), ["-9223372036854775808", "0"], [-(2**63), 0]),
        (pa.int32(), ["7"], [7]),
        (pa.int16(), ["-7"], [-7]),
        (pa.int8(), ["127"], [127]),
        (pa.float64(), ["1.5", "-1E10", "Infinity"], [1.5, -1e10, math.inf]),
        (pa.float32(), ["0.5"], [0.5]),
        (pa.bool_(), ["true", "false"], [True, False]),
        (pa.date32(), ["2026-02-10", "0001-01-01"], [dt.date(2026, 2, 10), dt.date(1, 1, 1)]),
        (pa.decimal128(10, 2), ["1.50", "-0.01"], [Decimal("1.50"), Decimal("-0.01")]),
        (pa.decimal128(38, 0), ["9" * 38], [Decimal("9" * 38)]),
        (pa.timestamp("us"), ["2026-02-10 01:02:03.000004"], [dt.datetime(2026, 2, 10, 1, 2, 3, 4)]),  # noqa: DTZ001
    ],
)
def test_partition_values_of_every_type(kind: pa.DataType, texts: list[str], values: list[Any]) -> None:
    column = read_partition_column(strings(*texts, None, ""), kind)
    assert column is not None
    assert column.values.type == kind
    assert column.values.to_pylist() == [*values, None, None]


def test_timestamps_of_partitions_tell_whether_they_had_a_zone() -> None:
    texts = ["2026-02-10 01:02:03", "2026-02-10T01:02:03.5Z", "2026-02-10T01:02:03+02:00", None, ""]
    column = read_partition_column(strings(*texts), STAMP)
    assert column is not None
    assert column.values.to_pylist() == [
        dt.datetime(2026, 2, 10, 1, 2, 3, tzinfo=UTC),
        dt.datetime(2026, 2, 10, 1, 2, 3, 500_000, tzinfo=UTC),
        dt.datetime(2026, 2, 9, 23, 2, 3, tzinfo=UTC),
        None,
        None,
    ]
    assert column.zoneless is not None
    assert column.zoneless.to_pylist()[:3] == [True, False, False]


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        (pa.int64(), "x"),
        (pa.int8(), "300"),
        (pa.date32(), "2026-02-30"),
        (STAMP, "yesterday"),
        (pa.decimal128(3, 1), "12345"),
        (pa.bool_(), "maybe"),
        (pa.binary(), "\u0001"),
        (pa.null(), "x"),
    ],
)
def test_a_partition_value_that_is_none_of_its_type_makes_the_column_unknown(kind: pa.DataType, text: str) -> None:
    assert read_partition_column(strings("", text), kind) is None


def test_looking_up_partition_values() -> None:
    kind = pa.map_(pa.string(), pa.string())
    column = pa.array([[("a", "1"), ("b", None)], [], None, [("b", "2"), ("a", "3")]], kind)
    assert lookup(column, "a").texts.to_pylist() == ["1", None, None, "3"]
    assert lookup(column, "b").texts.to_pylist() == [None, None, None, "2"]
    assert lookup(column.slice(1), "a").texts.to_pylist() == [None, None, "3"]
    assert lookup(column, "b").known.tolist() == [True, False, False, True], "a null under the name is known"
    assert lookup(column.slice(3), "b").known.tolist() == [True]


@PATIENTLY
@given(st.lists(st.datetimes(dt.datetime(1, 1, 2), dt.datetime(9998, 1, 1)), min_size=1), st.data())  # noqa: DTZ001
def test_timestamps_are_read_as_they_are_written(moments: list[dt.datetime], data: st.DataObject) -> None:
    texts, zoned = [], []
    for moment in moments:
        has_zone = data.draw(st.booleans())
        separator = data.draw(st.sampled_from(" T"))
        texts.append(moment.isoformat(separator) + ("Z" if has_zone else ""))
        zoned.append(has_zone)
    values, zoneless = parse_timestamps(strings(*texts))
    assert values.to_pylist() == moments
    assert zoneless.to_pylist() == [not has_zone for has_zone in zoned]


# --- statistics ------------------------------------------------------------------------------------------------

TYPES = {
    ("i",): pa.int64(),
    ("b",): pa.int8(),
    ("d",): pa.float64(),
    ("f",): pa.float32(),
    ("s",): pa.string(),
    ("t",): STAMP,
    ("n",): pa.timestamp("us"),
    ("day",): pa.date32(),
    ("dec",): pa.decimal128(10, 2),
    ("o",): pa.bool_(),
    ("x", "y"): pa.int32(),
}


def stats(low: object = None, high: object = None, **fields: object) -> str:
    return json.dumps({"numRecords": 5, "minValues": low or {}, "maxValues": high or {}, **fields})


def lowers(found: FileStatistics, *path: str) -> list[Any]:
    column = found.columns[path].lower
    assert column is not None
    assert column.type == TYPES[path]
    values: list[Any] = column.to_pylist()
    return values


def test_statistics_of_every_type() -> None:
    values = {
        "i": 2**63 - 1,
        "b": -5,
        "d": 1.25,
        "f": 0.5,
        "s": "ä\n",
        "t": "2026-02-10T01:02:03.004Z",
        "n": "2026-02-10T01:02:03.004",
        "day": "2026-02-10",
        "dec": 12.34,
        "x": {"y": 9, "other": "z"},
        "unknown": [1],
    }
    text = stats(values, values, nullCount={"i": 1, "x": {"y": 2}}, tightBounds=False)
    found = parse_statistics(strings(text, None, "", "{}"), TYPES)
    moment = dt.datetime(2026, 2, 10, 1, 2, 3, 4_000)  # noqa: DTZ001
    expected: dict[tuple[str, ...], Any] = {
        ("i",): 2**63 - 1,
        ("b",): -5,
        ("d",): 1.25,
        ("f",): 0.5,
        ("s",): "ä\n",
        ("t",): moment.replace(tzinfo=UTC),
        ("n",): moment,
        ("day",): dt.date(2026, 2, 10),
        ("dec",): Decimal("12.34"),
        ("x", "y"): 9,
    }
    for path, value in expected.items():
        assert lowers(found, *path) == [value, None, None, None], path
        upper = found.columns[path].upper
        assert upper is not None
        assert upper.to_pylist() == [value, None, None, None]
    assert found.num_records is not None
    assert found.num_records.to_pylist() == [5, None, None, None]
    assert found.tight is not None
    assert found.tight.to_pylist() == [False, None, None, None]
    assert found.columns["i",].null_count.to_pylist() == [1, None, None, None]
    assert found.columns["x", "y"].null_count.to_pylist() == [2, None, None, None]


ODD = {
    "a text for a number": {"i": "x"},
    "a fraction for a whole number": {"i": 1.5},
    "beyond the type": {"i": 2**70},
    "far beyond the type": {"b": 300},
    "an object for a number": {"i": {"a": 1}},
    "a list for a number": {"i": [1]},
    "a number for a text": {"s": 7},
    "a number for a date": {"day": 7},
    "no date": {"day": "2026-13-01"},
    "no timestamp": {"t": "now"},
    "a timestamp without a zone": {"t": "2026-02-10T01:02:03"},
    "a text for a boolean": {"o": "yes"},
    "too many digits": {"dec": 123456789012.5},
    "a number for a struct": {"x": 5},
}


@pytest.mark.parametrize("case", ODD)
def test_an_odd_value_is_unknown_and_costs_no_other(case: str) -> None:
    ((name, _),) = ODD[case].items()
    path = ("x", "y") if name == "x" else (name,)
    good = {
        "i": 4,
        "b": 4,
        "s": "m",
        "day": "2026-02-10",
        "t": "2026-02-10T00:00:00Z",
        "o": True,
        "dec": 1,
        "x": {"y": 4},
    }
    found = parse_statistics(strings(stats(good), stats({**good, **ODD[case]}), stats(good)), TYPES)
    values = lowers(found, *path)
    assert values[1] is None
    assert values[0] == values[2]
    if name != "o":
        assert values[0] is not None
    others = lowers(found, "i" if name != "i" else "b")
    assert others == [4, 4, 4]
    assert found.num_records is not None
    assert found.num_records.to_pylist() == [5, 5, 5]


@pytest.mark.parametrize(
    "text",
    [
        "{",
        "null",
        "[]",
        "7",
        '"x"',
        "nonsense",
        "\0",
        "{}{}",
        '{"numRecords":1}{"numRecords":2}',
        " ",
        "[" * 100_000,
        '{"a":\n',
    ],
)
def test_a_text_that_makes_no_sense_is_unknown_and_costs_no_other(text: str) -> None:
    found = parse_statistics(strings(stats({"i": 1}), text, stats({"i": 3})), TYPES)
    assert lowers(found, "i") == [1, None, 3]


def test_texts_with_line_breaks_are_read() -> None:
    text = json.dumps({"numRecords": 1, "minValues": {"i": 8}}, indent=2)
    assert lowers(parse_statistics(strings(text, stats({"i": 1})), TYPES), "i") == [8, 1]


def test_two_objects_in_one_text_and_none_in_another_do_not_shift_the_rest() -> None:
    texts = strings(stats({"i": 1}) + stats({"i": 2}), stats({"i": 3}), " ", stats({"i": 4}))
    assert lowers(parse_statistics(texts, TYPES), "i") == [None, 3, None, 4]


@pytest.mark.parametrize("word", ["NaN", "Infinity", "-Infinity"])
def test_bounds_that_are_no_numbers(word: str) -> None:
    for literal in (word, json.dumps(word)):
        text = f'{{"numRecords":5,"minValues":{{"d":{literal},"i":1}}}}'
        found = parse_statistics(strings(text, stats({"d": 2.5, "i": 2})), TYPES)
        value, other = lowers(found, "d")
        assert value is None or repr(value) == repr(float(word))
        assert other == 2.5
        assert lowers(found, "i") == [1, 2]


def test_decimals_keep_all_their_digits() -> None:
    kind = pa.decimal128(38, 10)
    text = '{"minValues":{"dec":1234567890123456789012345678.0123456789}}'
    found = parse_statistics(strings(text), {("dec",): kind})
    column = found.columns["dec",].lower
    assert column is not None
    assert column.to_pylist() in ([Decimal("1234567890123456789012345678.0123456789")], [None])


def test_number_of_records() -> None:
    texts = strings('{"numRecords":7}', None, "x", '{"numRecords":"7"}', '{"numRecords":1.5}', "{}")
    values = parse_num_records(texts).to_pylist()
    assert values[0] == 7
    assert values[1:3] == [None, None]
    assert values[3] in (None, 7)
    assert values[4:] == [None, None]
    assert parse_num_records(strings()).to_pylist() == []


VALUE = st.one_of(st.none(), st.booleans(), st.integers(-(2**70), 2**70), st.floats(), st.text(max_size=4))
JSON = st.recursive(
    VALUE, lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=2), inner, max_size=2)
)
ROW = st.one_of(
    st.none(),
    st.text(max_size=6),
    st.integers(-(2**63), 2**63 - 1).map(lambda value: stats({"i": value})),
    JSON.map(lambda value: stats({"i": value, "s": value})),
    JSON.map(json.dumps),
)


@PATIENTLY
@given(st.lists(ROW, max_size=8))
def test_no_text_changes_what_is_known_of_another(rows: list[str | None]) -> None:
    """A file's bounds are those it has alone, or unknown: never those of its neighbour."""
    together = lowers(parse_statistics(strings(*rows), TYPES), "i")
    assert len(together) == len(rows)
    for text, value in zip(rows, together, strict=True):
        assert lowers(parse_statistics(strings(text), TYPES), "i") == [value]
        try:
            said = json.loads(text or "{}", parse_float=Decimal)["minValues"]["i"]
        except (ValueError, LookupError, TypeError):
            said = None
        assert value is None or value == said or str(value) == said


def test_struct_statistics() -> None:
    kind = pa.struct(
        [
            ("numRecords", pa.int32()),
            (
                "minValues",
                pa.struct([("i", pa.int32()), ("t", pa.timestamp("ms")), ("x", pa.struct([("y", pa.int64())]))]),
            ),
            ("nullCount", pa.struct([("i", pa.int64())])),
        ]
    )
    moment = dt.datetime(2026, 2, 10)  # noqa: DTZ001
    rows = [{"numRecords": 3, "minValues": {"i": 1, "t": moment, "x": {"y": 2**40}}, "nullCount": {"i": 0}}, None]
    found = struct_statistics(pa.array([*rows, {"minValues": None}], kind), TYPES)
    assert lowers(found, "i") == [1, None, None]
    assert lowers(found, "x", "y") == [None, None, None], "beyond the type of the column"
    assert lowers(found, "t") == [moment.replace(tzinfo=UTC), None, None]
    assert found.columns["s",].lower is None
    assert found.columns["i",].upper is None
    assert found.tight is None
    assert found.num_records is not None
    assert found.num_records.to_pylist() == [3, None, None]


def test_leaves_of_struct_statistics() -> None:
    leaves = struct_leaves([("a", "b")])
    assert set(leaves) == {
        ("numRecords",),
        ("tightBounds",),
        ("minValues", "a", "b"),
        ("maxValues", "a", "b"),
        ("nullCount", "a", "b"),
    }


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        (STAMP, "2026-02-10T22:00:00.123Z"),
        (STAMP, "2026-02-10 22:00:00.123Z"),
        (STAMP, "2026-02-10T22:00:00.1Z"),
        (STAMP, "2026-02-10T22:00:00Z"),
        (STAMP, "2026-02-10T22:00:00.000456Z"),
        (pa.timestamp("us"), "2026-02-10T22:00:00.123"),
        (pa.timestamp("us"), "2026-02-10 22:00:00.123"),
        (pa.string(), "aé"),
        (pa.string(), "a\\tb"),
        (pa.date32(), "2026-02-10"),
    ],
)
def test_a_value_is_known_by_the_text_that_is_written_of_it(kind: pa.DataType, text: str) -> None:
    texts = strings("2026-02-10T22:00:00.123Z" if kind == STAMP else text, text)
    values = texts if kind == pa.string() else parse_timestamps(texts)[0].cast(kind)
    expected = value_text(values, JAVA).to_pylist() == [f'"{each}"' for each in texts.to_pylist()]
    assert is_text_of(values, texts, JAVA, is_quoted=True) is expected
    # As part of a longer column too.
    assert is_text_of(values.slice(1), texts.slice(1), JAVA, is_quoted=True) is expected
    assert not is_text_of(values, texts, JAVA, is_quoted=False)
