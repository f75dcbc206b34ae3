"""The leaves of a pyarrow expression: a test of one column, said as a predicate on it."""

from __future__ import annotations

import math
import re
from typing import TYPE_CHECKING

from delta_sidecar.predicate import arrow_literals
from delta_sidecar.predicate.arrow_tree import Call, Field, Literal, Node
from delta_sidecar.predicate.binding import SchemaFields, bind
from delta_sidecar.predicate.domain import Kind, kind_of
from delta_sidecar.predicate.expression import (
    MIRRORED,
    NEGATED,
    TRUE,
    Column,
    Comparison,
    In,
    IsNull,
    Like,
    Not,
    Operator,
    Predicate,
    leaves,
)
from delta_sidecar.predicate.translated import GIVEN_UP, NOWHERE, Translated, where_any

if TYPE_CHECKING:
    import pyarrow as pa

    from delta_sidecar.predicate.literals import Value

_COMPARISONS: dict[str, Operator] = {
    "equal": "=",
    "not_equal": "!=",
    "less": "<",
    "less_equal": "<=",
    "greater": ">",
    "greater_equal": ">=",
}
_PATTERNS = {"match_like": "{}", "starts_with": "{}%", "ends_with": "%{}", "match_substring": "%{}%"}

# The values of null_matching_behavior among the options of is_in.
_MATCH, _SKIP = 0, 1


