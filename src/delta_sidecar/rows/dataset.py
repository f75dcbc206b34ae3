"""`LazyDataset`: a table as a dataset of pyarrow, whose files are found while it is read.

    dataset = DeltaTable("./telemetry").to_pyarrow_dataset()
    for batch in dataset.to_batches(columns=["device_id"], filter=pc.field("_event_hour") >= "2026021022"):
        ...

It is a `pyarrow.dataset.Dataset` by its class, since engines ask for one; what is asked of it is answered here. Under
it pyarrow sees a file system that refuses every call, so that no way through pyarrow's own code gives wrong rows.
"""

from __future__ import annotations

from contextlib import closing
from dataclasses import replace
from functools import reduce
from operator import and_
from typing import TYPE_CHECKING, Any, NoReturn

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as pads
import pyarrow.fs as pafs

from delta_sidecar._arrow import scalar
from delta_sidecar.errors import DeltaSidecarError, OptionError, ScanClosedError
from delta_sidecar.rows.columns import project, row_schema
from delta_sidecar.rows.convert import struct_of
from delta_sidecar.rows.count import count_rows, row_counts
from delta_sidecar.rows.dataset_scan import DatasetScanner, narrowed, refuse_scan_options
from delta_sidecar.rows.locations import shown
from delta_sidecar.rows.partitions import partition_value
from delta_sidecar.rows.reader import select_rows
from delta_sidecar.rows.stream import file_batches, file_schema

if TYPE_CHECKING:
    from collections.abc import Generator
    from typing import Self

    from delta_sidecar.rows.columns import Columns
    from delta_sidecar.rows.query import RowQuery
    from delta_sidecar.rows.stream import ReadableTable
    from delta_sidecar.scan.files import DeltaFile


# Who takes them may well make a column for them.
_MOST_EMPTY_ROWS = 1 << 20


class LazyDataset(pads.FileSystemDataset):  # type: ignore[misc]  # pyarrow has no types
    """The rows of a table at one version, for whatever takes datasets of pyarrow.

    Columns and filters reach the files, and rows are exact. `to_table`, `to_batches`, `head`, `take` and `count_rows`
    are pyarrow's, with pyarrow's arguments. A dataset may be scanned many times, and by many threads at once.

    Attributes:
        last_error: What the latest scan that failed has failed with; None where none has. An engine that scans a
            dataset may tell no more of an error than its text.
    """

    def __init__(self, table: ReadableTable, query: RowQuery) -> None:
        """Makes a dataset of the version that the table has now; a table that is not open yet is opened.

        Args:
            table: The table.
            query: Which of its rows.
        """
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
        **manner: Any,  # noqa: ANN401 - pyarrow's
    ) -> DatasetScanner:
        """Asks for some columns and rows; nothing is read yet.

        Args:
            columns: Names of columns, or expressions by name; None for all.
            filter: Only rows that match. Files and row groups that hold none are left out.
            batch_size: Most rows of a batch.
            manner: Further arguments of pyarrow. Those on how to read change nothing: the table's own options say that.

        Raises:
            OptionError: A column is not there, or an argument is not supported.
        """
        try:
            refuse_scan_options(manner)
            projection = project(columns, self.table.snapshot().columns)
            return DatasetScanner(_TableRows(self), narrowed(self.query, filter), projection, batch_size)
        except DeltaSidecarError as error:
            self.last_error = error
            raise

    def filter(self, expression: pc.Expression) -> Self:
        """The rows of this dataset that match.

        Args:
            expression: Of pyarrow.
        """
        return type(self)(self.table, narrowed(self.query, expression))

    def get_fragments(self, filter: pc.Expression | None = None) -> Generator[FileFragment, None, None]:  # noqa: A002
        """Streams the files, as they are found.

        Args:
            filter: Only files that may hold a matching row. Their rows are not filtered by it.
        """
        return self._fragments(narrowed(self.query, filter))

    def estimate_rows(self) -> int | None:
        """About how many rows there are, for a planner; None where there is no telling. It takes a few requests."""
        if self.query.limit is not None:
            return self.query.limit
        selection = select_rows(self.query, self.table.snapshot().schema)
        found = self.table.scanner(selection.prunes).estimate()
        if found.rows.upper is not None:
            return found.rows.upper
        # As a rule, a file has at least a row.
        return max(found.rows.lower, found.files.lower) or None

    def _fragments(self, query: RowQuery) -> Generator[FileFragment, None, None]:
        try:
            selection = select_rows(query, self.table.snapshot().schema)
            with closing(self.table.scanner(selection.prunes).scan_files()) as files:
                for file in files:
                    yield FileFragment(self.table, file, self.query)
        except Exception as error:
            self.last_error = error
            raise

    # --- what it does not have -------------------------------------------------------------------------------------

    @property
    def files(self) -> NoReturn:
        """Refused: a list of all files is not held. `get_fragments` streams them."""
        self._refuse("files", "get_fragments() streams them, DeltaTable.file_uris() lists them")

    @property
    def filesystem(self) -> NoReturn:
        """Refused: files are read through the table's own store."""
        self._refuse("filesystem", "scanner(), to_batches() and get_fragments() read the files")

    def replace_schema(self, schema: pa.Schema) -> NoReturn:
        """Refused: the schema is the table's."""
        del schema
        self._refuse("replace_schema", "choose or make columns by scanner(columns=...)")

    def sort_by(self, sorting: Any, **options: Any) -> NoReturn:  # noqa: ANN401 - pyarrow's
        """Refused: it would need all rows in memory."""
        del sorting, options
        self._refuse("sort_by", "sort the table that to_table() gives, or let DuckDB do it")

    def join(self, *arguments: Any, **options: Any) -> NoReturn:  # noqa: ANN401 - pyarrow's
        """Refused: pyarrow would read the files by itself."""
        del arguments, options
        self._refuse("join", "join the table that to_table() gives, or let DuckDB do it")

    def join_asof(self, *arguments: Any, **options: Any) -> NoReturn:  # noqa: ANN401 - pyarrow's
        """Refused: pyarrow would read the files by itself."""
        del arguments, options
        self._refuse("join_asof", "join the table that to_table() gives, or let DuckDB do it")

    def _refuse(self, what: str, instead: str) -> NoReturn:
        msg = f"{what} is not offered by the lazy dataset of {self.table.access.store.url}: {instead}"
        raise _NotOfferedError(msg)


