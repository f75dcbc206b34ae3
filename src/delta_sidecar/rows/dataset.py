"""`LazyDataset`: a table as a dataset of pyarrow, whose files are found while it is read.

    dataset = DeltaTable("./telemetry").to_pyarrow_dataset()
    for batch in dataset.to_batches(columns=["device_id"], filter=pc.field("_event_hour") >= "2026021022"):
        ...

It is a `pyarrow.dataset.Dataset` by its class, since engines ask for one; what is asked of it is answered here. Under
it pyarrow sees a file system that refuses every call, so that no way through pyarrow's own code gives wrong rows.
"""

from __future__ import annotations

from contextlib import closing, contextmanager
from dataclasses import replace
from functools import partial, partialmethod, reduce
from operator import and_
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as pads
import pyarrow.fs as pafs

from delta_sidecar._arrow import from_numpy, scalar
from delta_sidecar.errors import OptionError, ScanClosedError, described
from delta_sidecar.rows.columns import project, row_schema, struct_of
from delta_sidecar.rows.convert import partition_value
from delta_sidecar.rows.locations import shown
from delta_sidecar.rows.reader import select_rows
from delta_sidecar.rows.table import count_rows, file_batches, file_schema, row_counts

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterator
    from typing import Self

    from delta_sidecar.rows.columns import Columns, Projection
    from delta_sidecar.rows.query import RowQuery
    from delta_sidecar.rows.table import ReadableTable
    from delta_sidecar.scan.files import DeltaFile


# The consumer may well make a column for them.
_MOST_EMPTY_ROWS = 1 << 20
_READING_OPTIONS = {"batch_readahead", "fragment_readahead", "use_threads", "cache_metadata", "memory_pool"}
_FILES = "get_fragments() streams them, DeltaTable.file_uris() lists them"
_FILE_SYSTEM = "scanner(), to_batches() and get_fragments() read the files"
_JOIN = "join the table that to_table() gives, or let DuckDB do it"


