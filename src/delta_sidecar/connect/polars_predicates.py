"""Predicates from Polars expressions, to prune files by.

Each node is translated for one of two questions, as in `predicate.approximate.arrow`: where is it true, and where is it
false? Null is neither. Anything without a notation in a predicate becomes TRUE in its place, so the whole may keep a
row too many, never one too few.

Polars differs from SQL in two things: NaN is above all numbers and equal to itself, so that every comparison of floats
has an opposite, and some comparisons have an answer for nulls (`eq_missing`, `is_in` with `nulls_equal`).
"""

from __future__ import annotations

import io
import json
from dataclasses import dataclass
from decimal import Decimal
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import polars as pl
import pyarrow as pa

from delta_sidecar.errors import PredicateError
from delta_sidecar.predicate import TRUE, Column, Comparison, In, IsNull, Like, Not, Predicate
from delta_sidecar.predicate.approximate.arrow import (
    EVERYWHERE,
    GIVEN_UP,
    NOWHERE,
    Approximation,
    BoundLeaves,
    escaped,
    kind_of_literal,
    where_all,
    where_any,
)
from delta_sidecar.predicate.bind import SchemaFields
from delta_sidecar.predicate.literals import Kind, kind_of, taken
from delta_sidecar.predicate.tree import MIRRORED, NEGATED, Operator

if TYPE_CHECKING:
    from collections.abc import Iterator

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
    """A bound predicate that is true wherever a filter of Polars is, to prune files by; never fails.

    None stands for TRUE. The filter has to be applied to the rows all the same.
    """
    try:
        root = json.loads(expression.meta.serialize(format="json"))
        predicate = _Leaves(SchemaFields(schema)).where(root, truth=True).predicate
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


