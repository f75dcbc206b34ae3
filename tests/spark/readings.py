"""Telemetry for the tests of ingestion, and what became of it: rows of the table, buckets of its data files."""

from __future__ import annotations

import datetime as dt
import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import functions as F  # noqa: N812 - as Spark's own documentation has it

from delta_sidecar import LazyDeltaScanner, ObjectNotFoundError
from delta_sidecar.log.names import commit_path
from delta_sidecar.spark.access import hadoop_url
from delta_sidecar.spark.ingest.buckets import TimeBucket
from delta_sidecar.store import open_store

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import DataFrame, SparkSession
    from tests.spark.conftest import Lake

EVENING = dt.datetime(2026, 2, 10, 21, 30, tzinfo=dt.UTC)
"""Where readings begin: half an hour of an hour, and two and a half hours before midnight in UTC."""


def readings(
    spark: SparkSession, rows: int, *, first: int = 0, start: dt.datetime = EVENING, seconds: float = 60
) -> DataFrame:
    """Rows of sensors, one every so many seconds.

    Args:
        spark: The session.
        rows: How many.
        first: The id of the first; ids tell rows apart.
        start: The time of the first.
        seconds: Between one and the next.
    """
    micros = int(start.timestamp() * 1_000_000)
    moment = f"timestamp_micros({micros} + (id - {first}) * {int(seconds * 1_000_000)})"
    return spark.range(first, first + rows, 1, 2).select(
        "id",
        F.expr(moment).alias("event_ts"),
        F.expr("concat('device-', id % 7)").alias("device"),
        F.expr("cast(xxhash64(id) as double) / 1e16").alias("temperature"),
    )


@dataclass(frozen=True)
class Sums:
    """What tells whether rows are lost or doubled.

    Attributes:
        rows: How many there are.
        ids: The sum of their ids.
        contents: The sum of the hashes of whole rows.
    """

    rows: int
    ids: int
    contents: int


def sums_of(df: DataFrame) -> Sums:
    """The sums of rows that are to be written, or have been."""
    hashed = F.xxhash64("id", "event_ts", "device", "temperature").cast("decimal(38,0)")
    found = df.agg(F.count(F.lit(1)), F.sum("id"), F.sum(hashed)).collect()[0]
    return Sums(found[0], found[1] or 0, int(found[2] or 0))


def sums_in(spark: SparkSession, lake: Lake, url: str) -> Sums:
    """The sums of a table's rows, as Spark reads them."""
    return sums_of(table_of(spark, lake, url))


def table_of(spark: SparkSession, lake: Lake, url: str) -> DataFrame:
    """A table, as Spark reads it."""
    return spark.read.format("delta").load(hadoop_url(url, lake.options))


@dataclass(frozen=True)
class DataFile:
    """A data file by what is in it.

    Attributes:
        path: Where it is.
        size: In bytes.
        rows: How many it has.
        named: The bucket that the log says it is of.
        buckets: The buckets of its own timestamps.
    """

    path: str
    size: int
    rows: int
    named: str | None
    buckets: frozenset[str | None]


def data_files(lake: Lake, url: str, bucket: TimeBucket | None = None) -> list[DataFile]:
    """The live data files of a table, each opened, with the buckets of its timestamps as Python has them."""
    bucket = bucket or TimeBucket()
    store = open_store(url, lake.options)
    with LazyDeltaScanner(url, storage_options=lake.options) as scanner:
        files = list(scanner.scan_files())
    found = []
    for file in files:
        content = pq.ParquetFile(pa.BufferReader(bytes(store.get(file.path).data)), coerce_int96_timestamp_unit="us")
        micros = content.read([bucket.timestamp_column])[0].cast(pa.timestamp("us")).cast(pa.int64()).to_pylist()
        buckets = frozenset(bucket.of_micros(each) for each in micros)
        named = file.partition_values[bucket.column]
        found.append(DataFile(file.path, file.size, len(micros), named, buckets))
    return found


def assert_one_bucket_each(lake: Lake, url: str, bucket: TimeBucket | None = None) -> list[DataFile]:
    """Asserts that each data file holds rows of exactly one bucket, the one that the log says it is of."""
    files = data_files(lake, url, bucket)
    assert files
    for file in files:
        assert file.buckets == {file.named}, file
    return files


def commits_of(lake: Lake, url: str) -> Iterator[list[dict[str, Any]]]:
    """The actions of each commit, from version 0 on."""
    store, version = open_store(url, lake.options), 0
    while True:
        try:
            data = bytes(store.get(commit_path(version)).data)
        except ObjectNotFoundError:
            return
        yield [json.loads(line) for line in data.splitlines()]
        version += 1
