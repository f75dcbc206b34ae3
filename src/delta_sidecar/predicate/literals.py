"""Literal values: from Python, from text, as SQL and as Arrow arrays; the kinds of types; places in a source."""

from __future__ import annotations

import datetime as dt
import math
import re
from decimal import Decimal, InvalidOperation
from enum import Enum, auto
from fractions import Fraction
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
from msgspec import Struct

from delta_sidecar import _arrow
from delta_sidecar.errors import PredicateError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray


# A finite number that was written down is an int or a Decimal, exact; a float is what a floating column is
# bound to, or NaN or an infinity.
Value = bool | int | Decimal | float | str | bytes | dt.date | dt.datetime

_NUMBER = re.compile(r"[+-]?(\d+(\.\d*)?|\.\d+)([eE][+-]?\d+)?\Z", re.ASCII)
_SPECIAL = re.compile(r"((?P<nan>nan)|(?P<sign>[+-]?)inf(inity)?)\Z", re.IGNORECASE)
_MOMENT = re.compile(
    r"(?P<year>\d{4})-(?P<month>\d\d)-(?P<day>\d\d)"
    r"([T ](?P<hour>\d\d):(?P<minute>\d\d)(:(?P<second>\d\d)(\.(?P<fraction>\d{1,9}))?)?"
    r" ?(?P<zone>Z|UTC|(?P<sign>[+-])(?P<zone_hours>\d\d):?(?P<zone_minutes>\d\d)?)?)?\Z",
    re.ASCII | re.IGNORECASE,
)

# Arithmetic on a number is exact, so its size in digits has to have an end.
_MOST_DIGITS = 1000

# Beyond this, a number is written with an exponent.
_MOST_ZEROS = 40


def taken(value: object, place: SourcePlace | None = None) -> Value | None:
    """Gives a Python, numpy or Arrow value as a literal; a float stands for the decimal number that it is written as.

    Raises:
        PredicateError: If it is no value that a column could be compared with.
    """
    if isinstance(value, pa.Scalar):
        value = _from_scalar(value, place)
    if isinstance(value, np.datetime64):
        value = _from_datetime64(value, place)
    elif isinstance(value, np.generic):
        value = value.item()
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, int | Decimal | float):
        return _exact(value, place)
    if isinstance(value, str):
        return "" + value
    if isinstance(value, bytes | bytearray | memoryview):
        return bytes(value)
    if isinstance(value, dt.datetime):
        return _plain_moment(value, place)
    if isinstance(value, dt.date):
        return value
    raise refusal(place, f"a value of type {type(value).__name__} cannot be compared with a column: {value!r}")


def number(text: str, place: SourcePlace | None = None) -> int | Decimal | float | None:
    """Reads a number, exactly; None if the text is no number."""
    if special := _SPECIAL.match(text):
        return math.nan if special["nan"] else -math.inf if special["sign"] == "-" else math.inf
    if not _NUMBER.match(text):
        return None
    try:
        value = Decimal(text)
    except InvalidOperation:
        value = Decimal("Infinity")
    value = _bounded(value, text, place)
    return int(value) if text.lstrip("+-").isdigit() else value


def moment(text: str, place: SourcePlace | None = None) -> dt.date | dt.datetime | None:
    """Reads an ISO date, or a timestamp with or without a zone; None if the text is neither.

    Raises:
        PredicateError: If it looks like one and does not exist, or is finer than a microsecond.
    """
    match = _MOMENT.match(text)
    if match is None:
        return None
    fraction = (match["fraction"] or "").ljust(9, "0")
    try:
        day = dt.date(int(match["year"]), int(match["month"]), int(match["day"]))
        if match["hour"] is None:
            return day
        clock = dt.time(int(match["hour"]), int(match["minute"]), int(match["second"] or 0), int(fraction[:6]))
        found = dt.datetime.combine(day, clock, tzinfo=_zone(match))
    except ValueError as error:
        raise refusal(place, f"{text!r} is no moment in time: {error}") from None
    if fraction[6:] != "000":
        raise refusal(place, f"the timestamp {text!r} is finer than a microsecond")
    return found