class _Leaves(BoundLeaves):
    def where(self, node: Node, *, truth: bool) -> Approximation:
        """Approximates where a node is true, or where it is false."""
        try:
            match _kind_and_body(node):
                case "BinaryExpr", body:
                    return self._binary(body, truth=truth)
                case "Function", body:
                    return self._function(body["function"], body["input"], node, truth=truth)
                case "Ternary", body:
                    return self._choice(body, truth=truth)
                case "Literal", _:
                    return _constant(_literal(node), truth=truth)
                case _:
                    return self._flag(node, truth=truth)
        except _UNEXPECTED:
            return GIVEN_UP

    def _binary(self, body: Node, *, truth: bool) -> Approximation:
        op = body["op"]
        if op in _ANDS or op in _ORS:
            terms = [self.where(term, truth=truth) for term in _terms(body, _ANDS if op in _ANDS else _ORS)]
            return where_all(terms) if truth == (op in _ANDS) else where_any(terms)
        if op == "Xor":
            sides = (
                [self.where(body["left"], truth=left), self.where(body["right"], truth=left != truth)]
                for left in (True, False)
            )
            return where_any([where_all(both) for both in sides])
        if op in _COMPARISONS:
            return self._compared(_COMPARISONS[op], body["left"], body["right"], truth=truth)
        if op in {"EqValidity", "NotEqValidity"}:
            return self._compared_with_nulls(body["left"], body["right"], equal=truth == (op == "EqValidity"))
        return GIVEN_UP

    def _function(self, function: Any, inputs: list[Node], node: Node, *, truth: bool) -> Approximation:  # noqa: ANN401
        family, name = _kind_and_body(function) if isinstance(function, dict) else (function, None)
        if family == "Boolean":
            return self._boolean(name, inputs, truth=truth)
        if family == "StringExpr":
            return self._text(name, inputs, truth=truth)
        if family == "StructExpr":
            return self._flag(node, truth=truth)
        if family == "FillNull":
            inner, instead = inputs
            filled = _constant(_literal(instead), truth=truth)
            return self.where(inner, truth=truth) if filled == NOWHERE else GIVEN_UP
        return GIVEN_UP

    def _boolean(self, name: Any, inputs: list[Node], *, truth: bool) -> Approximation:  # noqa: ANN401 - text or options
        if name == "Not":
            return self.where(inputs[0], truth=not truth)
        if name in ("AllHorizontal", "AnyHorizontal"):
            terms = [self.where(term, truth=truth) for term in inputs]
            return where_all(terms) if truth == (name == "AllHorizontal") else where_any(terms)
        if name in ("IsNull", "IsNotNull"):
            return self.leaf(IsNull(_column(inputs[0]), negated=truth == (name == "IsNotNull")))
        if isinstance(name, str):
            known = IsNull(_column(inputs[0]), negated=True)
            return self.leaf(known, exact=False) if name in _OF_FLOATS else GIVEN_UP
        option, settings = _kind_and_body(name)
        if option == "IsBetween":
            value, lowest, highest = inputs
            above, below = _BETWEEN[settings["closed"]]
            ends = [self._compared(op, value, end, truth=truth) for op, end in ((above, lowest), (below, highest))]
            return where_all(ends) if truth else where_any(ends)
        if option == "IsIn":
            return self._among(inputs[0], _listed(inputs[1]), nulls_equal=settings["nulls_equal"], truth=truth)
        return GIVEN_UP

    def _compared(self, op: Operator, left: Node, right: Node, *, truth: bool) -> Approximation:
        found = _literal(right)
        if found is None:
            found, left, op = _literal(left), right, MIRRORED[op]
        if found is None:
            return GIVEN_UP
        if found.has_null:
            return NOWHERE
        return self._with_value(op if truth else NEGATED[op], left, found)

    def _compared_with_nulls(self, left: Node, right: Node, *, equal: bool) -> Approximation:
        found = _literal(right)
        if found is None:
            found, left = _literal(left), right
        if found is None:
            return GIVEN_UP
        if found.has_null:
            return self.leaf(IsNull(_column(left), negated=not equal))
        if equal:
            return self._with_value("=", left, found)
        return where_any([self._with_value("!=", left, found), self.leaf(IsNull(_column(_uncast(left))))])

    def _with_value(self, op: Operator, node: Node, found: _Literals) -> Approximation:
        if not self._is_by_value(node, found):
            return GIVEN_UP
        (value,) = found.values
        return self.leaf(Comparison(op, _column(_uncast(node)), value))

    def _among(self, node: Node, found: _Literals | None, *, nulls_equal: bool, truth: bool) -> Approximation:
        if found is None or (found.values and not self._is_by_value(node, found)) or (nulls_equal and "Cast" in node):
            return GIVEN_UP
        column = _column(_uncast(node))
        # Where nulls are equal to each other, a null is found or missed as any other value is.
        nulls = self.leaf(IsNull(column)) if nulls_equal and found.has_null == truth else NOWHERE
        if not found.values:
            return nulls if truth else GIVEN_UP
        members = In(column, found.values)
        return where_any([self.leaf(members if truth else Not(members)), nulls])

    def _text(self, name: Any, inputs: list[Node], *, truth: bool) -> Approximation:  # noqa: ANN401 - text or options
        if isinstance(name, dict):
            name, settings = _kind_and_body(name)
            if name != "Contains" or not settings["literal"]:
                return GIVEN_UP
        if name not in _PATTERNS:
            return GIVEN_UP
        found = _literal(inputs[1])
        if found is None or found.kind not in {Kind.STRING, Kind.VOID}:
            return GIVEN_UP
        if found.has_null:
            return NOWHERE
        (text,) = found.values
        like = Like(_column(inputs[0]), _PATTERNS[name].format(escaped(str(text))))
        return self.leaf(like if truth else Not(like))

    def _choice(self, body: Node, *, truth: bool) -> Approximation:
        chosen = where_all([self.where(body["predicate"], truth=True), self.where(body["truthy"], truth=truth)])
        # The other is taken where the condition is false or null, and no predicate says so.
        return where_any([chosen, where_all([GIVEN_UP, self.where(body["falsy"], truth=truth)])])

    def _flag(self, node: Node, *, truth: bool) -> Approximation:
        """A column of booleans."""
        return self.leaf(Comparison("=", _column(node), truth))

    def _is_by_value(self, node: Node, found: _Literals) -> bool:
        """True if Polars compares a column, which may be cast, with some literals by value."""
        own = self.type_of(_column(_uncast(node)))
        kind = kind_of(own)
        if "Cast" not in node:
            # Of timestamps in different zones Polars compares none; it says so when it sees rows.
            return kind is found.kind and (kind is not Kind.TIMESTAMP or own.tz == found.zone)
        target = node["Cast"]["dtype"]["Literal"]
        if kind is Kind.INTEGER and found.kind is Kind.INTEGER:
            # A cast to fewer bits gives null, or fails, where it cannot hold a value, unless it may run over.
            return target == "Int64" or (target in _INTEGERS and node["Cast"]["options"] in {"Strict", "NonStrict"})
        if kind is Kind.INTEGER and found.kind is Kind.FLOATING:
            limit = _WHOLE.get(target, 0)
            return all(isinstance(value, int | Decimal) and -limit < value < limit for value in found.values)
        if kind is Kind.FLOATING:
            return found.kind is Kind.FLOATING and target == "Float64"
        is_clock = target in ({"Datetime": ["Microseconds", None]}, {"Datetime": ["Milliseconds", None]})
        return kind is Kind.DATE and is_clock and found.kind is Kind.TIMESTAMP and found.zone is None


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
        kind, body = _kind_and_body(node)
        if kind == "Column":
            return Column((body, *reversed(path)))
        if kind != "Function" or not isinstance(body["function"], dict):
            msg = f"not a column: {kind}"
            raise ValueError(msg)
        path.append(body["function"]["StructExpr"]["FieldByName"])
        (node,) = body["input"]


