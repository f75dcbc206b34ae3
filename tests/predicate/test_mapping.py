# ruff: noqa: ANN401 - literals and bounds of every type
from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest

from delta_sidecar.errors import PredicateError
from delta_sidecar.predicate import TRUE, And, Column, Comparison, In, IsNull, Like, Not, Or, Predicate, parse

A = Column(("a",))
B = Column(("b",))
ONE = Comparison("=", A, 1)


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ({}, TRUE),
        ({"date": "2026-02-08"}, Comparison("=", Column(("date",)), "2026-02-08")),
        ({"a": {">=": 1, "<": 5}}, And((Comparison(">=", A, 1), Comparison("<", A, 5)))),
        ({"a": [1, 2]}, In(A, (1, 2))),
        ({"a": None}, IsNull(A)),
        ({"a": {"!=": None}}, IsNull(A, negated=True)),
        ({"a": {"like": "x%", "not in": ["y"]}}, And((Like(A, "x%"), Not(In(A, ("y",)))))),
        ({"a": 1, "b": 2}, And((ONE, Comparison("=", B, 2)))),
        ({"$or": [{"a": 1}, {"b": 2}]}, Or((ONE, Comparison("=", B, 2)))),
        ({"$and": [{"a": 1}, {"$not": {"b": 2}}]}, And((ONE, Not(Comparison("=", B, 2))))),
        ({"s.x": 1}, Comparison("=", Column(("s", "x")), 1)),
        ({"`$or`": 1}, Comparison("=", Column(("$or",)), 1)),
        ('{"a": 1}', ONE),
        (' {"a": 0.1}', Comparison("=", A, Decimal("0.1"))),
        ('[["a", "=", 1]]', ONE),
    ],
)
def test_reads(source: Any, expected: Predicate) -> None:
    assert parse(source) == expected


@pytest.mark.parametrize(
    ("source", "problem"),
    [
        ({"a": {">>": 1}}, r"unknown operator '>>'.*\n.*\$\.a\['>>'\]"),
        ({"$xor": []}, r"unknown operator \$xor"),
        ({"$or": {}}, "needs a list"),
        ({"$or": []}, "needs a list"),
        ({"$or": [5]}, r"an object.*\n.*\$\.\$or\[0\]"),
        ({"$not": [1]}, "an object"),
        ({"a": {}}, "no condition on a"),
        ({5: 1}, "a column name"),
        ({"a": {"<": None}}, "never true"),
        ('{"a": }', r"has to be JSON: .*\n  \{\"a\": \}\n        \^"),
        ('{"a": 1, "a": 2}', "stands twice"),
        ('{"a": 1} x', "has to be JSON"),
        ("[" * 50_000, "deeply"),
    ],
)
def test_refuses(source: Any, problem: str) -> None:
    with pytest.raises(PredicateError, match=problem):
        parse(source)
