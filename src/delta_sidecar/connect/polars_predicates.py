"""What of a Polars expression files can be pruned by.

A node of the expression is asked one question: where is it true, or where is it false? The answer is a predicate that
is true there, and the question turns around at every NOT; null is neither. What has no notation in a predicate becomes
TRUE in its place, so the whole may keep a row too many, never one too few.

Polars differs from SQL in two things: NaN is above all numbers and equal to itself, so that every comparison of floats
has an opposite, and some comparisons have an answer for nulls (`eq_missing`, `is_in` with `nulls_equal`).
"""

from __future__ import annotations

import json
import re
from decimal import Decimal
from typing import TYPE_CHECKING, Any, Final

import polars as pl
import pyarrow as pa

from delta_sidecar.connect.polars_literals import kind_and_body, listed, literal
from delta_sidecar.errors import PredicateError
from delta_sidecar.predicate import TRUE, Column, Comparison, In, IsNull, Like, Not, Predicate, bind
from delta_sidecar.predicate.binding import SchemaFields
from delta_sidecar.predicate.domain import Kind, kind_of
from delta_sidecar.predicate.expression import MIRRORED, NEGATED, Operator, leaves
from delta_sidecar.predicate.translated import EVERYWHERE, GIVEN_UP, NOWHERE, Translated, where_all, where_any

if TYPE_CHECKING:
    from collections.abc import Iterator

    from delta_sidecar.connect.polars_literals import Literals, Node
    from delta_sidecar.predicate.literals import Value

_UNEXPECTED = (
    pl.exceptions.PolarsError,
    pa.ArrowException,
    ArithmeticError,
    AttributeError,
    LookupError,
    PredicateError,
    RecursionError,
    TypeError,
    ValueError,
)


def prunable(expression: pl.Expr, schema: pa.Schema) -> Predicate | None:
    """Gives what of an expression files can be pruned by; never fails.

    Args:
        expression: A filter, as Polars hands it to a source. It has to be applied to the rows all the same.
        schema: The logical schema of the table.

    Returns:
        A bound predicate that is true wherever the expression is; None if nothing is left but TRUE.
    """
    try:
        root = json.loads(expression.meta.serialize(format="json"))
        predicate = _Translation(schema).where(root, truth=True).predicate
    except _UNEXPECTED:
        return None
    return None if predicate == TRUE else predicate


_COMPARISONS: Final[dict[str, Operator]] = {"Eq": "=", "NotEq": "!=", "Lt": "<", "LtEq": "<=", "Gt": ">", "GtEq": ">="}
_ANDS: Final = {"And", "LogicalAnd"}
_ORS: Final = {"Or", "LogicalOr"}
_BETWEEN: Final[dict[str, tuple[Operator, Operator]]] = {
    "Both": (">=", "<="),
    "Left": (">=", "<"),
    "Right": (">", "<="),
    "None": (">", "<"),
}
_OF_FLOATS: Final = {"IsNan", "IsNotNan", "IsFinite", "IsInfinite"}
# Up to here, a float of some bits holds every whole number.
_WHOLE: Final = {"Float32": 2**24, "Float64": 2**53}


