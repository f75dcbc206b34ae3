# ruff: noqa: ANN401 - literals of every type
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
from delta_sidecar.predicate.arrow_expression import Translated, _translated, from_arrow_expression, prunable
from delta_sidecar.predicate.arrow_leaves import Leaves

X, Y, S = pc.field("x"), pc.field("y"), pc.field("s")
NO_ANSWER = pc.scalar(pa.scalar(None, pa.bool_()))
NOON = dt.datetime(2026, 2, 8, 12, tzinfo=dt.UTC)


def call(name: str, *arguments: pc.Expression) -> pc.Expression:
    return pc.Expression._call(name, list(arguments))


EXACT = [
    (X > 5, "x > 5"),
    (pc.scalar(5) > X, "x < 5"),
    (~(X == 5), "x != 5"),
    (~(X < 5), "NOT (x < 5)"),
    ((X > 5) & (Y < 3) | ~(S == "a"), "(x > 5 AND y < 3) OR s != 'a'"),
    (~((X > 5) & (Y < 3)), "NOT (x > 5) OR NOT (y < 3)"),
    (call("and", X > 5, Y < 3), "x > 5 AND y < 3"),
    (X, "x = TRUE"),
    (~X, "x = FALSE"),
    (pc.scalar(True), "TRUE"),  # noqa: FBT003 - a literal
    (~pc.scalar(True), "FALSE"),  # noqa: FBT003
    (NO_ANSWER, "FALSE"),
    (~NO_ANSWER, "FALSE"),
    ((X == 5) | NO_ANSWER, "x = 5"),
    (X == pa.scalar(None, pa.int64()), "FALSE"),
    (X.is_null(), "x IS NULL"),
    (~X.is_null(), "x IS NOT NULL"),
    (X.is_valid(), "x IS NOT NULL"),
    (X.isin([1, 2]), "x IN (1, 2)"),
    (~X.isin([1, 2]), "x NOT IN (1, 2) OR x IS NULL"),
    (X.isin([1, None]), "x IN (1) OR x IS NULL"),
    (~X.isin([1, None]), "x NOT IN (1)"),
    (pc.is_in(X, pa.array([1, None]), skip_nulls=True), "x IN (1)"),
    (X.isin(pa.nulls(1)), "x IS NULL"),
    (~X.isin(pa.nulls(1)), "x IS NOT NULL"),
    (X.isin([]), "FALSE"),
    (~X.isin([]), "TRUE"),
    (X.isin(pa.array(["a", "b"]).dictionary_encode()), "x IN ('a', 'b')"),
    (pc.if_else(X.is_valid(), X.isin([1]), NO_ANSWER), "x IS NOT NULL AND x IN (1)"),
    (pc.match_like(S, "a%b_"), "s LIKE 'a%b_'"),
    (pc.starts_with(S, "a_%\\"), "s LIKE 'a\\_\\%\\\\%'"),
    (~pc.ends_with(S, "{}"), "s NOT LIKE '%{}'"),
    (pc.match_substring(S, ""), "s LIKE '%%'"),
    (pc.field("a", "b", "c") > 1, "a.b.c > 1"),
    (pc.field("a.b") > 1, "`a.b` > 1"),
    (X == "it's", "x = 'it''s'"),
    (X == pa.scalar("a", pa.large_string()), "x = 'a'"),
    (X == pa.scalar("a", pa.string_view()), "x = 'a'"),
    (X == pa.scalar("a").cast(pa.dictionary(pa.int32(), pa.string())), "x = 'a'"),
    (X == b"\xff", "x = X'FF'"),
    (X == pa.scalar(b"ab", pa.binary(2)), "x = X'6162'"),
    (X < 0.1, "x < 0.1"),
    (X < pa.scalar(0.1, pa.float32()), "x < 0.10000000149011612"),
    (X < Decimal("1.50"), "x < 1.50"),
    (X == dt.date(2026, 2, 8), "x = DATE '2026-02-08'"),
    (X == pa.scalar(dt.date(2026, 2, 8), pa.date64()), "x = DATE '2026-02-08'"),
    (X > NOON.replace(tzinfo=None), "x > TIMESTAMP '2026-02-08 12:00:00'"),
    (X > pa.scalar(NOON, pa.timestamp("s", "Asia/Tokyo")), "x > TIMESTAMP '2026-02-08 12:00:00+00:00'"),
    (X > pa.scalar(NOON, pa.timestamp("ns", "UTC")), "x > TIMESTAMP '2026-02-08 12:00:00+00:00'"),
    (X > pc.scalar("2026-02-08").cast(pa.timestamp("us")), "x > TIMESTAMP '2026-02-08 00:00:00'"),
]
INEXACT = [
    ((X > 5) & (Y + 1 > 3), "x > 5"),
    ((X > 5) | (Y + 1 > 3), "TRUE"),
    (~((X > 5) & (Y + 1 > 3)), "TRUE"),
    (~((X > 5) | (Y + 1 > 3)), "NOT (x > 5)"),
    (call("or", X > 5, Y < 3), "x > 5 OR y < 3"),
    (~call("and", X > 5, Y < 3), "NOT (x > 5) OR NOT (y < 3)"),
    (call("xor", X > 5, Y < 3), "TRUE"),
    (X.is_null(nan_is_null=True), "TRUE"),
    (~X.is_null(nan_is_null=True), "x IS NOT NULL"),
    (X.isin([float("nan"), 1.5]), "TRUE"),
    (~X.isin([float("nan"), 1.5]), "x NOT IN (1.5) OR x IS NULL"),
    (X.isin([0.0, 1.5]), "x IN (0.0, 1.5)"),
    (~X.isin([0.0, 1.5]), "x NOT IN (1.5) OR x IS NULL"),
    (~X.isin([0.0]), "TRUE"),
    (pc.match_like(S, "a\\%"), "TRUE"),
    (pc.starts_with(S, "a", ignore_case=True), "TRUE"),
    (pc.starts_with(S, b"\xff"), "TRUE"),
    (X == Y, "TRUE"),
    (pc.scalar(1) == pc.scalar(1), "TRUE"),
    (pc.scalar(1), "TRUE"),
    (X.cast(pa.int64()) > 5, "TRUE"),
    ((X + 1).is_null(), "TRUE"),
    ((X + 1).isin([1]), "TRUE"),
    (pc.coalesce(X, Y), "TRUE"),
    (pc.field(0) == 1, "TRUE"),
    ((pc.field(0) == 1) & (X > 5), "TRUE"),
    (call("no such function", X), "TRUE"),
    (call("equal", X), "TRUE"),
    (call("is_in", X), "TRUE"),
    (call("invert"), "TRUE"),
    (X > pa.scalar(1, pa.timestamp("ns")), "TRUE"),
    (X > pa.scalar(2**62, pa.timestamp("s")), "TRUE"),
    (X > pa.scalar(2**31 - 1, pa.date32()), "TRUE"),
    (X > pa.scalar(1, pa.date64()), "TRUE"),
    (X > dt.time(1), "TRUE"),
    (X > dt.timedelta(1), "TRUE"),
    (X == pa.scalar([1]), "TRUE"),
    (X == pa.ExtensionScalar.from_storage(pa.uuid(), b"0" * 16), "TRUE"),
    (X == pc.scalar("a").cast(pa.int64()), "TRUE"),
    (X == pc.scalar(300).cast(pa.int8(), safe=False), "TRUE"),
]


