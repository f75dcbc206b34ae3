"""`delta-sidecar files`: the live files of a table."""

from __future__ import annotations

import sys
from contextlib import closing
from typing import TYPE_CHECKING, Literal

import click

from delta_sidecar.cli.options import (
    ONE_TABLE,
    limit_option,
    only_one_table,
    order_option,
    storage_option,
    strategy_option,
    summary_option,
    table_argument,
    timestamp_option,
    version_option,
    where_option,
)
from delta_sidecar.cli.process import ending
from delta_sidecar.cli.progress import refuse_binary_on_terminal, write_batches

if TYPE_CHECKING:
    from collections.abc import Callable

    from delta_sidecar.cli.output import Rendering

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
    type=click.Choice(["text", "json", "arrow", "csv"]),
    default="text",
    show_default=True,
    help="Lines for people, a JSON object per line, an Arrow IPC stream, or CSV.",
)
@storage_option
@summary_option
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
    refuse_binary_on_terminal(output, stdout, ctx)
    with ending():
        from delta_sidecar.cli.progress import FilesTold, progress_of
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
        told = FilesTold()
        scanner = told.of(LazyDeltaScanner(table, config, storage_options=storage_options))
        with (
            progress_of(told, summary=summary, beside_data=stdout.isatty()) as progress,
            # Closing stops the scan's requests, however this ends.
            closing(scanner.scan_batches()) as batches,
        ):
            write_batches(batches, _rendering(output), stdout, progress)


def _rendering(output: str) -> Rendering:
    from delta_sidecar.cli.output import ArrowStream, JsonLines, TextLines

    others: dict[str, Callable[[], Rendering]] = {"text": TextLines, "json": JsonLines, "arrow": ArrowStream}
    if output in others:
        return others[output]()
    from delta_sidecar.cli.table import Csv

    return Csv()
