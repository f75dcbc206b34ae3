"""`delta-sidecar files`: the live files of a table."""

from __future__ import annotations

import os
import sys
from contextlib import closing, suppress
from typing import TYPE_CHECKING, BinaryIO

import click

from delta_sidecar.cli.ending import ending
from delta_sidecar.cli.rendering import ArrowStream, JsonLines, Rendering, TextLines

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from delta_sidecar.cli.progress import Progress
    from delta_sidecar.scan.scanner import LazyDeltaScanner

RENDERINGS: dict[str, Callable[[], Rendering]] = {"text": TextLines, "json": JsonLines, "arrow": ArrowStream}


def _storage_options(ctx: click.Context, param: click.Parameter, given: Sequence[str]) -> dict[str, str]:
    """Splits each `KEY=VALUE`. No message repeats a value, or a key that looks like one: that may be a secret."""
    options: dict[str, str] = {}
    for pair in given:
        key, separator, value = pair.partition("=")
        if not separator or not key.strip():
            msg = "KEY=VALUE is expected (what was given is not shown: it may be a secret)"
            raise click.BadParameter(msg, ctx, param)
        if options.setdefault(key.strip(), value) != value:
            from delta_sidecar.store.redaction import redact_name

            msg = f"{redact_name(key.strip())!r} is given twice, with different values"
            raise click.BadParameter(msg, ctx, param)
    return options


# The mark keeps the lines as they are.
_EXAMPLES = """\b
Examples:
  delta-sidecar files ./telemetry --limit 10
  delta-sidecar files ./telemetry --where "_event_hour >= '2026021022'"
  delta-sidecar files ./telemetry --where "device_id IN ('a', 'b')"
  delta-sidecar files ./telemetry --version 41 --output json | jq -r .path
"""


# Too many arguments are counted here and not by click, which would show them: one may be half of a split secret.
@click.command(
    context_settings={"allow_extra_args": True}, epilog=_EXAMPLES, short_help="List the live files of a Delta table."
)
@click.argument("table")
@click.option("--where", metavar="PREDICATE", help="Leave out files that cannot hold a matching row: SQL text or JSON.")
@click.option("--limit", type=click.IntRange(min=0), metavar="N", help="Stop after N files.")
@click.option(
    "--strategy",
    type=click.Choice(["reverse", "forward"]),
    default="reverse",
    show_default=True,
    help="Newest commits first, or the checkpoint first.",
)
@click.option(
    "--version", type=click.IntRange(min=0), metavar="N", help="The table at version N; the newest if left out."
)
@click.option(
    "--timestamp",
    metavar="TIME",
    help="The table as of a time in ISO 8601, in UTC where it names no zone; not together with --version.",
)
@click.option(
    "--output",
    type=click.Choice(list(RENDERINGS)),
    default="text",
    show_default=True,
    help="Lines for people, a JSON object per line, or an Arrow IPC stream.",
)
@click.option(
    "--storage-option",
    "storage_options",
    metavar="KEY=VALUE",
    multiple=True,
    callback=_storage_options,
    help="An option of the store, such as account_key=...; may be repeated.",
)
@click.option(
    "--summary/--no-summary", default=None, help="What was read, on stderr at the end. [default: on a terminal]"
)
def files(  # noqa: PLR0913 - the flags of the command
    *,
    table: str,
    where: str | None,
    limit: int | None,
    strategy: str,
    version: int | None,
    timestamp: str | None,
    output: str,
    storage_options: dict[str, str],
    summary: bool | None,
) -> None:
    """List the live files of the Delta table at TABLE, a folder or an address.

    Text lines show size, modification time (UTC), records, "dv" where rows are deleted, and the path.
    """
    ctx = click.get_current_context()
    if ctx.args:
        msg = f"one TABLE is expected, and {len(ctx.args)} more arguments were given"
        raise click.UsageError(msg, ctx)
    stdout = sys.stdout.buffer
    if output == "arrow" and stdout.isatty():
        msg = "Arrow output is binary: redirect it to a file or a program, as in --output arrow > files.arrow"
        raise click.UsageError(msg, ctx)
    with ending():
        from delta_sidecar.cli.progress import progress_for
        from delta_sidecar.scan.config import LazyScanConfig
        from delta_sidecar.scan.scanner import LazyDeltaScanner

        config = LazyScanConfig(predicate=where, limit=limit, strategy=strategy, version=version, timestamp=timestamp)
        scanner = LazyDeltaScanner(table, config, storage_options=storage_options)
        with progress_for(scanner, summary=summary, beside_data=stdout.isatty()) as progress:
            _write(scanner, RENDERINGS[output](), stdout, progress)


def _write(scanner: LazyDeltaScanner, rendering: Rendering, stdout: BinaryIO, progress: Progress) -> None:
    # Closing stops the scan's requests, however this ends.
    with closing(scanner.scan_batches()) as batches:
        try:
            stdout.write(rendering.start(batches.schema))
            for batch in batches:
                chunk = rendering.batch(batch)
                with progress.aside():
                    stdout.write(chunk)
                    stdout.flush()
        except BaseException:
            _break_off(stdout, rendering.broken_off())
            raise
        stdout.write(rendering.end())
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
