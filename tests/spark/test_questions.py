"""Three questions that are asked of telemetry every day: each engine gives the answers that Spark gives."""

from __future__ import annotations

import importlib
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import duckdb
import polars as pl
import pyarrow as pa
import pytest
from tests.spark.file_lists import assert_same_files
from tests.spark.row_equality import rows_of, typed

from delta_sidecar import DeltaTable
from delta_sidecar.connect import datafusion as for_datafusion
from delta_sidecar.connect import duckdb as for_duckdb
from delta_sidecar.connect import polars as for_polars
from delta_sidecar.spark.ingest.pipeline import IngestPipeline

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable

    from pyspark.sql import SparkSession
    from tests.spark.conftest import Lake

Answers: TypeAlias = dict[str, pa.Table]

EXAMPLE = Path(__file__).parents[2] / "examples" / "telemetry"
HOURS = 30
BATCHES = 3
DEVICE = "machine-007"
NEWEST = 15
SOME = 100
DAY = ("2026-02-10 22:00:00", "2026-02-11 22:00:00")

# What they ask in SQL; a moment is written in several ways.
NEWEST_OF_ONE = f"""
    SELECT event_ts, device_id, temperature, pressure, status FROM t WHERE device_id = '{DEVICE}'
    ORDER BY event_ts DESC, temperature LIMIT {NEWEST}"""  # noqa: S608 - all of it is from here
ANY = f"SELECT * FROM t LIMIT {SOME}"  # noqa: S608
BY_HOUR = """
    SELECT date_trunc('hour', event_ts) AS hour, device_id, avg(temperature) AS mean, count(*) AS readings FROM t
    WHERE event_ts >= {0} '{1}+00:00' AND event_ts < {0} '{2}+00:00' GROUP BY 1, 2"""


