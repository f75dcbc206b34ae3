"""What of a Polars filter prunes files: never a file with a row that Polars would keep."""

from __future__ import annotations

import datetime as dt
import math
import random
from decimal import Decimal
from functools import reduce
from itertools import chain
from operator import or_
from typing import TYPE_CHECKING, Any

import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from deltalake import write_deltalake
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from polars.io.plugins import register_io_source
from polars.testing import assert_frame_equal

from delta_sidecar.connect.polars import scan_delta
from delta_sidecar.connect.polars_predicates import prunable
from delta_sidecar.predicate import Bounds, ColumnBounds, may_match

if TYPE_CHECKING:
    from collections.abc import Iterator

    from polars._typing import EngineType

UTC = dt.UTC
NAN = math.nan
ROWS = 120
PARTITIONS = ("part", "part_day", "part_real")

c = pl.col


def clock(*parts: int) -> dt.datetime:
    return dt.datetime(*parts)  # type: ignore[arg-type]  # noqa: DTZ001 - a clock without a zone


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
    "real": [-math.inf, -1.5, -0.0, 0.0, 0.1, 0.7, 1.0, 2.5, 2.0**53, 1e300, math.inf, NAN],
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
    "clock": [clock(2026, 2, 10), clock(2026, 2, 10, 0, 0, 0, 1), clock(2300, 1, 1)],
    "part": ["a", "ab", "b%"],
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
    return draw(st.sampled_from([*chain.from_iterable(SPECIAL.values())]))


SPECIAL = {
    "truths": [
        c("flag"),
        ~c("flag"),
        c("flag").fill_null(value=False),
        c("flag").fill_null(value=True),
    ],
    "not a number": [
        c("real").is_nan(),
        c("real").is_not_nan(),
        c("single").is_finite(),
    ],
    "whole numbers": [
        c("whole") > 0.5,
        c("whole") == 2.0**53,
        c("whole") <= 2.0**53,
        c("small") < 2.5,
        c("small") < 2**40,
        c("small") == 2**40,
    ],
    "casts of whole numbers": [
        c("small").cast(pl.Float32) == 2.0**24,
        c("small").cast(pl.Float32) < 2.5,
        c("whole").cast(pl.Int32, strict=False) == 1,
        c("whole").cast(pl.Int32, strict=False, wrap_numerical=True) == 1,
        c("whole").cast(pl.Int32, strict=False).is_null(),
        c("whole").cast(pl.Int32, strict=False).ne_missing(1),
        c("whole").cast(pl.Int32, strict=False).eq_missing(None),
    ],
    "casts of reals": [
        c("single").cast(pl.Float64) == 0.1,
        c("single").cast(pl.Float64) <= 0.3,
        c("single").cast(pl.Float64) < 0.30000001,
        c("real").cast(pl.Float32) <= pl.lit(0.7, dtype=pl.Float32),
    ],
    "decimals": [
        c("money") > 0.1,
        c("money") == 1,
        c("money") < Decimal("1.234"),
        c("wide") >= Decimal("0.0000000000000000001"),
    ],
    "texts": [
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
    ],
    "times": [
        c("day") > clock(2026, 2, 10, 5),
        c("day") == clock(2026, 2, 10),
        c("day") == clock(2026, 2, 10, 5),
        c("clock") >= dt.date(2026, 2, 10),
        c("clock") > pl.datetime(2026, 2, 10),
        c("moment") >= pl.datetime(2026, 2, 11, time_zone="UTC") - pl.duration(days=1),
        c("moment").dt.hour() == 12,
        c("clock").cast(pl.Date) == dt.date(2026, 2, 10),
        c("clock").cast(pl.Datetime("ms")) <= clock(2026, 2, 10),
        c("day") == pl.lit("2026-02-10").str.to_date(),
    ],
    "others": [
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
    ],
}

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


@pytest.mark.parametrize("predicates", [pytest.param(found, id=name) for name, found in SPECIAL.items()])
def test_no_row_is_pruned_that_polars_keeps_for_something_special(
    predicates: list[pl.Expr], subtests: pytest.Subtests
) -> None:
    for predicate in predicates:
        for each in (predicate, ~predicate):
            with subtests.test(str(each)):
                check(each, whole=True)


@settings(max_examples=200)
@given(PREDICATES, st.booleans())
def test_no_row_is_pruned_that_polars_keeps(predicate: pl.Expr, whole: bool) -> None:  # noqa: FBT001
    check(predicate, whole=whole)


def check(predicate: pl.Expr, *, whole: bool) -> None:
    arrived = arriving(predicate)
    prunes = None if arrived is None else prunable(arrived, SCHEMA)
    if prunes is None:
        return
    kept = may_match(prunes, FileOfEachRow(whole=whole)).to_pylist()
    matching = FRAME.filter(predicate)["id"].to_list()
    assert [number for number in matching if not kept[number]] == [], str(prunes)


@pytest.fixture(scope="module")
def scanned(tmp_path_factory: pytest.TempPathFactory) -> pl.LazyFrame:
    """The same rows in a table, some files of few rows."""
    root = tmp_path_factory.mktemp("predicates") / "t"
    for first in range(0, ROWS, 12):
        write_deltalake(root, TABLE.take(list(range(first, first + 12))), mode="append", partition_by=["part"])
    return scan_delta(root)


