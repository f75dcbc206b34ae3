from __future__ import annotations

import pickle
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

from delta_sidecar.errors import PredicateError
from delta_sidecar.predicate import (
    FALSE,
    TRUE,
    And,
    Column,
    Comparison,
    In,
    IsNull,
    Like,
    Not,
    Or,
    all_of,
    any_of,
    columns,
    parse,
    to_physical,
)
from delta_sidecar.predicate.tree import fold, replace_leaves

if TYPE_CHECKING:
    from collections.abc import Iterator

A = Comparison("=", Column(("a",)), 1)
B = IsNull(Column(("s", "b")))
C = Like(Column(("c",)), "x%")


def test_nodes_are_values() -> None:
    tree = And((A, Or((B, Not(C))), In(Column(("a",), pa.int64()), (1, 2))))
    again = pickle.loads(pickle.dumps(tree))  # noqa: S301
    assert again == tree
    assert hash(again) == hash(tree)
    assert len({tree, again, A, B}) == 3
    with pytest.raises(AttributeError):
        A.op = "<"  # type: ignore[misc]


def test_where_it_was_written_is_no_part_of_its_value() -> None:
    assert parse("a = 1") == parse("  a  =  1") == parse([("a", "=", 1)]) == parse({"a": 1})
    assert hash(parse("a = 1")) == hash(parse([("a", "=", 1)]))


def test_the_type_of_a_column_is_part_of_its_value() -> None:
    assert Column(("a",), pa.int32()) != Column(("a",), pa.int64())


def test_nested_conjunctions_are_flat() -> None:
    assert And((And((A, B)), C)) == And((A, And((B, C)))) == And((A, B, C))
    assert Or((A, Or((B, C)))).terms == (A, B, C)
    assert And((A, Or((B, C)))).terms == (A, Or((B, C)))


def test_joining_few_terms() -> None:
    assert all_of([]) == TRUE
    assert any_of([]) == FALSE
    assert all_of([A]) is A
    assert any_of([A, B]) == Or((A, B))


def test_sql_of_a_tree() -> None:
    tree = And((A, Or((B, Not(C))), Not(And((A, B))), Not(In(Column(("x.y", "order by")), ("it's",)))))
    assert str(tree) == (
        "a = 1 AND (s.b IS NULL OR c NOT LIKE 'x%') AND NOT (a = 1 AND s.b IS NULL)"
        " AND `x.y`.`order by` NOT IN ('it''s')"
    )


def test_columns() -> None:
    assert columns(And((A, Or((B, Not(C))), TRUE))) == {("a",), ("s", "b"), ("c",)}
    assert columns(TRUE) == frozenset()


def test_to_physical_renames_and_keeps_the_rest() -> None:
    tree = And((A, Or((B, Not(C))), In(Column(("a",), pa.int64()), (1,)), TRUE))
    renamed = to_physical(tree, {("a",): ("col-1",), ("s", "b"): ("col-2", "col-3")})
    assert columns(renamed) == {("col-1",), ("col-2", "col-3"), ("c",)}
    assert str(renamed) == "`col-1` = 1 AND (`col-2`.`col-3` IS NULL OR c NOT LIKE 'x%') AND `col-1` IN (1) AND TRUE"
    assert isinstance(renamed, And)
    assert renamed.terms[2] == In(Column(("col-1",), pa.int64()), (1,))


def test_a_fold_carries_not_down_to_the_leaves() -> None:
    tree = Not(And((A, Or((Not(B), C, TRUE)))))

    def joined(is_and: bool, terms: Iterator[str]) -> str:  # noqa: FBT001 - as fold calls it
        return f"({(' AND ' if is_and else ' OR ').join(terms)})"

    text = fold(tree, lambda leaf, negated: f"{'not ' if negated else ''}{leaf}", joined)
    assert text == "(not a = 1 OR (s.b IS NULL AND not c LIKE 'x%' AND not TRUE))"


def test_a_fold_goes_no_further_than_it_is_asked_to() -> None:
    seen = []
    fold(Or((A, B, C)), lambda leaf, _: seen.append(leaf), lambda _, terms: next(terms))
    assert seen == [A]
    with pytest.raises(PredicateError, match="not a predicate"):
        fold(Not("a"), lambda *_: None, lambda *_: None)  # type: ignore[arg-type]


def test_replacing_leaves_keeps_the_shape() -> None:
    tree = Not(And((A, Or((B, Not(C))), TRUE)))
    assert replace_leaves(tree, lambda leaf: leaf) == tree
    assert replace_leaves(tree, lambda _: A) == Not(And((A, Or((A, Not(A))), TRUE)))
