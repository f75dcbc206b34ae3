"""What a scan for rows has done so far, in numbers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from delta_sidecar.scan.metrics import ScanMetrics
    from delta_sidecar.store import RequestCounts


@dataclass(frozen=True, slots=True)
class RowMetrics:
    """What a scan for rows has done so far.

    Attributes:
        discovery: What finding the files has done.
        requests: What was asked of the store for the files themselves: data and deletion vectors.
        files_found: Files that may hold a matching row, found so far.
        files_opened: Data files of which something was asked.
        files_read: Data files that were read to their end.
        row_groups_read: Row groups that were decoded.
        row_groups_skipped: Row groups of opened files that cannot hold a matching row.
        rows_decoded: Rows that came out of files.
        rows_deleted: Of these, rows that a deletion vector took away.
        rows: Rows that were given out.
        batches: Batches that were given out.
        is_complete: Whether the end was reached: all rows, or as many as were asked for.
    """

    discovery: ScanMetrics
    requests: RequestCounts
    files_found: int
    files_opened: int
    files_read: int
    row_groups_read: int
    row_groups_skipped: int
    rows_decoded: int
    rows_deleted: int
    rows: int
    batches: int
    is_complete: bool
