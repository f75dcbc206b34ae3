"""The rows of a metadata sidecar: which of its pieces and columns are read, and which files are live and may match."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from decimal import Decimal
from typing import TYPE_CHECKING, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from delta_sidecar._arrow import bits_of, booleans, int64s, nullable_int64s, strings
from delta_sidecar.log.identity import canonical_paths, file_keys
from delta_sidecar.log.names import SIDECAR_FOLDER
from delta_sidecar.log.partition_values import read_partition_column
from delta_sidecar.log.stats import parse_statistics
from delta_sidecar.plan import Piece, PieceGroup
from delta_sidecar.predicate import Bounds, ColumnBounds, may_match
from delta_sidecar.replay.request import ReplayProgress
from delta_sidecar.sidecar.names import column_name
from delta_sidecar.sidecar.rows import (
    INDEX_FIELDS,
    STATISTICS_FIELDS,
    VECTOR_COLUMNS,
    other_fields,
    partition_columns,
    partition_values,
    row_keys,
    statistics_in,
)

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from numpy.typing import NDArray

    from delta_sidecar.log.schema import ColumnPath
    from delta_sidecar.replay.files import FileColumns
    from delta_sidecar.replay.pruning import Pruning
    from delta_sidecar.replay.seen.seen import SeenSet
    from delta_sidecar.sidecar.groups import JsonScalar, RowGroup, RowGroups, Segments
    from delta_sidecar.sidecar.layout import SidecarLayout
    from delta_sidecar.sidecar.manifest import Manifest
    from delta_sidecar.sidecar.order import NewestRows
    from delta_sidecar.sidecar.schema import SidecarSchema

    Summed: TypeAlias = RowGroups | Segments


def pieces_of(manifest: Manifest, group: RowGroup, columns: ReadColumns) -> PieceGroup:
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


# The rows of a metadata sidecar: what is read of them, and which are live and may match.


@dataclass(frozen=True, slots=True)
class ReadColumns:
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


def read_columns(
    schema: SidecarSchema, pruning: Pruning | None, columns: Collection[str], newest: NewestRows | None = None
) -> ReadColumns:
    """The columns of a metadata sidecar that a scan for some columns of files reads."""
    partitions = list(partition_columns(schema).values())
    index = ["path", *(name for name in INDEX_FIELDS if name in columns), *partitions, *VECTOR_COLUMNS, "untold"]
    statistics = [name for name in STATISTICS_FIELDS if name in columns]
    with_text = "stats" in columns
    paths = set() if pruning is None else set(pruning.statistics)
    if paths or with_text:
        index += ["num_records", "tight_bounds"]
    if schema.time is not None and (schema.time in paths or with_text):
        index += _statistics_columns(schema, schema.time)
    for path in paths - {schema.time}:
        # What is not kept as values is in the text of those files that have more than others.
        statistics += _statistics_columns(schema, path) if path in schema.statistics else ["stats_json"]
    index += () if newest is None else newest.columns
    return ReadColumns(tuple(dict.fromkeys(index)), None if with_text else tuple(dict.fromkeys(statistics)))


@dataclass(frozen=True, slots=True)
class SidecarRows:
    """Keeps the files of a metadata sidecar that may match and that a frozen seen-set does not hide.

    Attributes:
        seen: Keys that newer commits have.
        columns: Makes the batches that are emitted.
        pruning: Tests which files may match; None: all may.
        schema: The sidecar's columns.
        stats_format: The layout of its statistics as text.
        paths: The paths of the seen-set, where they are few: most files have none of them, and need no key.
        newest: The order in which files are emitted; None for the sidecar's own.
        most: No more files of a row group are emitted; None for all.
        progress: Counts what is met.
    """

    seen: SeenSet
    columns: FileColumns
    pruning: Pruning | None
    schema: SidecarSchema
    stats_format: str
    paths: pa.StringArray | None = field(default=None, repr=False)
    newest: NewestRows | None = None
    most: int | None = None
    progress: ReplayProgress = field(default_factory=ReplayProgress, compare=False)

    def __call__(self, batch: pa.RecordBatch) -> pa.RecordBatch | None:
        """Takes a row group; gives its live files that may match."""
        met = batch.num_rows
        if batch.column("path").null_count:
            msg = "it has a file without a path"
            raise pa.ArrowInvalid(msg)
        if self.pruning is not None:
            kinds = self.pruning.statistics
            known = statistics_in(batch, self.schema, kinds) if kinds else None
            keep = self.pruning.by_values(partition_values(batch, self.schema), met, known)
            batch = _chosen(batch, keep)
        pruned = met - batch.num_rows
        if batch.num_rows and len(self.seen):
            batch = _chosen(batch, self._live(row_keys(batch)))
        hidden = met - pruned - batch.num_rows
        self.progress.add(base_adds=met, base_pruned_early=pruned, base_hidden=hidden)
        if not batch.num_rows:
            return None
        # Everything else takes longer: it is done for those files only that are wanted.
        if self.newest is not None:
            batch = self.newest.first(batch, self.most)
        elif self.most is not None:
            batch = batch.slice(0, min(self.most, batch.num_rows))
        stats_format = self.stats_format if "stats" in self.columns.columns else None
        add = row_keys(batch) | other_fields(batch, self.schema, stats_format)
        return self.columns.batch(add, batch.num_rows)

    def _live(self, add: Mapping[str, pa.Array]) -> NDArray[np.bool_]:
        if self.paths is None:
            return ~self.seen.contains(file_keys(add))
        live = np.ones(len(add["path"]), dtype=np.bool_)
        rows = np.flatnonzero(bits_of(pc.is_in(canonical_paths(add["path"]), value_set=self.paths)))
        if len(rows):
            taken = int64s(rows)
            live[rows] = ~self.seen.contains(file_keys({name: column.take(taken) for name, column in add.items()}))
        return live


def _statistics_columns(schema: SidecarSchema, path: tuple[str, ...]) -> list[str]:
    name = column_name(path)
    bounds = [] if schema.statistics[path] is None else [f"min.{name}", f"max.{name}"]
    return [*bounds, f"null_count.{name}"]


def _chosen(batch: pa.RecordBatch, rows: NDArray[np.bool_]) -> pa.RecordBatch:
    return batch if rows.all() else batch.filter(booleans(rows))


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
        known = np.array(self.groups.odd_buckets, dtype=np.int64) == 0
        if known.all():
            lower, upper = self.groups.event_hour_min, self.groups.event_hour_max
        else:
            # With a text among them that is no value nobody can tell what its file holds.
            lower, upper = (
                [text if is_known else None for text, is_known in zip(texts, known.tolist(), strict=True)]
                for texts in (self.groups.event_hour_min, self.groups.event_hour_max)
            )
        counts = nullable_int64s(np.array(self.groups.null_buckets, dtype=np.int64), known)
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
