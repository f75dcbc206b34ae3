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
import os
import threading
import time
from typing import TYPE_CHECKING, Any
from weakref import WeakSet

from delta_sidecar.errors import OptionError, needed

with needed("reading with Polars needs the package polars", "polars"):
    import polars as pl
    from polars.io.plugins import register_io_source

from delta_sidecar.connect.polars_predicates import prunable
from delta_sidecar.connect.tables import open_handle
from delta_sidecar.predicate import FALSE
from delta_sidecar.rows.columns import row_schema
from delta_sidecar.rows.query import RowQuery
from delta_sidecar.store.address import settled
from delta_sidecar.table.delta_table import DeltaTable
from delta_sidecar.table.filters import partition_predicate

if TYPE_CHECKING:
    import datetime as dt
    from collections.abc import Generator, Iterable, Mapping

    from delta_sidecar.events import Listener
    from delta_sidecar.store import TokenCredential
    from delta_sidecar.table.filters import Filters
    from delta_sidecar.table.pinned import TableHandle


def scan_delta(  # noqa: PLR0913 - the first are Polars'
    source: Any,  # noqa: ANN401 - one of deltalake's, too, which may not be there
    *,
    version: int | str | dt.datetime | None = None,
    storage_options: Mapping[str, Any] | None = None,
    credential_provider: object = "auto",
    delta_table_options: Mapping[str, Any] | None = None,
    use_pyarrow: bool = False,
    pyarrow_options: Mapping[str, Any] | None = None,
    options: Mapping[str, Any] | None = None,
    credential: TokenCredential | None = None,
    listeners: Iterable[Listener] = (),
) -> pl.LazyFrame:
    """A table as a LazyFrame, which reads one version however often it is collected.

    The table is opened, so that its columns are known; of its data nothing is read before the frame is collected.

    Args:
        source: A path, an address, or a table of this library or of deltalake; of a table, the version that it is at
            now.
        version: The version to read: its number, or a time as datetime or ISO 8601 text; None for the newest, or the
            table's own.
        storage_options: Credentials and settings, as object_store names them. Of Polars' own, those about retries
            count.
        credential_provider: As in Polars, "auto" or None: credentials are those of the storage options and the
            environment. A function is refused.
        delta_table_options: Further arguments of `DeltaTable`.
        use_pyarrow: As in Polars, where it says who reads the files: here it has no effect.
        pyarrow_options: As in Polars, together with `use_pyarrow`: `partitions` is taken, others are refused.
        options: How files are found and rows are read, by name; the page "Options" has them all.
        credential: For Azure, an object that gives tokens, such as one of azure-identity's.
        listeners: Each gets the events of `delta_sidecar.events`.

    Returns:
        A frame that can be pickled and serialised, with its storage options, if it was made of an address.

    Raises:
        OptionError: The address or an option is not valid, or stands beside a table that has its own.
        TableNotFoundError: There is no table.
        VersionNotFoundError: There is no such version.
    """
    if callable(credential_provider):
        msg = (
            "credential_provider: give credentials as storage_options, in the environment, or for Azure as credential="
        )
        raise OptionError(msg)
    opening: dict[str, Any] = {
        "storage_options": _without_polars(storage_options),
        "options": options,
        "credential": credential,
        "listeners": tuple(listeners),
        **{name: value for name, value in (delta_table_options or {}).items() if name not in _WITHOUT_EFFECT},
    }
    partitions = _partitions(pyarrow_options) if use_pyarrow else None
    if isinstance(source, DeltaTable):
        rows = _Source(open_handle(source, version, **opening).frozen(), partitions, None)
    elif isinstance(source, str | os.PathLike):
        rows = _opened(source, version, opening, partitions)
    else:
        opening["storage_options"] = {**(source._storage_options or {}), **(opening["storage_options"] or {})}  # noqa: SLF001 - as Polars does
        rows = _opened(source.table_uri, source.version() if version is None else version, opening, partitions)
    snapshot = rows.handle.snapshot()
    return register_io_source(
        rows,
        schema=pl.Schema(row_schema(snapshot.schema)),
        validate_schema=True,
        # The same rows whenever it is asked: a plan that has the frame twice may read it once.
        is_pure=True,
        explain_name="DELTA",
        explain_detail=f"{rows.handle.store.url} version {snapshot.version}",
    )


class _Source:
    """The callable that Polars takes rows from whenever a frame is collected."""

    def __init__(self, handle: TableHandle, partitions: Filters | None, opening: tuple[Any, ...] | None) -> None:
        self.handle = handle  # of its own, which stays at its version
        self._predicate = partition_predicate(partitions, handle.snapshot().columns)
        self._opening = opening  # the arguments of `_opened` that make it again; None if it cannot be made again

    def __reduce__(self) -> tuple[Any, ...]:
        if self._opening is None:
            msg = "a LazyFrame of a DeltaTable cannot be pickled: make it of the table's address"
            raise TypeError(msg)
        return _opened, self._opening

    def __call__(
        self,
        with_columns: list[str] | None,
        predicate: pl.Expr | None,
        n_rows: int | None,
        batch_size: int | None,
    ) -> Generator[pl.DataFrame, None, None]:
        """Streams rows; `n_rows` counts before the predicate, and `batch_size` is a hint, which is not followed."""
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
        with self.handle.rows(RowQuery(columns, self._predicate, prunes=prunes, limit=n_rows)) as stream:
            for batch in stream:
                frame = pl.DataFrame(batch)
                if predicate is not None:
                    frame = frame.filter(predicate)
                if with_columns is not None and frame.columns != with_columns:
                    frame = frame.select(with_columns) if with_columns else pl.DataFrame(height=frame.height)
                yield frame


def _opened(
    table: str | os.PathLike[str],
    version: int | str | dt.datetime | None,
    opening: dict[str, Any],
    partitions: Filters | None = None,
) -> _Source:
    # The absolute address: a frame may be unpickled in a process with another current folder.
    address = settled(table)
    handle = open_handle(address, version, **opening).frozen()
    return _Source(handle, partitions, (address, handle.snapshot().version, opening, partitions))


def _without_polars(options: Mapping[str, Any] | None) -> dict[str, Any] | None:
    """Storage options by the names that they have here, without those of Polars' own client."""
    if options is None:
        return None
    in_milliseconds = {name for name in options if name in _IN_MILLISECONDS}
    ours = {name: value for name, value in options.items() if name not in _POLARS | in_milliseconds}
    return ours | {name.removesuffix("_ms"): f"{options[name]}ms" for name in in_milliseconds}


_WITHOUT_EFFECT = {"without_files", "log_buffer_size", "skip_stats"}
_IN_MILLISECONDS = {"retry_timeout_ms", "retry_init_backoff_ms", "retry_max_backoff_ms"}
_POLARS = {
    "file_cache_ttl",
    "retry_base_multiplier",
    *(f"rate_{kind}_{what}" for kind in ("read", "write") for what in ("init", "floor", "ceiling")),
}


def _partitions(options: Mapping[str, Any] | None) -> Filters | None:
    others = [name for name, value in (options or {}).items() if name != "partitions" and value is not None]
    if others:
        msg = f"pyarrow_options: {', '.join(others)} is not supported: leave it out"
        raise OptionError(msg)
    return (options or {}).get("partitions")


_under_way: WeakSet[Generator[pl.DataFrame, None, None]] = WeakSet()
_handles: WeakSet[TableHandle] = WeakSet()
_lock = threading.Lock()
_PATIENCE = 30.0
_PAUSE = 0.005


@atexit.register
def _stop_all() -> None:
    """Ends the scans that are left over when the process ends.

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
