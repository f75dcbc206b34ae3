"""What is told of a scan for files while it runs, and at its end."""

from __future__ import annotations

from typing import TYPE_CHECKING

from delta_sidecar.cli.rendering import counted, human_size

if TYPE_CHECKING:
    from delta_sidecar.scan.scanner import LazyDeltaScanner


class FilesTold:
    """Files that were found, and commits and row groups that were read for them."""

    def __init__(self) -> None:
        self._scanner: LazyDeltaScanner | None = None

    def of(self, scanner: LazyDeltaScanner) -> LazyDeltaScanner:
        """Tells of this scan from now on; before, the table is being opened."""
        self._scanner = scanner
        return scanner

    def found(self) -> str:
        """How many files."""
        return "opening" if self._scanner is None else counted(self._scanner.metrics.files_emitted, "file")

    def read(self) -> str:
        """Commits, row groups, bytes and requests."""
        if self._scanner is None:
            return ""
        metrics = self._scanner.metrics
        requests = metrics.requests
        parts = (
            counted(metrics.commits_read, "commit"),
            counted(metrics.row_groups_read, "row group"),
            f"{human_size(requests.bytes)} by {counted(requests.requests, 'request')}",
        )
        return ", ".join(parts)

    def summary(self, seconds: float) -> str:
        """What a finished scan found and read, and where the next one goes on."""
        if self._scanner is None:
            return f"nothing was read in {seconds:.1f} s"
        metrics = self._scanner.metrics
        found = self.found() if metrics.files_emitted else "no files"
        if metrics.version is not None:
            found += f" of version {metrics.version}"
        if not metrics.is_complete:
            found += " (limit reached)"
        elif not metrics.files_emitted and self._scanner.config.predicate is not None:
            found += " can hold a matching row"
        text = f"{found}; read {self.read()} in {seconds:.1f} s"
        token = self._scanner.page_token
        return text if token is None else f"{text}\nnext page: --page-token {token}"
