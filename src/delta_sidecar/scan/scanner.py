"""`LazyDeltaScanner`: from a table's address to a stream of its live files."""

from __future__ import annotations

import threading
import time
from contextlib import closing
from dataclasses import replace
from typing import TYPE_CHECKING
from weakref import WeakSet

import pyarrow as pa

from delta_sidecar.errors import OptionError
from delta_sidecar.replay.files import FILE_SCHEMA
from delta_sidecar.scan.config import LazyScanConfig
from delta_sidecar.scan.files import DeltaFile, delta_files
from delta_sidecar.scan.run import ScanRun
from delta_sidecar.scan.stream import AsyncStream, BatchStream
from delta_sidecar.store import open_store

if TYPE_CHECKING:
    import os
    from collections.abc import Generator, Iterable, Mapping, Sequence
    from typing import Self

    from delta_sidecar.events import Listener
    from delta_sidecar.plan import Batches
    from delta_sidecar.replay.snapshot import Snapshot
    from delta_sidecar.scan.estimate import ScanEstimate
    from delta_sidecar.scan.explain import Explanation
    from delta_sidecar.scan.files import ScanMetrics
    from delta_sidecar.store import Store, TokenCredential


class LazyDeltaScanner:
    """Streams the live files of a Delta table, in memory that does not grow with the table.

    Nothing is read before the first file, batch or snapshot is asked for. A consumer that is slow, breaks off, closes
    or drops its iterator slows or stops the requests. Each scan stands by itself and pins the version that it reads.
    `close`, or the end of a `with` block, stops whatever is still under way.
    """

    def __init__(
        self,
        table_url: str | os.PathLike[str],
        config: LazyScanConfig | None = None,
        *,
        storage_options: Mapping[str, str] | None = None,
        store: Store | None = None,
        credential: TokenCredential | None = None,
        listeners: Iterable[Listener] = (),
        snapshot: Snapshot | None = None,
    ) -> None:
        """Makes a scanner; nothing is read yet.

        Args:
            table_url: A path or an address such as `abfss://container@account.dfs.core.windows.net/table`.
            config: What to scan for; by default every file of the newest version.
            storage_options: Credentials and settings, as object_store names them.
            store: A store to use instead of the one that the address names.
            credential: For Azure, an object that gives tokens, such as one of azure-identity's.
            listeners: Each is told what happens, as the events of `delta_sidecar.events`.
            snapshot: The table as an earlier `snapshot` opened it, so that a scan need not; `config` names its version.

        Raises:
            AuthenticationError: There are no credentials, and nowhere to look for any.
            OptionError: The address or an option is not valid.
        """
        self.config = config or LazyScanConfig()
        self._store = store if store is not None else open_store(table_url, storage_options, credential=credential)
        self._listeners = tuple(listeners)
        self._snapshot = snapshot
        self._run = self._new_run()
        self._streams: WeakSet[BatchStream] = WeakSet()
        self._lock = threading.Lock()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"LazyDeltaScanner({self._store.url!r}, {self.config!r})"

    @property
    def metrics(self) -> ScanMetrics:
        """The metrics of the latest scan so far."""
        return self._run.metrics()

    @property
    def page_token(self) -> str | None:
        """The position of the latest scan: after the last file that it emitted.

        A scan with this as `LazyScanConfig.page_token`, of the same table and predicate, goes on from there, in
        another process too, and reads the same version. None before the first file, and when no file is left.
        """
        return self._run.page_token()

    def close(self) -> None:
        """Stops every scan of this scanner that is under way, from any thread.

        Who goes on taking from one of them gets a `ScanClosedError`.
        """
        with self._lock:
            streams = list(self._streams)
        for stream in streams:
            stream.stop()

    def snapshot(self) -> Snapshot:
        """Reads the version, protocol and metadata of the table; no file of it is listed."""
        self._run = self._new_run()
        return self._run.open()

    def estimate(self) -> ScanEstimate:
        """Bounds how many files, rows and bytes a scan will give, for a planner; no file is listed.

        The bounds always hold. It takes at most two requests beyond those of `snapshot`.
        """
        from delta_sidecar.scan.estimate import estimate_scan

        self._run = self._new_run()
        return estimate_scan(self._store, self._run)

    def explain(self, *, analyze: bool = False) -> Explanation:
        """Says what a scan is going to do, and why.

        Args:
            analyze: Whether to run it as well, to its end or its limit, and say what it did. Without, the table is
                opened and the footers of its base are looked at; no file entry is read.
        """
        explanation = self._new_run().explain()
        if not analyze:
            return explanation
        stream, run = self._stream()
        began = time.monotonic()
        with closing(stream):
            for _ in stream:
                pass
        taken = (time.monotonic() - began) * 1000
        return replace(explanation, actual=run.metrics(), milliseconds=taken)

    def scan_files(self) -> Generator[DeltaFile, None, None]:
        """Streams the files as values."""
        stream, run = self._stream(by_file=True)
        return _files(stream, run)

    def scan_batches(self, columns: Sequence[str] | None = None) -> pa.RecordBatchReader:
        """Streams the files as Arrow batches of `path, raw_path, size, modification_time, partition_values, ...`.

        Nothing is read ahead beyond a bounded amount, so that a reader nobody takes from comes to rest by itself; its
        threads end with its last batch, when it is dropped, or with this scanner's `close`. (Arrow does not pass its
        own reader's `close` on.)

        Args:
            columns: Only these columns, in this order; what the others would cost is saved. None for all.

        Raises:
            OptionError: There is no such column.
        """
        schema = FILE_SCHEMA if columns is None else _chosen_schema(columns)
        return pa.RecordBatchReader.from_batches(schema, self._stream(schema)[0])

    def scan_files_async(self) -> AsyncStream[DeltaFile]:
        """Streams the files as values to an asyncio task, on the same engine.

        Nothing is read before the first file is awaited, and nothing while none is, beyond a bounded amount ahead. A
        task that is cancelled while it awaits one, `aclose` and dropping the iterator all stop the requests.
        """
        stream, run = self._stream(by_file=True)
        return AsyncStream(stream, delta_files, lambda _: run.take())

    def scan_batches_async(self, columns: Sequence[str] | None = None) -> AsyncStream[pa.RecordBatch]:
        """Streams the files as Arrow batches to an asyncio task, as `scan_files_async` does.

        Args:
            columns: Only these columns, in this order, as for `scan_batches`.

        Raises:
            OptionError: There is no such column.
        """
        schema = FILE_SCHEMA if columns is None else _chosen_schema(columns)
        stream, run = self._stream(schema, by_file=True)
        return AsyncStream(stream, _whole, lambda batch: run.take(batch.num_rows))

    def _stream(self, schema: pa.Schema = FILE_SCHEMA, *, by_file: bool = False) -> tuple[BatchStream, ScanRun]:
        run = self._new_run()
        stream = BatchStream(self._batches(run, schema, by_file=by_file), run.requests)
        with self._lock:
            self._streams.add(stream)
        return stream, run

    def _batches(self, run: ScanRun, schema: pa.Schema, *, by_file: bool) -> Batches:
        # A scan is the latest from its first batch on.
        self._run = run
        with closing(run.batches(schema, by_file=by_file)) as batches:
            yield from batches

    def _new_run(self) -> ScanRun:
        return ScanRun(self._store, self.config, self._listeners, self._snapshot)


def _files(stream: BatchStream, run: ScanRun) -> Generator[DeltaFile, None, None]:
    with closing(stream) as batches:
        for batch in batches:
            for file in delta_files(batch):
                if stream.failure is not None:
                    raise stream.failure
                run.take()
                yield file


def _whole(batch: pa.RecordBatch) -> tuple[pa.RecordBatch]:
    return (batch,)


def _chosen_schema(columns: Sequence[str]) -> pa.Schema:
    if isinstance(columns, str):
        msg = f"columns is a list of names: [{columns!r}]"
        raise OptionError(msg)
    for name in columns:
        if name not in FILE_SCHEMA.names:
            msg = f"files have no column {name!r}; they have {', '.join(FILE_SCHEMA.names)}"
            raise OptionError(msg)
    return pa.schema([FILE_SCHEMA.field(name) for name in columns])
