"""`delta-sidecar inspect`: the state of a table's log, and what would slow a reader down."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import click

from delta_sidecar.cli.ending import FAILED, ending, is_colourless
from delta_sidecar.cli.options import (
    ONE_TABLE,
    only_one_table,
    output_option,
    storage_option,
    table_argument,
    timestamp_option,
    version_option,
)

if TYPE_CHECKING:
    from delta_sidecar.health import TableReport

# The mark keeps the lines as they are.
_EXAMPLES = """\b
Examples:
  delta-sidecar inspect ./telemetry
  delta-sidecar inspect ./telemetry --output json | jq .findings
  delta-sidecar inspect ./telemetry --fail-on warning
"""


@click.command(
    context_settings=ONE_TABLE, epilog=_EXAMPLES, short_help="Show the state of a Delta table's log, and what to do."
)
@table_argument
@version_option
@timestamp_option
@output_option
@click.option(
    "--fail-on",
    type=click.Choice(["warning", "problem"]),
    help="Exit code 1 if there is such a finding, or a graver one.",
)
@storage_option
def inspect(
    *,
    table: str,
    version: int | None,
    timestamp: str | None,
    output: str,
    fail_on: str | None,
    storage_options: dict[str, str],
) -> None:
    """Show the state of the log of the Delta table at TABLE, a folder or an address.

    Versions, checkpoints, commits since the newest one, files, and findings: what would slow a reader down, or stop
    it, and what to do. A few requests are made, and the file list is not read.
    """
    ctx = only_one_table()
    with ending():
        from delta_sidecar.health import inspect_table

        report = inspect_table(table, version=version, timestamp=timestamp, storage_options=storage_options)
        click.echo(_rendered(report, output), color=False if is_colourless() else None)
    if fail_on is not None and _is_at_least(report, fail_on):
        ctx.exit(FAILED)


def _rendered(report: TableReport, output: str) -> str:
    if output == "json":
        # Whatever is no ASCII letter is escaped: nothing in a name can steer a terminal.
        return json.dumps(report.as_dict(), indent=2)
    from delta_sidecar.cli.report_text import report_text

    return report_text(report)


def _is_at_least(report: TableReport, severity: str) -> bool:
    from delta_sidecar.health.report import SEVERITIES

    ranks = {name: rank for rank, name in enumerate(SEVERITIES)}
    worst = report.worst()
    return worst is not None and ranks[worst] >= ranks[severity]  # type: ignore[index]
