"""Progress on stderr, where that is a terminal: a line that is redrawn while a command works, and a summary at its end.

`Reporter` draws the line: the status of a scan, or the `progress_bar` of a build or an ingestion.
"""

from __future__ import annotations

import os
import sys
import time
from contextlib import contextmanager
from datetime import timedelta
from typing import TYPE_CHECKING, NamedTuple, Self

import click

from delta_sidecar.cli.text import counted, echo, folded, human_size, is_colourless, terminal_width

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from rich.console import RenderableType
    from rich.live import Live

    from delta_sidecar.build.builder import BuildProgress, ProgressListener
    from delta_sidecar.connect.duckdb import QueryRows
    from delta_sidecar.rows.scan import RowMetrics, RowStream
    from delta_sidecar.scan.scanner import LazyDeltaScanner
    from delta_sidecar.store import RequestCounts


# Quicker work shows nothing: a line that flashes by is only unrest.
_PATIENCE = 0.4


class Reporter:
    """A line on stderr that is redrawn while work goes on; nothing where stderr is no terminal.

    Args:
        line: Makes the line, from the seconds since the start. It is called in another thread.
    """

    def __init__(self, line: Callable[[float], RenderableType]) -> None:
        self._line = line
        self._live: Live | None = None

    def __enter__(self) -> Self:
        self._started = time.monotonic()
        if sys.stderr.isatty() and os.environ.get("TERM") != "dumb":
            from rich.console import Console
            from rich.live import Live

            self._live = Live(
                console=Console(stderr=True, color_system=None if is_colourless() else "auto"),
                get_renderable=lambda: self._line(self.seconds) if self.seconds > _PATIENCE else "",
                refresh_per_second=8,
                transient=True,
                redirect_stdout=False,
            )
            self._live.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._live is not None:
            self._live.stop()

    @property
    def seconds(self) -> float:
        """Seconds since the start."""
        return time.monotonic() - self._started

    @contextmanager
    def aside(self) -> Iterator[None]:
        """Takes the line away while data is written, where that goes to a terminal too."""
        if self._live is None or not sys.stdout.isatty():
            yield
            return
        self._live.stop()
        try:
            yield
        finally:
            self._live.start()


class ScanStatus(NamedTuple):
    """Results and cost of a scan."""

    found: str  # the results so far
    read: str  # what was read for them
    summary: str  # the results at the end


@contextmanager
def scan_progress(
    status: Callable[[], ScanStatus],
    *,
    summary: bool | None = None,
    page_token: Callable[[], str | None] = lambda: None,
) -> Iterator[Reporter]:
    """Shows how far a scan is, and at its end a summary: on a terminal, or by the flag `--summary`."""

    def line(seconds: float) -> RenderableType:
        from rich.text import Text

        found, read, _ = status()
        text = Text(found, style="bold", no_wrap=True, overflow="ellipsis")
        return text.append(f"  {read}  {seconds:.0f} s", style="not bold dim")

    with Reporter(line) as reporter:
        yield reporter
    if summary or (summary is None and sys.stderr.isatty()):
        _, read, found = status()
        lines = folded(f"{found}; read {read} in {reporter.seconds:.1f} s", terminal_width(err=True))
        if token := page_token():
            # A line to copy: it stays whole.
            lines.append(f"next page: --page-token {token}")
        echo((click.style(line, dim=True) for line in lines), err=True)


def files_status(scanner: LazyDeltaScanner | None) -> ScanStatus:
    """The files of a scan, and commits and row groups read for them; without a scanner the table is being opened."""
    if scanner is None:
        return ScanStatus("opening", "nothing", "no files")
    metrics = scanner.metrics
    commits, groups = counted(metrics.commits_read, "commit"), counted(metrics.row_groups_read, "row group")
    read = f"{commits}, {groups}, {_transferred([metrics.requests])}"
    none = "" if scanner.config.predicate is None else " can hold a matching row"
    return _status(metrics.files_emitted, "file", read, metrics.version, none, is_limited=not metrics.is_complete)


def rows_status(rows: RowStream | None, limit: int | None, *, is_filtered: bool) -> ScanStatus:
    """The rows of a scan, and files found and opened for them; without rows the table is being opened."""
    if rows is None:
        return ScanStatus("opening", "nothing", "no rows")
    metrics = rows.metrics
    none = " match" if is_filtered else ""
    is_limited = metrics.rows == limit
    return _status(metrics.rows, "row", _rows_read([metrics]), metrics.discovery.version, none, is_limited=is_limited)


def query_status(rows: QueryRows) -> ScanStatus:
    """The rows of a query, and files found and opened for them."""
    return _status(rows.rows, "row", _rows_read(rows.scans))


def _status(
    number: int, noun: str, read: str, version: int | None = None, if_none: str = "", *, is_limited: bool = False
) -> ScanStatus:
    summary = counted(number, noun) if number else f"no {noun}s"
    if version is not None:
        summary += f" of version {version}"
    if is_limited:
        summary += " (limit reached)"
    elif not number:
        summary += if_none
    return ScanStatus(counted(number, noun), read, summary)


def _rows_read(scans: list[RowMetrics]) -> str:
    """Files, bytes and requests of scans, those for the log included."""
    opened = sum(metrics.files_opened for metrics in scans)
    found = sum(metrics.files_found for metrics in scans)
    requests = [counts for metrics in scans for counts in (metrics.discovery.requests, metrics.requests)]
    return f"{opened:,} of {counted(found, 'file')} found, {_transferred(requests)}"


def _transferred(requests: list[RequestCounts]) -> str:
    size = human_size(sum(counts.bytes for counts in requests))
    return f"{size} by {counted(sum(counts.requests for counts in requests), 'request')}"


@contextmanager
def build_progress() -> Iterator[ProgressListener]:
    """Shows how far a build is by a bar; yields its listener."""
    from delta_sidecar.build.builder import BuildProgress

    now, since = BuildProgress("opening"), time.monotonic()

    def listen(progress: BuildProgress) -> None:
        nonlocal now, since
        if progress.stage != now.stage:
            since = time.monotonic()
        now = progress

    def line(_: float) -> RenderableType:
        # Of these stages nothing says how far they are: the bar only swings.
        total = None if now.stage in {"opening", "sorting", "publishing"} else now.total
        return progress_bar(f"{now.stage:<10}", _done(now), time.monotonic() - since, now.files, total)

    with Reporter(line):
        yield listen


def _done(progress: BuildProgress) -> str:
    if progress.stage == "opening":
        return ""
    if progress.stage == "checking":
        return f"{human_size(progress.files)} of {human_size(progress.total)}"
    if progress.stage in {"reading", "writing"} and progress.total is not None:
        return f"{progress.files:,} of {progress.total:,} files"
    return f"{progress.files:,} files"


def progress_bar(label: str, text: str, seconds: float, completed: int = 0, total: int | None = None) -> RenderableType:
    """A bar with a label before it, a text and a time behind it; without a total it swings."""
    from rich.progress_bar import ProgressBar
    from rich.table import Table
    from rich.text import Text

    grid = Table.grid(padding=(0, 1))
    for _ in range(4):
        grid.add_column(no_wrap=True)
    elapsed = Text(str(timedelta(seconds=int(seconds))), "progress.elapsed")
    grid.add_row(Text(label, "bold"), ProgressBar(total, completed, width=32), Text(text), elapsed)
    return grid
