"""Rows of a metadata sidecar, straight from `add` actions.

The text of statistics becomes native columns; where they do not say all of it, it is kept.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from delta_sidecar._arrow import booleans, scalar
from delta_sidecar.build.statistics import native_statistics
from delta_sidecar.replay.files import FileColumns, partition_texts, struct_fields
from delta_sidecar.sidecar.names import column_name

if TYPE_CHECKING:
    from collections.abc import Mapping

    import numpy as np
    from numpy.typing import NDArray

    from delta_sidecar.build.layout import PlannedLayout

MOST_CELLS = 2 << 20
"""Most values in one batch of rows: a wide table has few rows in it."""


class AddActions(FileColumns):
    """Lets the fields of `add` actions through as they are, for `RowMaker` to make rows of."""

    __slots__ = ()

    def batch(self, add: Mapping[str, pa.Array], rows: int) -> pa.RecordBatch:  # noqa: ARG002 - they tell it themselves
        """Makes a batch of the fields; arguments as for `FileColumns.batch`."""
        return pa.RecordBatch.from_arrays(list(add.values()), names=list(add))


@dataclass(frozen=True, slots=True)
class RowMaker:
    """Makes rows of a sidecar from `add` actions.

    Attributes:
        layout: The layout of the sidecar.
        instants: Physical paths of the timestamps that are moments in time, not readings of a clock.
        stats_format: The layout that texts of statistics are rebuilt in.
        guess: Whether texts of statistics are worth guessing at.
    """

    layout: PlannedLayout
    instants: frozenset[tuple[str, ...]]
    stats_format: str
    guess: bool = True

    @property
    def schema(self) -> pa.Schema:
        """All columns of a row: the index, the statistics, and what the order takes besides."""
        schema = self.layout.schema
        return pa.schema([*schema.index, *schema.statistics_schema, *key_fields(self.layout)])

    @property
    def most_rows(self) -> int:
        """How many rows may be made at once."""
        return max(1, MOST_CELLS // len(self.schema))

    def rows(self, actions: pa.RecordBatch) -> pa.RecordBatch:
        """Makes rows of a batch that `AddActions` made."""
        schema, order = self.layout.schema, self.layout.order
        columns, texts = self.without_statistics(actions)
        columns |= self.statistics(texts)
        fields = [*schema.index, *schema.statistics_schema]
        batch = pa.RecordBatch.from_arrays([columns[field.name] for field in fields], schema=pa.schema(fields))
        complete, *values, _, vectors = order.of_rows(batch, schema)
        return pa.RecordBatch.from_arrays([*batch.columns, complete, *values, vectors], schema=self.schema)

    def finished(self, group: pa.RecordBatch) -> pa.RecordBatch:
        """Rows of a row group, once they are sorted: they have all columns already."""
        return group

    def without_statistics(self, actions: pa.RecordBatch) -> tuple[dict[str, pa.Array], pa.StringArray]:
        """The columns of rows that are not from the statistics, and the statistics' texts."""
        rows = actions.num_rows
        add = dict(zip(actions.schema.names, actions.columns, strict=True))
        # Partition values are taken apart here, by their physical names.
        rest = {name: column for name, column in add.items() if not name.startswith("partitionValues")}
        files = FileColumns((), self.instants).batch(rest, rows)
        columns = {name: files.column(name) for name in _AS_THEY_ARE}
        columns["path"] = files.column("raw_path")
        for name, column in struct_fields(files.column("deletion_vector")).items():
            columns[f"dv.{name}"] = column
        columns |= self._partitions(add, rows)
        return columns, files.column("stats")

    def statistics(self, texts: pa.StringArray) -> dict[str, pa.Array]:
        """The columns of rows that are from the statistics."""
        kinds = self.layout.schema.statistics
        found, kept = native_statistics(texts, kinds, self.stats_format, guess=self.guess)
        columns = {"num_records": found.num_records, "tight_bounds": found.tight}
        for path, kind in kinds.items():
            name, column = column_name(path), found.columns[path]
            if kind is not None:
                columns[f"min.{name}"], columns[f"max.{name}"] = column.lower, column.upper
            columns[f"null_count.{name}"] = column.null_count
        columns["stats_json"] = kept
        return columns

    def _partitions(self, add: Mapping[str, pa.Array], rows: int) -> dict[str, pa.Array]:
        schema = self.layout.schema
        columns = {}
        untold: dict[str, NDArray[np.bool_]] = {}
        for physical in (*([] if schema.bucket is None else [schema.bucket]), *schema.partitions):
            found = partition_texts(add, physical, rows)
            bucket = schema.bucket_column if physical == schema.bucket else None
            columns[bucket or f"partition.{column_name((physical,))}"] = found.texts
            if not found.told.all():
                untold[physical] = ~found.told
        columns["untold"] = _untold(untold, rows)
        return columns


def key_fields(layout: PlannedLayout) -> list[pa.Field]:
    """Columns that rows have for the order alone."""
    values = [pa.field(f"#{number}", value.type) for number, value in enumerate(layout.order.sort)]
    return [pa.field("#complete", pa.int8()), *values, pa.field("#vector", pa.string())]


_AS_THEY_ARE = (
    "size",
    "modification_time",
    "tags",
    "base_row_id",
    "default_row_commit_version",
    "clustering_provider",
)


def _untold(untold: dict[str, NDArray[np.bool_]], rows: int) -> pa.StringArray:
    """Which partition values the log does not tell: a JSON list of physical names; null where it tells all."""
    string = pa.string()
    if not untold:
        return pa.nulls(rows, string)
    nothing = scalar("", string)
    names = [
        pc.if_else(booleans(mask), scalar(json.dumps(name, ensure_ascii=False) + ",", string), nothing)
        for name, mask in untold.items()
    ]
    listed = pc.utf8_rtrim(pc.binary_join_element_wise(*names, nothing), characters=",")
    text = pc.binary_join_element_wise(scalar("[", string), listed, scalar("]", string), nothing)
    return pc.if_else(pc.equal(listed, nothing), scalar(None, string), text)
