"""`delta-sidecar files`: the live files of a table."""

from __future__ import annotations

from contextlib import closing
from typing import Any

import click

from delta_sidecar.cli import options
from delta_sidecar.cli.output import ArrowStream, FileLines, file_json, file_text, write_batches
from delta_sidecar.cli.process import Command

# The mark keeps the lines as they are.
_EXAMPLES = """\b
Examples:
  delta-sidecar files ./telemetry --limit 10
  delta-sidecar files ./telemetry --where "_event_hour >= '2026021022'"
  delta-sidecar files ./telemetry --where "device_id IN ('a', 'b')"
  delta-sidecar files ./telemetry --version 41 --output json | jq -r .path
"""


@click.command(cls=Command, epilog=_EXAMPLES, short_help="List the live files of a Delta table.")
@options.table
@options.where
@options.limit
@options.strategy
@options.order
@click.option(
    "--page-token", metavar="TOKEN", help="Go on where another listing stopped; a summary with --limit has it."
)
@options.version
@options.timestamp
@options.files_output
@options.storage
@options.summary
def files(
    *,
    table: str,
    output: str,
    storage_options: dict[str, str],
    summary: bool | None,
    **scan: Any,  # noqa: ANN401 - options of the scan by their names
) -> None:
    """List the live files of the Delta table at TABLE, a folder or an address.

    Text lines show size, modification time (UTC), records, "dv" where rows are deleted, and the path.
    """
    from delta_sidecar.cli.progress import files_status, scan_progress
    from delta_sidecar.cli.table import Csv
    from delta_sidecar.scan.config import LazyScanConfig
    from delta_sidecar.scan.scanner import LazyDeltaScanner

    forms = {"text": FileLines(file_text), "json": FileLines(file_json), "arrow": ArrowStream(), "csv": Csv()}
    scanner = LazyDeltaScanner(table, LazyScanConfig(**scan), storage_options=storage_options)
    with (
        scan_progress(
            lambda: files_status(scanner), summary=summary, page_token=lambda: scanner.page_token
        ) as reporter,
        # Closing stops the scan's requests, however this ends.
        closing(scanner.scan_batches()) as batches,
    ):
        write_batches(batches, forms[output], reporter)
