"""Commands whose output streams: `files`, `head` and `sql`."""

from __future__ import annotations

import re
import sys
from contextlib import closing
from typing import TYPE_CHECKING, Any

import click

from delta_sidecar.cli import options
from delta_sidecar.cli.output import FileLines, file_json, file_text, write_batches
from delta_sidecar.cli.process import FAILED, Command, command, report

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from contextlib import AbstractContextManager

    from delta_sidecar.cli.output import Rendering
    from delta_sidecar.connect.duckdb import QueryRows
    from delta_sidecar.rows.scan import RowStream
    from delta_sidecar.table.pinned import TableHandle


@command(
    "List the live files of a Delta table.",
    """
    delta-sidecar files ./telemetry --limit 10
    delta-sidecar files ./telemetry --where "_event_hour >= '2026021022'"
    delta-sidecar files ./telemetry --where "device_id IN ('a', 'b')"
    delta-sidecar files ./telemetry --version 41 --output json | jq -r .path
    """,
)
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
def files(*, table: str, output: str, storage_options: dict[str, str], summary: bool | None, **scan: Any) -> None:  # noqa: ANN401
    """List the live files of the Delta table at TABLE, a folder or an address.

    Text lines show size, modification time (UTC), records, "dv" where rows are deleted, and the path.
    """
    from delta_sidecar.cli.progress import files_status, scan_progress
    from delta_sidecar.scan.config import LazyScanConfig
    from delta_sidecar.scan.scanner import LazyDeltaScanner

    line = {"text": file_text, "json": file_json}.get(output)
    scanner = LazyDeltaScanner(table, LazyScanConfig(**scan), storage_options=storage_options)
    with (
        scan_progress(
            lambda: files_status(scanner), summary=summary, page_token=lambda: scanner.page_token
        ) as reporter,
        # Closing stops the scan's requests, however this ends.
        closing(scanner.scan_batches()) as batches,
    ):
        write_batches(batches, FileLines(line) if line else _rows_as(output), reporter)


def _rows_as(output: str) -> Rendering:
    from delta_sidecar.cli.table import row_rendering

    return row_rendering(output)


@command(
    "Show the first rows of a Delta table.",
    """
    delta-sidecar head ./telemetry
    delta-sidecar head ./telemetry -n 100 --where "_event_hour >= '2026021022'"
    delta-sidecar head ./telemetry --columns device_id,event_ts --output csv
    delta-sidecar head ./telemetry --version 41 --output json | jq .device_id
    """,
)
@options.table
@click.option(
    "rows",
    "--rows",
    "--limit",
    "-n",
    type=click.IntRange(min=0),
    default=10,
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
def head(
    *,
    rows: int,
    columns: tuple[str, ...] | None,
    predicate: str | None,
    output: str,
    summary: bool | None,
    **opening: Any,  # noqa: ANN401 - arguments of `open_table`
) -> None:
    """Show rows of the Delta table at TABLE, a folder or an address: those of the newest commits first.

    As few files are opened as it takes. Rows that are deleted are left out.
    """
    from delta_sidecar.cli.progress import rows_status, scan_progress
    from delta_sidecar.cli.table import row_rendering
    from delta_sidecar.rows.query import RowQuery

    stream: RowStream | None = None
    with (
        closing(options.open_table(**opening)) as opened,
        scan_progress(lambda: rows_status(stream, rows, is_filtered=bool(predicate)), summary=summary) as reporter,
    ):
        stream = opened.rows(RowQuery(columns, predicate, limit=rows))
        # Closing stops the scan's requests, however this ends.
        with stream:
            write_batches(stream, row_rendering(output), reporter)


_NAME = re.compile(r"[A-Za-z_]\w{0,62}", re.ASCII)


def _named(_: click.Context, param: click.Parameter, pairs: Sequence[str]) -> dict[str, str]:
    """Splits each `NAME=VALUE`. No message repeats them: they may hold a secret."""
    found: dict[str, str] = {}
    for pair in pairs:
        name, separator, value = pair.partition("=")
        if not separator or not _NAME.fullmatch(name) or not value:
            msg = f"{param.metavar} is expected, with a plain word for NAME (what was given is not shown)"
            raise click.BadParameter(msg)
        # Names are the same in capitals and in small letters.
        if name.lower() in found:
            msg = f"{name!r} is given twice"
            raise click.BadParameter(msg)
        found[name.lower()] = value
    return found


def _versions(ctx: click.Context, param: click.Parameter, pairs: Sequence[str]) -> dict[str, int]:
    found = _named(ctx, param, pairs)
    if not all(value.isascii() and value.isdigit() for value in found.values()):
        msg = "a version is a whole number from 0 on"
        raise click.BadParameter(msg)
    return {name: int(value) for name, value in found.items()}


class _SqlCommand(Command):
    """A command whose argument may begin with a comment of SQL, which is no option."""

    expected, hint = "one QUERY is expected", ": put it in quotes"

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        return super().parse_args(ctx, [f"\n{arg}" if re.match(r"--[^=\s]*\s", arg) else arg for arg in args])


@command(
    "Query Delta tables in SQL, with DuckDB.",
    """
    delta-sidecar sql "SELECT count(*) FROM t" --table t=./telemetry
    delta-sidecar sql "SELECT * FROM t WHERE _event_hour >= '2026021022'" \\
        --table t=./telemetry --output csv > rows.csv
    delta-sidecar sql "SELECT * FROM new ANTI JOIN old USING (event_ts)" \\
        --table new=./telemetry --table old=./telemetry --version old=29
    delta-sidecar sql - --table t=./telemetry < query.sql
    """,
    cls=_SqlCommand,
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
