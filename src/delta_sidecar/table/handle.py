"""A table that is pinned to one version at its first use, and the scans that read it there."""

from __future__ import annotations

import copy
import threading
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any
from weakref import WeakSet

from delta_sidecar.data.query import RowOptions, RowQuery
from delta_sidecar.data.scan import RowScan
from delta_sidecar.data.stream import RowStream
from delta_sidecar.errors import OptionError, described
from delta_sidecar.options import ROW_OPTIONS, SCAN_OPTIONS
from delta_sidecar.scan.config import LazyScanConfig
from delta_sidecar.scan.scanner import LazyDeltaScanner

if TYPE_CHECKING:
    import datetime as dt
    from collections.abc import Callable, Iterable
    from typing import Self

    from delta_sidecar.data.places import Access
    from delta_sidecar.data.scan import RowMetrics
    from delta_sidecar.events import Listener
    from delta_sidecar.replay.snapshot import Snapshot
    from delta_sidecar.scan.stream import Cancellable
    from delta_sidecar.store import Store

    UnderWay = RowStream | LazyDeltaScanner | Cancellable


@dataclass(frozen=True, slots=True)
class ReadOptions:
    """How a table is read.

    Attributes:
        config: How its files are found.
        rows: How their rows are read.
    """

    config: LazyScanConfig
    rows: RowOptions

    @classmethod
    def of(cls, given: Mapping[str, Any] | None, version: int | None = None) -> ReadOptions:
        """Takes options by their names in a call.

        Raises:
            OptionError: One is unknown or not valid.
        """
        if given is not None and not isinstance(given, Mapping):
            msg = f"options are given by their names, as a mapping, not as {described(given)}"
            raise OptionError(msg)
        named = dict(given or {})
        scans = {option.name for option in SCAN_OPTIONS}
        rows = {option.name for option in ROW_OPTIONS}
        for name in named:
            if name not in scans | rows:
                msg = f"unknown option {name!r}; the options are {', '.join(sorted(scans | rows))}"
                raise OptionError(msg)
        config = LazyScanConfig(version=version, **{name: value for name, value in named.items() if name in scans})
        return cls(config, RowOptions.of(named))


class TableHandle:
    """Opens a table once, and scans it at the version that it then has.

    Args:
        store: Where it is.
        access: How its data files are reached.
        options: How it is read.
        listeners: Are told what happens.
    """

    def __init__(self, store: Store, access: Access, options: ReadOptions, listeners: Iterable[Listener] = ()) -> None:
        self.store = store
        self._access = replace(access, allow_external_paths=options.rows.allow_external_paths)
        self._options = options
        self._listeners = tuple(listeners)
        self._snapshot: Snapshot | None = None
        self._streams: WeakSet[UnderWay] = WeakSet()
        self._lock = threading.RLock()
        # Held for a moment only, while the other one is held for as long as it takes to open the table.
        self._streams_lock = threading.Lock()

    @property
    def access(self) -> Access:
        """How its data files are reached."""
        return self._access

    @property
    def row_options(self) -> RowOptions:
        """How its rows are read."""
        return self._options.rows

    @property
    def pinned(self) -> Snapshot | None:
        """The table at its version; None before its first use."""
        return self._snapshot

    def snapshot(self) -> Snapshot:
        """The table at its version; at its first use it is opened, and stays what it was then."""
        with self._lock:
            if self._snapshot is None:
                self._snapshot = self._opened(self._options.config)
            return self._snapshot

    def pin(self, version: int | None = None, timestamp: dt.datetime | str | None = None) -> Snapshot:
        """Opens the table anew: at a version, at a time, or as it is now. If that fails, all stays as it was."""
        config = replace(self._options.config, version=version, timestamp=timestamp)
        with self._lock:
            self._snapshot = self._opened(config)
            self._options = replace(self._options, config=replace(config, timestamp=None))
            return self._snapshot

    def frozen(self) -> Self:
        """The same table for those who may stop at any row: at the version that it has now, newest commits first.

        It stays there when this one is pinned anew; `close` of either stops the scans of both.
        """
        with self._lock:
            self.snapshot()
            made, config = copy.copy(self), self._options.config
            if not config.strategy and not config.order:
                own = replace(self._options, config=replace(config, strategy="reverse"))
                made._options = own  # noqa: SLF001 - of the same class
            return made

    def scanner(
        self,
        predicate: Any = None,  # noqa: ANN401 - any notation
        limit: int | None = None,
        *,
        snapshot: Snapshot | None = None,
    ) -> LazyDeltaScanner:
        """A scanner of the files of a snapshot: by default the one that is pinned."""
        snapshot = snapshot or self.snapshot()
        config = replace(
            self._options.config, version=snapshot.version, predicate=predicate, limit=limit, timestamp=None
        )
        scanner = LazyDeltaScanner("", config, store=self.store, listeners=self._listeners, snapshot=snapshot)
        self.remember(scanner)
        return scanner

    def rows(self, query: RowQuery, progress: Callable[[RowMetrics], None] | None = None) -> RowStream:
        """A stream of rows at this version; where the table is not open yet, the stream opens it on its way."""
        with self._lock:
            snapshot = self._snapshot if query.expression is None else self.snapshot()
            config = self._options.config
            if snapshot is not None:
                config = replace(config, version=snapshot.version, timestamp=None)
            scan = RowScan(
                self._access,
                query,
                config,
                self._options.rows,
                listeners=self._listeners,
                snapshot=snapshot,
                progress=progress,
            )
            # To open the table may take a while, too.
            self.remember(scan)
            stream = RowStream(scan)
            self._snapshot = snapshot or scan.snapshot
        self.remember(stream)
        return stream

    def close(self) -> None:
        """Stops every scan that is under way, from any thread."""
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
        """Has something stopped by `close`, as long as somebody holds it.

        Args:
            stream: What reads the table.
        """
        with self._streams_lock:
            self._streams.add(stream)

    def _opened(self, config: LazyScanConfig) -> Snapshot:
        scanner = LazyDeltaScanner("", config, store=self.store, listeners=self._listeners)
        self.remember(scanner)
        return scanner.snapshot()
