"""The live files with their typed statistics and partition values, in the columns of deltalake's `get_add_actions`.

    path, size_bytes, modification_time, num_records, null_count, min, max, partition

The last four are structs, or with `flatten` a column for each field: `null_count.x`, `min.x`, `max.x`, `partition.day`.
As in deltalake, paths are as the log has them, statistics are under physical names and partition values under logical
ones, and which columns have statistics follows from the table's properties.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from delta_sidecar.log.stats import parse_statistics
from delta_sidecar.sidecar.schema import stats_columns
from delta_sidecar.table.partition_values import typed_partition_values

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from delta_sidecar.log.schema import ColumnPath, TableSchema
    from delta_sidecar.log.stats import FileStatistics
    from delta_sidecar.replay.snapshot import Snapshot
    from delta_sidecar.table.handle import TableHandle

_READ = ("raw_path", "size", "modification_time", "partition_values", "stats")
_FIRST = (
    pa.field("path", pa.string(), nullable=False),
    pa.field("size_bytes", pa.int64(), nullable=False),
    pa.field("modification_time", pa.int64(), nullable=False),
    pa.field("num_records", pa.int64()),
)


class AddActions:
    """The live files with what the log says of them: a stream, and a table for those who ask for its columns.

    Iterating, `read_next_batch` and every consumer of Arrow streams get batches as files are found. What else a
    `pyarrow.Table` has, such as `column`, `num_rows` or `to_pandas`, reads all files into memory, once.

    Args:
        handle: The table.
        flatten: Whether each statistic is a column of its own, not a field of a struct.
    """

    def __init__(self, handle: TableHandle, *, flatten: bool) -> None:
        self._handle = handle
        self._snapshot = handle.snapshot()
        self._actions = _Actions.of(self._snapshot, handle.row_options.time_zone, flatten=flatten)
        self._unread: pa.RecordBatchReader | None = self._scan()
        self._current: pa.RecordBatchReader | None = None
        self._table: pa.Table | None = None

    @property
    def schema(self) -> pa.Schema:
        """The columns."""
        return self._actions.schema

    def to_reader(self) -> pa.RecordBatchReader:
        """A stream of all batches, from the first on.

        Raises:
            LogCorruptionError: While it is read: a partition value is none of its column's type.
        """
        reader, self._unread = self._unread, None
        if reader is not None:
            return reader
        return self._scan() if self._table is None else self._table.to_reader()

    def read_next_batch(self) -> pa.RecordBatch:
        """The next batch.

        Raises:
            StopIteration: There is none left.
        """
        self._current = self._current or self.to_reader()
        return self._current.read_next_batch()

    def read_all(self) -> pa.Table:
        """All batches as a table, in memory."""
        if self._table is None:
            self._table = self.to_reader().read_all()
        return self._table

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        # Nothing is taken before the first batch is asked for: `list` asks for the length in between.
        yield from self.to_reader()

    def __arrow_c_schema__(self) -> object:
        return self.schema.__arrow_c_schema__()

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        return self.to_reader().__arrow_c_stream__(requested_schema)

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401 - of the table
        if name.startswith("_") or not hasattr(pa.Table, name):
            msg = f"{type(self).__name__!r} has no attribute {name!r}"
            raise AttributeError(msg, name=name, obj=self)
        return getattr(self.read_all(), name)

    def __getitem__(self, column: str | int) -> pa.ChunkedArray:
        return self.read_all()[column]

    def __len__(self) -> int:
        return len(self.read_all())

    def _scan(self) -> pa.RecordBatchReader:
        found = self._handle.scanner(snapshot=self._snapshot).scan_batches(_READ)
        return pa.RecordBatchReader.from_batches(self.schema, map(self._actions.batch, found))


@dataclass(frozen=True, slots=True)
class _Actions:
    """Makes batches of what the log says of files.

    Attributes:
        table: The table's columns.
        zone: The time zone of partition values that were written without one.
        types: Type of the bounds of each column with statistics, by its physical path; the null type for no bounds.
        groups: What the struct columns hold: types by path.
        flatten: Whether their fields are columns.
    """

    table: TableSchema
    zone: str
    types: Mapping[ColumnPath, pa.DataType]
    groups: Mapping[str, Mapping[ColumnPath, pa.DataType]]
    flatten: bool

    @classmethod
    def of(cls, snapshot: Snapshot, zone: str, *, flatten: bool) -> _Actions:
        """What is to be told of the files of a table."""
        table = snapshot.columns
        known = stats_columns(
            table.physical, snapshot.metadata.configuration, table.physical_partition_columns, logical=table.logical
        )
        bounds = {path: kind for path, kind in known.items() if kind is not None}
        groups = {
            "null_count": dict.fromkeys(known, pa.int64()),
            "min": bounds,
            "max": bounds,
            "partition": {(name,): table.logical.field(name).type for name in table.partition_columns},
        }
        types = {path: pa.null() if kind is None else kind for path, kind in known.items()}
        return cls(table, zone, types, {name: kinds for name, kinds in groups.items() if kinds}, flatten)

    @property
    def schema(self) -> pa.Schema:
        """What comes out."""
        fields = [*_FIRST]
        for name, kinds in self.groups.items():
            fields += [pa.field(column, kind) for column, kind in self._columns(name, kinds, _struct_type)]
        return pa.schema(fields)

    def batch(self, found: pa.RecordBatch) -> pa.RecordBatch:
        """What comes out of a batch of files."""
        stats = parse_statistics(found.column("stats"), self.types)
        arrays = [found.column("raw_path"), found.column("size"), found.column("modification_time")]
        arrays.append(_or_nulls(stats.num_records, pa.int64(), found.num_rows))
        for name, kinds in self.groups.items():
            known = self._partitions(found) if name == "partition" else _statistics(stats, name, kinds, found.num_rows)
            # A file without statistics has no structs of them.
            missing = None if name == "partition" else found.column("stats").is_null()
            arrays += [array for _, array in self._columns(name, known, partial(_struct_array, missing))]
        return pa.RecordBatch.from_arrays(arrays, schema=self.schema)

    def _partitions(self, found: pa.RecordBatch) -> dict[ColumnPath, pa.Array]:
        values = typed_partition_values(found.column("partition_values"), self.table, self.zone)
        return {(name,): array for name, array in values.items()}

    def _columns(
        self, name: str, leaves: Mapping[ColumnPath, Any], struct: Callable[[dict[str, Any]], Any]
    ) -> list[tuple[str, Any]]:
        if self.flatten:
            return [(".".join((name, *path)), leaf) for path, leaf in leaves.items()]
        return [(name, _joined(leaves, struct))]


def _statistics(
    stats: FileStatistics, name: str, kinds: Mapping[ColumnPath, pa.DataType], rows: int
) -> dict[ColumnPath, pa.Array]:
    attribute = {"null_count": "null_count", "min": "lower", "max": "upper"}[name]
    return {path: _or_nulls(getattr(stats.columns[path], attribute), kind, rows) for path, kind in kinds.items()}


def _or_nulls(array: pa.Array | None, kind: pa.DataType, rows: int) -> pa.Array:
    return pa.nulls(rows, kind) if array is None else array


def _joined(leaves: Mapping[ColumnPath, Any], struct: Callable[[dict[str, Any]], Any]) -> Any:  # noqa: ANN401 - a type or an array
    """Joins the leaves below each name, in their order, by a function that makes one of several."""
    below: dict[str, dict[ColumnPath, Any]] = {}
    for (first, *rest), leaf in leaves.items():
        below.setdefault(first, {})[tuple(rest)] = leaf
    return struct({name: inner[()] if () in inner else _joined(inner, struct) for name, inner in below.items()})


def _struct_type(kinds: dict[str, pa.DataType]) -> pa.DataType:
    return pa.struct([pa.field(name, kind) for name, kind in kinds.items()])


def _struct_array(missing: pa.BooleanArray | None, arrays: dict[str, pa.Array]) -> pa.Array:
    return pa.StructArray.from_arrays(list(arrays.values()), names=list(arrays), mask=missing)
