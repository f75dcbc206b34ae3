"""The rows of a metadata sidecar: what is read of them, and which are live and may match."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from delta_sidecar._arrow import bits_of, booleans, int64s, strings
from delta_sidecar.log.keys import file_keys
from delta_sidecar.log.paths import canonical_paths
from delta_sidecar.log.stats import ColumnStatistics, FileStatistics, parse_statistics
from delta_sidecar.replay.sidecar_stats import column_statistics, row_vectors, stats_texts
from delta_sidecar.replay.tally import Tally
from delta_sidecar.sidecar.names import column_name

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from delta_sidecar.replay.files import FileColumns
    from delta_sidecar.replay.pruning import Pruning
    from delta_sidecar.replay.seen import SeenSet
    from delta_sidecar.replay.sidecar_order import NewestRows
    from delta_sidecar.sidecar.schema import SidecarSchema

VECTOR_COLUMNS = ("dv.storageType", "dv.pathOrInlineDv", "dv.offset", "dv.sizeInBytes", "dv.cardinality")
"""Columns that hold the descriptor of a deletion vector."""

# Fields of the `add` action by the column of a batch of files that is made of them.
_INDEXED = {"size": "size", "modification_time": "modificationTime"}
_REST = {
    "tags": "tags",
    "base_row_id": "baseRowId",
    "default_row_commit_version": "defaultRowCommitVersion",
    "clustering_provider": "clusteringProvider",
}


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
