"""What of a Polars filter prunes files: never a file with a row that Polars would keep."""

from __future__ import annotations

import datetime as dt
import math
import random
from decimal import Decimal
from typing import TYPE_CHECKING, Any
from zoneinfo import ZoneInfo

import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from polars.io.plugins import register_io_source

from delta_sidecar.connect.polars_predicates import prunable
from delta_sidecar.predicate import Bounds, ColumnBounds, may_match

if TYPE_CHECKING:
    from collections.abc import Iterator

UTC = dt.UTC
NAN = math.nan
ROWS = 120
PARTITIONS = ("part", "part_day", "part_real")

c = pl.col

SCHEMA = pa.schema(
    [
        ("id", pa.int64()),
        ("whole", pa.int64()),
        ("small", pa.int32()),
        ("real", pa.float64()),
        ("single", pa.float32()),
        ("money", pa.decimal128(10, 2)),
        ("wide", pa.decimal128(38, 18)),
        ("flag", pa.bool_()),
        ("text", pa.string()),
        ("bytes", pa.binary()),
        ("day", pa.date32()),
        ("moment", pa.timestamp("us", tz="UTC")),
        ("clock", pa.timestamp("us")),
        ("inner", pa.struct([("x", pa.int64()), ("deep", pa.struct([("text", pa.string())]))])),
        ("part", pa.string()),
        ("part_day", pa.date32()),
        ("part_real", pa.float64()),
    ]
)

# Values that lie on each other's borders: where bounds are cut, widened, rounded or hide something.
VALUES: dict[str, list[Any]] = {
    "whole": [-(2**53) - 1, -1, 0, 1, 2, 3, 2**53, 2**53 + 1, 2**63 - 1],
    "small": [-(2**31), -1, 0, 1, 2, 2**24 + 1, 2**31 - 1],
    "real": [-math.inf, -1.5, -0.0, 0.0, 0.1, 0.3, 1.0, 2.5, 2.0**53, 1e300, math.inf, NAN],
    "single": [-math.inf, -1.5, -0.0, 0.0, 0.1, 0.3, 1.0, 2.5, 2.0**24, 3e38, math.inf, NAN],
    "money": [Decimal("-1.50"), Decimal("0.00"), Decimal("0.10"), Decimal("1.23"), Decimal("99999999.99")],
    "wide": [Decimal("-0.1"), Decimal("0.000000000000000001"), Decimal("1.000000000000000001"), Decimal(10) ** 19],
    "flag": [False, True],
    "text": ["", "a", "a%b", "a_", "ab", "b" * 40, "b" * 39 + "c", "é", "\U0001f600"],
    "bytes": [b"", b"\x00", b"a", b"\xff" * 20],
    "day": [dt.date(1969, 12, 31), dt.date(1970, 1, 1), dt.date(2026, 2, 10), dt.date(2026, 2, 11)],
    "moment": [
        dt.datetime(1969, 12, 31, 23, 59, 59, 999999, tzinfo=UTC),
        dt.datetime(2026, 2, 10, tzinfo=UTC),
        dt.datetime(2026, 2, 10, 0, 0, 0, 1, tzinfo=UTC),
        dt.datetime(2026, 2, 10, 12, 30, 0, 999, tzinfo=UTC),
    ],
    "clock": [dt.datetime(2026, 2, 10), dt.datetime(2026, 2, 10, 0, 0, 0, 1), dt.datetime(2300, 1, 1)],
    "part": ["", "a", "b%"],
    "part_day": [dt.date(2026, 2, 10), dt.date(2026, 2, 11)],
    "part_real": [-1.5, 0.0, NAN],
}


def some_rows() -> pa.Table:
    chance = random.Random(7)  # noqa: S311 - no secrets
    return pa.Table.from_pylist([a_row(chance, number) for number in range(ROWS)], schema=SCHEMA)


def a_row(chance: random.Random, number: int) -> dict[str, Any]:
    row = {name: None if chance.random() < 0.15 else chance.choice(values) for name, values in VALUES.items()}
    deep = None if chance.random() < 0.2 else {"text": chance.choice([None, *VALUES["text"]])}
    inner = {"x": chance.choice([None, *VALUES["whole"]]), "deep": deep}
    return {**row, "id": number, "inner": None if chance.random() < 0.2 else inner}


TABLE = some_rows()
FRAME = pl.DataFrame(TABLE)


class FileOfEachRow(Bounds):
    """Each row is a file: the bounds of a column are its value, except that NaN has none."""

    def __init__(self, *, whole: bool) -> None:
        self._whole = whole

    @property
    def num_rows(self) -> int:
        return len(TABLE)

    def column(self, path: tuple[str, ...]) -> ColumnBounds:
        values = TABLE[path[0]].combine_chunks()
        for field in path[1:]:
            values = pc.struct_field(values, field)
        ones = pa.array([1] * len(values), pa.int64())
        nulls = values.is_null().cast(pa.int64())
        if path[0] in PARTITIONS:
            return ColumnBounds(values, values, nulls, ones, exact=True)
        if pa.types.is_floating(values.type):
            values = pc.if_else(pc.is_nan(values), pa.scalar(None, values.type), values)
        if pa.types.is_nested(values.type):
            return ColumnBounds(None, None, nulls, ones)
        return ColumnBounds(values, values, nulls, ones, whole=self._whole)


def arriving(predicate: pl.Expr) -> pl.Expr | None:
    """What Polars hands to a source."""
    found: list[pl.Expr | None] = []

    def source(_columns: object, arrived: pl.Expr | None, _rows: object, _size: object) -> Iterator[pl.DataFrame]:
        found.append(arrived)
        return iter(())

    register_io_source(source, schema=FRAME.schema).filter(predicate).collect()
    return found[0] if found else None


