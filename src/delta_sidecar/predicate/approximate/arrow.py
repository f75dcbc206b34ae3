"""Predicates from pyarrow expressions, such as DuckDB and DataFusion hand to the scanner of a dataset.

Each node of an expression is translated for one of two questions: where is it true, and where is it false? The answer
is a predicate that is true there, and the question turns around at every NOT. So what has no notation here becomes TRUE
in its place, and the whole stays true wherever the expression is: it may keep a row too many, never one too few.
"""

from __future__ import annotations

import re
from decimal import Decimal
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
from msgspec import Struct

from delta_sidecar.errors import PredicateError
from delta_sidecar.predicate.approximate import arrow_tree
from delta_sidecar.predicate.approximate.arrow_tree import Call, Field, Literal, Node
from delta_sidecar.predicate.bind import SchemaFields, bind
from delta_sidecar.predicate.literals import Kind, is_nan, kind_of, taken
from delta_sidecar.predicate.tree import (
    FALSE,
    MIRRORED,
    NEGATED,
    TRUE,
    UNKNOWN,
    Column,
    Comparison,
    In,
    IsNull,
    Like,
    Not,
    Operator,
    Predicate,
    all_of,
    any_of,
    leaves,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import pyarrow.compute as pc

    from delta_sidecar.predicate.literals import Value


def from_arrow_expression(expression: pc.Expression, schema: pa.Schema | None = None) -> Approximation:
    """Translates an expression into a predicate, bound to a schema if there is one; never fails.

    Without a schema, a literal is taken to be of its column's own type. Beside another type it is compared as in
    every predicate, where Arrow may round differently: with the types known, such things are left out.
    """
    leaves = _Leaves(None if schema is None else SchemaFields(schema))
    try:
        root = arrow_tree.read(expression)
        return GIVEN_UP if root is None else _where(root, leaves, truth=True)
    except RecursionError:
        return GIVEN_UP


def prunable(expression: pc.Expression, schema: pa.Schema) -> Predicate | None:
    """Gives a bound predicate that is true wherever an expression is, to prune files by; never fails.

    None stands for TRUE. The expression has to be evaluated on the rows all the same.
    """
    predicate = from_arrow_expression(expression, schema).predicate
    return None if predicate == TRUE else predicate


# Errors of a literal, an option or an argument that is not as expected.
_UNEXPECTED = (pa.ArrowException, ArithmeticError, LookupError, PredicateError, TypeError, ValueError)


def _where(node: Node, leaves: _Leaves, *, truth: bool) -> Approximation:
    """Approximates where a node is true, or where it is false."""
    if isinstance(node, Call) and node.function in _JOINTS:
        return _joined(node, leaves, truth=truth)
    try:
        match node:
            case Literal(value):
                return _constant(value, truth=truth)
            case Field():
                return leaves.leaf(Comparison("=", _column(node), truth))
            case Call("invert", (inner,)):
                return _where(inner, leaves, truth=not truth)
            case Call("if_else", (condition, then, other)):
                branches = ((True, then), (False, other))
                return where_any(
                    [
                        where_all([_where(condition, leaves, truth=holds), _where(result, leaves, truth=truth)])
                        for holds, result in branches
                    ]
                )
            case _:
                return leaves.called(node, truth=truth)
    except _UNEXPECTED:
        return GIVEN_UP


_JOINTS = {"and_kleene", "or_kleene", "and", "or"}


def _joined(node: Call, leaves: _Leaves, *, truth: bool) -> Approximation:
    terms = [_where(term, leaves, truth=truth) for term in _terms(node)]
    if truth == node.function.startswith("and"):
        return where_all(terms)
    found = where_any(terms)
    # Beside a null, plain AND is null where Kleene's is false, and plain OR where Kleene's is true.
    return Approximation(found.predicate, exact=found.exact and node.function.endswith("_kleene"))


def _terms(node: Call) -> Iterator[Node]:
    """Takes a chain of one joint apart, however long it is: each link is one level deeper than the one before."""
    waiting: list[Node] = [node]
    while waiting:
        inner = waiting.pop()
        if isinstance(inner, Call) and inner.function == node.function:
            waiting.extend(reversed(inner.arguments))
        else:
            yield inner


def _constant(value: pa.Scalar, *, truth: bool) -> Approximation:
    if not value.is_valid:
        return NOWHERE
    if not pa.types.is_boolean(value.type):
        return GIVEN_UP
    return EVERYWHERE if value.as_py() == truth else NOWHERE


# The result of a translation. Only where something is true counts, so NULL is as good as FALSE, and TRUE may stand for
# anything that has no notation here. A NOT has to be carried down to the leaves first: the opposite of too much is too
# little.


class Approximation(Struct, frozen=True):
    """A predicate that is true wherever a foreign expression is true."""

    predicate: Predicate
    exact: bool  # it is true nowhere else


GIVEN_UP = Approximation(TRUE, exact=False)
EVERYWHERE = Approximation(TRUE, exact=True)
NOWHERE = Approximation(FALSE, exact=True)


def where_all(terms: Sequence[Approximation]) -> Approximation:
    """Approximates where all of some terms are true."""
    if any(_is_never(term) for term in terms):
        return NOWHERE
    kept = [term.predicate for term in terms if term.predicate != TRUE]
    return Approximation(all_of(kept), exact=all(term.exact for term in terms))


def where_any(terms: Sequence[Approximation]) -> Approximation:
    """Approximates where any of some terms is true."""
    if EVERYWHERE in terms:
        return EVERYWHERE
    if GIVEN_UP in terms:
        return GIVEN_UP
    kept = [term for term in terms if not _is_never(term)]
    return Approximation(any_of(term.predicate for term in kept), exact=all(term.exact for term in kept))


def _is_never(term: Approximation) -> bool:
    return term.predicate in {FALSE, UNKNOWN}


class BoundLeaves:
    """Leaves of a foreign expression, bound to the schema of a table where it is known."""

    def __init__(self, schema: SchemaFields | None) -> None:
        self.schema = schema

    def leaf(self, predicate: Predicate, *, exact: bool = True) -> Approximation:
        """Binds a leaf, or its opposite; raises PredicateError where that is refused."""
        return Approximation(predicate if self.schema is None else bind(predicate, self.schema), exact)

    def type_of(self, column: Column) -> pa.DataType:
        """Gives the type of a column in the schema."""
        (found,) = leaves(bind(IsNull(column), self.schema))
        return found.column.type


def escaped(text: str) -> str:
    """Writes a text as a pattern of LIKE that only this text fits."""
    return re.sub(r"[\\%_]", r"\\\g<0>", text)


# The leaves of a pyarrow expression: functions of one column. They raise what goes with arguments, options and literals
# that are not as expected.


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


class _Leaves(BoundLeaves):
    def called(self, call: Call, *, truth: bool) -> Approximation:
        if call.function in _COMPARISONS:
            left, right = call.arguments
            return self._compared(_COMPARISONS[call.function], left, right, truth=truth)
        if call.function in {"is_null", "is_valid"}:
            return self._null(call, truth=truth == (call.function == "is_null"))
        if call.function == "is_in":
            return self._among(call, truth=truth)
        if call.function in _PATTERNS:
            return self._like(call, truth=truth)
        return GIVEN_UP

    def _compared(self, op: Operator, left: Node, right: Node, *, truth: bool) -> Approximation:
        literal = _literal(right)
        if literal is None:
            literal, left, op = _literal(left), right, MIRRORED[op]
        if literal is None:
            return GIVEN_UP
        if not literal.is_valid:
            return NOWHERE
        operand, target = _safely_cast(left)
        column, value = _column(operand), taken(literal)
        if value is None or not self._is_by_value(column, target, literal.type):
            return GIVEN_UP
        if not truth and op in {"=", "!="}:
            return self.leaf(Comparison(NEGATED[op], column, value))
        # NaN is neither below a number nor at or above it, so the other operators have no opposites.
        found = Comparison(op, column, value)
        return self.leaf(found if truth else Not(found))

    def _is_by_value(self, column: Column, target: pa.DataType | None, literal: pa.DataType) -> bool:
        """Tells whether a column, which may be cast, is compared with a literal by value."""
        if self.schema is None:
            return target is None
        own = self.type_of(column)
        if target is not None and not (_keeps_values(own, target) and _is_compared_by_value(literal, target)):
            return False
        return _is_compared_by_value(literal, own)

    def _null(self, call: Call, *, truth: bool) -> Approximation:
        (operand,) = call.arguments
        column = _column(operand)
        with_nan = call.function == "is_null" and call.option("nan_is_null").as_py()
        if with_nan and (self.schema is None or kind_of(self.type_of(column)) is Kind.FLOATING):
            return GIVEN_UP if truth else self.leaf(IsNull(column, negated=True), exact=False)
        return self.leaf(IsNull(column, negated=not truth))

    def _among(self, call: Call, *, truth: bool) -> Approximation:
        (operand,) = call.arguments
        column = _column(operand)
        behaviour, values = call.option("null_matching_behavior").as_py(), call.option("value_set").values
        listed = [taken(value) for value in values]
        members = tuple(value for value in listed if value is not None)
        if behaviour not in {_MATCH, _SKIP} or not self._is_looked_up(column, values.type, members):
            return GIVEN_UP
        finds_null = behaviour == _MATCH and len(listed) > len(members)
        # Arrow looks floats up by their bits, so it finds NaN and tells the two zeros apart; a predicate does not.
        plain = tuple(value for value in members if not _is_odd(value, values.type))
        exact = plain == members
        if truth:
            if any(map(is_nan, members)):
                return GIVEN_UP
            found = self.leaf(In(column, members), exact=exact) if members else NOWHERE
            return where_any([found, self.leaf(IsNull(column))]) if finds_null else found
        if not plain and not finds_null:
            return Approximation(TRUE, exact)
        missed = self.leaf(Not(In(column, plain)) if plain else IsNull(column, negated=True), exact=exact)
        return missed if finds_null else where_any([missed, self.leaf(IsNull(column))])

    def _like(self, call: Call, *, truth: bool) -> Approximation:
        (operand,) = call.arguments
        text = call.option("pattern").as_py()
        if call.function != "match_like":
            text = escaped(text)
        elif "\\" in text:
            # Arrow and a predicate differ in what a backslash before an ordinary character means.
            return GIVEN_UP
        if call.option("ignore_case").as_py():
            return GIVEN_UP
        like = Like(_column(operand), _PATTERNS[call.function].format(text))
        return self.leaf(like if truth else Not(like))

    def _is_looked_up(self, column: Column, values: pa.DataType, members: tuple[Value, ...]) -> bool:
        """Tells whether Arrow looks a column up among some values as they are, or fails.

        For that it brings one side into the type of the other, by casts that a comparison would not use.
        """
        if self.schema is None or not members:
            return True
        own = self.type_of(column)
        if kind_of(own) is not kind_of_literal(values) or pa.types.is_float16(own):
            return False
        numbers = [member for member in members if isinstance(member, Decimal)]
        return kind_of(own) is not Kind.FLOATING or all(_is_held(number, own) for number in numbers)


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
    """Gives the operand and the type of a cast that rather fails than changes a value; else the node itself."""
    if not isinstance(node, Call) or node.function != "cast" or node.options is None:
        return node, None
    if any(node.option(name).as_py() for name in node.options if name.startswith("allow_")):
        return node, None
    (inner,) = node.arguments
    return inner, node.option("to_type").type


def _is_odd(value: Value, type: pa.DataType) -> bool:  # noqa: A002 - the Arrow word
    return kind_of_literal(type) is Kind.FLOATING and (value == 0 or is_nan(value))


# Arrow's literals in a predicate, where comparing with them means the same as in Arrow.
#
# Arrow brings a column and a literal of different types into a common type before it compares them; a predicate
# compares by value. These are the same where that type holds both exactly, or where Arrow raises an error when it
# does not. They differ for a decimal beside a float, which Arrow compares as two rounded doubles, and for a list of
# doubles beside a column of a narrower float, to which Arrow rounds them.


_NUMBERS = {Kind.INTEGER, Kind.DECIMAL, Kind.FLOATING}
_TIMES = {Kind.DATE, Kind.TIMESTAMP}

# By the kind of a column: the kinds of literals beside which Arrow compares by value.
_BY_VALUE: dict[Kind, set[Kind]] = {
    Kind.INTEGER: _NUMBERS,
    Kind.DECIMAL: {Kind.INTEGER, Kind.DECIMAL},
    Kind.FLOATING: {Kind.INTEGER, Kind.FLOATING},
    Kind.DATE: _TIMES,
    Kind.TIMESTAMP: _TIMES,
    Kind.BOOLEAN: {Kind.BOOLEAN},
    Kind.STRING: {Kind.STRING},
    Kind.BINARY: {Kind.BINARY},
}
# By the kind of a column: the other kinds that a cast to them keeps the value in, or fails.
_KEPT: dict[Kind, set[Kind]] = {Kind.INTEGER: {Kind.DECIMAL, Kind.FLOATING}, Kind.DATE: {Kind.TIMESTAMP}}


def kind_of_literal(type: pa.DataType) -> Kind:  # noqa: A002 - the Arrow word
    """Gives the kind of the values of a literal's type."""
    if pa.types.is_dictionary(type):
        return kind_of_literal(type.value_type)
    return Kind.DATE if pa.types.is_date64(type) else kind_of(type)


def _is_compared_by_value(literal: pa.DataType, column: pa.DataType) -> bool:
    """Tells whether Arrow compares a column with literals of a type by value, or fails."""
    kind = kind_of(column)
    return kind is Kind.VOID or kind_of_literal(literal) in _BY_VALUE.get(kind, set())


def _keeps_values(column: pa.DataType, target: pa.DataType) -> bool:
    """Tells whether every value of a column stays the same in a safe cast, or the cast fails."""
    kind, other = kind_of(column), kind_of(target)
    if kind is not other:
        return other in _KEPT.get(kind, set())
    if kind is Kind.TIMESTAMP:
        return (column.tz is None) == (target.tz is None)
    if kind is Kind.FLOATING:
        return bool(column.bit_width <= target.bit_width)
    return kind in _BY_VALUE


def _is_held(number: Decimal, column: pa.DataType) -> bool:
    """Tells whether a floating column can hold a number, which is the shortest writing of a double."""
    double = float(number)
    with np.errstate(over="ignore"):
        return pa.types.is_float64(column) or float(np.float32(double)) == double
