"""What a command is doing, on stderr: a line that moves while it runs, and a summary at its end."""

from __future__ import annotations

import os
import sys
import time
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, BinaryIO, Protocol, Self

import click

from delta_sidecar.cli.output import counted, folded, human_size, terminal_width
from delta_sidecar.cli.process import is_colourless

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    import pyarrow as pa
    from rich.live import Live
    from rich.progress import Progress, TaskID
    from rich.text import Text

    from delta_sidecar.build import BuildProgress
    from delta_sidecar.build.summary import ProgressListener
    from delta_sidecar.cli.output import Rendering
    from delta_sidecar.connect.duckdb_query import QueryRows
    from delta_sidecar.events import Event
    from delta_sidecar.rows.scan import RowMetrics
    from delta_sidecar.rows.stream import RowStream
    from delta_sidecar.scan.scanner import LazyDeltaScanner


# What is quicker than this shows nothing: a line that flashes by is only unrest.
_PATIENCE = 0.4


class Told(Protocol):
    """What is to be told of the work, asked from another thread while it goes on."""

    def found(self) -> str:
        """What has come out so far."""

    def read(self) -> str:
        """What was read for it."""

    def summary(self, seconds: float) -> str:
        """All of it, at the end."""


class ProgressLine(Protocol):
    """The line that moves."""

    def aside(self) -> AbstractContextManager[None]:
        """Takes the line away while data is written to the same terminal."""


@contextmanager
def progress_of(told: Told, *, summary: bool | None, beside_data: bool) -> Iterator[ProgressLine]:
    """Shows what is being done, if stderr is a terminal.

    Args:
        told: What to show.
        summary: Whether to end with a summary; None for where stderr is a terminal.
        beside_data: Whether the data goes to a terminal too.
    """
    started = time.monotonic()
    on_terminal = sys.stderr.isatty()
    if on_terminal and os.environ.get("TERM") != "dumb":
        with _MovingLine(told, started, beside_data=beside_data) as line:
            yield line
    else:
        yield _NoLine()
    if summary or (summary is None and on_terminal):
        first, *others = told.summary(time.monotonic() - started).split("\n")
        # What follows is to be copied: it stays in one line.
        for text in (*folded(first, terminal_width(err=True)), *others):
            click.echo(click.style(text, dim=True), err=True, color=False if is_colourless() else None)


class _NoLine:
    def aside(self) -> AbstractContextManager[None]:
        return nullcontext()


class _MovingLine:
    def __init__(self, told: Told, started: float, *, beside_data: bool) -> None:
        self._told = told
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
        first, rest = ("", "") if is_colourless() else ("bold", "not bold dim")
        found = Text(self._told.found(), style=first, no_wrap=True, overflow="ellipsis")
        return found.append(f"  {self._told.read()}  {seconds:.0f} s", style=rest)


# Batches to stdout, one by one, as they come.


class Batches(Protocol):
    """Batches of one schema."""

    @property
    def schema(self) -> pa.Schema:
        """What each of them has."""

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        """Gives them."""


def write_batches(batches: Batches, rendering: Rendering, stdout: BinaryIO, progress: ProgressLine) -> None:
    """Writes all batches; where that breaks off, what is written is marked as not whole."""
    try:
        _write(rendering.start(batches.schema), stdout, progress)
        for batch in batches:
            _write(rendering.batch(batch), stdout, progress)
        _write(rendering.end(), stdout, progress)
    except BaseException:
        _break_off(stdout, rendering.broken_off())
        raise


def refuse_binary_on_terminal(output: str, stdout: BinaryIO, ctx: click.Context) -> None:
    """Keeps Arrow's bytes from a terminal.

    Raises:
        click.UsageError: They would go there.
    """
    if output == "arrow" and stdout.isatty():
        msg = (
            f"Arrow output is binary: redirect it to a file or a program, as in --output arrow > {ctx.info_name}.arrow"
        )
        raise click.UsageError(msg, ctx)


def _write(chunk: bytes | memoryview, stdout: BinaryIO, progress: ProgressLine) -> None:
    if chunk:
        with progress.aside():
            stdout.write(chunk)
            stdout.flush()


def _break_off(stdout: BinaryIO, mark: bytes) -> None:
    """Marks the output as not whole, without waiting for a reader that may not read any more."""
    if not mark:
        return
    with suppress(OSError):
        os.set_blocking(stdout.fileno(), False)
        try:
            stdout.write(mark)
            stdout.flush()
        finally:
            os.set_blocking(stdout.fileno(), True)


# What is told of a scan for files while it runs, and at its end.


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


# What is told of a scan for rows while it runs, and at its end.


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


# How far a build is, on stderr: a bar that moves while it runs, gone at its end.


# A build that is quicker than this shows nothing: a bar that flashes by is only unrest.


