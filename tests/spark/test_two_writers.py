"""Two pipelines on one table at once: no row lost or doubled, every commit known by its own, one checkpoint each."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from threading import Barrier
from typing import TYPE_CHECKING, Any

import pytest
from delta.exceptions import MetadataChangedException
from pyspark.errors import AnalysisException
from pyspark.sql import functions as F  # noqa: N812 - as Spark's own documentation has it
from tests.spark.file_lists import assert_same_files
from tests.spark.readings import assert_one_bucket_each, commits_of, readings, sums_in, sums_of, table_of

from delta_sidecar import CommitFailedError, IngestError
from delta_sidecar.spark.ingest import batch as batches
from delta_sidecar.spark.ingest.pipeline import IngestPipeline

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import SparkSession
    from tests.spark.conftest import Lake

    from delta_sidecar.spark.ingest.pipeline import WriteSummary

BATCHES = 3


def test_two_pipelines_write_at_once(spark: SparkSession, lake: Lake) -> None:
    url = lake.new_url("shared")

    def run(app_id: str, first: int) -> list[WriteSummary]:
        pipeline = IngestPipeline(spark, url, app_id=app_id, checkpoint_interval=3, storage_options=lake.options)
        batches = (readings(spark, 90, first=first + number * 100) for number in range(BATCHES))
        return [pipeline.write(batch, batch_id=number) for number, batch in enumerate(batches)]

    # Both find no table, and make it.
    ours, theirs = together(lambda: run("ours", 0), lambda: run("theirs", 1000))
    summaries = [*ours, *theirs]
    assert sorted(summary.version or 0 for summary in summaries) == list(range(1, 2 * BATCHES + 1))
    for summary in summaries:
        assert (summary.rows, summary.buckets, summary.skipped) == (90, 2, False)
    # Each found its own commit, and not the newest.
    marks = [commit[0]["commitInfo"].get("userMetadata", "") for commit in commits_of(lake, url)]
    assert all('"pipeline":"ours"' in marks[summary.version or 0] for summary in ours)
    assert all('"pipeline":"theirs"' in marks[summary.version or 0] for summary in theirs)
    done = [summary.sidecar for summary in summaries if summary.sidecar is not None]
    assert sorted(each.version for each in done if each.outcome == "complete") == [3, 6]
    written = [readings(spark, 90, first=first + n * 100) for first in (0, 1000) for n in range(BATCHES)]
    everything = written[0]
    for batch in written[1:]:
        everything = everything.union(batch)
    assert sums_in(spark, lake, url) == sums_of(everything)
    assert_one_bucket_each(lake, url)
    assert_same_files(spark, lake, url, tier=1)


@pytest.mark.full
def test_a_table_that_delta_stumbles_over_is_the_other_ones(
    spark: SparkSession, local_lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    url = local_lake.new_url("shared")
    ours, theirs = (IngestPipeline(spark, url, app_id=name, sidecars=False) for name in ("ours", "theirs"))

    def stumbling(*_: object) -> None:
        # The other one is faster, and Delta looks at what it had seen before.
        monkeypatch.undo()
        theirs.create(readings(spark, 1).schema)
        msg = f"[DELTA_TABLE_NOT_FOUND] Delta table `{url}` doesn't exist."
        raise AnalysisException(msg)

    monkeypatch.setattr(batches, "create_table", stumbling)
    summary = ours.write(readings(spark, 60), batch_id=0)
    assert (summary.version, summary.rows) == (1, 60)
    assert sums_in(spark, local_lake, url) == sums_of(readings(spark, 60))


def test_a_table_that_cannot_be_made_is_told_as_delta_tells_it(
    spark: SparkSession, local_lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    def stumbling(*_: object) -> None:
        msg = "[DELTA_TABLE_NOT_FOUND] it doesn't exist."
        raise AnalysisException(msg)

    monkeypatch.setattr(batches, "create_table", stumbling)
    pipeline = IngestPipeline(spark, local_lake.new_url("missing"), sidecars=False)
    with pytest.raises(IngestError, match=r"not written: \[DELTA_TABLE_NOT_FOUND\] it doesn't exist"):
        pipeline.write(readings(spark, 10))


def test_one_batch_from_two_at_once_is_written_once(spark: SparkSession, local_lake: Lake) -> None:
    url = local_lake.new_url("shared")
    pipelines = [IngestPipeline(spark, url, app_id="one", sidecars=False) for _ in range(2)]
    pipelines[0].create(readings(spark, 1).schema)
    barrier = Barrier(2)

    class MeetingWriter(batches.BatchWriter):
        """Waits for the other before it writes, so that both have found the batch not written."""

        def _append(self, *arguments: Any) -> None:  # noqa: ANN401 - as the other has it
            barrier.wait(60)
            super()._append(*arguments)

    for pipeline in pipelines:
        pipeline._writer.__class__ = MeetingWriter
    done = together(*(lambda p=each: p.write(readings(spark, 60), batch_id=7) for each in pipelines))
    assert "checksum" in {summary.batch_check for summary in done}
    assert sorted(summary.skipped for summary in done) == [False, True]
    assert sums_in(spark, local_lake, url) == sums_of(readings(spark, 60))


@pytest.mark.full
def test_columns_added_at_once_are_all_added(spark: SparkSession, local_lake: Lake) -> None:
    url = local_lake.new_url("shared")
    pipelines = [IngestPipeline(spark, url, app_id=name, merge_schema=True, sidecars=False) for name in ("a", "b")]
    pipelines[0].create(readings(spark, 1).schema)
    together(
        lambda: pipelines[0].write(readings(spark, 60).withColumn("humidity", F.lit(1)), batch_id=0),
        lambda: pipelines[1].write(readings(spark, 60, first=100).withColumn("pressure", F.lit(1)), batch_id=0),
    )
    table = table_of(spark, local_lake, url)
    assert {"humidity", "pressure"} <= set(table.columns)
    assert table.count() == 120


def test_a_table_that_changes_again_and_again_is_given_up(
    spark: SparkSession, local_lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    url = local_lake.new_url("shared")
    pipeline = IngestPipeline(spark, url, sidecars=False)
    pipeline.create(readings(spark, 1).schema)
    monkeypatch.setattr(batches, "_TRIES", 2)
    monkeypatch.setattr(batches.BatchWriter, "_appended", conflicting)
    with pytest.raises(CommitFailedError, match="others changed the table's definition meanwhile, 2 times") as refused:
        pipeline.write(readings(spark, 10))
    assert refused.value.__cause__ is not None


def conflicting(*_: object) -> None:
    msg = "[DELTA_METADATA_CHANGED] again"
    raise MetadataChangedException(msg)


def together(*calls: Callable[[], Any]) -> list[Any]:
    """Makes calls at the same time, each in a thread of its own."""
    with ThreadPoolExecutor(len(calls)) as pool:
        return [future.result(300) for future in [pool.submit(call) for call in calls]]
