"""`delta-sidecar inspect`: the state of a table's log, and what would slow a reader down."""

from __future__ import annotations

import json
import shutil
import textwrap
from typing import TYPE_CHECKING

import click

from delta_sidecar.cli.options import (
    ONE_TABLE,
    only_one_table,
    output_option,
    storage_option,
    table_argument,
    timestamp_option,
    version_option,
)
from delta_sidecar.cli.output import counted, human_size, printable
from delta_sidecar.cli.process import FAILED, ending, is_colourless

if TYPE_CHECKING:
    from collections.abc import Iterator

    from delta_sidecar.health.report import BaseReport, Finding, SidecarsReport, TableReport
    from delta_sidecar.replay.estimate import Range


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

    return report_text(report)


def _is_at_least(report: TableReport, severity: str) -> bool:
    from delta_sidecar.health.report import SEVERITIES

    ranks = {name: rank for rank, name in enumerate(SEVERITIES)}
    worst = report.worst()
    return worst is not None and ranks[worst] >= ranks[severity]  # type: ignore[index]


# A report of an inspection as lines for people: facts by name, then findings with what to do.


_COLOURS = {"problem": "red", "warning": "yellow", "info": "cyan"}
_NAME = 18
_WIDEST = 110
_NARROWEST = 60
_MOST_SHOWN = 3


def report_text(report: TableReport) -> str:
    """The lines, with the colours of a terminal."""
    width = max(_NARROWEST, min(_WIDEST, shutil.get_terminal_size((_WIDEST, 24)).columns))
    lines: list[str] = []
    for name, text in _facts(report):
        wrapped = textwrap.wrap(printable(text), width - _NAME, break_long_words=False, break_on_hyphens=False) or [""]
        lines.append(f"{click.style(f'{name:<{_NAME}}', bold=True)}{wrapped[0]}")
        lines += [" " * _NAME + more for more in wrapped[1:]]
    lines.append("")
    for finding in report.findings:
        lines += _finding(finding, width)
    if not report.findings:
        lines.append(click.style("Nothing to report.", fg="green"))
    asked = report.requests
    cost = f"{counted(asked.requests, 'request')}, {human_size(asked.bytes)}, {counted(asked.trips, 'trip')}"
    lines.append(click.style(f"read by {cost}", dim=True))
    return "\n".join(lines)


def _facts(report: TableReport) -> Iterator[tuple[str, str]]:
    yield "table", report.table
    yield "version", _versions(report)
    if report.refusal is not None:
        yield "scanned", "no, see below"
    yield from _metadata(report)
    if report.estimate is not None:
        found = report.estimate
        yield "files", _range(found.files)
        yield "size", _sizes(report)
        yield "rows", _range(found.rows)
    yield from _log(report)


def _versions(report: TableReport) -> str:
    is_newest = report.version == report.latest_version
    text = f"{report.version} (the newest)" if is_newest else f"{report.version}; the newest is {report.latest_version}"
    if report.earliest_version is None:
        return f"{text}; none can be read"
    return f"{text}; readable from {report.earliest_version} on"


def _metadata(report: TableReport) -> Iterator[tuple[str, str]]:
    protocol, metadata = report.protocol, report.metadata
    if protocol is not None:
        yield "protocol", f"reader {protocol.min_reader_version}, writer {protocol.min_writer_version}"
        if protocol.reader_features:
            yield "reader features", ", ".join(protocol.reader_features)
        only_writers = [name for name in protocol.writer_features if name not in protocol.reader_features]
        if only_writers:
            yield "writer features", ", ".join(only_writers)
    if metadata is not None:
        if metadata.name:
            yield "name", metadata.name
        yield "columns", f"{metadata.columns:,}"
        names = [
            f"{name} (time bucket)" if name == metadata.bucket_column else name for name in metadata.partition_columns
        ]
        yield "partitioned by", ", ".join(names) or "nothing"
        if metadata.in_commit_timestamps:
            yield "commit times", "in the commits"
        for name, value in metadata.properties.items():
            yield "property", f"{name} = {value}"