@pytest.mark.parametrize(("expression", "sql"), EXACT, ids=[sql for _, sql in EXACT])
def test_an_expression_says_the_same_as_a_predicate(expression: pc.Expression, sql: str) -> None:
    translated = from_arrow_expression(expression)
    assert (str(translated.predicate), translated.exact) == (sql, True)


@pytest.mark.parametrize(("expression", "sql"), INEXACT, ids=[str(number) for number in range(len(INEXACT))])
def test_what_has_no_notation_is_true_in_its_place(expression: pc.Expression, sql: str) -> None:
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
N, F, F4, TS = (pc.field(name) for name in ("n", "f", "f4", "ts"))
PRUNABLE = [
    (N > pa.scalar(5, pa.int64()), "n > 5"),
    (N > pa.scalar(2**40, pa.int64()), "n IS NULL AND NULL"),
    (N < 2.5, "n <= 2"),
    (N.is_null(nan_is_null=True), "n IS NULL"),
    (F.is_null(nan_is_null=True), None),
    (N.cast(pa.int64()) > 5, "n > 5"),
    (N.cast(pa.float64()) < 2.5, "n <= 2"),
    (N.cast(pa.int8(), safe=False) > 5, None),
    (N.cast(pa.string()) == "5", None),
    (N.isin([1, 2]), "n IN (1, 2)"),
    (N.isin([1.0, 2.5]), None),
    (F > 5, "f > 5.0"),
    (F < Decimal("0.7"), None),
    (F4 < 0.7, f"f4 <= {float(np.float32(0.7))!r}"),
    (F4 >= 0.7, f"f4 >= {float(np.nextafter(np.float32(0.7), np.float32(1)))!r}"),
    (F4 < 1e300, "f4 <= 3.4028234663852886e+38"),
    (F4 == 0.7, None),
    (F4 == 0.5, "f4 = 0.5"),
    (F4.cast(pa.float64()) < 2**24 + 1, "f4 <= 16777216.0"),
    (F.cast(pa.float32()) < 0.5, None),
    (F4.isin([0.7]), None),
    (pc.field("price") < Decimal("1.005"), "price <= 1.00"),
    (pc.field("price") < 1.5, None),
    (pc.field("word") == "a", "word = 'a'"),
    (TS > NOON, "ts > TIMESTAMP '2026-02-08 12:00:00+00:00'"),
    (TS > NOON.date(), "ts > TIMESTAMP '2026-02-08 00:00:00+00:00'"),
    (TS > "2026-02-08", None),
    (pc.field("day") > NOON, "day > DATE '2026-02-08'"),
    (pc.field("day").isin([NOON]), None),
    (pc.field("day").cast(pa.timestamp("us")) > NOON.replace(tzinfo=None), "day > DATE '2026-02-08'"),
    (TS.cast(pa.date32()) > NOON.date(), None),
    (TS.cast(pa.timestamp("us")) > NOON.replace(tzinfo=None), None),
    (pc.field("st", "a") > 5, "st.a > 5"),
    (pc.field("st").is_valid(), "st IS NOT NULL"),
    (pc.field("st") == pa.scalar({"a": 1}), None),
    (pc.field("tags").is_null(), "tags IS NULL"),
    (pc.field("tags") == pa.scalar(["a"]), None),
    (pc.field("nothing") > 5, None),
    (pc.field("n", "inside") > 5, None),
    (N, None),
    (~pc.match_like(N, "a%"), None),
    ((N > 5) & (pc.field("nothing") > 5) & (S == 5), "n > 5"),
    (~((N > 5) | (S == 5)), "NOT (n > 5)"),
    (~((N > 5) & (S == 5)), None),
    ((N > 5) | (S == 5), None),
    (N == pa.scalar(None, pa.int32()), "FALSE"),
]


