"""What the values of an Arrow type are like: their kind and, where they count in steps, the number behind.

An integer, a day, a moment and a decimal are whole numbers of some step (one, a day, a microsecond, 0.01). A
literal compared with such a column is a fraction of that step, held exactly; so `n < 2.5`, a timestamp
against a date column and a decimal with too many digits are one case.
"""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from enum import Enum, auto
from fractions import Fraction
from typing import TYPE_CHECKING

import pyarrow as pa

if TYPE_CHECKING:
    from delta_sidecar.predicate.literals import Value

PER_SECOND = {"s": 1, "ms": 1_000, "us": 1_000_000, "ns": 1_000_000_000}

_EPOCH_DAY = dt.date(1970, 1, 1).toordinal()
_EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
_MICROSECOND = dt.timedelta(microseconds=1)
_MICROS_PER_SECOND = 1_000_000
_MICROS_PER_DAY = 86_400 * _MICROS_PER_SECOND


class Kind(Enum):
    """The kinds of Arrow types, by what a predicate can do with them."""

    INTEGER = auto()
    DECIMAL = auto()
    DATE = auto()
    TIMESTAMP = auto()
    FLOATING = auto()
    BOOLEAN = auto()
    STRING = auto()
    BINARY = auto()
    VOID = auto()
    NESTED = auto()
    OTHER = auto()


STEPPED = frozenset({Kind.INTEGER, Kind.DECIMAL, Kind.DATE, Kind.TIMESTAMP})


def kind_of(type: pa.DataType) -> Kind:  # noqa: A002 - the Arrow word
    """Gives the kind of a type."""
    for kind, belongs in _KINDS:
        if belongs(type):
            return kind
    return Kind.OTHER


def steps(value: Value, type: pa.DataType) -> Fraction | None:  # noqa: A002
    """Gives a literal in steps of a stepped type; None if it is of a kind that has none there.

    A moment without a zone is in UTC, and a date is its midnight in UTC.
    """
    kind = kind_of(type)
    if kind in {Kind.INTEGER, Kind.DECIMAL}:
        if isinstance(value, bool) or not isinstance(value, int | Decimal | float):
            return None
        return Fraction(value) * 10**type.scale if kind is Kind.DECIMAL else Fraction(value)
    if isinstance(value, dt.datetime):
        micros = ((value if value.tzinfo else value.replace(tzinfo=dt.UTC)) - _EPOCH) // _MICROSECOND
    elif isinstance(value, dt.date):
        micros = (value.toordinal() - _EPOCH_DAY) * _MICROS_PER_DAY
    else:
        return None
    if kind is Kind.DATE:
        return Fraction(micros, _MICROS_PER_DAY)
    return Fraction(micros * PER_SECOND[type.unit], _MICROS_PER_SECOND)


def value_at(step: int, type: pa.DataType) -> Value:  # noqa: A002
    """Gives the value of a stepped type at a step.

    Raises:
        OverflowError: If it is a day or a moment outside of the years 1 to 9999.
    """
    kind = kind_of(type)
    if kind is Kind.INTEGER:
        return step
    if kind is Kind.DECIMAL:
        # Built from digits: arithmetic would round to the precision of the decimal context.
        digits = tuple(int(digit) for digit in str(abs(step)))
        return Decimal((int(step < 0), digits, -type.scale))
    if kind is Kind.DATE:
        try:
            return dt.date.fromordinal(step + _EPOCH_DAY)
        except ValueError as error:
            raise OverflowError(*error.args) from None
    moment = _EPOCH + dt.timedelta(microseconds=step * _MICROS_PER_SECOND // PER_SECOND[type.unit])
    return moment if type.tz is not None else moment.replace(tzinfo=None)


def limits(type: pa.DataType) -> tuple[int, int]:  # noqa: A002
    """Gives the lowest and the highest step that a stepped type can hold."""
    if kind_of(type) is Kind.DECIMAL:
        most = 10**type.precision - 1
        return -most, most
    if pa.types.is_unsigned_integer(type):
        return 0, 2**type.bit_width - 1
    return -(2 ** (type.bit_width - 1)), 2 ** (type.bit_width - 1) - 1


def _is_string(type: pa.DataType) -> bool:  # noqa: A002
    return bool(pa.types.is_string(type) or pa.types.is_large_string(type) or pa.types.is_string_view(type))


def _is_binary(type: pa.DataType) -> bool:  # noqa: A002
    variable = pa.types.is_binary(type) or pa.types.is_large_binary(type) or pa.types.is_binary_view(type)
    return bool(variable or (pa.types.is_fixed_size_binary(type) and not pa.types.is_decimal(type)))


_KINDS = (
    (Kind.INTEGER, pa.types.is_integer),
    (Kind.DECIMAL, pa.types.is_decimal),
    (Kind.DATE, pa.types.is_date32),
    (Kind.TIMESTAMP, pa.types.is_timestamp),
    (Kind.FLOATING, pa.types.is_floating),
    (Kind.BOOLEAN, pa.types.is_boolean),
    (Kind.STRING, _is_string),
    (Kind.BINARY, _is_binary),
    (Kind.VOID, pa.types.is_null),
    (Kind.NESTED, pa.types.is_nested),
)
