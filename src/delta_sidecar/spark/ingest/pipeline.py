"""`IngestPipeline`: rows into a Delta table whose data files hold one time bucket each."""

from __future__ import annotations

import re
import time
from concurrent.futures import Future
from dataclasses import asdict, dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal

from pyspark.errors import PySparkException

from delta_sidecar.errors import IngestError, OptionError
from delta_sidecar.events import BatchWritten, Events
from delta_sidecar.spark.access import grant, grant_path, hadoop_url, spark_path
from delta_sidecar.spark.commits import Committed
from delta_sidecar.spark.ingest.batch import BatchCheck, BatchWriter, Written
from delta_sidecar.spark.ingest.buckets import TimeBucket
from delta_sidecar.spark.ingest.tables import BadTimestamps, IngestSettings
from delta_sidecar.spark.session import check_session
from delta_sidecar.spark.spark_errors import SPARK_ERRORS, line_of
from delta_sidecar.spark.trigger import CheckpointTrigger
from delta_sidecar.store import open_store

if TYPE_CHECKING:
    import os
    from collections.abc import Callable, Iterable, Mapping

    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery
    from pyspark.sql.types import StructType

    from delta_sidecar.events import Listener
    from delta_sidecar.spark.trigger import TriggerOutcome
    from delta_sidecar.store import Store


_HIGHEST_ID = (1 << 63) - 1


