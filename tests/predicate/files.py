"""Made-up files for pruning: their rows, and bounds as writers give them: true, and cut, wide or missing."""

# ruff: noqa: ANN401 - literals and bounds of every type

from __future__ import annotations

import datetime as dt
import math
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import pyarrow as pa
from hypothesis import strategies as st

from delta_sidecar.predicate import ColumnBounds

UTC = dt.UTC
_INT64 = 2**63 - 1

SCHEMA = pa.schema(
    [
        ("i", pa.int32()),
        ("l", pa.int64()),
        ("d", pa.date32()),
        ("ts", pa.timestamp("us", tz="UTC")),
        ("tn", pa.timestamp("us")),
        ("f", pa.float64()),
        ("f4", pa.float32()),
        ("s", pa.string()),
        ("bin", pa.binary()),
        ("dec", pa.decimal128(7, 2)),
        ("wide", pa.decimal128(30, 4)),
        ("b", pa.bool_()),
        ("st", pa.struct([("x", pa.int64()), ("y", pa.string())])),
    ]
)
TYPES: dict[tuple[str, ...], pa.DataType] = {
    **{(field.name,): field.type for field in SCHEMA if field.name != "st"},
    ("st", "x"): pa.int64(),
    ("st", "y"): pa.string(),
}


def _float32(value: float) -> float:
    return pa.array([value], pa.float32())[0].as_py()


_moments = st.integers(-3_000_000, 3_000_000).map(
    lambda micros: dt.datetime(2026, 2, 8, tzinfo=UTC) + dt.timedelta(microseconds=micros)
) | st.sampled_from(
    [
        dt.datetime(1, 1, 1, tzinfo=UTC),
        dt.datetime(9999, 12, 31, 23, 59, 59, 999999, tzinfo=UTC),
        dt.datetime(1969, 12, 31, 23, 59, 59, 999500, tzinfo=UTC),
    ]
)
_texts = st.text("abAé%_\\\ufffd\U0001f600\n'", max_size=5)
_floats = st.sampled_from([0.0, -0.0, 1.5, -2.5, 0.1, 3.0, 1e30, math.nan, math.inf, -math.inf])

VALUES: dict[tuple[str, ...], st.SearchStrategy[Any]] = {
    ("i",): st.integers(-4, 4) | st.sampled_from([2**31 - 1, -(2**31)]),
    ("l",): st.integers(-4, 4) | st.sampled_from([_INT64, -_INT64 - 1]),
    ("d",): st.dates(dt.date(2026, 2, 5), dt.date(2026, 2, 11)),
    ("ts",): _moments,
    ("tn",): _moments.map(lambda moment: moment.replace(tzinfo=None)),
    ("f",): _floats,
    ("f4",): _floats.map(_float32),
    ("s",): _texts,
    ("bin",): st.binary(max_size=3) | st.sampled_from([b"\xff", b"\xff\xff", b"a\xff\xff" * 6, b"\xff" * 20]),
    ("dec",): st.integers(-300, 300).map(lambda cents: Decimal(cents) / 100)
    | st.sampled_from([Decimal("99999.99"), Decimal("-99999.99")]),
    ("wide",): st.integers(-9, 9).map(lambda n: Decimal(n) / 4 + Decimal(10) ** 20),
    ("b",): st.booleans(),
    ("st", "x"): st.integers(-4, 4),
    ("st", "y"): _texts,
}


@dataclass(frozen=True)
class Known:
    """Bounds by column, for `may_match`."""

    num_rows: int
    by_path: dict[tuple[str, ...], ColumnBounds]

    def column(self, path: tuple[str, ...]) -> ColumnBounds | None:
        return self.by_path.get(path)


Row = dict[str, Any]


