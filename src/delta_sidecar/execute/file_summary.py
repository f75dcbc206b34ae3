"""What the footer of a Parquet file tells of chosen columns."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from delta_sidecar._arrow import int64s, nullable_int64s, strings
from delta_sidecar.plan import FileSummary

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pyarrow.parquet as pq

_FACTS = ("path", "group", "rows", "column", "values", "lower", "upper")


def summary_of(path: str, metadata: pq.FileMetaData, columns: Sequence[str]) -> FileSummary:
    """Sums up a footer: the rows of the file, and in how many of them flat columns have a value."""
    names = _leaves(metadata)
    groups = [group for number in range(metadata.num_row_groups) if (group := metadata.row_group(number)).num_rows]
    values = {name: _values(groups, names[name]) for name in columns if name in names}
    return FileSummary(path, metadata.num_rows, values)


def footer_facts(path: str, metadata: pq.FileMetaData, columns: Sequence[str]) -> pa.RecordBatch:
    """What a footer tells, as `ReadFooters` gives it: a row for the file, then one for each row group and column."""
    names = _leaves(metadata)
    rows: list[_Fact] = [(metadata.num_row_groups, metadata.num_rows, None, None, None, None)]
    for number in range(metadata.num_row_groups):
        group = metadata.row_group(number)
        for name in columns:
            if name in names:
                told = _values([group], names[name])
                rows.append((number, group.num_rows, name, told, *_bounds(group, names[name])))
    groups, counts, labels, values, lower, upper = zip(*rows, strict=True)
    known = np.array([value is not None for value in values], dtype=np.bool_)
    arrays = [
        strings([path] * len(rows)),
        int64s(np.array(groups, dtype=np.int64)),
        int64s(np.array(counts, dtype=np.int64)),
        strings(labels),
        nullable_int64s(np.array([value or 0 for value in values], dtype=np.int64), known),
        strings(lower),
        strings(upper),
    ]
    return pa.RecordBatch.from_arrays(arrays, names=list(_FACTS))


_Fact = tuple[int, int, str | None, int | None, str | None, str | None]


def _leaves(metadata: pq.FileMetaData) -> dict[str, int]:
    return {metadata.schema.column(index).path: index for index in range(metadata.num_columns)}


def _values(groups: Sequence[pq.RowGroupMetaData], leaf: int) -> int | None:
    total = 0
    for group in groups:
        if not group.num_rows:
            continue
        statistics = group.column(leaf).statistics
        if statistics is None or not statistics.has_null_count:
            return None
        # In a list or a map a row may have several values.
        total += group.column(leaf).num_values - statistics.null_count
    return total


def _bounds(group: pq.RowGroupMetaData, leaf: int) -> tuple[str | None, str | None]:
    statistics = group.column(leaf).statistics if group.num_rows else None
    if statistics is None or not statistics.has_min_max:
        return None, None
    try:
        return _text(statistics.min), _text(statistics.max)
    except (ValueError, pa.ArrowException):
        # A text may be cut in the middle of a letter.
        return None, None


def _text(value: object) -> str | None:
    is_plain = isinstance(value, int | str) and not isinstance(value, bool)
    return str(value) if is_plain else None
