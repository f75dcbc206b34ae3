"""A trusted manifest beside the table's columns at its version: columns, order, and what is read for a predicate.

The layout of one that is built comes last.
"""

from __future__ import annotations

import json
from decimal import Decimal
from functools import partial
from itertools import takewhile
from typing import TYPE_CHECKING, TypeAlias, TypeVar

import numpy as np
import pyarrow as pa
from msgspec import Struct

from delta_sidecar._arrow import from_numpy, strings, to_numpy
from delta_sidecar.errors import OptionError, SidecarError
from delta_sidecar.log.actions import Metadata, Protocol
from delta_sidecar.log.partition_values import read_partition_column
from delta_sidecar.log.schema import read_schema
from delta_sidecar.log.stats import parse_statistics
from delta_sidecar.log.stats_text import STATS_FORMATS
from delta_sidecar.predicate import ColumnBounds, KnownBounds, may_match, tree
from delta_sidecar.sidecar.manifest import SortColumn
from delta_sidecar.sidecar.order import NewestRows, SidecarOrder
from delta_sidecar.sidecar.rows import INDEX_FIELDS, STATISTICS_FIELDS, VECTOR_COLUMNS
from delta_sidecar.sidecar.schema import (
    SidecarSchema,
    bounded_type,
    column_name,
    default_time_column,
    is_time_partition,
    sortable_type,
    stats_columns,
    type_name,
)

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from delta_sidecar.log.schema import ColumnPath, TableSchema
    from delta_sidecar.predicate import BoundPredicate
    from delta_sidecar.sidecar.groups import JsonScalar, Run
    from delta_sidecar.sidecar.manifest import Manifest, SortKind


class SidecarLayout(Struct, frozen=True):
    """The columns of a metadata sidecar and the order of its rows."""

    manifest: Manifest
    protocol: Protocol  # that in force at its version
    metadata: Metadata  # likewise
    table: TableSchema  # the table's columns by these two
    schema: SidecarSchema
    order: SidecarOrder

    @property
    def newest_rows(self) -> NewestRows:
        """The order of the rows of a row group, the newest first."""
        if self.order.sort and self.order.sort[0].kind == "lower_bound":
            return NewestRows((), ())
        buckets = tuple(self.schema.partition_columns[value.column[0]] for value in self._times)
        upper = () if self.schema.time is None else (f"max.{column_name(self.schema.time)}",)
        return NewestRows(buckets, (*upper, "modification_time"))

    @property
    def newest_by(self) -> tuple[str, ...]:
        """The columns that put it in order of time, in words; empty where it is in no order of time."""
        logical = {physical: path for path, physical in self.table.physical_names.items()}

        def name(path: ColumnPath) -> str:
            return tree.written(logical.get(path, path))

        if self.order.sort and self.order.sort[0].kind == "lower_bound":
            return (f"lower bound of {name(self.order.sort[0].column)}",)
        found = tuple(name(value.column) for value in self._times)
        inside = "modification time" if self.schema.time is None else f"upper bound of {name(self.schema.time)}"
        # Row groups of one partition come one after the other: only in each of them are its files in order.
        return (*found, f"{inside} in each row group") if found else ()

    @property
    def _times(self) -> tuple[SortColumn, ...]:
        """The first partition columns of the order, as long as they are times."""
        known = dict(zip(self.table.physical_partition_columns, self.table.partition_columns, strict=True))

        def is_time(value: SortColumn) -> bool:
            is_partition = value.kind == "partition"
            return value.kind == "bucket" or (
                is_partition and is_time_partition(known[value.column[0]], value.arrow_type)
            )

        return tuple(takewhile(is_time, self.order.sort))

    @classmethod
    def of(cls, manifest: Manifest, name: str) -> SidecarLayout:
        """Lays a manifest out; `name` is that of its file, for messages.

        Raises:
            SidecarError: It is not about the columns of the table that it holds.
            DeltaSidecarError: Protocol or metadata in it cannot be read.
        """
        protocol = Protocol.from_action(manifest.protocol, name)
        metadata = Metadata.from_action(manifest.metadata, name)
        table = read_schema(metadata, protocol, name)
        partitions = table.physical_partition_columns
        if manifest.bucket_column is not None and manifest.bucket_column not in partitions:
            msg = f"its bucket column {manifest.bucket_column!r} is no partition column"
            raise SidecarError(msg)
        if unknown := [path for path in manifest.statistics if path not in table.types]:
            msg = f"it has statistics of a column that the table does not have: {tree.written(unknown[0])}"
            raise SidecarError(msg)
        types = {path: bounded_type(table.types[path]) for path in manifest.statistics}
        summaries = {path: types.get(path) for path in manifest.summaries}
        others = tuple(name for name in partitions if name != manifest.bucket_column)
        try:
            schema = SidecarSchema(manifest.bucket_column, others, manifest.time_column, types)
        except ValueError as error:
            raise SidecarError(str(error)) from error
        if schema.schema_hash != manifest.schema_hash or manifest.stats_format not in STATS_FORMATS:
            msg = "its columns are not those that its schema_hash speaks of"
            raise SidecarError(msg)
        # The log has partition values under names that may differ in case from those of the schema.
        by_partition: dict[ColumnPath, pa.DataType | None] = {
            (physical,): sortable_type(table.logical.field(name).type)
            for physical, name in zip(partitions, table.partition_columns, strict=True)
        }
        for each in manifest.sort:
            _check_sort(each, manifest, types if each.kind == "lower_bound" else by_partition)
        known = {path: kind for path, kind in summaries.items() if kind is not None}
        if len(known) < len(summaries):
            msg = "it sums up a column that has no bounds"
            raise SidecarError(msg)
        return cls(manifest, protocol, metadata, table, schema, SidecarOrder(manifest.sort, known))


