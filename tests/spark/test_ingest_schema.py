"""Columns of a batch beside those of the table: added, refused, cast or left to Delta."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from delta.tables import DeltaTable
from pyspark.sql import functions as F  # noqa: N812 - as Spark's own documentation has it
from tests.spark.file_lists import assert_same_files, own_files, spark_files
from tests.spark.readings import commits_of, readings, table_of

from delta_sidecar import IngestError, SchemaMismatchError, TableMismatchError
from delta_sidecar.spark.ingest.buckets import TimeBucket
from delta_sidecar.spark.ingest.pipeline import IngestPipeline
from delta_sidecar.spark.ingest.tables import GENERATION_EXPRESSION, read_table
from delta_sidecar.store import open_store

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from pyspark.sql import DataFrame, SparkSession
    from tests.spark.conftest import Lake


@pytest.fixture(scope="module")
def url(spark: SparkSession, local_lake: Lake) -> str:
    """A table of one version with rows, which every batch here is refused by."""
    url = local_lake.new_url()
    IngestPipeline(spark, url, sidecars=False).write(readings(spark, 60))
    return url


@pytest.mark.full
@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda df: df.withColumn("humidity", F.lit(1)).withColumn("x", F.lit(1)), "has no column humidity, x, which"),
        (lambda df: df.withColumn("id", F.lit("a")), "id is bigint in the table, string in the batch: cast"),
        (lambda df: df.withColumn("event_ts", F.expr("cast(event_ts as timestamp_ntz)")), "is timestamp in the table"),
        (lambda df: df.withColumn("event_ts", F.lit("2026-02-10")), "event_ts of the batch is string; time buckets"),
        (lambda df: df.drop("event_ts"), "the batch has no column event_ts"),
        (lambda df: df.select("*", F.col("id").alias("ID")), "has the column id more than once"),
        (lambda df: df.withColumn("_event_hour", F.lit("2020010100")), "are not the time buckets of event_ts"),
    ],
)
def test_columns_that_do_not_fit_are_named(
    spark: SparkSession, local_lake: Lake, url: str, change: Callable[[DataFrame], DataFrame], message: str
) -> None:
    with pytest.raises(SchemaMismatchError, match=message) as refused:
        IngestPipeline(spark, url, sidecars=False).write(change(readings(spark, 10)), batch_id=1)
    assert "\n" not in str(refused.value)
    assert len(list(commits_of(local_lake, url))) == 2


@pytest.mark.full
def test_columns_are_added_by_option(spark: SparkSession, local_lake: Lake) -> None:
    url = local_lake.new_url()
    options: dict[str, Any] = {"sidecars": False}
    IngestPipeline(spark, url, **options).write(readings(spark, 60))
    wider = readings(spark, 60, first=100).withColumn("humidity", F.lit(0.5))
    summary = IngestPipeline(spark, url, merge_schema=True, **options).write(wider, batch_id=0)
    assert (summary.version, summary.rows) == (2, 60)
    rows = table_of(spark, local_lake, url).groupBy("humidity").count().collect()
    assert {row["humidity"]: row["count"] for row in rows} == {None: 60, 0.5: 60}
    assert_same_files(spark, local_lake, url)
    # Fewer columns, and the bucket's own with the right values, are fine.
    fewer = readings(spark, 30, first=500).withColumn("_event_hour", F.expr(TimeBucket().expression()))
    assert IngestPipeline(spark, url, **options).write(fewer.drop("device")).rows == 30
    snapshot = read_table(open_store(url))
    assert snapshot is not None
    assert GENERATION_EXPRESSION in snapshot.metadata.schema_string


def test_a_table_whose_bucket_differs_is_refused(spark: SparkSession, local_lake: Lake, url: str) -> None:
    with pytest.raises(TableMismatchError, match="granularity 'hour' instead of 'day'"):
        IngestPipeline(spark, url, bucket=TimeBucket("day"), sidecars=False).write(readings(spark, 10))
    with pytest.raises(TableMismatchError, match="granularity 'hour' instead of 'day'"):
        IngestPipeline(spark, url, bucket=TimeBucket("day"), sidecars=False).create(readings(spark, 1).schema)
    assert len(list(commits_of(local_lake, url))) == 2


def test_a_table_that_others_made_is_taken_as_it_is(spark: SparkSession, local_lake: Lake) -> None:
    url = local_lake.new_url()
    builder = DeltaTable.create(spark).location(url).addColumn("id", "bigint").addColumn("event_ts", "timestamp")
    builder = builder.addColumn("_event_hour", "string", generatedAlwaysAs=TimeBucket().expression())
    builder.partitionedBy("_event_hour").execute()
    IngestPipeline(spark, url, sidecars=False).write(readings(spark, 60).select("id", "event_ts"))
    snapshot = read_table(open_store(url))
    assert snapshot is not None
    assert not [name for name in snapshot.metadata.configuration if name.startswith("deltaSidecar")]
    assert table_of(spark, local_lake, url).count() == 60


def test_a_folder_with_something_else_is_refused(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("not a table")
    with pytest.raises(IngestError, match=r"DELTA_MISSING_DELTA_TABLE.* is not a Delta table"):
        IngestPipeline(spark, tmp_path, sidecars=False).write(readings(spark, 10))
    assert [path.name for path in tmp_path.iterdir()] == ["notes.txt"]


def test_a_column_without_a_type_is_refused(spark: SparkSession, local_lake: Lake) -> None:
    url = local_lake.new_url()
    with pytest.raises(SchemaMismatchError, match="humidity has only nulls, so that its type is not known; cast it"):
        IngestPipeline(spark, url, sidecars=False).write(readings(spark, 10).withColumn("humidity", F.lit(None)))
    assert read_table(open_store(url)) is None


def test_column_mapping_by_property(spark: SparkSession, local_lake: Lake) -> None:
    url = local_lake.new_url()
    properties = {"delta.columnMapping.mode": "name"}
    pipeline = IngestPipeline(spark, url, sidecars=False, properties=properties)
    summary = pipeline.write(readings(spark, 90).withColumnRenamed("temperature", "Temperature (°C)"))
    assert (summary.rows, summary.buckets, summary.null_bucket_rows) == (90, 2, 0)
    # Delta has partition values and statistics under physical names.
    assert own_files(url).keys() == spark_files(spark, url).keys()
    assert table_of(spark, local_lake, url).count() == 90
