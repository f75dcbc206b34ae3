"""Literal values: taken over from Python, read from text, written as SQL."""

from __future__ import annotations

import datetime as dt
import math
import re
from decimal import Decimal, InvalidOperation
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from delta_sidecar.predicate.place import refusal

if TYPE_CHECKING:
    from delta_sidecar.predicate.place import Place

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


def taken(value: object, place: Place | None) -> Value | None:
    """Takes over a Python, numpy or Arrow value as a literal.

    Args:
        value: The value; a float stands for the decimal number that it is written as.
        place: Where it stands, for the error.

    Raises:
        PredicateError: If it is no value that a column could be compared with.
    """
    if isinstance(value, pa.Scalar):
        value = value.as_py()
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
    msg = f"a value of type {type(value).__name__} cannot be compared with a column: {value!r}"
    raise refusal(msg, place)


def number(text: str, place: Place | None = None) -> int | Decimal | float | None:
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


def moment(text: str, place: Place | None = None) -> dt.date | dt.datetime | None:
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
        msg = f"{text!r} is no moment in time: {error}"
        raise refusal(msg, place) from None
    if fraction[6:] != "000":
        msg = f"the timestamp {text!r} is finer than a microsecond"
        raise refusal(msg, place)
    return found


def sql_text(value: Value) -> str:
    """Writes a literal as SQL."""
    if isinstance(value, bool):
        return str(value).upper()
    if isinstance(value, float):
        return repr(value) if math.isfinite(value) else f"CAST('{_special_name(value)}' AS DOUBLE)"
    if isinstance(value, Decimal):
        return format(value, "f") if abs(value.adjusted()) < _MOST_ZEROS else str(value)
    if isinstance(value, bytes):
        return f"X'{value.hex().upper()}'"
    if isinstance(value, dt.datetime):
        return f"TIMESTAMP '{value.isoformat(sep=' ')}'"
    if isinstance(value, dt.date):
        return f"DATE '{value.isoformat()}'"
    if isinstance(value, str):
        return "'" + value.replace("'", "''") + "'"
    return str(value)


def kind_in_words(value: Value) -> str:
    """Says what a literal is, for messages."""
    if isinstance(value, bool):
        return "a boolean"
    if isinstance(value, int | Decimal | float):
        return "a number"
    if isinstance(value, bytes):
        return "a binary value"
    if isinstance(value, dt.datetime):
        return "a timestamp"
    return "a date" if isinstance(value, dt.date) else "a string"


def _exact(value: float | Decimal, place: Place | None) -> int | Decimal | float:
    if isinstance(value, int):
        value = int(value)
        if value.bit_length() > _MOST_DIGITS * 3:
            msg = f"a number of more than {_MOST_DIGITS} digits is not supported"
            raise refusal(msg, place)
        return value
    if isinstance(value, float):
        if not math.isfinite(value):
            return math.nan if math.isnan(value) else math.copysign(math.inf, value)
        return Decimal(repr(float(value)))
    if value.is_nan():
        return math.nan
    if value.is_infinite():
        return math.copysign(math.inf, value)
    return _bounded(value, str(value), place)


def _bounded(value: Decimal, text: str, place: Place | None) -> Decimal:
    if not value.is_finite() or len(value.as_tuple().digits) > _MOST_DIGITS or abs(value.adjusted()) > _MOST_DIGITS:
        shown = text if len(text) < _MOST_DIGITS // 10 else text[: _MOST_DIGITS // 10] + "..."
        msg = f"the number {shown} has too many digits (more than {_MOST_DIGITS})"
        raise refusal(msg, place)
    return value


def _plain_moment(value: dt.datetime, place: Place | None) -> dt.datetime | None:
    if value != value:  # noqa: PLR0124 - a missing time of pandas is not equal to itself
        return None
    if getattr(value, "nanosecond", 0):
        msg = f"the timestamp {value} is finer than a microsecond"
        raise refusal(msg, place)
    try:
        if value.tzinfo is not None:
            value = value.astimezone(dt.UTC)
    except OverflowError:
        msg = f"the timestamp {value} is outside of the years 1 to 9999 in UTC"
        raise refusal(msg, place) from None
    clock = (value.hour, value.minute, value.second, value.microsecond)
    return dt.datetime(value.year, value.month, value.day, *clock, tzinfo=value.tzinfo)


def _from_datetime64(value: np.datetime64, place: Place | None) -> object:
    if np.isnat(value):
        return None
    micros = value.astype("datetime64[us]")
    if micros != value:
        msg = f"the timestamp {value} is finer than a microsecond or out of range"
        raise refusal(msg, place)
    is_day = np.datetime_data(value.dtype)[0] in {"Y", "M", "W", "D"}
    return (value.astype("datetime64[D]") if is_day else micros).item()


def _zone(match: re.Match[str]) -> dt.tzinfo | None:
    if match["zone"] is None:
        return None
    if match["sign"] is None:
        return dt.UTC
    offset = dt.timedelta(hours=int(match["zone_hours"]), minutes=int(match["zone_minutes"] or 0))
    return dt.timezone(offset if match["sign"] == "+" else -offset)


def _special_name(value: float) -> str:
    return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
