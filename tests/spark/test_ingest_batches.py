"""Batches that are run twice, fail, or have rows without a usable timestamp: once, whole, or not at all."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from pyspark.sql import functions as F  # noqa: N812 - as Spark's own documentation has it
from tests.spark.file_lists import assert_same_files
from tests.spark.readings import assert_one_bucket_each, commits_of, readings, sums_in, sums_of, table_of

from delta_sidecar import BadTimestampsError, CommitFailedError, IngestError
from delta_sidecar.events import BatchWritten, Event
from delta_sidecar.spark.ingest import batch as batches
from delta_sidecar.spark.ingest.pipeline import IngestPipeline
from delta_sidecar.spark.ingest.tables import read_table
from delta_sidecar.store import open_store

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import DataFrame, SparkSession
    from tests.spark.conftest import Lake

# Null, and the largest that a timestamp can be.
BAD = "case when id = 3 then null when id = 5 then timestamp_micros(9223372036854775807) else event_ts end"


def spoilt(df: DataFrame) -> DataFrame:
    return df.withColumn("event_ts", F.expr(BAD))


@pytest.mark.full
def test_the_same_batch_id_twice_writes_once(
    spark: SparkSession, local_lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    url = local_lake.new_url()
    told: list[Event] = []
    options: dict[str, Any] = {"storage_options": local_lake.options, "sidecars": False, "listeners": [told.append]}
    pipeline = IngestPipeline(spark, url, **options)
    assert pipeline.write(readings(spark, 90), batch_id=4).version == 1
    again = pipeline.write(readings(spark, 90), batch_id=4)
    assert (again.skipped, again.version, again.rows, again.files, again.bytes) == (True, None, 0, 0, 0)
    # Another pipeline knows it by the log, after later ones too; ids of others are theirs.
    assert pipeline.write(readings(spark, 30, first=200), batch_id=6).version == 2
    assert IngestPipeline(spark, url, **options).write(readings(spark, 90), batch_id=4).skipped
    # One that was passed over is not taken for written, but refused.
    with pytest.raises(IngestError, match="batch 5 was not written, and batch 6 of delta-sidecar was written: ids"):
        pipeline.write(readings(spark, 30, first=300), batch_id=5)
    # Nor is one that nobody can tell of any more.
    with monkeypatch.context() as patched:
        patched.setattr(batches, "is_batch_there", lambda *_: None)
        with pytest.raises(IngestError, match="batch 4 is older than what is left of the log"):
            pipeline.write(readings(spark, 90), batch_id=4)
    assert pipeline.write(readings(spark, 0), batch_id=5).version is None
    other = IngestPipeline(spark, url, app_id="other", **options).write(readings(spark, 60, first=500), batch_id=4)
    assert (other.skipped, other.version) == (False, 3)
    # A batch without an id is written each time.
    assert pipeline.write(readings(spark, 30, first=900)).version == 4
    assert sums_in(spark, local_lake, url).rows == 210
    outcomes = [(event.app_id, event.batch_id, event.outcome) for event in told if isinstance(event, BatchWritten)]
    assert outcomes == [
        ("delta-sidecar", 4, "complete"),
        ("delta-sidecar", 4, "skipped"),
        ("delta-sidecar", 6, "complete"),
        ("delta-sidecar", 4, "skipped"),
        ("delta-sidecar", 5, "failed"),
        ("delta-sidecar", 4, "failed"),
        ("delta-sidecar", 5, "skipped"),
        ("other", 4, "complete"),
        ("delta-sidecar", None, "complete"),
    ]
    assert_same_files(spark, local_lake, url)


@pytest.mark.full
@pytest.mark.azurite
def test_a_failed_batch_leaves_nothing_and_can_be_run_again(spark: SparkSession, azure_lake: Lake) -> None:
    lake, url = azure_lake, azure_lake.new_url()
    told: list[Event] = []
    pipeline = IngestPipeline(spark, url, storage_options=lake.options, sidecars=False, listeners=[told.append])
    pipeline.write(readings(spark, 60), batch_id=0)
    broken = F.when(F.col("id") == 1050, F.raise_error(F.lit("the sensor's row is broken"))).otherwise(F.col("device"))
    with pytest.raises(
        IngestError, match=r"was not written: \[USER_RAISED_EXCEPTION\] the sensor's row is bro"
    ) as told_:
        pipeline.write(readings(spark, 100, first=1000).withColumn("device", broken), batch_id=1)
    assert "\n" not in str(told_.value)
    assert told_.value.__cause__ is not None
    assert sums_in(spark, lake, url) == sums_of(readings(spark, 60))
    failed = told[-1]
    assert isinstance(failed, BatchWritten)
    assert (failed.outcome, failed.error, failed.version, failed.rows) == ("failed", "IngestError", None, 0)
    summary = pipeline.write(readings(spark, 100, first=1000), batch_id=1)
    assert (summary.skipped, summary.version, summary.rows) == (False, 2, 100)
    assert_same_files(spark, lake, url)
    assert_one_bucket_each(lake, url)


def test_bad_timestamps_are_rejected_by_number(spark: SparkSession, local_lake: Lake) -> None:
    url = local_lake.new_url()
    pipeline = IngestPipeline(spark, url, sidecars=False)
    with pytest.raises(BadTimestampsError, match="2 rows of the batch have no event_ts, or one outside") as refused:
        pipeline.write(spoilt(readings(spark, 90)), batch_id=0)
    assert refused.value.count == 2
    assert read_table(open_store(url)) is None, "no table is made of it"
    assert pipeline.write(readings(spark, 90), batch_id=0).rows == 90


def test_bad_timestamps_go_to_the_null_bucket(spark: SparkSession, local_lake: Lake) -> None:
    url = local_lake.new_url()
    told: list[Event] = []
    pipeline = IngestPipeline(spark, url, sidecars=False, bad_timestamps="null_bucket", listeners=[told.append])
    summary = pipeline.write(spoilt(readings(spark, 90)))
    assert (summary.rows, summary.null_bucket_rows, summary.buckets, summary.files) == (90, 2, 3, 3)
    assert [event.null_bucket_rows for event in told if isinstance(event, BatchWritten)] == [2]
    files = assert_one_bucket_each(local_lake, url)
    assert {file.named for file in files} == {None, "2026021021", "2026021022"}
    found = table_of(spark, local_lake, url).where("_event_hour is null").select("id").collect()
    assert sorted(row["id"] for row in found) == [3, 5]
    assert_same_files(spark, local_lake, url)


@pytest.mark.parametrize("is_first", [True, False])
def test_a_row_that_turns_bad_after_the_count_stops_the_write(
    spark: SparkSession, local_lake: Lake, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, is_first: bool
) -> None:
    url = local_lake.new_url()
    source = tmp_path / "rows.json"
    source.write_text("".join(f'{{"id":{n},"event_ts":"2026-02-10T21:30:00Z"}}\n' for n in range(90)))
    count = batches.contents_of

    def count_and_change(*arguments: Any) -> Any:  # noqa: ANN401 - as the other has it
        contents = count(*arguments)
        # Of the same size, for Spark remembers that of a file.
        source.write_text(
            source.read_text().replace('7,"event_ts":"2026-02-10T21:30:00Z"', f'7,"event_ts":{"null":<22}')
        )
        return contents

    batch = spark.read.schema("id bigint, event_ts timestamp").json(str(source))
    pipeline = IngestPipeline(spark, url, sidecars=False)
    if not is_first:
        pipeline.create(batch.schema)
    monkeypatch.setattr(batches, "contents_of", count_and_change)
    with pytest.raises(BadTimestampsError) as refused:
        pipeline.write(batch)
    assert refused.value.count == 9
    assert len(list(commits_of(local_lake, url))) == (0 if is_first else 1)


def test_a_first_batch_that_cannot_be_read_makes_no_table(spark: SparkSession, local_lake: Lake) -> None:
    url = local_lake.new_url()
    broken = F.when(F.col("id") == 50, F.raise_error(F.lit("the sensor's row is broken"))).otherwise(F.col("device"))
    with pytest.raises(IngestError, match="the sensor's row is broken"):
        IngestPipeline(spark, url).write(readings(spark, 100).withColumn("device", broken))
    assert read_table(open_store(url)) is None


def test_rows_that_are_others_each_time_are_told_as_they_are_in_the_table(
    spark: SparkSession, local_lake: Lake, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    url = local_lake.new_url()
    pipeline = IngestPipeline(spark, url, sidecars=False)
    pipeline.create(readings(spark, 1).schema)
    monkeypatch.setattr(batches, "spread", lambda df, *_: df.where("id < 10"))
    assert pipeline.write(readings(spark, 60)).rows == 10
    assert "a batch had 60 rows when it was counted and 10 when it was written" in caplog.text
    monkeypatch.setattr(batches, "spread", lambda df, *_: df.where("id < 0"))
    summary = pipeline.write(readings(spark, 60), batch_id=0)
    assert (summary.rows, summary.files) == (0, 0)
    with pytest.raises(CommitFailedError, match="its rows were gone when it was written"):
        pipeline.write(readings(spark, 60))


def test_an_empty_batch_makes_no_commit(spark: SparkSession, local_lake: Lake) -> None:
    url = local_lake.new_url()
    told: list[Event] = []
    pipeline = IngestPipeline(spark, url, sidecars=False, listeners=[told.append])
    summary = pipeline.write(readings(spark, 0), batch_id=0)
    assert (summary.version, summary.rows, summary.skipped) == (None, 0, False)
    assert [event.outcome for event in told if isinstance(event, BatchWritten)] == ["empty"]
    assert len(list(commits_of(local_lake, url))) == 1


def test_what_fails_after_a_commit_does_not_fail_the_batch(
    spark: SparkSession, local_lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    url = local_lake.new_url()
    append = batches.BatchWriter._append

    def append_and_fail(self: batches.BatchWriter, *arguments: Any) -> None:  # noqa: ANN401 - as the other has it
        append(self, *arguments)
        spark.sql("select raise_error('a hook after the commit')").collect()

    monkeypatch.setattr(batches.BatchWriter, "_append", append_and_fail)
    summary = IngestPipeline(spark, url, sidecars=False).write(readings(spark, 60), batch_id=0)
    assert (summary.version, summary.rows) == (1, 60)
    assert sums_in(spark, local_lake, url) == sums_of(readings(spark, 60))


@pytest.mark.full
def test_the_trigger_is_told_of_every_commit_and_its_failure_fails_nothing(
    spark: SparkSession, local_lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    from delta_sidecar.spark import trigger
    from delta_sidecar.spark.ingest import pipeline as pipelines

    asked: list[tuple[str, int]] = []

    class FailingTrigger(trigger.CheckpointTrigger):
        def _settle(self, due: int, version: int, *, committed: bool) -> trigger.TriggerOutcome:
            assert committed == (not asked), "the second batch was written before"
            asked.append((self._app_id, version))
            msg = f"no checkpoint of {due}"
            raise OSError(msg)

    monkeypatch.setattr(pipelines, "CheckpointTrigger", FailingTrigger)
    pipeline = IngestPipeline(spark, local_lake.new_url(), app_id="mine", checkpoint_interval=1)
    summary = pipeline.write(readings(spark, 60), batch_id=0)
    assert (summary.version, summary.rows) == (1, 60)
    assert summary.sidecar.outcome == "failed"
    assert summary.as_dict()["sidecar"]["error"] == "OSError: no checkpoint of 1"
    # What was written before may lack its checkpoint still.
    assert pipeline.write(readings(spark, 60), batch_id=0).sidecar.outcome == "failed"
    assert asked == [("mine", 1), ("mine", 1)]
