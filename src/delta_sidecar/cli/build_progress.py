"""How far a build is, on stderr: a bar that moves while it runs, gone at its end."""

from __future__ import annotations

import os
import sys
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING

from delta_sidecar.cli.rendering import human_size

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rich.progress import Progress, TaskID

    from delta_sidecar.build import BuildProgress
    from delta_sidecar.build.summary import ProgressListener

# A build that is quicker than this shows nothing: a bar that flashes by is only unrest.
_PATIENCE = 0.4


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
