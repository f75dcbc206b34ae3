"""`RowScan`: the rows of a table, streamed while its files are still being found.

    discovery ──files──▶ lanes: fetch, decode, delete, filter ──batches──▶ the consumer

Files are found by a thread of its own, and read by a few others, so that the first rows are there long before the last
file is known. How far they run ahead is bounded, in files and in bytes, and grows with what the consumer takes: for ten
rows, a handful of files are opened. Small files are decoded by the consumer (`together`).
"""

from __future__ import annotations

import threading
import time
from contextlib import closing, contextmanager, nullcontext, suppress
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Self
from weakref import finalize

import pyarrow as pa

from delta_sidecar._threads import ThreadPool
from delta_sidecar.errors import ScanClosedError
from delta_sidecar.events import Events, RowScanEnded
from delta_sidecar.execute.lanes import in_fed_lanes
from delta_sidecar.log.identity import is_absolute
from delta_sidecar.replay.files import FILE_SCHEMA
from delta_sidecar.rows.columns import RowColumns, row_columns
from delta_sidecar.rows.locations import Places
from delta_sidecar.rows.reader import FileReader, RowCounts, select_rows
from delta_sidecar.rows.together import NOT_YET, Together
from delta_sidecar.scan.files import DeltaFile, delta_files
from delta_sidecar.scan.run import ScanRun
from delta_sidecar.scan.stream import BatchStream
from delta_sidecar.store import RequestLog, ScanCancelledError, TripClock
from delta_sidecar.store.local import LocalStore

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterable, Iterator, Sequence

    from delta_sidecar.events import Listener, Outcome
    from delta_sidecar.log.segment import LogSegment
    from delta_sidecar.replay.snapshot import Snapshot
    from delta_sidecar.rows.locations import TableAccess
    from delta_sidecar.rows.query import RowOptions, RowQuery
    from delta_sidecar.rows.together import RowItem, SmallFile
    from delta_sidecar.scan.config import LazyScanConfig
    from delta_sidecar.scan.files import ScanMetrics
    from delta_sidecar.store import RequestCounts


_FILES_AT_ONCE = 512
_FIRST_FILES = 2
_FEWEST_ROWS = 1024
_SMALL_FILE = 64 << 10
_MOST_IN_LINE = 64
_OF_A_FILE = ("path", "raw_path", "size", "modification_time", "partition_values", "deletion_vector")


