"""Arrow's literals in a predicate, where comparing with them means the same as in Arrow.

Arrow brings a column and a literal of different types into a common type before it compares them; a predicate
compares by value. These are the same where that type holds both exactly, or where Arrow raises an error when it
does not. They differ for a decimal beside a float, which Arrow compares as two rounded doubles, and for a list of
doubles beside a column of a narrower float, to which Arrow rounds them.
"""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from delta_sidecar.predicate.domain import PER_SECOND, Kind, kind_of
from delta_sidecar.predicate.literals import taken

if TYPE_CHECKING:
    from collections.abc import Sequence

    from delta_sidecar.predicate.expression import Operator
    from delta_sidecar.predicate.literals import Value

_EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
_MICROS_PER_SECOND = 1_000_000
_MILLIS_PER_DAY = 86_400_000

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


def value_of(scalar: pa.Scalar) -> Value | None:
    """Gives an Arrow value as a literal; None for null.

    Raises:
        ValueError: If a predicate has no such literal: a moment that is finer than a microsecond, a duration.
        PredicateError: If it has too many digits for one.
        OverflowError: If it is a day or a moment outside of the years 1 to 9999.
    """
    if not scalar.is_valid:
        return None
    if pa.types.is_dictionary(scalar.type):
        return value_of(scalar.value)
    kind = kind_of_literal(scalar.type)
    if kind is Kind.TIMESTAMP:
        return _moment(scalar)
    if pa.types.is_date64(scalar.type) and scalar.value % _MILLIS_PER_DAY:
        msg = f"{scalar.value} ms is not a day"
        raise ValueError(msg)
    if kind not in _BY_VALUE:
        msg = f"a predicate has no literals of type {scalar.type}"
        raise ValueError(msg)
    return taken(scalar.as_py(), None)


def kind_of_literal(type: pa.DataType) -> Kind:  # noqa: A002 - the Arrow word
    """Gives the kind of the values of a literal's type."""
    if pa.types.is_dictionary(type):
        return kind_of_literal(type.value_type)
    return Kind.DATE if pa.types.is_date64(type) else kind_of(type)


def beside(op: Operator, scalar: pa.Scalar, column: pa.DataType) -> tuple[Operator, Value] | None:
    """Says a comparison of a column of some type with a literal that is not null as one by value.

    Returns:
        The operator and the literal; None if Arrow does not compare the two by value.

    Raises:
        ValueError, PredicateError, OverflowError: As `value_of`.
    """
    value = value_of(scalar)
    if value is None or not is_by_value(scalar.type, column):
        return None
    return op, value


def is_by_value(literal: pa.DataType, column: pa.DataType) -> bool:
    """Whether Arrow compares a column with literals of a type by value, or fails."""
    kind = kind_of(column)
    return kind is Kind.VOID or kind_of_literal(literal) in _BY_VALUE.get(kind, set())


def is_looked_up(literals: pa.DataType, members: Sequence[Value], column: pa.DataType) -> bool:
    """Whether Arrow looks a column up among some values as they are, or fails.

    For that it brings one side into the type of the other, by casts that a comparison would not use.
    """
    kind = kind_of(column)
    if kind is not kind_of_literal(literals) or pa.types.is_float16(column):
        return False
    numbers = [member for member in members if isinstance(member, Decimal)]
    return kind is not Kind.FLOATING or all(_is_held(number, column) for number in numbers)


def keeps_values(column: pa.DataType, target: pa.DataType) -> bool:
    """Whether every value of a column stays the same in a safe cast, or the cast fails."""
    kind, other = kind_of(column), kind_of(target)
    if kind is not other:
        return other in _KEPT.get(kind, set())
    if kind is Kind.TIMESTAMP:
        return (column.tz is None) == (target.tz is None)
    if kind is Kind.FLOATING:
        return bool(column.bit_width <= target.bit_width)
    return kind in _BY_VALUE


def _moment(scalar: pa.TimestampScalar) -> dt.datetime:
    """Gives a moment from its count: pyarrow needs pandas for the nanoseconds, and a zone's database for a zone."""
    micros, rest = divmod(scalar.value * _MICROS_PER_SECOND, PER_SECOND[scalar.type.unit])
    if rest:
        msg = f"the timestamp {scalar.value} {scalar.type.unit} is finer than a microsecond"
        raise ValueError(msg)
    moment = _EPOCH + dt.timedelta(microseconds=micros)
    return moment if scalar.type.tz is not None else moment.replace(tzinfo=None)


def _is_held(number: Decimal, column: pa.DataType) -> bool:
    """Whether a floating column can hold a number, which is the shortest writing of a double."""
    double = float(number)
    with np.errstate(over="ignore"):
        return pa.types.is_float64(column) or float(np.float32(double)) == double
