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
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

try:
    import duckdb
except ImportError as error:
    from delta_sidecar.errors import to_install

    msg = f"reading with DuckDB needs the package duckdb: {to_install('duckdb')}"
    raise ImportError(msg) from error

from delta_sidecar.connect.tables import open_handle
from delta_sidecar.errors import DeltaSidecarError
from delta_sidecar.rows.dataset import LazyDataset
from delta_sidecar.rows.query import RowQuery

if TYPE_CHECKING:
    from collections.abc import Mapping

    from delta_sidecar.connect.tables import AnyTable


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

    class Source(PyArrowDatasetSource):
        """DuckDB's own source of a dataset, with an estimate of the rows that is made once."""

        known: tuple[int | None] | None = None

        def rows(self) -> int | None:
            if self.known is None:
                self.known = (_estimated_rows(dataset),)
            return self.known[0]

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
