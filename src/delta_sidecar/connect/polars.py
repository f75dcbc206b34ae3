"""Tables for Polars: `scan_delta` gives a LazyFrame.

    from delta_sidecar.connect.polars import scan_delta

    frame = scan_delta("abfss://lake@account.dfs.core.windows.net/telemetry")
    frame.filter(pl.col("_event_hour") >= "2026021022").select("device_id", "value").collect()

Polars asks for columns, for a filter and for a number of rows. The columns are read, the number ends the scan, and the
filter leaves out files and row groups; on the rows it is Polars' own that decides. Rows are handed over while files are
still being found, in both of Polars' engines.
"""

from __future__ import annotations

from copy import copy
from typing import TYPE_CHECKING, Any

from delta_sidecar.data.query import RowQuery
from delta_sidecar.errors import OptionError
from delta_sidecar.predicate import FALSE
from delta_sidecar.table.delta_table import DeltaTable

try:
    import polars as pl
    from polars.io.plugins import register_io_source

    from delta_sidecar.connect.polars_predicates import prunable
except ImportError as error:
    msg = "reading with Polars needs the package polars: pip install 'delta-sidecar[polars]'"
    raise ImportError(msg) from error

if TYPE_CHECKING:
    import os
    from collections.abc import Iterable, Iterator, Mapping

    from delta_sidecar.events import Listener
    from delta_sidecar.store import TokenCredential
    from delta_sidecar.table.handle import TableHandle
    from delta_sidecar.table.snapshot import TableSnapshot


def scan_delta(  # noqa: PLR0913 - as in DeltaTable
    table: str | os.PathLike[str] | DeltaTable,
    *,
    version: int | None = None,
    storage_options: Mapping[str, str] | None = None,
    options: Mapping[str, Any] | None = None,
    credential: TokenCredential | None = None,
    listeners: Iterable[Listener] = (),
) -> pl.LazyFrame:
    """Gives a table as a LazyFrame, which reads one version however often it is collected.

    The table is opened, so that its columns are known; of its data nothing is read before the frame is collected.

    Args:
        table: A path, an address, or a table; of a table, the version that it is at now.
        version: The version to read; None for the newest, or the table's own.
        storage_options: Credentials and settings, as object_store names them.
        options: How files are found and rows are read, by name; the page "Options" has them all.
        credential: For Azure, an object that gives tokens, such as one of azure-identity's.
        listeners: Each is told what happens, as the events of `delta_sidecar.events`.

    Returns:
        A frame that can be pickled and serialised, with its storage options, if it was made of an address.

    Raises:
        OptionError: The address or an option is not valid, or stands beside a table that has its own.
        TableNotFoundError: There is no table.
        VersionNotFoundError: There is no such version.
    """
    if isinstance(table, DeltaTable):
        own = {"storage_options": storage_options, "options": options, "credential": credential}
        given = [name for name, value in {**own, "listeners": tuple(listeners) or None}.items() if value is not None]
        if given:
            msg = f"a DeltaTable has its own {', '.join(given)}: give them to it, or give its address here"
            raise OptionError(msg)
        source = _Source(_held(table.snapshot(), version), None)
    else:
        arguments = {
            "storage_options": storage_options,
            "options": options,
            "credential": credential,
            "listeners": tuple(listeners),
        }
        opened = DeltaTable(table, version, **arguments).snapshot()
        source = _Source(opened.handle, (table, opened.version, arguments))
    snapshot = source.handle.snapshot()
    return register_io_source(
        source,
        schema=pl.Schema(snapshot.schema),
        # The same rows whenever it is asked: a plan that has the frame twice may read it once.
        is_pure=True,
        explain_name="DELTA",
        explain_detail=f"{source.handle.store.url} version {snapshot.version}",
    )


def _held(table: TableSnapshot, version: int | None) -> TableHandle:
    """A handle that stays at its version when the table goes to another, and still is closed with the table."""
    handle = copy(table.handle)
    if version is not None:
        handle.pin(version=version)
    return handle


class _Source:
    """What Polars calls whenever a frame is collected.

    Args:
        handle: Scans the table; nobody else moves it to another version.
        address: The table's address, its version and how it is opened; None if it cannot be opened anew.
    """

    def __init__(self, handle: TableHandle, address: tuple[Any, int, dict[str, Any]] | None) -> None:
        self.handle = handle
        self._address = address

    def __reduce__(self) -> tuple[Any, ...]:
        if self._address is None:
            msg = "a LazyFrame of a DeltaTable cannot be pickled: make it of the table's address"
            raise TypeError(msg)
        return _reopened, self._address

    def __call__(
        self,
        with_columns: list[str] | None,
        predicate: pl.Expr | None,
        n_rows: int | None,
        batch_size: int | None,
    ) -> Iterator[pl.DataFrame]:
        """Streams rows.

        Args:
            with_columns: Names of the columns; None for all.
            predicate: Only rows that match.
            n_rows: At most so many rows, counted before the predicate.
            batch_size: A hint for the rows of a frame, which come as files and options have them.
        """
        del batch_size
        schema = self.handle.snapshot().schema
        columns = None
        if with_columns is not None:
            needed = {*with_columns, *([] if predicate is None else predicate.meta.root_names())}
            columns = tuple(name for name in schema.names if name in needed)
        # The first rows are taken whether they match or not: leaving out files would let others take their place.
        prunes = None if predicate is None or n_rows is not None else prunable(predicate, schema)
        if prunes == FALSE:
            return
        with self.handle.rows(RowQuery(columns, prunes=prunes, limit=n_rows)) as stream:
            for batch in stream:
                frame = pl.DataFrame(batch)
                if predicate is not None:
                    frame = frame.filter(predicate)
                if with_columns is not None and frame.columns != with_columns:
                    frame = frame.select(with_columns) if with_columns else pl.DataFrame(height=frame.height)
                yield frame


def _reopened(table: str | os.PathLike[str], version: int, arguments: dict[str, Any]) -> _Source:
    return _Source(DeltaTable(table, version, **arguments).snapshot().handle, (table, version, arguments))