def collected_columns(columns: TableSchema, properties: Mapping[str, str]) -> dict[ColumnPath, pa.DataType | None]:
    """The columns of a table that Delta collects statistics for, and their types as in `stats_columns`."""
    # The log has partition values under names that may differ in case from those of the schema.
    fields = dict(zip(columns.logical.names, columns.physical.names, strict=True))
    partitions = [fields[name] for name in columns.partition_columns]
    return stats_columns(columns.physical, properties, partitions, logical=columns.logical)


def _check_sort(value: SortColumn, manifest: Manifest, kinds: Mapping[ColumnPath, pa.DataType | None]) -> None:
    is_bucket = value.column == (manifest.bucket_column,)
    if kinds.get(value.column) != value.arrow_type or (value.kind == "bucket" and not is_bucket):
        msg = f"its rows are sorted by {'.'.join(value.column)!r}, which the table does not have as a {value.kind}"
        raise SidecarError(msg)


# What is read of it: the row groups that may hold a file that matches, and the columns of those.
#
# A manifest tells of row groups the range of the bucket, that of the column that rows are sorted by, and the summaries
# of other columns. Segments are tested in the same way: they say the same things of more rows.


PieceColumns: TypeAlias = tuple[tuple[str, ...] | None, ...]
"""The columns that are read of the index piece of a row group, and, where it is read, of the statistics piece: None for
all of them."""


