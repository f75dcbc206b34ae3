"""The program: its commands, its version, and how its process ends."""

from __future__ import annotations

import atexit
import contextlib
import gc
import json
import logging
import os
import re
import signal
import sys
import threading
from contextlib import contextmanager
from importlib import import_module
from typing import TYPE_CHECKING, Any, NoReturn

import click

from delta_sidecar.cli.process import INTERRUPTED
from delta_sidecar.cli.text import printable
from delta_sidecar.events import JsonLines, event_of, logger

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import FrameType


# The modules of the commands: one that runs does not wait for the others.
_MODULES = {
    "build": "upkeep",
    "explain": "reports",
    "files": "streams",
    "head": "streams",
    "ingest": "ingest",
    "inspect": "reports",
    "sql": "streams",
    "stats": "stats",
    "vacuum": "upkeep",
}


class Program(click.Group):
    """A group of commands that shows no secrets and does not wait for requests that nobody needs any more."""

    def __call__(self, *args: Any, **kwargs: Any) -> Any:  # noqa: ANN401 - as click has it
        """Runs the program as a process of its own."""
        # What a command imports is no garbage: looking for some after every 700 objects takes 4% of a short one.
        gc.set_threshold(200_000)
        with InterruptWatch():
            try:
                return self.main(*args, **kwargs)
            except SystemExit as ending:
                _leave(ending)
                raise

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 - as click has it
        """The names of the commands."""
        return sorted(_MODULES)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002 - likewise
        """The command of a name, imported now; None where there is none."""
        module = _MODULES.get(cmd_name)
        if module is None:
            return None
        command: click.Command = getattr(import_module(f"delta_sidecar.cli.commands.{module}"), cmd_name)
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Finds the command. What is no word is not repeated: addresses may hold secrets."""
        if not re.fullmatch(r"-.*|[a-z-]{1,20}", args[0]):
            ctx.fail("A command is expected first; to list the files of a table: delta-sidecar files TABLE")
        return super().resolve_command(ctx, args)


@click.group(
    "delta-sidecar",
    cls=Program,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100, "show_default": True},
)
@click.version_option(package_name="delta-sidecar", message="%(prog)s %(version)s")
@click.option("--log", type=click.Choice(["text", "json"]), help="Tell on stderr what happens, event by event.")
@click.pass_context
def main(ctx: click.Context, *, log: str | None) -> None:
    """Delta Lake tables read lazily: their files and rows as they are found, and the state of their logs."""
    if log is not None:
        ctx.with_resource(logging_to_stderr(as_json=log == "json"))


def _leave(ending: SystemExit) -> None:
    """Ends the process at once.

    Python would wait for the requests that threads are in. Where no threads are left it would take every module apart,
    which takes longer than a short command: then only what asked to be called at the end is called.
    """
    if not isinstance(ending.code, int | None):
        return  # Python shows it
    others = (thread for thread in threading.enumerate() if thread is not threading.main_thread())
    if all(thread.daemon for thread in others):
        atexit._run_exitfuncs()  # noqa: SLF001 - as Python itself does, before it takes the modules apart
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError, ValueError):
            stream.flush()
    os._exit(ending.code or 0)


@contextmanager
def logging_to_stderr(*, as_json: bool) -> Iterator[None]:
    """Writes every event to stderr, as a line of text or of JSON."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonLines() if as_json else _TextLines())
    level = logger.level
    logger.addHandler(handler)
    logger.setLevel(logging.DEBUG)
    try:
        yield
    finally:
        logger.removeHandler(handler)
        logger.setLevel(level)


class _TextLines(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        event = event_of(record)
        if event is None:
            text = record.getMessage()
        else:
            fields = (f"{name}={json.dumps(value, ensure_ascii=False)}" for name, value in event.fields().items())
            text = f"{event.name:<18} {' '.join(fields)}"
        return f"{record.levelname.lower():<8}{printable(text)}"


# Seconds that Python has to take notice of Ctrl-C, and then to clean up and end the program by itself.
_GRACE = 0.5
_CLEAN_UP = 5.0


class InterruptWatch:
    """Ends the process after Ctrl-C if Python does not.

    Python raises KeyboardInterrupt between two of its own steps. While the main thread is inside of a native call, such
    as a request that gets no answer, there is no next step; the operating system's signal arrives all the same.
    """

    def __enter__(self) -> None:
        if threading.current_thread() is not threading.main_thread():
            self._writing = -1
            return
        self._taken = threading.Event()
        self._handler = signal.getsignal(signal.SIGINT)
        if self._handler is signal.default_int_handler:
            signal.signal(signal.SIGINT, self._take)
        reading, self._writing = os.pipe()
        os.set_blocking(self._writing, False)
        self._before = signal.set_wakeup_fd(self._writing, warn_on_full_buffer=False)
        threading.Thread(
            target=_watch, args=(reading, self._taken), name="delta-sidecar-interrupts", daemon=True
        ).start()

    def __exit__(self, *_: object) -> None:
        if self._writing >= 0:
            signal.set_wakeup_fd(self._before)
            os.close(self._writing)
            if self._handler is signal.default_int_handler:
                signal.signal(signal.SIGINT, self._handler)

    def _take(self, number: int, frame: FrameType | None) -> None:
        self._taken.set()
        signal.default_int_handler(number, frame)


def _watch(reading: int, taken: threading.Event) -> None:
    while arrived := os.read(reading, 1):
        if arrived[0] == signal.SIGINT:
            # Not taken when this comes back: Python is stuck. Else it may have files to remove.
            if taken.wait(_GRACE):
                threading.Event().wait(_CLEAN_UP)
            _end()
    os.close(reading)


def _end() -> NoReturn:
    if sys.stderr.isatty():
        # The progress line is erased, and the cursor that it hid is shown.
        os.write(sys.stderr.fileno(), b"\r\x1b[2K\x1b[?25h")
    os._exit(INTERRUPTED)