class _Translation:
    """Says the nodes of an expression as predicates on the columns of a table."""

    def __init__(self, schema: pa.Schema) -> None:
        self._schema = SchemaFields(schema)

    def where(self, node: Node, *, truth: bool) -> Translated:
        """Tells where a node is true, or where it is false."""
        try:
            kind, body = kind_and_body(node)
            if kind == "BinaryExpr":
                return self._binary(body, truth=truth)
            if kind == "Function":
                return self._function(body["function"], body["input"], node, truth=truth)
            if kind == "Ternary":
                return self._choice(body, truth=truth)
            if kind == "Alias":
                return self.where(body[0], truth=truth)
            if kind == "Literal":
                return _constant(literal(node), truth=truth)
            return self._flag(node, truth=truth)
        except _UNEXPECTED:
            return GIVEN_UP

    def _binary(self, body: Node, *, truth: bool) -> Translated:
        op = body["op"]
        if op in _ANDS or op in _ORS:
            terms = [self.where(term, truth=truth) for term in _terms(body, _ANDS if op in _ANDS else _ORS)]
            return where_all(terms) if truth == (op in _ANDS) else where_any(terms)
        if op == "Xor":
            return where_any(
                [
                    where_all([self.where(body["left"], truth=left), self.where(body["right"], truth=left != truth)])
                    for left in (True, False)
                ]
            )
        if op in _COMPARISONS:
            return self._compared(_COMPARISONS[op], body["left"], body["right"], truth=truth)
        if op in {"EqValidity", "NotEqValidity"}:
            return self._compared_with_nulls(body["left"], body["right"], equal=truth == (op == "EqValidity"))
        return GIVEN_UP

    def _function(self, function: Any, inputs: list[Node], node: Node, *, truth: bool) -> Translated:  # noqa: ANN401
        family, name = kind_and_body(function) if isinstance(function, dict) else (function, None)
        if family == "Boolean":
            return self._boolean(name, inputs, truth=truth)
        if family == "StringExpr":
            return self._text(name, inputs, truth=truth)
        if family == "StructExpr":
            return self._flag(node, truth=truth)
        if family == "FillNull":
            inner, instead = inputs
            filled = _constant(literal(instead), truth=truth)
            return self.where(inner, truth=truth) if filled == NOWHERE else GIVEN_UP
        return GIVEN_UP

    def _boolean(self, name: Any, inputs: list[Node], *, truth: bool) -> Translated:  # noqa: ANN401 - text or options
        if name == "Not":
            return self.where(inputs[0], truth=not truth)
        if name in ("AllHorizontal", "AnyHorizontal"):
            terms = [self.where(term, truth=truth) for term in inputs]
            return where_all(terms) if truth == (name == "AllHorizontal") else where_any(terms)
        if name in ("IsNull", "IsNotNull"):
            return self._leaf(IsNull(_column(inputs[0]), negated=truth == (name == "IsNotNull")))
        if isinstance(name, str):
            known = IsNull(_column(inputs[0]), negated=True)
            return self._leaf(known, exact=False) if name in _OF_FLOATS else GIVEN_UP
        option, given = kind_and_body(name)
        if option == "IsBetween":
            value, lowest, highest = inputs
            above, below = _BETWEEN[given["closed"]]
            ends = [self._compared(op, value, end, truth=truth) for op, end in ((above, lowest), (below, highest))]
            return where_all(ends) if truth else where_any(ends)
        if option == "IsIn":
            return self._among(inputs[0], listed(inputs[1]), nulls_equal=given["nulls_equal"], truth=truth)
        return GIVEN_UP

    def _compared(self, op: Operator, left: Node, right: Node, *, truth: bool) -> Translated:
        found = literal(right)
        if found is None:
            found, left, op = literal(left), right, MIRRORED[op]
        if found is None:
            return GIVEN_UP
        if found.has_null:
            return NOWHERE
        if not self._is_by_value(left, found):
            return GIVEN_UP
        (value,) = found.values
        return self._leaf(Comparison(op if truth else NEGATED[op], _column(_uncast(left)), value))

    def _compared_with_nulls(self, left: Node, right: Node, *, equal: bool) -> Translated:
        found = literal(right)
        if found is None:
            found, left = literal(left), right
        if found is None:
            return GIVEN_UP
        if found.has_null:
            return self._leaf(IsNull(_column(left), negated=not equal))
        if not self._is_by_value(left, found):
            return GIVEN_UP
        column, (value,) = _column(_uncast(left)), found.values
        if equal:
            return self._leaf(Comparison("=", column, value))
        return where_any([self._leaf(Comparison("!=", column, value)), self._leaf(IsNull(column))])

    def _among(self, node: Node, found: Literals | None, *, nulls_equal: bool, truth: bool) -> Translated:
        if found is None or (found.values and not self._is_by_value(node, found)) or (nulls_equal and "Cast" in node):
            return GIVEN_UP
        column = _column(_uncast(node))
        # Where nulls are equal to each other, a null is found or missed as any other value is.
        nulls = self._leaf(IsNull(column)) if nulls_equal and found.has_null == truth else NOWHERE
        if not found.values:
            return nulls if truth else GIVEN_UP
        members = In(column, found.values)
        return where_any([self._leaf(members if truth else Not(members)), nulls])

    def _text(self, name: Any, inputs: list[Node], *, truth: bool) -> Translated:  # noqa: ANN401 - text or options
        if isinstance(name, dict):
            name, given = kind_and_body(name)
            if name != "Contains" or not given["literal"]:
                return GIVEN_UP
        if name not in _PATTERNS:
            return GIVEN_UP
        found = literal(inputs[1])
        if found is None or found.kind not in {Kind.STRING, Kind.VOID}:
            return GIVEN_UP
        if found.has_null:
            return NOWHERE
        (text,) = found.values
        like = Like(_column(inputs[0]), _PATTERNS[name].format(re.sub(r"[\\%_]", r"\\\g<0>", str(text))))
        return self._leaf(like if truth else Not(like))

    def _choice(self, body: Node, *, truth: bool) -> Translated:
        chosen = where_all([self.where(body["predicate"], truth=True), self.where(body["truthy"], truth=truth)])
        # The other is taken where the condition is false or null, and no predicate says so.
        return where_any([chosen, where_all([GIVEN_UP, self.where(body["falsy"], truth=truth)])])

    def _flag(self, node: Node, *, truth: bool) -> Translated:
        """A column of booleans."""
        return self._leaf(Comparison("=", _column(node), truth))

    def _is_by_value(self, node: Node, found: Literals) -> bool:
        """Whether Polars compares a column, which may be cast, with some literals as a predicate does: by value."""
        own = self._type_of(_column(_uncast(node)))
        kind = kind_of(own)
        if "Cast" not in node:
            # Of timestamps in different zones Polars compares none; it says so when it sees rows.
            return kind is found.kind and (kind is not Kind.TIMESTAMP or own.tz == found.zone)
        target = node["Cast"]["dtype"]["Literal"]
        if kind is Kind.INTEGER and found.kind is Kind.INTEGER:
            # A cast to fewer bits gives null, or fails, where it cannot hold a value, unless it may run over.
            return target == "Int64" or (target in _INTEGERS and node["Cast"]["options"] in {"Strict", "NonStrict"})
        if kind is Kind.INTEGER and found.kind is Kind.FLOATING:
            return target in _WHOLE and all(_is_within(value, _WHOLE[target]) for value in found.values)
        if kind is Kind.FLOATING:
            return found.kind is Kind.FLOATING and target == "Float64"
        is_clock = target in ({"Datetime": ["Microseconds", None]}, {"Datetime": ["Milliseconds", None]})
        return kind is Kind.DATE and is_clock and found.kind is Kind.TIMESTAMP and found.zone is None

    def _leaf(self, predicate: Predicate, *, exact: bool = True) -> Translated:
        return Translated(bind(predicate, self._schema), exact)

    def _type_of(self, column: Column) -> pa.DataType:
        (found,) = leaves(bind(IsNull(column), self._schema))
        return found.column.type


