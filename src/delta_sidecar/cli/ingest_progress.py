"""How far an ingestion is, on stderr: what is being done, for how long, and what has been written so far."""

from __future__ import annotations

import os
import sys
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from delta_sidecar.cli.rendering import counted, human_size

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from delta_sidecar.events import Event


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