@pytest.mark.full
@settings(max_examples=20, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(PREDICATES, st.sampled_from(["in-memory", "streaming"]))
def test_a_table_gives_the_rows_that_polars_keeps(
    scanned: pl.LazyFrame, predicate: pl.Expr, engine: EngineType
) -> None:
    read = scanned.filter(predicate).sort("id").collect(engine=engine)
    assert_frame_equal(read, FRAME.filter(predicate).sort("id"))


@pytest.mark.parametrize(
    ("predicate", "prunes"),
    [
        (c("whole") == 3, "whole = 3"),
        (pl.lit(3) < c("whole"), "whole > 3"),
        (~((c("whole") > 3) & (c("text") == "a")), "whole <= 3 OR text != 'a'"),
        (~c("flag"), "flag = FALSE"),
        (c("whole").eq_missing(3), "whole = 3"),
        (c("whole").ne_missing(3), "whole != 3 OR whole IS NULL"),
        (c("whole").ne_missing(None), "whole IS NOT NULL"),
        (c("whole").is_between(3, 5, closed="right"), "whole > 3 AND whole <= 5"),
        (c("whole").is_in([3, 1, None]), "whole IN (1, 3)"),
        (c("whole").is_in([3, 1, None], nulls_equal=True), "whole IN (1, 3) OR whole IS NULL"),
        (~c("whole").is_in([3, 1]), "whole NOT IN (1, 3)"),
        (c("whole").is_in(pl.Series([3, 1]).implode()), "whole IN (1, 3)"),
        (c("small").is_in(pl.Series([3, 2**40]).implode()), "small = 3"),
        (c("whole").is_in(pl.Series([[1, 2], [3]])), None),
        (c("whole") < 2.5, "whole <= 2"),
        (c("small") < 2**40, "small IS NOT NULL"),
        (c("real") > 1, "real > 1.0"),
        (~(c("real") > 1), "real <= 1.0"),
        (c("real").is_nan(), "real IS NOT NULL"),
        (c("single") == 0.5, "single = 0.5"),
        (c("money") < Decimal("1.234"), "money <= 1.23"),
        (c("bytes") == b"a", "bytes = X'61'"),
        (c("text").str.starts_with("a%"), r"text LIKE 'a\%%'"),
        (~c("text").str.contains("_", literal=True), r"text NOT LIKE '%\_%'"),
        (c("day") >= dt.date(2026, 2, 10), "day >= DATE '2026-02-10'"),
        (c("day") > clock(2026, 2, 10, 5), "day > DATE '2026-02-10'"),
        (c("moment") >= dt.datetime(2026, 2, 10, tzinfo=UTC), "moment >= TIMESTAMP '2026-02-10 00:00:00+00:00'"),
        (
            c("moment") < pl.datetime(2026, 2, 10, time_zone="UTC") - pl.duration(hours=1),
            "moment < TIMESTAMP '2026-02-09 23:00:00+00:00'",
        ),
        (c("clock") < clock(2026, 2, 10), "clock < TIMESTAMP '2026-02-10 00:00:00'"),
        (c("inner").struct.field("deep").struct.field("text") == "a", "`inner`.deep.text = 'a'"),
        ((c("whole") > 3) ^ c("flag"), "(whole > 3 AND flag = FALSE) OR (whole <= 3 AND flag = TRUE)"),
        ((c("whole") > 3) & (c("text").str.len_chars() > 2), "whole > 3"),
        ((c("whole") > 3) | (c("text").str.len_chars() > 2), None),
        ((c("whole") > 3).fill_null(value=False), "whole > 3"),
        ((c("whole") > 3).fill_null(value=True), None),
        (c("whole") == 2.0**60, None),
        (c("real") == NAN, None),
        (c("real") < math.inf, None),
        (c("whole") > c("small"), None),
        (c("moment") > clock(2026, 2, 10), None),
        (c("text").cast(pl.Categorical) == "a", None),
        (c("text") == pl.lit("a", dtype=pl.Enum(["a"])), None),
        (c("whole").cast(pl.Int32, strict=False).is_null(), None),
        (pl.lit(value=True), None),
        (pl.lit(value=False), "FALSE"),
    ],
)
def test_what_prunes(predicate: pl.Expr, prunes: str | None) -> None:
    arrived = arriving(predicate)
    assert arrived is not None
    found = prunable(arrived, SCHEMA)
    assert (None if found is None else str(found)) == prunes


def test_a_long_chain_prunes() -> None:
    found = prunable(pl.any_horizontal(c("whole") == number for number in range(200)), SCHEMA)
    assert str(found).count(" OR ") == 199
    assert prunable(reduce(or_, [c("whole") == number for number in range(200)]), SCHEMA) == found


def test_what_is_too_deep_prunes_nothing() -> None:
    deep = reduce(lambda inner, _: ~(inner & c("flag")), range(3_000), c("flag"))
    assert prunable(deep, SCHEMA) is None
