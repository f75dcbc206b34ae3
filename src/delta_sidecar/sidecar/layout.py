"""A trusted manifest beside the table's columns at its version: the columns of the sidecar and their order."""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import takewhile
from typing import TYPE_CHECKING

import pyarrow as pa

from delta_sidecar.errors import SidecarError
from delta_sidecar.log.stats_text import STATS_FORMATS
from delta_sidecar.predicate import tree
from delta_sidecar.sidecar.names import column_name
from delta_sidecar.sidecar.order import NewestRows, SidecarOrder, SortValue, partition_name
from delta_sidecar.sidecar.schema import (
    SidecarSchema,
    arrow_type,
    bounded_type,
    is_time_partition,
    sortable_type,
    stats_columns,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

    from delta_sidecar.log.schema import ColumnPath, TableSchema
    from delta_sidecar.sidecar.manifest import Manifest


@dataclass(frozen=True, slots=True)
class SidecarLayout:
    """The columns of a metadata sidecar and the order of its rows."""

    manifest: Manifest = field(repr=False)
    table: TableSchema = field(repr=False)  # the table's columns at its version
    schema: SidecarSchema
    order: SidecarOrder

    @property
    def piece_schemas(self) -> tuple[pa.Schema, pa.Schema]:
        """The columns of its index pieces, and of its statistics pieces."""
        return self.schema.index, self.schema.statistics_schema

    @property
    def newest_rows(self) -> NewestRows:
        """The order of the rows of a row group, the newest first."""
        if self.order.sort and self.order.sort[0].kind == "lower_bound":
            return NewestRows((), ())
        buckets = tuple(partition_name(value, self.schema) for value in self._times)
        upper = () if self.schema.time is None else (f"max.{column_name(self.schema.time)}",)
        return NewestRows(buckets, (*upper, "modification_time"))

    @property
    def newest_by(self) -> tuple[str, ...]:
        """The columns that put it in order of time, in words; empty where it is in no order of time."""
        logical = {physical: path for path, physical in self.table.physical_names.items()}

        def name(path: ColumnPath) -> str:
            return tree.written(logical.get(path, path))

        if self.order.sort and self.order.sort[0].kind == "lower_bound":
            return (f"lower bound of {name(self.order.sort[0].path)}",)
        found = tuple(name(value.path) for value in self._times)
        inside = "modification time" if self.schema.time is None else f"upper bound of {name(self.schema.time)}"
        # Row groups of one partition come one after the other: only in each of them are its files in order.
        return (*found, f"{inside} in each row group") if found else ()

    @property
    def _times(self) -> tuple[SortValue, ...]:
        """The first partition columns of the order, as long as they are times."""
        known = dict(zip(self.table.physical_partition_columns, self.table.partition_columns, strict=True))

        def is_time(value: SortValue) -> bool:
            is_partition = value.kind == "partition"
            return value.kind == "bucket" or (is_partition and is_time_partition(known[value.path[0]], value.type))

        return tuple(takewhile(is_time, self.order.sort))

    @classmethod
    def of(cls, manifest: Manifest, table: TableSchema) -> SidecarLayout:
        """Lays a manifest out.

        Raises:
            SidecarError: It is not about these columns.
        """
        partitions = table.physical_partition_columns
        if manifest.bucket_column is not None and manifest.bucket_column not in partitions:
            msg = f"its bucket column {manifest.bucket_column!r} is no partition column"
            raise SidecarError(msg)
        types = {path: bounded_type(_type_at(table.physical, path)) for path in manifest.statistics}
        summaries = {path: types.get(path) for path in manifest.summaries}
        others = tuple(name for name in partitions if name != manifest.bucket_column)
        try:
            schema = SidecarSchema(manifest.bucket_column, others, manifest.time_column, types)
            sort = tuple(SortValue(each.kind, each.column, arrow_type(each.type)) for each in manifest.sort)
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
        for each in sort:
            _check_sort(each, manifest, types if each.kind == "lower_bound" else by_partition)
        known = {path: kind for path, kind in summaries.items() if kind is not None}
        if len(known) < len(summaries):
            msg = "it sums up a column that has no bounds"
            raise SidecarError(msg)
        return cls(manifest, table, schema, SidecarOrder(sort, known))


def collected_columns(columns: TableSchema, properties: Mapping[str, str]) -> dict[ColumnPath, pa.DataType | None]:
    """The columns of a table that Delta collects statistics for, and their types as in `stats_columns`."""
    # The log has partition values under names that may differ in case from those of the schema.
    fields = dict(zip(columns.logical.names, columns.physical.names, strict=True))
    partitions = [fields[name] for name in columns.partition_columns]
    return stats_columns(columns.physical, properties, partitions, logical=columns.logical)


def _check_sort(value: SortValue, manifest: Manifest, kinds: Mapping[ColumnPath, pa.DataType | None]) -> None:
    is_bucket = value.path == (manifest.bucket_column,)
    if kinds.get(value.path) != value.type or (value.kind == "bucket" and not is_bucket):
        msg = f"its rows are sorted by {'.'.join(value.path)!r}, which the table does not have as a {value.kind}"
        raise SidecarError(msg)


def _type_at(schema: pa.Schema, path: ColumnPath) -> pa.DataType:
    fields: pa.Schema | pa.StructType = schema
    kind: pa.DataType | None = None
    for name in path:
        index = fields.get_field_index(name) if kind is None or pa.types.is_struct(kind) else -1
        if index < 0:
            msg = f"it has statistics of {'.'.join(path)!r}, and there is no such column"
            raise SidecarError(msg)
        kind = fields = fields.field(index).type
    return kind