class Leaves:
    """Says leaves as predicates: unbound, or bound to a schema with what its types make differ left out.

    Each method tells where a leaf is true, or where it is false. They raise what goes with arguments, options and
    literals that are not as expected, and PredicateError where binding is refused.

    Args:
        schema: The logical schema of the table; None if it is not known.
    """

    def __init__(self, schema: pa.Schema | None) -> None:
        self._schema = None if schema is None else SchemaFields(schema)

    def flag(self, field: Field, *, truth: bool) -> Translated:
        """A column of booleans."""
        return self._leaf(Comparison("=", _column(field), truth))

    def called(self, call: Call, *, truth: bool) -> Translated:
        """A function of a column; given up if it is none of those that a predicate has."""
        if call.function in _COMPARISONS:
            left, right = call.arguments
            return self._compared(_COMPARISONS[call.function], left, right, truth=truth)
        if call.function in {"is_null", "is_valid"}:
            return self._missing(call, wanted=truth == (call.function == "is_null"))
        if call.function == "is_in":
            return self._among(call, truth=truth)
        if call.function in _PATTERNS:
            return self._like(call, truth=truth)
        return GIVEN_UP

    def _compared(self, op: Operator, left: Node, right: Node, *, truth: bool) -> Translated:
        literal = _literal(right)
        if literal is None:
            literal, left, op = _literal(left), right, MIRRORED[op]
        if literal is None:
            return GIVEN_UP
        if not literal.is_valid:
            return NOWHERE
        said = self._said(op, left, literal)
        if said is None:
            return GIVEN_UP
        if not truth and said.op in {"=", "!="}:
            return self._leaf(Comparison(NEGATED[said.op], said.column, said.value))
        # NaN is neither below a number nor at or above it, so the other operators have no opposites.
        return self._leaf(said if truth else Not(said))

    def _said(self, op: Operator, operand: Node, literal: pa.Scalar) -> Comparison | None:
        operand, target = _safely_cast(operand)
        column = _column(operand)
        if self._schema is None:
            value = arrow_literals.value_of(literal)
            return None if target is not None or value is None else Comparison(op, column, value)
        own = self._type_of(column)
        if target is not None and not (
            arrow_literals.keeps_values(own, target) and arrow_literals.is_by_value(literal.type, target)
        ):
            return None
        said = arrow_literals.beside(op, literal, own)
        return None if said is None else Comparison(said[0], column, said[1])

    def _missing(self, call: Call, *, wanted: bool) -> Translated:
        (operand,) = call.arguments
        column = _column(operand)
        with_nan = call.function == "is_null" and call.option("nan_is_null").as_py()
        if with_nan and (self._schema is None or kind_of(self._type_of(column)) is Kind.FLOATING):
            return GIVEN_UP if wanted else self._leaf(IsNull(column, negated=True), exact=False)
        return self._leaf(IsNull(column, negated=not wanted))

    def _among(self, call: Call, *, truth: bool) -> Translated:
        (operand,) = call.arguments
        column = _column(operand)
        behaviour, values = call.option("null_matching_behavior").as_py(), call.option("value_set").values
        listed = [arrow_literals.value_of(value) for value in values]
        members = tuple(value for value in listed if value is not None)
        if behaviour not in {_MATCH, _SKIP} or not self._is_looked_up(column, values.type, members):
            return GIVEN_UP
        finds_null = behaviour == _MATCH and len(listed) > len(members)
        # Arrow looks floats up by their bits, so it finds NaN and tells the two zeros apart; a predicate does not.
        plain = tuple(value for value in members if not _is_odd(value, values.type))
        exact = plain == members
        if truth:
            if any(_is_nan(value) for value in members):
                return GIVEN_UP
            found = self._leaf(In(column, members), exact=exact) if members else NOWHERE
            return where_any([found, self._leaf(IsNull(column))]) if finds_null else found
        if not plain and not finds_null:
            return Translated(TRUE, exact)
        missed = self._leaf(Not(In(column, plain)) if plain else IsNull(column, negated=True), exact=exact)
        return missed if finds_null else where_any([missed, self._leaf(IsNull(column))])

    def _like(self, call: Call, *, truth: bool) -> Translated:
        (operand,) = call.arguments
        text = call.option("pattern").as_py()
        if call.function != "match_like":
            text = re.sub(r"[\\%_]", r"\\\g<0>", text)
        elif "\\" in text:
            # Arrow and a predicate differ in what a backslash before an ordinary character means.
            return GIVEN_UP
        if call.option("ignore_case").as_py():
            return GIVEN_UP
        like = Like(_column(operand), _PATTERNS[call.function].format(text))
        return self._leaf(like if truth else Not(like))

    def _is_looked_up(self, column: Column, values: pa.DataType, members: tuple[Value, ...]) -> bool:
        if self._schema is None or not members:
            return True
        return arrow_literals.is_looked_up(values, members, self._type_of(column))

    def _leaf(self, predicate: Predicate, *, exact: bool = True) -> Translated:
        return Translated(predicate if self._schema is None else bind(predicate, self._schema), exact)

    def _type_of(self, column: Column) -> pa.DataType:
        (found,) = leaves(bind(IsNull(column), self._schema))
        return found.column.type


def _column(node: Node) -> Column:
    if not isinstance(node, Field):
        msg = f"not a column: {node!r}"
        raise TypeError(msg)
    return Column(node.path)


def _literal(node: Node) -> pa.Scalar | None:
    """Gives the value of a literal, in the type that it is cast to; None if it is no literal."""
    inner, target = _safely_cast(node)
    if not isinstance(inner, Literal):
        return None
    return inner.value if target is None else inner.value.cast(target)


def _safely_cast(node: Node) -> tuple[Node, pa.DataType | None]:
    """Gives what is cast, and to which type, if the cast rather fails than changes a value; else the node itself."""
    if not isinstance(node, Call) or node.function != "cast" or node.options is None:
        return node, None
    if any(node.option(name).as_py() for name in node.options if name.startswith("allow_")):
        return node, None
    (inner,) = node.arguments
    return inner, node.option("to_type").type


def _is_odd(value: Value, type: pa.DataType) -> bool:  # noqa: A002 - the Arrow word
    return arrow_literals.kind_of_literal(type) is Kind.FLOATING and (value == 0 or _is_nan(value))


def _is_nan(value: Value) -> bool:
    return isinstance(value, float) and math.isnan(value)
