"""The writers that are compared. As in `readers`, each function gets ready and gives what is to be measured."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from bench.measure import ROOT

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import DataFrame, SparkSession

Writer = Literal["delta", "pipeline", "pipeline with sidecars"]

_SETTINGS = {"spark.jars.ivy": str(ROOT / ".cache" / "ivy")}
# Java compiles what it runs often; the first batches are not like the others.
_WARMING = 5


def build_on_spark(table: str, version: int, master: str) -> Callable[[], dict[str, Any]]:
    """This library: builds the metadata sidecar of a table on Spark."""
    from delta_sidecar.spark import build_sidecar

    spark = _session(master)
    _range(spark, 10, 0).toArrow()

    def work() -> dict[str, Any]:
        summary = build_sidecar(spark, table, version=version)
        return summary.as_dict() | {"driver_bytes": _peak_of_jvm(spark)}

    return work


def ingest(
    table: str, writer: Writer, commits: int, rows: int, interval: int, master: str
) -> Callable[[], dict[str, Any]]:
    """Writes batches of three hours each: Delta's own writer, or a pipeline."""
    from delta_sidecar.spark import IngestPipeline

    spark = _session(master)
    pipeline = IngestPipeline(spark, table, checkpoint_interval=interval, sidecars=writer == "pipeline with sidecars")
    pipeline.create(_range(spark, rows, 0).schema)
    for number in range(_WARMING):
        _write(writer, pipeline, table, _range(spark, rows, number), number)

    def work() -> dict[str, Any]:
        seconds = []
        for number in range(_WARMING, _WARMING + commits):
            started = time.perf_counter()
            _write(writer, pipeline, table, _range(spark, rows, number), number)
            seconds.append(time.perf_counter() - started)
        return {"seconds": seconds, "rows": spark.read.format("delta").load(table).count() - _WARMING * rows}

    return work


def _write(writer: Writer, pipeline: Any, table: str, df: DataFrame, number: int) -> None:  # noqa: ANN401 - an import
    if writer == "delta":
        df.write.format("delta").mode("append").save(table)
        return
    outcome = pipeline.write(df, batch_id=number).sidecar
    if outcome is not None and outcome.outcome != "complete":
        msg = f"no sidecar was made: {outcome}"
        raise RuntimeError(msg)


def _range(spark: SparkSession, rows: int, number: int) -> DataFrame:
    """A batch: three hours of readings, an hour later than those of the batch before."""
    micros = f"timestamp_micros(1770000000000000 + {number} * 3600000000 + id * {3 * 3_600_000_000 // rows})"
    return spark.range(rows).selectExpr(
        f"{micros} as event_ts", "concat('device-', id % 1000) as device_id", "rand(1) as value", "id as sequence"
    )


def _session(master: str) -> SparkSession:
    from delta_sidecar.spark import spark_session

    return spark_session(name="bench", master=master, settings=_SETTINGS)


def _peak_of_jvm(spark: SparkSession) -> int:
    """The most memory that the driver's JVM has had so far, in bytes."""
    jvm: Any = spark._jvm  # noqa: SLF001 - there is no public way
    status = Path(f"/proc/{jvm.java.lang.ProcessHandle.current().pid()}/status").read_text(encoding="ascii")
    return int(status.partition("VmHWM:")[2].split()[0]) * 1024