class IngestPipeline:
    """Writes batches and streams of rows into a Delta table, each data file with the rows of one time bucket.

        pipeline = IngestPipeline(spark, "abfss://lake@account.dfs.core.windows.net/telemetry")
        pipeline.write(df, batch_id=7)

    The table is made with the first batch where it is missing: the bucket is a generated column that the table is
    partitioned by, so that every other writer gets the same buckets too, and its definition is kept in the table's
    properties `deltaSidecar.bucket.*`. A table whose bucket is defined in another way is refused; one that others made
    is taken where it is partitioned by a generated column of the same name and expression.

    A batch is written whole or not at all. One with an id is written once, however often it is run. Ids grow: one below
    the highest that was written is refused, unless it was written too. Every so many commits a checkpoint and a
    metadata sidecar are made, by one of the pipelines on the table; when that fails the batch is written all the same,
    and a later one makes up for it.

    A pipeline may be used by several threads. Making one does not touch the table.
    """

    def __init__(  # noqa: PLR0913 - a call for people: every option by its name
        self,
        spark: SparkSession,
        table: str | os.PathLike[str],
        *,
        bucket: TimeBucket | None = None,
        checkpoint_interval: int = 10,
        target_file_size: int | str = "128MB",
        app_id: str = "delta-sidecar",
        bad_timestamps: BadTimestamps = "reject",
        merge_schema: bool = False,
        change_data_feed: bool = False,
        deletion_vectors: bool = False,
        sidecars: bool = True,
        checksum_transactions: bool | None = None,
        storage_options: Mapping[str, str] | None = None,
        listeners: Iterable[Listener] = (),
        properties: Mapping[str, str] | None = None,
    ) -> None:
        """Makes a pipeline.

        Args:
            spark: A session with Delta, such as that of `spark_session`.
            table: The table's root: a path or an address.
            bucket: The time bucket; None for hours of `event_ts` in the column `_event_hour`.
            checkpoint_interval: A checkpoint and a metadata sidecar are made every so many commits.
            target_file_size: The size that data files should have, as a number or a text such as `128MB`. A bucket with
                more rows in a batch gets several files; one with fewer gets one, however small.
            app_id: Whose batch ids they are. Two pipelines that write different batches to one table need two.
            bad_timestamps: What becomes of rows without a timestamp, or with one outside the years 1 to 9999: `reject`
                refuses the batch; `null_bucket` writes them to the partition of rows that have no bucket.
            merge_schema: Whether columns that the table does not have are added to it, rather than refused.
            change_data_feed: Whether a table that is made has a change data feed.
            deletion_vectors: Whether a table that is made has deletion vectors.
            sidecars: Whether metadata sidecars are made; without them Delta makes its checkpoints by itself.
            checksum_transactions: Whether a checksum file is asked if a batch was written before, where it can be
                relied on, rather than have Delta replay the log. None for what the table's property
                `deltaSidecar.ingest.checksum_transactions` says, or the environment; by default it is.
            storage_options: Credentials and settings of the store, for Spark and for this library.
            listeners: Each is called with the events of `delta_sidecar.events`.
            properties: More properties for a table that is made, and the last word on the others.

        Raises:
            OptionError: The address or an option is not valid.
            AuthenticationError: There are no credentials, and nowhere to look for any.
        """
        if not app_id:
            msg = f"app_id must be a name, not {app_id!r}"
            raise OptionError(msg)
        self._spark = spark
        self._table = table
        self._settings = IngestSettings(
            bucket=bucket or TimeBucket(),
            checkpoint_interval=checkpoint_interval,
            target_file_size=target_file_size,
            bad_timestamps=bad_timestamps,
            merge_schema=merge_schema,
            change_data_feed=change_data_feed,
            deletion_vectors=deletion_vectors,
            sidecars=sidecars,
            checksum_transactions=checksum_transactions,
            properties=dict(properties or {}),
        )
        self._app_id = app_id
        self._options = dict(storage_options or {})
        self._listeners = tuple(listeners)
        self._events = Events(self._listeners)
        self._store: Store = open_store(table, storage_options)
        self._triggers: dict[str, CheckpointTrigger] = {}

    def __repr__(self) -> str:
        return f"IngestPipeline({self._store.url!r}, {self._settings.bucket!r})"

    def create(self, schema: StructType) -> None:
        """Makes the table where it is missing, before there is a batch.

        Args:
            schema: Its columns, the bucket's not needed.

        Raises:
            IngestError: It cannot be made.
            TableMismatchError: The one that is there has another time bucket.
        """
        self._writer.prepare(schema)

    def write(self, df: DataFrame, batch_id: int | None = None) -> WriteSummary:
        """Writes a batch in one commit.

        The rows are read twice: once for their timestamps, which are counted, and once to be written. A batch without
        rows makes no commit.

        Args:
            df: The rows.
            batch_id: A number that grows from batch to batch; the same one twice is written once. None for a batch
                that is written each time.

        Raises:
            BadTimestampsError: Rows have no timestamp that has a bucket, and these are to be rejected.
            SchemaMismatchError: The columns do not fit the table's.
            TableMismatchError: The table has another time bucket.
            IngestError: It was not written for another reason. As with the others, nothing of it is in the table.
            StorageError: The table's log could not be read, before or after the write. Whether the batch is in the
                table is not known; one with an id can be run again.
            OptionError: The rows are a stream, or the batch id is no whole number from 0 on.
        """
        return self._write(df, self._app_id, batch_id)

    def write_stream(
        self,
        df: DataFrame,
        *,
        checkpoint_location: str | os.PathLike[str],
        trigger: Mapping[str, Any] | None = None,
        query_name: str | None = None,
        transform: Callable[[DataFrame], DataFrame] | None = None,
    ) -> StreamingQuery:
        """Starts a query that writes a stream, batch after batch.

        A query that is started again with the same checkpoint location goes on where it stopped, and no row is lost or
        written twice. It stands beside the pipeline's own batches: their ids do not meet.

        Args:
            df: The stream.
            checkpoint_location: Where Spark keeps how far the query has come; a folder for this query alone.
            trigger: When there is a batch, as for Spark's `DataStreamWriter.trigger`: `{"availableNow": True}` or
                `{"processingTime": "10 seconds"}`. None for one after another.
            query_name: The query's name.
            transform: Makes the rows that are written of each batch; None for the batch as it is. It is not called for
                one that was written before.

        Raises:
            OptionError: It is no stream, or the trigger is not valid.
            SparkSetupError: The session is not one that can write.
        """
        if not df.isStreaming:
            msg = "the rows are no stream: read them with spark.readStream, or write them as a batch"
            raise OptionError(msg)
        # Before Spark opens anything: a file system keeps the credentials that it was opened with.
        self._prepare_session()
        if self._options:
            grant_path(self._spark, checkpoint_location, self._options)
        # The first batch waits until the query has been started, and its id is known. Spark keeps the id in the
        # checkpoint location, and numbers the batches: by these two Delta knows a batch that comes again.
        started: Future[str] = Future()

        def write(batch: DataFrame, batch_id: int) -> None:
            if self._write(batch, started.result(), batch_id, transform).skipped:
                # Operators with a state have to see every batch.
                batch.write.format("noop").mode("append").save()

        location = spark_path(checkpoint_location, self._options)
        writer = df.writeStream.foreachBatch(write).option("checkpointLocation", location)
        if query_name is not None:
            writer = writer.queryName(query_name)
        if trigger is not None:
            try:
                writer = writer.trigger(**trigger)
            except (PySparkException, TypeError) as error:
                msg = f"the trigger of a stream is not valid: {error}"
                raise OptionError(msg) from None
        query = writer.start()
        started.set_result(query.id)
        return query

    def _prepare_session(self) -> None:
        check_session(self._spark)
        if self._options:
            grant(self._spark, self._table, self._options)

    @cached_property
    def _writer(self) -> BatchWriter:
        self._prepare_session()
        return BatchWriter(self._spark, hadoop_url(self._table, self._options), self._store, self._settings)

    def _write(
        self,
        df: DataFrame,
        app_id: str,
        batch_id: int | None,
        transform: Callable[[DataFrame], DataFrame] | None = None,
    ) -> WriteSummary:
        is_number = isinstance(batch_id, int) and not isinstance(batch_id, bool) and 0 <= batch_id <= _HIGHEST_ID
        if batch_id is not None and not is_number:
            msg = f"a batch id must be a whole number from 0 on, not {batch_id!r}"
            raise OptionError(msg)
        if df.isStreaming:
            msg = "the rows are a stream: write_stream takes it"
            raise OptionError(msg)
        began = time.monotonic()
        try:
            written = self._writer.write(df, app_id, batch_id, transform)
        except Exception as failure:
            self._report(Written(), type(failure).__name__, app_id, batch_id, began)
            raise
        self._report(written, None, app_id, batch_id, began)
        sidecar = None
        if self._settings.sidecars:
            sidecar = self._trigger(app_id).after(written.seen, committed=written.committed is not None)
        return WriteSummary(
            table=self._store.url,
            batch_id=batch_id,
            **asdict(written.committed or Committed()),
            skipped=written.skipped,
            batch_check=written.batch_check,
            sidecar=sidecar,
            seconds=round(time.monotonic() - began, 3),
        )

    def _trigger(self, app_id: str) -> CheckpointTrigger:
        trigger = CheckpointTrigger(
            self._spark,
            self._table,
            self._store,
            self._settings.checkpoint_interval,
            app_id=app_id,
            storage_options=self._options,
            build_options={"bucket_column": self._settings.bucket.column},
            listeners=self._listeners,
        )
        return self._triggers.setdefault(app_id, trigger)

    def _report(self, written: Written, error: str | None, app_id: str, batch_id: int | None, began: float) -> None:
        outcome: Literal["complete", "skipped", "empty", "failed"] = "failed"
        if error is None:
            outcome = "skipped" if written.skipped else "complete" if written.committed else "empty"
        self._events(
            BatchWritten(
                table=self._store.url,
                outcome=outcome,
                error=error,
                milliseconds=round((time.monotonic() - began) * 1000, 3),
                app_id=app_id,
                batch_id=batch_id,
                batch_check=written.batch_check,
                **asdict(written.committed or Committed()),
            )
        )