def _uncast(node: Node) -> Node:
    inner: Node = node["Cast"]["expr"] if "Cast" in node else node
    return inner


def _constant(found: _Literals | None, *, truth: bool) -> Approximation:
    if found is None or found.kind not in {Kind.BOOLEAN, Kind.VOID}:
        return GIVEN_UP
    return EVERYWHERE if found.values == (truth,) else NOWHERE


# Literals of a Polars expression: one value, or the list of an `is_in`.
#
# A node of the JSON has one key, its kind, and what belongs to it: `{"Literal": {"Scalar": {"Int64": 3}}}`. What
# literals alone come to, such as `pl.datetime(2026, 2, 10)`, is computed by Polars.


Node = dict[str, Any]


@dataclass(frozen=True, slots=True)
class _Literals:
    """Some values of one type, and whether there is a null among them."""

    values: tuple[Value, ...]  # without the nulls
    kind: Kind
    has_null: bool = False
    zone: str | None = None  # of timestamps

    @classmethod
    def of(cls, array: pa.Array | pa.ChunkedArray) -> _Literals:
        values = [taken(scalar) for scalar in array]
        known = tuple(value for value in values if value is not None)
        zone = array.type.tz if pa.types.is_timestamp(array.type) else None
        return cls(known, kind_of_literal(array.type), len(known) < len(values), zone)


def _kind_and_body(node: Node) -> tuple[str, Any]:
    """Takes a node apart, without its aliases; raises ValueError if it is none."""
    ((kind, body),) = node.items()
    return _kind_and_body(body[0]) if kind == "Alias" else (kind, body)


def _literal(node: Node) -> _Literals | None:
    """Reads a node that stands for one value or a null; None if it is something else.

    Raises one of `_UNEXPECTED` if the node is not as expected.
    """
    kind, body = _kind_and_body(node)
    if kind == "Literal":
        form, content = _kind_and_body(body)
        name, content = _kind_and_body(content) if form in {"Scalar", "Dyn"} else (form, content)
        if name in _FLOATS:
            # NaN and the infinities are null in JSON, which is refused here.
            number = float(content)
            value: Any = taken(float(np.float32(number)) if name == "Float32" else number, None)
            return _Literals((value,), Kind.FLOATING)
        if name in _PLAIN:
            return _Literals((content,), _PLAIN[name])
    if not _is_computable(node):
        return None
    expression = pl.Expr.deserialize(io.BytesIO(json.dumps(node).encode()), format="json")
    array = pl.select(expression).to_series().to_arrow()
    # A category has an order of its own.
    return None if len(array) != 1 or pa.types.is_dictionary(array.type) else _Literals.of(array)


def _listed(node: Node) -> _Literals | None:
    """Reads a node that stands for a list of values; raises as `_literal`."""
    kind, body = _kind_and_body(node)
    if kind != "Literal":
        return None
    form, content = _kind_and_body(body)
    if form == "Scalar":
        form, content = _kind_and_body(content)
    if form not in {"List", "Series"}:
        return None
    with pa.ipc.open_stream(bytes(content)) as reader:
        (column,) = reader.read_all().columns
    if pa.types.is_list(column.type) or pa.types.is_large_list(column.type):
        if len(column) != 1:
            # A list for each row.
            return None
        column = column.combine_chunks().flatten()
    return _Literals.of(column)


_FLOATS: Final = {"Float", "Float32", "Float64"}
# What JSON has a value for.
_PLAIN: Final = {
    "Boolean": Kind.BOOLEAN,
    **dict.fromkeys(("String", "Str"), Kind.STRING),
    **dict.fromkeys(("Int", "Int8", "Int16", "Int32", "Int64", "Int128"), Kind.INTEGER),
    **dict.fromkeys(("UInt8", "UInt16", "UInt32", "UInt64", "UInt128"), Kind.INTEGER),
}
_FUNCTIONS: Final = {"StringExpr", "TemporalExpr"}


def _is_computable(node: Node) -> bool:
    """True for a node of literals alone, without floats, and functions that always give the same."""
    kind, body = _kind_and_body(node)
    if kind == "Literal":
        # Polars reads the numbers of its JSON less exactly than it writes them.
        (content,) = body.values()
        return not (isinstance(content, dict) and _FLOATS & content.keys())
    if kind == "Function":
        function = body["function"]
        return isinstance(function, dict) and {*function} <= _FUNCTIONS and all(map(_is_computable, body["input"]))
    if kind == "Cast":
        return _is_computable(body["expr"])
    return kind == "BinaryExpr" and _is_computable(body["left"]) and _is_computable(body["right"])
