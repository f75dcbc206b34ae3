# ruff: noqa: ANN401 - literals and bounds of every type
from __future__ import annotations

import datetime as dt
import math
from typing import Any

import pyarrow as pa
import pytest

from delta_sidecar.errors import PredicateError
from delta_sidecar.predicate import Comparison, In, Like, bind, columns, parse

SCHEMA = pa.schema(
    [
        ("device_id", pa.string()),
        ("n", pa.int32()),
        ("tiny", pa.int8()),
        ("u", pa.uint8()),
        ("ts", pa.timestamp("us", tz="UTC")),
        ("ntz", pa.timestamp("us")),
        ("ms", pa.timestamp("ms", tz="UTC")),
        ("ns", pa.timestamp("ns", tz="UTC")),
        ("d", pa.date32()),
        ("dec", pa.decimal128(5, 2)),
        ("f", pa.float64()),
        ("f4", pa.float32()),
        ("b", pa.bool_()),
        ("bin", pa.binary()),
        ("v", pa.null()),
        ("st", pa.struct([("x", pa.int64()), ("Sub", pa.struct([("deep", pa.string())]))])),
        ("tags", pa.map_(pa.string(), pa.string())),
        ("list", pa.list_(pa.int32())),
        ("dict", pa.dictionary(pa.int32(), pa.string())),
        ("a.b", pa.int32()),
        ("time", pa.time64("us")),
    ]
)
NEVER = "{0} IS NULL AND NULL"
ALWAYS = "{0} IS NOT NULL OR NULL"


def bound(source: Any) -> str:
    return str(bind(parse(source), SCHEMA))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        # whole numbers beside fractions
        ("n < 2.5", "n <= 2"),
        ("n <= 2.5", "n <= 2"),
        ("n > 2.5", "n > 2"),
        ("n >= 2.5", "n > 2"),
        ("n < -2.5", "n <= -3"),
        ("n >= -2.5", "n > -3"),
        ("n = 2.5", NEVER.format("n")),
        ("n != 2.5", ALWAYS.format("n")),
        ("n = 3.0", "n = 3"),
        ("n IN (1, 2.5, 3.0, 3)", "n IN (1, 3)"),
        ("n IN (2.5)", NEVER.format("n")),
        ("n IN (7)", "n = 7"),
        ("n = '5'", "n = 5"),
        # beyond the type
        ("tiny < 128", ALWAYS.format("tiny")),
        ("tiny > 127", "tiny > 127"),
        ("tiny >= 128", NEVER.format("tiny")),
        ("tiny > -129", ALWAYS.format("tiny")),
        ("tiny = 1000", NEVER.format("tiny")),
        ("tiny != 1000", ALWAYS.format("tiny")),
        ("tiny < -128.5", NEVER.format("tiny")),
        ("tiny < 127.5", "tiny <= 127"),
        ("u >= 0", "u >= 0"),
        ("u > -1", ALWAYS.format("u")),
        ("n < CAST('Infinity' AS DOUBLE)", ALWAYS.format("n")),
        # decimals
        ("dec = 1.5", "dec = 1.50"),
        ("dec < 1.005", "dec <= 1.00"),
        ("dec > -1.005", "dec > -1.01"),
        ("dec = 1.005", NEVER.format("dec")),
        ("dec <= 1000", ALWAYS.format("dec")),
        ("dec < '2.5'", "dec < 2.50"),
        # dates and timestamps
        ("d = '2026-02-08'", "d = DATE '2026-02-08'"),
        ("d = TIMESTAMP '2026-02-08 00:00:00'", "d = DATE '2026-02-08'"),
        ("d = TIMESTAMP '2026-02-08 10:00:00'", NEVER.format("d")),
        ("d < TIMESTAMP '2026-02-08 10:00:00'", "d <= DATE '2026-02-08'"),
        ("d >= '2026-02-08 10:00:00'", "d > DATE '2026-02-08'"),
        ("d >= '9999-12-31 23:59:59'", "d > DATE '9999-12-31'"),
        ("d = '2026-02-08T01:00:00+02:00'", NEVER.format("d")),
        ("ts >= DATE '2026-02-08'", "ts >= TIMESTAMP '2026-02-08 00:00:00+00:00'"),
        ("ts >= '2026-02-08'", "ts >= TIMESTAMP '2026-02-08 00:00:00+00:00'"),
        ("ts >= '2026-02-08 10:00'", "ts >= TIMESTAMP '2026-02-08 10:00:00+00:00'"),
        ("ts >= '2026-02-08T10:00:00.25+02:00'", "ts >= TIMESTAMP '2026-02-08 08:00:00.250000+00:00'"),
        ("ntz >= '2026-02-08T10:00:00Z'", "ntz >= TIMESTAMP '2026-02-08 10:00:00'"),
        ("ms < '2026-02-08 10:00:00.0005'", "ms <= TIMESTAMP '2026-02-08 10:00:00+00:00'"),
        ("ms = '2026-02-08 10:00:00.0005'", NEVER.format("ms")),
        ("ns = '2026-02-08'", "ns = TIMESTAMP '2026-02-08 00:00:00+00:00'"),
        ("ns < '3000-01-01'", ALWAYS.format("ns")),
        # floats
        ("f = 0.1", "f = 0.1"),
        ("f = '1e3'", "f = 1000.0"),
        ("f = 'NaN'", "f = CAST('NaN' AS DOUBLE)"),
        ("f > '-Infinity'", "f > CAST('-Infinity' AS DOUBLE)"),
        ("f <= 1e400", "f < CAST('Infinity' AS DOUBLE)"),
        ("f > 1e400", "f >= CAST('Infinity' AS DOUBLE)"),
        ("f < -1e400", "f <= CAST('-Infinity' AS DOUBLE)"),
        ("f4 = 1e300", "f4 = 1e+300"),
        ("f4 = 0.1", "f4 = 0.1"),
        ("f4 = 0.5", "f4 = 0.5"),
        # others
        ("b", "b = TRUE"),
        ("b = 'False'", "b = FALSE"),
        ("bin = X'00ff'", "bin = X'00FF'"),
        ("v = 5", NEVER.format("v")),
        ("v LIKE 'x%'", NEVER.format("v")),
        ("device_id LIKE 'plain'", "device_id = 'plain'"),
        ("device_id LIKE '50\\%'", "device_id = '50%'"),
        ("device_id NOT LIKE 'x_'", "device_id NOT LIKE 'x_'"),
        ("device_id IN ('b', 'a', NULL)", "device_id IN ('a', 'b') OR NULL"),
        ("dict = 'x'", "dict = 'x'"),
        # names
        ("DEVICE_ID = 'x'", "device_id = 'x'"),
        ("ST.sub.DEEP = 'x'", "st.Sub.deep = 'x'"),
        ("`a.b` = 1", "`a.b` = 1"),
        ("a.b = 1", "`a.b` = 1"),
        ("st IS NULL AND tags IS NOT NULL AND `list` IS NULL", "st IS NULL AND tags IS NOT NULL AND `list` IS NULL"),
    ],
)
def test_literals_keep_their_meaning_in_the_type_of_the_column(text: str, expected: str) -> None:
    assert bound(text) == expected


