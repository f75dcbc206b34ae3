"""Streams: each micro-batch of a query is a batch of the pipeline, under the query's own id.

Spark gives a query an id that its checkpoint location keeps, and numbers its batches. After a restart the last batch
may come again; by these two Delta knows it, and it is not written again.
"""

from __future__ import annotations

import re
import threading
from typing import TYPE_CHECKING, Any

from pyspark.errors import PySparkException

from delta_sidecar.errors import IngestError, OptionError
from delta_sidecar.spark.failures import SPARK_ERRORS, line_of

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from pyspark.sql import DataFrame
    from pyspark.sql.streaming.query import StreamingQuery


def start_stream(
    df: DataFrame,
    write: Callable[[DataFrame, str, int | None], object],
    *,
    location: str,
    trigger: Mapping[str, Any] | None = None,
    name: str | None = None,
) -> StreamingQuery:
    """Starts a query whose batches are written one by one.

    Args:
        df: The stream.
        write: Writes a batch, with whose batch ids they are and the batch's.
        location: Where Spark keeps how far the query has come.
        trigger: When there is a batch; None for one after another.
        name: The query's name.

    Raises:
        OptionError: It is no stream, or the trigger is not valid.
    """
    if not df.isStreaming:
        msg = "the rows are no stream: read them with spark.readStream, or write them as a batch"
        raise OptionError(msg)
    batches = _Batches(write)
    writer = df.writeStream.foreachBatch(batches).option("checkpointLocation", location)
    if name is not None:
        writer = writer.queryName(name)
    if trigger is not None:
        try:
            writer = writer.trigger(**trigger)
        except (PySparkException, TypeError) as error:
            msg = f"the trigger of a stream is not valid: {error}"
            raise OptionError(msg) from None
    query = writer.start()
    batches.known(query.id)
    return query


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


# What a batch raised in Python is in the middle of what Java makes of it.
_OWN_ERROR = re.compile(r"delta_sidecar\.errors\.\w+: ([^\n]+)")


class _Batches:
    """Takes the batches of a query, whose id is known as soon as it has been started."""

    def __init__(self, write: Callable[[DataFrame, str, int | None], object]) -> None:
        self._write = write
        self._id = ""
        self._is_known = threading.Event()

    def known(self, query_id: str) -> None:
        """Tells the query's id, which the first batch waits for."""
        self._id = query_id
        self._is_known.set()

    def __call__(self, df: DataFrame, batch_id: int) -> None:
        self._is_known.wait()
        self._write(df, self._id, batch_id)
