"""Tables for DuckDB: `register` makes a view of one.

    from delta_sidecar.connect.duckdb import register

    with duckdb.connect() as con:
        register(con, "t", "abfss://lake@account.dfs.core.windows.net/telemetry")
        con.sql("SELECT device_id, value FROM t WHERE _event_hour >= '2026021022' LIMIT 10").to_arrow_table()

DuckDB asks for columns and hands over filters, which leave out files, row groups and rows. A LIMIT it keeps to itself:
it stops to take rows, and with that reading stops too. Rows are taken while files are still being found, newest commits
first. `SELECT count(*)` looks the same as a query for the first column, which is read.

Where you break off by yourself: DuckDB holds up to `streaming_buffer_size` of a result, 10 MB by default, and goes on
reading until that is full. `con.sql(...).to_arrow_reader()` streams; `con.execute(...).to_arrow_reader()` does not.

`running` answers one query over some tables in a DuckDB that sees nothing but them: no file of the machine, no network
and no extension can be reached from the SQL, and no setting be changed.
"""

from __future__ import annotations

import re
import tempfile
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import contextmanager
from functools import cache, partial
from typing import TYPE_CHECKING, Any

from delta_sidecar.errors import DeltaSidecarError, OptionError, needed

with needed("reading with DuckDB needs the package duckdb", "duckdb"):
    import duckdb

from delta_sidecar.connect.tables import open_handle
from delta_sidecar.rows.dataset import LazyDataset
from delta_sidecar.rows.query import RowQuery
from delta_sidecar.store.redaction import Scrubber

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    import pyarrow as pa

    from delta_sidecar.connect.tables import AnyTable
    from delta_sidecar.rows.scan import RowMetrics, RowStream
    from delta_sidecar.rows.table import ReadableTable
    from delta_sidecar.table.pinned import TableHandle


def register(
    con: duckdb.DuckDBPyConnection,
    name: str,
    table: AnyTable,
    *,
    version: int | None = None,
    storage_options: Mapping[str, str] | None = None,
    options: Mapping[str, Any] | None = None,
) -> LazyDataset:
    """Makes a table known to a connection, under a name, at the version that it has now.

    The table is opened, so that its columns are known; of its data nothing is read before a query. The view is there
    until `con.unregister(name)` or `con.close()`; one of them should come before the process ends, since DuckDB
    complains about what is left. Cursors of the connection have views of their own: register the table with each.

    Args:
        con: The connection.
        name: The name of the view; one that is there already is replaced.
        table: A table, a path or an address; of a table, the version that it is at now.
        version: The version to read; None for the newest, or the table's own.
        storage_options: Credentials and settings, as object_store names them.
        options: How files are found and rows are read, by name; the page "Options" has them all.

    Returns:
        What DuckDB scans. An error while it reads reaches you as DuckDB's own, with ours in the text; the error itself
        is `last_error` of this.

    Raises:
        OptionError: The address or an option is not valid, or stands beside a table that has its own.
        TableNotFoundError: There is no table.
        VersionNotFoundError: There is no such version.
    """
    dataset = LazyDataset(open_handle(table, version, storage_options, options), RowQuery())
    if not _register_with_rows(con, name, dataset):
        con.register(name, dataset)
    return dataset


def _register_with_rows(con: duckdb.DuckDBPyConnection, name: str, dataset: LazyDataset) -> bool:
    """Registers a dataset with an estimate of its rows; False if this DuckDB has no such entrance, which is not public.

    Without a number DuckDB takes a dataset to have about one row, and so reads all of it before a join begins. The rows
    of a query are the same either way.
    """
    enter = getattr(con, "_register_arrow_source", None)
    try:
        from duckdb._sources.pyarrow import PyArrowDatasetSource
    except ImportError:
        return False
    if enter is None or not hasattr(PyArrowDatasetSource, "rows"):
        return False

    # DuckDB asks more than once.
    estimate = cache(partial(_estimated_rows, dataset))

    class Source(PyArrowDatasetSource):
        """DuckDB's own source of a dataset, with an estimate of the rows."""

        def rows(self) -> int | None:
            return estimate()

    try:
        enter(name, Source(dataset))
    except (TypeError, duckdb.Error):
        return False
    return True


def _estimated_rows(dataset: LazyDataset) -> int | None:
    try:
        return dataset.estimate_rows()
    except DeltaSidecarError:
        # A plan can do without; the scan will raise the error.
        return None


# One query over some tables.


_ROWS_PER_BATCH = 8_192
# For a query that was interrupted.
_SECONDS_TO_END = 1.0

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
_MISSING = re.compile(r"Catalog Error: Table with name .* does not exist(?=!)")
# Pivoting takes more than one statement.
_QUERIES = {duckdb.StatementType.SELECT, duckdb.StatementType.EXPLAIN, duckdb.StatementType.MULTI}


class QueryError(DeltaSidecarError):
    """DuckDB cannot answer a query."""


@contextmanager
def running(sql: str, tables: Mapping[str, TableHandle]) -> Iterator[QueryRows]:
    """Runs one query in DuckDB's SQL over tables by name, once its schema or its rows are asked for."""
    with tempfile.TemporaryDirectory(prefix="delta-sidecar-", ignore_cleanup_errors=True) as folder:
        rows = QueryRows(sql, tables, duckdb.connect(config={**_CLOSED, "temp_directory": folder}))
        try:
            yield rows
        finally:
            rows.close()


class QueryRows:
    """The rows of a query, streamed to one consumer."""

    def __init__(self, sql: str, tables: Mapping[str, TableHandle], connection: duckdb.DuckDBPyConnection) -> None:
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
        """Stops the query and the scans of its tables, without a long wait for DuckDB to end."""
        self._connection.interrupt()
        for table in self._tables.values():
            table.close()
        ended = self._worker.submit(self._disconnect)
        self._worker.shutdown(wait=False)
        # How it ended is of no interest any more.
        wait([ended], _SECONDS_TO_END)

    def _begun(self) -> pa.RecordBatchReader:
        if self._reader is None:
            self._reader = self._done(self._worker.submit(self._begin))
        return self._reader

    def _begin(self) -> pa.RecordBatchReader:
        for name, table in self._tables.items():
            dataset = register(self._connection, name, table)
            dataset.table = _Watched(dataset.table, self._scans)
            self._datasets.append(dataset)
        for setting in _SETTINGS:
            self._connection.execute(setting)
        statements = self._connection.extract_statements(self._sql)
        kinds = [statement.type for statement in statements]
        if len(kinds) != 1 or kinds[0] not in _QUERIES:
            found = kinds[0].name if len(kinds) == 1 else f"{len(kinds)} statements" if kinds else "nothing"
            msg = f"one query is expected, such as SELECT ..., not {found}: tables are only read"
            raise OptionError(msg)
        return self._connection.sql(statements[0].query).to_arrow_reader(_ROWS_PER_BATCH)

    def _disconnect(self) -> None:
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
        """The error of a table that could not be read, else one with DuckDB's words."""
        for dataset in self._datasets:
            if dataset.last_error is not None:
                return dataset.last_error
        # After an empty line comes the query again, and after "Detail" a traceback.
        text = " ".join(re.split(r"\n\s*\n|\. Detail: ", str(error), maxsplit=1)[0].split())
        if missing := _MISSING.match(text):
            # It would propose tables of its own.
            text = f"{missing[0]}; the tables are {', '.join(self._tables)}"
        return QueryError(f"the query failed: {Scrubber().scrub(text)}")


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
