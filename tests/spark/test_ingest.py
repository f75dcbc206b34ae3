"""Batches into a table, on local disk and on Azurite: several hours, late rows, midnight, and each step read back."""

from __future__ import annotations

import datetime as dt
from collections import Counter
from typing import TYPE_CHECKING

import pytest
from delta.tables import DeltaTable
from pyspark.sql import types as T  # noqa: N812 - as Spark's own documentation has it
from tests.spark.file_lists import assert_same_files
from tests.spark.readings import (
    EVENING,
    assert_one_bucket_each,
    commits_of,
    readings,
    sums_in,
    sums_of,
    table_of,
)

from delta_sidecar import OptionError
from delta_sidecar.events import BatchWritten, Event
from delta_sidecar.spark.ingest.buckets import TimeBucket
from delta_sidecar.spark.ingest.pipeline import IngestPipeline
from delta_sidecar.spark.ingest.tables import read_table
from delta_sidecar.store import open_store

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from tests.spark.conftest import Lake

HOURS = ["2026021021", "2026021022", "2026021023", "2026021100", "2026021101"]


def test_hours_late_rows_and_midnight(spark: SparkSession, lake: Lake) -> None:
    url = lake.new_url("telemetry")
    told: list[Event] = []
    pipeline = IngestPipeline(spark, url, checkpoint_interval=2, storage_options=lake.options, listeners=[told.append])
    # Four hours that begin in the middle of one, over midnight.
    evening = readings(spark, 240)
    first = pipeline.write(evening, batch_id=0)
    assert (first.version, first.rows, first.files, first.buckets) == (1, 240, 5, 5)
    assert first.sidecar is None
    files = assert_one_bucket_each(lake, url)
    assert sorted(file.named or "" for file in files) == HOURS
    assert sum(file.size for file in files) == first.bytes
    assert_same_files(spark, lake, url, tier=3)

    # Rows that come late, two days old, together with new ones.
    late = readings(spark, 60, first=1000, start=EVENING - dt.timedelta(days=2))
    new = readings(spark, 60, first=2000, start=EVENING + dt.timedelta(hours=4))
    second = pipeline.write(late.union(new), batch_id=1)
    assert (second.version, second.rows, second.files, second.buckets) == (2, 120, 4, 4)
    assert second.sidecar.outcome == "complete"
    assert second.sidecar.sidecar.files == 9
    assert_same_files(spark, lake, url, tier=1)

    # And on top of the metadata sidecar.
    third = pipeline.write(readings(spark, 60, first=3000, start=EVENING), batch_id=2)
    assert (third.version, third.files, third.sidecar) == (3, 2, None)
    assert len(assert_same_files(spark, lake, url, tier=1)) == 11

    files = assert_one_bucket_each(lake, url)
    assert Counter(file.named for file in files) == {
        "2026020821": 1,
        "2026020822": 1,
        "2026021021": 2,
        "2026021022": 2,
        "2026021023": 1,
        "2026021100": 1,
        "2026021101": 2,
        "2026021102": 1,
    }
    everything = evening.union(late).union(new).union(readings(spark, 60, first=3000, start=EVENING))
    assert sums_in(spark, lake, url) == sums_of(everything)
    batches = [event for event in told if isinstance(event, BatchWritten)]
    assert [(event.outcome, event.version, event.batch_id) for event in batches] == [
        ("complete", 1, 0),
        ("complete", 2, 1),
        ("complete", 3, 2),
    ]
    assert [(event.rows, event.files, event.buckets, event.bytes) for event in batches] == [
        (each.rows, each.files, each.buckets, each.bytes) for each in (first, second, third)
    ]


def test_the_table_is_made_as_asked(spark: SparkSession, local_lake: Lake) -> None:
    url = local_lake.new_url()
    bucket = TimeBucket("day", "_event_day", "event_ts", "yyyy-MM-dd")
    pipeline = IngestPipeline(spark, url, bucket=bucket, checkpoint_interval=7, properties={"team": "heating"})
    pipeline.create(readings(spark, 1).schema)
    snapshot = read_table(open_store(url))
    assert snapshot is not None
    assert snapshot.partition_columns == ("_event_day",)
    assert TimeBucket.from_properties(snapshot.metadata.configuration) == bucket
    properties = {key: value for key, value in snapshot.metadata.configuration.items() if "Sidecar" not in key}
    assert properties == {
        "delta.checkpointInterval": "7",
        "delta.checkpointPolicy": "classic",
        "delta.enableChangeDataFeed": "false",
        "delta.enableDeletionVectors": "false",
        "team": "heating",
    }
    features = {*(snapshot.protocol.writer_features or ()), *(snapshot.protocol.reader_features or ())}
    assert not features & {"v2Checkpoint", "deletionVectors", "changeDataFeed"}
    # Made again, it is there; and nobody has written to it.
    pipeline.create(readings(spark, 1).schema)
    assert len(list(commits_of(local_lake, url))) == 1
    summary = pipeline.write(readings(spark, 240))
    assert (summary.files, summary.buckets) == (2, 2)
    assert {file.named for file in assert_one_bucket_each(local_lake, url, bucket)} == {"2026-02-10", "2026-02-11"}


