"""The program: its commands, its version, and how its process ends."""

from __future__ import annotations

import contextlib
import os
import re
import sys
import threading
from typing import Any

import click

from delta_sidecar.cli.build import build
from delta_sidecar.cli.explain import explain
from delta_sidecar.cli.files import files
from delta_sidecar.cli.head import head
from delta_sidecar.cli.ingest import ingest
from delta_sidecar.cli.inspect import inspect
from delta_sidecar.cli.interrupts import InterruptWatch
from delta_sidecar.cli.log import logging_to_stderr
from delta_sidecar.cli.sql import sql
from delta_sidecar.cli.stats import stats
from delta_sidecar.cli.vacuum import vacuum


class Program(click.Group):
    """A group of commands that shows no secrets and does not wait for requests that nobody needs any more."""

    def __call__(self, *args: Any, **kwargs: Any) -> Any:  # noqa: ANN401 - as click has it
        """Runs the program as a process of its own."""
        with InterruptWatch():
            try:
                return self.main(*args, **kwargs)
            except SystemExit as ending:
                _leave(ending)
                raise

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
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)
@click.version_option(package_name="delta-sidecar", message="%(prog)s %(version)s")
@click.option("--log", type=click.Choice(["text", "json"]), help="Tell on stderr what happens, event by event.")
@click.pass_context
def main(ctx: click.Context, *, log: str | None) -> None:
    """Delta Lake tables read lazily: their files and rows as they are found, and the state of their logs."""
    if log is not None:
        ctx.with_resource(logging_to_stderr(as_json=log == "json"))


main.add_command(files)
main.add_command(head)
main.add_command(sql)
main.add_command(stats)
main.add_command(explain)
main.add_command(inspect)
main.add_command(build)
main.add_command(ingest)
main.add_command(vacuum)


def _leave(ending: SystemExit) -> None:
    """Ends the process at once where threads are left: Python would wait for the requests that they are in."""
    others = (thread for thread in threading.enumerate() if thread is not threading.main_thread())
    if all(thread.daemon for thread in others):
        return
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError, ValueError):
            stream.flush()
    code = ending.code
    os._exit(code if isinstance(code, int) else int(code is not None))
