"""A number beside a column of 32-bit floats: every engine finds through us what it finds in its own table.

Each value is in a file of its own, whose bounds are that value, so that a file too few is a row too few.
"""

from __future__ import annotations

import json
import math
from typing import TYPE_CHECKING

import duckdb
import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from tests.builder import TableBuilder
from tests.rows.tables import put

from delta_sidecar import DeltaTable, build_sidecar
from delta_sidecar.connect import datafusion as for_datafusion
from delta_sidecar.connect import duckdb as for_duckdb
from delta_sidecar.connect import polars as for_polars

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

MOST = float(np.finfo(np.float32).max)
LEAST = float(np.finfo(np.float32).smallest_subnormal)
NEAR = [float(np.nextafter(np.float32(0.1), np.float32(side))) for side in (0, 1)]
VALUES = [0.1, *NEAR, 0.5, 1e30, 2.0**24, MOST, -MOST, LEAST, 0.0, -0.0, math.inf, -math.inf, math.nan, None]
NUMBERS = ["0.1", "0.5", "1e30", "16777217", "16777216.5", "1e39", "-1e39", "1e-46", "0.0"]
OPERATORS = ["=", "<>", "<", "<=", ">", ">="]
CONDITIONS = [
    *(f"x {op} {number}" for op in OPERATORS for number in NUMBERS),
    *(f"x {op} CAST({number} AS DOUBLE)" for op in ("=", "<") for number in NUMBERS[:6]),
    *(f"x IN ({number}, 7)" for number in NUMBERS),
    *(f"x NOT IN ({number}, 7)" for number in NUMBERS),
    "x BETWEEN 0.1 AND 1e30",
    "x = CAST('NaN' AS DOUBLE)",
    "x = CAST('Infinity' AS DOUBLE)",
]


@pytest.fixture(scope="module", params=[False, True], ids=["flat", "partitioned"])
def table(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, pa.Table]:
    """A table, and the same rows in memory."""
    root: Path = tmp_path_factory.mktemp("floats")
    partitions = ["x"] if request.param else []
    built = TableBuilder(root, schema={"i": "long", "x": "float"}, partition_columns=partitions)
    rows = pa.table({"i": pa.array(range(len(VALUES)), pa.int64()), "x": pa.array(VALUES, pa.float32())})
    actions = []
    for at, number in enumerate(rows.column("x").to_pylist()):
        stats = {"numRecords": 1, "nullCount": {"x": int(number is None)}}
        if number is not None and math.isfinite(number):
            stats |= {"minValues": {"x": number}, "maxValues": {"x": number}}
        text = None if number is None else _written(number)
        content, values = rows.slice(at, 1), {"x": text} if partitions else None
        stored = content.drop_columns(partitions)
        actions.append(put(built, f"{at}.parquet", stored, partition_values=values, stats=json.dumps(stats)))
    built.commit(actions)
    build_sidecar(root)
    return root, rows


def _written(number: float) -> str:
    special = {math.inf: "Infinity", -math.inf: "-Infinity"}
    return "NaN" if math.isnan(number) else special.get(number, repr(number))


def _by_duckdb(source: Path | pa.Table, condition: str) -> list[int]:
    with duckdb.connect() as con:
        if isinstance(source, pa.Table):
            con.register("t", source)
        else:
            for_duckdb.register(con, "t", source)
        return [row[0] for row in con.sql(f"SELECT i FROM t WHERE {condition} ORDER BY i").fetchall()]  # noqa: S608


def _by_datafusion(source: Path | pa.Table, condition: str) -> list[int]:
    ctx = for_datafusion.session_context()
    if isinstance(source, pa.Table):
        ctx.register_record_batches("t", [source.to_batches()])
    else:
        for_datafusion.register(ctx, "t", DeltaTable(source))
    return [row["i"] for row in ctx.sql(f"SELECT i FROM t WHERE {condition} ORDER BY i").to_pylist()]  # noqa: S608


def _by_polars(source: Path | pa.Table, condition: str) -> list[int]:
    frame = pl.from_arrow(source).lazy() if isinstance(source, pa.Table) else for_polars.scan_delta(source)  # type: ignore[union-attr]
    found = pl.SQLContext(t=frame).execute(f"SELECT i FROM t WHERE {condition} ORDER BY i")  # noqa: S608
    numbers: list[int] = found.collect()["i"].to_list()
    return numbers


@pytest.mark.full
@pytest.mark.parametrize("engine", [_by_duckdb, _by_datafusion, _by_polars])
def test_an_engine_finds_what_it_finds_in_its_own_table(
    table: tuple[Path, pa.Table], engine: Callable[[Path | pa.Table, str], list[int]]
) -> None:
    root, rows = table
    for condition in CONDITIONS:
        assert engine(root, condition) == engine(rows, condition), condition


@pytest.mark.full
def test_an_expression_of_pyarrow_finds_what_arrow_finds(table: tuple[Path, pa.Table]) -> None:
    root, rows = table
    x, numbers = pc.field("x"), [*map(float, NUMBERS), math.nan, math.inf]
    expressions = [
        *(each for number in numbers for each in (x == number, x != number, x < number, x <= number, x > number)),
        *(~(x >= number) for number in numbers),
        *(x.isin([number, 7.0]) for number in numbers),
        *(x.isin(pa.array([number], pa.float32())) for number in numbers),
        *(~x.isin([number]) for number in numbers),
        *(x == pa.scalar(number, pa.float32()) for number in numbers),
        x == 5,
    ]
    for expression in expressions:
        found = DeltaTable(root).to_pyarrow_table(filters=expression)
        assert sorted(found.column("i").to_pylist()) == rows.filter(expression).column("i").to_pylist(), str(expression)


@pytest.mark.full
def test_our_own_notations_compare_doubles(table: tuple[Path, pa.Table]) -> None:
    root, rows = table
    for text in NUMBERS:
        number = float(text)
        near = [(at, value) for at, value in enumerate(rows.column("x").to_pylist()) if value is not None]
        expected = {
            "=": [at for at, value in near if value == number],
            "<": [at for at, value in near if value < number],
            ">=": [at for at, value in near if value >= number],
        }
        for op, found in expected.items():
            for predicate in (f"x {op} {text}", [("x", op, number)], {"x": {op: number}}, f"x {op} '{text}'"):
                read = DeltaTable(root).scan(predicate=predicate).reader().read_all()
                assert sorted(read.column("i").to_pylist()) == found, predicate
        listed = DeltaTable(root).scan(predicate=f"x IN ({text}, 7)").reader().read_all()
        assert sorted(listed.column("i").to_pylist()) == expected["="], text
