"""`delta-sidecar files`: the live files of a table."""

from __future__ import annotations

import os
import sys
from contextlib import closing, suppress
from typing import TYPE_CHECKING, BinaryIO, Literal

import click

from delta_sidecar.cli.ending import ending
from delta_sidecar.cli.options import (
    ONE_TABLE,
    limit_option,
    only_one_table,
    order_option,
    storage_option,
    strategy_option,
    table_argument,
    timestamp_option,
    version_option,
    where_option,
)
from delta_sidecar.cli.rendering import ArrowStream, JsonLines, Rendering, TextLines

if TYPE_CHECKING:
    from collections.abc import Callable

    from delta_sidecar.cli.progress import Progress
    from delta_sidecar.scan.scanner import LazyDeltaScanner

RENDERINGS: dict[str, Callable[[], Rendering]] = {"text": TextLines, "json": JsonLines, "arrow": ArrowStream}


# The mark keeps the lines as they are.
_EXAMPLES = """\b
Examples:
  delta-sidecar files ./telemetry --limit 10
  delta-sidecar files ./telemetry --where "_event_hour >= '2026021022'"
  delta-sidecar files ./telemetry --where "device_id IN ('a', 'b')"
  delta-sidecar files ./telemetry --version 41 --output json | jq -r .path
"""


@click.command(context_settings=ONE_TABLE, epilog=_EXAMPLES, short_help="List the live files of a Delta table.")
@table_argument
@where_option
@limit_option
@strategy_option
@order_option
@click.option(
    "--page-token", metavar="TOKEN", help="Go on where another listing stopped; a summary with --limit has it."
)
@version_option
@timestamp_option
@click.option(
    "--output",
    type=click.Choice(list(RENDERINGS)),
    default="text",
    show_default=True,
    help="Lines for people, a JSON object per line, or an Arrow IPC stream.",
)
@storage_option
@click.option(
    "--summary/--no-summary", default=None, help="What was read, on stderr at the end. [default: on a terminal]"
)
def files(  # noqa: PLR0913 - the flags of the command
    *,
    table: str,
    where: str | None,
    limit: int | None,
    strategy: str | None,
    order: Literal["recent", "any"] | None,
    page_token: str | None,
    version: int | None,
    timestamp: str | None,
    output: str,
    storage_options: dict[str, str],
    summary: bool | None,
) -> None:
    """List the live files of the Delta table at TABLE, a folder or an address.

    Text lines show size, modification time (UTC), records, "dv" where rows are deleted, and the path.
    """
    ctx = only_one_table()
    stdout = sys.stdout.buffer
    if output == "arrow" and stdout.isatty():
        msg = "Arrow output is binary: redirect it to a file or a program, as in --output arrow > files.arrow"
        raise click.UsageError(msg, ctx)
    with ending():
        from delta_sidecar.cli.progress import progress_for
        from delta_sidecar.scan.config import LazyScanConfig
        from delta_sidecar.scan.scanner import LazyDeltaScanner

        config = LazyScanConfig(
            predicate=where,
            limit=limit,
            strategy=strategy,
            order=order,
            page_token=page_token,
            version=version,
            timestamp=timestamp,
        )
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
