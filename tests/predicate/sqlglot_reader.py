"""Predicates read by sqlglot: an independent reader of the SQL that a predicate can be written in."""

# ruff: noqa: ANN401 - sqlglot's nodes give their parts by name, without types

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from functools import cache
from typing import Any, ClassVar

from sqlglot import exp, tokens
from sqlglot.dialects.dialect import Dialect
from sqlglot.errors import SqlglotError

from delta_sidecar.errors import PredicateError
from delta_sidecar.predicate import (
    FALSE,
    TRUE,
    UNKNOWN,
    And,
    Column,
    Comparison,
    In,
    IsNull,
    Like,
    Not,
    Or,
    Predicate,
)
from delta_sidecar.predicate.literals import moment, number
from delta_sidecar.predicate.match import checked

_COMPARISONS: dict[type[Any], Any] = {
    exp.EQ: "=",
    exp.NEQ: "!=",
    exp.LT: "<",
    exp.LTE: "<=",
    exp.GT: ">",
    exp.GTE: ">=",
}
_MIRRORED = {"=": "=", "!=": "!=", "<": ">", "<=": ">=", ">": "<", ">=": "<="}
_TIMESTAMPS = {"TIMESTAMP", "TIMESTAMPNTZ", "TIMESTAMPLTZ", "TIMESTAMPTZ", "DATETIME"}
_NAME_PARTS = ("catalog", "db", "table", "this")


class Refused(Exception):  # noqa: N818 - not a mistake
    """A text that is no predicate."""


def read(text: str) -> Predicate:
    """Reads a condition.

    Raises:
        Refused: It is not SQL, or uses what a predicate has not.
    """
    try:
        nodes = [node for node in _dialect().parse_into(exp.Condition, text) if node is not None]
        if len(nodes) != 1:
            raise Refused
        return _condition(nodes[0], text)
    except (SqlglotError, PredicateError, RecursionError) as error:
        raise Refused from error


def keywords() -> set[str]:
    """Every word that sqlglot has a use for."""
    return {word.lower() for word in tokens.Tokenizer.KEYWORDS if word.isidentifier()}


@cache
def _dialect() -> Dialect:
    class PredicateDialect(Dialect):
        class Tokenizer(tokens.Tokenizer):
            IDENTIFIERS: ClassVar = ["`", '"']
            HEX_STRINGS: ClassVar = [("x'", "'"), ("X'", "'")]

    return PredicateDialect()


def _condition(node: Any, text: str) -> Predicate:
    if isinstance(node, exp.Paren):
        return _condition(node.this, text)
    if isinstance(node, exp.And | exp.Or):
        terms = tuple(_condition(term, text) for term in node.flatten())
        return And(terms) if isinstance(node, exp.And) else Or(terms)
    if isinstance(node, exp.Not):
        inner = _condition(node.this, text)
        # To sqlglot, `a IS NOT NULL` and `NOT a IS NULL` are the same.
        if isinstance(node.this, exp.Is) and isinstance(inner, IsNull):
            return IsNull(inner.column, negated=True)
        return Not(inner)
    if isinstance(node, exp.Boolean):
        return TRUE if node.this else FALSE
    if isinstance(node, exp.Null):
        return UNKNOWN
    if _path(node) is not None:
        return Comparison("=", _column(node), value=True)
    found = _leaf(node, text)
    return Not(found) if node.args.get("negate") else found


def _leaf(node: Any, text: str) -> Predicate:  # noqa: C901 - one branch for each kind
    if type(node) in _COMPARISONS:
        return _comparison(_COMPARISONS[type(node)], *_sides(node, text))
    if isinstance(node, exp.NullSafeEQ):
        return _same(*_sides(node, text))
    if isinstance(node, exp.NullSafeNEQ):
        return Not(_same(*_sides(node, text)))
    if not isinstance(node, exp.Is | exp.In | exp.Between | exp.Like | exp.Escape):
        raise Refused
    column = _column(node.this.this if isinstance(node, exp.Escape) else node.this)
    if isinstance(node, exp.Is):
        if isinstance(node.expression, exp.Null):
            return IsNull(column)
        if isinstance(node.expression, exp.Boolean):
            return And((IsNull(column, negated=True), Comparison("=", column, bool(node.expression.this))))
    if isinstance(node, exp.In) and not any(
        value for key, value in node.args.items() if key not in {"this", "expressions", "negate"}
    ):
        return _membership(column, [_literal(item, text) for item in node.expressions])
    if isinstance(node, exp.Between) and not node.args.get("symmetric"):
        low, high = (_literal(node.args[side], text) for side in ("low", "high"))
        return And((_comparison(">=", column, low), _comparison("<=", column, high)))
    if isinstance(node, exp.Escape) and isinstance(node.this, exp.Like):
        escape = _string(node.expression, text)
        if len(escape) != 1:
            raise Refused
        found = Like(column, checked(_string(node.this.expression, text), None, escape))
        return Not(found) if node.this.args.get("negate") else found
    if isinstance(node, exp.Like):
        return Like(column, checked(_string(node.expression, text), None))
    raise Refused


