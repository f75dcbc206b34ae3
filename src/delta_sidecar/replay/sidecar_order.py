"""The order of a metadata sidecar's rows, as typed values that can be sorted and compared.

    complete (no, yes), sort values (nulls first), path, id of the deletion vector

A file is complete if it has both bounds of every summary column. Where a file comes from does not matter as long as it
has the same statistics there; partition values and paths are told alike by every base.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from delta_sidecar._arrow import valid_mask
from delta_sidecar.log.partition_values import lookup
from delta_sidecar.log.stats import parse_statistics
from delta_sidecar.replay.sidecar_stats import bound_column, row_vectors
from delta_sidecar.replay.sort_values import typed, vector_ids, without_nan
from delta_sidecar.sidecar.names import column_name

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from delta_sidecar.log.schema import ColumnPath
    from delta_sidecar.sidecar.manifest import SortKind
    from delta_sidecar.sidecar.schema import SidecarSchema


@dataclass(frozen=True, slots=True)
class SortValue:
    """One thing that rows are sorted by.

    Attributes:
        kind: Where its values are: `bucket` and `partition` are partition values, `lower_bound` is in the statistics.
        path: The column, in physical names.
        type: The column's type.
    """

    kind: SortKind
    path: ColumnPath
    type: pa.DataType


@dataclass(frozen=True, slots=True)
class SidecarOrder:
    """The order of a sidecar's rows.

    Attributes:
        sort: What they are sorted by, before path and deletion vector.
        summaries: Type of each summary column, by physical path.
    """

    sort: tuple[SortValue, ...]
    summaries: Mapping[ColumnPath, pa.DataType]

    def of_rows(self, rows: pa.RecordBatch, schema: SidecarSchema) -> list[pa.Array]:
        """The values of rows of a sidecar, a column for each place in a key."""
        values = [
            without_nan(bound_column(rows, "min", value.path))
            if value.kind == "lower_bound"
            else typed(partition_column(rows, value, schema), value.type)
            for value in self.sort
        ]
        complete = np.ones(rows.num_rows, dtype=np.bool_)
        for path in self.summaries:
            for side in ("min", "max"):
                complete &= valid_mask(without_nan(bound_column(rows, side, path)))
        return [_flags(complete), *values, rows.column("path"), vector_ids(row_vectors(rows))]

    def of_files(self, files: pa.RecordBatch, logical: Mapping[str, str]) -> list[pa.Array]:
        """The values of files in the columns of `FILE_SCHEMA`.

        Args:
            files: The files; their statistics must be there.
            logical: Logical names of the partition columns, by physical name.
        """
        wanted = {value.path: value.type for value in self.sort if value.kind == "lower_bound"} | dict(self.summaries)
        found = parse_statistics(files.column("stats"), wanted).columns if wanted else {}
        rows = files.num_rows

        def bound(path: ColumnPath, side: str) -> pa.Array:
            column = getattr(found[path], side)
            return pa.nulls(rows, wanted[path]) if column is None else without_nan(column)

        values = [
            bound(value.path, "lower")
            if value.kind == "lower_bound"
            else typed(lookup(files.column("partition_values"), logical[value.path[0]]).texts, value.type)
            for value in self.sort
        ]
        complete = np.ones(rows, dtype=np.bool_)
        for path in self.summaries:
            complete &= valid_mask(bound(path, "lower")) & valid_mask(bound(path, "upper"))
        return [_flags(complete), *values, files.column("raw_path"), vector_ids(files.column("deletion_vector"))]


def partition_column(rows: pa.RecordBatch, value: SortValue, schema: SidecarSchema) -> pa.StringArray:
    """The raw partition values of rows that a sort value is made of."""
    return rows.column(schema.bucket_column if value.kind == "bucket" else f"partition.{column_name(value.path)}")


def _flags(mask: NDArray[np.bool_]) -> pa.Int8Array:
    return pa.Array.from_buffers(pa.int8(), len(mask), [None, pa.py_buffer(mask.astype(np.int8))])
