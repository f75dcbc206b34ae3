"""Statistics in the rows of a metadata sidecar: as values, and as the text that the log has."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from delta_sidecar._arrow import booleans, scalar, valid_mask
from delta_sidecar.log.actions import DELETION_VECTOR
from delta_sidecar.log.stats import ColumnStatistics, FileStatistics
from delta_sidecar.log.stats_text import statistics_text
from delta_sidecar.sidecar.names import column_name

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from delta_sidecar.log.schema import ColumnPath
    from delta_sidecar.sidecar.schema import SidecarSchema


def stats_texts(rows: pa.RecordBatch, schema: SidecarSchema, stats_format: str) -> pa.StringArray:
    """The statistics of each file as the log has them; null where it has none.

    It is the text that was kept, where one was; null, where no statistic is there; else it is rebuilt.

    Args:
        rows: Rows with all columns of a sidecar that hold statistics.
        schema: Its columns.
        stats_format: The layout that its texts are rebuilt in.
    """
    kept = rows.column("stats_json")
    rebuilt = rebuilt_texts(row_statistics(rows, schema), rows.num_rows, stats_format)
    return rebuilt if kept.null_count == len(kept) else pc.coalesce(kept, rebuilt)


def rebuilt_texts(stats: FileStatistics, rows: int, stats_format: str) -> pa.StringArray:
    """Statistics as text, null where there is no statistic at all."""
    known = _known(stats, rows)
    if not known.any():
        return pa.nulls(rows, pa.string())
    text = statistics_text(stats, rows, stats_format)
    return text if known.all() else pc.if_else(booleans(known), text, scalar(None, pa.string()))


def row_statistics(rows: pa.RecordBatch, schema: SidecarSchema) -> FileStatistics:
    """The statistics in rows with all columns of a sidecar that hold statistics."""
    columns = dict(zip(rows.schema.names, rows.columns, strict=True))
    found = {path: column_statistics(columns, path) for path in schema.statistics}
    return FileStatistics(columns["num_records"], columns["tight_bounds"], found)


def column_statistics(columns: Mapping[str, pa.Array], path: ColumnPath) -> ColumnStatistics:
    """The statistics of one column: a column of a type without bounds has a count of nulls only."""
    name = column_name(path)
    return ColumnStatistics(columns.get(f"min.{name}"), columns.get(f"max.{name}"), columns[f"null_count.{name}"])


def row_vectors(rows: pa.RecordBatch) -> pa.StructArray:
    """The deletion vectors of rows; null without one."""
    children = [rows.column(f"dv.{field.name}") for field in DELETION_VECTOR]
    return pa.StructArray.from_arrays(children, fields=list(DELETION_VECTOR), mask=children[0].is_null())


def bound_column(rows: pa.RecordBatch, side: str, path: ColumnPath) -> pa.Array:
    """The lower (`min`) or upper (`max`) bounds of a column."""
    return rows.column(f"{side}.{column_name(path)}")


def _known(stats: FileStatistics, rows: int) -> NDArray[np.bool_]:
    """Which files have any statistic at all."""
    known = np.zeros(rows, dtype=np.bool_)
    for column in _all_columns(stats):
        if known.all():
            break
        if column is not None and column.null_count < rows:
            known |= valid_mask(column)
    return known


def _all_columns(stats: FileStatistics) -> list[pa.Array | None]:
    columns = [stats.num_records, stats.tight]
    for column in stats.columns.values():
        columns += [column.null_count, column.lower, column.upper]
    return columns