def sql_text(value: Value) -> str:
    """Writes a literal as SQL."""
    match value:
        case bool():
            return str(value).upper()
        case float() if not math.isfinite(value):
            name = "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
            return f"CAST('{name}' AS DOUBLE)"
        case Decimal():
            return format(value, "f") if abs(value.adjusted()) < _MOST_ZEROS else str(value)
        case bytes():
            return f"X'{value.hex().upper()}'"
        case dt.datetime():
            return f"TIMESTAMP '{value.isoformat(sep=' ')}'"
        case dt.date():
            return f"DATE '{value.isoformat()}'"
        case str():
            return "'" + value.replace("'", "''") + "'"
    return str(value)


def is_nan(value: Value) -> bool:
    """Tells whether a literal is NaN."""
    return isinstance(value, float) and math.isnan(value)


def kind_in_words(value: Value) -> str:
    """Says what a literal is, for messages."""
    if isinstance(value, bool):
        return "a boolean"
    words = {bytes: "a binary value", dt.datetime: "a timestamp", dt.date: "a date", str: "a string"}
    return words.get(type(value), "a number")


def _exact(value: float | Decimal, place: SourcePlace | None) -> int | Decimal | float:
    if isinstance(value, int):
        if value.bit_length() > _MOST_DIGITS * 3:
            raise refusal(place, f"a number of more than {_MOST_DIGITS} digits is not supported")
        return int(value)
    if isinstance(value, float):
        return Decimal(repr(float(value))) if math.isfinite(value) else float(value)
    if value.is_finite():
        return _bounded(value, str(value), place)
    return math.nan if value.is_nan() else float(value)


def _bounded(value: Decimal, text: str, place: SourcePlace | None) -> Decimal:
    if not value.is_finite() or len(value.as_tuple().digits) > _MOST_DIGITS or abs(value.adjusted()) > _MOST_DIGITS:
        shown = text if len(text) < _MOST_DIGITS // 10 else text[: _MOST_DIGITS // 10] + "..."
        raise refusal(place, f"the number {shown} has too many digits (more than {_MOST_DIGITS})")
    return value


def _from_scalar(value: pa.Scalar, place: SourcePlace | None) -> object:
    if pa.types.is_dictionary(value.type):
        value = value.value
    if value.is_valid and pa.types.is_date64(value.type) and value.value % _MILLIS_PER_DAY:
        raise refusal(place, f"{value.value} ms is not a day")
    if not value.is_valid or not pa.types.is_timestamp(value.type):
        return value.as_py()
    # From its count: pyarrow needs pandas for the nanoseconds, and a zone's database for a zone.
    micros, rest = divmod(value.value * 1_000_000, PER_SECOND[value.type.unit])
    if rest:
        raise refusal(place, f"the timestamp {value.value} {value.type.unit} is finer than a microsecond")
    try:
        moment = _EPOCH + dt.timedelta(microseconds=micros)
    except OverflowError:
        raise refusal(
            place, f"the timestamp {value.value} {value.type.unit} is outside of the years 1 to 9999 in UTC"
        ) from None
    return moment if value.type.tz is not None else moment.replace(tzinfo=None)


def _plain_moment(value: dt.datetime, place: SourcePlace | None) -> dt.datetime | None:
    if value != value:  # noqa: PLR0124 - a missing time of pandas is not equal to itself
        return None
    if getattr(value, "nanosecond", 0):
        raise refusal(place, f"the timestamp {value} is finer than a microsecond")
    try:
        if value.tzinfo is not None:
            value = value.astimezone(dt.UTC)
    except OverflowError:
        raise refusal(place, f"the timestamp {value} is outside of the years 1 to 9999 in UTC") from None
    clock = (value.hour, value.minute, value.second, value.microsecond)
    return dt.datetime(value.year, value.month, value.day, *clock, tzinfo=value.tzinfo)