class LazyDataset(pads.FileSystemDataset):  # type: ignore[misc]  # pyarrow has no types
    """The rows of a table at one version, for engines that take datasets of pyarrow.

    Columns and filters reach the files, and rows are exact. `to_table`, `to_batches`, `head`, `take` and `count_rows`
    are pyarrow's, with pyarrow's arguments. A dataset may be scanned many times, and by many threads at once.

    Attributes:
        last_error: The error of the latest scan that failed; None where none has. An engine that scans a dataset may
            pass on no more of an error than its text.
    """

    def __init__(self, table: ReadableTable, query: RowQuery) -> None:
        """Makes a dataset of the version that the table has now; a table that is not open yet is opened."""
        self.table = table.frozen()
        self.query = query
        self.last_error: Exception | None = None
        format_, files = pads.ParquetFileFormat(), pafs.PyFileSystem(_Refusing())
        nothing = format_.make_fragment("delta-sidecar", filesystem=files)
        super().__init__([nothing], row_schema(self.table.snapshot().schema), format_, files)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.table.access.store.url!r}, version={self.table.snapshot().version})"

    def __reduce__(self) -> NoReturn:
        msg = "a lazy dataset cannot be pickled: make one of the table's address where it is needed"
        raise TypeError(msg)

    # --- its rows --------------------------------------------------------------------------------------------------

    def scanner(
        self,
        columns: Columns = None,
        filter: pc.Expression | None = None,  # noqa: A002 - pyarrow's name
        batch_size: int | None = None,
        **reading: Any,  # noqa: ANN401 - pyarrow's
    ) -> DatasetScanner:
        """Asks for some columns and rows; nothing is read yet.

        Args:
            columns: Names of columns, or expressions by name; None for all.
            filter: Only rows that match. Files and row groups that hold none are left out.
            batch_size: Most rows of a batch.
            reading: Further arguments of pyarrow. Those on how to read change nothing: the table's options count.

        Raises:
            OptionError: A column is not there, or an argument is not supported.
        """
        with self._remembers_errors():
            _refuse_scan_options(reading)
            projection = project(columns, self.table.snapshot().columns)
            query = _narrowed(self.query, filter)
            return DatasetScanner(self.schema, self._batches, self._count, query, projection, batch_size)

    def filter(self, expression: pc.Expression) -> Self:
        """The rows of this dataset that match an expression of pyarrow."""
        return type(self)(self.table, _narrowed(self.query, expression))

    def get_fragments(self, filter: pc.Expression | None = None) -> Generator[FileFragment, None, None]:  # noqa: A002
        """Streams the files, as they are found.

        Args:
            filter: Only files that may hold a matching row. Their rows are not filtered by it.
        """
        return self._fragments(_narrowed(self.query, filter))

    def estimate_rows(self) -> int | None:
        """About how many rows there are, for a planner; None where that is unknown. It takes a few requests."""
        if self.query.limit is not None:
            return self.query.limit
        selection = select_rows(self.query, self.table.snapshot().schema)
        found = self.table.scanner(selection.prunes).estimate()
        if found.rows.upper is not None:
            return found.rows.upper
        # As a rule, a file has at least a row.
        return max(found.rows.lower, found.files.lower) or None

    def _fragments(self, query: RowQuery) -> Generator[FileFragment, None, None]:
        with self._remembers_errors():
            selection = select_rows(query, self.table.snapshot().schema)
            with closing(self.table.scanner(selection.prunes).scan_files()) as files:
                for file in files:
                    yield FileFragment(self.table, file, self.query)

    def _batches(self, query: RowQuery) -> Generator[pa.RecordBatch, None, None]:
        with self._remembers_errors():
            if query.columns == ():
                yield from _empty_batches(row_counts(self.table, query), query.limit)
                return
            with self.table.rows(query) as rows:
                yield from rows

    def _count(self, query: RowQuery) -> int:
        with self._remembers_errors():
            return count_rows(self.table, query)

    @contextmanager
    def _remembers_errors(self) -> Iterator[None]:
        try:
            yield
        except Exception as error:
            self.last_error = error
            raise
        except KeyboardInterrupt:
            self.last_error = ScanClosedError("the scan was interrupted")
            raise

    # --- what it does not have -------------------------------------------------------------------------------------

    def _refuse(self, what: str, instead: str, *_: Any, **__: Any) -> NoReturn:  # noqa: ANN401 - pyarrow's arguments
        msg = f"{what} is not offered by the lazy dataset of {self.table.access.store.url}: {instead}"
        raise _NotOfferedError(msg)

    # A list of all files is not held, and pyarrow's own code would read the files by itself.
    files = property(lambda self: self._refuse("files", _FILES))
    filesystem = property(lambda self: self._refuse("filesystem", _FILE_SYSTEM))
    replace_schema = partialmethod(_refuse, "replace_schema", "choose or make columns by scanner(columns=...)")
    sort_by = partialmethod(_refuse, "sort_by", "sort the table that to_table() gives, or let DuckDB do it")
    join = partialmethod(_refuse, "join", _JOIN)
    join_asof = partialmethod(_refuse, "join_asof", _JOIN)


class _NotOfferedError(OptionError, AttributeError):
    """An attribute that a dataset does not have, so that `hasattr` says so too."""


class _Refusing(pafs.FileSystemHandler):  # type: ignore[misc]  # pyarrow has no types
    """A file system for pyarrow's own code, where there is nothing to be had."""

    def _refuse(self, *_: object, **__: object) -> NoReturn:
        msg = "pyarrow cannot read the files of a lazy Delta table by itself: use scanner(), to_table() or to_batches()"
        raise NotImplementedError(msg)

    def get_type_name(self) -> str:
        return "delta-sidecar"

    def normalize_path(self, path: str) -> str:
        return path

    copy_file = create_dir = delete_dir = delete_dir_contents = delete_file = delete_root_dir_contents = _refuse
    get_file_info = get_file_info_selector = move = _refuse
    open_append_stream = open_input_file = open_input_stream = open_output_stream = _refuse


# `FileFragment`: one file of a dataset, with the methods of pyarrow's `Fragment`.