@contextmanager
def build_progress() -> Iterator[ProgressListener | None]:
    """Shows how far a build is, if stderr is a terminal.

    Yields:
        What is to be told; None where nothing is shown.
    """
    if not sys.stderr.isatty() or os.environ.get("TERM") == "dumb":
        yield None
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

    bar = Progress(
        TextColumn("{task.description:<10}", style="bold"),
        BarColumn(bar_width=32),
        TextColumn("{task.fields[done]}"),
        TimeElapsedColumn(),
        console=Console(stderr=True),
        transient=True,
        redirect_stdout=False,
        redirect_stderr=False,
        refresh_per_second=8,
    )
    with bar:
        yield _Bar(bar, bar.add_task("opening", total=None, done="", visible=False))


class _Bar:
    """Tells a bar what a build tells, from whatever thread."""

    def __init__(self, bar: Progress, task: TaskID) -> None:
        self._bar = bar
        self._task = task
        self._stage = "opening"
        self._started = time.monotonic()

    def __call__(self, progress: BuildProgress) -> None:
        if progress.stage != self._stage:
            self._stage = progress.stage
            self._bar.reset(self._task, start=True, description=progress.stage, total=None, done="", visible=False)
        # Where something goes on of which nobody can tell how far it is, the bar only swings.
        total = None if progress.stage in {"opening", "sorting", "publishing"} else progress.total
        self._bar.update(
            self._task,
            completed=progress.files,
            total=total,
            done=_done(progress),
            visible=time.monotonic() - self._started > _PATIENCE,
        )


def _done(progress: BuildProgress) -> str:
    if progress.stage == "opening":
        return ""
    if progress.stage == "checking":
        return f"{human_size(progress.files)} of {human_size(progress.total)}"
    files = f"{progress.files:,}"
    is_part = progress.stage in {"reading", "writing"} and progress.total is not None
    return f"{files} of {progress.total:,} files" if is_part else f"{files} files"


# How far an ingestion is, on stderr: what is being done, for how long, and what has been written so far.


@dataclass(slots=True)
class Tally:
    """What has been written so far, by the events of a pipeline.

    Attributes:
        batches: Batches with rows.
        skipped: Batches that were written before.
        rows: Rows.
        null_bucket_rows: Rows among them without a time bucket.
        files: Data files.
        bytes: Their size.
        version: The newest version; None before the first.
        sidecar_version: The newest version that got a metadata sidecar; None for none.
        sidecar_failures: How often one could not be made.
        changed: Is called after each change.
    """

    batches: int = 0
    skipped: int = 0
    rows: int = 0
    null_bucket_rows: int = 0
    files: int = 0
    bytes: int = 0
    version: int | None = None
    sidecar_version: int | None = None
    sidecar_failures: int = 0
    changed: Callable[[], None] = field(default=lambda: None, repr=False)

    def __call__(self, event: Event) -> None:
        """Counts what an event tells."""
        from delta_sidecar.events import BatchWritten, CheckpointTriggered

        if isinstance(event, BatchWritten):
            self.batches += event.outcome == "complete"
            self.skipped += event.outcome == "skipped"
            self.rows += event.rows
            self.null_bucket_rows += event.null_bucket_rows
            self.files += event.files
            self.bytes += event.bytes
            self.version = self.version if event.version is None else event.version
        elif isinstance(event, CheckpointTriggered):
            self.sidecar_version = event.version if event.built_sidecar else self.sidecar_version
            self.sidecar_failures += event.outcome == "failed"
        self.changed()

    def text(self) -> str:
        """Rows, files and bytes in words."""
        return f"{counted(self.rows, 'row')} in {counted(self.files, 'file')}, {human_size(self.bytes)}"


@contextmanager
def ingest_progress(tally: Tally) -> Iterator[Callable[[str], None]]:
    """Shows what is being done, if stderr is a terminal.

    Args:
        tally: What has been written so far; it is shown where there are several batches.

    Yields:
        What is to be told of each stage.
    """
    if not sys.stderr.isatty() or os.environ.get("TERM") == "dumb":
        yield lambda _: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

    bar = Progress(
        TextColumn("{task.description:<15}", style="bold"),
        BarColumn(bar_width=32),
        TextColumn("{task.fields[done]}"),
        TimeElapsedColumn(),
        console=Console(stderr=True),
        transient=True,
        redirect_stdout=False,
        redirect_stderr=False,
        refresh_per_second=8,
    )
    task = bar.add_task("starting Spark", total=None, done="")

    def show() -> None:
        bar.update(task, done=tally.text() if tally.batches else "")

    tally.changed = show
    with bar:
        try:
            yield lambda stage: bar.update(task, description=stage)
        finally:
            tally.changed = lambda: None