def read_columns(
    schema: SidecarSchema, asked: BoundPredicate | None, columns: Collection[str], newest: NewestRows | None = None
) -> PieceColumns:
    """The columns of a metadata sidecar that are read, for columns of files and for what a predicate names."""
    paths = () if asked is None else asked.statistics
    partitions = schema.partition_columns.values()
    index = ["path", *(name for name in INDEX_FIELDS if name in columns), *partitions, *VECTOR_COLUMNS, "untold"]
    statistics = [name for name in STATISTICS_FIELDS if name in columns]
    with_text = "stats" in columns
    if paths or with_text:
        index += ["num_records", "tight_bounds"]
    if schema.time is not None and (schema.time in paths or with_text):
        index += schema.statistics_columns(schema.time)
    for path in {*paths} - {schema.time}:
        # What is not kept as values is in the text of those files that have more than others.
        statistics += schema.statistics_columns(path) if path in schema.statistics else ["stats_json"]
    index += () if newest is None else newest.columns
    chosen = (tuple(dict.fromkeys(index)), None if with_text else tuple(dict.fromkeys(statistics)))
    return chosen if chosen[1] != () else chosen[:1]


R = TypeVar("R", bound="Run")


def matching(layout: SidecarLayout, groups: Sequence[R], asked: BoundPredicate | None) -> Sequence[R]:
    """The row groups, or segments, that may hold a file that matches."""
    if asked is None or not groups:
        return groups
    known = _partition_bounds(layout, groups, asked.partitions)
    for path, kind in asked.statistics.items():
        # What was the lowest of a type is not the lowest of another one, which the column may have now.
        if layout.order.summaries.get(path) == kind:
            known[path] = _summary(groups, path, kind)
    kept = np.flatnonzero(to_numpy(may_match(asked.predicate, KnownBounds(len(groups), known))))
    return tuple(map(groups.__getitem__, kept.tolist()))


def _partition_bounds(
    layout: SidecarLayout, groups: Sequence[Run], partitions: Mapping[ColumnPath, pa.DataType]
) -> dict[ColumnPath, ColumnBounds | None]:
    """The bounds of the partition column that rows are sorted by first; those of other ones are not known."""
    first = layout.order.sort[0] if layout.order.sort else None
    if first is None or partitions.get(first.column) != first.arrow_type:
        return {}
    rows = from_numpy(np.array([group.num_rows for group in groups], dtype=np.int64))
    # Nulls come first, so that a first value means there are none. With a text among the buckets that is no value
    # nobody can tell what its file holds; and a segment may hold the end of the incomplete rows and the start of the
    # complete ones.
    if first.kind == "bucket":
        known = np.array([group.odd_buckets == 0 for group in groups], dtype=np.bool_)
        lower, upper = [group.event_hour_min for group in groups], [group.event_hour_max for group in groups]
        nulls = np.array([group.null_buckets for group in groups], dtype=np.int64)
    else:
        keys = [(group.first_key, group.last_key) for group in groups]
        known = np.array([low[0] == high[0] and low[1] is not None for low, high in keys], dtype=np.bool_)
        lower, upper = ([None if key[1] is None else str(key[1]) for key in side] for side in zip(*keys, strict=True))
        nulls = np.zeros(len(groups), dtype=np.int64)
    bounds = []
    for texts in (lower, upper):
        chosen = strings(text if is_known else None for text, is_known in zip(texts, known.tolist(), strict=True))
        column = read_partition_column(chosen, first.arrow_type)
        # A time without a zone may lie 16 hours either way.
        if column is None or (column.zoneless is not None and to_numpy(column.zoneless).any()):
            return {}
        bounds.append(column.values)
    low, high = bounds
    return {first.column: ColumnBounds(low, high, from_numpy(nulls, known), rows, whole=True)}


def _summary(groups: Sequence[Run], path: ColumnPath, kind: pa.DataType) -> ColumnBounds:
    """The bounds of a summary column, read in the form of a file's statistics, which is how its values are written."""
    name, before, after = column_name(path), "".join(f"{{{json.dumps(part)}:" for part in path), "}" * len(path)
    texts = [
        None
        if bounds is None
        else f'{{"minValues":{before}{_json(bounds.min)}{after},"maxValues":{before}{_json(bounds.max)}{after}}}'
        for bounds in (group.columns.get(name) for group in groups)
    ]
    found = parse_statistics(strings(texts), {path: kind}).columns[path]
    # Upper bounds of texts may be cut off, each to another length: the highest of them says nothing.
    upper = None if pa.types.is_string(kind) else found.upper
    rows = from_numpy(np.array([group.num_rows for group in groups], dtype=np.int64))
    return ColumnBounds(lower=found.lower, upper=upper, null_count=None, num_records=rows)


