"""What a commit costs on a table with very many files.

The log is one that this project's own generator makes, with a V1 checkpoint and without data files, and a commit that
gives it a time bucket and no more checkpoints. Batches are small: the log is what is measured. Writers take turns, each
on a copy of the log of its own, in one JVM. "delta" appends without a batch id; with one Delta replays the log, and so
does the pipeline where it does not look at checksum files. Jobs and bytes are what Spark counts, the batch's own among
them; what Delta reads of the log in the driver is not.
"""

from __future__ import annotations

import json
import shutil
import sys
import tempfile
import time
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any, Literal, get_args

import msgspec

from bench.measure import ROOT, measured
from bench.readers.ours import NAME
from bench.readers.spark import NAME as SPARK
from bench.results import Run, measurement
from bench.shapes import CACHE, Shape, table, warm
from delta_sidecar.log.names import LOG_FOLDER, checksum_path, commit_path

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from pyspark.sql import DataFrame, SparkSession

Writer = Literal["delta", "delta with batch ids", "pipeline, replay", "pipeline, checksum"]

_WARMING, _WARMING_FILES = 1, 1_000
_TXN_ID = "6b1f6f4e-0000-4000-8000-000000000000"


def measurements(
    progress: Callable[[str], object],
    *,
    files: Sequence[int] = (1_000_000, 5_000_000),
    commits: int = 2,
    rows: int = 10_000,
    cache: Path = CACHE,
) -> Iterator[dict[str, Any]]:
    """Measures the commits of each writer on large logs; each commit is a run.

    Args:
        progress: Is told what goes on.
        files: Sizes of tables.
        commits: Batches of each writer.
        rows: Of a batch.
        cache: Where tables are kept.
    """
    for count in files:
        progress(f"ingestion into a table of {count:,} files")
        for each in measure(count, commits, rows, cache=cache):
            runs = [Run(seconds=taken, peak_bytes=0, bytes=int(each["bytes"])) for taken in each["every_seconds"]]
            is_ours = each["writer"].startswith("pipeline")
            found: dict[str, Any] = msgspec.to_builtins(
                measurement(
                    runs,
                    suite="ingestion",
                    shape=Shape(count).words,
                    files=count,
                    tail=Shape(count).tail,
                    base="checkpoint",
                    question="a commit on a large log",
                    reader=NAME if is_ours else SPARK,
                    variant=each["writer"],
                    extra={"jobs": each["jobs"]},
                )
            )
            yield found


def measure(
    files: int,
    commits: int = 2,
    rows: int = 10_000,
    writers: Sequence[str] = get_args(Writer),
    cache: Path = CACHE,
) -> Iterator[dict[str, Any]]:
    """Yields the median commit of each writer on a table of so many files: seconds, jobs of Spark, bytes they read."""
    made, small = (table(Shape(count), cache, sidecar=False) for count in (files, _WARMING_FILES))
    warm(made)
    with tempfile.TemporaryDirectory(prefix="ingestion-", dir=cache) as folder:
        run = measured(
            appended,
            log=str(made.path / LOG_FOLDER),
            warming=str(small.path / LOG_FOLDER),
            folder=folder,
            commits=commits,
            rows=rows,
            writers=writers,
        )
    for writer in writers:
        taken = [each for each in run.answer["commits"] if each["writer"] == writer]
        figures = {name: median(each[name] for each in taken) for name in ("seconds", "jobs", "bytes")}
        every = [round(each["seconds"], 3) for each in taken]
        yield {"writer": writer, "files": files, "commits": len(taken), "every_seconds": every, **figures}


def appended(
    log: str, warming: str, folder: str, commits: int, rows: int, writers: list[str]
) -> Callable[[], dict[str, Any]]:
    """Each writer in turn appends batches to a table of its own with the same log; every commit is measured."""
    from delta_sidecar.spark import spark_session

    settings = {"spark.jars.ivy": str(ROOT / ".cache" / "ivy"), "spark.driver.memory": "6g"}
    spark = spark_session(name="bench", master="local[2]", settings=settings)
    # Java compiles what all of them use.
    for _ in _rounds(spark, Path(warming), Path(folder, "warming"), _WARMING, rows, writers):
        pass
    return lambda: {"commits": list(_rounds(spark, Path(log), Path(folder, "measured"), commits, rows, writers))}