@pytest.fixture(scope="module")
def telemetry(spark: SparkSession, local_lake: Lake, tmp_path_factory: pytest.TempPathFactory) -> str:
    """A bit more than a day of the example's readings, one file an hour; the metadata sidecar has a tail behind it."""
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(EXAMPLE)
        example, generate = importlib.import_module("stream"), importlib.import_module("generate")
        folder, url = tmp_path_factory.mktemp("arriving"), local_lake.new_url("telemetry")
        pipeline = IngestPipeline(spark, url, checkpoint_interval=2)
        for batch in range(BATCHES):
            hours = range(batch * HOURS // BATCHES, (batch + 1) * HOURS // BATCHES)
            numbers = [hour * 60 // generate.MINUTES_PER_FILE for hour in hours]
            files = [str(generate.write_file(folder, number, example.START)) for number in numbers]
            pipeline.write(spark.read.schema(generate.SCHEMA).json(files), batch)
    assert_same_files(spark, local_lake, url, tier=1)
    return url


@pytest.fixture(scope="module")
def by_spark(spark: SparkSession, telemetry: str) -> Answers:
    """Spark's answers; of the rows that any hundred may be of, all."""
    spark.read.format("delta").load(telemetry).createOrReplaceTempView("t")
    try:
        questions = {
            "newest": NEWEST_OF_ONE,
            "any": "SELECT * FROM t",
            "by hour": BY_HOUR.format("TIMESTAMP", *DAY),
        }
        return {name: spark.sql(text).toArrow() for name, text in questions.items()}
    finally:
        spark.catalog.dropTempView("t")


def ask_duckdb(url: str) -> Answers:
    with duckdb.connect() as con:
        con.execute("SET TimeZone = 'UTC'")
        for_duckdb.register(con, "t", url)
        questions = {"newest": NEWEST_OF_ONE, "any": ANY, "by hour": BY_HOUR.format("TIMESTAMPTZ", *DAY)}
        return {name: con.sql(text).to_arrow_table() for name, text in questions.items()}


def ask_datafusion(url: str) -> Answers:
    ctx = for_datafusion.session_context()
    for_datafusion.register(ctx, "t", DeltaTable(url))
    questions = {"newest": NEWEST_OF_ONE, "any": ANY, "by hour": BY_HOUR.format("TIMESTAMP", *DAY)}
    return {name: ctx.sql(text).to_arrow_table() for name, text in questions.items()}


def ask_polars(url: str, engine: Literal["in-memory", "streaming"] = "in-memory") -> Answers:
    frame, moment = for_polars.scan_delta(url), pl.col("event_ts")
    first, last = (pl.lit(text).str.to_datetime(time_zone="UTC") for text in DAY)
    of_one = frame.filter(pl.col("device_id") == DEVICE).sort("event_ts", "temperature", descending=[True, False])
    by_hour = frame.filter((moment >= first) & (moment < last)).group_by(
        moment.dt.truncate("1h").alias("hour"), "device_id"
    )
    asked = {
        "newest": of_one.head(NEWEST).select("event_ts", "device_id", "temperature", "pressure", "status"),
        "any": frame.head(SOME),
        "by hour": by_hour.agg(pl.col("temperature").mean().alias("mean"), pl.len().cast(pl.Int64).alias("readings")),
    }
    return {name: query.collect(engine=engine).to_arrow() for name, query in asked.items()}


def ask_polars_streaming(url: str) -> Answers:
    return ask_polars(url, "streaming")


ENGINES = (ask_duckdb, ask_datafusion, ask_polars, ask_polars_streaming)


@pytest.fixture(scope="module", params=ENGINES, ids=lambda ask: ask.__name__.removeprefix("ask_"))
def answers(request: pytest.FixtureRequest, telemetry: str) -> Answers:
    """An engine's answers."""
    ask: Callable[[str], Answers] = request.param
    return {name: _plain(answer) for name, answer in ask(telemetry).items()}


@pytest.mark.full
def test_the_newest_rows_of_one_device_are_the_same(answers: Answers, by_spark: Answers) -> None:
    expected = by_spark["newest"]
    assert expected.num_rows == NEWEST
    assert typed(answers["newest"].schema) == typed(expected.schema)
    assert rows_of(answers["newest"]) == rows_of(expected)


def test_any_hundred_rows_are_rows_of_the_table(answers: Answers, by_spark: Answers) -> None:
    table = by_spark["any"]
    assert typed(answers["any"].schema) == typed(table.schema)
    found, rows = Counter(rows_of(answers["any"])), Counter(rows_of(table))
    assert found.total() == SOME < rows.total()
    assert found <= rows


def test_the_average_by_hour_and_device_over_a_day_is_the_same(answers: Answers, by_spark: Answers) -> None:
    expected = _by_key(by_spark["by hour"])
    found = _by_key(answers["by hour"])
    assert len({hour for hour, _ in expected}) == 24
    assert {key: count for key, (_, count) in found.items()} == {key: count for key, (_, count) in expected.items()}
    # Engines add up in different orders.
    means = {key: mean for key, (mean, _) in expected.items()}
    assert {key: mean for key, (mean, _) in found.items()} == pytest.approx(means, rel=1e-12)


NUMBERS = (0.1, 0.5, 1e30, 2.0**24, 0.0, float("inf"), None)
CONDITIONS = (
    *(f"x {op} {number}" for op in ("=", "<", "<=", ">") for number in ("0.1", "0.5", "1e30", "16777217", "1e39")),
    "x IN (1e30)",
    "x IN (0.1, 0.5)",
    "x IN (16777217, 5)",
    "x NOT IN (0.1, 16777217)",
    "x BETWEEN 0.1 AND 0.5",
    "x = '0.1'",
    "x <=> 0.1",
    "x = -0.0",
    "d = 0.1",
    "d = 16777217",
    "d <= 0.1",
)


@pytest.mark.full
def test_a_number_beside_a_float_is_what_spark_takes_it_for(spark: SparkSession, local_lake: Lake) -> None:
    url = local_lake.new_url("floats")
    rows = [(at, number, number) for at, number in enumerate(NUMBERS)]
    # Each in a file of its own: none may be left out.
    frame = spark.createDataFrame(rows, "i long, x float, d double").repartition(len(rows), "i")
    frame.write.format("delta").save(url)
    written = spark.read.format("delta").load(url)
    for condition in CONDITIONS:
        expected = sorted(row["i"] for row in written.where(condition).collect())
        found = DeltaTable(url).scan(columns=["i"], predicate=condition).reader().read_all()
        assert sorted(found.column("i").to_pylist()) == expected, condition


def _by_key(table: pa.Table) -> dict[tuple[Any, str], tuple[float, int]]:
    rows = zip(*(table[name].to_pylist() for name in ("hour", "device_id", "mean", "readings")), strict=True)
    return {(hour, device): (mean, count) for hour, device, mean, count in rows}


def _plain(table: pa.Table) -> pa.Table:
    """The same in the types that a table has: engines have texts and zones of their own."""
    kinds: dict[Hashable, pa.DataType] = {pa.large_string(): pa.string(), pa.string_view(): pa.string()}
    fields = [pa.field(each.name, kinds.get(each.type, each.type)) for each in table.schema]
    return table.cast(pa.schema(fields))
