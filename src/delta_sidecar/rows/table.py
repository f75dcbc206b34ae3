"""A table whose rows can be read, the rows of single files of it, and counts out of its log.

A file is opened only where the log does not have its count. A manifest of a metadata sidecar, or a short log, may have
the number of all rows. Else, statistics say how many rows a file has, its deletion vector how many of them are deleted.
A condition on nothing but partition columns holds in all rows of a file or in none.
"""

from __future__ import annotations

from contextlib import closing, contextmanager
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol, Self

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from delta_sidecar._arrow import from_numpy, scalar, to_numpy
from delta_sidecar._threads import ThreadPool
from delta_sidecar.errors import ScanClosedError, StorageError
from delta_sidecar.execute.lanes import in_fed_lanes
from delta_sidecar.log.stats import parse_num_records
from delta_sidecar.rows.columns import row_columns, row_schema, struct_of
from delta_sidecar.rows.convert import partition_value
from delta_sidecar.rows.locations import Places
from delta_sidecar.rows.query import RowQuery
from delta_sidecar.rows.reader import FileReader, find_footer, select_rows, unreadable
from delta_sidecar.scan.files import delta_files
from delta_sidecar.store import RequestLog, ScanCancelledError, TripClock

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterator, Mapping

    from delta_sidecar.predicate import Predicate
    from delta_sidecar.replay.snapshot import Snapshot
    from delta_sidecar.rows.locations import TableAccess
    from delta_sidecar.rows.query import RowOptions
    from delta_sidecar.rows.reader import RowFilter
    from delta_sidecar.rows.scan import RowStream
    from delta_sidecar.scan.files import DeltaFile
    from delta_sidecar.scan.scanner import LazyDeltaScanner

_READ = ("path", "raw_path", "size", "modification_time", "partition_values", "deletion_vector", "stats")
_KEPT = 4096


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
    pool = ThreadPool(options.file_parallelism, "delta-sidecar-ahead")
    table.remember(requests)
    try:
        yield FileReader(columns, selection, Places(table.access, requests), pool, options)
    except ScanCancelledError:
        raise ScanClosedError from None
    finally:
        requests.cancel()
        pool.close()


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


def count_rows(table: ReadableTable, query: RowQuery) -> int:
    """Counts the rows that match; the query's columns do not matter."""
    with closing(row_counts(table, query)) as counts:
        total = sum(counts)
    return total if query.limit is None else min(total, query.limit)


def row_counts(table: ReadableTable, query: RowQuery) -> Generator[int, None, None]:
    """Streams counts of rows that match, which add up to all of them, or a little beyond the limit."""
    snapshot = table.snapshot()
    selection = select_rows(query, snapshot.schema).bound(snapshot.schema)
    if not set(selection.looked_at) <= set(snapshot.partition_columns):
        with closing(table.rows(replace(query, columns=()))) as stream:
            for batch in stream:
                yield batch.num_rows
        return
    if selection.keeps is None and selection.prunes is None and query.limit is None:
        estimated = table.scanner().estimate().rows
        if estimated.is_exact:
            yield estimated.lower
            return
    decides = None
    if selection.keeps is not None:
        fields = [snapshot.schema.field(name) for name in selection.looked_at]
        decides = _ByPartition(selection.keeps, fields, table.row_options.time_zone)
    left = query.limit
    requests = RequestLog()
    with open_files(table, RowQuery(columns=()), requests) as reader:
        workers = table.row_options.file_parallelism
        counts = in_fed_lanes(
            workers,
            TripClock(),
            closing(_counters(table, selection.prunes, decides, reader)),
            log=requests,
            ahead=lambda: workers,
            budget=1 << 20,
            weigh=lambda _: 1,
        )
        with closing(counts):
            for count in counts if left != 0 else ():
                yield count
                if left is not None:
                    left -= count
                    if left <= 0:
                        return


def _counters(
    table: ReadableTable, prunes: Predicate | None, decides: _ByPartition | None, reader: FileReader
) -> Generator[Callable[[], Iterator[int]], None, None]:
    """Makes a counter for the files of a batch whose rows the log knows, and one for each other file."""
    zero = scalar(0, pa.int64())
    with closing(table.scanner(prunes)) as scanner:
        for found in scanner.scan_batches(_READ):
            batch = found if decides is None else decides(found)
            counts = parse_num_records(batch.column("stats"))
            known = to_numpy(counts.is_valid())
            deleted = pc.fill_null(pc.struct_field(batch.column("deletion_vector"), "cardinality"), zero)
            rows = to_numpy(counts) - to_numpy(deleted)
            yield partial(iter, (int(np.maximum(rows[known], 0).sum()),))
            for file in delta_files(batch.filter(from_numpy(~known))):
                yield partial(_counted, reader, file)


def _counted(reader: FileReader, file: DeltaFile) -> Iterator[int]:
    for batch in reader.batches(file):
        yield batch.num_rows


class _ByPartition:
    """Leaves out files by a condition on partition columns, deciding once for each combination of values."""

    def __init__(self, keeps: RowFilter, fields: list[pa.Field], zone: str) -> None:
        self._keeps = keeps
        self._fields = fields
        self._zone = zone
        self._decided: dict[tuple[str | None, ...], bool] = {}

    def __call__(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        values = (dict(pairs) for pairs in batch.column("partition_values").to_pylist())
        paths = batch.column("path").to_pylist()
        kept = [self._is_kept(of_file, path) for of_file, path in zip(values, paths, strict=True)]
        return batch.filter(from_numpy(np.array(kept, dtype=np.bool_)))

    def _is_kept(self, values: Mapping[str, str | None], path: str) -> bool:
        key = tuple(values.get(field.name) for field in self._fields)
        if key not in self._decided:
            columns = [pa.repeat(partition_value(field, values, path, self._zone), 1) for field in self._fields]
            row = struct_of(columns, row_schema(self._fields), 1)
            if len(self._decided) >= _KEPT:
                self._decided.clear()
            self._decided[key] = self._keeps(row).num_rows > 0
        return self._decided[key]