_PATTERNS: Final = {"StartsWith": "{}%", "EndsWith": "%{}", "Contains": "%{}%"}
_INTEGERS: Final = {"Int8", "Int16", "Int32"}


def _terms(body: Node, ops: set[str]) -> Iterator[Node]:
    """Takes a chain of one joint apart, however long it is: each link is one level deeper than the one before."""
    waiting: list[Node] = [{"BinaryExpr": body}]
    while waiting:
        node = waiting.pop()
        inner = node.get("BinaryExpr")
        if inner is not None and inner["op"] in ops:
            waiting += [inner["right"], inner["left"]]
        else:
            yield node


def _column(node: Node) -> Column:
    """The column, or the field of structs, that a node is; raises ValueError if it is neither."""
    path: list[str] = []
    while True:
        kind, body = kind_and_body(node)
        if kind == "Column":
            return Column((body, *reversed(path)))
        if kind == "Alias":
            node = body[0]
            continue
        if kind != "Function" or not isinstance(body["function"], dict):
            msg = f"not a column: {kind}"
            raise ValueError(msg)
        path.append(body["function"]["StructExpr"]["FieldByName"])
        (node,) = body["input"]


def _uncast(node: Node) -> Node:
    inner: Node = node["Cast"]["expr"] if "Cast" in node else node
    return inner


def _is_within(value: Value, limit: int) -> bool:
    return isinstance(value, int | Decimal) and -limit < value < limit


def _constant(found: Literals | None, *, truth: bool) -> Translated:
    if found is None or found.kind not in {Kind.BOOLEAN, Kind.VOID}:
        return GIVEN_UP
    return EVERYWHERE if found.values == (truth,) else NOWHERE
