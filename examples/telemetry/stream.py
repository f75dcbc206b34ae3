"""Telemetry is streamed into a Delta table, and the last hour is asked for while it streams.

    make telemetry                         or: python examples/telemetry/stream.py --files 40

Files with readings arrive in a folder. Spark writes them into a table whose data files hold one hour each, and makes a
checkpoint and a metadata sidecar every few commits. Meanwhile a plain Python reader, which knows nothing of Spark,
lists the files of the last hour again and again. Everything is in a temporary folder, and deleted at the end.
"""

from __future__ import annotations

import argparse
import datetime as dt
import sys
import tempfile
import threading
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from generate import MINUTES_PER_FILE, SCHEMA, readings, write_file
from rich.console import Console

from delta_sidecar import LazyDeltaScanner, LazyScanConfig, TableNotFoundError
from delta_sidecar.events import ScanEnded
from delta_sidecar.spark import IngestPipeline, TimeBucket, spark_session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

START = dt.datetime(2026, 2, 10, 20, tzinfo=dt.UTC)
INTERVAL = 5
SIDECAR_TIERS = (1, 2)
COLUMNS = "  {:>7}  {:<15}{:>7}{:>11}{:>10}  {}"


@dataclass(frozen=True)
class Answer:
    """What a reader was told of the last hour."""

    version: int
    files: int
    rows: int
    requests: int
    base: str


def main() -> None:
    """Streams in a temporary folder."""
    parser = argparse.ArgumentParser(description="Telemetry is streamed in, and asked for while it streams.")
    parser.add_argument("--files", type=int, default=40, help="files that arrive (default: %(default)s)")
    parser.add_argument("--pause", type=float, default=1.0, help="seconds between them (default: %(default)s)")
    arguments = parser.parse_args()
    console = Console(highlight=False)
    with tempfile.TemporaryDirectory(prefix="delta-sidecar-telemetry-") as folder:
        with console.status("Starting Spark; the first time it fetches Delta's jars ..."):
            spark = spark_session()
        try:
            show(spark, Path(folder), arguments.files, arguments.pause, console)
        finally:
            spark.stop()


def show(spark: SparkSession, folder: Path, files: int, pause: float, console: Console) -> None:
    """Streams files into a table, asks for the last hour all the while, and checks the table in the end."""
    arriving, table = folder / "arriving", folder / "telemetry"
    arriving.mkdir()
    pipeline = IngestPipeline(spark, table, bucket=TimeBucket("hour"), checkpoint_interval=INTERVAL)
    reader = spark.readStream.schema(SCHEMA).option("mode", "FAILFAST").option("maxFilesPerTrigger", 1)
    source = reader.json(str(arriving))
    query = pipeline.write_stream(source, checkpoint_location=folder / "progress")
    is_over = threading.Event()
    arrival = threading.Thread(target=arrive, args=(arriving, files, pause, is_over), daemon=True)
    arrival.start()
    console.print(f"{files} files arrive, each with {MINUTES_PER_FILE} minutes of readings and a few late ones.\n")
    console.print(
        COLUMNS.format("version", "the last hour", "files", "readings", "requests", "read from"), style="bold"
    )
    seen = 0
    try:
        while seen < files:
            if query.exception() is not None:
                sys.exit(f"the stream failed: {query.exception()}")
            answer = ask(table, last_hour(seen))
            if answer is not None and answer.version > seen:
                seen = answer.version
                # Its own last hour; by now there may be yet another version.
                answer = ask(table, last_hour(seen), seen) or answer
                console.print(line(answer, last_hour(seen)))
            time.sleep(0.2)
    finally:
        is_over.set()
        query.stop()
        arrival.join()
    console.print(ending(table, files))


def arrive(folder: Path, files: int, pause: float, is_over: threading.Event) -> None:
    """Files come in, one after the other."""
    for number in range(files):
        write_file(folder, number, START)
        if is_over.wait(pause):
            return


def last_hour(version: int) -> str:
    """The hour of the newest readings: version 0 makes the table, and each version after it brings one file."""
    moment = START + dt.timedelta(minutes=MINUTES_PER_FILE * max(version - 1, 0))
    return TimeBucket("hour").of(moment) or ""


def ask(table: Path, hour: str, version: int | None = None) -> Answer | None:
    """Lists the files of an hour and all later ones, at the newest version or another; None while there is no table."""
    ended: list[ScanEnded] = []
    scanner = LazyDeltaScanner(
        table,
        LazyScanConfig(predicate=f"_event_hour >= '{hour}'", version=version),
        listeners=[lambda event: ended.append(event) if isinstance(event, ScanEnded) else None],
    )
    try:
        rows = [file.num_records or 0 for file in scanner.scan_files()]
    except TableNotFoundError:
        return None
    metrics = scanner.metrics
    base = -1 if metrics.base_version is None else metrics.base_version
    kind = "sidecar" if ended[0].sidecar_tier in SIDECAR_TIERS else "checkpoint"
    start = "" if base < 0 else f"{kind} {base} and "
    at = metrics.version or 0
    return Answer(at, len(rows), sum(rows), metrics.requests.requests, f"{start}{at - base} commits")


def line(answer: Answer, hour: str) -> str:
    """One line of what is seen while it streams."""
    name = f"{hour[:4]}-{hour[4:6]}-{hour[6:8]} {hour[8:]}h"
    return COLUMNS.format(answer.version, name, answer.files, f"{answer.rows:,}", answer.requests, answer.base)


def ending(table: Path, files: int) -> str:
    """What is in the table in the end, beside what was made."""
    made = sum(1 for number in range(files) for _ in readings(number, START))
    rows, hours = 0, set()
    for file in LazyDeltaScanner(table).scan_files():
        rows += file.num_records or 0
        hours.add(file.partition_values["_event_hour"])
    if rows != made:
        sys.exit(f"{made:,} readings were made, and {rows:,} are in the table")
    return f"\n{made:,} readings were made, and {rows:,} are in the table; each file holds one of {len(hours)} hours."


if __name__ == "__main__":
    main()