class _NotOfferedError(OptionError, AttributeError):
    """What a dataset does not have, for those too who ask whether it has it."""


class _TableRows:
    """The rows of a dataset's table, for its scanners."""

    def __init__(self, dataset: LazyDataset) -> None:
        self._dataset = dataset

    @property
    def schema(self) -> pa.Schema:
        return self._dataset.schema

    def batches(self, query: RowQuery) -> Generator[pa.RecordBatch, None, None]:
        try:
            if query.columns == ():
                yield from _empty_batches(row_counts(self._dataset.table, query), query.limit)
                return
            with self._dataset.table.rows(query) as rows:
                yield from rows
        except Exception as error:
            self._dataset.last_error = error
            raise
        except KeyboardInterrupt:
            self._dataset.last_error = ScanClosedError("the scan was interrupted")
            raise

    def count(self, query: RowQuery) -> int:
        try:
            return count_rows(self._dataset.table, query)
        except Exception as error:
            self._dataset.last_error = error
            raise


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
        """Makes a fragment.

        Args:
            table: The table, at its version.
            file: The file.
            query: Which rows of the table the dataset has.
        """
        self._table = table
        self._query = query
        self.file = file

    def __repr__(self) -> str:
        return f"FileFragment({shown(self.path)!r})"

    @property
    def path(self) -> str:
        """Where the file is, decoded: relative to the table, or absolute."""
        return self.file.path

    @property
    def physical_schema(self) -> pa.Schema:
        """The schema of the file itself, read from its footer: no partition columns, names as in the file."""
        return file_schema(self._table, self.file)

    @property
    def partition_expression(self) -> pc.Expression:
        """What the values of the partition columns are in all of its rows."""
        values = [self._is_value(name) for name in self._table.snapshot().partition_columns]
        return reduce(and_, values) if values else pc.scalar(scalar(value=True, type=pa.bool_()))

    def scanner(
        self,
        schema: pa.Schema | None = None,
        columns: Columns = None,
        filter: pc.Expression | None = None,  # noqa: A002 - pyarrow's name
        batch_size: int | None = None,
        **manner: Any,  # noqa: ANN401 - pyarrow's
    ) -> DatasetScanner:
        """Asks for some columns and rows; nothing is read yet.

        Args:
            schema: The dataset's, if any is given: others are not supported.
            columns: Names of columns, or expressions by name; None for all.
            filter: Only rows that match.
            batch_size: Most rows of a batch.
            manner: Further arguments of pyarrow, as for the dataset.

        Raises:
            OptionError: A column is not there, or an argument is not supported.
        """
        scanned = _FileRows(self._table, self.file)
        if schema is not None and not schema.equals(scanned.schema):
            msg = "a fragment is read with the dataset's own schema: leave schema out, and choose by columns"
            raise OptionError(msg)
        refuse_scan_options(manner)
        projection = project(columns, self._table.snapshot().columns)
        return DatasetScanner(scanned, narrowed(self._query, filter), projection, batch_size)

    def to_batches(self, schema: pa.Schema | None = None, **asked: Any) -> Generator[pa.RecordBatch, None, None]:  # noqa: ANN401
        """Streams rows; takes what `scanner` takes."""
        return self.scanner(schema, **asked).to_batches()

    def to_table(self, schema: pa.Schema | None = None, **asked: Any) -> pa.Table:  # noqa: ANN401
        """All rows, in memory; takes what `scanner` takes."""
        return self.scanner(schema, **asked).to_table()

    def head(self, num_rows: int, **asked: Any) -> pa.Table:  # noqa: ANN401
        """The first rows; takes what `scanner` takes."""
        return self.scanner(**asked).head(num_rows)

    def take(self, indices: Any, **asked: Any) -> pa.Table:  # noqa: ANN401
        """The rows at some places; takes what `scanner` takes."""
        return self.scanner(**asked).take(indices)

    def count_rows(self, **asked: Any) -> int:  # noqa: ANN401
        """How many rows there are; takes what `scanner` takes."""
        return self.scanner(**asked).count_rows()

    def _is_value(self, name: str) -> pc.Expression:
        field = self._table.snapshot().schema.field(name)
        zone = self._table.row_options.time_zone
        value = partition_value(field, self.file.partition_values, self.path, zone)
        return pc.field(name) == value if value.is_valid else pc.field(name).is_null()


class _FileRows:
    """The rows of a file, for its scanners."""

    def __init__(self, table: ReadableTable, file: DeltaFile) -> None:
        self._table = table
        self._file = file

    @property
    def schema(self) -> pa.Schema:
        return row_schema(self._table.snapshot().schema)

    def batches(self, query: RowQuery) -> Generator[pa.RecordBatch, None, None]:
        return file_batches(self._table, self._file, query)

    def count(self, query: RowQuery) -> int:
        return sum(batch.num_rows for batch in self.batches(replace(query, columns=())))
