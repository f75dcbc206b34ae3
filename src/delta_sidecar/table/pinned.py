"""A table that is pinned to one version, and the scans that read it there."""

from __future__ import annotations

import copy
import threading
from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any
from weakref import WeakSet

from delta_sidecar.errors import OptionError, described
from delta_sidecar.options import ROW_OPTIONS, SCAN_OPTIONS
from delta_sidecar.rows.locations import TableAccess
from delta_sidecar.rows.query import RowOptions, RowQuery
from delta_sidecar.rows.scan import RowScan, RowStream
from delta_sidecar.scan.config import LazyScanConfig
from delta_sidecar.scan.run import ScanRun
from delta_sidecar.scan.scanner import LazyDeltaScanner
from delta_sidecar.store import open_store
from delta_sidecar.store.address import settled

if TYPE_CHECKING:
    import datetime as dt
    import os
    from collections.abc import Callable, Iterable
    from typing import Self

    from delta_sidecar.events import Listener
    from delta_sidecar.log.segment import LogSegment
    from delta_sidecar.replay.snapshot import Snapshot
    from delta_sidecar.rows.scan import RowMetrics
    from delta_sidecar.scan.stream import Cancellable
    from delta_sidecar.store import Store, TokenCredential

    UnderWay = RowStream | LazyDeltaScanner | Cancellable


class TableHandle:
    """A table that is opened once and scanned at one version: that of `pin`, else the newest at its first use."""

    def __init__(
        self,
        table_uri: str | os.PathLike[str],
        version: int | None = None,
        storage_options: Mapping[str, str] | None = None,
        options: Mapping[str, Any] | None = None,
        *,
        credential: TokenCredential | None = None,
        listeners: Iterable[Listener] = (),
        store: Store | None = None,
    ) -> None:
        """Takes a table by its address; nothing is requested yet, and no version is pinned.

        Raises:
            OptionError: The address or an option is not valid.
        """
        self._config, self.row_options = _read_options(options, version)
        self.store = (
            store if store is not None else open_store(settled(table_uri), storage_options, credential=credential)
        )
        self.access = TableAccess(
            self.store, storage_options, credential, allow_external_paths=self.row_options.allow_external_paths
        )
        self._listeners = tuple(listeners)
        self._segment: LogSegment | None = None
        self._snapshot: Snapshot | None = None
        self._streams: WeakSet[UnderWay] = WeakSet()
        self._lock = threading.RLock()
        # Never held for long, while the other one is held as long as the table is being opened.
        self._streams_lock = threading.Lock()

    def version(self) -> int:
        """The version that is read; if none is known yet, the newest is pinned."""
        return self.pin() if self._config.version is None else self._config.version

    def snapshot(self) -> Snapshot:
        """The table at its version, which is opened at its first use."""
        with self._lock:
            if self._snapshot is not None:
                return self._snapshot
            snapshot = ScanRun(self.store, self._config, self._listeners, segment=self._segment).open()
            self.move(snapshot.version, snapshot)
            return snapshot

    def pin(self, version: int | None = None, timestamp: dt.datetime | str | None = None) -> int:
        """Moves to a version, to that of a time, or to the newest, by the hint and the listing of the log alone.

        The next scan uses the same listing. If this fails, nothing changes.

        Raises:
            TableNotFoundError: There is no table.
            VersionNotFoundError: There is no such version.
        """
        config = replace(self._config, version=version, timestamp=timestamp)
        with self._lock:
            segment = ScanRun(self.store, config, self._listeners).pin()
            self.move(segment.version)
            self._segment = segment
            return segment.version

    def move(self, version: int, snapshot: Snapshot | None = None) -> None:
        """Moves to a version that is known to exist, or that is open already; nothing is requested."""
        with self._lock:
            self._segment, self._snapshot = None, snapshot
            self._config = replace(self._config, version=version, timestamp=None)

    def frozen(self) -> Self:
        """A copy that stays at the current version and, unless options say otherwise, scans newest commits first.

        `close` of either stops the scans of both.
        """
        with self._lock:
            self.snapshot()
            made = copy.copy(self)
            if not self._config.strategy and not self._config.order:
                made._config = replace(self._config, strategy="reverse")  # noqa: SLF001 - of the same class
            return made

    def scanner(
        self,
        predicate: Any = None,  # noqa: ANN401 - any notation
        limit: int | None = None,
        *,
        snapshot: Snapshot | None = None,
    ) -> LazyDeltaScanner:
        """A scanner of the files of a snapshot, by default the pinned one."""
        snapshot = snapshot or self.snapshot()
        config = replace(self._config, version=snapshot.version, predicate=predicate, limit=limit, timestamp=None)
        scanner = LazyDeltaScanner("", config, store=self.store, listeners=self._listeners, snapshot=snapshot)
        self.remember(scanner)
        return scanner

    def rows(self, query: RowQuery, progress: Callable[[RowMetrics], None] | None = None) -> RowStream:
        """A stream of rows at this version, which opens the table if that is not open yet."""
        with self._lock:
            snapshot = self._snapshot if query.expression is None else self.snapshot()
            scan = RowScan(
                self.access,
                query,
                self._config,
                self.row_options,
                listeners=self._listeners,
                snapshot=snapshot,
                segment=self._segment,
                progress=progress,
            )
            # Opening the table may take long, so `close` must reach it too.
            self.remember(scan)
            stream = RowStream(scan)
            if snapshot is None and scan.snapshot is not None:
                self.move(scan.snapshot.version, scan.snapshot)
        self.remember(stream)
        return stream

    def close(self) -> None:
        """Stops every running scan, from any thread."""
        with self._streams_lock:
            streams = list(self._streams)
        for stream in streams:
            if isinstance(stream, RowStream):
                stream.stop()
            elif isinstance(stream, LazyDeltaScanner):
                stream.close()
            else:
                stream.cancel()

    def remember(self, stream: UnderWay) -> None:
        """Registers a scan that `close` stops; it is referenced weakly."""
        with self._streams_lock:
            self._streams.add(stream)


def _read_options(options: Mapping[str, Any] | None, version: int | None) -> tuple[LazyScanConfig, RowOptions]:
    """Options by their call names: for finding files, and for reading their rows."""
    if options is not None and not isinstance(options, Mapping):
        msg = f"options are given by their names, as a mapping, not as {described(options)}"
        raise OptionError(msg)
    named = dict(options or {})
    scans = {option.name for option in SCAN_OPTIONS}
    known = scans | {option.name for option in ROW_OPTIONS}
    for name in named:
        if name not in known:
            msg = f"unknown option {name!r}; the options are {', '.join(sorted(known))}"
            raise OptionError(msg)
    config = LazyScanConfig(version=version, **{name: value for name, value in named.items() if name in scans})
    return config, RowOptions.of(named)
