"""Chosen rows of a row group, asked for strip by strip."""

from __future__ import annotations

import itertools
from contextlib import closing
from typing import TYPE_CHECKING
from unittest import mock

from delta_sidecar.execute.parquet import select as row_selection
from delta_sidecar.execute.parquet.select import ChosenRows

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy as np
    import pyarrow as pa
    from numpy.typing import NDArray

    from delta_sidecar.execute.parquet.file import ParquetRows


def chosen(
    rows: ParquetRows,
    group: int,
    columns: Sequence[str],
    mask: NDArray[np.bool_],
    *,
    cuts: Sequence[int] = (),
    sparse: float = 1.0,
) -> list[pa.RecordBatch]:
    """Reads the chosen rows.

    Args:
        rows: The file.
        group: The row group.
        columns: Dotted names.
        mask: Which rows.
        cuts: Where a new strip begins.
        sparse: Strips with at most this share of chosen rows are read by page.
    """
    found = []
    places = [0, *sorted(cut for cut in set(cuts) if 0 < cut < len(mask)), len(mask)]
    with mock.patch.object(row_selection, "_SPARSE", sparse), closing(ChosenRows(rows, group, columns)) as late:
        for start, end in itertools.pairwise(places):
            if mask[start:end].any():
                found += late.take(start, mask[start:end])
        late.finish()
    return found
