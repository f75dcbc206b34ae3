"""`FileFragment`: one file of a dataset, with the methods of pyarrow's `Fragment`."""

from __future__ import annotations

from dataclasses import replace
from functools import reduce
from operator import and_
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from delta_sidecar._arrow import scalar
from delta_sidecar.data.columns import row_schema
from delta_sidecar.data.dataset_scanner import DatasetScanner, narrowed, refuse_scan_options
from delta_sidecar.data.one_file import file_batches, file_schema
from delta_sidecar.data.partition_columns import partition_value
from delta_sidecar.data.places import shown
from delta_sidecar.data.projection import project
from delta_sidecar.errors import OptionError

if TYPE_CHECKING:
    from collections.abc import Generator

    from delta_sidecar.data.one_file import ReadableTable
    from delta_sidecar.data.projection import Columns
    from delta_sidecar.data.query import RowQuery
    from delta_sidecar.scan.files import DeltaFile


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
