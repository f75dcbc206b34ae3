"""`LazyDeltaScanner`: from a table's address to a stream of its live files."""

from __future__ import annotations

import threading
from contextlib import closing
from dataclasses import dataclass, field
from typing import TYPE_CHECKING
from weakref import WeakSet

import pyarrow as pa

from delta_sidecar.errors import OptionError
from delta_sidecar.execute import ExecutionCounts, LocalExecutor
from delta_sidecar.plan import Batches, StateMachineIterator
from delta_sidecar.replay.files import FILE_SCHEMA, OPTIONAL_COLUMNS
from delta_sidecar.replay.opening import Opening
from delta_sidecar.replay.scan import Scan, forward_scan, reverse_scan
from delta_sidecar.replay.snapshot import Snapshot, open_snapshot
from delta_sidecar.scan.config import LazyScanConfig, ScanStrategy
from delta_sidecar.scan.files import DeltaFile, delta_files
from delta_sidecar.scan.stream import BatchStream
from delta_sidecar.store import RequestCounts, RequestLog, Store, open_store

if TYPE_CHECKING:
    import os
    from collections.abc import Generator, Iterator, Mapping, Sequence
    from typing import Self


@dataclass(frozen=True, slots=True)
class ScanMetrics:
    """What a scan has done so far.

    Attributes:
        requests: Requests by kind, bytes and dependent round trips.
        trips_to_first_file: Round trips, one after another, until the first file; None before it. Requests that only
            read ahead do not count.
        files_emitted: Files given out.
        batches_emitted: Batches given out.
        commits_read: Commits of which something was read.
        row_groups_read: Row groups of the checkpoint of which rows were used.
        row_groups_skipped: Row groups of the checkpoint that were passed over.
        seen_keys: Keys of the tail that were remembered; known at the end.
        version: The version that is read; None before it is known.
        base_version: Version of the base, -1 for the start of the log; None before the end.
        is_complete: Whether the scan came to its end, not only to its limit.
    """

    requests: RequestCounts
    trips_to_first_file: int | None
    files_emitted: int
    batches_emitted: int
    commits_read: int
    row_groups_read: int
    row_groups_skipped: int
    seen_keys: int | None
    version: int | None
    base_version: int | None
    is_complete: bool


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
    ) -> None:
        """Makes a scanner; nothing is read yet.

        Args:
            table_url: A path or an address such as `abfss://container@account.dfs.core.windows.net/table`.
            config: What to scan for; by default every file of the newest version.
            storage_options: Credentials and settings, as object_store names them.
            store: A store to use instead of the one that the address names.

        Raises:
            OptionError: The address or an option is not valid.
        """
        self.config = config or LazyScanConfig()
        self._store = store if store is not None else open_store(table_url, storage_options)
        self._run = _Run()
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
        """What the latest scan has done so far."""
        return self._run.metrics()

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
        run = self._run = _Run()
        with closing(self._executor(run)) as executor:
            try:
                return self._open(run, executor, whole_tail=False)
            finally:
                run.requests.cancel()

    def scan_files(self) -> Generator[DeltaFile, None, None]:
        """Streams the files as values."""
        return _files(self._stream())

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
        return pa.RecordBatchReader.from_batches(schema, self._stream(schema))

    def _stream(self, schema: pa.Schema = FILE_SCHEMA) -> BatchStream:
        run = _Run()
        stream = BatchStream(self._batches(run, schema), run.requests)
        with self._lock:
            self._streams.add(stream)
        return stream

    def _batches(self, run: _Run, schema: pa.Schema) -> Batches:
        self._run = run
        with closing(self._executor(run)) as executor:
            try:
                # A first file that has to be looked for may be anywhere in the tail; else it is in the newest commits.
                is_forward = self.config.strategy is ScanStrategy.FORWARD
                whole_tail = is_forward or self.config.predicate is not None
                snapshot = self._open(run, executor, whole_tail=whole_tail)
                if self.config.limit == 0:
                    return
                chain = reverse_scan if self.config.strategy is ScanStrategy.REVERSE else forward_scan
                start = chain(snapshot, self.config.parsed_predicate, OPTIONAL_COLUMNS - set(schema.names))
                with closing(StateMachineIterator(start, executor)) as machine:
                    for batch in self._sliced(run, machine, executor):
                        yield batch if schema is FILE_SCHEMA else batch.select(schema.names)
            finally:
                run.requests.cancel()

    def _sliced(
        self, run: _Run, machine: StateMachineIterator[Scan], executor: LocalExecutor
    ) -> Iterator[pa.RecordBatch]:
        limit = self.config.limit
        for found in machine:
            for start in range(0, found.num_rows, self.config.batch_size):
                batch = found.slice(start, self.config.batch_size)
                if limit is not None:
                    batch = batch.slice(0, limit - run.files_emitted)
                if run.trips_to_first_file is None:
                    run.trips_to_first_file = executor.trips
                run.files_emitted += batch.num_rows
                run.batches_emitted += 1
                yield batch
                if run.files_emitted == limit:
                    return
        run.scan = machine.into_terminal()

    def _executor(self, run: _Run) -> LocalExecutor:
        executor = LocalExecutor(
            self._store.bind(run.requests),
            file_parallelism=self.config.commit_read_parallelism,
            row_groups_ahead=self.config.checkpoint_row_groups_per_batch,
        )
        run.counts = executor.counts
        return executor

    def _open(self, run: _Run, executor: LocalExecutor, *, whole_tail: bool) -> Snapshot:
        config = self.config
        opening = Opening(self._store.url, config.version, config.commit_read_parallelism, whole_tail)
        run.snapshot = StateMachineIterator(open_snapshot(opening), executor).run_to_terminal()
        return run.snapshot


def _files(stream: BatchStream) -> Generator[DeltaFile, None, None]:
    with closing(stream) as batches:
        for batch in batches:
            yield from delta_files(batch)


def _chosen_schema(columns: Sequence[str]) -> pa.Schema:
    if isinstance(columns, str):
        msg = f"columns is a list of names: [{columns!r}]"
        raise OptionError(msg)
    for name in columns:
        if name not in FILE_SCHEMA.names:
            msg = f"files have no column {name!r}; they have {', '.join(FILE_SCHEMA.names)}"
            raise OptionError(msg)
    return pa.schema([FILE_SCHEMA.field(name) for name in columns])


@dataclass(slots=True)
class _Run:
    """The account of one scan."""

    requests: RequestLog = field(default_factory=RequestLog)
    counts: ExecutionCounts = field(default_factory=ExecutionCounts)
    trips_to_first_file: int | None = None
    files_emitted: int = 0
    batches_emitted: int = 0
    snapshot: Snapshot | None = None
    scan: Scan | None = None

    def metrics(self) -> ScanMetrics:
        return ScanMetrics(
            requests=self.requests.snapshot(),
            trips_to_first_file=self.trips_to_first_file,
            files_emitted=self.files_emitted,
            batches_emitted=self.batches_emitted,
            commits_read=self.counts.files_read,
            row_groups_read=self.counts.row_groups_read,
            row_groups_skipped=self.counts.row_groups_skipped,
            seen_keys=None if self.scan is None else self.scan.seen_keys,
            version=None if self.snapshot is None else self.snapshot.version,
            base_version=None if self.scan is None else self.scan.base_version,
            is_complete=self.scan is not None,
        )