class RowScan:
    """One scan for rows, taken by one consumer. Nothing is read before `begin`, `schema` or the first batch.

    Args:
        config: The configuration of the scan for files; predicate and limit are set here.
        snapshot: The table, where it is open already; the configuration then names its version.
        segment: Its log, where that is listed already; likewise.
        progress: Is called after each batch and at the end, by the thread that takes the batches.
    """

    def __init__(
        self,
        access: TableAccess,
        query: RowQuery,
        config: LazyScanConfig,
        options: RowOptions,
        *,
        listeners: Iterable[Listener] = (),
        snapshot: Snapshot | None = None,
        segment: LogSegment | None = None,
        progress: Callable[[RowMetrics], None] | None = None,
    ) -> None:
        self._access = access
        self._query = query
        self._options = options
        self._progress = progress
        self._events = Events(tuple(listeners))
        self._selection = select_rows(query, None if snapshot is None else snapshot.schema)
        # Without an order of its own, a limit takes what comes soonest, and the newest where that is as soon.
        is_prompt = query.limit is not None and not config.strategy and not config.order
        strategy = "reverse" if is_prompt else config.strategy
        prunes = self._selection.prunes
        self._run = ScanRun(
            access.store,
            replace(config, predicate=prunes, limit=None, batch_size=_FILES_AT_ONCE, strategy=strategy),
            listeners,
            snapshot,
            segment=segment,
            recent_if_cheap=is_prompt,
        )
        self._requests = RequestLog()
        self._counts = RowCounts()
        self._columns: RowColumns | None = None
        self._files_found = self._rows = self._batches = self._dry = 0
        self._together: Together | None = None
        self._is_enough = self._is_complete = False
        self._is_discovering = self._is_cancelled = False
        # A stream that is dropped anywhere cancels its scan there.
        self._lock = threading.RLock()

    @property
    def schema(self) -> pa.Schema:
        """The schema of the batches."""
        return self.begin().schema

    @property
    def snapshot(self) -> Snapshot | None:
        """The table, once it is open."""
        return self._run.snapshot

    def begin(self) -> RowColumns:
        """Opens the table, where it is not open yet, and finds the columns; no file of it is listed.

        Raises:
            OptionError: A column is not there.
            PredicateError: The predicate does not fit the table.
        """
        if self._columns is None:
            try:
                snapshot = self._run.begin(self._file_schema())
                self._selection = self._selection.bound(snapshot.columns.logical)
                self._columns = row_columns(snapshot.columns, self._query.columns, self._selection.looked_at)
            except BaseException as error:
                self._end_requests()
                if isinstance(error, ScanCancelledError):
                    raise ScanClosedError from None
                raise
        return self._columns

    def cancel(self) -> None:
        """Cancels all requests, from any thread, without waiting for those under way."""
        self._is_cancelled = True
        self._end_requests()

    def metrics(self) -> RowMetrics:
        """The counts of the scan so far."""
        return RowMetrics(
            discovery=self._run.metrics(),
            requests=self._requests.snapshot(),
            files_found=self._files_found,
            rows=self._rows,
            batches=self._batches,
            is_complete=self._is_complete,
            **self._counts.by_name,
        )

    def batches(self) -> Generator[pa.RecordBatch, None, None]:
        """Streams the rows in batches; closing or dropping the stream stops everything."""
        began = time.monotonic()
        outcome: Outcome = "failed"
        error = None
        try:
            with closing(self._found()) as found:
                for batch in found:
                    self._rows += batch.num_rows
                    self._batches += 1
                    if self._progress is not None:
                        self._report(self._progress)
                    outcome = "stopped"
                    yield batch
                    del batch
                    outcome = "failed"
            self._is_complete = True
            outcome = "complete" if self._query.limit is None or self._rows < self._query.limit else "limit"
        except Exception as failure:
            if self._is_cancelled:
                outcome = "stopped"
            else:
                error = type(failure).__name__
            if self._is_cancelled and isinstance(failure, ScanCancelledError):
                raise ScanClosedError from None
            raise
        except KeyboardInterrupt:
            outcome = "stopped"
            raise
        finally:
            self._end_requests()
            self._end(outcome, error, time.monotonic() - began)

    def _found(self) -> Generator[pa.RecordBatch, None, None]:
        columns, limit, options = self.begin(), self._query.limit, self._options
        if limit == 0:
            return
        pool = ThreadPool(options.file_parallelism, "delta-sidecar-ahead")
        places = Places(self._access, self._requests)
        sized = replace(options, rows_per_batch=self._rows_per_batch())
        reader = FileReader(columns, self._selection, places, pool, sized, self._counts)
        self._together = Together(reader, sized.rows_per_batch, limit)
        stream = in_fed_lanes(
            options.file_parallelism,
            TripClock(),
            self._discovery(reader),
            log=self._requests,
            ahead=self._ahead,
            budget=options.rows_memory_limit,
            weigh=_weight,
            pause=(NOT_YET,),
        )
        with self._lock:
            self._is_discovering = True
        try:
            with closing(stream), closing(self._together.batches(stream)) as batches:
                for batch in batches:
                    left = None if limit is None else limit - self._rows
                    is_last = left is not None and batch.num_rows >= left
                    yield batch.slice(0, left) if is_last else batch
                    del batch
                    if is_last:
                        return
            if self._is_cancelled:
                # What looks like the end may be none.
                raise ScanClosedError
        finally:
            self._end_requests()
            pool.close()

    @contextmanager
    def _discovery(self, reader: FileReader) -> Iterator[Iterator[Callable[[], Iterator[RowItem]]]]:
        """Finds the files, in a thread of its own."""
        try:
            with closing(self._readers(reader)) as readers:
                yield readers
        finally:
            self._run.close()

    def _readers(self, reader: FileReader) -> Generator[Callable[[], Iterator[RowItem]], None, None]:
        """Makes a reader of each file, and one of some small files where the store is near."""
        limit, rows = self._query.limit, 0
        is_near = isinstance(self._access.store, LocalStore)
        with closing(self._run.batches(self._file_schema())) as found:
            for batch in found:
                near: list[SmallFile] = []
                for file in delta_files(batch):
                    self._files_found += 1
                    if limit is not None and self._counts_rows:
                        rows += _rows_left(file)
                        self._is_enough = rows >= limit
                    is_small = file.size <= _SMALL_FILE and file.deletion_vector is None
                    if is_near and is_small and not is_absolute(file.path):
                        near.append((file, None))
                        # More and more, so that the first ones are not waited for.
                        if len(near) >= min(_MOST_IN_LINE, self._files_found // 2) or self._is_enough:
                            yield partial(iter, (near,))
                            near = []
                        continue
                    if near:
                        yield partial(iter, (near,))
                        near = []
                    yield partial(self._fetch if is_small else self._read, reader, file)
                if near:
                    yield partial(iter, (near,))

    def _fetch(self, reader: FileReader, file: DeltaFile) -> Iterator[Sequence[SmallFile]]:
        yield [(file, reader.read_whole(file))]

    def _read(self, reader: FileReader, file: DeltaFile) -> Iterator[pa.RecordBatch]:
        is_dry = True
        for batch in reader.batches(file):
            is_dry = False
            yield batch
            del batch
        if is_dry:
            with self._lock:
                self._dry += 1

    def _ahead(self) -> int:
        """The number of files that may be under way: more and more, as rows are taken or files have none.

        Where those that were found have rows enough by their statistics, others are looked for only when all of them
        are read and have too few.
        """
        if self._is_enough or self._together is None:
            return 1
        taken = self._together.given // 2 + self._together.dry
        return min(self._options.file_parallelism, _FIRST_FILES + taken + self._dry)

    @property
    def _counts_rows(self) -> bool:
        """Whether the rows of a file that come out are counted by its statistics."""
        query = self._query
        return query.limit is not None and query.predicate is None and query.expression is None

    def _rows_per_batch(self) -> int:
        """The most rows that are decoded at once: not many more than the limit."""
        limit, most = self._query.limit, self._options.rows_per_batch
        return most if limit is None or not self._counts_rows else min(most, max(limit, _FEWEST_ROWS))

    def _file_schema(self) -> pa.Schema:
        names = (*_OF_A_FILE, "stats") if self._counts_rows else _OF_A_FILE
        return pa.schema([FILE_SCHEMA.field(name) for name in names])

    def _end_requests(self) -> None:
        with self._lock:
            # The thread that finds the files closes by itself what it works with.
            if not self._is_discovering:
                self._run.close()
        self._run.requests.cancel()
        self._requests.cancel()

    def _report(self, progress: Callable[[RowMetrics], None]) -> None:
        # It is called once more at the end, unless it is what failed.
        self._progress = None
        progress(self.metrics())
        self._progress = progress

    def _end(self, outcome: Outcome, error: str | None, seconds: float) -> None:
        snapshot, counts, requests = self._run.snapshot, self._counts.by_name, self._requests.snapshot()
        self._events(
            RowScanEnded(
                table=self._access.store.url,
                outcome=outcome,
                error=error,
                milliseconds=round(seconds * 1000, 3),
                version=None if snapshot is None else snapshot.version,
                rows=self._rows,
                files_found=self._files_found,
                files_opened=counts["files_opened"],
                row_groups_read=counts["row_groups_read"],
                row_groups_skipped=counts["row_groups_skipped"],
                requests=requests.requests,
                bytes=requests.bytes,
            )
        )
        # The scan's own error is raised, not one of the callback.
        if self._progress is not None:
            with suppress(Exception) if error is not None else nullcontext():
                self._report(self._progress)


def _weight(item: RowItem) -> int:
    """The bytes of what waits to be taken."""
    return int(item.nbytes) if isinstance(item, pa.RecordBatch) else sum(len(data or b"") for _, data in item)


def _rows_left(file: DeltaFile) -> int:
    """The number of rows of a file that are not deleted, by its statistics."""
    deleted = 0 if file.deletion_vector is None else file.deletion_vector.cardinality
    return max(0, (file.num_records or 0) - deleted)


class RowStream(BatchStream):
    """Streams the rows of a scan as Arrow batches, to one consumer.

    Nothing of the files is read before the first batch is asked for. `close`, the end of a `with` block and dropping
    the stream all stop the requests.
    """

    def __init__(self, scan: RowScan) -> None:
        """Makes a stream of a scan; the table is opened, where it is not open yet."""
        self._scan = scan
        self._schema = scan.schema
        super().__init__(scan.batches(), scan)
        # A table that was opened reads ahead, and its batches end nothing that they have not begun.
        finalize(self, scan.cancel)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        return self.reader().__arrow_c_stream__(requested_schema)

    @property
    def schema(self) -> pa.Schema:
        """The schema of the batches."""
        return self._schema

    @property
    def metrics(self) -> RowMetrics:
        """The counts of the scan so far."""
        return self._scan.metrics()

    def reader(self) -> pa.RecordBatchReader:
        """The same stream as a reader of Arrow; taking from one takes from the other."""
        return pa.RecordBatchReader.from_batches(self._schema, self)

    def read_next_batch(self) -> pa.RecordBatch:
        """The next batch, by the name of Arrow's readers.

        Raises:
            StopIteration: There is none left.
        """
        return next(self)

    def read_all(self) -> pa.Table:
        """All rows that are left, in memory."""
        return self.reader().read_all()

    def close(self) -> None:
        """Stops the scan, for the consumer, who is done."""
        super().close()
        self._scan.cancel()


@dataclass(frozen=True, slots=True)
class RowMetrics:
    """The counts of a scan for rows so far.

    Attributes:
        discovery: The metrics of finding the files.
        requests: Requests for the files themselves: data and deletion vectors.
        files_found: Files that may hold a matching row, found so far.
        files_opened: Data files that were opened.
        files_read: Data files that were read to their end.
        row_groups_read: Row groups that were decoded.
        row_groups_skipped: Row groups of opened files that cannot hold a matching row.
        rows_decoded: Rows that came out of files.
        rows_deleted: Of these, rows that a deletion vector took away.
        rows: Rows that came out of the scan.
        batches: Batches that came out of the scan.
        is_complete: Whether the end was reached: all rows, or as many as the limit allows.
    """

    discovery: ScanMetrics
    requests: RequestCounts
    files_found: int
    files_opened: int
    files_read: int
    row_groups_read: int
    row_groups_skipped: int
    rows_decoded: int
    rows_deleted: int
    rows: int
    batches: int
    is_complete: bool