def wait_for(query: StreamingQuery) -> None:
    """Waits until a query ends.

    Raises:
        IngestError: It failed; what its batches had written before is in the table.
    """
    try:
        query.awaitTermination()
    except SPARK_ERRORS as error:
        found = _OWN_ERROR.search(str(error))
        raise IngestError(found[1] if found else f"the stream ended: {line_of(error)}") from error


# An error that a batch raised in Python is in the middle of what Java makes of it.
_OWN_ERROR = re.compile(r"delta_sidecar\.errors\.\w+: ([^\n]+)")


@dataclass(frozen=True, slots=True)
class WriteSummary:
    """The outcome of a batch.

    Attributes:
        table: The table's address, without secrets.
        batch_id: The batch's id; None where it has none.
        version: The version of the table that the batch made; None where it made none, since it had no rows or was
            written before.
        rows: Rows written.
        files: Data files written.
        bytes: Their size.
        buckets: Time buckets that the rows are in; rows without one count as one more.
        null_bucket_rows: Rows that are in no time bucket.
        skipped: Whether nothing was written, for the batch id was written before.
        batch_check: How that was found out: by a `checksum` file, or by Delta's `replay` of the log; None where the
            batch has no id, or there was no table.
        sidecar: What the checkpoint trigger did after the commit; None where nothing was due.
        seconds: How long it took, the checkpoint trigger included.
    """

    table: str
    batch_id: int | None
    version: int | None
    rows: int
    files: int
    bytes: int
    buckets: int
    null_bucket_rows: int
    skipped: bool
    batch_check: BatchCheck | None
    sidecar: TriggerOutcome | None
    seconds: float

    def as_dict(self) -> dict[str, Any]:
        """All of it by name, for JSON."""
        return asdict(self)