def _rounds(
    spark: SparkSession, log: Path, folder: Path, commits: int, rows: int, writers: list[str]
) -> Iterator[dict[str, Any]]:
    from delta_sidecar.spark import IngestPipeline

    tables = {name: _copy(log, folder / str(number)) for number, name in enumerate(writers)}
    pipelines = {
        name: IngestPipeline(spark, path, sidecars=False, checksum_transactions=name.endswith("checksum"))
        for name, path in tables.items()
    }
    for number in range(commits):
        for name, path in tables.items():
            batch = _batch(spark, rows, number)
            before, started = _spent(spark), time.perf_counter()
            _write(name, pipelines[name], path, batch, number)
            seconds = time.perf_counter() - started
            jobs, size = (after - was for after, was in zip(_spent(spark), before, strict=True))
            print(f"{folder.name}: {name}, batch {number}: {seconds:.1f} s, {jobs} jobs", file=sys.stderr, flush=True)
            yield {"writer": name, "seconds": seconds, "jobs": jobs, "bytes": size}


def _copy(log: Path, path: Path) -> Path:
    """Copies a log, with a commit behind it that makes the bucket a generated column."""
    from delta_sidecar.spark import TimeBucket

    bucket = TimeBucket()
    shutil.copytree(log, path / LOG_FOLDER)
    version = max(int(each.stem) for each in log.glob("*.crc"))
    checksum = json.loads((path / checksum_path(version)).read_bytes())
    metadata, protocol = checksum["metadata"], {"minReaderVersion": 1, "minWriterVersion": 4}
    schema = json.loads(metadata["schemaString"])
    generated = {"delta.generationExpression": bucket.expression("timestamp")}
    next(field for field in schema["fields"] if field["name"] == bucket.column)["metadata"] = generated
    metadata |= {"schemaString": json.dumps(schema)}
    metadata["configuration"] |= {"delta.checkpointInterval": "1000000"}
    checksum |= {"protocol": protocol, "metadata": metadata, "txnId": _TXN_ID}
    info = {"timestamp": metadata["createdTime"], "operation": "SET TBLPROPERTIES", "txnId": _TXN_ID}
    actions = {"commitInfo": info, "protocol": protocol, "metaData": metadata}
    lines = [json.dumps({name: action}) for name, action in actions.items()]
    (path / commit_path(version + 1)).write_text("\n".join(lines) + "\n", encoding="utf-8")
    (path / checksum_path(version + 1)).write_text(json.dumps(checksum), encoding="utf-8")
    return path


def _write(writer: str, pipeline: Any, path: Path, batch: DataFrame, number: int) -> None:  # noqa: ANN401 - as above
    if writer.startswith("delta"):
        options = {"txnAppId": "bench", "txnVersion": str(number)} if writer != "delta" else {}
        batch.write.format("delta").mode("append").options(**options).save(str(path))
        return
    summary = pipeline.write(batch, batch_id=number)
    if summary.batch_check != writer.rpartition(" ")[2] or summary.skipped:
        msg = f"the batch was not written as it should be: {summary}"
        raise RuntimeError(msg)


def _batch(spark: SparkSession, rows: int, number: int) -> DataFrame:
    """Rows of one hour, an hour later than those of the batch before."""
    micros = f"timestamp_micros(1770000000000000 + {number} * 3600000000 + id * {3_600_000_000 // rows})"
    return spark.range(rows).selectExpr(f"{micros} as event_ts", "rand(1) as temperature", "id as sequence")


def _spent(spark: SparkSession) -> tuple[int, int]:
    """Jobs that Spark has run so far, and the bytes that they have read."""
    context: Any = spark._jsc.sc()  # noqa: SLF001 - there is no public way
    context.listenerBus().waitUntilEmpty()
    store = context.statusStore()
    executors = store.executorList(False)  # noqa: FBT003 - an argument of Spark's
    return store.jobsList(None).size(), sum(executors.apply(n).totalInputBytes() for n in range(executors.size()))
