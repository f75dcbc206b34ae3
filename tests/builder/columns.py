"""Columns for random tables: their types, values that collide and sit on edges, and a value as SQL or JSON."""

from __future__ import annotations

import datetime as dt
import math
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from hypothesis import strategies as st
from tests.builder.values import nearest_float32

if TYPE_CHECKING:
    import random
    from collections.abc import Mapping

UTC = dt.UTC
Kind = str | dict[str, "Kind"]
"""A Delta type by name, or the fields of a struct."""

DATA_COLUMNS: dict[str, Kind] = {
    "id": "long",
    "name": "string",
    "at": "timestamp",
    "day": "date",
    "score": "double",
    "flag": "boolean",
    "amount": "decimal(10,2)",
    "tiny": "byte",
    "small": "short",
    "count": "integer",
    "ratio": "float",
    "raw": "binary",
    "clock": "timestamp_ntz",
    "wide": "decimal(38,18)",
    # A name with a dot beside a struct with a field: both are `dot.ted` to whoever joins names by dots.
    "dot.ted": "long",
    "dot": {"ted": "long", "deep": {"er": "string"}},
    "info": {
        "num": "long",
        "text": "string",
        "at": "timestamp",
        "flag": "boolean",
        "inner": {"score": "double", "day": "date", "ratio": "float", "raw": "binary"},
    },
}
LATER_COLUMNS: dict[str, Kind] = {"later": "long", "later_text": "string", "later_info": {"num": "long"}}
"""Columns that a metadata change may add: files from before know nothing of them."""
PARTITION_COLUMNS: dict[str, str] = {
    "p_text": "string",
    "p_byte": "byte",
    "p_short": "short",
    "p_int": "integer",
    "p_long": "long",
    "p_float": "float",
    "p_double": "double",
    "p_flag": "boolean",
    "p_raw": "binary",
    "p_day": "date",
    "p_at": "timestamp",
    "p_clock": "timestamp_ntz",
    "p_amount": "decimal(10,2)",
    "p_wide": "decimal(38,18)",
}

_NULL_SHARE = 0.15
_NAN_SHARE = 0.2
_LONG = "x" * 31
_MIDNIGHT = dt.datetime(2024, 3, 1, tzinfo=UTC)
_MOMENTS = [
    *(_MIDNIGHT + dt.timedelta(microseconds=micros) for micros in (-1, 0, 1, 499, 999, 1_000, 1_001)),
    *(_MIDNIGHT + dt.timedelta(hours=hours) for hours in (-14, -1, 1, 14, 24)),
    dt.datetime(1969, 12, 31, 23, 59, 59, 999_999, tzinfo=UTC),
    dt.datetime(1900, 1, 1, 0, 0, 0, 1, tzinfo=UTC),
]
_VALUES: dict[str, list[Any]] = {
    "byte": [-128, -1, 0, 1, 2, 127],
    "short": [-(2**15), -1, 0, 1, 2, 2**15 - 1],
    "integer": [-2, -1, 0, 1, 2, 10, 2**31 - 1],
    "long": [-2, -1, 0, 1, 2, 3, 10, 2**53 + 1, 2**63 - 1, -(2**63)],
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
        _LONG + "x😀",
        _LONG + "x\U0010ffffz",
    ],
    "binary": [b"", b"\x00", b"a", b"ab", b"\xfe\xff"],
    "timestamp": _MOMENTS,
    "timestamp_ntz": [moment.replace(tzinfo=None) for moment in _MOMENTS],
    "date": [
        *(dt.date(2024, month, day) for month, day in ((2, 28), (2, 29), (3, 1))),
        dt.date(1969, 12, 31),
        dt.date(1, 1, 1),
        dt.date(9999, 12, 31),
    ],
    "double": [-1.5, -0.0, 0.0, 0.1, 1.0, 2.5, 1_000_000.0, 1e300, 5e-324, math.inf, -math.inf],
    "float": [-1.5, -0.0, 0.0, 1.0, 2.5, math.inf, -math.inf, *map(nearest_float32, (0.1, 16_777_216.0, 3e38, 0.3))],
    "boolean": [True, False],
    "decimal(10,2)": [Decimal(text) for text in ("-1.50", "0.00", "0.01", "1.00", "99999999.99")],
    "decimal(38,18)": [
        Decimal(text)
        for text in (
            "0.000000000000000000",
            "0.100000000000000000",
            "12345678901234567890.123456789012345678",
            "12345678901234567890.123456789012345679",
            "-12345678901234567890.123456789012345678",
            "9223372036854775807.000000000000000000",
        )
    ],
}

