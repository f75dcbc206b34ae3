"""A stream whose process is killed in the middle, and that another process goes on with: no row is lost or doubled.

Nor those that the other process writes to the same table meanwhile.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from functools import reduce
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from pyspark.sql import DataFrame
from tests.spark.file_lists import assert_same_files
from tests.spark.readings import assert_one_bucket_each, commits_of, readings, sums_in, sums_of

from delta_sidecar.errors import ObjectNotFoundError
from delta_sidecar.log.names import commit_path
from delta_sidecar.spark.ingest.pipeline import IngestPipeline
from delta_sidecar.store import open_store

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import SparkSession
    from tests.spark.conftest import Lake

ROOT = Path(__file__).parents[2]
SCHEMA = "id bigint, event_ts timestamp, device string, temperature double"
FILES = 24
INTERVAL = 3
# Rows that another pipeline writes meanwhile.
BATCH, MOST_BATCHES = 30, 12


@pytest.mark.full
def test_a_killed_stream_is_gone_on_with(spark: SparkSession, lake: Lake, tmp_path: Path) -> None:
    url, checkpoints = lake.new_url("killed"), lake.new_url("checkpoints")
    source = tmp_path / "arrived"
    everything = readings(spark, 60 * FILES, seconds=30)
    everything.repartition(FILES).write.json(str(source))
    with streaming(lake, url, checkpoints, source) as process:
        wait_for_commit(process, lake, url, 1)
        # On a local disk Delta is not made for writers in several processes.
        if lake.options:
            everything = everything.union(written_beside(spark, lake, url))
        newest = len(list(commits_of(lake, url))) - 1
        # Killed as soon as such a version is there, while its checkpoint and its metadata sidecar are made.
        wait_for_commit(process, lake, url, newest + INTERVAL - newest % INTERVAL)
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
    assert streamed(lake, url).count(True) < FILES, "it was killed in the middle"
    # What is there is a table, whatever was cut off.
    assert_same_files(spark, lake, url)

    pipeline = IngestPipeline(spark, url, checkpoint_interval=INTERVAL, storage_options=lake.options)
    stream = spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", 8).json(str(source))
    query = pipeline.write_stream(stream, checkpoint_location=checkpoints, trigger={"availableNow": True})
    assert query.awaitTermination(300)
    assert sums_in(spark, lake, url) == sums_of(everything)
    assert_one_bucket_each(lake, url)
    assert_same_files(spark, lake, url, tier=1)


def written_beside(spark: SparkSession, lake: Lake, url: str) -> DataFrame:
    """Batches that this process writes while the other one streams; gives their rows.

    Both write at once: of a few batches in a row, some have commits of the stream between them.
    """
    pipeline = IngestPipeline(spark, url, app_id="beside", checkpoint_interval=INTERVAL, storage_options=lake.options)
    written: list[DataFrame] = []
    for number in range(MOST_BATCHES):
        written.append(readings(spark, BATCH, first=1_000_000 + number * BATCH))
        assert pipeline.write(written[-1], batch_id=number).rows == BATCH
        ours = [version for version, by_stream in enumerate(streamed(lake, url)) if not by_stream][1:]
        if number >= 2 and ours[-1] - ours[0] > len(ours) - 1:
            break
    else:
        pytest.fail(f"no commit of the stream came between: {ours}")
    return reduce(DataFrame.union, written)


def streamed(lake: Lake, url: str) -> list[bool]:
    """Whether the commits are the stream's, from version 0 on; that one makes the table."""
    marks = (commit[0]["commitInfo"].get("userMetadata", "") for commit in commits_of(lake, url))
    return ['"pipeline"' in mark and '"beside"' not in mark for mark in marks]


@contextlib.contextmanager
def streaming(lake: Lake, url: str, checkpoints: str, source: Path) -> Iterator[subprocess.Popen[bytes]]:
    """A process that streams, in a process group with its JVM."""
    given = {"table": url, "options": lake.options, "checkpoints": checkpoints, "source": str(source), "schema": SCHEMA}
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), str(ROOT / "src")])}
    command = [sys.executable, "-W", "ignore", "-m", "tests.spark.killed_stream"]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, cwd=ROOT, env=environment, start_new_session=True)
    try:
        assert process.stdin is not None
        process.stdin.write(json.dumps(given).encode())
        process.stdin.close()
        yield process
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def wait_for_commit(process: subprocess.Popen[bytes], lake: Lake, url: str, version: int) -> None:
    """Waits until the process has made a commit."""
    store = open_store(url, lake.options)
    for _ in range(3000):
        assert process.poll() is None, "it ended by itself"
        with contextlib.suppress(ObjectNotFoundError):
            store.head(commit_path(version))
            return
        time.sleep(0.1)
    msg = f"version {version} was not written"
    raise AssertionError(msg)