def _json(value: JsonScalar) -> str:
    return str(value) if isinstance(value, Decimal) else json.dumps(value)


# The layout of a sidecar that is built: its columns, its order, the summary columns of its row groups.


class PlannedLayout(Struct, frozen=True):
    """The layout of a sidecar."""

    schema: SidecarSchema
    order: SidecarOrder
    sorted_by: str  # the order in words


def lay_out(
    columns: TableSchema,
    properties: Mapping[str, str],
    *,
    bucket: str,
    sort: str | None = None,
    summaries: Sequence[str] = (),
) -> PlannedLayout:
    """Lays out the sidecar of a table, by logical names of columns as in `build_sidecar`.

    It depends on the table's schema and properties and on the options of the build, never on the files.

    Raises:
        OptionError: A name is no column of the table, or of one that has no bounds.
    """
    partitions = {name: columns.physical_names[(name,)][0] for name in columns.partition_columns}
    statistics = collected_columns(columns, properties)
    found = partial(_bounded, columns=columns, statistics=statistics)
    time = default_time_column(columns.physical, statistics) if sort is None else found(sort, "sort")
    summarized = [*([] if time is None else [time]), *(found(name, "summaries") for name in summaries)]
    buckets = [name for name in partitions if name.casefold() == bucket.casefold()][:1]
    others = tuple(physical for name, physical in partitions.items() if name not in buckets)
    schema = SidecarSchema(partitions[buckets[0]] if buckets else None, others, time, statistics)
    values, words = [], "path"
    if partitions:
        kind: SortKind = "bucket" if buckets else "partition"
        for name in buckets or partitions:
            named = type_name(sortable_type(columns.logical.field(name).type))
            values.append(SortColumn(kind, (partitions[name],), named))
        words = f"time bucket {buckets[0]}" if buckets else f"partition values {', '.join(partitions)}"
    elif time is not None:
        shown = next(path for path, physical in columns.physical_names.items() if physical == time)
        values = [SortColumn("lower_bound", time, type_name(statistics[time]))]
        words = f"lower bound of {tree.written(shown)}"
    return PlannedLayout(schema, SidecarOrder(tuple(values), {path: statistics[path] for path in summarized}), words)


_SHOWN = 8


def _bounded(name: str, option: str, columns: TableSchema, statistics: Mapping[ColumnPath, object]) -> ColumnPath:
    """The physical path of a column that has bounds, by the name that a user gives."""
    known = columns.physical_names
    bounded = [tree.written(path) for path, physical in known.items() if statistics.get(physical) is not None]
    more = f" and {len(bounded) - _SHOWN} more" if len(bounded) > _SHOWN else ""
    hint = f"columns with bounds: {', '.join(bounded[:_SHOWN])}{more}" if bounded else "no column has"
    path = _logical_path(name, known)
    if path is None:
        msg = f"{option}: the table has no column {name!r}; {hint}"
    elif path[0] in columns.partition_columns:
        msg = f"{option}: {name!r} is a partition column, which has no statistics; name another column"
    elif statistics.get(known[path]) is None:
        msg = f"{option}: {name!r} has no bounds in the statistics; {hint}"
    else:
        return known[path]
    raise OptionError(msg)


def _logical_path(name: str, known: Collection[ColumnPath]) -> ColumnPath | None:
    for path in (tree.read(name), (name,)):
        if path in known:
            return path
        folded = tuple(part.casefold() for part in path)
        found = [each for each in known if tuple(part.casefold() for part in each) == folded]
        if len(found) == 1:
            return found[0]
    return None
