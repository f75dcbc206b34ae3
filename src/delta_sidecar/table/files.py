"""Lists of a table's files, and its history.

`AddActions` are the live files in the columns of deltalake's `get_add_actions`:

    path, size_bytes, modification_time, num_records, null_count, min, max, partition

The last four are structs, or with `flatten` a column for each field: `null_count.x`, `min.x`, `max.x`, `partition.day`.
As in deltalake, paths are as the log has them, statistics are under physical names and partition values under logical
ones, and the table's properties decide which columns have statistics.
"""

from __future__ import annotations

import json
import math
from contextlib import closing, suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

import pyarrow as pa
from msgspec import Struct

from delta_sidecar.errors import CorruptCommitError, ObjectNotFoundError
from delta_sidecar.execute.lanes import in_threads
from delta_sidecar.log.identity import is_absolute
from delta_sidecar.log.names import commit_path
from delta_sidecar.log.partition_values import lookup
from delta_sidecar.log.stats import parse_statistics
from delta_sidecar.sidecar.schema import stats_columns
from delta_sidecar.table.filters import matching_partitions, typed_partition_values
from delta_sidecar.table.statistics import or_nulls

if TYPE_CHECKING:
    from collections.abc import Generator, Iterator, Mapping, Sequence

    from delta_sidecar.log.actions import Metadata, Protocol
    from delta_sidecar.log.schema import ColumnPath, TableSchema
    from delta_sidecar.predicate import Predicate
    from delta_sidecar.replay.snapshot import Snapshot
    from delta_sidecar.scan.files import DeltaFile
    from delta_sidecar.store import Store
    from delta_sidecar.table.pinned import TableHandle


_READ = ("raw_path", "size", "modification_time", "partition_values", "stats")
_FIRST = (
    pa.field("path", pa.string(), nullable=False),
    pa.field("size_bytes", pa.int64(), nullable=False),
    pa.field("modification_time", pa.int64(), nullable=False),
    pa.field("num_records", pa.int64()),
)


