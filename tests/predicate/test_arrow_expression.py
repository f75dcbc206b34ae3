from __future__ import annotations

import datetime as dt
import functools
import operator
import subprocess
import sys
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import HealthCheck, given, note, settings
from hypothesis import strategies as st
from tests.predicate.arrow_expressions import expressions, leaves_about
from tests.predicate.files import SCHEMA, TYPES, rows

from delta_sidecar.predicate import TRUE, bind, columns, matches
from delta_sidecar.predicate.approximate.arrow import Approximation, from_arrow_expression, prunable

x, y, s = pc.field("x"), pc.field("y"), pc.field("s")
NO_ANSWER = pc.scalar(pa.scalar(None, pa.bool_()))
NOON = dt.datetime(2026, 2, 8, 12, tzinfo=dt.UTC)


def call(name: str, *arguments: pc.Expression) -> pc.Expression:
    return pc.Expression._call(name, list(arguments))


EXACT = [
    (x > 5, "x > 5"),
    (pc.scalar(5) > x, "x < 5"),
    (~(x == 5), "x != 5"),
    (~(x < 5), "NOT (x < 5)"),
    ((x > 5) & (y < 3) | ~(s == "a"), "(x > 5 AND y < 3) OR s != 'a'"),
    (~((x > 5) & (y < 3)), "NOT (x > 5) OR NOT (y < 3)"),
    (call("and", x > 5, y < 3), "x > 5 AND y < 3"),
    (x, "x = TRUE"),
    (~x, "x = FALSE"),
    (pc.scalar(True), "TRUE"),  # noqa: FBT003 - a literal
    (~pc.scalar(True), "FALSE"),  # noqa: FBT003
    (NO_ANSWER, "FALSE"),
    (~NO_ANSWER, "FALSE"),
    ((x == 5) | NO_ANSWER, "x = 5"),
    (x == pa.scalar(None, pa.int64()), "FALSE"),
    (x.is_null(), "x IS NULL"),
    (~x.is_null(), "x IS NOT NULL"),
    (x.is_valid(), "x IS NOT NULL"),
    (x.isin([1, 2]), "x IN (1, 2)"),
    (~x.isin([1, 2]), "x NOT IN (1, 2) OR x IS NULL"),
    (x.isin([1, None]), "x IN (1) OR x IS NULL"),
    (~x.isin([1, None]), "x NOT IN (1)"),
    (pc.is_in(x, pa.array([1, None]), skip_nulls=True), "x IN (1)"),
    (x.isin(pa.nulls(1)), "x IS NULL"),
    (~x.isin(pa.nulls(1)), "x IS NOT NULL"),
    (x.isin([]), "FALSE"),
    (~x.isin([]), "TRUE"),
    (x.isin(pa.array(["a", "b"]).dictionary_encode()), "x IN ('a', 'b')"),
    (pc.if_else(x.is_valid(), x.isin([1]), NO_ANSWER), "x IS NOT NULL AND x IN (1)"),
    (pc.match_like(s, "a%b_"), "s LIKE 'a%b_'"),
    (pc.starts_with(s, "a_%\\"), "s LIKE 'a\\_\\%\\\\%'"),
    (~pc.ends_with(s, "{}"), "s NOT LIKE '%{}'"),
    (pc.match_substring(s, ""), "s LIKE '%%'"),
    (pc.field("a", "b", "c") > 1, "a.b.c > 1"),
    (pc.field("a.b") > 1, "`a.b` > 1"),
    (x == "it's", "x = 'it''s'"),
    (x == pa.scalar("a", pa.large_string()), "x = 'a'"),
    (x == pa.scalar("a", pa.string_view()), "x = 'a'"),
    (x == pa.scalar("a").cast(pa.dictionary(pa.int32(), pa.string())), "x = 'a'"),
    (x == b"\xff", "x = X'FF'"),
    (x == pa.scalar(b"ab", pa.binary(2)), "x = X'6162'"),
    (x < 0.1, "x < 0.1"),
    (x < pa.scalar(0.1, pa.float32()), "x < 0.10000000149011612"),
    (x < Decimal("1.50"), "x < 1.50"),
    (x == dt.date(2026, 2, 8), "x = DATE '2026-02-08'"),
    (x == pa.scalar(dt.date(2026, 2, 8), pa.date64()), "x = DATE '2026-02-08'"),
    (x > NOON.replace(tzinfo=None), "x > TIMESTAMP '2026-02-08 12:00:00'"),
    (x > pa.scalar(NOON, pa.timestamp("s", "Asia/Tokyo")), "x > TIMESTAMP '2026-02-08 12:00:00+00:00'"),
    (x > pa.scalar(NOON, pa.timestamp("ns", "UTC")), "x > TIMESTAMP '2026-02-08 12:00:00+00:00'"),
    (x > pc.scalar("2026-02-08").cast(pa.timestamp("us")), "x > TIMESTAMP '2026-02-08 00:00:00'"),
]
INEXACT = [
    ((x > 5) & (y + 1 > 3), "x > 5"),
    ((x > 5) | (y + 1 > 3), "TRUE"),
    (~((x > 5) & (y + 1 > 3)), "TRUE"),
    (~((x > 5) | (y + 1 > 3)), "NOT (x > 5)"),
    (call("or", x > 5, y < 3), "x > 5 OR y < 3"),
    (~call("and", x > 5, y < 3), "NOT (x > 5) OR NOT (y < 3)"),
    (call("xor", x > 5, y < 3), "TRUE"),
    (x.is_null(nan_is_null=True), "TRUE"),
    (~x.is_null(nan_is_null=True), "x IS NOT NULL"),
    (x.isin([float("nan"), 1.5]), "TRUE"),
    (~x.isin([float("nan"), 1.5]), "x NOT IN (1.5) OR x IS NULL"),
    (x.isin([0.0, 1.5]), "x IN (0.0, 1.5)"),
    (~x.isin([0.0, 1.5]), "x NOT IN (1.5) OR x IS NULL"),
    (~x.isin([0.0]), "TRUE"),
    (pc.match_like(s, "a\\%"), "TRUE"),
    (pc.starts_with(s, "a", ignore_case=True), "TRUE"),
    (pc.starts_with(s, b"\xff"), "TRUE"),
    (x == y, "TRUE"),
    (pc.scalar(1) == pc.scalar(1), "TRUE"),
    (pc.scalar(1), "TRUE"),
    (x.cast(pa.int64()) > 5, "TRUE"),
    ((x + 1).is_null(), "TRUE"),
    ((x + 1).isin([1]), "TRUE"),
    (pc.coalesce(x, y), "TRUE"),
    (pc.field(0) == 1, "TRUE"),
    ((pc.field(0) == 1) & (x > 5), "TRUE"),
    (call("no such function", x), "TRUE"),
    (call("equal", x), "TRUE"),
    (call("is_in", x), "TRUE"),
    (call("invert"), "TRUE"),
    (x > pa.scalar(1, pa.timestamp("ns")), "TRUE"),
    (x > pa.scalar(2**62, pa.timestamp("s")), "TRUE"),
    (x > pa.scalar(2**31 - 1, pa.date32()), "TRUE"),
    (x > pa.scalar(1, pa.date64()), "TRUE"),
    (x > dt.time(1), "TRUE"),
    (x > dt.timedelta(1), "TRUE"),
    (x == pa.scalar([1]), "TRUE"),
    (x == pa.ExtensionScalar.from_storage(pa.uuid(), b"0" * 16), "TRUE"),
    (x == pc.scalar("a").cast(pa.int64()), "TRUE"),
    (x == pc.scalar(300).cast(pa.int8(), safe=False), "TRUE"),
]


