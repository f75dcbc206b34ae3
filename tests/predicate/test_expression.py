from __future__ import annotations

import pickle

import pyarrow as pa
import pytest

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
