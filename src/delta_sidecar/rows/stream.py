"""The rows of one scan: a stream with a schema, which Arrow can take and which can be stopped from anywhere."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Protocol, Self
from weakref import finalize

import pyarrow as pa

from delta_sidecar.errors import ScanClosedError, StorageError
from delta_sidecar.rows.columns import row_columns
from delta_sidecar.rows.locations import Places
from delta_sidecar.rows.reader import FileReader, find_footer, select_rows, unreadable
from delta_sidecar.scan.stream import BatchStream
from delta_sidecar.store import RequestLog, ScanCancelledError

if TYPE_CHECKING:
    from collections.abc import Generator, Iterator

    from delta_sidecar.replay.snapshot import Snapshot
    from delta_sidecar.rows.locations import TableAccess
    from delta_sidecar.rows.query import RowOptions, RowQuery
    from delta_sidecar.rows.scan import RowMetrics, RowScan
    from delta_sidecar.scan.files import DeltaFile
    from delta_sidecar.scan.scanner import LazyDeltaScanner


class RowStream:
    """Streams the rows of a scan as Arrow batches, to one consumer.

    Nothing of the files is read before the first batch is asked for. `close`, the end of a `with` block and dropping
    the stream all stop the requests.
    """

    def __init__(self, scan: RowScan) -> None:
        """Makes a stream of a scan; the table is opened, where it is not open yet."""
        self._scan = scan
        self._schema = scan.schema
        self._batches = BatchStream(scan.batches(), scan)
        # A table that was opened reads ahead, and its batches end nothing that they have not begun.
        finalize(self, scan.cancel)

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> pa.RecordBatch:
        return next(self._batches)

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
        self._batches.close()
        self._scan.cancel()

    def stop(self) -> None:
        """Stops the scan from any thread; its consumer gets a `ScanClosedError`."""
        self._batches.stop()


# Rows of single files of a table, beside the scans that find files by themselves.


class ReadableTable(Protocol):
    """A table whose files and rows can be read, such as a `TableHandle`."""

    @property
    def access(self) -> TableAccess:
        """The access to its data files."""

    @property
    def row_options(self) -> RowOptions:
        """The options of its rows."""

    def snapshot(self) -> Snapshot:
        """The table at its version."""

    def frozen(self) -> Self:
        """The same table, which stays at its version."""

    def scanner(self, predicate: Any = None, limit: int | None = None) -> LazyDeltaScanner:  # noqa: ANN401 - any notation
        """A scanner of its files."""

    def rows(self, query: RowQuery) -> RowStream:
        """A stream of its rows."""

    def remember(self, stream: RequestLog) -> None:
        """Stops these requests too when the table is closed."""


@contextmanager
def open_files(table: ReadableTable, query: RowQuery, requests: RequestLog) -> Iterator[FileReader]:
    """A reader of files for a query, whose limit is left to the caller; at the end its requests are cancelled.

    Raises:
        OptionError: A column is not there.
        PredicateError: The predicate does not fit the table.
    """
    snapshot, options = table.snapshot(), table.row_options
    selection = select_rows(query, snapshot.schema).bound(snapshot.schema)
    columns = row_columns(snapshot.columns, query.columns, selection.looked_at)
    pool = ThreadPoolExecutor(options.file_parallelism, thread_name_prefix="delta-sidecar-ahead")
    table.remember(requests)
    try:
        yield FileReader(columns, selection, Places(table.access, requests), pool, options)
    except ScanCancelledError:
        raise ScanClosedError from None
    finally:
        requests.cancel()
        pool.shutdown(wait=False, cancel_futures=True)


def file_batches(table: ReadableTable, file: DeltaFile, query: RowQuery) -> Generator[pa.RecordBatch, None, None]:
    """Streams the rows of one file that a query asks for."""
    left = query.limit
    with open_files(table, query, RequestLog()) as reader:
        for batch in reader.batches(file) if left != 0 else ():
            yield batch if left is None else batch.slice(0, left)
            if left is not None:
                left -= batch.num_rows
                if left <= 0:
                    return


def file_schema(table: ReadableTable, file: DeltaFile) -> pa.Schema:
    """The schema that a file itself has: physical names, types of its day, no partition columns.

    Raises:
        UnreadableFileError: The file is not there, or damaged.
    """
    store, path = Places(table.access, RequestLog()).find(file.path)
    try:
        return find_footer(store, path, file.size).metadata.schema.to_arrow_schema()
    except (pa.ArrowException, MemoryError, StorageError, OSError, UnicodeDecodeError) as error:
        raise unreadable(file.path, error) from error