@st.composite
def rows(draw: st.DrawFn) -> list[list[Row]]:
    """Some files, each with some rows."""
    maybe = {path: st.none() | values for path, values in VALUES.items()}
    inner = st.none() | st.fixed_dictionaries({"x": maybe["st", "x"], "y": maybe["st", "y"]})
    row = st.fixed_dictionaries({path[0]: maybe[path] for path in TYPES if len(path) == 1} | {"st": inner})
    return draw(st.lists(st.lists(row, max_size=4), min_size=1, max_size=4))


@st.composite
def statistics(draw: st.DrawFn, files: list[list[Row]]) -> Known:
    """Bounds of the files as the statistics of some writer."""
    return Known(len(files), {path: column_statistics(draw, files, path) for path in TYPES if draw(st.booleans())})


def value_at(row: Row, path: tuple[str, ...]) -> Any:
    value: Any = row
    for name in path:
        value = None if value is None else value[name]
    return value


def column_statistics(draw: st.DrawFn, files: list[list[Row]], path: tuple[str, ...]) -> ColumnBounds:
    type_ = TYPES[path]
    lowers, uppers, nulls, counts, tights = [], [], [], [], []
    for file in files:
        values = [value_at(row, path) for row in file]
        ordered = [value for value in values if value is not None and value == value]  # noqa: PLR0124
        tight = draw(st.sampled_from([True, None, False]))
        if tight is False:
            # Bounds and counts of rows that a deletion vector has hidden since.
            ordered += draw(st.lists(VALUES[path].filter(lambda value: value == value), max_size=2))  # noqa: PLR0124
        lower, upper = (min(ordered), max(ordered)) if ordered else (None, None)
        if ordered and (pa.types.is_string(type_) or pa.types.is_binary(type_)) and draw(st.booleans()):
            lower, upper = _cut(draw, lower, upper)
        if ordered and pa.types.is_timestamp(type_):
            lower, upper = (moment.replace(microsecond=moment.microsecond // 1000 * 1000) for moment in (lower, upper))
        if pa.types.is_floating(type_) and draw(st.booleans()) and any(value != value for value in values):  # noqa: PLR0124
            upper = math.nan
        null_count = sum(value is None for value in values)
        if tight is False and null_count not in {0, len(values)}:
            null_count = draw(st.integers(1, len(values) - 1))
        lowers.append(lower if draw(st.integers(0, 9)) else None)
        uppers.append(upper if draw(st.integers(0, 9)) else None)
        nulls.append(draw(st.sampled_from([null_count, null_count, None])))
        counts.append(draw(st.sampled_from([len(values), len(values), None])))
        tights.append(tight)
    return ColumnBounds(
        lower=pa.array(lowers, type_),
        upper=pa.array(uppers, type_),
        null_count=pa.array(nulls, pa.int64()),
        num_records=pa.array(counts, pa.int64()),
        tight=pa.array(tights, pa.bool_()),
    )


def partition_values(draw: st.DrawFn, files: list[list[Row]], path: tuple[str, ...]) -> ColumnBounds:
    """The value of the first row of each file as a partition value; without a zone, in a zone of its writer."""
    type_ = TYPES[path]
    values = [value_at(file[0], path) if file else None for file in files]
    zoneless = None
    if pa.types.is_timestamp(type_):
        zoneless = [draw(st.sampled_from([True, False, None])) for _ in files]
        for i, value in enumerate(values):
            if zoneless[i] is not False and value is not None and 1 < value.year < 9999:
                values[i] = value + dt.timedelta(hours=draw(st.integers(-14, 14)))
    one = pa.array(values, type_)
    flags = None if zoneless is None else pa.array(zoneless, pa.bool_())
    return ColumnBounds(one, one, None, None, exact=True, zoneless=flags)


def _cut(draw: st.DrawFn, lower: Any, upper: Any) -> tuple[Any, Any]:
    length = draw(st.integers(0, 3))
    # U+FFFD is what writers append that go by Java's order of UTF-16 units.
    tie = draw(st.sampled_from(["", "\U0010ffff", "\ufffd"])) if isinstance(upper, str) else b""
    return lower[:length], upper[:length] + tie if len(upper) > length else upper