@pytest.mark.full
def test_change_data_feed_and_deletion_vectors_by_option(spark: SparkSession, local_lake: Lake) -> None:
    url = local_lake.new_url()
    pipeline = IngestPipeline(spark, url, change_data_feed=True, deletion_vectors=True, sidecars=False)
    pipeline.write(readings(spark, 120))
    DeltaTable.forPath(spark, url).delete("id = 1")
    files = assert_same_files(spark, local_lake, url)
    assert [vector is not None for _, vector in files].count(True) == 1
    changes = spark.read.format("delta").option("readChangeFeed", "true").option("startingVersion", 2).load(url)
    assert [(row["id"], row["_change_type"]) for row in changes.collect()] == [(1, "delete")]
    # A table with both is written to as any other.
    assert pipeline.write(readings(spark, 60, first=500)).rows == 60
    assert table_of(spark, local_lake, url).count() == 179


@pytest.mark.full
def test_the_zone_of_a_session_does_not_matter(spark: SparkSession, local_lake: Lake) -> None:
    url = local_lake.new_url()
    IngestPipeline(spark, url, sidecars=False).write(readings(spark, 120))
    elsewhere = spark.newSession()
    elsewhere.conf.set("spark.sql.session.timeZone", "Asia/Kolkata")
    elsewhere.conf.set("spark.sql.ansi.enabled", "false")
    IngestPipeline(elsewhere, url, sidecars=False).write(readings(elsewhere, 120, first=500))
    # And without a pipeline: the column is Delta's.
    readings(elsewhere, 120, first=900).write.format("delta").mode("append").save(url)
    files = assert_one_bucket_each(local_lake, url)
    assert Counter(file.named for file in files if file.rows == 60)["2026021022"] >= 2
    assert {file.named for file in files} == {"2026021021", "2026021022", "2026021023"}
    assert sums_in(spark, local_lake, url).rows == 360


def test_a_clock_without_a_zone_is_taken_for_utc(spark: SparkSession, local_lake: Lake) -> None:
    url = local_lake.new_url()
    spoken = readings(spark, 120).selectExpr("id", "cast(event_ts as timestamp_ntz) as event_ts")
    IngestPipeline(spark, url, sidecars=False).write(spoken)
    assert {file.named for file in assert_one_bucket_each(local_lake, url)} == set(HOURS[:3])


def test_settings_of_the_session_are_neither_heeded_nor_changed(spark: SparkSession, local_lake: Lake) -> None:
    url = local_lake.new_url()
    session = spark.newSession()
    for name, value in {
        "spark.databricks.delta.schema.autoMerge.enabled": "true",
        "spark.databricks.delta.optimizeWrite.enabled": "true",
        "spark.databricks.delta.properties.defaults.enableDeletionVectors": "true",
        "spark.databricks.delta.properties.defaults.checkpointPolicy": "v2",
        "spark.databricks.delta.commitInfo.userMetadata": "ours",
        "spark.sql.files.maxRecordsPerFile": "7",
    }.items():
        session.conf.set(name, value)
    before = settings_of(session)
    pipeline = IngestPipeline(session, url, sidecars=False)
    summary = pipeline.write(readings(session, 120))
    assert (summary.version, summary.files) == (1, 3)
    assert settings_of(session) == before
    snapshot = read_table(open_store(url))
    assert snapshot is not None
    assert snapshot.protocol.reader_features is None


def test_columns_that_are_in_no_column_of_arrow_or_hash(spark: SparkSession, local_lake: Lake) -> None:
    url = local_lake.new_url()
    odd = readings(spark, 30).selectExpr(
        "id", "event_ts", "map('a', id) as pairs", "struct(id as `x.y`) as `with.dot`", "array(id) as many"
    )
    pipeline = IngestPipeline(spark, url, sidecars=False, target_file_size=1)
    summary = pipeline.write(odd)
    assert (summary.rows, summary.buckets) == (30, 1)
    assert summary.files > 1
    schema = table_of(spark, local_lake, url).schema
    assert isinstance(schema["pairs"].dataType, T.MapType)
    assert schema["id"].nullable


@pytest.mark.parametrize("batch_id", [-1, "7", 1.5, True, 1 << 63])
def test_a_batch_id_is_a_number(spark: SparkSession, local_lake: Lake, batch_id: int) -> None:
    pipeline = IngestPipeline(spark, local_lake.new_url())
    with pytest.raises(OptionError, match="a batch id must be a whole number from 0 on"):
        pipeline.write(readings(spark, 1), batch_id=batch_id)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"checkpoint_interval": 0}, "checkpoint_interval must be a whole number from 1 to"),
        ({"target_file_size": "128 barns"}, "target_file_size must be a size"),
        ({"target_file_size": 0}, "target_file_size must be at least one byte"),
        ({"bad_timestamps": "drop"}, "bad_timestamps must be one of reject, null_bucket"),
        ({"app_id": ""}, "app_id must be a name"),
        ({"merge_schema": "perhaps"}, "merge_schema must be true or false"),
    ],
)
def test_options_are_checked(spark: SparkSession, options: dict[str, object], message: str) -> None:
    with pytest.raises(OptionError, match=message):
        IngestPipeline(spark, "/nowhere", **options)  # type: ignore[arg-type]


def settings_of(session: SparkSession) -> dict[str, str]:
    found = {row["key"]: row["value"] for row in session.sql("SET").collect()}
    # Delta's own note of what it did.
    found.pop("spark.databricks.delta.lastCommitVersionInSession", None)
    return found
