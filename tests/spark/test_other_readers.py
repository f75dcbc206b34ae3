"""Other readers see a table as any other: the metadata sidecars beside its log are nothing to them.

DuckDB reads the log with its own extension, which is at hand for tables on a local disk only.
"""

from __future__ import annotations

from operator import itemgetter
from typing import TYPE_CHECKING, Any

import duckdb
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable
from tests import duckdb_delta
from tests.spark.file_lists import assert_same_files
from tests.spark.readings import EVENING, readings, table_of
from tests.spark.spark_tables import names

from delta_sidecar.log.names import SIDECAR_FOLDER
from delta_sidecar.spark.access import hadoop_url
from delta_sidecar.spark.build import build_sidecar
from delta_sidecar.spark.ingest.pipeline import IngestPipeline
from delta_sidecar.store import open_store

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession
    from tests.spark.conftest import Lake

INTERVAL = 2
BATCHES = 2 * INTERVAL + 1
ROWS = 200
# Whole numbers and text: what two engines make of them is the same to the last digit.
SUMS = ("count(*)", "sum(id)", "count(distinct device)", "min(_event_hour)", "max(_event_hour)")

ON_DISK = pytest.mark.parametrize("lake", ["local"], indirect=True, scope="session")


@pytest.fixture(scope="module")
def table(spark: SparkSession, lake: Lake) -> str:
    """A table with two checkpoints and their metadata sidecars, the newer one in several parts, and a tail."""
    url = lake.new_url("read-by-others")
    pipeline = IngestPipeline(spark, url, checkpoint_interval=INTERVAL, storage_options=lake.options)
    for batch in range(BATCHES):
        summary = pipeline.write(readings(spark, ROWS, first=batch * ROWS), batch)
    version = summary.version
    assert version is not None
    build_sidecar(
        spark,
        url,
        version=version - version % INTERVAL,
        rows_per_group=4,
        rows_per_part=10,
        storage_options=lake.options,
    )
    assert_same_files(spark, lake, url, tier=1)
    return url


def opened(lake: Lake, url: str) -> DeltaTable:
    """The table, as deltalake opens it."""
    options = lake.options and {**lake.options, "allow_http": "true"}
    return DeltaTable(url, storage_options=options or None)


def rows_by_spark(spark: SparkSession, lake: Lake, url: str) -> list[tuple[Any, ...]]:
    found = table_of(spark, lake, url).selectExpr("id", "unix_micros(event_ts)", "device", "temperature", "_event_hour")
    return sorted(tuple(row) for row in found.collect())


def sums_by_spark(spark: SparkSession, lake: Lake, url: str, where: str) -> tuple[Any, ...]:
    return tuple(table_of(spark, lake, url).where(where).selectExpr(*SUMS).collect()[0])


@pytest.mark.full
def test_deltalake_reads_the_same_rows(spark: SparkSession, lake: Lake, table: str) -> None:
    expected = rows_by_spark(spark, lake, table)
    assert len(expected) == BATCHES * ROWS
    found = opened(lake, table).to_pyarrow_table()
    columns = [found["id"], found["event_ts"].cast("int64"), *(found[name] for name in ("device", "temperature"))]
    columns.append(found["_event_hour"].cast("string"))
    assert sorted(zip(*(column.to_pylist() for column in columns), strict=True)) == expected


@ON_DISK
def test_duckdb_reads_the_same_rows(spark: SparkSession, lake: Lake, table: str) -> None:
    expected = rows_by_spark(spark, lake, table)
    assert len(expected) == BATCHES * ROWS
    query = "select id, epoch_us(event_ts), device, temperature, _event_hour from delta_scan(?) order by id"
    assert duckdb_delta.rows(query, table) == expected


