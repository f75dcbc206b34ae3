"""The process of a command: a failure is one message and one exit code, never a traceback."""

from __future__ import annotations

import os
import sys
from contextlib import contextmanager
from inspect import cleandoc
from textwrap import indent
from typing import TYPE_CHECKING, Any, TypeVar

import click

from delta_sidecar.cli.text import counted, echo, printable
from delta_sidecar.errors import (
    AuthenticationError,
    CorruptCommitError,
    DeltaSidecarError,
    TableNotFoundError,
    VersionNotFoundError,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


FAILED = 1
INTERRUPTED = 130
READER_GONE = 141


class Command(click.Command):
    """A command that ends as `ending` says, and refuses arguments that are too many without showing them.

    click would show them, and one may be half of a split secret.
    """

    allow_extra_args = True
    expected, hint = "one TABLE is expected", ""

    def invoke(self, ctx: click.Context) -> object:
        """Runs the command.

        Raises:
            click.UsageError: There are too many arguments.
        """
        if ctx.args:
            more = f"{counted(len(ctx.args), 'more argument')} {'were' if len(ctx.args) > 1 else 'was'} given"
            msg = f"{self.expected}, and {more}{self.hint}"
            raise click.UsageError(msg, ctx)
        with ending():
            return super().invoke(ctx)


def command(
    short_help: str, examples: str, cls: type[Command] = Command
) -> Callable[[Callable[..., Any]], click.Command]:
    """Makes a command of a function, with examples below its help."""
    # The mark keeps the lines as they are.
    epilog = f"\b\nExamples:\n{indent(cleandoc(examples), '  ')}"
    return click.command(cls=cls, epilog=epilog, short_help=short_help)


@contextmanager
def ending() -> Iterator[None]:
    """Turns what stops a command into its exit code.

    Raises:
        click.exceptions.Exit: 1 for an error of the library or of writing the output, 130 after Ctrl-C, 141 when the
            reader of stdout has gone.
    """
    try:
        yield
    except KeyboardInterrupt:
        raise click.exceptions.Exit(INTERRUPTED) from None
    except DeltaSidecarError as error:
        report(str(error), hint=_HINTS.get(type(error)))
        raise click.exceptions.Exit(FAILED) from None
    except BrokenPipeError:
        _forget_stdout()
        raise click.exceptions.Exit(READER_GONE) from None
    except OSError as error:
        report(f"the output cannot be written: {error.strerror or error}")
        _forget_stdout()
        raise click.exceptions.Exit(FAILED) from None


def report(message: str, *, hint: str | None = None) -> None:
    """Writes an error message to stderr."""
    shown = printable(message, keep="\n\t")
    echo([f"{click.style('error:', fg='red', bold=True)} {shown}"], err=True)
    if hint is not None:
        echo([f"{click.style('hint:', bold=True)} {hint}"], err=True)


# Parts of messages that the library cannot have, since they are about options of the command.
_HINTS: dict[type[DeltaSidecarError], str] = {
    AuthenticationError: "credentials go into --storage-option KEY=VALUE or the AZURE_*, AWS_* and GOOGLE_* "
    "environment variables",
    CorruptCommitError: "--version N reads a version before it",
    TableNotFoundError: "TABLE is the folder that holds _delta_log",
    VersionNotFoundError: "without --version and --timestamp the newest version is read",
}


def _forget_stdout() -> None:
    """Sends the rest of stdout's buffer nowhere, so that Python does not fail on it at its end."""
    try:
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, sys.stdout.fileno())
    except (OSError, ValueError):
        return
    os.close(nowhere)


# Work on a JVM, done apart from the main thread.
#
# Python takes Ctrl-C in its main thread alone. A main thread that waits for an answer of the JVM would take it in the
# middle of Py4J, which prints a long traceback; and a Spark that is started there takes Ctrl-C for itself.


T = TypeVar("T")


def in_background(work: Callable[[], T]) -> T:
    """Does work in a thread of its own, and waits for it.

    Raises:
        KeyboardInterrupt: It was interrupted. The work goes on until the process ends, which does not wait for it.
        Exception: The work raised it.
    """
    from concurrent.futures import ThreadPoolExecutor

    pool = ThreadPoolExecutor(1, "delta-sidecar-work")
    try:
        return pool.submit(work).result()
    finally:
        pool.shutdown(wait=False)
