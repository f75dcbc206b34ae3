"""Data files near the wanted size: large buckets split, small ones do not, and rows tell how large they are."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

import pytest
from pyspark.sql import functions as F  # noqa: N812 - as Spark's own documentation has it
from tests.spark.readings import assert_one_bucket_each, readings, sums_in, sums_of

from delta_sidecar.spark.ingest.batch import contents_of, row_bytes_in_sample, row_bytes_in_table, spread
from delta_sidecar.spark.ingest.buckets import TimeBucket
from delta_sidecar.spark.ingest.pipeline import IngestPipeline
from delta_sidecar.store import open_store

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from tests.spark.conftest import Lake

TARGET = 64 << 10


@pytest.mark.full
def test_a_large_bucket_makes_several_files_near_the_target(spark: SparkSession, local_lake: Lake) -> None:
    url = local_lake.new_url()
    # Most rows are in one hour; three others have a few.
    many = readings(spark, 30_000, seconds=0.05)
    few = readings(spark, 90, first=50_000)
    batch = many.union(few)
    options = {"target_file_size": "64kB", "sidecars": False}
    first = IngestPipeline(spark, url, **options).write(batch)  # type: ignore[arg-type]
    assert first.rows == 30_090
    files = assert_one_bucket_each(local_lake, url)
    large = [file for file in files if file.named == "2026021021"]
    assert len(large) > 3
    # The sample is an estimate; the files themselves tell the second pipeline.
    assert all(TARGET / 3 < file.size < TARGET * 2 for file in large)
    assert Counter(file.named for file in files if file not in large) == {"2026021022": 1}
    second = IngestPipeline(spark, url, **options).write(batch)  # type: ignore[arg-type]
    files = [file for file in assert_one_bucket_each(local_lake, url) if file.path not in {old.path for old in files}]
    assert len(files) == second.files
    large = [file for file in files if file.named == "2026021021"]
    assert all(TARGET * 0.7 < file.size < TARGET * 1.3 for file in large)
    assert sums_in(spark, local_lake, url).rows == 2 * 30_090


@pytest.mark.full
def test_small_buckets_make_one_file_each_however_they_arrive(spark: SparkSession, local_lake: Lake) -> None:
    url = local_lake.new_url()
    # Forty hours in sixteen pieces of input, in no order.
    batch = readings(spark, 2400).orderBy(F.xxhash64("id")).repartition(16)
    summary = IngestPipeline(spark, url, sidecars=False).write(batch)
    assert (summary.rows, summary.buckets, summary.files) == (2400, 41, 41)
    assert sums_in(spark, local_lake, url) == sums_of(batch)


def test_rows_without_a_bucket_are_spread_as_others(spark: SparkSession, local_lake: Lake) -> None:
    url = local_lake.new_url()
    lost = readings(spark, 5000).withColumn("event_ts", F.lit(None).cast("timestamp"))
    pipeline = IngestPipeline(spark, url, sidecars=False, target_file_size="32kB", bad_timestamps="null_bucket")
    summary = pipeline.write(lost.union(readings(spark, 60, first=9000)))
    assert (summary.rows, summary.null_bucket_rows, summary.buckets) == (5060, 5000, 3)
    files = assert_one_bucket_each(local_lake, url)
    assert sum(file.rows for file in files if file.named is None) == 5000
    assert len([file for file in files if file.named is None]) > 1
    assert len(files) == summary.files


def test_what_a_batch_holds_is_counted(spark: SparkSession) -> None:
    bucket = F.expr(TimeBucket().expression())
    batch = readings(spark, 100).withColumn("event_ts", F.expr("if(id < 10, null, event_ts)"))
    contents = contents_of(batch, bucket, 40)
    assert (contents.rows, contents.bad, contents.buckets) == (100, 10, 4)
    assert contents.large == {"2026021022": 60}
    empty = contents_of(batch.limit(0), bucket, 40)
    assert (empty.rows, empty.bad, empty.buckets, empty.large) == (0, 0, 0, {})


def test_a_bucket_stays_together_and_a_large_one_has_tasks_of_its_own(spark: SparkSession) -> None:
    bucket = F.expr(TimeBucket().expression())
    batch = readings(spark, 1000, seconds=15)
    contents = contents_of(batch, bucket, 100)
    assert contents.large == {
        "2026021021": 120,
        "2026021022": 240,
        "2026021023": 240,
        "2026021100": 240,
        "2026021101": 160,
    }
    placed = spread(batch, bucket, contents, 100)
    assert placed.columns == batch.columns
    rows = placed.select(bucket.alias("bucket"), F.spark_partition_id().alias("task")).collect()
    tasks = {(row["task"], row["bucket"]) for row in rows}
    assert Counter(name for _, name in tasks) == {
        "2026021021": 2,
        "2026021022": 3,
        "2026021023": 3,
        "2026021100": 3,
        "2026021101": 2,
    }
    # No task has two of them.
    assert len({task for task, _ in tasks}) == len(tasks)
    assert max(Counter(row["task"] for row in rows).values()) < 150


@pytest.mark.full
def test_bytes_of_a_row_by_sample_and_by_table(spark: SparkSession, local_lake: Lake) -> None:
    url = local_lake.new_url()
    assert 8 < row_bytes_in_sample(readings(spark, 20_000), "_event_hour") < 40
    assert row_bytes_in_sample(readings(spark, 0), "_event_hour") == 1000
    IngestPipeline(spark, url, sidecars=False).write(readings(spark, 10))
    # Ten rows tell nothing: the file has more besides.
    assert row_bytes_in_table(open_store(url)) is None
    summary = IngestPipeline(spark, url, sidecars=False).write(readings(spark, 20_000, seconds=0.01))
    assert row_bytes_in_table(open_store(url)) == summary.bytes / summary.rows
