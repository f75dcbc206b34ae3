"""Three-valued logic in plain Python over unbound trees: slow, simple, and without a line of the library's own."""

# ruff: noqa: ANN401 - literals and bounds of every type

from __future__ import annotations

import datetime as dt
import operator
from decimal import Decimal
from typing import Any

import pyarrow as pa

from delta_sidecar.predicate import And, Comparison, Constant, In, IsNull, Like, Not, Or, Predicate

_COMPARE = {
    "=": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}


def truth(node: Predicate, row: dict[str, Any], types: dict[tuple[str, ...], pa.DataType]) -> bool | None:
    """Gives True, False or None (unknown) for one row."""
    if isinstance(node, Constant):
        return node.value
    if isinstance(node, Not):
        inner = truth(node.term, row, types)
        return None if inner is None else not inner
    if isinstance(node, And | Or):
        found = [truth(term, row, types) for term in node.terms]
        deciding = isinstance(node, Or)
        return deciding if deciding in found else None if None in found else not deciding
    assert isinstance(node, Comparison | In | IsNull | Like)
    value: Any = row
    for name in node.column.path:
        value = None if value is None else value[name]
    if isinstance(node, IsNull):
        return (value is None) != node.negated
    if value is None:
        return None
    type_ = types[node.column.path]
    if isinstance(node, Like):
        return fits(value, node.pattern)
    if isinstance(node, In):
        return any(compare("=", value, literal, type_) for literal in node.values)
    return compare(node.op, value, node.value, type_)


def compare(op: str, value: Any, literal: Any, type_: pa.DataType) -> bool:
    """Compares a value of a column with a literal as it was written."""
    if isinstance(literal, str) and not (pa.types.is_string(type_)):
        literal = _read(literal, type_)
    if pa.types.is_floating(type_):
        literal = float(literal)
    if isinstance(value, dt.date):
        value, literal = _moment(value), _moment(literal)
    return bool(_COMPARE[op](value, literal))


def fits(text: str, pattern: str) -> bool:
    """Fits a text to a pattern, character by character."""
    if not pattern:
        return not text
    first, rest = pattern[0], pattern[1:]
    if first == "%":
        return any(fits(text[start:], rest) for start in range(len(text) + 1))
    if first == "\\":
        return text[:1] == rest[0] and fits(text[1:], rest[1:])
    return bool(text) and first in {"_", text[0]} and fits(text[1:], rest)


def _read(text: str, type_: pa.DataType) -> Any:
    if pa.types.is_temporal(type_):
        return dt.datetime.fromisoformat(text)
    if pa.types.is_boolean(type_):
        return text == "true"
    return Decimal(text)


def _moment(value: dt.date) -> dt.datetime:
    if not isinstance(value, dt.datetime):
        value = dt.datetime(value.year, value.month, value.day, tzinfo=dt.UTC)
    return value if value.tzinfo else value.replace(tzinfo=dt.UTC)