class FileFragment:
    """The rows of one file that are in the table, under the table's names and types.

    Nothing is read before rows, `physical_schema` or `count_rows` are asked for, and then of this file alone.
    """

    def __init__(self, table: ReadableTable, file: DeltaFile, query: RowQuery) -> None:
        """Makes a fragment of a dataset that has the rows of a query."""
        self._table = table
        self._query = query
        self.file = file

    def __repr__(self) -> str:
        return f"FileFragment({shown(self.path)!r})"

    @property
    def path(self) -> str:
        """The decoded path of the file, relative to the table or absolute."""
        return self.file.path

    @property
    def physical_schema(self) -> pa.Schema:
        """The schema of the file itself, read from its footer: no partition columns, names as in the file."""
        return file_schema(self._table, self.file)

    @property
    def partition_expression(self) -> pc.Expression:
        """The values of the partition columns in all of its rows."""
        values = [self._is_value(name) for name in self._table.snapshot().partition_columns]
        return reduce(and_, values) if values else pc.scalar(scalar(value=True, type=pa.bool_()))

    def scanner(
        self,
        schema: pa.Schema | None = None,
        columns: Columns = None,
        filter: pc.Expression | None = None,  # noqa: A002 - pyarrow's name
        batch_size: int | None = None,
        **reading: Any,  # noqa: ANN401 - pyarrow's
    ) -> DatasetScanner:
        """Asks for some columns and rows; nothing is read yet.

        Args:
            schema: The dataset's, if any is given: others are not supported.
            columns: Names of columns, or expressions by name; None for all.
            filter: Only rows that match.
            batch_size: Most rows of a batch.
            reading: Further arguments of pyarrow, as for the dataset.

        Raises:
            OptionError: A column is not there, or an argument is not supported.
        """
        own = row_schema(self._table.snapshot().schema)
        if schema is not None and not schema.equals(own):
            msg = "a fragment is read with the dataset's own schema: leave schema out, and choose by columns"
            raise OptionError(msg)
        _refuse_scan_options(reading)
        projection = project(columns, self._table.snapshot().columns)
        batches = partial(file_batches, self._table, self.file)
        return DatasetScanner(own, batches, self._count, _narrowed(self._query, filter), projection, batch_size)

    def to_batches(self, schema: pa.Schema | None = None, **options: Any) -> Generator[pa.RecordBatch, None, None]:  # noqa: ANN401
        """Streams rows; takes what `scanner` takes."""
        return self.scanner(schema, **options).to_batches()

    def to_table(self, schema: pa.Schema | None = None, **options: Any) -> pa.Table:  # noqa: ANN401
        """All rows, in memory; takes what `scanner` takes."""
        return self.scanner(schema, **options).to_table()

    def head(self, num_rows: int, **options: Any) -> pa.Table:  # noqa: ANN401
        """The first rows; takes what `scanner` takes."""
        return self.scanner(**options).head(num_rows)

    def take(self, indices: Any, **options: Any) -> pa.Table:  # noqa: ANN401
        """The rows at some places; takes what `scanner` takes."""
        return self.scanner(**options).take(indices)

    def count_rows(self, **options: Any) -> int:  # noqa: ANN401
        """The number of rows; takes what `scanner` takes."""
        return self.scanner(**options).count_rows()

    def _count(self, query: RowQuery) -> int:
        batches = file_batches(self._table, self.file, replace(query, columns=()))
        return sum(batch.num_rows for batch in batches)

    def _is_value(self, name: str) -> pc.Expression:
        field = self._table.snapshot().schema.field(name)
        zone = self._table.row_options.time_zone
        value = partition_value(field, self.file.partition_values, self.path, zone)
        return pc.field(name) == value if value.is_valid else pc.field(name).is_null()


