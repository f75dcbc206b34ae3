"""One batch into the table: looked at, counted, guarded, written, and its commit found again."""

from __future__ import annotations

import logging
import math
import uuid
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import functions as F  # noqa: N812 - as Spark's own documentation has it
from pyspark.sql import types as T  # noqa: N812 - as above

from delta_sidecar.errors import BadTimestampsError, CommitFailedError, IngestError, SchemaMismatchError
from delta_sidecar.options import INGEST_OPTIONS, resolve
from delta_sidecar.scan.config import LazyScanConfig
from delta_sidecar.scan.scanner import LazyDeltaScanner
from delta_sidecar.spark import delta_log
from delta_sidecar.spark.commits import find_commit, is_batch_there, pipeline_mark, transactions_at
from delta_sidecar.spark.ingest.tables import (
    check_table,
    column_named,
    columns_of,
    create_table,
    nullable,
    quoted,
    read_table,
    timestamp_field,
    timestamp_kind,
)
from delta_sidecar.spark.spark_errors import CONFLICTS, SPARK_ERRORS, condition_of, ingest_failure

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from pyspark.sql import Column, DataFrame, SparkSession
    from pyspark.sql.types import StructType

    from delta_sidecar.replay.snapshot import Snapshot
    from delta_sidecar.spark.commits import Committed
    from delta_sidecar.spark.ingest.tables import IngestSettings
    from delta_sidecar.store import Store


logger = logging.getLogger("delta_sidecar.spark")

BatchCheck = Literal["checksum", "replay"]
"""How it was found out whether a batch was written before: by a checksum file, or by Delta's replay of the log."""

# Every try meets a change that another made in the meantime.
_TRIES = 10
# Above any number of rows.
_NO_LIMIT = 1 << 62
# The plan of a write raises this where a row without a time bucket came in after the count.
_BAD_TIMESTAMP = "delta-sidecar: a row has no time bucket"


@dataclass(frozen=True, slots=True)
class Written:
    """The outcome of a batch."""

    committed: Committed | None = None
    skipped: bool = False  # it was written before
    seen: int = 0  # the newest version that is known to be there; the commit's own where there is one
    batch_check: BatchCheck | None = None


@dataclass(frozen=True, slots=True)
class _LastBatch:
    """The last batch of an application at a version of the table."""

    snapshot: delta_log.DeltaSnapshot
    batch_id: int | None  # None where it has written none
    check: BatchCheck


