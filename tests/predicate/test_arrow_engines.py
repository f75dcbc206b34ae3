"""What DuckDB and DataFusion really hand to a dataset's scanner, and what it comes to as a predicate."""

from __future__ import annotations

import datetime as dt
from dataclasses import dataclass
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import datafusion
import duckdb
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
import pytest

from delta_sidecar.predicate import matches
from delta_sidecar.predicate.approximate.arrow import prunable

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    Engine = Callable[[str], tuple[list[int], "Spy"]]

HOURS = [dt.datetime(2026, 2, 8, hour) for hour in range(5)]  # noqa: DTZ001 - with a zone and without one
STRUCTS = [{"x": 1, "z": {"w": True}}, {"x": 2, "z": {"w": False}}, {"x": None, "z": None}, None, {"x": 5, "z": None}]
TABLE = pa.table(
    {
        "id": pa.array(range(6)),
        "i": pa.array([1, 2, 3, 4, 5, None], pa.int32()),
        "f": pa.array([0.1, 0.7, float("nan"), 1.5, -0.0, None]),
        "f4": pa.array([0.1, 0.7, float("nan"), 1.5, -0.0, None], pa.float32()),
        "s": pa.array(["a", "ab", "b%", "é", "", None]),
        "b": pa.array([True, False, True, False, True, None]),
        "tn": pa.array([*HOURS, None], pa.timestamp("us")),
        "ts": pa.array([*HOURS, None], pa.timestamp("us", "UTC")),
        "d": pa.array([*(dt.date(2026, 2, day) for day in range(6, 11)), None]),
        "dec": pa.array([*map(Decimal, ("0.10", "0.70", "1.50", "2.00", "-1.00")), None], pa.decimal128(7, 2)),
        "bin": pa.array([b"a", b"b", b"\xff", b"", b"x", None]),
        "st": pa.array([*STRUCTS, None], pa.struct([("x", pa.int64()), ("z", pa.struct([("w", pa.bool_())]))])),
        "a.b": pa.array([1, 2, 3, 4, 5, None]),
    }
)


@dataclass(frozen=True)
class Answer:
    """What a scanner gives: rows that the predicate keeps, then those that the expression keeps."""

    table: pa.Table

    @property
    def projected_schema(self) -> pa.Schema:
        return self.table.schema

    def to_reader(self) -> pa.RecordBatchReader:
        return self.table.to_reader()

    def to_batches(self) -> Iterator[pa.RecordBatch]:
        return iter(self.table.to_batches())

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        return self.to_reader().__arrow_c_stream__(requested_schema)


class Spy(ds.Dataset):  # type: ignore[misc]
    """A dataset that keeps what it was asked for, and prunes its rows by it."""

    def __init__(self) -> None:
        self.asked: list[pc.Expression | None] = []

    @property
    def schema(self) -> pa.Schema:
        return TABLE.schema

    def scanner(
        self,
        columns: list[str] | None = None,
        filter: pc.Expression | None = None,  # noqa: A002 - as pyarrow has it
        **_: object,
    ) -> Answer:
        self.asked.append(filter)
        table = TABLE
        if filter is not None:
            predicate = prunable(filter, TABLE.schema)
            if predicate is not None:
                table = table.filter(matches(predicate, table))
            table = table.filter(filter)
        return Answer(table if columns is None else table.select(columns))

    def get_fragments(self, filter: pc.Expression | None = None) -> Iterator[Fragment]:  # noqa: A002, ARG002
        yield Fragment(self)


@dataclass(frozen=True)
class Fragment:
    dataset: Spy

    @property
    def physical_schema(self) -> pa.Schema:
        return TABLE.schema

    def scanner(self, schema: object = None, **asked: Any) -> Answer:  # noqa: ANN401, ARG002
        return self.dataset.scanner(**asked)


@pytest.fixture(scope="module")
def in_duckdb() -> Iterator[Engine]:
    """DuckDB, opened once for all conditions."""
    with duckdb.connect() as connection:
        connection.execute("SET timezone = 'UTC'")

        def find(condition: str) -> tuple[list[int], Spy]:
            spy = Spy()
            connection.register("t", spy)
            found = connection.execute(f"SELECT id FROM t WHERE {condition} ORDER BY id").fetchall()  # noqa: S608
            return [row for (row,) in found], spy

        yield find


@pytest.fixture(scope="module")
def in_datafusion() -> Engine:
    """DataFusion, opened once for all conditions."""
    context = datafusion.SessionContext()

    def find(condition: str) -> tuple[list[int], Spy]:
        spy = Spy()
        context.deregister_table("t")
        context.register_dataset("t", spy)
        found = context.sql(f"SELECT id FROM t WHERE {condition} ORDER BY id").to_arrow_table()  # noqa: S608
        return found["id"].to_pylist(), spy

    return find


