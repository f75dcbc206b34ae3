"""Columns for random tables: their types, values that collide and sit on edges, and the SQL text of a value."""

from __future__ import annotations

import datetime as dt
import math
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from hypothesis import strategies as st

if TYPE_CHECKING:
    import random

UTC = dt.UTC
DATA_COLUMNS = {
    "id": "long",
    "name": "string",
    "at": "timestamp",
    "day": "date",
    "score": "double",
    "flag": "boolean",
    "amount": "decimal(10,2)",
}
LATER_COLUMN = ("later", "long")
"""A column that a metadata change may add: files from before know nothing of it."""
PARTITION_COLUMNS = {
    "p_text": "string",
    "p_int": "integer",
    "p_day": "date",
    "p_at": "timestamp",
    "p_flag": "boolean",
    "p_amount": "decimal(10,2)",
}

_NULL_SHARE = 0.15
_LONG = "x" * 31
_MIDNIGHT = dt.datetime(2024, 3, 1, tzinfo=UTC)
_VALUES: dict[str, list[Any]] = {
    "long": [-2, -1, 0, 1, 2, 3, 10, 2**53 + 1, 2**63 - 1, -(2**63)],
    "integer": [-2, -1, 0, 1, 2, 10, 2**31 - 1],
    "string": [
        "",
        "a",
        "ab",
        "b",
        "B",
        "10",
        "9",
        "O'Brien",
        "50%",
        "a_b",
        "é",
        "ü b",
        "😀",
        _LONG + "aa",
        _LONG + "ab",
        _LONG + "b" * 9,
        _LONG + "é😀",
    ],
    "timestamp": [_MIDNIGHT + dt.timedelta(microseconds=micros) for micros in (-1, 0, 1, 499, 999, 1_000, 1_001)]
    + [_MIDNIGHT + dt.timedelta(hours=hours) for hours in (-14, -1, 1, 14, 24)]
    + [dt.datetime(1969, 12, 31, 23, 59, 59, 999_999, tzinfo=UTC)],
    "date": [dt.date(2024, 2, 28), dt.date(2024, 2, 29), dt.date(2024, 3, 1), dt.date(1969, 12, 31)],
    "double": [-1.5, -0.0, 0.0, 0.1, 1.0, 2.5, 1_000_000.0],
    "boolean": [True, False],
    "decimal(10,2)": [Decimal(text) for text in ("-1.50", "0.00", "0.01", "1.00", "99999999.99")],
}
# An empty string in a partition is a null, so no partition holds one.
_PARTITION_TEXTS = [text for text in _VALUES["string"] if text]


def value(kind: str, dice: random.Random) -> Any:  # noqa: ANN401 - a value of any column type
    """Throws a value of a column: sometimes null, doubles sometimes NaN."""
    if dice.random() < _NULL_SHARE:
        return None
    known = _VALUES[kind]
    return dice.choice([*known, math.nan] if kind == "double" else known)


def partition_value(kind: str, dice: random.Random) -> Any:  # noqa: ANN401
    """Throws a value of a partition column, sometimes null."""
    if dice.random() < _NULL_SHARE:
        return None
    return dice.choice(_PARTITION_TEXTS if kind == "string" else _VALUES[kind])


def literals(kind: str) -> st.SearchStrategy[Any]:
    """Gives values that a predicate compares a column with; those that files hold are among them."""
    return st.sampled_from(_VALUES[kind])


def sql_literal(value: Any, *, keyword: bool = True) -> str:  # noqa: ANN401
    """Writes a value as SQL; dates and timestamps with their keyword, or as a bare string."""
    if isinstance(value, bool):
        return "TRUE" if value else "FALSE"
    if isinstance(value, dt.datetime):
        text = value.astimezone(UTC).replace(tzinfo=None).isoformat(timespec="microseconds")
        return f"TIMESTAMP '{text}Z'" if keyword else f"'{text}Z'"
    if isinstance(value, dt.date):
        return f"DATE '{value.isoformat()}'" if keyword else f"'{value.isoformat()}'"
    if isinstance(value, str):
        return "'" + value.replace("'", "''") + "'"
    return str(value)
