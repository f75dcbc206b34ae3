"""Data files of the target size: how many rows make one, and which task writes which rows.

All rows of a time bucket go to one task, and so into one file, unless there are more of them than a file should have:
then as many tasks as files share them. Where a row goes depends on its values alone, so that a task that is run again
gets the same rows. None of this is a setting of the session.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import functions as F  # noqa: N812 - as Spark's own documentation has it
from pyspark.sql import types as T  # noqa: N812 - as above

from delta_sidecar.scan.config import LazyScanConfig
from delta_sidecar.scan.scanner import LazyDeltaScanner
from delta_sidecar.spark.spark_errors import SPARK_ERRORS

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

    from delta_sidecar.store import Store

REPRESENTATIVE_ROWS = 1000
"""Files with fewer rows say little of the size of a row: what every file has besides rows outweighs them."""

_NEWEST_FILES = 16
# Few enough for the driver, however wide they are.
_SAMPLE_ROWS = 2000
_UNKNOWN_ROW_BYTES = 1000.0

# Rows are spread by a hash, so that tasks get a little more or less than their share. A file is cut only above this,
# for a cut at the share itself would leave a crumb beside every second file.
_SLACK = 1.2


@dataclass(frozen=True, slots=True)
class Contents:
    """The rows of a batch, counted."""

    rows: int
    bad: int  # without a time bucket
    buckets: int  # rows without one count as one more
    large: dict[str | None, int]  # rows of each bucket that has more than a file should have


def contents_of(df: DataFrame, bucket: Column, rows_per_file: int) -> Contents:
    """Counts the rows of a batch by bucket. Of the columns only the timestamp is needed; one small row comes back."""
    counts = df.select(bucket.alias("bucket")).groupBy("bucket").agg(F.count(F.lit(1)).alias("rows"))
    is_large = F.col("rows") > rows_per_file
    found = counts.agg(
        F.coalesce(F.sum("rows"), F.lit(0)).alias("rows"),
        F.coalesce(F.sum(F.when(F.col("bucket").isNull(), F.col("rows"))), F.lit(0)).alias("bad"),
        F.count(F.lit(1)).alias("buckets"),
        F.collect_list(F.when(is_large, F.struct("bucket", "rows"))).alias("large"),
    ).collect()[0]
    large = {each["bucket"]: each["rows"] for each in found["large"]}
    return Contents(found["rows"], found["bad"], found["buckets"], large)


def spread(df: DataFrame, bucket: Column, contents: Contents, rows_per_file: int) -> DataFrame:
    """Gives each task the rows of whole buckets, and each large bucket as many tasks as it makes files."""
    files = {value: math.ceil(rows / rows_per_file) for value, rows in contents.large.items()}
    small_rows = contents.rows - sum(contents.large.values())
    small_buckets = contents.buckets - len(files)
    parallelism = df.sparkSession.sparkContext.defaultParallelism
    small_tasks = min(small_buckets, max(parallelism, math.ceil(small_rows / rows_per_file)))
    number = F.pmod(F.xxhash64(bucket), F.lit(max(small_tasks, 1)))
    if not files:
        return df.repartitionById(max(small_tasks, 1), number.cast("int"))
    first, shares = small_tasks, []
    for value, count in files.items():
        shares.append((value or "", first, count))
        first += count
    plan = df.sparkSession.createDataFrame(shares, f"{_KEY} string, {_FIRST} int, {_COUNT} int")
    joined = df.withColumn(_KEY, F.coalesce(bucket, F.lit(""))).join(F.broadcast(plan), _KEY, "left")
    among = F.col(_FIRST) + F.pmod(F.xxhash64(*_hashable(df)), F.col(_COUNT))
    placed = joined.repartitionById(first, F.coalesce(among, number).cast("int"))
    return placed.drop(_KEY, _FIRST, _COUNT)


def most_rows(rows_per_file: int) -> int:
    """The rows above which a file is cut."""
    return math.ceil(rows_per_file * _SLACK)


def row_bytes_in_table(store: Store) -> float | None:
    """Bytes that a row takes in the newest files of a table; None where these have too few rows."""
    rows = size = 0
    with LazyDeltaScanner("", LazyScanConfig(limit=_NEWEST_FILES, order="recent"), store=store) as scanner:
        for file in scanner.scan_files():
            count = file.num_records or 0
            if count >= REPRESENTATIVE_ROWS:
                rows, size = rows + count, size + file.size
    return size / rows if rows else None


def row_bytes_in_sample(df: DataFrame, bucket_column: str) -> float:
    """Bytes that a row of a batch takes in Parquet, by a sample of its first rows."""
    stored = df.select(*(quoted(name) for name in df.columns if name.lower() != bucket_column.lower()))
    try:
        sample = stored.limit(_SAMPLE_ROWS).toArrow()
        codec = str(df.sparkSession.conf.get("spark.sql.parquet.compression.codec")).lower()
        codec = codec if codec in {"snappy", "gzip", "zstd", "brotli"} else "snappy"
        # The bytes of a file besides its rows are in both, and fall out.
        half = sample.num_rows // 2
        more = _parquet_bytes(sample, codec) - _parquet_bytes(sample.slice(0, half), codec)
        return max(more / (sample.num_rows - half), 1.0) if sample.num_rows else _UNKNOWN_ROW_BYTES
    except (pa.ArrowException, TypeError, ValueError, *SPARK_ERRORS):
        # A type that Arrow does not know, or rows too wide for the driver; a broken source fails in the count.
        return _UNKNOWN_ROW_BYTES


def quoted(name: str) -> Column:
    """A column by its plain name, dots and all."""
    return F.col("`" + name.replace("`", "``") + "`")


_KEY, _FIRST, _COUNT = "__delta_sidecar_bucket", "__delta_sidecar_first", "__delta_sidecar_count"


def _hashable(df: DataFrame) -> list[Column]:
    nested = (T.StructType, T.ArrayType, T.MapType, T.VariantType)
    return [quoted(field.name) for field in df.schema.fields if not isinstance(field.dataType, nested)]


def _parquet_bytes(table: Any, codec: str) -> int:  # noqa: ANN401 - pyarrow has no types
    sink = pa.BufferOutputStream()
    pq.write_table(table, sink, compression=codec)
    size: int = sink.getvalue().size
    return size
