"""Streams into a table: batch after batch, over restarts, and once where a batch comes again."""

from __future__ import annotations

import datetime as dt
import json
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql.streaming import DataStreamWriter
from tests.spark.file_lists import assert_same_files
from tests.spark.readings import EVENING, assert_one_bucket_each, commits_of, readings, sums_in, sums_of

from delta_sidecar import OptionError
from delta_sidecar.events import BatchWritten, CheckpointTriggered, Event
from delta_sidecar.spark.access import hadoop_configuration
from delta_sidecar.spark.ingest.pipeline import IngestPipeline
from delta_sidecar.store import open_store

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import DataFrame, SparkSession
    from tests.spark.conftest import Lake

SCHEMA = "id bigint, event_ts timestamp, device string, temperature double"
ALL = {"availableNow": True}


class Source:
    """A folder that files arrive in, an hour of readings each."""

    def __init__(self, spark: SparkSession, folder: Path) -> None:
        self._spark = spark
        self._folder = folder
        self._files = 0
        folder.mkdir()

    def arrive(self, count: int) -> None:
        for _ in range(count):
            begin, first = EVENING + dt.timedelta(hours=self._files), 100 * self._files
            rows = (
                {
                    "id": first + n,
                    "event_ts": (begin + dt.timedelta(minutes=n)).isoformat(),
                    "device": "d",
                    "temperature": n,
                }
                for n in range(60)
            )
            (self._folder / f"{self._files}.json").write_text("".join(json.dumps(row) + "\n" for row in rows))
            self._files += 1

    def stream(self) -> DataFrame:
        return self._spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", 1).json(str(self._folder))

    def everything(self) -> DataFrame:
        return self._spark.read.schema(SCHEMA).json(str(self._folder))


@pytest.fixture
def source(spark: SparkSession, tmp_path: Path) -> Source:
    return Source(spark, tmp_path / "arriving")


@pytest.mark.full
@pytest.mark.azurite
def test_a_stream_goes_on_where_it_stopped(spark: SparkSession, azure_lake: Lake, source: Source) -> None:
    lake = azure_lake
    url, location = lake.new_url("stream"), lake.new_url("checkpoints")
    told: list[Event] = []
    options: dict[str, Any] = {"storage_options": lake.options, "listeners": [told.append], "checkpoint_interval": 3}
    source.arrive(2)
    run(IngestPipeline(spark, url, **options), source, location)
    assert_same_files(spark, lake, url, tier=3)
    source.arrive(2)
    run(IngestPipeline(spark, url, **options), source, location)
    assert_same_files(spark, lake, url, tier=1)
    assert sums_in(spark, lake, url) == sums_of(source.everything())
    assert_one_bucket_each(lake, url)
    batches = [event for event in told if isinstance(event, BatchWritten)]
    assert [(event.batch_id, event.version, event.rows) for event in batches] == [(n, n + 1, 60) for n in range(4)]
    assert len({event.app_id for event in batches}) == 1
    assert {event.batch_check for event in batches} == {"checksum"}
    triggered = [event for event in told if isinstance(event, CheckpointTriggered)]
    assert [(event.version, event.outcome) for event in triggered] == [(3, "complete")]


@pytest.mark.full
def test_a_batch_that_comes_again_is_not_written_again(spark: SparkSession, local_lake: Lake, source: Source) -> None:
    url, location = local_lake.new_url("stream"), local_lake.new_url("checkpoints")
    told: list[Event] = []
    pipeline = IngestPipeline(spark, url, sidecars=False, listeners=[told.append])
    source.arrive(2)
    run(pipeline, source, location)
    # As if the process had died between the commit of the batch and Spark's own note of it.
    store = open_store(location)
    for name in ("commits/1", "commits/.1.crc"):
        store.delete(name)
    source.arrive(1)
    run(pipeline, source, location)
    batches = [event for event in told if isinstance(event, BatchWritten)]
    assert [(event.batch_id, event.outcome) for event in batches] == [
        (0, "complete"),
        (1, "complete"),
        (1, "skipped"),
        (2, "complete"),
    ]
    assert sums_in(spark, local_lake, url) == sums_of(source.everything())
    # The pipeline's own batches have ids of their own.
    assert pipeline.write(readings(spark, 60, first=9000), batch_id=0).version == 4
    assert {
        action["txn"]["appId"] for commit in commits_of(local_lake, url) for action in commit if "txn" in action
    } == {
        batches[0].app_id,
        "delta-sidecar",
    }


