"""Tables for Polars: `scan_delta` gives a LazyFrame.

    from delta_sidecar.connect.polars import scan_delta

    frame = scan_delta("abfss://lake@account.dfs.core.windows.net/telemetry")
    frame.filter(pl.col("_event_hour") >= "2026021022").select("device_id", "value").collect()

Polars asks for columns, for a filter and for a number of rows. The columns are read, the number ends the scan, and the
filter leaves out files and row groups; on the rows it is Polars' own that decides. Rows are handed over while files are
still being found, in both of Polars' engines.
"""

from __future__ import annotations

import atexit
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any
from weakref import WeakSet

try:
    import polars as pl
    from polars.io.plugins import register_io_source
except ImportError as error:
    msg = "reading with Polars needs the package polars: pip install 'delta-sidecar[polars]'"
    raise ImportError(msg) from error

from delta_sidecar.connect.polars_predicates import prunable
from delta_sidecar.data.columns import row_schema
from delta_sidecar.data.query import RowQuery
from delta_sidecar.errors import OptionError
from delta_sidecar.predicate import FALSE
from delta_sidecar.store.address import parse_address
from delta_sidecar.table.delta_table import DeltaTable

if TYPE_CHECKING:
    import os
    from collections.abc import Generator, Iterable, Mapping

    from delta_sidecar.events import Listener
    from delta_sidecar.store import TokenCredential
    from delta_sidecar.table.handle import TableHandle


def scan_delta(
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
    opening: dict[str, Any] = {
        "storage_options": storage_options,
        "options": options,
        "credential": credential,
        "listeners": tuple(listeners),
    }
    if not isinstance(table, DeltaTable):
        source = _opened(table, version, opening)
    elif given := [name for name, value in opening.items() if value not in (None, ())]:
        msg = f"a DeltaTable has its own {', '.join(given)}: give them to it, or give its address here"
        raise OptionError(msg)
    else:
        handle = table.snapshot().handle.frozen()
        if version is not None:
            handle.pin(version=version)
        source = _Source(handle, None)
    snapshot = source.handle.snapshot()
    return register_io_source(
        source,
        schema=pl.Schema(row_schema(snapshot.schema)),
        validate_schema=True,
        # The same rows whenever it is asked: a plan that has the frame twice may read it once.
        is_pure=True,
        explain_name="DELTA",
        explain_detail=f"{source.handle.store.url} version {snapshot.version}",
    )


class _Source:
    """What Polars calls whenever a frame is collected.

    Args:
        handle: Scans the table; nobody else moves it to another version.
        address: The table's address, its version and how it is opened; None if it may not be opened anew.
    """

    def __init__(self, handle: TableHandle, address: tuple[Any, int, dict[str, Any]] | None) -> None:
        self.handle = handle
        self._address = address

    def __reduce__(self) -> tuple[Any, ...]:
        if self._address is None:
            msg = "a LazyFrame of a DeltaTable cannot be pickled: make it of the table's address"
            raise TypeError(msg)
        return _opened, self._address

    def __call__(
        self,
        with_columns: list[str] | None,
        predicate: pl.Expr | None,
        n_rows: int | None,
        batch_size: int | None,
    ) -> Generator[pl.DataFrame, None, None]:
        """Streams rows.

        Args:
            with_columns: Names of the columns; None for all.
            predicate: Only rows that match.
            n_rows: At most so many rows, counted before the predicate.
            batch_size: A hint for the rows of a frame, which come as files and options have them.
        """
        del batch_size
        frames = self._frames(with_columns, predicate, n_rows)
        with _lock:
            _under_way.add(frames)
            _handles.add(self.handle)
        return frames

    def _frames(
        self, with_columns: list[str] | None, predicate: pl.Expr | None, n_rows: int | None
    ) -> Generator[pl.DataFrame, None, None]:
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


def _opened(table: str | os.PathLike[str], version: int | None, opening: dict[str, Any]) -> _Source:
    found = DeltaTable(table, version, **opening).snapshot()
    address = parse_address(table)
    # Wherever a frame is taken, and whatever folder is the current one there, it is this table.
    place = Path(address.url) if address.kind == "local" else table
    return _Source(found.handle.frozen(), (place, found.version, opening))


_under_way: WeakSet[Generator[pl.DataFrame, None, None]] = WeakSet()
_handles: WeakSet[TableHandle] = WeakSet()
_lock = threading.Lock()
_PATIENCE = 30.0
_PAUSE = 0.005


@atexit.register
def _stop_all() -> None:
    """Ends what is left over when the process ends.

    A query of the streaming engine that has its rows may still be asking for more, in threads of Polars. One that is
    inside of Python when Python ends is cut off, and takes the process with it.
    """
    with _lock:
        left, handles = list(_under_way), list(_handles)
    for handle in handles if left else ():
        handle.close()
    deadline = time.monotonic() + _PATIENCE
    while left and time.monotonic() < deadline:
        left = [frames for frames in left if not _is_closed(frames)]
        # Also after the last: the thread that waited for it has to find its way out of Python.
        time.sleep(_PAUSE)


def _is_closed(frames: Generator[pl.DataFrame, None, None]) -> bool:
    try:
        frames.close()
    except ValueError:
        # A thread is in it right now.
        return False
    return True