def predicate_of(spy: Spy) -> str | None:
    assert spy.asked
    assert len({str(expression) for expression in spy.asked}) == 1
    if spy.asked[0] is None:
        return None
    return str(prunable(spy.asked[0], TABLE.schema))


TWO = "TIMESTAMP '2026-02-08 02:00:00'"
TWO_UTC = "TIMESTAMP '2026-02-08 02:00:00+00:00'"
THE_DAY = "tn >= TIMESTAMP '2026-02-08 00:00:00' AND tn < TIMESTAMP '2026-02-09 00:00:00'"

# A condition, the rows that meet it, and what the scanner is asked for by DuckDB and by DataFusion; None where the
# engine filters by itself.
CASES = {
    "comparisons": [
        ("i = 3", [2], "i = 3", "i = 3"),
        ("i <> 3", [0, 1, 3, 4], "i != 3", "i != 3"),
        ("i < 3", [0, 1], "i < 3", "i < 3"),
        ("3 < i", [3, 4], "i > 3", "i > 3"),
        ("i BETWEEN 2 AND 4", [1, 2, 3], "i >= 2 AND i <= 4", "i >= 2 AND i <= 4"),
    ],
    "lists and null": [
        ("i IN (1, 2, 99)", [0, 1], "i IS NOT NULL AND i IN (1, 2, 99)", "i = 1 OR i = 2 OR i = 99"),
        ("i IN (1, 2, 3, 99)", [0, 1, 2], "i IS NOT NULL AND i IN (1, 2, 3, 99)", "i IN (1, 2, 3, 99)"),
        ("i NOT IN (1, 2)", [2, 3, 4], "i IS NOT NULL AND (i NOT IN (1, 2) OR i IS NULL)", "i != 1 AND i != 2"),
        ("i IS NULL", [5], "i IS NULL", "i IS NULL"),
        ("i IS NOT NULL", [0, 1, 2, 3, 4], "i IS NOT NULL", "i IS NOT NULL"),
    ],
    "combinations": [
        ("i = 1 OR s = 'ab'", [0, 1], "i = 1 OR s = 'ab'", "i = 1 OR s = 'ab'"),
        ("i < 2 OR i IS NULL", [0, 5], "i < 2 OR i IS NULL", "i < 2 OR i IS NULL"),
        ("NOT (i > 3)", [0, 1, 2], "i <= 3", "i <= 3"),
        ("NOT (i > 3 AND s = 'a')", [0, 1, 2, 3, 4], "i <= 3 OR s != 'a'", "i <= 3 OR s != 'a'"),
        (
            "(i > 2 AND s IS NOT NULL) OR (i < 2 AND b)",
            [0, 2, 3, 4],
            "i > 2 OR i < 2",
            "(i > 2 AND s IS NOT NULL) OR (i < 2 AND b = TRUE)",
        ),
        ("i > 2 AND abs(i) > 3", [3, 4], "i > 2", "i > 2"),
        ("i > 2 OR abs(i) > 3", [2, 3, 4], None, None),
    ],
    "sums and casts": [
        ("i + 1 = 3", [1], "i = 2", None),
        ("CAST(i AS BIGINT) = 3", [2], "i = 3", "i = 3"),
        ("i = 3.0", [2], None, None),
    ],
    "texts": [
        ("s = 'é'", [3], "s = 'é'", "s = 'é'"),
        ("s >= 'a' AND s < 'b'", [0, 1], "s >= 'a' AND s < 'b'", "s >= 'a' AND s < 'b'"),
        ("s LIKE 'a%'", [0, 1], None, None),
        ("s NOT LIKE 'a%'", [2, 3, 4], None, None),
        ("s IN ('a', 'b%')", [0, 2], "s IS NOT NULL AND s IN ('a', 'b%')", "s = 'a' OR s = 'b%'"),
    ],
    "truths": [
        ("b", [0, 2, 4], None, "b = TRUE"),
        ("NOT b", [1, 3], None, "b = FALSE"),
        ("b = TRUE", [0, 2, 4], "b = TRUE", "b = TRUE"),
        ("b = FALSE", [1, 3], "b = FALSE", "b = FALSE"),
        ("b IS TRUE", [0, 2, 4], None, None),
    ],
    "reals": [
        ("f < 0.5", [0, 4], "f < 0.5", "f < 0.5"),
        ("f = 0.0", [4], "f = 0.0", "f = 0.0"),
        ("f <> 0.7", [0, 2, 3, 4], None, "f != 0.7"),
        ("f IN (0.1, 0.0)", [0, 4], "f IS NOT NULL AND (f = 0.0 OR f = 0.1)", "f = 0.1 OR f = 0.0"),
        ("f4 < CAST(0.7 AS REAL)", [0, 4], "f4 < 0.699999988079071", "f4 < 0.699999988079071"),
    ],
    "decimals": [
        ("dec = 0.7", [1], "dec = 0.70", "dec = 0.70"),
        ("dec > 0.5", [1, 2, 3], "dec > 0.50", "dec > 0.50"),
        ("dec < 1.005", [0, 1, 4], None, None),
        ("dec IN (0.7, 1.5)", [1, 2], "dec IS NOT NULL AND dec IN (0.70, 1.50)", "dec = 0.70 OR dec = 1.50"),
    ],
    "times": [
        (f"tn = {TWO}", [2], f"tn = {TWO}", f"tn = {TWO}"),
        ("tn >= '2026-02-08 02:00:00'", [2, 3, 4], f"tn >= {TWO}", f"tn >= {TWO}"),
        (f"ts > {TWO}", [3, 4], f"ts > {TWO_UTC}", f"ts > {TWO_UTC}"),
        (f"ts BETWEEN {TWO} AND {TWO}", [2], f"ts = {TWO_UTC}", f"ts = {TWO_UTC}"),
        ("CAST(tn AS DATE) = DATE '2026-02-08'", [0, 1, 2, 3, 4], THE_DAY, None),
        ("date_trunc('day', tn) = TIMESTAMP '2026-02-08'", [0, 1, 2, 3, 4], THE_DAY, None),
        ("d = DATE '2026-02-07'", [1], "d = DATE '2026-02-07'", "d = DATE '2026-02-07'"),
        ("d > '2026-02-08'", [3, 4], "d > DATE '2026-02-08'", "d > DATE '2026-02-08'"),
        ("d < TIMESTAMP '2026-02-07 12:00:00'", [0, 1], "d < DATE '2026-02-08'", None),
    ],
    "fields": [
        ("st.x = 1", [0], "st.x = 1", None),
        ("st.x IN (1, 5)", [0, 4], "st.x IS NOT NULL AND st.x IN (1, 5)", None),
        ("st.z.w = TRUE", [0], "st.z.w = TRUE", None),
        ("st.x > 1 OR i = 1", [0, 1, 4], "st.x > 1 OR i = 1", None),
        ("st IS NULL", [3, 5], "st IS NULL", "st IS NULL"),
        ('"a.b" > 3', [3, 4], "`a.b` > 3", "`a.b` > 3"),
    ],
}


