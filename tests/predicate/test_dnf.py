# ruff: noqa: ANN401 - literals and bounds of every type
from __future__ import annotations

import datetime as dt
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
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
ONE = Comparison("=", A, 1)


@pytest.mark.parametrize(
    ("filters", "expected"),
    [
        ([], TRUE),
        ([("a", "=", 1)], ONE),
        ([["a", "==", 1]], ONE),
        (("a", "=", 1), ONE),
        ([("a", "=", 1), ("b", "in", ["x", "y"])], And((ONE, In(B, ("x", "y"))))),
        (
            [[("a", "=", 1)], [("b", "!=", 2), ("b", "<", 9)]],
            Or((ONE, And((Comparison("!=", B, 2), Comparison("<", B, 9))))),
        ),
        ([("a", "NOT  IN", (1, 2))], Not(In(A, (1, 2)))),
        ([("a", "not in", {3})], Not(In(A, (3,)))),
        ([("a", "in", [])], FALSE),
        ([("a", "in", [1, None])], Or((In(A, (1,)), UNKNOWN))),
        ([("a", "in", [None])], UNKNOWN),
        ([("a", "=", None)], IsNull(A)),
        ([("a", "!=", None)], IsNull(A, negated=True)),
        ([("a", "like", "x%")], Like(A, "x%")),
        ([("s.x", "=", 1)], Comparison("=", Column(("s", "x")), 1)),
        ([(("s", "x"), "=", 1)], Comparison("=", Column(("s", "x")), 1)),
        ([("`s.x`", "=", 1)], Comparison("=", Column(("s.x",)), 1)),
        ([("a b..c", "=", 1)], Comparison("=", Column(("a b..c",)), 1)),
    ],
)
def test_reads(filters: Any, expected: Predicate) -> None:
    assert parse(filters) == expected


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (0.1, Decimal("0.1")),
        (np.int64(5), 5),
        (np.float32(0.5), Decimal("0.5")),
        (np.bool_(True), True),  # noqa: FBT003
        (np.str_("x"), "x"),
        (np.datetime64("2026-02-08"), dt.date(2026, 2, 8)),
        (np.datetime64("2026-02-08T10:00:00.000000000"), dt.datetime(2026, 2, 8, 10)),  # noqa: DTZ001
        (pa.scalar("x"), "x"),
        (bytearray(b"x"), b"x"),
        (
            dt.datetime(2026, 2, 8, 12, tzinfo=dt.timezone(dt.timedelta(hours=2))),
            dt.datetime(2026, 2, 8, 10, tzinfo=dt.UTC),
        ),
        (Decimal("1.50"), Decimal("1.50")),
    ],
)
def test_values_of_numpy_and_arrow_are_taken_over(value: Any, expected: Any) -> None:
    read = parse([("a", "=", value)])
    assert read == Comparison("=", A, expected)
    assert isinstance(read, Comparison)
    assert type(read.value) is type(expected)


def test_pandas_moments_are_taken_over() -> None:
    pandas = pytest.importorskip("pandas")
    assert parse([("a", "=", pandas.Timestamp("2026-02-08T10:00:00Z"))]) == Comparison(
        "=", A, dt.datetime(2026, 2, 8, 10, tzinfo=dt.UTC)
    )
    assert parse([("a", "=", pandas.NaT)]) == IsNull(A)
    with pytest.raises(PredicateError, match="finer"):
        parse([("a", "=", pandas.Timestamp("2026-02-08T10:00:00.000000001"))])


@pytest.mark.parametrize(
    ("filters", "problem"),
    [
        ([("a", "=")], r"\(column, operator, value\).*\n.*filters\[0\]"),
        ([("a", "~", 1)], r"unknown operator '~'.*\n.*filters\[0\]"),
        ([("a", "=", 1), ("b", "in", "xy")], r"needs a list.*\n.*filters\[1\]"),
        ([[("a", "=", 1)], [("b", "in", 5)]], r"needs a list.*\n.*filters\[1\]\[0\]"),
        ([("a", "=", 1), [("b", "=", 2)]], r"does not fit in"),
        ([[]], r"does not fit in"),
        ([5], r"does not fit in"),
        ([("a", "<", None)], r"never true"),
        ([("a", "=", object())], r"of type object"),
        ([("a", "=", np.datetime64("2026-02-08T10:00:00.000000001"))], "finer"),
        (5, "a predicate is a SQL text"),
        (None, "a predicate is a SQL text"),
    ],
)
def test_refuses(filters: Any, problem: str) -> None:
    with pytest.raises(PredicateError, match=problem):
        parse(filters)
