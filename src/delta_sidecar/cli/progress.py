"""What a command is doing, on stderr: a line that moves while it runs, and a summary at its end."""

from __future__ import annotations

import os
import sys
import time
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import TYPE_CHECKING, Protocol, Self

import click

from delta_sidecar.cli.ending import is_colourless
from delta_sidecar.cli.rendering import folded, terminal_width

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rich.live import Live
    from rich.text import Text

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


class Progress(Protocol):
    """The line that moves."""

    def aside(self) -> AbstractContextManager[None]:
        """Takes the line away while data is written to the same terminal."""


@contextmanager
def progress_of(told: Told, *, summary: bool | None, beside_data: bool) -> Iterator[Progress]:
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