@pytest.mark.parametrize("kind", CASES)
def test_duckdb_finds_every_row(in_duckdb: Engine, kind: str, subtests: pytest.Subtests) -> None:
    for condition, rows, predicate, _ in CASES[kind]:
        with subtests.test(condition):
            found, spy = in_duckdb(condition)
            assert (found, predicate_of(spy)) == (rows, predicate)


@pytest.mark.parametrize("kind", CASES)
def test_datafusion_finds_every_row(in_datafusion: Engine, kind: str, subtests: pytest.Subtests) -> None:
    for condition, rows, _, predicate in CASES[kind]:
        with subtests.test(condition):
            found, spy = in_datafusion(condition)
            assert (found, predicate_of(spy)) == (rows, predicate)


def test_duckdb_asks_for_bytes(in_duckdb: Engine) -> None:
    found, spy = in_duckdb("bin = '\\xFF'::BLOB")
    assert (found, predicate_of(spy)) == ([2], "bin = X'FF'")


def test_for_duckdb_nan_is_above_all_and_its_filter_is_kept_back(in_duckdb: Engine) -> None:
    found, spy = in_duckdb("f > 0.5")
    assert (found, predicate_of(spy)) == ([1, 2, 3], None)


def test_datafusion_hands_over_what_means_something_else_to_arrow(in_datafusion: Engine) -> None:
    """It takes the answer as it is, so what it hands over decides: NaN is not above, null is not in the list."""
    found, spy = in_datafusion("f > 0.5")
    assert (found, predicate_of(spy)) == ([1, 3], "f > 0.5")
    found, spy = in_datafusion("i NOT IN (1, 2, 3, 4)")
    assert (found, predicate_of(spy)) == ([4, 5], "i NOT IN (1, 2, 3, 4) OR i IS NULL")