PRIMITIVES = tuple(_VALUES)


def value(kind: Kind, dice: random.Random) -> Any:  # noqa: ANN401 - a value of any column type
    """Throws a value of a column: sometimes null, floating ones sometimes NaN."""
    if dice.random() < _NULL_SHARE:
        return None
    if isinstance(kind, dict):
        return {name: value(inner, dice) for name, inner in kind.items()}
    return _thrown(kind, dice)


def partition_value(kind: str, dice: random.Random) -> Any:  # noqa: ANN401
    """Throws a value of a partition column, sometimes null; empty texts are null there, so there are none."""
    if dice.random() < _NULL_SHARE:
        return None
    return {"": "a", b"": b"a"}.get(found := _thrown(kind, dice), found)


def literals(kind: str) -> st.SearchStrategy[Any]:
    """Gives values that a predicate compares a column with; those that files hold are among them."""
    return st.sampled_from([*_with_nan(kind), *_BESIDE.get(kind, ())])


def sql_literal(value: Any, *, keyword: bool = True) -> str:  # noqa: ANN401
    """Writes a value as SQL; dates and timestamps with their keyword, or as a bare string."""
    if value is None:
        return "NULL"
    if isinstance(value, bool):
        return "TRUE" if value else "FALSE"
    if isinstance(value, dt.date):
        word = "TIMESTAMP " if isinstance(value, dt.datetime) else "DATE "
        return f"{word if keyword else ''}'{moment_text(value)}'"
    if isinstance(value, str):
        return "'" + value.replace("'", "''") + "'"
    if isinstance(value, bytes):
        return f"X'{value.hex()}'"
    if isinstance(value, float) and not math.isfinite(value):
        return f"CAST('{value}' AS DOUBLE)"
    return str(value)


def json_value(value: Any) -> Any:  # noqa: ANN401
    """Gives what stands for a value in a predicate as JSON.

    Raises:
        TypeError: JSON has nothing for it.
    """
    if isinstance(value, bytes):
        msg = "JSON has no bytes"
        raise TypeError(msg)
    if isinstance(value, dt.date):
        return moment_text(value)
    return str(value) if isinstance(value, float) and not math.isfinite(value) else value


def moment_text(value: dt.date) -> str:
    """Writes a date, or a timestamp with a zone only if it has one."""
    if not isinstance(value, dt.datetime):
        return value.isoformat()
    if value.tzinfo is None:
        return value.isoformat(timespec="microseconds")
    return value.astimezone(UTC).replace(tzinfo=None).isoformat(timespec="microseconds") + "Z"


def kinds_of(columns: Mapping[str, Kind]) -> set[str]:
    """Gives the primitive types in some columns."""
    found: set[str] = set()
    for kind in columns.values():
        found |= kinds_of(kind) if isinstance(kind, dict) else {kind}
    return found


_BESIDE: dict[str, list[Any]] = {
    "float": [0.1, 0.3],
    "decimal(10,2)": [Decimal("0.005"), Decimal("1e9")],
    "date": [dt.date(2024, 3, 2)],
    "byte": [128, -129],
}
"""Values between those of a column, or beyond them."""


def _thrown(kind: str, dice: random.Random) -> Any:  # noqa: ANN401
    if kind in {"double", "float"} and dice.random() < _NAN_SHARE:
        return math.nan
    return dice.choice(_VALUES[kind])


def _with_nan(kind: str) -> list[Any]:
    return [*_VALUES[kind], math.nan] if kind in {"double", "float"} else _VALUES[kind]
