"""Filters as DataFusion means them: nulls under IN, NaN, and how much of them still prunes files."""

from __future__ import annotations

import operator
from itertools import product
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from delta_sidecar import PredicateError
from delta_sidecar.connect.datafusion import arrow_filter
from delta_sidecar.predicate.approximate.arrow import prunable

if TYPE_CHECKING:
    from collections.abc import Callable

NAN = float("nan")
VALUES = [None, NAN, -1.0, 0.0, 2.0, float("inf")]
TABLE = pa.table(
    [
        pa.array([left for left, _ in product(VALUES, VALUES)], pa.float64()),
        pa.array([right for _, right in product(VALUES, VALUES)], pa.float64()),
    ],
    names=["x", "y"],
)
COMPARISONS: list[Callable[[Any, Any], Any]] = [
    operator.eq,
    operator.ne,
    operator.lt,
    operator.le,
    operator.gt,
    operator.ge,
]


def in_order(value: float) -> tuple[bool, float]:
    """NaN equals NaN, and is above every number."""
    return (value != value, 0.0 if value != value else value)  # noqa: PLR0124 - only NaN is not itself


def where(expression: pc.Expression, column: str = "answer") -> list[bool | None]:
    meant = arrow_filter(expression, TABLE.schema)
    answers = TABLE.append_column(column, pa.nulls(TABLE.num_rows))
    # Three answers are told apart: rows that are true, rows that are false, and the rest.
    numbered = answers.append_column("at", pa.array(range(TABLE.num_rows)))
    true = set(numbered.filter(meant)["at"].to_pylist())
    false = set(numbered.filter(~meant)["at"].to_pylist())
    return [True if at in true else False if at in false else None for at in range(TABLE.num_rows)]


@pytest.mark.parametrize("compare", COMPARISONS)
def test_two_columns_are_compared_with_nan_above_all(compare: Callable[[Any, Any], Any]) -> None:
    pairs = zip(TABLE["x"].to_pylist(), TABLE["y"].to_pylist(), strict=True)
    wanted = [None if None in (x, y) else compare(in_order(x), in_order(y)) for x, y in pairs]
    assert where(compare(pc.field("x"), pc.field("y"))) == wanted


@pytest.mark.parametrize("constant", VALUES)
@pytest.mark.parametrize("compare", COMPARISONS)
def test_constants_are_compared_with_nan_above_all(compare: Callable[[Any, Any], Any], constant: float | None) -> None:
    literal = pa.scalar(constant, pa.float64())
    for sides in (lambda x, y: (x, y), lambda x, y: (y, x)):
        wanted = [
            None if x is None or constant is None else compare(*sides(in_order(x), in_order(constant)))
            for x in TABLE["x"].to_pylist()
        ]
        assert where(compare(*sides(pc.field("x"), pc.scalar(literal)))) == wanted


def test_null_is_neither_in_a_list_nor_not_in_it() -> None:
    wanted = [None if x is None else x in (0.0, 5.0) for x in TABLE["x"].to_pylist()]
    assert where(pc.field("x").isin([0.0, 5.0])) == wanted
    assert where(~~pc.field("x").isin([0.0, 5.0])) == wanted


def test_what_is_joined_is_taken_apart_and_joined_again() -> None:
    x, y = pc.field("x"), pc.field("y")
    pairs = list(zip(TABLE["x"].to_pylist(), TABLE["y"].to_pylist(), strict=True))
    assert where(x.is_null() | ~y.is_valid()) == [x is None or y is None for x, y in pairs]
    assert where((x.is_valid()) & ~(y.is_null())) == [x is not None and y is not None for x, y in pairs]


def test_a_chain_of_many_terms_is_no_trouble() -> None:
    chain = pc.field("x") == 0.0
    for number in range(3_000):
        chain |= pc.field("x") == float(number)
    assert where(chain) == [None if x is None else x in (0.0, 2.0) for x in TABLE["x"].to_pylist()]


def test_a_filter_still_prunes_where_nan_does_not_match() -> None:
    x = pc.field("x")
    for kept in (x == 2.0, x < 2.0, x <= 2.0, pc.scalar(2.0) > x, pc.scalar(2.0) >= x, x.isin([1.0, 2.0])):
        assert prunable(arrow_filter(kept, TABLE.schema), TABLE.schema) is not None, kept
    for too_wide in (x > 2.0, x >= 2.0, pc.scalar(2.0) < x):
        assert prunable(arrow_filter(too_wide, TABLE.schema), TABLE.schema) is None, too_wide


def test_a_filter_may_be_the_same_for_all_rows() -> None:
    for value in (True, False, None):
        assert where(pa.scalar(value, pa.bool_())) == [value] * TABLE.num_rows


def test_texts_of_another_layout_are_taken() -> None:
    table = pa.table({"s": ["a", "b", None]})
    meant = arrow_filter(pc.field("s") == pc.scalar(pa.scalar("b", pa.string_view())), table.schema)
    assert table.filter(meant)["s"].to_pylist() == ["b"]


def test_what_is_not_known_is_refused_by_name() -> None:
    with pytest.raises(PredicateError, match="starts_with"):
        arrow_filter(pc.starts_with(pc.field("s"), "a"), pa.schema([("s", pa.string())]))
    with pytest.raises(PredicateError, match="cannot be taken apart"):
        arrow_filter(pc.field(0) == 1.0, TABLE.schema)
