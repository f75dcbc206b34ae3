"""The rows of a row group that pass a test on a few columns, with the other columns decoded for them only."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from delta_sidecar._arrow import booleans

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pyarrow as pa

    from delta_sidecar.execute.parquet_file import ParquetRows
    from delta_sidecar.plan import ScanParquet

_FEW_ROWS = 16_384
_SPARSE = 0.1


def selected_batches(
    rows: ParquetRows, group: int, plan: ScanParquet, *, is_first: bool = False
) -> Iterator[pa.RecordBatch]:
    """Reads a row group's columns: for all rows, or for those that pass the plan's test.

    Args:
        rows: The file.
        group: The row group.
        plan: What is wanted.
        is_first: Whether somebody waits for the first row: a small row group is then fetched whole at once, for its
            bytes cost less than a second round trip.
    """
    substitutes = tuple(
        substitute.column
        for substitute in plan.substitutes
        if rows.has_fewer_values(group, substitute.missing, substitute.beside)
    )
    columns = [column for column in plan.columns + substitutes if rows.has_values(group, column)]
    if plan.test is None or not rows.leaves(plan.early):
        yield from rows.batches(group, columns)
        return
    wanted = [*plan.early, *columns]
    everything = rows.fetch(group, wanted) if is_first and rows.is_small(group, wanted) else None
    keep = np.concatenate([plan.test(batch) for batch in rows.batches(group, plan.early, everything)])
    if not keep.any():
        return
    if keep.sum() <= min(_FEW_ROWS, len(keep) * _SPARSE):
        yield rows.chosen(group, columns, keep, everything)
        return
    position = 0
    for batch in rows.batches(group, columns, everything):
        mask = keep[position : position + batch.num_rows]
        position += batch.num_rows
        if mask.all():
            yield batch
        elif mask.any():
            yield batch.filter(booleans(mask))
