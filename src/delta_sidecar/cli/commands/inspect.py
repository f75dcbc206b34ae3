"""`delta-sidecar inspect`: the state of a table's log, and what would slow a reader down."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING

import click

from delta_sidecar.cli import options
from delta_sidecar.cli.process import FAILED, Command
from delta_sidecar.cli.text import counted, echo_report, human_size, labelled, requests_text

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from delta_sidecar.health.report import BaseReport, SidecarsReport, TableReport
    from delta_sidecar.replay.estimate import Range


# The mark keeps the lines as they are.
_EXAMPLES = """\b
Examples:
  delta-sidecar inspect ./telemetry
  delta-sidecar inspect ./telemetry --output json | jq .findings
  delta-sidecar inspect ./telemetry --fail-on warning
"""


@click.command(cls=Command, epilog=_EXAMPLES, short_help="Show the state of a Delta table's log, and what to do.")
@options.table
@options.version
@options.timestamp
@options.output
@click.option(
    "--fail-on",
    type=click.Choice(["warning", "problem"]),
    help="Exit code 1 if there is such a finding, or a graver one.",
)
@options.storage
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
    from delta_sidecar.health import inspect_table

    report = inspect_table(table, version=version, timestamp=timestamp, storage_options=storage_options)
    echo_report(output, _lines(report), report.as_dict())
    if fail_on is not None and _is_at_least(report, fail_on):
        raise click.exceptions.Exit(FAILED)


def _is_at_least(report: TableReport, severity: str) -> bool:
    from delta_sidecar.health.report import SEVERITIES

    severities: tuple[str, ...] = SEVERITIES
    worst = report.worst()
    return worst is not None and severities.index(worst) >= severities.index(severity)


# Lines for people: facts by name, then findings with what to do.

_COLOURS = {"problem": "red", "warning": "yellow", "info": "cyan"}
_LABEL = 18
_NARROWEST, _WIDEST = 60, 110
_MOST_SHOWN = 3


def _lines(report: TableReport) -> Iterator[str]:
    width = max(_NARROWEST, min(_WIDEST, shutil.get_terminal_size((_WIDEST, 24)).columns))
    for name, text in _facts(report):
        yield click.style(f"{name:<{_LABEL}}", bold=True) + labelled("", text, _LABEL, width)[_LABEL:]
    yield ""
    for finding in report.findings:
        yield f"{click.style(finding.severity, fg=_COLOURS[finding.severity], bold=True)}: {finding.code}"
        yield labelled("", finding.message, 2, width)
        yield labelled("  ->", finding.advice, 5, width)
        yield ""
    if not report.findings:
        yield click.style("Nothing to report.", fg="green")
    yield click.style(f"read by {requests_text(report.requests)}", dim=True)


def _facts(report: TableReport) -> Iterator[tuple[str, str]]:
    yield "table", report.table
    yield "version", _versions(report)
    if report.refusal is not None:
        yield "scanned", "no, see below"
    yield from _metadata(report)
    if report.estimate is not None:
        files, size = report.estimate.files, report.estimate.bytes
        yield "files", _range(files)
        is_known = size.is_exact and files.is_exact and files.lower
        average = f"; {human_size(size.lower // files.lower)} a file" if is_known else ""
        yield "size", _range(size, human_size) + average
        yield "rows", _range(report.estimate.rows)
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


def _range(number: Range, form: Callable[[int], str] = "{:,}".format) -> str:
    if number.is_exact:
        return form(number.lower)
    if number.upper is None:
        return f"{form(number.lower)} or more" if number.lower else "not known"
    return f"{form(number.lower)} to {form(number.upper)}"
