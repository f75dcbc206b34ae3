"""`delta-sidecar head`: the first rows of a table."""

from __future__ import annotations

import sys
from contextlib import closing
from typing import TYPE_CHECKING

import click

from delta_sidecar.cli.options import (
    ONE_TABLE,
    columns_option,
    only_one_table,
    rows_output_option,
    rows_where_option,
    storage_option,
    summary_option,
    table_argument,
    timestamp_option,
    version_option,
)
from delta_sidecar.cli.process import ending
from delta_sidecar.cli.progress import refuse_binary_on_terminal, write_batches

if TYPE_CHECKING:
    from collections.abc import Callable

    from delta_sidecar.cli.output import Rendering

# The mark keeps the lines as they are.
_EXAMPLES = """\b
Examples:
  delta-sidecar head ./telemetry
  delta-sidecar head ./telemetry -n 100 --where "_event_hour >= '2026021022'"
  delta-sidecar head ./telemetry --columns device_id,event_ts --output csv
  delta-sidecar head ./telemetry --version 41 --output json | jq .device_id
"""


@click.command(context_settings=ONE_TABLE, epilog=_EXAMPLES, short_help="Show the first rows of a Delta table.")
@table_argument
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
@columns_option
@rows_where_option
@version_option
@timestamp_option
@rows_output_option
@storage_option
@summary_option
def head(  # noqa: PLR0913 - the flags of the command
    *,
    table: str,
    rows: int,
    columns: tuple[str, ...] | None,
    where: str | None,
    version: int | None,
    timestamp: str | None,
    output: str,
    storage_options: dict[str, str],
    summary: bool | None,
) -> None:
    """Show rows of the Delta table at TABLE, a folder or an address: those of the newest commits first.

    As few files are opened as it takes. Rows that are deleted are left out.
    """
    ctx = only_one_table()
    stdout = sys.stdout.buffer
    refuse_binary_on_terminal(output, stdout, ctx)
    with ending():
        from delta_sidecar.cli.options import open_table
        from delta_sidecar.cli.progress import RowsTold, progress_of
        from delta_sidecar.rows.query import RowQuery

        told = RowsTold(rows, is_filtered=where is not None)
        with (
            closing(open_table(table, version, timestamp, storage_options)) as opened,
            progress_of(told, summary=summary, beside_data=stdout.isatty()) as progress,
            # Closing stops the scan's requests, however this ends.
            told.of(opened.rows(RowQuery(columns, where, limit=rows))) as found,
        ):
            write_batches(found, row_rendering(output), stdout, progress)


def row_rendering(output: str) -> Rendering:
    """The form that rows are to have on stdout."""
    from delta_sidecar.cli.output import ArrowStream
    from delta_sidecar.cli.process import is_colourless
    from delta_sidecar.cli.table import Csv, RowJsonLines, TextTable

    if output == "text":
        return TextTable.on_terminal(colours=not is_colourless()) if sys.stdout.isatty() else TextTable()
    others: dict[str, Callable[[], Rendering]] = {"json": RowJsonLines, "arrow": ArrowStream, "csv": Csv}
    return others[output]()