def test_bound_nodes_carry_types_and_values_of_the_type() -> None:
    node = bind(parse("f4 = 0.1"), SCHEMA)
    assert isinstance(node, Comparison)
    assert node.column.type == pa.float32()
    assert node.value == 0.1
    assert isinstance(node.value, float)
    node = bind(parse("ts = '2026-02-08'"), SCHEMA)
    assert isinstance(node, Comparison)
    assert node.value == dt.datetime(2026, 2, 8, tzinfo=dt.UTC)
    node = bind(parse([("f", "in", [2, math.nan, 1.5, 2.0])]), SCHEMA)
    assert isinstance(node, In)
    assert node.values[:2] == (1.5, 2.0)
    assert math.isnan(float(node.values[2]))  # type: ignore[arg-type]
    assert bind(node, SCHEMA) is node
    assert bind(node, pa.schema([("f", pa.float32())])) != node
    node = bind(parse("dict LIKE 'a%'"), SCHEMA)
    assert isinstance(node, Like)
    assert node.column.type == pa.string()


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        (
            "n > 1 AND devcie_id = 'a'",
            "there is no column devcie_id; did you mean device_id?\n  n > 1 AND devcie_id = 'a'\n            ^~~~~~~~~",
        ),
        ("DEVICEID = 'x'", "did you mean device_id?"),
        ("deep = 'x'", "did you mean st.Sub.deep?"),
        ("st.y = 1", "did you mean st.x"),
        ("qqqqqqqq = 1", "the columns are device_id, n, "),
        (
            "device_id = 5",
            "cannot be compared with 5, a number; write it as a string: '5'\n  device_id = 5\n              ^",
        ),
        ("device_id = DATE '2026-02-08'", "write it as a string: '2026-02-08'"),
        ("n = 'five'", "column n has type int32 and cannot be compared with 'five', a string; write a whole number"),
        ("n = '5.5'", "cannot be compared with '5.5'"),
        ("n IN (1, 'x')", "cannot be compared with 'x'"),
        ("n = TRUE", "cannot be compared with TRUE, a boolean"),
        ("n = 'NaN'", "cannot be compared with 'NaN'"),
        ("b = 1", "write TRUE or FALSE"),
        ("d = 5", "write a date"),
        ("ts = 'soon'", "write a timestamp"),
        ("bin = 'x'", "write bytes"),
        ("f = DATE '2026-02-08'", "a date; write a number"),
        ("n LIKE 'x%'", "LIKE is for strings"),
        ("st = 1", "column st is a struct: only IS [NOT] NULL is supported on it; name a field: st.x, st.Sub"),
        ("tags = 'x'", "column tags has type map<string, string>"),
        ("`list` = 1", "only IS [NOT] NULL is supported"),
        ("time = 5", "column time has type time64[us]"),
        ("tags.key = 'x'", "a list or map has no fields"),
        ("n.x = 1", "a column of single values has no fields"),
        ("ts = '0001-01-01 00:00:00+01:00'", "outside of the years 1 to 9999"),
    ],
)
def test_mistakes_are_named_and_pointed_at(text: str, problem: str) -> None:
    with pytest.raises(PredicateError) as caught:
        bound(text)
    assert problem in str(caught.value)


def test_mistakes_in_structures_say_where() -> None:
    with pytest.raises(PredicateError, match=r"no column x.*\n  at filters\[1\]"):
        bound([("n", "=", 1), ("x", "=", 1)])
    with pytest.raises(PredicateError, match=r"cannot be compared.*\n  at \$\.n\['>='\]"):
        bound({"n": {">=": "x"}})


def test_the_exact_name_wins_and_an_unclear_one_is_refused() -> None:
    schema = pa.schema([("Aa", pa.int32()), ("aA", pa.int32())])
    assert columns(bind(parse("aA = 1"), schema)) == {("aA",)}
    with pytest.raises(PredicateError, match="more than one column: Aa, aA"):
        bind(parse("aa = 1"), schema)