def test_an_expression_says_the_same_as_a_predicate(subtests: pytest.Subtests) -> None:
    for expression, sql in EXACT:
        with subtests.test(str(expression)):
            translated = from_arrow_expression(expression)
            assert (str(translated.predicate), translated.exact) == (sql, True)


def test_what_has_no_notation_is_true_in_its_place(subtests: pytest.Subtests) -> None:
    # Not all of them can be printed.
    for number, (expression, sql) in enumerate(INEXACT):
        with subtests.test(number=number):
            translated = from_arrow_expression(expression)
            assert (str(translated.predicate), translated.exact) == (sql, False)


SMALL = pa.schema(
    [
        ("n", pa.int32()),
        ("f", pa.float64()),
        ("f4", pa.float32()),
        ("s", pa.string()),
        ("word", pa.dictionary(pa.int32(), pa.string())),
        ("ts", pa.timestamp("us", "UTC")),
        ("day", pa.date32()),
        ("price", pa.decimal128(7, 2)),
        ("tags", pa.list_(pa.string())),
        ("st", pa.struct([("a", pa.int64())])),
    ]
)
n, f, f4, ts = (pc.field(name) for name in ("n", "f", "f4", "ts"))
PRUNABLE = [
    (n > pa.scalar(5, pa.int64()), "n > 5"),
    (n > pa.scalar(2**40, pa.int64()), "n IS NULL AND NULL"),
    (n < 2.5, "n <= 2"),
    (n.is_null(nan_is_null=True), "n IS NULL"),
    (f.is_null(nan_is_null=True), None),
    (n.cast(pa.int64()) > 5, "n > 5"),
    (n.cast(pa.float64()) < 2.5, "n <= 2"),
    (n.cast(pa.int8(), safe=False) > 5, None),
    (n.cast(pa.string()) == "5", None),
    (n.isin([1, 2]), "n IN (1, 2)"),
    (n.isin([1.0, 2.5]), None),
    (f > 5, "f > 5.0"),
    (f < Decimal("0.7"), None),
    (f4 < 0.7, "f4 < 0.7"),
    (f4 >= 0.7, "f4 >= 0.7"),
    (f4 < 1e300, "f4 < 1e+300"),
    (f4 == 0.7, "f4 = 0.7"),
    (f4 == 0.5, "f4 = 0.5"),
    (f4.cast(pa.float64()) < 2**24 + 1, "f4 < 16777217.0"),
    (f.cast(pa.float32()) < 0.5, None),
    (f4.isin([0.7]), None),
    (pc.field("price") < Decimal("1.005"), "price <= 1.00"),
    (pc.field("price") < 1.5, None),
    (pc.field("word") == "a", "word = 'a'"),
    (ts > NOON, "ts > TIMESTAMP '2026-02-08 12:00:00+00:00'"),
    (ts > NOON.date(), "ts > TIMESTAMP '2026-02-08 00:00:00+00:00'"),
    (ts > "2026-02-08", None),
    (pc.field("day") > NOON, "day > DATE '2026-02-08'"),
    (pc.field("day").isin([NOON]), None),
    (pc.field("day").cast(pa.timestamp("us")) > NOON.replace(tzinfo=None), "day > DATE '2026-02-08'"),
    (ts.cast(pa.date32()) > NOON.date(), None),
    (ts.cast(pa.timestamp("us")) > NOON.replace(tzinfo=None), None),
    (pc.field("st", "a") > 5, "st.a > 5"),
    (pc.field("st").is_valid(), "st IS NOT NULL"),
    (pc.field("st") == pa.scalar({"a": 1}), None),
    (pc.field("tags").is_null(), "tags IS NULL"),
    (pc.field("tags") == pa.scalar(["a"]), None),
    (pc.field("nothing") > 5, None),
    (pc.field("n", "inside") > 5, None),
    (n, None),
    (~pc.match_like(n, "a%"), None),
    ((n > 5) & (pc.field("nothing") > 5) & (s == 5), "n > 5"),
    (~((n > 5) | (s == 5)), "NOT (n > 5)"),
    (~((n > 5) & (s == 5)), None),
    ((n > 5) | (s == 5), None),
    (n == pa.scalar(None, pa.int32()), "FALSE"),
]