class BatchWriter:
    """Writes batches into one table. It may be used by several threads.

    Tables are made in `spark`; a batch is written in its own session. `url` is the table as Spark names it.
    """

    def __init__(self, spark: SparkSession, url: str, store: Store, settings: IngestSettings) -> None:
        self._spark = spark
        self._url = url
        self._store = store
        self._settings = settings
        self._row_bytes: float | None = None

    def prepare(self, schema: StructType, first: Batch | None = None) -> Snapshot:
        """Opens the table, and makes it with a schema where it is missing: not for a first batch that is refused.

        Raises:
            IngestError: It cannot be made.
            TableMismatchError: The one that is there has another time bucket.
        """
        snapshot = read_table(self._store)
        if snapshot is None:
            if first is not None:
                self._check_first(first)
            snapshot = self._made(schema)
        check_table(snapshot, self._settings.bucket)
        return snapshot

    def write(
        self,
        df: DataFrame,
        app_id: str,
        batch_id: int | None,
        transform: Callable[[DataFrame], DataFrame] | None = None,
    ) -> Written:
        """Writes a batch: one with an id once. `transform` is not called for the batch that was written last.

        Raises:
            IngestError: It was not written, and nothing of it is in the table.
        """
        if transform is not None:
            newest = None if batch_id is None else read_table(self._store)
            if newest is not None:
                known = self._last(app_id, newest)
                if known.batch_id == batch_id:
                    return Written(skipped=True, seen=newest.version, batch_check=known.check)
            df = transform(df)
        batch = Batch(df, self._settings, self._store.url)
        for _ in range(_TRIES):
            snapshot = self.prepare(df.schema, batch)
            last = None
            if batch_id is not None:
                last = self._last(app_id, snapshot)
                if self._is_written(batch, app_id, batch_id, last):
                    return Written(skipped=True, seen=snapshot.version, batch_check=last.check)
            batch.check(columns_of(snapshot))
            try:
                return self._appended(batch, snapshot, app_id, batch_id, last)
            except CONFLICTS as error:
                conflict = error
            except SPARK_ERRORS as error:
                mismatch = batch.mismatch(columns_of(snapshot), error)
                if mismatch is not None:
                    raise mismatch from error
                with self._failures(batch):
                    raise
        msg = (
            f"{self._store.url}: the batch was not written, for others changed the table's definition meanwhile, "
            f"{_TRIES} times: run it again when they are through"
        )
        raise CommitFailedError(msg) from conflict

    def _made(self, schema: StructType) -> Snapshot:
        """Makes the table, or finds the one that another makes at the same time."""
        failure = None
        try:
            create_table(self._spark, self._url, schema, self._settings)
        except SPARK_ERRORS as error:
            failure = error
        # After a failure too: Delta may stumble over a table that another makes at the same moment.
        snapshot = read_table(self._store)
        if snapshot is not None:
            return snapshot
        if failure is not None:
            with self._failures():
                raise failure
        msg = f"{self._store.url}: the table was made and is gone again; another removes it"
        raise CommitFailedError(msg)

    def _check_first(self, batch: Batch) -> None:
        """Reads all rows of a batch once, and refuses it where one of them cannot be written."""
        batch.check_timestamps(self._contents(batch).bad)
        with self._failures(batch):
            batch.guarded().write.format("noop").mode("append").save()

    def _contents(self, batch: Batch) -> Contents:
        with self._failures():
            return contents_of(batch.rows, batch.bucket, _NO_LIMIT)

    def _appended(
        self, batch: Batch, snapshot: Snapshot, app_id: str, batch_id: int | None, last: _LastBatch | None
    ) -> Written:
        check = None if last is None else last.check
        rows_per_file = self._rows_per_file(batch.rows)
        contents = contents_of(batch.rows, batch.bucket, rows_per_file)
        batch.check_timestamps(contents.bad)
        if not contents.rows:
            return Written(seen=snapshot.version, batch_check=check)
        interval = self._settings.checkpoint_interval if self._settings.sidecars else 0
        mark = pipeline_mark(app_id, interval, write=uuid.uuid4().hex, batch=batch_id)
        failure = None
        try:
            rows = spread(batch.guarded(), batch.bucket, contents, rows_per_file)
            self._append(rows, mark, None if batch_id is None else (app_id, batch_id), rows_per_file, last)
        except SPARK_ERRORS as error:
            failure = error
        # After a failure too: what Delta does after a commit may fail, and the batch is in the table then.
        committed = self._find(snapshot, mark, contents)
        if committed is not None:
            return Written(committed, seen=committed.version or 0, batch_check=check)
        if batch_id is not None and (failure is None or isinstance(failure, CONFLICTS)):
            last = self._last(app_id, snapshot)
            if self._is_written(batch, app_id, batch_id, last):
                # Another wrote it at the same time.
                return Written(skipped=True, seen=snapshot.version, batch_check=last.check)
        if failure is None:
            msg = (
                f"{self._store.url}: Delta reports no error, and no commit has the mark of the batch, so that it is "
                "not in the table: its rows were gone when it was written, or a setting of the session, "
                "spark.databricks.delta.write.txnAppId, makes Delta pass it over"
            )
            raise CommitFailedError(msg)
        raise failure

    def _append(
        self, df: DataFrame, mark: str, batch: tuple[str, int] | None, rows_per_file: int, last: _LastBatch | None
    ) -> None:
        # Each is said, so that no setting of the session decides.
        options = {
            "userMetadata": mark,
            "mergeSchema": str(self._settings.merge_schema).lower(),
            "maxRecordsPerFile": str(math.ceil(rows_per_file * _SLACK)),
            "optimizeWrite": "false",
        }
        if batch is not None:
            options |= {"txnAppId": batch[0], "txnVersion": str(batch[1])}
            if last is not None and last.check == "checksum":
                last.snapshot.append(df, batch[0], options)
                return
        df.write.format("delta").mode("append").options(**options).save(self._url)

    def _is_written(self, batch: Batch, app_id: str, batch_id: int, last: _LastBatch) -> bool:
        # Delta keeps the highest id alone; one below it is looked for in the log.
        if last.batch_id is None or last.batch_id <= batch_id:
            return last.batch_id == batch_id
        snapshot = read_table(self._store)
        found = None if snapshot is None else is_batch_there(self._store, snapshot.version, app_id, batch_id)
        if not found and self._contents(batch).rows:
            doubt = "was not written" if found is False else "is older than what is left of the log"
            msg = (
                f"{self._store.url}: batch {batch_id} {doubt}, and batch {last.batch_id} of {app_id} was written: "
                "ids have to grow. Where it is not in the table, write it under a higher id or another app id"
            )
            raise IngestError(msg)
        return True

    def _last(self, app_id: str, table: Snapshot) -> _LastBatch:
        with self._failures():
            snapshot = delta_log.open_snapshot(self._spark, self._url)
            if self._uses_checksums(table) and delta_log.may_append(self._spark):
                transactions = transactions_at(self._store, snapshot.version)
                if transactions is not None:
                    return _LastBatch(snapshot, transactions.get(app_id), "checksum")
            return _LastBatch(snapshot, snapshot.last_transaction(app_id), "replay")

    def _uses_checksums(self, table: Snapshot) -> bool:
        def ignored(name: str, why: str) -> None:
            logger.warning("%s: the table property %s is ignored: %s", self._store.url, name, why)

        call = {"checksum_transactions": self._settings.checksum_transactions}
        return bool(resolve(INGEST_OPTIONS, call, table.metadata.configuration, ignored)["checksum_transactions"])

    def _find(self, snapshot: Snapshot, mark: str, contents: Contents) -> Committed | None:
        column = self._settings.bucket.column.lower()
        names = {path[0].lower(): physical[0] for path, physical in snapshot.columns.physical_names.items()}
        committed = find_commit(self._store, snapshot.version, mark, names[column])
        if committed is None:
            return None
        if committed.rows is None:
            # A table without statistics.
            return replace(committed, rows=contents.rows, null_bucket_rows=contents.bad)
        if committed.rows != contents.rows:
            logger.warning(
                "%s: a batch had %d rows when it was counted and %d when it was written: what it is read from changed "
                "meanwhile, or is different each time",
                self._store.url,
                contents.rows,
                committed.rows,
            )
        if committed.rows >= max(committed.files, 1) * REPRESENTATIVE_ROWS:
            self._row_bytes = committed.bytes / committed.rows
        return committed

    def _rows_per_file(self, df: DataFrame) -> int:
        if self._row_bytes is None:
            known = row_bytes_in_table(self._store)
            self._row_bytes = known or row_bytes_in_sample(df, self._settings.bucket.column)
        return max(int(int(self._settings.target_file_size) / self._row_bytes), 1)

    @contextmanager
    def _failures(self, batch: Batch | None = None) -> Iterator[None]:
        try:
            yield
        except SPARK_ERRORS as error:
            if batch is not None and _BAD_TIMESTAMP in str(error):
                raise batch.refusal(self._contents(batch).bad) from error
            raise ingest_failure(error, self._store.url, self._settings.bucket) from error