def _from_datetime64(value: np.datetime64, place: SourcePlace | None) -> object:
    if np.isnat(value):
        return None
    micros = value.astype("datetime64[us]")
    if micros != value:
        raise refusal(place, f"the timestamp {value} is finer than a microsecond or out of range")
    is_day = np.datetime_data(value.dtype)[0] in {"Y", "M", "W", "D"}
    return (value.astype("datetime64[D]") if is_day else micros).item()


def _zone(match: re.Match[str]) -> dt.tzinfo | None:
    if match["zone"] is None:
        return None
    if match["sign"] is None:
        return dt.UTC
    offset = dt.timedelta(hours=int(match["zone_hours"]), minutes=int(match["zone_minutes"] or 0))
    return dt.timezone(offset if match["sign"] == "+" else -offset)


# The kinds of Arrow types, and the values of those that count in steps as whole numbers.
#
# An integer, a day, a moment and a decimal are whole numbers of some step (one, a day, a microsecond, 0.01). A
# literal compared with such a column is a fraction of that step, held exactly; so `n < 2.5`, a timestamp
# against a date column and a decimal with too many digits are one case.


PER_SECOND = {"s": 1, "ms": 1_000, "us": 1_000_000, "ns": 1_000_000_000}

_EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
_MILLIS_PER_DAY = 86_400_000


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


@lru_cache(maxsize=1024)
def kind_of(type: pa.DataType) -> Kind:  # noqa: A002 - the Arrow word
    """Gives the kind of a type."""
    return next((kind for kind, checks in _KINDS.items() if any(check(type) for check in checks)), Kind.OTHER)


