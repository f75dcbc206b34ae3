"""Literals in the type of the column they are compared with, without a change of meaning.

A literal that the type cannot hold does not fail and is not rounded: the comparison is rewritten to one that
is true, false and unknown for the same rows (`n < 2.5` to `n <= 2`; `n = 2.5` to what is false unless n is
null).

- A timestamp without a zone is in UTC; a date beside a timestamp is its midnight in UTC.
- A string beside a number, date, timestamp or boolean column is read as such a value; beside any other column
  it is a string. A number beside a string column is an error: it is not clear which order is meant.
- A number beside a floating column is a double, and so is each value of the column, also of a narrower one: `x = 0.1`
  finds no 32-bit float, for none of them is that double.
"""

from __future__ import annotations

import datetime as dt
import math
from decimal import Decimal
from fractions import Fraction
from typing import TYPE_CHECKING

from delta_sidecar.predicate import domain
from delta_sidecar.predicate.domain import STEPPED, Kind, kind_of
from delta_sidecar.predicate.expression import (
    UNKNOWN,
    And,
    Column,
    Comparison,
    In,
    IsNull,
    Operator,
    Or,
    Predicate,
)
from delta_sidecar.predicate.literals import Value, kind_in_words, moment, number, sql_text
from delta_sidecar.predicate.place import refusal

if TYPE_CHECKING:
    from collections.abc import Iterable

    from delta_sidecar.predicate.place import Place


def comparison(op: Operator, column: Column, value: Value | None, place: Place | None) -> Predicate:
    """Gives the comparison of a bound column with a literal, the literal being of the column's type.

    Raises:
        PredicateError: If the column's type cannot be compared with the literal.
    """
    if value is None:
        return UNKNOWN
    kind = kind_of(column.type)
    if kind is Kind.VOID:
        return _never(column)
    if kind in STEPPED:
        return _stepped(op, column, _read(value, column, place), place)
    if kind is Kind.FLOATING:
        return _floating(op, column, _read(value, column, place), place)
    if kind is Kind.BOOLEAN and isinstance(value, str) and value.lower() in {"true", "false"}:
        value = value.lower() == "true"
    wanted = {Kind.BOOLEAN: bool, Kind.STRING: str, Kind.BINARY: bytes}.get(kind)
    if wanted is None or not isinstance(value, wanted):
        raise _mismatch(column, value, place)
    return Comparison(op, column, value, place)


def membership(column: Column, values: Iterable[Value | None], place: Place | None) -> Predicate:
    """Gives the membership of a bound column in a list of literals; a null in the list makes a miss unknown.

    Raises:
        PredicateError: If the column's type cannot be compared with one of the literals.
    """
    members: set[Value] = set()
    missing = False
    for value in values:
        missing |= value is None
        equal = comparison("=", column, value, place)
        if isinstance(equal, Comparison):
            members.add(equal.value)
    if not members:
        found = _never(column)
    elif len(members) == 1:
        found = Comparison("=", column, members.pop(), place)
    else:
        found = In(column, tuple(sorted(members, key=_order)), place)
    return Or((found, UNKNOWN)) if missing else found


def _order(value: Value) -> tuple[bool, Value]:
    """Sorts NaN last; all the values of one list are of one type."""
    return (isinstance(value, float) and math.isnan(value), value)


def _read(value: Value, column: Column, place: Place | None) -> Value:
    """Reads a string beside a column that holds no strings."""
    if not isinstance(value, str):
        return value
    kind = kind_of(column.type)
    read = moment(value, place) if kind in {Kind.DATE, Kind.TIMESTAMP} else number(value, place)
    if read is None or (kind is Kind.INTEGER and not isinstance(read, int)):
        raise _mismatch(column, value, place)
    return read


def _stepped(op: Operator, column: Column, value: Value, place: Place | None) -> Predicate:
    lowest, highest = domain.limits(column.type)
    if isinstance(value, float) and not math.isfinite(value) and kind_of(column.type) in {Kind.INTEGER, Kind.DECIMAL}:
        if math.isnan(value):
            raise _mismatch(column, value, place)
        count = Fraction(highest + 1 if value > 0 else lowest - 1)
    else:
        found = domain.steps(value, column.type)
        if found is None:
            raise _mismatch(column, value, place)
        count = found
    whole = math.floor(count)
    if count != whole:
        # Between two steps: nothing is equal, and both sides of the gap are said by the step below.
        if op in {"=", "!="}:
            return _never(column) if op == "=" else _always(column)
        op = "<=" if op in {"<", "<="} else ">"
    if not lowest <= whole <= highest:
        holds = {"!="} | ({">", ">="} if whole < lowest else {"<", "<="})
        return _always(column) if op in holds else _never(column)
    try:
        return Comparison(op, column, domain.value_at(whole, column.type), place)
    except OverflowError:
        msg = f"{sql_text(value)} is outside of the years 1 to 9999 in UTC"
        raise refusal(msg, place) from None


def _floating(op: Operator, column: Column, value: Value, place: Place | None) -> Predicate:
    if isinstance(value, bool) or not isinstance(value, int | Decimal | float):
        raise _mismatch(column, value, place)
    rounded = _as_double(value)
    if math.isinf(rounded) and not (isinstance(value, float) and math.isinf(value)):
        # Finite, yet beyond every finite double: only an infinity can lie on its far side.
        if op in {"=", "!="}:
            return _never(column) if op == "=" else _always(column)
        op = (_ABOVE_ALL if rounded > 0 else _BELOW_ALL)[op]
    return Comparison(op, column, rounded, place)


_ABOVE_ALL: dict[Operator, Operator] = {"<": "<", "<=": "<", ">": ">=", ">=": ">="}
_BELOW_ALL: dict[Operator, Operator] = {"<": "<=", "<=": "<=", ">": ">", ">=": ">"}


def _as_double(value: float | Decimal) -> float:
    try:
        return float(value)
    except OverflowError:
        return math.copysign(math.inf, value)


def _never(column: Column) -> Predicate:
    """What is false for every value and unknown for null, as a comparison is."""
    return And((IsNull(column), UNKNOWN))


def _always(column: Column) -> Predicate:
    """What is true for every value and unknown for null, as a comparison is."""
    return Or((IsNull(column, negated=True), UNKNOWN))


def _mismatch(column: Column, value: Value, place: Place | None) -> Exception:
    shown = sql_text(value)
    problem = f"column {column} has type {column.type} and cannot be compared with {shown}, {kind_in_words(value)}"
    kind = kind_of(column.type)
    if kind is Kind.STRING:
        text = str(value) if not isinstance(value, dt.date | bytes) else shown.partition("'")[2].rstrip("'")
        problem += f"; write it as a string: '{text}'"
    elif kind in _WRITTEN:
        problem += f"; write {_WRITTEN[kind]}"
    return refusal(problem, place)


_WRITTEN = {
    Kind.INTEGER: "a whole number, such as 5",
    Kind.DECIMAL: "a number, such as 2.5",
    Kind.FLOATING: "a number, such as 2.5",
    Kind.BOOLEAN: "TRUE or FALSE",
    Kind.DATE: "a date, such as '2026-02-08'",
    Kind.TIMESTAMP: "a timestamp, such as '2026-02-08 10:00:00'",
    Kind.BINARY: "bytes, such as X'00FF'",
}
