"""`delta-sidecar head`: the first rows of a table."""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING

import click

from delta_sidecar.cli import options
from delta_sidecar.cli.output import write_batches
from delta_sidecar.cli.process import Command

if TYPE_CHECKING:
    from delta_sidecar.rows.scan import RowStream

# The mark keeps the lines as they are.
_EXAMPLES = """\b
Examples:
  delta-sidecar head ./telemetry
  delta-sidecar head ./telemetry -n 100 --where "_event_hour >= '2026021022'"
  delta-sidecar head ./telemetry --columns device_id,event_ts --output csv
  delta-sidecar head ./telemetry --version 41 --output json | jq .device_id
"""


@click.command(cls=Command, epilog=_EXAMPLES, short_help="Show the first rows of a Delta table.")
@options.table
@click.option(
    "rows",
    "--rows",
    "--limit",
    "-n",
    type=click.IntRange(min=0),
    default=10,
    show_default=True,
    metavar="N",
    help="At most N rows.",
)
@options.columns
@options.rows_where
@options.version
@options.timestamp
@options.rows_output
@options.storage
@options.summary
def head(  # noqa: PLR0913 - the flags of the command
    *,
    table: str,
    rows: int,
    columns: tuple[str, ...] | None,
    predicate: str | None,
    version: int | None,
    timestamp: str | None,
    output: str,
    storage_options: dict[str, str],
    summary: bool | None,
) -> None:
    """Show rows of the Delta table at TABLE, a folder or an address: those of the newest commits first.

    As few files are opened as it takes. Rows that are deleted are left out.
    """
    from delta_sidecar.cli.progress import rows_status, scan_progress
    from delta_sidecar.cli.table import row_rendering
    from delta_sidecar.rows.query import RowQuery

    stream: RowStream | None = None
    with (
        closing(options.open_table(table, version, timestamp, storage_options)) as opened,
        scan_progress(lambda: rows_status(stream, rows, is_filtered=bool(predicate)), summary=summary) as reporter,
    ):
        stream = opened.rows(RowQuery(columns, predicate, limit=rows))
        # Closing stops the scan's requests, however this ends.
        with stream:
            write_batches(stream, row_rendering(output), reporter)