def test_with_a_schema_what_arrow_does_by_value_is_kept(subtests: pytest.Subtests) -> None:
    for expression, sql in PRUNABLE:
        with subtests.test(str(expression)):
            predicate = prunable(expression, SMALL)
            assert (None if predicate is None else str(predicate)) == sql
            if predicate is not None:
                assert bind(predicate, SMALL) == predicate


def test_a_long_chain_is_taken_apart() -> None:
    expression = functools.reduce(operator.or_, [x == number for number in range(3000)])
    translated = from_arrow_expression(expression)
    assert translated.exact
    assert str(translated.predicate).startswith("x = 0 OR x = 1 OR x = 2 OR ")
    assert str(translated.predicate).endswith(" OR x = 2999")


def test_what_is_nested_too_deeply_is_given_up() -> None:
    expression = x > 5
    for _ in range(3000):
        expression = ~expression
    assert from_arrow_expression(expression) == Approximation(TRUE, exact=False)
    assert prunable(expression, SMALL) is None


relaxed = settings(
    max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large]
)


def kept(expression: pc.Expression, table: pa.Table) -> list[bool] | None:
    """Which rows pyarrow's own filter keeps; None if it fails."""
    numbered = table.append_column("row number", pa.array(range(table.num_rows)))
    try:
        found = set(numbered.filter(expression)["row number"].to_pylist())
    except pa.ArrowException:
        return None
    return [number in found for number in range(table.num_rows)]


def check(translated: Approximation, table: pa.Table, expected: list[bool]) -> None:
    found = matches(bind(translated.predicate, table.schema), table).to_pylist()
    if translated.exact:
        assert found == expected, translated
    assert all(own for own, wanted in zip(found, expected, strict=True) if wanted), translated


@relaxed
@given(st.data())
def test_no_row_is_lost_whatever_the_types_of_the_literals(data: st.DataObject) -> None:
    table = pa.Table.from_pylist([row for file in data.draw(rows()) for row in file], SCHEMA)
    expression = data.draw(expressions(strange=True))
    note(str(expression))
    typed = from_arrow_expression(expression, SCHEMA)
    assert str(prunable(expression, SCHEMA) or TRUE) == str(typed.predicate)
    expected = kept(expression, table)
    if expected is not None:
        check(typed, table, expected)


