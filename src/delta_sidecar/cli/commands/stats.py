"""`delta-sidecar stats`: what the statistics of a table's files tell of its columns."""

from __future__ import annotations

import sys
from contextlib import closing
from typing import TYPE_CHECKING, Any

import click

from delta_sidecar.cli.options import (
    ONE_TABLE,
    column_names,
    only_one_table,
    output_option,
    storage_option,
    table_argument,
    timestamp_option,
    version_option,
    where_option,
)
from delta_sidecar.cli.process import ending, is_colourless

if TYPE_CHECKING:
    from delta_sidecar.cli.progress import FilesTold
    from delta_sidecar.scan.scanner import LazyDeltaScanner
    from delta_sidecar.table.pinned import TableHandle

# The mark keeps the lines as they are.
_EXAMPLES = """\b
Examples:
  delta-sidecar stats ./telemetry
  delta-sidecar stats ./telemetry --columns event_ts,device_id
  delta-sidecar stats ./telemetry --where "_event_hour >= '2026021022'"
  delta-sidecar stats ./telemetry --output json | jq .rows
"""


@click.command(
    context_settings=ONE_TABLE, epilog=_EXAMPLES, short_help="Show bounds and nulls of a Delta table's columns."
)
@table_argument
@click.option(
    "--columns",
    metavar="COLUMN,...",
    callback=column_names,
    help="Only these columns; a struct stands for all columns in it, and a.b for one.",
)
@where_option
@version_option
@timestamp_option
@output_option
@storage_option
def stats(
    *,
    table: str,
    columns: tuple[str, ...],
    where: str | None,
    version: int | None,
    timestamp: str | None,
    output: str,
    storage_options: dict[str, str],
) -> None:
    """Show what the log tells of the columns of the Delta table at TABLE: minimum, maximum and nulls of each.

    They are those that writers noted down for each file, folded in one pass; no data file is opened. Where they are not
    exact, that is said.
    """
    only_one_table()
    with ending():
        from delta_sidecar.cli.commands.stats_text import stats_json, stats_text
        from delta_sidecar.cli.options import open_table
        from delta_sidecar.cli.progress import FilesTold, progress_of
        from delta_sidecar.table.summaries import fold_stats

        told = FilesTold()
        with (
            closing(open_table(table, version, timestamp, storage_options)) as handle,
            progress_of(told, summary=None, beside_data=sys.stdout.isatty()) as progress,
        ):
            watched: Any = _Watched(handle, told)
            summary = fold_stats(watched, columns or None, where)
            show = stats_json if output == "json" else stats_text
            with progress.aside():
                click.echo(show(handle.store.url, summary), color=False if is_colourless() else None)


class _Watched:
    """A table whose scans are told of."""

    def __init__(self, handle: TableHandle, told: FilesTold) -> None:
        self._handle = handle
        self._told = told

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401 - whatever the table has
        return getattr(self._handle, name)

    def scanner(self, *given: Any, **named: Any) -> LazyDeltaScanner:  # noqa: ANN401 - as the table has it
        return self._told.of(self._handle.scanner(*given, **named))