@pytest.mark.parametrize(("expression", "sql"), PRUNABLE, ids=[str(number) for number in range(len(PRUNABLE))])
def test_with_a_schema_what_arrow_does_by_value_is_kept(expression: pc.Expression, sql: str | None) -> None:
    predicate = prunable(expression, SMALL)
    assert (None if predicate is None else str(predicate)) == sql
    if predicate is not None:
        assert bind(predicate, SMALL) == predicate


def test_a_long_chain_is_taken_apart() -> None:
    expression = functools.reduce(operator.or_, [X == number for number in range(3000)])
    translated = from_arrow_expression(expression)
    assert translated.exact
    assert str(translated.predicate).startswith("x = 0 OR x = 1 OR x = 2 OR ")
    assert str(translated.predicate).endswith(" OR x = 2999")


def test_what_is_nested_too_deeply_is_given_up() -> None:
    expression = X > 5
    for _ in range(3000):
        expression = ~expression
    assert from_arrow_expression(expression) == Translated(TRUE, exact=False)
    assert prunable(expression, SMALL) is None


relaxed = settings(
    max_examples=100, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large]
)


def kept(expression: pc.Expression, table: pa.Table) -> list[bool] | None:
    """Which rows pyarrow's own filter keeps; None if it fails."""
    numbered = table.append_column("row number", pa.array(range(table.num_rows)))
    try:
        found = set(numbered.filter(expression)["row number"].to_pylist())
    except pa.ArrowException:
        return None
    return [number in found for number in range(table.num_rows)]


def check(translated: Translated, table: pa.Table, expected: list[bool]) -> None:
    found = matches(bind(translated.predicate, table.schema), table).to_pylist()
    note(f"{translated}: {found}, expected {expected}")
    if translated.exact:
        assert found == expected
    assert all(own for own, wanted in zip(found, expected, strict=True) if wanted)


@relaxed
@given(st.data())
def test_no_row_is_lost_whatever_the_types_of_the_literals(data: st.DataObject) -> None:
    table = pa.Table.from_pylist([row for file in data.draw(rows()) for row in file], SCHEMA)
    expression = data.draw(expressions(strange=True))
    note(str(expression))
    typed = _translated(expression, Leaves(SCHEMA))
    assert prunable(expression, SCHEMA) == (None if typed.predicate == TRUE else typed.predicate) or "NAN" in str(typed)
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


@pytest.mark.parametrize("path", sorted(TYPES), ids=".".join)
def test_no_row_is_lost_beside_any_literal(path: tuple[str, ...]) -> None:
    values = pa.array(EDGES[path[-1]], TYPES[path])
    table = pa.table({path[0]: values if len(path) == 1 else pa.StructArray.from_arrays([values], [path[1]])})
    exact = 0
    for leaf in leaves_about(path, list(values)):
        for expression in (leaf, ~leaf):
            translated = _translated(expression, Leaves(table.schema))
            exact += translated.exact
            # Arrow fails for a whole column where one value does not fit: then the others are asked one by one.
            together = kept(expression, table)
            parts = [table] if together is not None else [table.slice(row, 1) for row in range(table.num_rows)]
            for part in parts:
                expected = kept(expression, part)
                if expected is not None:
                    check(translated, part, expected)
    assert exact > len(values)


PANDAS = """
import sys
import pyarrow as pa, pyarrow.compute as pc
from delta_sidecar.predicate.arrow_expression import from_arrow_expression, prunable
from delta_sidecar import _arrow
import numpy as np

ns = _arrow.int64s(np.array([1_000, 1_001])).view(pa.timestamp("ns", "UTC"))
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
    predicate = prunable((N > 5) & (pc.field("st", "a") == 1), SMALL)
    assert predicate is not None
    assert columns(predicate) == {("n",), ("st", "a")}
