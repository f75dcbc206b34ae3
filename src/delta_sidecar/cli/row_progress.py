"""What is told of a scan for rows while it runs, and at its end."""

from __future__ import annotations

from typing import TYPE_CHECKING

from delta_sidecar.cli.rendering import counted, human_size

if TYPE_CHECKING:
    from delta_sidecar.connect.duckdb_query import QueryRows
    from delta_sidecar.data.scan import RowMetrics
    from delta_sidecar.data.stream import RowStream


class RowsTold:
    """Rows that came out, and files that were found and opened for them.

    Args:
        limit: As many rows were asked for; None for all.
        is_filtered: Whether only rows that match were.
    """

    def __init__(self, limit: int | None, *, is_filtered: bool) -> None:
        self._limit = limit
        self._is_filtered = is_filtered
        self._rows: RowStream | None = None

    def of(self, rows: RowStream) -> RowStream:
        """Tells of these rows from now on; before, the table is being opened."""
        self._rows = rows
        return rows

    def found(self) -> str:
        """How many rows."""
        return "opening" if self._rows is None else counted(self._rows.metrics.rows, "row")

    def read(self) -> str:
        """Files, bytes and requests."""
        return "" if self._rows is None else rows_read([self._rows.metrics])

    def summary(self, seconds: float) -> str:
        """What a finished scan gave, and what it took."""
        if self._rows is None:
            return f"nothing was read in {seconds:.1f} s"
        metrics = self._rows.metrics
        found = self.found() if metrics.rows else "no rows"
        if metrics.discovery.version is not None:
            found += f" of version {metrics.discovery.version}"
        if metrics.rows == self._limit:
            found += " (limit reached)"
        elif self._is_filtered and not metrics.rows:
            found += " match"
        return f"{found}; read {self.read()} in {seconds:.1f} s"


class QueryTold:
    """Rows that came out of a query, and files that were found and opened for them.

    Args:
        rows: The rows.
    """

    def __init__(self, rows: QueryRows) -> None:
        self._rows = rows

    def found(self) -> str:
        """How many rows."""
        return counted(self._rows.rows, "row")

    def read(self) -> str:
        """Files, bytes and requests."""
        return rows_read(self._rows.scans)

    def summary(self, seconds: float) -> str:
        """What a finished query gave, and what it took."""
        found = self.found() if self._rows.rows else "no rows"
        return f"{found}; read {self.read()} in {seconds:.1f} s"


def rows_read(scans: list[RowMetrics]) -> str:
    """What scans have read: files, bytes and requests, those for the log included."""
    opened = sum(metrics.files_opened for metrics in scans)
    found = sum(metrics.files_found for metrics in scans)
    requests = [counts for metrics in scans for counts in (metrics.discovery.requests, metrics.requests)]
    asked = counted(sum(counts.requests for counts in requests), "request")
    size = human_size(sum(counts.bytes for counts in requests))
    return f"{opened:,} of {counted(found, 'file')} found, {size} by {asked}"