def _comparison(op: Any, left: Any, right: Any) -> Predicate:
    """A comparison of what `_sides` gives: columns, and values in tuples of one."""
    if isinstance(left, tuple):
        if isinstance(right, tuple):
            return _constant(op, *left, *right)
        op, left, right = _MIRRORED[op], right, left
    elif not isinstance(right, tuple):
        raise Refused
    (value,) = right
    return UNKNOWN if value is None else Comparison(op, left, value)


def _constant(op: Any, left: Any, right: Any) -> Predicate:
    if left is None or right is None:
        return UNKNOWN
    if op not in {"=", "!="} or type(left) is not type(right):
        raise Refused
    return TRUE if (left == right) == (op == "=") else FALSE


def _same(left: Any, right: Any) -> Predicate:
    column, (value,) = (right, left) if isinstance(left, tuple) else (left, right)
    if not isinstance(column, Column):
        raise Refused
    return IsNull(column) if value is None else And((IsNull(column, negated=True), Comparison("=", column, value)))


def _membership(column: Column, literals: list[tuple[Any]]) -> Predicate:
    values = tuple(value for (value,) in literals if value is not None)
    if not literals:
        return FALSE
    if len(values) == len(literals):
        return In(column, values)
    return Or((In(column, values), UNKNOWN)) if values else UNKNOWN


def _sides(node: Any, text: str) -> list[Any]:
    sides = [node.this.unnest(), node.expression.unnest()]
    named = [_path(side) is not None for side in sides]
    quoted = [_in_double_quotes(side, text) for side in sides]
    if all(quoted) or (all(named) and not any(quoted)):
        raise Refused
    return [
        _column(side) if named[i] and not (quoted[i] and named[1 - i]) else _literal(side, text)
        for i, side in enumerate(sides)
    ]


def _column(node: Any) -> Column:
    path = _path(node.unnest())
    if path is None:
        raise Refused
    return Column(path)


def _path(node: Any) -> tuple[str, ...] | None:
    parts: list[Any] = []
    while isinstance(node, exp.Dot):
        parts.insert(0, node.expression)
        node = node.this
    if not isinstance(node, exp.Column):
        return None
    parts = [part for part in map(node.args.get, _NAME_PARTS) if part is not None] + parts
    return tuple(part.name for part in parts) if all(isinstance(part, exp.Identifier) for part in parts) else None


def _in_double_quotes(node: Any, text: str) -> bool:
    path = _path(node)
    return path is not None and len(path) == 1 and text[node.this.meta["start"]] == '"'


def _string(node: Any, text: str) -> str:
    (value,) = _literal(node, text)
    if not isinstance(value, str):
        raise Refused
    return value


def _literal(node: Any, text: str) -> tuple[Any]:
    node = node.unnest()
    if isinstance(node, exp.Null):
        return (None,)
    value = _value(node, text)
    if value is None:
        raise Refused
    return (value,)


def _value(node: Any, text: str) -> Any:
    if isinstance(node, exp.Literal):
        return str(node.this) if node.is_string else number(str(node.this))
    if isinstance(node, exp.Boolean):
        return bool(node.this)
    if isinstance(node, exp.Neg):
        (value,) = _literal(node.this, text)
        if isinstance(value, Decimal):
            return value.copy_negate()
        return -value if isinstance(value, int | float) and not isinstance(value, bool) else None
    if isinstance(node, exp.HexString):
        # A number in hexadecimal digits, 0x1F, comes as the same node.
        try:
            return bytes.fromhex(str(node.this)) if text[node.meta["start"]] in "xX" else None
        except ValueError:
            return None
    if isinstance(node, exp.Cast):
        return _cast(node, text)
    return str(node.name) if _in_double_quotes(node, text) else None


def _cast(node: Any, text: str) -> Any:
    target = node.args["to"].this
    kind = str(getattr(target, "value", target)).upper()
    inner = node.this.unnest()
    if not (isinstance(inner, exp.Literal) and inner.is_string) and not _in_double_quotes(inner, text):
        raise Refused
    if kind in {"DOUBLE", "FLOAT"}:
        return number(_string(inner, text))
    found = moment(_string(inner, text))
    if found is None or kind not in _TIMESTAMPS | {"DATE"}:
        raise Refused
    if kind == "DATE":
        return found.date() if isinstance(found, dt.datetime) else found
    return found if isinstance(found, dt.datetime) else dt.datetime.combine(found, dt.time())
