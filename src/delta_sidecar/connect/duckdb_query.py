"""One SQL query over some tables, answered by a DuckDB that sees nothing but them.

    with running("SELECT device_id, count(*) FROM t GROUP BY 1", {"t": table}) as rows:
        for batch in rows:
            ...

No file of the machine, no network and no extension can be reached from the SQL, and no setting be changed. Rows come as
DuckDB has them; leaving the block stops the query and the requests of its tables.
"""

from __future__ import annotations

import re
import tempfile
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

# First, since it says what to do where DuckDB is missing.
from delta_sidecar.connect.duckdb import register  # isort: skip
import duckdb

from delta_sidecar.errors import DeltaSidecarError, OptionError
from delta_sidecar.store.redaction import Scrubber

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    import pyarrow as pa

    from delta_sidecar.rows.dataset import LazyDataset
    from delta_sidecar.rows.query import RowQuery
    from delta_sidecar.rows.scan import RowMetrics, RowStream
    from delta_sidecar.rows.table import ReadableTable
    from delta_sidecar.table.delta_table import DeltaTable
    from delta_sidecar.table.pinned import TableHandle

_ROWS_PER_BATCH = 8_192
# Seconds that a query has to end after it was interrupted.
_FAREWELL = 1.0

_CLOSED = {
    "enable_external_access": False,
    "autoinstall_known_extensions": False,
    "autoload_known_extensions": False,
    "allow_persistent_secrets": False,
    "python_enable_replacements": False,
}
_SETTINGS = (
    "SET TimeZone = 'UTC'",
    # By default it runs 10 MB ahead of the consumer.
    "SET streaming_buffer_size = '256KB'",
    "SET lock_configuration = true",
)
# Pivoting takes more than one statement.
_QUERIES = {duckdb.StatementType.SELECT, duckdb.StatementType.EXPLAIN, duckdb.StatementType.MULTI}


class QueryError(DeltaSidecarError):
    """DuckDB cannot answer a query."""


@contextmanager
def running(sql: str, tables: Mapping[str, DeltaTable | TableHandle]) -> Iterator[QueryRows]:
    """Runs one query in DuckDB's SQL over tables by name, once its schema or its rows are asked for."""
    with tempfile.TemporaryDirectory(prefix="delta-sidecar-", ignore_cleanup_errors=True) as folder:
        rows = QueryRows(sql, tables, duckdb.connect(config={**_CLOSED, "temp_directory": folder}))
        try:
            yield rows
        finally:
            rows.close()


class QueryRows:
    """The rows of a query, streamed to one consumer."""

    def __init__(
        self, sql: str, tables: Mapping[str, DeltaTable | TableHandle], connection: duckdb.DuckDBPyConnection
    ) -> None:
        self.rows = 0  # streamed so far
        self._sql = sql
        self._connection = connection
        self._tables = tables
        self._datasets: list[LazyDataset] = []
        self._scans: list[RowStream] = []
        self._reader: pa.RecordBatchReader | None = None
        # DuckDB runs in a thread of its own, so that an interrupt reaches this one while it waits.
        self._worker = ThreadPoolExecutor(1, thread_name_prefix="delta-sidecar-sql")

    @property
    def schema(self) -> pa.Schema:
        """The schema of each batch. The tables are opened, and DuckDB goes to work.

        Raises:
            DeltaSidecarError: A table cannot be opened.
            OptionError: It is no query, or more than one.
            QueryError: DuckDB cannot answer it.
        """
        return self._begun().schema

    @property
    def scans(self) -> list[RowMetrics]:
        """Metrics of each scan of a table so far; there are none while tables are being opened."""
        return [stream.metrics for stream in list(self._scans)]

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        """Streams the batches, of which the next is always under way; raises as `schema` does."""
        reader = self._begun()
        ahead = self._worker.submit(next, reader, None)
        while (batch := self._done(ahead)) is not None:
            ahead = self._worker.submit(next, reader, None)
            if batch.num_rows:
                self.rows += batch.num_rows
                yield batch

    def close(self) -> None:
        """Stops the query and the scans of its tables; it is not waited long for DuckDB to end."""
        self._connection.interrupt()
        for table in self._tables.values():
            table.close()
        ended = self._worker.submit(self._let_go)
        self._worker.shutdown(wait=False)
        # How it ended is of no interest any more.
        wait([ended], _FAREWELL)

    def _begun(self) -> pa.RecordBatchReader:
        if self._reader is None:
            self._done(self._worker.submit(self._register))
            self._reader = self._done(self._worker.submit(self._answer))
        return self._reader

    def _register(self) -> None:
        for name, table in self._tables.items():
            dataset = register(self._connection, name, table)
            dataset.table = _Watched(dataset.table, self._scans)
            self._datasets.append(dataset)
        for setting in _SETTINGS:
            self._connection.execute(setting)

    def _answer(self) -> pa.RecordBatchReader:
        statements = self._connection.extract_statements(self._sql)
        kinds = [statement.type for statement in statements]
        if len(kinds) != 1 or kinds[0] not in _QUERIES:
            found = kinds[0].name if len(kinds) == 1 else f"{len(kinds)} statements" if kinds else "nothing"
            msg = f"one query is expected, such as SELECT ..., not {found}: tables are only read"
            raise OptionError(msg)
        return self._connection.sql(statements[0].query).to_arrow_reader(_ROWS_PER_BATCH)

    def _let_go(self) -> None:
        # DuckDB complains at length about readers that are still there when Python ends.
        reader, self._reader = self._reader, None
        try:
            if reader is not None:
                reader.close()
        finally:
            self._connection.close()

    def _done(self, work: Future[Any]) -> Any:  # noqa: ANN401 - of any work
        try:
            return work.result()
        except (duckdb.Error, OSError, RuntimeError) as error:
            raise self._cause(error) from None

    def _cause(self, error: Exception) -> Exception:
        """Gives the error of a table that could not be read, else one with DuckDB's words."""
        for dataset in self._datasets:
            if dataset.last_error is not None:
                return dataset.last_error
        # After an empty line comes the query again, and after "Detail" a traceback.
        text = " ".join(re.split(r"\n\s*\n|\. Detail: ", str(error), maxsplit=1)[0].split())
        if missing := _MISSING.match(text):
            # It would propose tables of its own.
            text = f"{missing[0]}; the tables are {', '.join(self._tables)}"
        msg = f"the query failed: {Scrubber().scrub(text)}"
        return QueryError(msg)


_MISSING = re.compile(r"Catalog Error: Table with name .* does not exist(?=!)")


class _Watched:
    """A table that keeps a list of the streams of its rows."""

    def __init__(self, table: ReadableTable, streams: list[RowStream]) -> None:
        self._table = table
        self._streams = streams

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401 - any attribute of the table
        return getattr(self._table, name)

    def rows(self, query: RowQuery) -> RowStream:
        """A stream of its rows."""
        stream = self._table.rows(query)
        self._streams.append(stream)
        return stream