def steps(value: Value, type: pa.DataType) -> Fraction | None:  # noqa: A002
    """Gives a literal in steps of a stepped type; None if it is of a kind that has none there.

    A moment without a zone is in UTC, and a date is its midnight in UTC.
    """
    kind = kind_of(type)
    if kind in {Kind.INTEGER, Kind.DECIMAL}:
        if isinstance(value, bool) or not isinstance(value, int | Decimal | float):
            return None
        return Fraction(value) * 10**type.scale if kind is Kind.DECIMAL else Fraction(value)
    if not isinstance(value, dt.date):
        return None
    moment = value if isinstance(value, dt.datetime) else dt.datetime.combine(value, dt.time())
    since = (moment if moment.tzinfo else moment.replace(tzinfo=dt.UTC)) - _EPOCH
    per_second = Fraction(1, 86_400) if kind is Kind.DATE else PER_SECOND[type.unit]
    return Fraction(since // dt.timedelta(microseconds=1), 1_000_000) * per_second


def value_at(step: int, type: pa.DataType) -> Value:  # noqa: A002
    """Gives the value of a stepped type at a step.

    Raises:
        OverflowError: If it is a day or a moment outside of the years 1 to 9999.
    """
    kind = kind_of(type)
    if kind is Kind.INTEGER:
        return step
    if kind is Kind.DECIMAL:
        # Read from text: arithmetic would round to the precision of the decimal context.
        return Decimal(f"{step}E{-type.scale}")
    if kind is Kind.DATE:
        return _EPOCH.date() + dt.timedelta(days=step)
    moment = _EPOCH + dt.timedelta(microseconds=step * 1_000_000 // PER_SECOND[type.unit])
    return moment if type.tz is not None else moment.replace(tzinfo=None)


def limits(type: pa.DataType) -> tuple[int, int]:  # noqa: A002
    """Gives the lowest and the highest step that a stepped type can hold."""
    if kind_of(type) is Kind.DECIMAL:
        most = 10**type.precision - 1
        return -most, most
    if pa.types.is_unsigned_integer(type):
        return 0, 2**type.bit_width - 1
    return -(2 ** (type.bit_width - 1)), 2 ** (type.bit_width - 1) - 1


# In this order: to Arrow, a decimal is a binary of a fixed size too.
_KINDS = {
    Kind.INTEGER: (pa.types.is_integer,),
    Kind.DECIMAL: (pa.types.is_decimal,),
    Kind.DATE: (pa.types.is_date32,),
    Kind.TIMESTAMP: (pa.types.is_timestamp,),
    Kind.FLOATING: (pa.types.is_floating,),
    Kind.BOOLEAN: (pa.types.is_boolean,),
    Kind.STRING: (pa.types.is_string, pa.types.is_large_string, pa.types.is_string_view),
    Kind.BINARY: (pa.types.is_binary, pa.types.is_large_binary, pa.types.is_binary_view, pa.types.is_fixed_size_binary),
    Kind.VOID: (pa.types.is_null,),
    Kind.NESTED: (pa.types.is_nested,),
}


# Arrow arrays of literals, in the few layouts that comparisons work on.


def plain_type(type: pa.DataType) -> pa.DataType:  # noqa: A002 - the Arrow word
    """Gives the type that values of a type are compared in: the same values in a layout with all kernels."""
    if pa.types.is_dictionary(type):
        return plain_type(type.value_type)
    if pa.types.is_string_view(type):
        return pa.string()
    if pa.types.is_binary_view(type) or (kind_of(type) is Kind.BINARY and pa.types.is_fixed_size_binary(type)):
        return pa.binary()
    return pa.float64() if pa.types.is_floating(type) else type


def of(values: Sequence[Value], type: pa.DataType) -> pa.Array:  # noqa: A002
    """Makes an array without nulls from bound literals of a column of this type, in its plain type."""
    plain = plain_type(type)
    kind = kind_of(plain)
    if kind is Kind.BOOLEAN:
        return _arrow.from_numpy(np.array(values, dtype=np.bool_))
    if kind is Kind.FLOATING:
        return _over(np.array(values, dtype=np.float64), plain)
    if kind is Kind.DECIMAL:
        return _arrow.strings(
            format(value, "f") if isinstance(value, Decimal) else str(value) for value in values
        ).cast(plain)
    if kind is Kind.STRING:
        return _arrow.strings(str(value) for value in values).cast(plain)
    if kind is Kind.BINARY:
        return _arrow.binaries([value for value in values if isinstance(value, bytes)]).cast(plain)
    counts = [int(count) for value in values if (count := steps(value, plain)) is not None]
    sign = "u" if pa.types.is_unsigned_integer(plain) else "i"
    return _over(np.array(counts, dtype=f"{sign}{plain.bit_width // 8}"), plain)


def one(value: Value, type: pa.DataType) -> pa.Scalar:  # noqa: A002
    """Makes a scalar from a bound literal of a column of this type, in its plain type."""
    return of((value,), type)[0]


def _over(numbers: NDArray[np.generic], type: pa.DataType) -> pa.Array:  # noqa: A002
    return pa.Array.from_buffers(type, len(numbers), [None, pa.py_buffer(numbers)])


# Places in the source of a predicate, for errors.


# A longer line is cut around the place.
_MARGIN = 60


class SourcePlace(Struct, frozen=True):
    """A stretch of a SQL text, or a named spot in a structure."""

    source: str  # the whole SQL text, or, without `start`, the spot in words (`filters[0][1]`)
    start: int | None = None
    end: int | None = None

    def describe(self) -> str:
        """Gives the lines that go under an error message: the source line and a caret line."""
        if self.start is None:
            return f"  at {self.source}"
        start = min(max(self.start, 0), len(self.source))
        end = max(self.end if self.end is not None else start + 1, start + 1)
        first = self.source.rfind("\n", 0, start) + 1
        last = self.source.find("\n", start)
        last = len(self.source) if last < 0 else last
        left, right = max(first, start - _MARGIN), min(last, max(end, start) + _MARGIN, start + 2 * _MARGIN)
        before = ("..." if left > first else "") + self.source[left:start]
        line = before + self.source[start:right] + ("..." if right < last else "")
        # A tab stays a tab, so that the caret stands under its character however wide tabs are shown.
        blank = "".join("\t" if character == "\t" else " " for character in before)
        return f"  {line}\n  {blank}^{'~' * (max(min(end, right), start + 1) - start - 1)}"


def refusal(place: SourcePlace | None, problem: str) -> PredicateError:
    """Makes the error for a problem, pointing at its place where that is known."""
    return PredicateError(problem if place is None else f"{problem}\n{place.describe()}")
