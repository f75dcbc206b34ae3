# ruff: noqa: ANN401 - literals and bounds of every type
from __future__ import annotations

import datetime as dt
import math
import time
from decimal import Decimal
from typing import Any

import pytest

from delta_sidecar.errors import PredicateError
from delta_sidecar.predicate import (
    FALSE,
    TRUE,
    UNKNOWN,
    And,
    Column,
    Comparison,
    In,
    IsNull,
    Like,
    Not,
    Or,
    Predicate,
    parse,
)

A = Column(("a",))
B = Column(("b",))


def equal(value: Any, column: Column = A) -> Comparison:
    return Comparison("=", column, value)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a = 1", equal(1)),
        ("a == 1", equal(1)),
        ("a != 1", Comparison("!=", A, 1)),
        ("a <> 1", Comparison("!=", A, 1)),
        ("1 < a", Comparison(">", A, 1)),
        ("1 >= a", Comparison("<=", A, 1)),
        ("'x' = a", equal("x")),
        ("a = 'it''s'", equal("it's")),
        ("a = 'back\\slash'", equal("back\\slash")),
        ("a = -5", equal(-5)),
        ("a = - -5", equal(5)),
        ("a = -2.50", equal(Decimal("-2.50"))),
        ("a = 0.1", equal(Decimal("0.1"))),
        ("a = 1e3", equal(Decimal("1e3"))),
        (
            "a = 12345678901234567890.123456789012345678901",
            equal(Decimal("12345678901234567890.123456789012345678901")),
        ),
        ("a = -12345678901234567890.12345678901234567", equal(Decimal("-12345678901234567890.12345678901234567"))),
        ("a = X'00ff'", equal(b"\x00\xff")),
        ("a = TRUE", equal(value=True)),
        ("a", equal(value=True)),
        ("NOT a", Not(equal(value=True))),
        ("a IS TRUE", And((IsNull(A, negated=True), equal(value=True)))),
        ("a = 1 AND b = 2 AND a = 3", And((equal(1), equal(2, B), equal(3)))),
        ("a = 1 OR b = 2 AND a = 3", Or((equal(1), And((equal(2, B), equal(3)))))),
        ("(a = 1 OR b = 2) AND a = 3", And((Or((equal(1), equal(2, B))), equal(3)))),
        ("NOT (a = 1)", Not(equal(1))),
        ("a IN (1, 2)", In(A, (1, 2))),
        ("a NOT IN ('x')", Not(In(A, ("x",)))),
        ("a IN (1, NULL)", Or((In(A, (1,)), UNKNOWN))),
        ("a IN ()", FALSE),
        ("a BETWEEN 1 AND 5", And((Comparison(">=", A, 1), Comparison("<=", A, 5)))),
        ("a NOT BETWEEN 1 AND 5", Not(And((Comparison(">=", A, 1), Comparison("<=", A, 5))))),
        ("a IS NULL", IsNull(A)),
        ("a IS NOT NULL", IsNull(A, negated=True)),
        ("a = NULL", UNKNOWN),
        ("a <=> 5", And((IsNull(A, negated=True), equal(5)))),
        ("a <=> NULL", IsNull(A)),
        ("a IS DISTINCT FROM 5", Not(And((IsNull(A, negated=True), equal(5))))),
        ("a LIKE 'x%'", Like(A, "x%")),
        ("a NOT LIKE '_x'", Not(Like(A, "_x"))),
        ("a LIKE '50!%!_!!\\' ESCAPE '!'", Like(A, "50\\%\\_!\\\\")),
        ("a NOT LIKE '50!%' ESCAPE '!'", Not(Like(A, "50\\%"))),
        ("TRUE", TRUE),
        ("false", FALSE),
        ("1 = 1 AND a = 5", And((TRUE, equal(5)))),
        ("a = DATE '2026-02-08'", equal(dt.date(2026, 2, 8))),
        ("a = CAST('2026-02-08' AS DATE)", equal(dt.date(2026, 2, 8))),
        ("a = '2026-02-08'::date", equal(dt.date(2026, 2, 8))),
        ("a = TIMESTAMP '2026-02-08 10:00:00'", equal(dt.datetime(2026, 2, 8, 10))),  # noqa: DTZ001
        ("a = TIMESTAMP '2026-02-08'", equal(dt.datetime(2026, 2, 8))),  # noqa: DTZ001
        ("a = timestamp_ntz '2026-02-08T10:00:00.5'", equal(dt.datetime(2026, 2, 8, 10, 0, 0, 500_000))),  # noqa: DTZ001
        ("a = TIMESTAMP '2026-02-08 10:00:00Z'", equal(dt.datetime(2026, 2, 8, 10, tzinfo=dt.UTC))),
        ("a = TIMESTAMP '2026-02-08 12:00:00+02:00'", equal(dt.datetime(2026, 2, 8, 10, tzinfo=dt.UTC))),
        ("a.b.c.d.e.f = 1", equal(1, Column(("a", "b", "c", "d", "e", "f")))),
        ("`a.b` = 1", equal(1, Column(("a.b",)))),
        ("`a``b`.c = 1", equal(1, Column(("a`b", "c")))),
        (
            "date >= '2026-02-08' AND timestamp = 1",
            And((Comparison(">=", Column(("date",)), "2026-02-08"), equal(1, Column(("timestamp",))))),
        ),
        ("comment = 'x' AND hour = 5", And((equal("x", Column(("comment",))), equal(5, Column(("hour",)))))),
        ("a = 1 -- why\n AND b = 2", And((equal(1), equal(2, B)))),
        ("a = 1 /* why /* so */ */ AND b = 2", And((equal(1), equal(2, B)))),
        ("; a = 1;;", equal(1)),
        ("a = 1;", equal(1)),
        ("!a", Not(equal(value=True))),
        ("a = +5", equal(5)),
        ("a = .5", equal(Decimal("0.5"))),
        ("(a) = ((5))", equal(5)),
        ("a IN (1, (2),)", In(A, (1, 2))),
        ("a ISNULL", IsNull(A)),
        ("a NOTNULL", IsNull(A, negated=True)),
        ("a NOT NULL", IsNull(A, negated=True)),
        ("a IS UNKNOWN", IsNull(A)),
        ("a IS NOT FALSE", Not(And((IsNull(A, negated=True), equal(value=False))))),
        ("a IS NOT DISTINCT FROM 5", And((IsNull(A, negated=True), equal(5)))),
        ("a = CAST('2026-02-08' AS TIMESTAMP(3))", equal(dt.datetime(2026, 2, 8))),  # noqa: DTZ001
        ("a = TIMESTAMP WITH TIME ZONE '2026-02-08'", equal(dt.datetime(2026, 2, 8))),  # noqa: DTZ001
        ("a = CAST('-Infinity' AS DOUBLE PRECISION)", equal(-math.inf)),
        ("a = -'5'::float", equal(-5)),
        ("naïve$1 = 1", equal(1, Column(("naïve$1",)))),
        ("values = 1 AND a.select = 2", And((equal(1, Column(("values",))), equal(2, Column(("a", "select")))))),
    ],
)
def test_reads(text: str, expected: Predicate) -> None:
    assert parse(text) == expected
    assert parse(str(expected)) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('a = "x"', equal("x")),
        ('"a" = 5', equal(5)),
        ("\"a\" = 'x'", equal("x")),
        ('"a" IN ("x", "y")', In(A, ("x", "y"))),
        ('"a" LIKE "x%"', Like(A, "x%")),
        ('"a" IS NULL', IsNull(A)),
        ('"a"."b" = "x"', equal("x", Column(("a", "b")))),
    ],
)
def test_the_other_side_decides_what_double_quotes_hold(text: str, expected: Predicate) -> None:
    assert parse(text) == expected


