"""What metadata sidecars cost those who write: small batches by a pipeline with them, without them, and by Delta alone.

Batches come one after the other into a new local table, in a JVM that is warm. "delta" is Delta's own writer on the
same table, with its own checkpoints: the same rows and generated partition column, but neither batch ids nor one file a
bucket. The mean of the commits has those with a checkpoint in it.
"""

from __future__ import annotations

import tempfile
import time
from typing import TYPE_CHECKING, Any, Literal, get_args

import msgspec

from bench.measure import ROOT, measured
from bench.questions import WrongAnswerError
from bench.readers.ours import NAME
from bench.readers.spark import NAME as SPARK
from bench.results import Run, measurement

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from pyspark.sql import DataFrame, SparkSession

Writer = Literal["delta", "pipeline", "pipeline with sidecars"]

# Java compiles what it runs often; the first batches are not like the others.
_WARMING = 5


def measurements(
    progress: Callable[[str], object], *, commits: int = 30, rows: int = 100_000, interval: int = 10
) -> Iterator[dict[str, Any]]:
    """Measures the commits of each writer; each commit is a run.

    Args:
        progress: Is told what goes on.
        commits: Batches that each writes.
        rows: Of a batch.
        interval: Commits between checkpoints.

    Raises:
        WrongAnswerError: A writer has written other rows than it was given.
    """
    for writer in get_args(Writer):
        progress(f"ingestion into a new table: {writer}")
        with tempfile.TemporaryDirectory(prefix="delta-sidecar-bench-") as folder:
            done = measured(
                ingested, table=f"{folder}/table", writer=writer, commits=commits, rows=rows, interval=interval
            )
        if done.answer["rows"] != commits * rows:
            msg = f"{writer} wrote {done.answer['rows']:,} rows"
            raise WrongAnswerError(msg)
        seconds = done.answer["seconds"]
        found: dict[str, Any] = msgspec.to_builtins(
            measurement(
                [Run(seconds=each, peak_bytes=done.peak_bytes) for each in seconds],
                suite="ingestion",
                shape=f"a new table, {commits} commits of {rows:,} rows, a checkpoint every {interval}",
                files=0,
                question="a commit",
                reader=SPARK if writer == "delta" else NAME,
                variant="" if writer == "delta" else writer,
                extra={"mean_seconds": sum(seconds) / len(seconds)},
            )
        )
        yield found


def ingested(table: str, writer: Writer, commits: int, rows: int, interval: int) -> Callable[[], dict[str, Any]]:
    """Writes batches of three hours each: Delta's own writer, or a pipeline."""
    from delta_sidecar.spark import IngestPipeline, spark_session

    spark = spark_session(name="bench", master="local[*]", settings={"spark.jars.ivy": str(ROOT / ".cache" / "ivy")})
    pipeline = IngestPipeline(spark, table, checkpoint_interval=interval, sidecars=writer == "pipeline with sidecars")
    pipeline.create(_batch(spark, rows, 0).schema)
    for number in range(_WARMING):
        _write(writer, pipeline, table, _batch(spark, rows, number), number)

    def work() -> dict[str, Any]:
        seconds = []
        for number in range(_WARMING, _WARMING + commits):
            started = time.perf_counter()
            _write(writer, pipeline, table, _batch(spark, rows, number), number)
            seconds.append(time.perf_counter() - started)
        return {"seconds": seconds, "rows": spark.read.format("delta").load(table).count() - _WARMING * rows}

    return work


def _write(writer: Writer, pipeline: Any, table: str, batch: DataFrame, number: int) -> None:  # noqa: ANN401 - an import
    if writer == "delta":
        batch.write.format("delta").mode("append").save(table)
        return
    outcome = pipeline.write(batch, batch_id=number).sidecar
    if outcome is not None and outcome.outcome != "complete":
        msg = f"no sidecar was made: {outcome}"
        raise RuntimeError(msg)


def _batch(spark: SparkSession, rows: int, number: int) -> DataFrame:
    """Three hours of readings, an hour later than those of the batch before."""
    micros = f"timestamp_micros(1770000000000000 + {number} * 3600000000 + id * {3 * 3_600_000_000 // rows})"
    return spark.range(rows).selectExpr(
        f"{micros} as event_ts", "concat('device-', id % 1000) as device_id", "rand(1) as value", "id as sequence"
    )
