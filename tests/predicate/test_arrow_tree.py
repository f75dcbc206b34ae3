# ruff: noqa: ANN401 - stand-ins for expressions of every form
from __future__ import annotations

from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from delta_sidecar.predicate import TRUE
from delta_sidecar.predicate.approximate.arrow import Approximation, from_arrow_expression
from delta_sidecar.predicate.approximate.arrow_tree import Call, Field, Literal, read


def test_the_parts_of_an_expression_come_in_their_order() -> None:
    expression = (pc.field("a", "b") > 5) & pc.field("s").isin(["x", None]) & ~(pc.scalar(6) == pc.field("c.d"))
    root = read(expression)
    assert isinstance(root, Call)
    assert root.function == "and_kleene"
    both, opposite = root.arguments
    assert opposite == Call("invert", (Call("equal", (Literal(pa.scalar(6)), Field(("c.d",)))),))
    assert isinstance(both, Call)
    above, among = both.arguments
    assert above == Call("greater", (Field(("a", "b")), Literal(pa.scalar(5))))
    assert isinstance(among, Call)
    assert (among.function, among.arguments) == ("is_in", (Field(("s",)),))
    assert among.option("value_set").values == pa.array(["x", None])


def test_every_literal_is_told_from_the_others() -> None:
    expression = pc.field("x") == 0
    for number in range(1, 50):
        expression |= pc.field("x") == number
    numbers: list[int] = []
    node = read(expression)
    while isinstance(node, Call) and node.function == "or_kleene":
        node, last = node.arguments
        assert isinstance(last, Call)
        assert isinstance(last.arguments[1], Literal)
        numbers.append(last.arguments[1].value.as_py())
    assert numbers == list(range(49, 0, -1))


def test_an_option_that_is_not_there_is_missed() -> None:
    with pytest.raises(KeyError):
        Call("is_in", ()).option("value_set")
    read_back = read(pc.field("x").is_null())
    assert isinstance(read_back, Call)
    with pytest.raises(KeyError):
        read_back.option("value_set")


def test_a_field_by_its_position_cannot_be_read() -> None:
    assert read(pc.field(0)) is None
    assert read(pc.field("a", 0)) is None


class Foreign:
    """What another pyarrow might pickle an expression as."""

    def __init__(self, pickled: Any) -> None:
        self.pickled = pickled

    def __reduce__(self) -> Any:
        return self.pickled


def file(*tokens: tuple[str, str], columns: int = 1) -> pa.Buffer:
    sink = pa.BufferOutputStream()
    schema = pa.schema([("", pa.int64())] * columns, metadata=pa.KeyValueMetadata(list(tokens)))
    with pa.ipc.new_file(sink, schema) as writer:
        writer.write_batch(pa.record_batch([pa.array([5])] * columns, schema=schema))
    return sink.getvalue()


GREATER = (("call", "greater"), ("field_ref", "x"), ("literal", "0"), ("end", "greater"))


def test_a_file_that_is_made_by_hand_is_read() -> None:
    expected = Call("greater", (Field(("x",)), Literal(pa.scalar(5))))
    assert read(Foreign((None, (file(*GREATER),)))) == expected


@pytest.mark.parametrize(
    "pickled",
    [
        "a name",
        (None, ()),
        (None, (b"no file",)),
        (None, ("text",)),
        (None, (None,)),
        *(
            (None, (file(*tokens),))
            for tokens in (
                (),
                (("field_ref", "x"), ("field_ref", "y")),
                GREATER[:-1],
                (*GREATER[:-1], ("end", "less")),
                (*GREATER, ("end", "greater")),
                (("call", "greater"), ("field_ref", "x"), ("literal", "1"), ("end", "greater")),
                (("call", "greater"), ("field_ref", "x"), ("literal", "five"), ("end", "greater")),
                (("call", "greater"), ("options", "0"), ("options", "0"), ("end", "greater")),
                (("nested_field_ref", "2"), ("field_ref", "x")),
                (("nested_field_ref", "0"),),
                (("nested_field_ref", "2"), ("field_ref", "x"), ("literal", "0")),
                (("lambda", "x"),),
            )
        ),
    ],
)
def test_another_form_is_given_up(pickled: Any) -> None:
    assert read(Foreign(pickled)) is None
    assert from_arrow_expression(Foreign(pickled)) == Approximation(TRUE, exact=False)


def test_options_in_another_form_are_given_up() -> None:
    """The options of these calls are a number and no struct."""
    for function in ("is_in", "is_null", "match_like", "cast"):
        tokens = (("call", function), ("field_ref", "x"), ("options", "0"), ("end", function))
        assert from_arrow_expression(Foreign((None, (file(*tokens),)))) == Approximation(TRUE, exact=False)
        compared = (("call", "equal"), *tokens, ("literal", "0"), ("end", "equal"))
        assert from_arrow_expression(Foreign((None, (file(*compared),)))) == Approximation(TRUE, exact=False)