@pytest.mark.full
def test_a_bad_batch_stops_the_query_and_leaves_nothing(spark: SparkSession, local_lake: Lake, source: Source) -> None:
    url, location = local_lake.new_url("stream"), local_lake.new_url("checkpoints")
    source.arrive(1)
    lost = source.stream().selectExpr("id", "if(id = 7, null, event_ts) as event_ts", "device", "temperature")
    query = IngestPipeline(spark, url, sidecars=False).write_stream(lost, checkpoint_location=location, trigger=ALL)
    with pytest.raises(StreamingQueryException, match="1 row of the batch has no event_ts"):
        query.awaitTermination()
    assert not list(commits_of(local_lake, url))
    # The same query, with the row let in.
    pipeline = IngestPipeline(spark, url, sidecars=False, bad_timestamps="null_bucket")
    pipeline.write_stream(lost, checkpoint_location=location, trigger=ALL).awaitTermination()
    assert sums_in(spark, local_lake, url).rows == 60


@pytest.mark.full
def test_a_stream_with_a_state_sees_a_batch_that_was_written_before(
    spark: SparkSession, local_lake: Lake, source: Source
) -> None:
    url, location = local_lake.new_url("stream"), local_lake.new_url("checkpoints")
    pipeline = IngestPipeline(spark, url, sidecars=False)

    def run_distinct() -> None:
        rows = source.stream().withWatermark("event_ts", "10 hours").dropDuplicates(["id", "event_ts"])
        assert pipeline.write_stream(rows, checkpoint_location=location, trigger=ALL).awaitTermination(300)

    source.arrive(2)
    run_distinct()
    store = open_store(location)
    names = [found.path.rpartition("/")[2] for page in store.list("commits/") for found in page]
    last = max(int(name) for name in names if name.isdigit())
    for name in (f"commits/{last}", f"commits/.{last}.crc"):
        store.delete(name)
    source.arrive(1)
    run_distinct()
    assert sums_in(spark, local_lake, url) == sums_of(source.everything())


@pytest.mark.full
def test_what_is_written_can_be_made_of_each_batch(spark: SparkSession, local_lake: Lake, source: Source) -> None:
    url = local_lake.new_url("stream")
    source.arrive(2)
    query = IngestPipeline(spark, url, sidecars=False).write_stream(
        source.stream(),
        checkpoint_location=local_lake.new_url("checkpoints"),
        trigger=ALL,
        transform=lambda batch: batch.where("id % 2 = 0"),
    )
    assert query.awaitTermination(300)
    assert sums_in(spark, local_lake, url) == sums_of(source.everything().where("id % 2 = 0"))


def test_a_session_has_the_credentials_before_the_query_starts(
    spark: SparkSession, source: Source, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = "abfss://lake@streamed.dfs.core.windows.net"
    names = [f"fs.azure.account.key.{account}.dfs.core.windows.net" for account in ("streamed", "progress")]
    found: list[str | None] = []

    def start(_: DataStreamWriter) -> SimpleNamespace:
        found.extend(hadoop_configuration(spark).get(name) for name in names)
        return SimpleNamespace(id="query")

    monkeypatch.setattr(DataStreamWriter, "start", start)
    pipeline = IngestPipeline(spark, f"{root}/t", storage_options={"account_key": "c2VjcmV0"})
    pipeline.write_stream(
        source.stream(), checkpoint_location="abfss://lake@progress.dfs.core.windows.net/c", trigger=ALL
    )
    assert found == ["c2VjcmV0"] * 2
    for name in names:
        hadoop_configuration(spark).unset(name)


def test_a_query_has_its_name_and_trigger(spark: SparkSession, local_lake: Lake, source: Source) -> None:
    pipeline = IngestPipeline(spark, local_lake.new_url("stream"), sidecars=False)
    query = pipeline.write_stream(
        source.stream(),
        checkpoint_location=local_lake.new_url("checkpoints"),
        trigger={"processingTime": "1 hour"},
        query_name="telemetry",
    )
    try:
        assert query.name == "telemetry"
        assert query.isActive
    finally:
        query.stop()


def test_what_is_no_stream_or_trigger_is_refused(spark: SparkSession, local_lake: Lake, source: Source) -> None:
    pipeline = IngestPipeline(spark, local_lake.new_url())
    with pytest.raises(OptionError, match="the rows are no stream: read them with"):
        pipeline.write_stream(readings(spark, 1), checkpoint_location=local_lake.new_url())
    with pytest.raises(OptionError, match="the rows are a stream: write_stream takes it"):
        pipeline.write(source.stream())
    with pytest.raises(OptionError, match="the trigger of a stream is not valid"):
        pipeline.write_stream(source.stream(), checkpoint_location=local_lake.new_url(), trigger={"often": "yes"})


def run(pipeline: IngestPipeline, source: Source, location: str) -> None:
    """Lets the pipeline take what has arrived."""
    assert pipeline.write_stream(source.stream(), checkpoint_location=location, trigger=ALL).awaitTermination(300)