# Delta's names for types that it cannot make one of.
_TYPE_CONDITIONS = {
    "DELTA_FAILED_TO_MERGE_FIELDS",
    "DELTA_MERGE_INCOMPATIBLE_DATATYPE",
    "DELTA_MERGE_INCOMPATIBLE_DECIMAL_TYPE",
    "DELTA_METADATA_MISMATCH",
    "DATATYPE_MISMATCH.CAST_WITHOUT_SUGGESTION",
}


class Batch:
    """The rows of a batch and their time buckets, checked against the pipeline's settings.

    Raises:
        SchemaMismatchError: They have no timestamp column.
    """

    def __init__(self, df: DataFrame, settings: IngestSettings, table: str) -> None:
        self.rows = df
        self._settings = settings
        self._table = table
        kind = timestamp_kind(df.schema, settings.bucket, "the batch")
        self.bucket: Column = F.expr(settings.bucket.expression(kind))

    def check(self, table: StructType) -> None:
        """Raises SchemaMismatchError for columns that do not fit the table's."""
        schema, bucket = self.rows.schema, self._settings.bucket
        names = [name.lower() for name in schema.names]
        twice = sorted({name for name in names if names.count(name) > 1})
        if twice:
            msg = f"{self._table}: the batch has the column {', '.join(twice)} more than once"
            raise SchemaMismatchError(msg)
        theirs, ours = (timestamp_kind(each, bucket, "it") for each in (table, schema))
        if theirs != ours:
            msg = f"{self._table}: {bucket.timestamp_column} is {theirs} in the table and {ours} in the batch: cast it"
            raise SchemaMismatchError(msg)
        new = [field.name for field in schema.fields if column_named(table, field.name) is None]
        if new and not self._settings.merge_schema:
            msg = (
                f"{self._table}: the table has no column {', '.join(new)}, which the batch has: leave it out, or let "
                "the pipeline add columns (merge_schema=True, --merge-schema)"
            )
            raise SchemaMismatchError(msg)

    def mismatch(self, table: StructType, error: Exception) -> SchemaMismatchError | None:
        """The error for columns of other types than the table's, which Delta refused; None where it is not about them.

        Delta widens some types by itself, so that it is asked first.
        """
        if condition_of(error) not in _TYPE_CONDITIONS:
            return None
        pairs = ((field, column_named(table, field.name)) for field in self.rows.schema.fields)
        differing = [
            f"{ours.name} is {theirs.dataType.simpleString()} in the table, {ours.dataType.simpleString()} in the batch"
            for ours, theirs in pairs
            if theirs is not None and nullable(ours.dataType) != nullable(theirs.dataType)
        ]
        if not differing:
            return None
        return SchemaMismatchError(f"{self._table}: {'; '.join(differing)}: cast, and run the batch again")

    def check_timestamps(self, bad: int) -> None:
        """Raises BadTimestampsError for a number of rows without a time bucket, unless these have a place."""
        if bad and self._settings.bad_timestamps == "reject":
            raise self.refusal(bad)

    def guarded(self) -> DataFrame:
        """The rows; where bad timestamps are rejected, one that comes in after the count stops the write."""
        if self._settings.bad_timestamps == "null_bucket":
            return self.rows
        name = timestamp_field(self.rows.schema, self._settings.bucket.timestamp_column, "the batch").name
        checked = F.when(self.bucket.isNotNull(), quoted(name)).otherwise(F.raise_error(F.lit(_BAD_TIMESTAMP)))
        return self.rows.withColumn(name, checked)

    def refusal(self, count: int) -> BadTimestampsError:
        """The error for rows without a time bucket."""
        column = self._settings.bucket.timestamp_column
        rows = "1 row of the batch has" if count == 1 else f"{count:,} rows of the batch have"
        msg = (
            f"{self._table}: {rows} no {column}, or one outside the years 1 to 9999, and nothing was written: correct "
            "that, or let it in without a time bucket (bad_timestamps='null_bucket', --bad-timestamps null-bucket)"
        )
        return BadTimestampsError(msg, count)


# Data files of the target size: how many rows make one, and which task writes which rows.
#
# All rows of a time bucket go to one task, and so into one file, unless there are more of them than a file should have:
# then as many tasks as files share them. Where a row goes depends on its values alone, so that a task that is run again
# gets the same rows. None of this is a setting of the session.

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
    nested = (T.StructType, T.ArrayType, T.MapType, T.VariantType)
    hashed = [quoted(field.name) for field in df.schema.fields if not isinstance(field.dataType, nested)]
    among = F.col(_FIRST) + F.pmod(F.xxhash64(*hashed), F.col(_COUNT))
    placed = joined.repartitionById(first, F.coalesce(among, number).cast("int"))
    return placed.drop(_KEY, _FIRST, _COUNT)


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


_KEY, _FIRST, _COUNT = "__delta_sidecar_bucket", "__delta_sidecar_first", "__delta_sidecar_count"


def _parquet_bytes(table: Any, codec: str) -> int:  # noqa: ANN401 - pyarrow has no types
    sink = pa.BufferOutputStream()
    pq.write_table(table, sink, compression=codec)
    size: int = sink.tell()
    return size
