"""How Delta's own classes are asked: from any thread, and for logs of any size."""

from __future__ import annotations

from pathlib import Path
from threading import Thread
from typing import TYPE_CHECKING, Any

import pytest
from tests.spark.spark_tables import append, create

from delta_sidecar.spark import delta_log

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import SparkSession
    from tests.spark.conftest import Lake

TASKS = "spark.databricks.delta.snapshotPartitions"


@pytest.fixture(scope="module")
def url(spark: SparkSession, local_lake: Lake) -> str:
    """A table with a checkpoint and a commit after it, and without checksum files: Delta has to replay its log."""
    url = local_lake.new_url()
    create(spark, url, {"delta.checkpointInterval": "100"})
    append(spark, url, 0, txnAppId="app", txnVersion="7")
    delta_log.checkpoint(spark, url)
    append(spark, url, 100)
    for each in Path(url, "_delta_log").glob("*.crc"):
        each.unlink()
    return url


@pytest.mark.full
@pytest.mark.parametrize(
    "ask",
    [
        lambda spark, url: delta_log.open_snapshot(spark, url).last_transaction("app") == 7,
        lambda spark, url: delta_log.open_snapshot(spark, url).state.version() == 2,
        lambda spark, url: delta_log.open_snapshot(spark, url, 1).num_files() == 6,
        lambda spark, url: delta_log.checkpoint(spark, url, 1) is None,
    ],
)
def test_a_thread_that_spark_has_not_seen(
    spark: SparkSession, url: str, ask: Callable[[SparkSession, str], bool]
) -> None:
    forget(spark)
    answers: list[bool] = []

    def asked() -> None:
        active(spark).clearActiveSession()
        answers.append(ask(spark, url))

    thread = Thread(target=asked)
    thread.start()
    thread.join(120)
    assert answers == [True]


@pytest.mark.parametrize(
    ("chosen", "log_bytes", "tasks"),
    [(None, 1, 4), (None, 100 << 20, 13), ("2", 1, 2), ("2", 100 << 20, 13), ("50", 100 << 20, 50)],
)
def test_tasks_of_a_replay_are_as_many_as_its_log_asks_for(
    spark: SparkSession, chosen: str | None, log_bytes: int, tasks: int
) -> None:
    class Log:
        """Of a size."""

        def checkpointSizeInBytes(self) -> int:  # noqa: N802 - Delta's
            return log_bytes - 1

        def deltaFileSizeInBytes(self) -> int:  # noqa: N802 - Delta's
            return 1

    before = spark.conf.get(TASKS)
    try:
        if chosen is None:
            spark.conf.unset(TASKS)
        else:
            spark.conf.set(TASKS, chosen)
        with delta_log._replaying(spark, Log()) as session:
            assert session.conf.get(TASKS) == str(tasks)
            # What Delta asks is the session of this thread.
            assert active(spark).getActiveSession().get().conf().get(TASKS) == str(tasks)
        assert active(spark).getActiveSession().get().equals(spark._jsparkSession)
        assert spark.conf.get(TASKS, None) == chosen
    finally:
        spark.conf.set(TASKS, before)


def test_a_replay_runs_in_so_many_tasks(spark: SparkSession, url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    forget(spark)
    monkeypatch.setattr(delta_log, "_BYTES_PER_TASK", 8192)
    log = Path(url, "_delta_log")
    commits = [log / f"{version:020}.json" for version in (0, 1, 2)]
    # The commit after the checkpoint, and the checkpoint.
    log_bytes = sum(each.stat().st_size for each in (commits[2], *log.glob("*1.checkpoint.parquet")))
    with delta_log.replayed(spark, url, 2, {}) as snapshot:
        assert snapshot.files().rdd.getNumPartitions() == -(-log_bytes // 8192) > 2
        assert snapshot.num_files() == 12


def active(spark: SparkSession) -> Any:  # noqa: ANN401 - of the JVM
    """The JVM's register of sessions."""
    jvm: Any = spark._jvm
    return jvm.org.apache.spark.sql.classic.SparkSession


def forget(spark: SparkSession) -> None:
    """Has Delta forget what it has read."""
    jvm: Any = spark._jvm
    jvm.org.apache.spark.sql.delta.DeltaLog.clearCache()
