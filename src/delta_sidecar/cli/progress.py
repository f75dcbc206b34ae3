"""What a scan is doing, on stderr: a line that moves while it runs, and a summary at its end."""

from __future__ import annotations

import os
import sys
import time
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import TYPE_CHECKING, Protocol, Self

import click

from delta_sidecar.cli.ending import is_colourless
from delta_sidecar.cli.rendering import counted, human_size

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rich.live import Live
    from rich.text import Text

    from delta_sidecar.scan.metrics import ScanMetrics
    from delta_sidecar.scan.scanner import LazyDeltaScanner

# A scan that is quicker than this shows nothing: a line that flashes by is only unrest.
_PATIENCE = 0.4


class Progress(Protocol):
    """The line that moves."""

    def aside(self) -> AbstractContextManager[None]:
        """Takes the line away while data is written to the same terminal."""


@contextmanager
def progress_for(scanner: LazyDeltaScanner, *, summary: bool | None, beside_data: bool) -> Iterator[Progress]:
    """Shows what a scan does, if stderr is a terminal.

    Args:
        scanner: What to show.
        summary: Whether to end with a summary; None for where stderr is a terminal.
        beside_data: Whether the data goes to a terminal too.
    """
    started = time.monotonic()
    on_terminal = sys.stderr.isatty()
    if on_terminal and os.environ.get("TERM") != "dumb":
        with _MovingLine(scanner, started, beside_data=beside_data) as line:
            yield line
    else:
        yield _NoLine()
    if summary or (summary is None and on_terminal):
        text = _summary(scanner, time.monotonic() - started)
        if scanner.page_token is not None:
            text += f"\nnext page: --page-token {scanner.page_token}"
        click.echo(click.style(text, dim=True), err=True, color=False if is_colourless() else None)


def _summary(scanner: LazyDeltaScanner, seconds: float) -> str:
    """What a finished scan found and read."""
    metrics = scanner.metrics
    found = counted(metrics.files_emitted, "file") if metrics.files_emitted else "no files"
    if metrics.version is not None:
        found += f" of version {metrics.version}"
    if not metrics.is_complete:
        found += " (limit reached)"
    elif not metrics.files_emitted and scanner.config.predicate is not None:
        found += " can hold a matching row"
    return f"{found}; read {_reads(metrics)} in {seconds:.1f} s"


def _reads(metrics: ScanMetrics) -> str:
    requests = metrics.requests
    parts = (
        counted(metrics.commits_read, "commit"),
        counted(metrics.row_groups_read, "row group"),
        f"{human_size(requests.bytes)} by {counted(requests.requests, 'request')}",
    )
    return ", ".join(parts)


class _NoLine:
    def aside(self) -> AbstractContextManager[None]:
        return nullcontext()


class _MovingLine:
    def __init__(self, scanner: LazyDeltaScanner, started: float, *, beside_data: bool) -> None:
        self._scanner = scanner
        self._started = started
        self._beside_data = beside_data
        self._live: Live | None = None

    def __enter__(self) -> Self:
        from rich.console import Console
        from rich.live import Live

        self._live = Live(
            console=Console(stderr=True),
            get_renderable=self._line,
            refresh_per_second=8,
            transient=True,
            redirect_stdout=False,
        )
        self._live.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._live is not None:
            self._live.stop()

    @contextmanager
    def aside(self) -> Iterator[None]:
        """Takes the line away while data is written to the same terminal."""
        if self._live is None or not self._beside_data:
            yield
            return
        self._live.stop()
        try:
            yield
        finally:
            self._live.start()

    def _line(self) -> Text:
        from rich.text import Text

        seconds = time.monotonic() - self._started
        if seconds < _PATIENCE:
            return Text("")
        metrics = self._scanner.metrics
        found = Text(counted(metrics.files_emitted, "file"), style="bold", no_wrap=True, overflow="ellipsis")
        return found.append(f"  {_reads(metrics)}  {seconds:.0f} s", style="not bold dim")