@pytest.mark.parametrize(
    ("text", "problem", "marked"),
    [
        ("a = b", "compares two columns", "a = b"),
        ('"a" = "b"', "both sides are in double quotes", '"a" = "b"'),
        ("a = 1 AND upper(b) = 'X'", "the function call upper(...)", "upper"),
        ("my_udf(a) = 1", "the function call my_udf(...)", "my_udf"),
        ("a = current_date", "current_date", "current_date"),
        ("a + 1 = 2", "the operator +", "+"),
        ("a = 5 - 3", "the operator -", "-"),
        ("a || 'x' = 'y'", "the operator ||", "||"),
        ("-a = 5", "the column a is not supported behind a minus sign", "a"),
        ("a IN (SELECT 1)", "a subquery", "SELECT"),
        ("a IN (b)", "the column b", "b"),
        ("a IN 5", "'5' is not expected here", "5"),
        ("a ILIKE 'x'", "the operator ILIKE", "ILIKE"),
        ("a NOT RLIKE 'x'", "the operator RLIKE", "RLIKE"),
        ("a LIKE b", "the column b", "b"),
        ("a = ?", "a placeholder", "?"),
        ("a = :x", "a placeholder", ":"),
        ("a[0] = 1", "in brackets", "["),
        ("CASE WHEN a THEN b END", "CASE", "CASE"),
        ("a = INTERVAL '1 day'", "a cast to INTERVAL", "INTERVAL '1 day'"),
        ("a = CAST('1' AS INT)", "a cast to INT", "CAST('1' AS INT)"),
        ("a = '1'::int", "a cast to INT", "'1'::int"),
        ("CAST(a AS DATE) = '2026-02-08'", "a cast to DATE", "CAST(a AS DATE)"),
        ("a = DATE 'yesterday'", "is not a date", "DATE 'yesterday'"),
        ("a = DATE '2026-02-30'", "is no moment in time", "DATE '2026-02-30'"),
        (
            "a = TIMESTAMP '2026-02-08 10:00:00.1234567'",
            "finer than a microsecond",
            "TIMESTAMP '2026-02-08 10:00:00.1234567'",
        ),
        ("a LIKE 'x\\y'", "escape character", "'x\\y'"),
        ("a LIKE 'x' ESCAPE 'ab'", "one character", "'ab'"),
        ("a = X'0'", "two hexadecimal digits", "X'0'"),
        ("a = X'0 0'", "two hexadecimal digits", "X'0 0'"),
        ("a = 0x1F", "0x1F is not a number", "0x1F"),
        ("a = 1_000", "1_000 is not a number", "1_000"),
        ("a = 1 AND", "something is missing", "AND"),
        ("(a = 1", ") is expected", "1"),
        ("a IN (1, 2", ") is expected", "2"),
        ("a BETWEEN 1", "AND is expected", "1"),
        ("a IS", "NULL, TRUE, FALSE or DISTINCT FROM is expected", "IS"),
        ("a = 1 = 2", "the condition a = 1", "a = 1"),
        ("(a = 1) IS NULL", "the condition a = 1", "a = 1"),
        ("5 IS NULL", "the literal 5", "5"),
        ("a = 1 b", "'b' is not expected here", "b"),
        ("a = 1)", "')' is not expected here", ")"),
        ("a = 'x", "has no end", "'x"),
        ("a = 'x' AND b = `y", "has no end", "`y"),
        ("a = 1 /* why", "a comment has no end", "/* why"),
        ("a = 1 AND b = 2\n  OR c = = 3", "something is missing", "="),
        ("a = 1; b = 2", "one condition", ";"),
        ("-- nothing", "one condition", "-"),
        ("where = 1", "goes into back-quotes", "where"),
        ("a = 1 AND AND b = 2", "'AND' is not expected here", "AND"),
        ("a = 1e99999", "too many digits", "1e99999"),
        ("5", "the literal 5", "5"),
        ("1 < 2", "compares two literals", "1 < 2"),
        ("5 <=> 5", "compares two literals", "5 <=> 5"),
    ],
)
def test_refuses_and_points_at_the_place(text: str, problem: str, marked: str) -> None:
    with pytest.raises(PredicateError) as caught:
        parse(text)
    message = str(caught.value)
    assert problem in message.splitlines()[0]
    assert "\x1b" not in message
    *_, line, carets = message.splitlines()
    start = carets.index("^")
    assert line[start : start + len(carets.strip())] == marked