class DatasetScanner:
    """Some columns and rows of a dataset or one of its fragments, with the methods of pyarrow's `Scanner`.

    Making one reads nothing. Each stream stands by itself, may be taken in any thread, and stops its requests when it
    is closed or dropped.
    """

    def __init__(
        self,
        schema: pa.Schema,
        batches: Callable[[RowQuery], Generator[pa.RecordBatch, None, None]],
        count: Callable[[RowQuery], int],
        query: RowQuery,
        projection: Projection,
        batch_size: int | None = None,
    ) -> None:
        """Makes a scanner of a query's rows, with the columns of a projection; None for batches as they come.

        Raises:
            OptionError: The size of batches is not valid.
        """
        if batch_size is not None and batch_size < 1:
            msg = f"batch_size must be a whole number from 1 on, not {described(batch_size)}"
            raise OptionError(msg)
        self.dataset_schema = schema
        self._stream = batches
        self._count = count
        self._query = replace(query, columns=projection.names)
        self._projection = projection
        self._batch_size = batch_size

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        return self.to_reader().__arrow_c_stream__(requested_schema)

    @property
    def projected_schema(self) -> pa.Schema:
        """The schema of the batches."""
        return self._projection.schema

    def to_batches(self) -> Generator[pa.RecordBatch, None, None]:
        """Streams the rows."""
        return self._batches(self._query)

    def to_reader(self) -> pa.RecordBatchReader:
        """Streams the rows as a reader of Arrow. Dropping it stops the requests; its `close` does not reach them."""
        return pa.RecordBatchReader.from_batches(self._projection.schema, self.to_batches())

    def to_table(self) -> pa.Table:
        """All rows, in memory."""
        return self.to_reader().read_all()

    def head(self, num_rows: int) -> pa.Table:
        """The first rows; those of the newest commits come first."""
        limit = num_rows if self._query.limit is None else min(num_rows, self._query.limit)
        batches = self._batches(replace(self._query, limit=limit))
        return pa.RecordBatchReader.from_batches(self._projection.schema, batches).read_all()

    def take(self, indices: Any) -> pa.Table:  # noqa: ANN401 - any list of numbers
        """The rows at some places of the stream, in the order of the places; it is read no further than to the last.

        Args:
            indices: Places, counted from 0.

        Raises:
            IndexError: There is no such row.
        """
        numbers = np.asarray(indices)
        if numbers.size and numbers.dtype.kind not in "iu":
            msg = f"rows are taken by their numbers, which are whole, not by {numbers.dtype} values"
            raise OptionError(msg)
        places = numbers.astype(np.int64)
        _check_places(places, None)
        order = np.argsort(places, kind="stable")
        ascending = places[order]
        pieces, taken, start = [], 0, 0
        with closing(self._batches(self._query)) as batches:
            for batch in batches if len(ascending) else ():
                end = int(np.searchsorted(ascending, start + batch.num_rows))
                pieces.append(batch.take(from_numpy(ascending[taken:end] - start)))
                taken, start = end, start + batch.num_rows
                if taken == len(ascending):
                    break
        _check_places(ascending[taken:], start)
        found = pa.Table.from_batches(pieces, self._projection.schema)
        return found.take(from_numpy(np.argsort(order, kind="stable")))

    def count_rows(self) -> int:
        """The number of rows; where the log has it, no file is opened."""
        return self._count(self._query)

    def _batches(self, query: RowQuery) -> Generator[pa.RecordBatch, None, None]:
        with closing(self._stream(query)) as batches:
            for found in batches:
                batch = self._projection.of(found)
                # Without columns, rows are no more than a number.
                size = (batch.num_columns and self._batch_size) or batch.num_rows or 1
                for start in range(0, batch.num_rows, size):
                    yield batch.slice(start, size)


def _empty_batches(counts: Generator[int, None, None], limit: int | None) -> Generator[pa.RecordBatch, None, None]:
    """Batches that have nothing but a number of rows."""
    with closing(counts):
        for count in counts:
            left = count if limit is None else min(count, limit)
            limit = None if limit is None else limit - left
            while left > 0:
                rows = min(left, _MOST_EMPTY_ROWS)
                yield struct_of((), pa.schema([]), rows)
                left -= rows


def _narrowed(query: RowQuery, condition: pc.Expression | None) -> RowQuery:
    """The same query for the rows that match another condition too."""
    if condition is None:
        return query
    if not isinstance(condition, pc.Expression):
        msg = f"a filter is an expression of pyarrow, such as pc.field('x') > 1, not {condition!r}"
        raise OptionError(msg)
    own = query.expression
    return replace(query, expression=condition if own is None else own & condition)


def _refuse_scan_options(options: dict[str, Any]) -> None:
    """Refuses arguments of pyarrow's scanners that would change rows; those on how to read change nothing here."""
    if options.get("fragment_scan_options") is not None:
        msg = "fragment_scan_options is not supported: leave it out"
        raise OptionError(msg)
    unknown = options.keys() - _READING_OPTIONS - {"fragment_scan_options"}
    if unknown:
        msg = f"a scanner has no argument {', '.join(sorted(unknown))}"
        raise TypeError(msg)


def _check_places(places: np.ndarray[Any, np.dtype[np.int64]], rows: int | None) -> None:
    """Refuses places below zero, or any at all where the rows have ended."""
    wrong = places if rows is not None else places[places < 0]
    if len(wrong):
        there = "" if rows is None else f": there are {rows}"
        msg = f"there is no row {int(wrong[0])}{there}"
        raise IndexError(msg)
