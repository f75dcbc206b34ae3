"""How many rows a table has: from a summary of its log where that tells, else file by file."""

from __future__ import annotations

from typing import TYPE_CHECKING

from delta_sidecar.data import counting
from delta_sidecar.data.query import RowQuery

if TYPE_CHECKING:
    from delta_sidecar.table.handle import TableHandle


def count_rows(handle: TableHandle) -> int:
    """Counts the rows that are there, without the deleted ones.

    A manifest of a metadata sidecar, or a short log, may tell the number by itself. Else the statistics of the files
    do, as they are found; of a file that has none, the footer is read.

    Args:
        handle: The table.

    Raises:
        UnreadableFileError: A file without statistics cannot be read.
    """
    return counting.count_rows(handle, RowQuery())
