from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from delta_sidecar.errors import PredicateError
from delta_sidecar.predicate import bind, parse


def test_every_notation_says_the_same() -> None:
    expected = parse("a >= 5 AND b IN ('x', 'y')")
    assert parse([("a", ">=", 5), ("b", "in", ["x", "y"])]) == expected
    assert parse({"a": {">=": 5}, "b": ["x", "y"]}) == expected
    assert parse((pc.field("a") >= 5) & pc.field("b").isin(["x", "y"])) == expected
    assert parse(expected) is expected


def test_an_expression_is_bound_like_any_other() -> None:
    schema = pa.schema([("a", pa.int32()), ("b", pa.struct([("c", pa.float32())]))])
    expression = (pc.field("a") < 2.5) | (pc.field("b", "c") > 0.5)
    assert str(bind(parse(expression), schema)) == "a <= 2 OR b.c > 0.5"
    with pytest.raises(PredicateError, match="there is no column A1; did you mean a"):
        bind(parse(pc.field("A1") > 1), schema)


@pytest.mark.parametrize(
    ("expression", "shown"),
    [
        ((pc.field("a") + 1 > 5) & (pc.field("b") == 1), "((add_checked(a, 1) > 5) and (b == 1))"),
        (pc.field("a") == pc.field("b"), "(a == b)"),
        (pc.starts_with(pc.field("a"), b"\xff"), "with bytes that are no text"),
        (pc.field("a") + 1 > pc.scalar("x" * 1000), f'(add_checked(a, 1) > "{"x" * 178}...'),
    ],
)
def test_an_expression_that_is_no_predicate_is_refused(expression: pc.Expression, shown: str) -> None:
    with pytest.raises(PredicateError) as caught:
        parse(expression)
    assert str(caught.value) == (
        f"the pyarrow expression {shown} has a part that cannot be put into a predicate; "
        "write the predicate as SQL text, such as \"a >= 5 AND b IN ('x', 'y')\""
    )


def test_something_else_is_refused() -> None:
    with pytest.raises(PredicateError, match="a mapping or a pyarrow expression, not int"):
        parse(5)  # type: ignore[arg-type]
