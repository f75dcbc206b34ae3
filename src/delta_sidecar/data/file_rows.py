"""The rows of one data file, as the table has them."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, TypeAlias

import numpy as np
import pyarrow as pa

from delta_sidecar.data.conversion import filtered, struct_of
from delta_sidecar.data.deletions import kept_rows, load_deleted_rows
from delta_sidecar.data.file_columns import KnownColumns, missing
from delta_sidecar.data.partition_columns import PartitionColumns
from delta_sidecar.data.row_groups import groups_that_may_match
from delta_sidecar.errors import (
    MissingDataFileError,
    NotEnoughMemoryError,
    ObjectNotFoundError,
    ObjectTruncatedError,
    StorageError,
    UnreadableFileError,
)
from delta_sidecar.execute.footer import Footer, read_footer
from delta_sidecar.execute.parquet_file import BatchSize, ParquetRows
from delta_sidecar.execute.times import TimeRules
from delta_sidecar.execute.work import out_of_memory

if TYPE_CHECKING:
    from collections.abc import Iterator
    from concurrent.futures import ThreadPoolExecutor

    from numpy.typing import NDArray

    from delta_sidecar.data.columns import RowColumns
    from delta_sidecar.data.file_columns import FileColumnsFound
    from delta_sidecar.data.filtering import Selection
    from delta_sidecar.data.places import Places
    from delta_sidecar.data.query import RowOptions
    from delta_sidecar.predicate import Predicate
    from delta_sidecar.scan.files import DeltaFile
    from delta_sidecar.store import Store

RowFilter: TypeAlias = Callable[[pa.RecordBatch], pa.RecordBatch]
"""Leaves out the rows of a batch that do not match."""

_BATCH_BYTES = 8 << 20
_WHOLE = 1 << 20
_FOOTER = 64 << 10
_SMALL = 256 << 10


@dataclass(slots=True)
class RowCounts:
    """What reading rows came to so far; all threads count here.

    Attributes:
        files_opened: Data files of which something was asked.
        files_read: Data files that were read to their end.
        row_groups_read: Row groups that were decoded.
        row_groups_skipped: Row groups that cannot hold a matching row.
        rows_decoded: Rows that came out of files.
        rows_deleted: Of these, how many a deletion vector took away.
    """

    files_opened: int = 0
    files_read: int = 0
    row_groups_read: int = 0
    row_groups_skipped: int = 0
    rows_decoded: int = 0
    rows_deleted: int = 0
    _lock: threading.Lock = field(default_factory=threading.Lock, repr=False, compare=False)

    def add(self, **counts: int) -> None:
        """Counts, from any thread."""
        with self._lock:
            for name, count in counts.items():
                setattr(self, name, getattr(self, name) + count)


@dataclass(slots=True)
class FileReader:
    """Reads data files for one query, and remembers what many of them have in common.

    Attributes:
        columns: Which columns.
        places: Where files are.
        pool: Threads that read ahead in large files.
        counts: Is kept up to date.
        prunes: Row groups that cannot match this are left out: bound, in logical names.
        keeps: Leaves out rows; None to keep all.
        size: How large batches may be.
        times: How dates and timestamps are understood.
    """

    columns: RowColumns
    places: Places
    pool: ThreadPoolExecutor
    counts: RowCounts
    prunes: Predicate | None = None
    keeps: RowFilter | None = None
    size: BatchSize = field(default_factory=BatchSize)
    times: TimeRules = field(default_factory=TimeRules)
    _known: KnownColumns = field(init=False)
    _partitions: PartitionColumns = field(init=False)
    _schemas: tuple[pa.Schema, pa.Schema] = field(init=False)

    def __post_init__(self) -> None:
        self._known = KnownColumns(self.columns, self.times)
        self._partitions = PartitionColumns(self.times.zone)
        self._schemas = (self.columns.needed_schema, self.columns.schema)

    @classmethod
    def of(
        cls,
        columns: RowColumns,
        selection: Selection,
        places: Places,
        pool: ThreadPoolExecutor,
        options: RowOptions,
        *,
        counts: RowCounts | None = None,
        rows: int | None = None,
    ) -> FileReader:
        """Makes a reader of what a query and its options say.

        Args:
            columns: Which columns.
            selection: Which rows, bound.
            places: Where files are.
            pool: Threads that read ahead in large files.
            options: How rows are read.
            counts: Is kept up to date.
            rows: Most rows of a batch; None for what the options say.
        """
        size = BatchSize(options.rows_per_batch if rows is None else rows, _BATCH_BYTES, fewest_rows=1)
        times = TimeRules(options.time_zone, is_strict=True)
        kept = RowCounts() if counts is None else counts
        return cls(columns, places, pool, kept, selection.row_groups, selection.keeps, size, times)

    def batches(self, file: DeltaFile) -> Iterator[pa.RecordBatch]:
        """Streams the rows of a file that are in the table and match.

        Raises:
            DeletionVectorError: It cannot be told which rows are deleted.
            UnreadableFileError: The file is not there, damaged, or not what the table's schema says.
            NotEnoughMemoryError: There is no memory for it.
        """
        self.counts.add(files_opened=1)
        try:
            yield from self._batches(file)
        except (pa.ArrowException, MemoryError, StorageError, OSError, UnicodeDecodeError) as error:
            raise unreadable(file.path, error) from error
        self.counts.add(files_read=1)

    def _batches(self, file: DeltaFile) -> Iterator[pa.RecordBatch]:
        store, path = self.places.find(file.path)
        footer = find_footer(store, path, file.size, self.pool)
        found = self._known.find(footer.metadata, file.path)
        # To read one row group that is here already takes less than to find out that it need not be read.
        is_here = footer.whole is not None and footer.size <= _SMALL and footer.metadata.num_row_groups == 1
        groups = groups_that_may_match(None if is_here else self.prunes, footer.metadata, found)
        self.counts.add(row_groups_skipped=footer.metadata.num_row_groups - len(groups))
        if not groups:
            return
        sizes = [footer.metadata.row_group(at).num_rows for at in range(footer.metadata.num_row_groups)]
        first_rows = np.cumsum([0, *sizes])
        vector = file.deletion_vector
        deleted = None if vector is None else load_deleted_rows(vector, self.places, file.path, int(first_rows[-1]))
        size = self._size_beside(file)
        parquet = ParquetRows(store, path, footer, self.pool, size, found.layout)
        for group in groups:
            first = int(first_rows[group])
            for held in _held_batches(parquet, group, found, size):
                batch = self._of_the_table(held, found, file, footer)
                kept = batch if deleted is None else _without(batch, deleted, first)
                self.counts.add(rows_decoded=batch.num_rows, rows_deleted=batch.num_rows - kept.num_rows)
                first += batch.num_rows
                given = self._chosen(kept)
                if given.num_rows:
                    yield given
                # The next batch needs the room.
                del held, batch, kept, given
            self.counts.add(row_groups_read=1)

    def _size_beside(self, file: DeltaFile) -> BatchSize:
        """How large batches may be, where each row has the file's partition values too."""
        names = [column.logical.name for column in self.columns.needed if column.is_partition]
        beside = sum(len(file.partition_values.get(name) or "") for name in names)
        if beside * self.size.most_rows <= self.size.bytes:
            return self.size
        return replace(self.size, most_rows=max(1, self.size.bytes // beside))

    def _of_the_table(
        self, held: pa.RecordBatch, found: FileColumnsFound, file: DeltaFile, footer: Footer
    ) -> pa.RecordBatch:
        try:
            return self._converted(held, found, file)
        except UnreadableFileError:
            if found.matching.file == file.path:
                raise
            # The message is about the file that was the first of its kind.
            return self._converted(held, self._known.find_anew(footer.metadata, file.path), file)

    def _converted(self, held: pa.RecordBatch, found: FileColumnsFound, file: DeltaFile) -> pa.RecordBatch:
        arrays = []
        for at, (column, converter) in enumerate(zip(self.columns.needed, found.converters, strict=True)):
            if column.is_partition:
                values = file.partition_values
                arrays.append(self._partitions.column(column.logical, values, held.num_rows, file.path))
            elif converter is None:
                arrays.append(missing(found, at, held.num_rows))
            else:
                name, convert = converter
                arrays.append(convert(held.column(name)))
        return struct_of(arrays, self._schemas[0], held.num_rows)

    def _chosen(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """The rows that match, with the columns that are wanted."""
        kept = batch if self.keeps is None else self.keeps(batch)
        wanted = self.columns.wanted
        if wanted == len(self.columns.needed):
            return kept
        return struct_of(kept.columns[:wanted], self._schemas[1], kept.num_rows)


def _held_batches(
    parquet: ParquetRows, group: int, found: FileColumnsFound, size: BatchSize
) -> Iterator[pa.RecordBatch]:
    if found.names:
        yield from parquet.batches(group, found.names)
        return
    # Nothing of the file is wanted but how many rows it has.
    rows = parquet.num_rows(group)
    for start in range(0, rows, size.most_rows):
        yield struct_of((), pa.schema([]), min(size.most_rows, rows - start))


def _without(batch: pa.RecordBatch, deleted: NDArray[np.int64], first: int) -> pa.RecordBatch:
    kept = kept_rows(deleted, first, batch.num_rows)
    return batch if kept is None else filtered(batch, kept)


def unreadable(path: str, error: Exception) -> UnreadableFileError | NotEnoughMemoryError:
    """The error for a data file that cannot be read."""
    no_room = out_of_memory(path, error)
    if no_room is not None:
        return no_room
    if isinstance(error, ObjectNotFoundError):
        msg = (
            f"data file {path} of the table is not there: {error}. A vacuum may have deleted it after the version was "
            "superseded; read a newer version"
        )
        return MissingDataFileError(msg, path)
    return UnreadableFileError(f"data file {path} cannot be read: {error}", path)


def find_footer(store: Store, path: str, size: int, pool: ThreadPoolExecutor) -> Footer:
    """Reads the footer of a data file, by the size in the log; where that leads nowhere, by what the store tells.

    Args:
        store: Where the file is.
        path: Its path there.
        size: Its size in the log.
        pool: Threads that read ahead.
    """
    guess = size if size <= _WHOLE else _FOOTER
    try:
        return read_footer(store, path, size, pool, guess)
    except (pa.ArrowInvalid, ObjectTruncatedError):
        actual = store.head(path).size
        if actual == size:
            raise
        return read_footer(store, path, actual, pool, actual if actual <= _WHOLE else _FOOTER)
