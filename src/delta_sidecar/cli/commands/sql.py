"""`delta-sidecar sql`: a query over tables, which DuckDB answers."""

from __future__ import annotations

import re
import sys
from typing import TYPE_CHECKING

import click

from delta_sidecar.cli import options
from delta_sidecar.cli.output import write_batches
from delta_sidecar.cli.process import FAILED, Command, report

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from contextlib import AbstractContextManager

    from delta_sidecar.connect.duckdb import QueryRows
    from delta_sidecar.table.pinned import TableHandle

# The mark keeps the lines as they are.
_EXAMPLES = """\b
Examples:
  delta-sidecar sql "SELECT count(*) FROM t" --table t=./telemetry
  delta-sidecar sql "SELECT * FROM t WHERE _event_hour >= '2026021022'" \\
      --table t=./telemetry --output csv > rows.csv
  delta-sidecar sql "SELECT * FROM new ANTI JOIN old USING (event_ts)" \\
      --table new=./telemetry --table old=./telemetry --version old=29
  delta-sidecar sql - --table t=./telemetry < query.sql
"""

_NAME = re.compile(r"[A-Za-z_]\w{0,62}", re.ASCII)


def _named(ctx: click.Context, param: click.Parameter, pairs: Sequence[str]) -> dict[str, str]:
    """Splits each `NAME=VALUE`. No message repeats them: they may hold a secret."""
    found: dict[str, str] = {}
    for pair in pairs:
        name, separator, value = pair.partition("=")
        if not separator or not _NAME.fullmatch(name) or not value:
            msg = f"{param.metavar} is expected, with a plain word for NAME (what was given is not shown)"
            raise click.BadParameter(msg, ctx, param)
        # Names are the same in capitals and in small letters.
        if name.lower() in found:
            msg = f"{name!r} is given twice"
            raise click.BadParameter(msg, ctx, param)
        found[name.lower()] = value
    return found


def _versions(ctx: click.Context, param: click.Parameter, pairs: Sequence[str]) -> dict[str, int]:
    found = _named(ctx, param, pairs)
    if not all(value.isascii() and value.isdigit() for value in found.values()):
        msg = "a version is a whole number from 0 on"
        raise click.BadParameter(msg, ctx, param)
    return {name: int(value) for name, value in found.items()}


class _SqlCommand(Command):
    """A command whose argument may begin with a comment of SQL, which is no option."""

    expected, hint = "one QUERY is expected", ": put it in quotes"

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        return super().parse_args(ctx, [f"\n{arg}" if re.match(r"--[^=\s]*\s", arg) else arg for arg in args])


@click.command(
    cls=_SqlCommand,
    epilog=_EXAMPLES,
    short_help="Query Delta tables in SQL, with DuckDB.",
)
@click.argument("query")
@click.option(
    "--table",
    "tables",
    metavar="NAME=ADDRESS",
    multiple=True,
    required=True,
    callback=_named,
    help="A table, and the name that it has in the query; may be repeated.",
)
@click.option(
    "--version",
    "versions",
    metavar="NAME=N",
    multiple=True,
    callback=_versions,
    help="That table at version N; the newest if left out.",
)
@click.option(
    "--timestamp",
    "timestamps",
    metavar="NAME=TIME",
    multiple=True,
    callback=_named,
    help="That table as of a time in ISO 8601, in UTC where it names no zone.",
)
@options.rows_output
@options.storage
@options.summary
def sql(
    *,
    query: str,
    tables: dict[str, str],
    versions: dict[str, int],
    timestamps: dict[str, str],
    output: str,
    storage_options: dict[str, str],
    summary: bool | None,
) -> None:
    """Answer QUERY in DuckDB's SQL over Delta tables; - reads it from stdin.

    Columns and conditions reach the files: what the query does not ask for is not read, and a LIMIT ends the scan. The
    query sees its tables and nothing else, no file of this machine and no extension. The options of the store are for
    all tables.
    """
    unknown = [name for name in (*versions, *timestamps) if name not in tables]
    if unknown:
        msg = f"--version and --timestamp name tables of --table, and {unknown[0]!r} is none of them"
        raise click.UsageError(msg)
    running = _duckdb()
    from delta_sidecar.cli.progress import query_status, scan_progress
    from delta_sidecar.cli.table import PlanText, row_rendering

    text = sys.stdin.read() if query == "-" else query
    opened = {
        name: options.open_table(address, versions.get(name), timestamps.get(name), storage_options)
        for name, address in tables.items()
    }
    with (
        # Leaving it stops the query and the requests, however this ends.
        running(text, opened) as rows,
        scan_progress(lambda: query_status(rows), summary=summary) as reporter,
    ):
        # A plan is a drawing of many lines, and no value to be cut.
        is_plan = output == "text" and rows.schema.names == ["explain_key", "explain_value"]
        write_batches(rows, PlanText() if is_plan else row_rendering(output), reporter)


def _duckdb() -> Callable[[str, Mapping[str, TableHandle]], AbstractContextManager[QueryRows]]:
    try:
        from delta_sidecar.connect.duckdb import running
    except ImportError as error:
        report(str(error))
        raise click.exceptions.Exit(FAILED) from None
    return running
