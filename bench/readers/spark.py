"""Spark with Delta, in one process: its snapshot of the table, and the files of that.

A session is there, and Java has run a small query, before the clock starts.
"""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bench.measure import ROOT, Measurement, measured
from bench.questions import digest
from bench.readers.reader import Reader

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import SparkSession

NAME = "Spark Delta"
_QUESTIONS = frozenset({"first file", "last hour, paths", "all files"})


def readers(memory: str = "12g") -> list[Reader]:
    """Its one way, with so much memory for Java's heap."""
    return [Reader(NAME, partial(_answer, memory=memory), questions=_QUESTIONS)]


def listed(path: str, ask: dict[str, Any], memory: str) -> Callable[[], dict[str, Any]]:
    """Lists files; arguments as for an answer."""
    from pyspark.sql import DataFrame
    from pyspark.sql.functions import col, count
    from pyspark.sql.functions import sum as total

    from delta_sidecar.spark import spark_session

    settings = {"spark.jars.ivy": str(ROOT / ".cache" / "ivy"), "spark.driver.memory": memory}
    spark = spark_session(name="bench", master="local[*]", settings=settings)
    spark.range(10).groupBy("id").count().collect()
    jvm: Any = spark._jvm  # noqa: SLF001 - there is no public way
    before = peak_of_jvm(spark)

    def work() -> dict[str, Any]:
        log = jvm.org.apache.spark.sql.delta.DeltaLog.forTable(spark._jsparkSession, path)  # noqa: SLF001 - as above
        files = DataFrame(log.unsafeVolatileSnapshot().allFiles().toDF(), spark)
        if ask["kind"] == "hour":
            files = files.where(col("partitionValues")["_event_hour"] == ask["hour"])
        if ask["kind"] == "all" and ask["limit"] is None:
            row = files.select(count("path"), total("size")).collect()[0]
            return {"files": row[0], "size": row[1], "jvm_bytes": peak_of_jvm(spark) - before}
        if ask["limit"] is not None:
            files = files.limit(ask["limit"])
        rows = files.select("path", "size").collect()
        paths = [row[0] for row in rows]
        return {
            "files": len(rows),
            "size": sum(row[1] for row in rows),
            "paths": digest(paths),
            "listed": paths,
            "jvm_bytes": peak_of_jvm(spark) - before,
        }

    return work


def _answer(path: str, ask: dict[str, Any], memory: str) -> Measurement:
    found = measured(listed, path=path, ask=ask, memory=memory)
    # Java does the work.
    peak = found.peak_bytes + found.answer["jvm_bytes"]
    return Measurement(found.answer, found.seconds, found.cpu_seconds, peak)


def peak_of_jvm(spark: SparkSession) -> int:
    """The most memory that the driver's JVM has had so far, in bytes."""
    jvm: Any = spark._jvm  # noqa: SLF001 - there is no public way
    status = Path(f"/proc/{jvm.java.lang.ProcessHandle.current().pid()}/status").read_text(encoding="ascii")
    return int(status.partition("VmHWM:")[2].split()[0]) * 1024