@relaxed
@given(st.data())
def test_without_a_schema_no_row_is_lost_for_literals_of_the_columns_type(data: st.DataObject) -> None:
    table = pa.Table.from_pylist([row for file in data.draw(rows()) for row in file], SCHEMA)
    expression = data.draw(expressions(strange=False))
    note(str(expression))
    expected = kept(expression, table)
    if expected is not None:
        check(from_arrow_expression(expression), table, expected)


_HALF_DAYS = [dt.datetime(2026, 2, 8), dt.datetime(2026, 2, 8, 0, 0, 0, 5), dt.datetime(2026, 2, 7, 12)]  # noqa: DTZ001
_WHOLE = [0, 1, 3, -1, 2**24 + 1, None]
_NEAR = [0.0, -0.0, 0.1, 0.7, 2.5, 3.0, float("nan"), float("inf"), -1e20, None]
EDGES: dict[str, list[Any]] = {
    "i": _WHOLE,
    "l": [*_WHOLE, 2**53 + 1, -(2**63)],
    "x": [3, None],
    "f": [*_NEAR, 1e300, 1e-50, 0.10000000149011612],
    "f4": [*_NEAR, 2.0**24, *(float(np.nextafter(np.float32(number), np.float32(9))) for number in (0.1, 0.7))],
    "dec": [Decimal("0.70"), Decimal("2.50"), Decimal(3), Decimal("99999.99"), None],
    "wide": [Decimal("0.7"), Decimal(10) ** 20, Decimal("100000000000000000000.0001"), None],
    "ts": [*_HALF_DAYS, None],
    "tn": [*_HALF_DAYS, None],
    "d": [dt.date(2026, 2, 8), dt.date(2026, 2, 7), None],
    "s": ["a", "b", "5", None],
    "y": ["a", None],
    "bin": [b"a", b"b", None],
    "b": [True, False, None],
}


@pytest.mark.full
@pytest.mark.parametrize("path", sorted(TYPES), ids=".".join)
def test_no_row_is_lost_beside_any_literal(path: tuple[str, ...]) -> None:
    values = pa.array(EDGES[path[-1]], TYPES[path])
    table = pa.table({path[0]: values if len(path) == 1 else pa.StructArray.from_arrays([values], [path[1]])})
    exact = 0
    for leaf in leaves_about(path, list(values)):
        for expression in (leaf, ~leaf):
            translated = from_arrow_expression(expression, table.schema)
            if translated == Approximation(TRUE, exact=False):
                continue
            exact += translated.exact
            # Arrow fails for a whole column where one value does not fit: then the others are asked one by one.
            together = kept(expression, table)
            if together is not None:
                check(translated, table, together)
                continue
            for row in range(table.num_rows):
                alone = kept(expression, table.slice(row, 1))
                if alone is not None:
                    check(translated, table.slice(row, 1), alone)
    assert exact > len(values)


PANDAS = """
import sys
import pyarrow as pa, pyarrow.compute as pc
from delta_sidecar.predicate.approximate.arrow import from_arrow_expression, prunable
from delta_sidecar import _arrow
import numpy as np

ns = _arrow.from_numpy(np.array([1_000, 1_001])).view(pa.timestamp("ns", "UTC"))
words = _arrow.strings(["a", None])
day = words.slice(1).cast(pa.date32())
x = pc.field("x")
found = [
    from_arrow_expression(expression)
    for expression in (
        x > pc.scalar(ns[0]), x > pc.scalar(ns[1]), x.isin(ns), x == pc.scalar(words[0]), x.isin(words),
        x > pc.scalar(_arrow.strings(["1.5"]).cast(pa.decimal128(5, 2))[0]),
    )
]
schema = pa.schema([("x", pa.timestamp("us", "UTC"))])
assert str(prunable(x > pc.scalar(ns[0]), schema)) == "x > TIMESTAMP '1970-01-01 00:00:00.000001+00:00'"
assert [one.exact for one in found] == [True, False, False, True, True, True], found
print("pandas" in sys.modules)
"""


def test_pandas_is_not_imported() -> None:
    done = subprocess.run([sys.executable, "-c", PANDAS], capture_output=True, text=True, check=False)
    assert (done.stdout.strip(), done.stderr) == ("False", "")


def test_the_columns_of_an_engines_filter_are_known() -> None:
    predicate = prunable((n > 5) & (pc.field("st", "a") == 1), SMALL)
    assert predicate is not None
    assert columns(predicate) == {("n",), ("st", "a")}
