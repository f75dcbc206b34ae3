"""Delta cleans up, data files and the log alike: readers keep their answers, and sidecars are used or rightly not."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from delta.tables import DeltaTable
from tests.spark.file_lists import assert_same_files
from tests.spark.readings import readings, sums_in
from tests.spark.spark_tables import files_by_us, names

from delta_sidecar import LogCorruptionError, VersionNotFoundError
from delta_sidecar.spark import delta_log
from delta_sidecar.spark.access import hadoop_url
from delta_sidecar.spark.ingest.pipeline import IngestPipeline
from delta_sidecar.store import Store, open_store

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from pyspark.sql import SparkSession
    from tests.spark.conftest import Lake

INTERVAL = 2
_MONTH = 30 * 86_400_000


def pipeline_into(
    spark: SparkSession, lake: Lake, url: str, properties: Mapping[str, str] | None = None, first: int = 0
) -> Callable[[], str | None]:
    """What writes a batch, from a number on, and gives what came of the trigger."""
    pipeline = IngestPipeline(
        spark, url, checkpoint_interval=INTERVAL, storage_options=lake.options, properties=properties
    )
    count = iter(range(first, 100))

    def write() -> str | None:
        batch = next(count)
        summary = pipeline.write(readings(spark, 100, first=100 * batch), batch)
        return None if summary.sidecar is None else summary.sidecar.outcome

    return write


def clean_up_log(spark: SparkSession, url: str) -> None:
    """Delta's own clean-up of the log, as if everything in it were older than its retention."""
    state = delta_log.open_snapshot(spark, url)
    jvm: Any = spark._jvm
    retention = jvm.scala.Some(-_MONTH)
    state.log.cleanUpExpiredLogs(
        state.state, jvm.scala.Option.empty(), retention, getattr(state.log, "cleanUpExpiredLogs$default$4")()
    )


def versions_in(store: Store) -> set[int]:
    """Versions that have a commit."""
    return {int(name[:20]) for name in names(store, "_delta_log/") if name[20:] == ".json" and name[:20].isdigit()}


def check_old_versions(store: Store, before: dict[int, list[str]]) -> set[int]:
    """Old versions are as they were, or refused; gives those that are not."""
    readable = set()
    for version, files in before.items():
        try:
            found, _ = files_by_us(store, version)
        except (VersionNotFoundError, LogCorruptionError):
            # Where a sidecar is all that is left of it, nobody can tell whose it is.
            continue
        assert found == files, version
        readable.add(version)
    return readable


@pytest.mark.full
@pytest.mark.azurite
def test_vacuum_and_log_clean_up_do_no_harm(spark: SparkSession, azure_lake: Lake) -> None:
    lake, url = azure_lake, azure_lake.new_url("cleaned")
    store, spark_url = open_store(url, lake.options), hadoop_url(url, lake.options)
    write = pipeline_into(spark, lake, url)
    assert [write(), write()] == [None, "complete"]
    DeltaTable.forPath(spark, spark_url).delete("device = 'device-2'")
    assert [write(), write()] == ["complete", None]
    rows, files = sums_in(spark, lake, url), assert_same_files(spark, lake, url, tier=1)
    before = {version: files_by_us(store, version)[0] for version in versions_in(store)}
    ours = names(store)

    own = spark.newSession()
    own.conf.set("spark.databricks.delta.retentionDurationCheck.enabled", "false")
    DeltaTable.forPath(own, spark_url).vacuum(0)
    there = {found.path for page in store.list("") for found in page}
    assert {path for path, _ in files} <= there
    assert set(before[INTERVAL]) - there, "the vacuum was to delete something"
    assert names(store) == ours
    assert sums_in(spark, lake, url) == rows
    assert assert_same_files(spark, lake, url, tier=1) == files
    assert check_old_versions(store, before) == set(before)

    # A vacuum is noted down in commits of its own.
    before = {version: files_by_us(store, version)[0] for version in versions_in(store)}
    clean_up_log(spark, spark_url)
    left = versions_in(store)
    assert left < set(before), "the clean-up was to delete something"
    assert names(store) == ours
    assert sums_in(spark, lake, url) == rows
    # The vacuum's commits made Delta write a checkpoint: those before it are gone, so that the sidecar is too old.
    assert assert_same_files(spark, lake, url, tier=3) == files
    assert left <= check_old_versions(store, before)

    assert write() == "complete"
    assert_same_files(spark, lake, url, tier=1)


@pytest.mark.full
def test_sidecars_that_delta_deletes_from_tables_with_v2_checkpoints_are_made_again(
    spark: SparkSession, local_lake: Lake
) -> None:
    lake, url = local_lake, local_lake.new_url("second")
    store, spark_url = open_store(url), hadoop_url(url)
    write = pipeline_into(spark, lake, url, {"delta.checkpointPolicy": "v2"})
    assert [write() for _ in range(5)] == [None, "complete", None, "complete", None]
    files = assert_same_files(spark, lake, url, tier=1)
    mine = [name for name in names(store) if name.startswith("v")]
    theirs = [name for name in names(store) if not name.startswith("v")]
    assert len(mine) == 4
    assert theirs
    clean_up_log(spark, spark_url)
    # Delta takes what no checkpoint of its own refers to.
    assert set(names(store)) < set(theirs)
    assert assert_same_files(spark, lake, url, tier=3) == files
    rows = sums_in(spark, lake, url)
    # A pipeline that is started now, with the batch that was the last one, finds what is missing and makes it again.
    again = pipeline_into(spark, lake, url, first=4)
    assert again() == "complete"
    assert_same_files(spark, lake, url, tier=1)
    assert sums_in(spark, lake, url) == rows


@pytest.mark.full
def test_the_clean_up_that_comes_with_a_checkpoint_does_no_harm(spark: SparkSession, local_lake: Lake) -> None:
    lake, url = local_lake, local_lake.new_url("expired")
    retention = {f"delta.{what}RetentionDuration": "interval 1 days" for what in ("log", "deletedFile")}
    write = pipeline_into(spark, lake, url, retention)
    assert [write() for _ in range(3)] == [None, "complete", None]
    store = open_store(url)
    before = {version: files_by_us(store, version)[0] for version in versions_in(store)}
    old = time.time() - 10 * 86_400
    for number, path in enumerate(sorted(Path(url, "_delta_log").iterdir())):
        if path.is_file():
            os.utime(path, (old + number, old + number))
    assert write() == "complete"
    assert min(versions_in(store)) > 0, "the clean-up was to delete something"
    assert_same_files(spark, lake, url, tier=1)
    assert check_old_versions(store, before) <= versions_in(store)