def _log(report: TableReport) -> Iterator[tuple[str, str]]:
    log, tail = report.log, report.tail
    kinds = [
        counted(log.commits, "commit"),
        counted(log.checkpoints, "checkpoint"),
        counted(log.checksums, "checksum file"),
    ]
    if log.compacted_commits:
        kinds.append(counted(log.compacted_commits, "compacted commit"))
    if log.sidecar_files:
        kinds.append(f"{counted(log.sidecar_files, 'file')} in _sidecars ({human_size(log.sidecar_bytes)})")
    yield "log", f"{counted(log.files, 'file')}, {human_size(log.bytes)}: {', '.join(kinds)}"
    yield "checkpoint", "none" if report.base is None else _base(report.base)
    older = [found for found in report.checkpoints if report.base is None or found.version < report.base.version]
    if older:
        shown = [f"version {found.version} ({found.kind}, {human_size(found.bytes)})" for found in older[:_MOST_SHOWN]]
        left = log.checkpoints - (len(report.checkpoints) - len(older)) - len(shown)
        yield "others", ", ".join(shown) + (f" and {left:,} more" if left > 0 else "")
    largest = f"; the largest is {tail.largest_version} with {human_size(tail.largest_bytes)}"
    after = "commits after it" if report.base is not None else "commits"
    yield after, f"{tail.commits:,}, {human_size(tail.bytes)}" + (largest if tail.commits > 1 else "")
    if report.metadata_sidecars is not None:
        yield "metadata sidecar", _sidecar(report.metadata_sidecars)
    hint = log.last_checkpoint
    yield "_last_checkpoint", hint.state + ("" if hint.version is None else f", version {hint.version}")


def _base(base: BaseReport) -> str:
    parts = "" if base.files == 1 else f", {base.files:,} files"
    text = f"version {base.version}, {base.kind}{parts}, {human_size(base.bytes)}"
    if not base.footers:
        return text
    inside = [counted(base.row_groups, "row group"), counted(base.rows, "row")]
    forms = [name for name, has in (("JSON", base.json_stats), ("columns", base.struct_stats)) if has]
    if base.json_stats is not None:
        inside.append(f"statistics as {' and '.join(forms)}" if forms else "no statistics")
    if base.in_time_order is not None:
        inside.append("in order of time" if base.in_time_order else "not in order of time")
    sampled = f" in the first {base.footers:,} files" if base.footers < base.files and base.kind != "V2" else ""
    return f"{text}: {', '.join(inside)}{sampled}"


def _sidecar(sidecars: SidecarsReport) -> str:
    base = sidecars.base
    if base is None:
        newest = f" (the newest is of version {sidecars.versions[0]})" if sidecars.versions else ""
        return {"none": "none", "disabled": f"disabled{newest}"}.get(sidecars.reason or "", f"none is used{newest}")
    how = "" if base.tier == 1 else ", by its footer"
    inside = [
        counted(base.row_groups, "row group"),
        counted(base.files, "row"),
        f"statistics of {counted(base.statistics, 'column')}",
        f"sorted by {', '.join(base.sorted_by) or 'path'}",
    ]
    after = f"; {counted(base.commits, 'commit')} after it" if base.commits else ""
    return f"version {base.version}{how}, {human_size(base.bytes)}: {', '.join(inside)}{after}"


def _sizes(report: TableReport) -> str:
    if report.estimate is None:
        return ""
    files, size = report.estimate.files, report.estimate.bytes
    if size.is_exact:
        average = f"; {human_size(size.lower // files.lower)} a file" if files.is_exact and files.lower else ""
        return human_size(size.lower) + average
    if size.upper is None:
        return f"{human_size(size.lower)} or more" if size.lower else "not known"
    return f"{human_size(size.lower)} to {human_size(size.upper)}"


def _range(number: Range) -> str:
    if number.is_exact:
        return f"{number.lower:,}"
    if number.upper is None:
        return f"{number.lower:,} or more" if number.lower else "not known"
    return f"{number.lower:,} to {number.upper:,}"


def _finding(finding: Finding, width: int) -> Iterator[str]:
    head = click.style(finding.severity, fg=_COLOURS[finding.severity], bold=True)
    yield f"{head}: {finding.code}"
    for text, first in ((finding.message, "  "), (finding.advice, "  -> ")):
        yield from textwrap.wrap(
            printable(text),
            width,
            initial_indent=first,
            subsequent_indent=" " * len(first),
            break_long_words=False,
            break_on_hyphens=False,
        )
    yield ""