class AddActions:
    """The live files with typed statistics and partition values: a stream that can also be used as a table.

    Iterating, `read_next_batch` and every consumer of Arrow streams get batches as files are found. Every other
    attribute of a `pyarrow.Table`, such as `column`, `num_rows` or `to_pandas`, reads all files into memory, once.
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
        # A generator, since `list` calls `__len__` between `__iter__` and the first batch.
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


class _Actions(Struct, frozen=True):
    table: TableSchema
    zone: str  # the time zone of partition values that were written without one
    types: Mapping[ColumnPath, pa.DataType]  # of bounds, by physical path; the null type for none
    leaves: Mapping[ColumnPath, pa.DataType]  # by the names of the column and of the fields of its struct
    flatten: bool
    schema: pa.Schema

    @classmethod
    def of(cls, snapshot: Snapshot, zone: str, *, flatten: bool) -> _Actions:
        table = snapshot.columns
        known = stats_columns(
            table.physical, snapshot.metadata.configuration, table.physical_partition_columns, logical=table.logical
        )
        types = {path: pa.null() if kind is None else kind for path, kind in known.items()}
        leaves: dict[ColumnPath, pa.DataType] = {("null_count", *path): pa.int64() for path in known}
        for end in ("min", "max"):
            leaves |= {(end, *path): kind for path, kind in known.items() if kind is not None}
        leaves |= {("partition", name): table.logical.field(name).type for name in table.partition_columns}
        columns = [pa.field(".".join(path), kind) for path, kind in leaves.items()] if flatten else _struct_type(leaves)
        return cls(table, zone, types, leaves, flatten, pa.schema([*_FIRST, *columns]))

    def batch(self, found: pa.RecordBatch) -> pa.RecordBatch:
        stats, rows = parse_statistics(found.column("stats"), self.types), found.num_rows
        values = typed_partition_values(found.column("partition_values"), self.table, self.zone)
        arrays: dict[ColumnPath, pa.Array] = {}
        for (group, *path), kind in self.leaves.items():
            if group == "partition":
                arrays[group, *path] = values[path[0]]
            else:
                array = getattr(stats.columns[tuple(path)], _ATTRIBUTES[group])
                arrays[group, *path] = or_nulls(array, kind, rows)
        columns = [found.column("raw_path"), found.column("size"), found.column("modification_time")]
        columns.append(or_nulls(stats.num_records, pa.int64(), rows))
        if self.flatten:
            columns += arrays.values()
        else:
            # A file without statistics has no structs of them.
            missing = found.column("stats").is_null()
            for field in list(self.schema)[len(_FIRST) :]:
                mask = None if field.name == "partition" else missing
                columns.append(_struct_array(field.type, (field.name,), arrays, mask))
        return pa.RecordBatch.from_arrays(columns, schema=self.schema)


_ATTRIBUTES = {"null_count": "null_count", "min": "lower", "max": "upper"}


def _struct_type(leaves: Mapping[ColumnPath, pa.DataType]) -> pa.StructType:
    below: dict[str, dict[ColumnPath, pa.DataType]] = {}
    for (first, *rest), kind in leaves.items():
        below.setdefault(first, {})[tuple(rest)] = kind
    return pa.struct([(name, inner[()] if () in inner else _struct_type(inner)) for name, inner in below.items()])


def _struct_array(
    kind: pa.DataType, path: ColumnPath, leaves: Mapping[ColumnPath, pa.Array], missing: pa.BooleanArray | None
) -> pa.Array:
    if path in leaves:
        return leaves[path]
    inner = [_struct_array(field.type, (*path, field.name), leaves, missing) for field in kind]
    return pa.StructArray.from_arrays(inner, fields=list(kind), mask=missing)


# Addresses of files, and partitions.


def table_uri(address: str) -> str:
    """The URL, ending in `/`, of a local path or of an address with a scheme whose path is not encoded."""
    scheme, found, place = address.partition("://")
    plain = quote(place if found else address, safe="/@:!$&'()*+,;=~[]|")
    return f"{scheme if found else 'file'}://{plain.rstrip('/')}/"


def file_uris(handle: TableHandle, predicate: Predicate | None) -> list[str]:
    """Addresses of the files that a predicate selects: not encoded, local ones as plain paths."""
    root = handle.store.url.rstrip("/")
    paths = (path for batch in _chosen(handle, predicate, "path") for path in batch.column("path").to_pylist())
    return [path if is_absolute(path) else f"{root}/{path}" for path in paths]


def partitions(handle: TableHandle, predicate: Predicate | None) -> list[dict[str, str | None]]:
    """The distinct combinations of partition values among the files that a predicate selects."""
    names = handle.snapshot().partition_columns
    if not names:
        return []
    found: dict[tuple[str | None, ...], None] = {}
    for batch in _chosen(handle, predicate):
        texts = [lookup(batch.column("partition_values"), name).texts for name in names]
        places = [str(at) for at in range(len(names))]
        distinct = pa.table(texts, places).group_by(places, use_threads=False).aggregate([])
        found |= dict.fromkeys(zip(*(column.to_pylist() for column in distinct.columns), strict=True))
    return [dict(zip(names, values, strict=True)) for values in found]


def _chosen(handle: TableHandle, predicate: Predicate | None, *columns: str) -> Iterator[pa.RecordBatch]:
    snapshot = handle.snapshot()
    found = handle.scanner(predicate, snapshot=snapshot).scan_batches((*columns, "partition_values"))
    return matching_partitions(found, predicate, snapshot, handle.row_options.time_zone)


# The history of a table.


_BEGINNING = 64 << 10
_AT_ONCE = 10


def stream_history(store: Store, version: int, limit: int | None = None) -> Generator[dict[str, Any], None, None]:
    """Streams the `commitInfo` of commits, each with its `version`, from a version down to the oldest commit left.

    A commit without one is skipped.
    """
    most, left = 1, math.inf if limit is None else limit

    def ask(at: int) -> tuple[int, dict[str, Any] | None]:
        return at, _commit_info(store, at)

    def ahead() -> int:
        return int(min(most, left))

    commits = in_threads(ask, range(version, -1, -1), _AT_ONCE, "history", ahead=ahead, wait=False)
    # Older ones have been cleaned up.
    with closing(commits), suppress(ObjectNotFoundError):
        for at, info in commits:
            if info is not None:
                yield {**info, "version": at}
                left -= 1
            most = min(_AT_ONCE, most * 2)


def _commit_info(store: Store, version: int) -> dict[str, Any] | None:
    path = commit_path(version)
    first = store.get(path, max_bytes=_BEGINNING)
    data = bytes(first.data)
    if len(data) >= first.size:
        return _info_in(data, path, version)
    found = _info_in(data[: data.rfind(b"\n") + 1], path, version)
    if found is None:
        # Some writers put it last.
        end = bytes(store.get_range(path, max(0, first.size - _BEGINNING), first.size))
        found = _info_in(end[end.find(b"\n") + 1 :], path, version)
    return _info_in(bytes(store.get(path).data), path, version) if found is None else found


def _info_in(lines: bytes, path: str, version: int) -> dict[str, Any] | None:
    for line in lines.splitlines():
        if b'"commitInfo"' not in line:
            continue
        try:
            action = json.loads(line)
        except (ValueError, RecursionError) as error:
            msg = f"{path} cannot be read: {error}"
            raise CorruptCommitError(msg, version) from error
        if isinstance(action, dict) and isinstance(action.get("commitInfo"), dict):
            return dict(action["commitInfo"])
    return None


@dataclass(frozen=True, slots=True)
class TableSnapshot:
    """A table at one version, whose files can be streamed."""

    handle: TableHandle = field(repr=False)
    state: Snapshot

    @property
    def version(self) -> int:
        """The version."""
        return self.state.version

    @property
    def schema(self) -> pa.Schema:
        """The table's Arrow schema, under the names that users see."""
        return self.state.schema

    @property
    def partition_columns(self) -> tuple[str, ...]:
        """Names of the partition columns, in order."""
        return self.state.partition_columns

    @property
    def protocol(self) -> Protocol:
        """The protocol in force."""
        return self.state.protocol

    @property
    def metadata(self) -> Metadata:
        """The metadata in force."""
        return self.state.metadata

    def stream_active_files(
        self,
        predicate: str | Sequence[Any] | Mapping[str, Any] | Predicate | None = None,
        limit: int | None = None,
    ) -> Generator[DeltaFile, None, None]:
        """Streams the live files of this version, as they are found.

        Args:
            predicate: Only files that may hold a matching row; None for all.
            limit: At most so many, of the newest.
        """
        return self.handle.scanner(predicate, limit, snapshot=self.state).scan_files()
