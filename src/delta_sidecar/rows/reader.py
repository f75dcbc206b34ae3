"""The rows of one data file, as the table has them: found, decoded, without deleted rows, filtered."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from msgspec import Struct
from msgspec.structs import replace

from delta_sidecar._arrow import from_numpy
from delta_sidecar.errors import (
    DeletionVectorError,
    MissingDataFileError,
    NotEnoughMemoryError,
    ObjectNotFoundError,
    ObjectTruncatedError,
    PredicateError,
    StorageError,
    UnreadableFileError,
    UnsupportedFeatureError,
)
from delta_sidecar.execute.fetch import out_of_memory
from delta_sidecar.execute.parquet.file import BatchSize, ParquetRows, is_small
from delta_sidecar.execute.parquet.footer import Footer, footer_of, plain_batch, read_footer
from delta_sidecar.log.deletion_vectors import deleted_rows, inline_bytes, stored_range
from delta_sidecar.log.schema import COLLATIONS
from delta_sidecar.predicate import Predicate, all_of, bind, columns, matches
from delta_sidecar.predicate.approximate.arrow import prunable
from delta_sidecar.predicate.tree import IsNull, leaves
from delta_sidecar.rows.columns import expression_columns, row_schema, struct_of
from delta_sidecar.rows.convert import filtered, partition_value
from delta_sidecar.rows.file_columns import KnownColumns, groups_that_may_match

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pyarrow.compute as pc
    from numpy.typing import NDArray

    from delta_sidecar._threads import ThreadPool
    from delta_sidecar.log.deletion_vectors import DeletionVector
    from delta_sidecar.rows.columns import RowColumns
    from delta_sidecar.rows.file_columns import FileColumnsFound
    from delta_sidecar.rows.locations import Places
    from delta_sidecar.rows.query import RowOptions, RowQuery
    from delta_sidecar.scan.files import DeltaFile
    from delta_sidecar.store import Store
    from delta_sidecar.store.interface import Buffer


RowFilter: TypeAlias = Callable[[pa.RecordBatch], pa.RecordBatch]
"""Leaves out the rows of a batch that do not match."""

_BATCH_BYTES = 8 << 20
_WHOLE = 1 << 20
_FOOTER = 64 << 10
_SMALL = 256 << 10


class RowCounts:
    """Counts of a scan for rows so far, under their names in `RowMetrics`; all threads count here."""

    def __init__(self) -> None:
        names = ("files_opened", "files_read", "row_groups_read", "row_groups_skipped", "rows_decoded", "rows_deleted")
        self.by_name = dict.fromkeys(names, 0)
        self._lock = threading.Lock()

    def add(self, **counts: int) -> None:
        """Counts, from any thread."""
        with self._lock:
            for name, count in counts.items():
                self.by_name[name] += count


class FileReader:
    """Reads data files for one query, whose selection is bound, and remembers what many of them have in common."""

    def __init__(
        self,
        columns: RowColumns,
        selection: Selection,
        places: Places,
        pool: ThreadPool,
        options: RowOptions,
        counts: RowCounts | None = None,
    ) -> None:
        self._columns = columns
        self._selection = selection
        self._places = places
        self._pool = pool
        self._counts = counts or RowCounts()
        self._size = BatchSize(options.rows_per_batch, _BATCH_BYTES, fewest_rows=1, most_bytes=2 * _BATCH_BYTES)
        self._known = KnownColumns(columns)
        self._zone = options.time_zone
        self._schemas = (columns.needed_schema, columns.schema)
        self._partitions = [column.logical.name for column in columns.needed if column.is_partition]

    def batches(self, file: DeltaFile, whole: Buffer | None = None) -> Iterator[pa.RecordBatch]:
        """Streams the rows of a file that are in the table and match; `whole` is what `read_whole` gave of it.

        Raises:
            DeletionVectorError: The deleted rows are not known.
            UnreadableFileError: The file is not there, damaged, or not what the table's schema says.
            NotEnoughMemoryError: There is no memory for it.
        """
        self._counts.add(files_opened=whole is None)
        try:
            yield from self._batches(file, whole)
        except (pa.ArrowException, MemoryError, StorageError, OSError, UnicodeDecodeError) as error:
            raise unreadable(file.path, error) from error
        self._counts.add(files_read=1)

    def read_whole(self, file: DeltaFile) -> Buffer:
        """Reads a small file in one request; nothing is found in what is no file of this size.

        Raises:
            UnreadableFileError: The file is not there, or cannot be read.
            NotEnoughMemoryError: There is no memory for it.
        """
        self._counts.add(files_opened=1)
        try:
            store, path = self._places.find(file.path)
            return store.get_range(path, 0, file.size)
        except ObjectTruncatedError:
            return b""
        except (MemoryError, StorageError, OSError) as error:
            raise unreadable(file.path, error) from error

    def decode_whole(self, file: DeltaFile, data: Buffer) -> pa.RecordBatch | None:
        """The rows of a small file, which `chosen` has not seen; None where `batches` has to read it, or refuse it.

        Raises:
            UnreadableFileError: The file is not what the table's schema says.
        """
        try:
            parquet = pq.ParquetFile(pa.BufferReader(data), pre_buffer=False)
            metadata = parquet.metadata
            found = self._known.find(metadata, file.path)
            if not self._is_one_batch(metadata, found) or self._size_beside(file) is not self._size:
                return None
            held = parquet.read_row_group(0, list(found.names), use_threads=False).to_batches()
            if len(held) != 1 or held[0].num_rows != metadata.num_rows:
                return None
            batch = found.layout.times.check(held[0], None)
            batch = self._of_the_table(batch if found.layout.is_plain else plain_batch(batch), found, file, metadata)
        except (pa.ArrowException, MemoryError, OSError, UnicodeDecodeError):
            return None
        self._counts.add(files_read=1, row_groups_read=1, rows_decoded=batch.num_rows)
        return batch

    def _is_one_batch(self, metadata: pq.FileMetaData, found: FileColumnsFound) -> bool:
        """Whether what a file has of the query's columns comes to one batch of ordinary size, whatever is in it."""
        if metadata.num_row_groups != 1 or not found.names or found.layout.int96 or not found.layout.is_flat:
            return False
        size = self._size
        return 0 < metadata.num_rows <= size.most_rows and is_small(metadata.row_group(0), len(found.names), size)

    def _batches(self, file: DeltaFile, whole: Buffer | None) -> Iterator[pa.RecordBatch]:
        store, path = self._places.find(file.path)
        footer = find_footer(store, path, file.size, whole)
        found = self._known.find(footer.metadata, file.path)
        # To read one row group that is here already takes less than to find out that it need not be read.
        is_here = footer.whole is not None and footer.size <= _SMALL and footer.metadata.num_row_groups == 1
        groups = groups_that_may_match(None if is_here else self._selection.row_groups, footer.metadata, found)
        self._counts.add(row_groups_skipped=footer.metadata.num_row_groups - len(groups))
        if not groups:
            return
        sizes = [footer.metadata.row_group(at).num_rows for at in range(footer.metadata.num_row_groups)]
        first_rows = np.cumsum([0, *sizes])
        vector = file.deletion_vector
        deleted = None if vector is None else _deleted_rows(vector, self._places, file.path, int(first_rows[-1]))
        parquet = ParquetRows(store, path, footer, self._pool, self._size_beside(file), found.layout)
        for group in groups:
            first = int(first_rows[group])
            for held in parquet.batches(group, found.names):
                batch = self._of_the_table(held, found, file, footer.metadata)
                kept = batch if deleted is None else _without(batch, deleted, first)
                self._counts.add(rows_decoded=batch.num_rows, rows_deleted=batch.num_rows - kept.num_rows)
                first += batch.num_rows
                found_rows = self.chosen(kept)
                if found_rows.num_rows:
                    yield found_rows
                # The next batch needs the room.
                del held, batch, kept, found_rows
            self._counts.add(row_groups_read=1)

    def _size_beside(self, file: DeltaFile) -> BatchSize:
        """The size of batches in which each row has the file's partition values too."""
        beside = sum(len(file.partition_values.get(name) or "") for name in self._partitions)
        if beside * self._size.most_rows <= self._size.bytes:
            return self._size
        return replace(self._size, most_rows=max(1, self._size.bytes // beside))

    def _of_the_table(
        self, held: pa.RecordBatch, found: FileColumnsFound, file: DeltaFile, metadata: pq.FileMetaData
    ) -> pa.RecordBatch:
        try:
            return self._converted(held, found, file)
        except UnreadableFileError:
            if found.matching.file == file.path:
                raise
            # The message is about the file that was the first of its kind.
            return self._converted(held, self._known.find_anew(metadata, file.path), file)

    def _converted(self, held: pa.RecordBatch, found: FileColumnsFound, file: DeltaFile) -> pa.RecordBatch:
        arrays = []
        for at, (column, converter) in enumerate(zip(self._columns.needed, found.converters, strict=True)):
            if column.is_partition:
                value = partition_value(column.logical, file.partition_values, file.path, self._zone)
                arrays.append(pa.repeat(value, held.num_rows))
            elif converter is None:
                arrays.append(pa.nulls(held.num_rows, self._schemas[0].field(at).type))
            else:
                name, convert = converter
                arrays.append(convert(held.column(name)))
        return struct_of(arrays, self._schemas[0], held.num_rows)

    def chosen(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """The rows that match, without the columns that only the filter needs."""
        keeps, count = self._selection.keeps, self._columns.selected
        kept = batch if keeps is None else keeps(batch)
        if count == len(self._columns.needed):
            return kept
        return struct_of(kept.columns[:count], self._schemas[1], kept.num_rows)


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


def find_footer(store: Store, path: str, size: int, whole: Buffer | None = None) -> Footer:
    """Reads the footer of a data file, by its size in the log; where that is wrong, by its size in the store.

    Args:
        store: Where it is.
        path: Its path there.
        size: Its size in the log.
        whole: So many bytes of it, where they are read already.
    """
    if whole is not None:
        with suppress(pa.ArrowInvalid):
            return footer_of(whole)
    guess = size if size <= _WHOLE else _FOOTER
    try:
        return read_footer(store, path, size, guess)
    except (pa.ArrowInvalid, ObjectTruncatedError):
        actual = store.head(path).size
        if actual == size:
            raise
        return read_footer(store, path, actual, actual if actual <= _WHOLE else _FOOTER)


# The rows that a query keeps, and what can be pruned by bounds alone.


class Selection(Struct, frozen=True):
    """The rows that a query keeps; those after `prunes_groups` are there once it is bound to the table's columns."""

    predicate: Predicate | None = None
    expression: pc.Expression | None = None  # rows match this too, by Arrow's own rules
    prunes: Predicate | None = None  # files are pruned by this
    prunes_groups: Predicate | None = None  # and row groups by this, which
    row_groups: Predicate | None = None  # is the same, bound
    keeps: RowFilter | None = None  # leaves out rows; None keeps all
    looked_at: tuple[str, ...] = ()  # top-level columns that `keeps` and `row_groups` need

    def bound(self, schema: pa.Schema) -> Selection:
        """The same for a table's columns.

        Raises:
            PredicateError: The predicate does not fit the table.
            UnsupportedFeatureError: It compares texts whose order is not that of their bytes.
        """
        exact = None if self.predicate is None else bind(self.predicate, schema)
        if exact is not None:
            check_collations(exact, schema)
        prunes = exact if self.prunes_groups is self.predicate else None
        if prunes is None and self.prunes_groups is not None:
            prunes = bind(self.prunes_groups, schema)
        names = {path[0] for path in columns(exact)} if exact is not None else set()
        order: list[str] = []
        if self.expression is not None:
            _check_expression(self.expression, schema)
            found = expression_columns(self.expression)
            # Arrow evaluates nothing on rows that have no columns.
            names |= set(schema.names) if found is None else found or set(schema.names[:1])
            order = schema.names if found is None else []
        return replace(
            self,
            row_groups=prunes,
            keeps=None if exact is None and self.expression is None else _row_filter(exact, self.expression, order),
            looked_at=tuple(name for name in schema.names if name in names),
        )


def select_rows(query: RowQuery, schema: pa.Schema | None) -> Selection:
    """The selection of a query; where the table's columns are not known, an expression of Arrow prunes nothing."""
    known = None if query.expression is None or schema is None else prunable(query.expression, schema)
    groups = [term for term in (query.parsed_predicate, known, query.prunes) if term is not None]
    files = groups if query.prunes_files is None else [*groups, query.prunes_files]
    return Selection(
        query.parsed_predicate,
        query.expression,
        prunes=all_of(files) if files else None,
        prunes_groups=all_of(groups) if groups else None,
    )


def _row_filter(predicate: Predicate | None, expression: pc.Expression | None, order: list[str]) -> RowFilter:
    """Leaves out rows. Where there is an order of columns, the expression may name them by their places in it."""

    def keep(batch: pa.RecordBatch) -> pa.RecordBatch:
        if predicate is not None:
            batch = filtered(batch, matches(predicate, batch))
        if expression is None:
            return batch
        try:
            if order:
                return batch.select(order).filter(expression).select(batch.schema.names)
            return batch.filter(expression)
        except MemoryError:
            # Arrow's is one of its own, and says nothing of the filter.
            raise
        except pa.ArrowException as error:
            msg = f"the filter {expression} cannot be evaluated: {error}"
            raise PredicateError(msg) from error

    return keep


def _check_expression(expression: pc.Expression, schema: pa.Schema) -> None:
    """Refuses an expression that does not fit the table, before any row is there to try it on."""
    made = row_schema(schema)
    # Some mistakes show only where there is a row.
    row = pa.Table.from_arrays([pa.nulls(1, field.type) for field in made], schema=made)
    try:
        row.filter(expression)
    except (pa.ArrowException, TypeError) as error:
        msg = f"the filter {expression} does not fit the table: {error}"
        raise PredicateError(msg) from error


def check_collations(predicate: Predicate, schema: pa.Schema) -> None:
    """Refuses a bound predicate that compares texts in a collation other than byte by byte.

    Raises:
        UnsupportedFeatureError: It compares a column that has a collation.
    """
    for leaf in leaves(predicate):
        collation = None if isinstance(leaf, IsNull) else _collation(leaf.column.path, schema)
        if collation is not None:
            msg = (
                f"column {leaf.column} has the collation {collation} (collations), and byte by byte other values are "
                "equal or less: leave it out of the predicate, and filter in an engine that knows the collation"
            )
            raise UnsupportedFeatureError(msg, ("collations",))


def _collation(path: tuple[str, ...], schema: pa.Schema) -> str | None:
    """The collation of a column of texts; None where they are compared byte by byte."""
    field = schema.field(path[0])
    for name in path[1:]:
        field = field.type.field(name)
    collations = (field.metadata or {}).get(COLLATIONS.encode())
    if collations is None or not pa.types.is_string(field.type):
        return None
    named = json.loads(collations)
    # A column that was renamed may be there under its old name.
    found = str((named.get(field.name) or next(iter(named.values()), None)) if isinstance(named, dict) else named)
    return None if found.upper().removeprefix("SPARK.") == "UTF8_BINARY" else found


# The deleted rows of data files: their deletion vectors, fetched when a file is read.


def _deleted_rows(vector: DeletionVector, places: Places, file: str, num_rows: int) -> NDArray[np.int64]:
    """Numbers of the deleted rows of a data file that has so many rows, in order."""
    try:
        path = vector.file_path()
        if path is None:
            return deleted_rows(vector, inline_bytes(vector), num_rows=num_rows)
        store, at = places.find(path)
        return deleted_rows(vector, bytes(store.get_range(at, *stored_range(vector))), num_rows=num_rows)
    except (DeletionVectorError, StorageError, UnreadableFileError) as error:
        msg = f"the deletion vector of {file} cannot be read, so that its rows are not given: {error}"
        raise DeletionVectorError(msg) from error


def _without(batch: pa.RecordBatch, deleted: NDArray[np.int64], first: int) -> pa.RecordBatch:
    """The rows of a batch that are not deleted; `first` is the number of the first one in its file."""
    start, end = np.searchsorted(deleted, [first, first + batch.num_rows])
    if start == end:
        return batch
    kept = np.ones(batch.num_rows, dtype=np.bool_)
    kept[deleted[start:end] - first] = False
    return filtered(batch, from_numpy(kept))
