"""What a replay of a metadata sidecar reads: row groups out of its pieces, and what goes on after them."""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from decimal import Decimal
from typing import TYPE_CHECKING, Any, Generic, TypeAlias, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from delta_sidecar._arrow import bits_of, booleans, int64s, nullable_int64s, strings
from delta_sidecar.errors import SidecarError
from delta_sidecar.log.actions import ADD_FIELDS, DELETION_VECTOR
from delta_sidecar.log.identity import canonical_paths, file_keys, key_paths
from delta_sidecar.log.names import SIDECAR_FOLDER
from delta_sidecar.log.partition_values import read_partition_column
from delta_sidecar.log.stats import ColumnStatistics, FileStatistics, parse_statistics
from delta_sidecar.plan import (
    ConsumePhase,
    FileRef,
    Filter,
    Piece,
    PieceGroup,
    Plan,
    ReadRanges,
    ScanPieces,
    StateMachinePhase,
)
from delta_sidecar.predicate import Bounds, ColumnBounds, may_match
from delta_sidecar.replay.bases.checkpoint import is_torn
from delta_sidecar.replay.counts import Tally
from delta_sidecar.replay.failures import raise_unreachable
from delta_sidecar.sidecar.manifest import decode_segment
from delta_sidecar.sidecar.names import column_name
from delta_sidecar.sidecar.pieces import read_piece_footer
from delta_sidecar.sidecar.row_stats import column_statistics, row_vectors, stats_texts

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from numpy.typing import NDArray

    from delta_sidecar.log.schema import ColumnPath
    from delta_sidecar.plan.nodes import RowTest
    from delta_sidecar.replay.bases.base import Base, Reading, ReplayContinuation
    from delta_sidecar.replay.files import FileColumns
    from delta_sidecar.replay.pruning import Pruning
    from delta_sidecar.replay.seen.seen import SeenSet
    from delta_sidecar.sidecar.groups import JsonScalar, RowGroup, RowGroups, Segment, Segments
    from delta_sidecar.sidecar.layout import SidecarLayout
    from delta_sidecar.sidecar.manifest import Manifest
    from delta_sidecar.sidecar.order import NewestRows
    from delta_sidecar.sidecar.schema import SidecarSchema

    Summed: TypeAlias = RowGroups | Segments


T = TypeVar("T")

_FEW_KEYS = 10_000
_MOST_BYTES = 8 << 20
"""So much is asked for together, unless one row group is larger."""