OPERATORS = ["eq", "ne", "lt", "le", "gt", "ge", "eq_missing", "ne_missing"]


@st.composite
def leaves(draw: st.DrawFn) -> pl.Expr:
    name = draw(st.sampled_from([*VALUES, "inner.x", "inner.deep.text"]))
    column = c(name.partition(".")[0])
    for field in name.split(".")[1:]:
        column = column.struct.field(field)
    values = VALUES["whole" if name == "inner.x" else "text" if name == "inner.deep.text" else name]
    value = draw(st.sampled_from(values))
    form = draw(st.sampled_from(["compare", "compare", "in", "between", "null", "special"]))
    if form == "compare":
        other = pl.lit(draw(st.sampled_from([value, value, value, None])))
        left, right = draw(st.sampled_from([(column, other), (column, other), (other, column)]))
        compared: pl.Expr = getattr(left, draw(st.sampled_from(OPERATORS)))(right)
        return compared
    if form == "in":
        members = draw(st.lists(st.sampled_from([*values, None]), max_size=4))
        return column.is_in([value, *members], nulls_equal=draw(st.booleans()))
    if form == "between":
        ends = draw(st.lists(st.sampled_from(values), min_size=2, max_size=2))
        ends = [pl.lit(end) for end in ends]
        return column.is_between(*ends, closed=draw(st.sampled_from(["both", "left", "right", "none"])))
    if form == "null":
        return draw(st.sampled_from([column.is_null(), column.is_not_null()]))
    return draw(st.sampled_from(SPECIAL))


SPECIAL = [
    c("flag"),
    ~c("flag"),
    c("flag").fill_null(value=False),
    c("flag").fill_null(value=True),
    c("real").is_nan(),
    c("real").is_not_nan(),
    c("single").is_finite(),
    c("whole") > 0.5,
    c("whole") == 2.0**53,
    c("whole") <= 2.0**53,
    c("small") < 2.5,
    c("small") < 2**40,
    c("small") == 2**40,
    c("small").cast(pl.Float32) == 2.0**24,
    c("small").cast(pl.Float32) < 2.5,
    c("whole").cast(pl.Int32, strict=False) == 1,
    c("whole").cast(pl.Int32, strict=False).is_null(),
    c("whole").cast(pl.Int32, strict=False).ne_missing(1),
    c("whole").cast(pl.Int32, strict=False).eq_missing(None),
    c("single").cast(pl.Float64) == 0.1,
    c("single").cast(pl.Float64) <= 0.3,
    c("single").cast(pl.Float64) < 0.30000001,
    c("real").cast(pl.Float32) <= pl.lit(0.1, dtype=pl.Float32),
    c("money") > 0.1,
    c("money") == 1,
    c("money") < Decimal("1.234"),
    c("wide") >= Decimal("0.0000000000000000001"),
    c("text").str.starts_with("a"),
    c("text").str.starts_with("a%"),
    c("text").str.starts_with("b" * 35),
    c("text").str.ends_with("_"),
    c("text").str.contains("%", literal=True),
    c("text").str.contains("^a"),
    c("part").str.starts_with("b%"),
    c("part").str.contains("%", literal=True),
    c("text").str.len_chars() > 1,
    c("text") > c("part"),
    c("day") > dt.datetime(2026, 2, 10, 5),
    c("day") == dt.datetime(2026, 2, 10),
    c("day") == dt.datetime(2026, 2, 10, 5),
    c("clock") >= dt.date(2026, 2, 10),
    c("clock") > pl.datetime(2026, 2, 10),
    c("moment") >= pl.datetime(2026, 2, 11, time_zone="UTC") - pl.duration(days=1),
    c("moment").dt.hour() == 12,
    c("clock").cast(pl.Date) == dt.date(2026, 2, 10),
    c("clock").cast(pl.Datetime("ms")) <= dt.datetime(2026, 2, 10),
    c("day") == pl.lit("2026-02-10").str.to_date(),
    c("whole") + 1 == 2,
    c("inner").is_null(),
    c("inner").struct.field("deep").is_null(),
    pl.when(c("whole") > 1).then(c("flag")).otherwise(c("small") > 0),
    pl.when(c("flag")).then(statement=True).otherwise(statement=False),
    pl.any_horizontal(c("flag"), c("whole") > 1),
    pl.all_horizontal(c("flag"), c("whole") > 1),
    (c("whole") > 1) == c("flag"),
    (c("whole") > 1).is_null(),
    c("whole").map_batches(lambda numbers: numbers > 1, return_dtype=pl.Boolean, is_elementwise=True),
    pl.lit(value=True),
    pl.lit(value=False),
]

PREDICATES = st.recursive(
    leaves(),
    lambda inner: st.one_of(
        st.builds(lambda a, b: a & b, inner, inner),
        st.builds(lambda a, b: a | b, inner, inner),
        st.builds(lambda a, b: a ^ b, inner, inner),
        st.builds(lambda a: ~a, inner),
    ),
    max_leaves=4,
)


@settings(max_examples=300)
@given(PREDICATES, st.booleans())
def test_no_row_that_polars_keeps_is_pruned(predicate: pl.Expr, whole: bool) -> None:  # noqa: FBT001
    arrived = arriving(predicate)
    prunes = None if arrived is None else prunable(arrived, SCHEMA)
    if prunes is None:
        return
    kept = may_match(prunes, FileOfEachRow(whole=whole)).to_pylist()
    matching = FRAME.filter(predicate)["id"].to_list()
    assert [number for number in matching if not kept[number]] == [], str(prunes)
