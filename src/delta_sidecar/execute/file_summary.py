"""What the footer of a Parquet file tells of chosen columns."""

from __future__ import annotations

from typing import TYPE_CHECKING

from delta_sidecar.plan import FileSummary

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pyarrow.parquet as pq


def summary_of(path: str, metadata: pq.FileMetaData, columns: Sequence[str]) -> FileSummary:
    """Sums up a footer: the rows of the file, and in how many of them flat columns have a value."""
    names = {metadata.schema.column(index).path: index for index in range(metadata.num_columns)}
    groups = [group for number in range(metadata.num_row_groups) if (group := metadata.row_group(number)).num_rows]
    values = {name: _values(groups, names[name]) for name in columns if name in names}
    return FileSummary(path, metadata.num_rows, values)


def _values(groups: Sequence[pq.RowGroupMetaData], leaf: int) -> int | None:
    total = 0
    for group in groups:
        statistics = group.column(leaf).statistics
        if statistics is None or not statistics.has_null_count:
            return None
        total += group.num_rows - statistics.null_count
    return total