@ON_DISK
def test_duckdb_counts_and_sums_the_same(spark: SparkSession, lake: Lake, table: str) -> None:
    whole, bucket = "true", "_event_hour = '2026021100'"
    sums = {where: sums_by_spark(spark, lake, table, where) for where in (whole, bucket)}
    assert 0 < sums[bucket][0] < sums[whole][0] == BATCHES * ROWS
    for where, expected in sums.items():
        query = f"select {', '.join(SUMS)} from delta_scan(?) where {where}"  # noqa: S608 - all of it is from here
        assert duckdb_delta.rows(query, table) == [expected]


@ON_DISK
def test_duckdb_lists_the_same_files(spark: SparkSession, lake: Lake, table: str) -> None:
    files = assert_same_files(spark, lake, table, tier=1)
    expected = [
        (f"{table}/{path}", statistics["numRecords"], partition_values)
        for (path, _), (_, _, partition_values, statistics) in files.items()
    ]
    found = duckdb_delta.rows("select data_file, cardinality, partitions from delta_list_files(?)", table)
    assert sorted(found, key=itemgetter(0)) == sorted(expected, key=itemgetter(0))


def test_deltalake_lists_the_same_files_and_takes_none_of_ours_for_waste(
    spark: SparkSession, lake: Lake, table: str
) -> None:
    files = assert_same_files(spark, lake, table, tier=1)
    other = opened(lake, table)
    assert sorted(other.get_add_actions()["path"].to_pylist()) == sorted(path for path, _ in files)
    assert other.vacuum(retention_hours=0, enforce_retention_duration=False, dry_run=True) == []


@pytest.mark.full
def test_deltalake_writes_to_it_and_checkpoints_it(spark: SparkSession, lake: Lake, table: str) -> None:
    other = opened(lake, table)
    before = names(open_store(table, lake.options))
    other.delete("device = 'device-3'")
    other.create_checkpoint()
    other.cleanup_metadata()
    assert names(open_store(table, lake.options)) == before
    assert_same_files(spark, lake, table, tier=1)
    expected = [row for row in rows_by_spark(spark, lake, table) if row[2] == "device-3"]
    assert expected == []
    # And the pipeline goes on.
    pipeline = IngestPipeline(spark, table, checkpoint_interval=INTERVAL, storage_options=lake.options)
    start = BATCHES * ROWS
    summaries = [pipeline.write(readings(spark, 5, first=start + 5 * each, start=EVENING)) for each in range(INTERVAL)]
    outcomes = [summary.sidecar.outcome for summary in summaries if summary.sidecar is not None]
    assert "complete" in outcomes
    assert_same_files(spark, lake, table, tier=1)


def test_parts_are_ordinary_parquet_files(spark: SparkSession, lake: Lake, table: str, tmp_path: Path) -> None:
    store = open_store(table, lake.options)
    found = [name for name in names(store) if name.endswith(".parquet") and "-" in name]
    versions = {name.partition(".")[0] for name in found}
    newest = max(versions, key=lambda version: int(version[1:]))
    builds = [name for name in found if name.startswith(f"{newest}.")]
    parts = [name for name in builds if name.split(".")[1] == builds[-1].split(".")[1]]
    root = hadoop_url(table, lake.options)
    by_spark = spark.read.parquet(*(f"{root}/{SIDECAR_FOLDER}{name}" for name in parts))
    rows = sorted(tuple(row) for row in by_spark.select("path", "size", "num_records", "_event_hour").collect())
    assert len(rows) == by_spark.count() > 0
    for name in parts:
        (tmp_path / name).write_bytes(bytes(store.get(SIDECAR_FOLDER + name).data))
    by_arrow = pq.read_table(tmp_path).select(["path", "size", "num_records", "_event_hour"]).to_pylist()
    assert sorted(tuple(row.values()) for row in by_arrow) == rows
    with duckdb.connect() as connection:
        query = "select path, size, num_records, _event_hour from read_parquet(?) order by all"
        assert connection.execute(query, [str(tmp_path / "*.parquet")]).fetchall() == rows
    hour = "2026021022"
    matching = by_spark.where(f"_event_hour = '{hour}'").select("path").collect()
    assert sorted(row.path for row in matching) == [row[0] for row in rows if row[3] == hour]