@dataclass(frozen=True, slots=True)
class Course(Generic[T]):
    """What a replay reads, and what goes on after it.

    Attributes:
        base: The metadata sidecar.
        layout: What is where in it.
        reading: Which files are wanted.
        columns: Which columns it takes to tell.
        then: What goes on.
    """

    base: Base
    layout: SidecarLayout
    reading: Reading
    columns: WantedColumns
    then: ReplayContinuation[T] = field(repr=False)

    @classmethod
    def of(cls, base: Base, layout: SidecarLayout, reading: Reading, then: ReplayContinuation[T]) -> Course[T]:
        """Makes one for what is wanted."""
        newest = layout.newest_rows if reading.recent else None
        columns = wanted_columns(layout.schema, reading.pruning, reading.columns.without, newest)
        return cls(base, layout, reading, columns, then)

    @property
    def manifest(self) -> Manifest:
        """The sidecar's manifest."""
        return self.layout.manifest

    def matching(self, groups: RowGroups) -> list[RowGroup]:
        """Those row groups that may hold a file that matches."""
        return [groups[number] for number in matching(self.layout, groups, self.reading.pruning)]

    def matching_segments(self) -> list[Segment]:
        """Those segments that may hold a file that matches."""
        segments = self.manifest.segments
        return [segments[number] for number in matching(self.layout, segments, self.reading.pruning)]

    def plan(self, groups: Sequence[RowGroup], skipped: int, at_first: int) -> Plan:
        """Row groups as files."""
        reading = self.reading
        read = tuple(pieces_of(self.manifest, group, self.columns) for group in groups)
        largest = max((sum(piece.length for piece in group.pieces) for group in read), default=1)
        # Row groups with statistics of many columns are large.
        at_once = max(1, min(reading.at_once, _MOST_BYTES // largest))
        pieces = ScanPieces(
            read,
            self.columns.by_piece,
            self.layout.piece_schemas[: len(self.columns.by_piece)],
            at_once=at_once,
            at_first=max(1, min(at_first, at_once)),
            directory=read_piece_footer,
            skipped=skipped,
        )
        few = reading.seen.few(_FEW_KEYS) if len(reading.seen) else None
        rows = SidecarRows(
            reading.seen,
            reading.columns,
            reading.pruning,
            self.layout.schema,
            self.manifest.stats_format,
            None if few is None else key_paths(few),
            self.layout.newest_rows if reading.recent else None,
            # Of the files that are decided on nobody knows how many there are in a row group.
            None if reading.decided else reading.limit,
            reading.tally,
        )
        return reading.rest(Filter(pieces, rows))

    def path(self, group: RowGroup) -> str:
        """The file that a row group is in."""
        return SIDECAR_FOLDER + self.manifest.files[group.file].name

    def is_torn(self, error: Exception) -> bool:
        """Whether a file of the sidecar is absent, cut short or not what it should be.

        Raises:
            StorageError: It is out of reach, which is another matter.
        """
        if isinstance(error, SidecarError) or is_torn(error):
            return True
        raise_unreachable(self.reading.table, error)
        return False

    def broken(self, error: Exception, decided: RowTest) -> StateMachinePhase[T] | None:
        """Goes on with another base where a file is torn; the store being out of reach is another matter."""
        return self.then.broken(self.base, error, decided) if self.is_torn(error) else None


def pieces_of(manifest: Manifest, group: RowGroup, columns: WantedColumns) -> PieceGroup:
    """The pieces of a row group that are read."""
    path = SIDECAR_FOLDER + manifest.files[group.file].name
    index = Piece(path, group.byte_offset, group.byte_length, group.digest)
    if not columns.has_statistics:
        return PieceGroup(group.index, group.num_rows, (index,))
    statistics = Piece(
        path,
        group.stats_offset,
        group.stats_length,
        group.stats_digest,
        group.stats_footer_length,
        group.stats_footer_digest,
    )
    return PieceGroup(group.index, group.num_rows, (index, statistics))


def enough(groups: Sequence[RowGroup], files: int) -> int:
    """How many row groups hold as many files, if all of them are wanted."""
    held = 0
    for count, group in enumerate(groups, 1):
        held += group.num_rows
        if held >= files:
            return count
    return len(groups)


# Segments of a large manifest: a second level, of which only those are read that may hold a file that matches.


class SegmentContinuation(ABC, Generic[T]):
    """What goes on once a segment is read, or cannot be."""

    @abstractmethod
    def read(self, groups: RowGroups) -> StateMachinePhase[T]:
        """Goes on with its row groups."""

    @abstractmethod
    def broken(self, segment: Segment, error: Exception) -> StateMachinePhase[T] | None:
        """Goes on without it."""


@dataclass(frozen=True, slots=True)
class SegmentPhase(ConsumePhase[T]):
    """Reads one segment of a large manifest."""

    course: Course[T]
    segment: Segment = field(repr=False)
    then: SegmentContinuation[T]

    def plan(self) -> ReadRanges:
        """Its range."""
        file, start = self.course.manifest.segments_file, self.segment.byte_offset
        if file is None:
            msg = "a manifest with segments names their file"
            raise RuntimeError(msg)
        ref = FileRef(SIDECAR_FOLDER + file.name, file.size)
        return ReadRanges(ref, ((start, start + self.segment.byte_length),))

    def next(self, data: Iterator[pa.RecordBatch]) -> StateMachinePhase[T]:
        """Goes on with its row groups."""
        (content,) = (batch.column("data")[0].as_py() for batch in data)
        return self.then.read(decode_segment(content, self.segment, self.course.manifest))

    def recover(self, error: Exception) -> StateMachinePhase[T] | None:
        """What came before it stands; the next base goes on with the rest."""
        return self.then.broken(self.segment, error)


# The rows of a metadata sidecar: what is read of them, and which are live and may match.


VECTOR_COLUMNS = tuple(f"dv.{field.name}" for field in DELETION_VECTOR)
"""Columns that hold the descriptor of a deletion vector."""

# Fields of the `add` action by the column of a batch of files that is made of them.
_INDEXED = {field.column: field.name for field in ADD_FIELDS if field.piece == "index"}
_REST = {field.column: field.name for field in ADD_FIELDS if field.piece == "statistics"}


@dataclass(frozen=True, slots=True)
class WantedColumns:
    """What is read of a metadata sidecar.

    Attributes:
        index: Columns of the index.
        statistics: Columns of the statistics; None for all, empty where their pieces are not read at all.
    """

    index: tuple[str, ...]
    statistics: tuple[str, ...] | None

    @property
    def has_statistics(self) -> bool:
        """Whether something of the statistics is read."""
        return self.statistics is None or bool(self.statistics)

    @property
    def by_piece(self) -> tuple[tuple[str, ...] | None, ...]:
        """The columns of each piece that is read."""
        return (self.index, self.statistics) if self.has_statistics else (self.index,)


def wanted_columns(
    schema: SidecarSchema, pruning: Pruning | None, without: frozenset[str], newest: NewestRows | None = None
) -> WantedColumns:
    """What a scan reads of a metadata sidecar.

    Args:
        schema: Its columns.
        pruning: Which files are wanted; None for all.
        without: Columns of files that nobody wants.
        newest: The order that rows are wanted in; None for the sidecar's own.
    """
    partitions = list(partition_columns(schema).values())
    index = ["path", *(name for name in _INDEXED if name not in without), *partitions, *VECTOR_COLUMNS, "untold"]
    statistics = [name for name in _REST if name not in without]
    with_text = "stats" not in without
    paths = set() if pruning is None else set(pruning.statistics)
    if paths or with_text:
        index += ["num_records", "tight_bounds"]
    if schema.time is not None and (schema.time in paths or with_text):
        index += _statistics_columns(schema, schema.time)
    for path in paths - {schema.time}:
        # What is not kept as values is in the text of those files that have more than others.
        statistics += _statistics_columns(schema, path) if path in schema.statistics else ["stats_json"]
    index += () if newest is None else newest.columns
    return WantedColumns(tuple(dict.fromkeys(index)), None if with_text else tuple(dict.fromkeys(statistics)))


def partition_columns(schema: SidecarSchema) -> dict[str, str]:
    """Names of the columns that hold partition values, by physical name."""
    found = {} if schema.bucket is None or schema.bucket_column is None else {schema.bucket: schema.bucket_column}
    return found | {name: f"partition.{column_name((name,))}" for name in schema.partitions}


@dataclass(frozen=True, slots=True)
class SidecarRows:
    """Lets through the files of a metadata sidecar that may match and that a frozen seen-set does not hide.

    Attributes:
        seen: Keys that newer commits spoke of.
        columns: Makes the batches that are let through.
        pruning: Tells which files may match; None: all may.
        schema: The sidecar's columns.
        stats_format: The layout of its statistics as text.
        paths: The paths of the seen-set, where they are few: most files have none of them, and need no key.
        newest: The order that files are wanted in; None for the sidecar's own.
        most: No more files of a row group than these are wanted; None for all.
        tally: Counts what is met.
    """

    seen: SeenSet
    columns: FileColumns
    pruning: Pruning | None
    schema: SidecarSchema
    stats_format: str
    paths: pa.StringArray | None = field(default=None, repr=False)
    newest: NewestRows | None = None
    most: int | None = None
    tally: Tally = field(default_factory=Tally, compare=False)

    def __call__(self, batch: pa.RecordBatch) -> pa.RecordBatch | None:
        """Takes a row group; gives its live files that may match."""
        met = batch.num_rows
        if batch.column("path").null_count:
            msg = "it has a file without a path"
            raise pa.ArrowInvalid(msg)
        if self.pruning is not None:
            keep = self.pruning.by_values(self._partition_values(batch), met, self._statistics(batch, self.pruning))
            batch = _chosen(batch, keep)
        pruned = met - batch.num_rows
        if batch.num_rows and len(self.seen):
            batch = _chosen(batch, self._live(row_keys(batch)))
        hidden = met - pruned - batch.num_rows
        self.tally.add(base_adds=met, base_pruned_early=pruned, base_hidden=hidden)
        if not batch.num_rows:
            return None
        # Everything else takes longer: it is done for those files only that are wanted.
        if self.newest is not None:
            batch = self.newest.first(batch, self.most)
        elif self.most is not None:
            batch = batch.slice(0, min(self.most, batch.num_rows))
        return self.columns.batch(row_keys(batch) | self._rest(batch), batch.num_rows)

    def _live(self, add: Mapping[str, pa.Array]) -> NDArray[np.bool_]:
        if self.paths is None:
            return ~self.seen.contains(file_keys(add))
        live = np.ones(len(add["path"]), dtype=np.bool_)
        rows = np.flatnonzero(bits_of(pc.is_in(canonical_paths(add["path"]), value_set=self.paths)))
        if len(rows):
            taken = int64s(rows)
            live[rows] = ~self.seen.contains(file_keys({name: column.take(taken) for name, column in add.items()}))
        return live

    def _rest(self, batch: pa.RecordBatch) -> dict[str, pa.Array]:
        names = set(batch.schema.names)
        add = {name: batch.column(column) for column, name in (_INDEXED | _REST).items() if column in names}
        if "stats" not in self.columns.without:
            add["stats"] = stats_texts(batch, self.schema, self.stats_format)
        return add | self._partition_values(batch)

    def _partition_values(self, batch: pa.RecordBatch) -> dict[str, pa.Array]:
        """The partition values as a field of the `add` action: a struct, or a map where something is not told."""
        columns = {physical: batch.column(name) for physical, name in partition_columns(self.schema).items()}
        if not columns:
            return {}
        untold = batch.column("untold")
        if untold.null_count < len(untold):
            return {"partitionValues": _maps(columns, untold)}
        return {"partitionValues": pa.StructArray.from_arrays(list(columns.values()), names=list(columns))}

    def _statistics(self, batch: pa.RecordBatch, pruning: Pruning) -> FileStatistics | None:
        if not pruning.statistics:
            return None
        columns = dict(zip(batch.schema.names, batch.columns, strict=True))
        found: dict[tuple[str, ...], ColumnStatistics] = {}
        for path in pruning.statistics:
            if path in self.schema.statistics:
                found[path] = column_statistics(columns, path)
        others = {path: kind for path, kind in pruning.statistics.items() if path not in found}
        if others and "stats_json" in columns:
            found |= parse_statistics(columns["stats_json"], others).columns
        return FileStatistics(columns["num_records"], columns["tight_bounds"], found)


def row_keys(batch: pa.RecordBatch) -> dict[str, pa.Array]:
    """The fields of the `add` action that keys are made of."""
    add = {"path": batch.column("path")}
    if batch.column("dv.storageType").null_count < batch.num_rows:
        add["deletionVector"] = row_vectors(batch)
    return add


def _statistics_columns(schema: SidecarSchema, path: tuple[str, ...]) -> list[str]:
    name = column_name(path)
    bounds = [] if schema.statistics[path] is None else [f"min.{name}", f"max.{name}"]
    return [*bounds, f"null_count.{name}"]


def _chosen(batch: pa.RecordBatch, rows: NDArray[np.bool_]) -> pa.RecordBatch:
    return batch if rows.all() else batch.filter(booleans(rows))


def _maps(columns: Mapping[str, pa.StringArray], untold: pa.StringArray) -> pa.MapArray:
    """Partition values as maps, without those that the log does not tell."""
    values = {name: column.to_pylist() for name, column in columns.items()}
    keys: list[str] = []
    items: list[str | None] = []
    offsets = [0]
    for row, text in enumerate(untold.to_pylist()):
        missing = _names(text)
        told = [name for name in values if name not in missing]
        keys += told
        items += [values[name][row] for name in told]
        offsets.append(len(keys))
    ends = int64s(np.array(offsets, dtype=np.int64)).cast(pa.int32())
    return pa.MapArray.from_arrays(ends, strings(keys), strings(items))


def _names(text: str | None) -> frozenset[Any]:
    if text is None:
        return frozenset()
    try:
        return frozenset(json.loads(text))
    except (ValueError, TypeError, RecursionError) as error:
        msg = f"the names of partition values that are not told cannot be read: {error}"
        raise pa.ArrowInvalid(msg) from error


# Which row groups of a metadata sidecar may hold a file that matches, by what its manifest says of them.
#
# The bucket's range counts, the range of the column that rows are sorted by, and the summaries of other columns.
# Segments of a large manifest are tested in the same way: they say the same things of more rows.


def may_hold(layout: SidecarLayout, groups: Summed, pruning: Pruning | None) -> NDArray[np.bool_]:
    """Which row groups, or segments, may hold a file that matches."""
    if pruning is None or not groups:
        return np.ones(len(groups), dtype=np.bool_)
    return bits_of(may_match(pruning.predicate, _GroupBounds(layout, groups, pruning)))


def matching(layout: SidecarLayout, groups: Summed, pruning: Pruning | None) -> list[int]:
    """Numbers of the row groups, or segments, that may hold a file that matches."""
    found: list[int] = np.flatnonzero(may_hold(layout, groups, pruning)).tolist()
    return found


@dataclass(frozen=True, slots=True)
class _GroupBounds(Bounds):
    """The bounds of row groups."""

    layout: SidecarLayout
    groups: Summed
    pruning: Pruning

    @property
    def num_rows(self) -> int:
        return len(self.groups)

    def column(self, path: ColumnPath) -> ColumnBounds | None:
        # What was the lowest of a type is not the lowest of another one, which the column may have now.
        if path in self.pruning.partitions:
            kind = self.pruning.partitions[path]
            first = self.layout.order.sort[0] if self.layout.order.sort else None
            if first is None or first.path != path or first.type != kind:
                return None
            return self._buckets(kind) if first.kind == "bucket" else self._sorted_by(kind)
        kind = self.pruning.statistics.get(path)
        return None if kind is None or self.layout.order.summaries.get(path) != kind else self._summary(path, kind)

    def _buckets(self, kind: pa.DataType) -> ColumnBounds | None:
        told = np.array(self.groups.odd_buckets, dtype=np.int64) == 0
        if told.all():
            lower, upper = self.groups.event_hour_min, self.groups.event_hour_max
        else:
            # With a text among them that is no value nobody can tell what its file holds.
            lower, upper = (
                [text if is_told else None for text, is_told in zip(texts, told.tolist(), strict=True)]
                for texts in (self.groups.event_hour_min, self.groups.event_hour_max)
            )
        counts = nullable_int64s(np.array(self.groups.null_buckets, dtype=np.int64), told)
        return _between(lower, upper, kind, counts, self._rows())

    def _sorted_by(self, kind: pa.DataType) -> ColumnBounds | None:
        """The range of the first column of the order; nulls come first, so that a first value means there are none."""
        # A segment may hold the end of the incomplete rows and the start of the complete ones.
        keys = [(group.first_key, group.last_key) for group in self.groups]
        known = [first[0] == last[0] and first[1] is not None for first, last in keys]
        lower, upper = (
            [_text(key[1]) if is_known else None for key, is_known in zip(side, known, strict=True)]
            for side in ([first for first, _ in keys], [last for _, last in keys])
        )
        counts = nullable_int64s(np.zeros(len(known), dtype=np.int64), np.array(known, dtype=np.bool_))
        return _between(lower, upper, kind, counts, self._rows())

    def _summary(self, path: ColumnPath, kind: pa.DataType) -> ColumnBounds:
        texts = [_as_statistics(path, *bounds) for bounds in zip(*self.groups.bounds(column_name(path)), strict=True)]
        found = parse_statistics(strings(texts), {path: kind}).columns[path]
        # Upper bounds of texts may be cut off, each to another length: the highest of them says nothing.
        upper = None if pa.types.is_string(kind) else found.upper
        return ColumnBounds(lower=found.lower, upper=upper, null_count=None, num_records=self._rows())

    def _rows(self) -> pa.Int64Array:
        return int64s(np.array(self.groups.num_rows, dtype=np.int64))


def _between(
    lower: Sequence[str | None], upper: Sequence[str | None], kind: pa.DataType, nulls: pa.Array, rows: pa.Array
) -> ColumnBounds | None:
    low, high = (read_partition_column(strings(texts), kind) for texts in (lower, upper))
    if low is None or high is None:
        return None
    for column in (low, high):
        # A time without a zone may lie 16 hours either way.
        if column.zoneless is not None and bits_of(column.zoneless).any():
            return None
    return ColumnBounds(lower=low.values, upper=high.values, null_count=nulls, num_records=rows, whole=True)


def _as_statistics(path: ColumnPath, low: JsonScalar | None, high: JsonScalar | None) -> str | None:
    """A summary in the form of a file's statistics, which is how its values are written."""
    if low is None or high is None:
        return None
    before = "".join(f"{{{json.dumps(name)}:" for name in path)
    after = "}" * len(path)
    return f'{{"minValues":{before}{_json(low)}{after},"maxValues":{before}{_json(high)}{after}}}'


def _json(value: JsonScalar) -> str:
    return str(value) if isinstance(value, Decimal) else json.dumps(value)


def _text(value: JsonScalar | None) -> str | None:
    return None if value is None else str(value)