def test_a_long_line_is_cut_around_the_place() -> None:
    text = " AND ".join(["a = 1"] * 100 + ["a = = 2"] + ["a = 1"] * 100)
    with pytest.raises(PredicateError) as caught:
        parse(text)
    *_, line, carets = str(caught.value).splitlines()
    assert len(line) < 200
    assert line[carets.index("^")] == "="


@pytest.mark.parametrize("text", ["", "   ", "\n"])
def test_an_empty_text_is_an_error(text: str) -> None:
    with pytest.raises(PredicateError, match="empty"):
        parse(text)


def test_long_chains_are_read_and_deep_ones_refused() -> None:
    read = parse(" OR ".join(f"a = {n}" for n in range(3000)))
    assert isinstance(read, Or)
    assert len(read.terms) == 3000
    assert parse("(" * 100 + "a = 1" + ")" * 100) == equal(1)
    assert parse("a = " + "- " * 5000 + "1") == equal(1)
    for deep in (
        "(" * 20_000 + "a = 1" + ")" * 20_000,
        "NOT " * 20_000 + "a",
        "a = " + "CAST(" * 20_000,
        "a IN (" * 20_000,
        "(" * 101 + "a = 1" + ")" * 101,
    ):
        with pytest.raises(PredicateError, match=r"deeply|not supported") as caught:
            parse(deep)
        assert len(str(caught.value)) < 500


@pytest.mark.parametrize("text", ["'" + "x''" * 200_000, "`" * 200_001, "/*" * 200_000, "a = " + "1" * 200_000])
def test_a_long_hostile_text_is_refused_at_once(text: str) -> None:
    begun = time.process_time()
    with pytest.raises(PredicateError) as caught:
        parse(text)
    assert time.process_time() - begun < 5
    assert len(str(caught.value)) < 500
