"""Commands that report on a table's log: `inspect` on its state, `explain` on what a scan does with it."""

from __future__ import annotations

import json
from functools import partial
from typing import TYPE_CHECKING, Any

import click

from delta_sidecar.cli import options
from delta_sidecar.cli.process import FAILED, command
from delta_sidecar.cli.text import (
    GAP,
    counted,
    echo,
    echo_report,
    human_size,
    labelled,
    requests_text,
    terminal_width,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from delta_sidecar.health.report import BaseReport, SidecarsReport, TableReport
    from delta_sidecar.replay.estimate import Range
    from delta_sidecar.scan.explain import BaseExplanation, Explanation
    from delta_sidecar.scan.files import ScanMetrics


@command(
    "Show the state of a Delta table's log, and what to do.",
    """
    delta-sidecar inspect ./telemetry
    delta-sidecar inspect ./telemetry --output json | jq .findings
    delta-sidecar inspect ./telemetry --fail-on warning
    """,
)
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
def inspect(*, table: str, output: str, fail_on: str | None, **opening: Any) -> None:  # noqa: ANN401
    """Show the state of the log of the Delta table at TABLE, a folder or an address.

    Versions, checkpoints, commits since the newest one, files, and findings: what would slow a reader down, or stop
    it, and what to do. A few requests are made, and the file list is not read.
    """
    from delta_sidecar.health import inspect_table

    report = inspect_table(table, **opening)
    echo_report(output, _state_lines(report), report.as_dict())
    if fail_on is not None:
        from delta_sidecar.health.report import SEVERITIES

        severities: tuple[str, ...] = SEVERITIES
        if report.worst() in severities[severities.index(fail_on) :]:
            raise click.exceptions.Exit(FAILED)


_COLOURS = {"problem": "red", "warning": "yellow", "info": "cyan"}
_FACT = 18
_NARROWEST, _WIDEST = 60, 110
_MOST_SHOWN = 3


def _state_lines(report: TableReport) -> Iterator[str]:
    import shutil

    width = max(_NARROWEST, min(_WIDEST, shutil.get_terminal_size((_WIDEST, 24)).columns))
    for name, text in _facts(report):
        yield click.style(f"{name:<{_FACT}}", bold=True) + labelled("", text, _FACT, width)[_FACT:]
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
    yield "checkpoint", "none" if report.base is None else _base_text(report.base)
    older = [found for found in report.checkpoints if report.base is None or found.version < report.base.version]
    if older:
        shown = [f"version {found.version} ({found.kind}, {human_size(found.bytes)})" for found in older[:_MOST_SHOWN]]
        left = log.checkpoints - (len(report.checkpoints) - len(older)) - len(shown)
        yield "others", ", ".join(shown) + (f" and {left:,} more" if left > 0 else "")
    largest = f"; the largest is {tail.largest_version} with {human_size(tail.largest_bytes)}"
    after = "commits after it" if report.base is not None else "commits"
    yield after, f"{tail.commits:,}, {human_size(tail.bytes)}" + (largest if tail.commits > 1 else "")
    if report.metadata_sidecars is not None:
        yield "metadata sidecar", _sidecar_text(report.metadata_sidecars)
    hint = log.last_checkpoint
    yield "_last_checkpoint", hint.state + ("" if hint.version is None else f", version {hint.version}")


def _base_text(base: BaseReport) -> str:
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


def _sidecar_text(sidecars: SidecarsReport) -> str:
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


@command(
    "Say how a scan is going to go, and why.",
    """
    delta-sidecar explain ./telemetry --where "_event_hour >= '2026021022'"
    delta-sidecar explain ./telemetry --limit 100 --analyze
    """,
)
@options.table
@options.where
@options.limit
@options.strategy
@options.order
@options.version
@options.timestamp
@click.option("--analyze", is_flag=True, help="Run the scan too, and say what it read and what was pruned where.")
@options.output
@options.storage
def explain(*, table: str, analyze: bool, output: str, storage_options: dict[str, str], **scan: Any) -> None:  # noqa: ANN401
    """Say how a scan of the Delta table at TABLE is going to go: strategy, commits, base, what files are tested by.

    The table is opened and its base is looked at: a metadata sidecar by its manifest, a checkpoint by its footers. No
    file entry is read without --analyze.
    """
    from delta_sidecar.scan.config import LazyScanConfig
    from delta_sidecar.scan.scanner import LazyDeltaScanner

    with LazyDeltaScanner(table, LazyScanConfig(**scan), storage_options=storage_options) as scanner:
        plan = scanner.explain(analyze=analyze)
    if output == "json":
        click.echo(json.dumps(plan.to_dict(), indent=2, ensure_ascii=False))
    else:
        echo(_plan_lines(plan))


_LABEL = 10
_CELL = 11
_WIDE = _LABEL + 5 * (_CELL + len(GAP))
_line = partial(labelled, indent=_LABEL)


def _plan_lines(plan: Explanation) -> Iterator[str]:
    yield _line("table", f"{plan.table}, version {plan.version}")
    limit = "" if plan.limit is None else f", at most {plan.limit:,}"
    yield _line("wanted", f"{plan.predicate or 'all files'}{limit}")
    yield _line("strategy", f"{plan.strategy}: {plan.reason}")
    yield _line("order", _order(plan))
    for name, reason in plan.passed_over:
        yield _line("unusable", f"{name}: {reason}")
    yield ""
    tail = [_line("tail", f"{counted(plan.commits, 'commit')}, {human_size(plan.commit_bytes)}")]
    base = list(_base(plan))
    yield from (*tail, *base) if plan.strategy == "reverse" else (*base, *tail)
    yield _line("tests", _tests(plan))
    yield ""
    yield _line("looked", requests_text(plan.opening))
    if plan.actual is None:
        yield _line("expected", _expected(plan))
    else:
        yield from _actual(plan, plan.actual)


def _order(plan: Explanation) -> str:
    base = plan.base
    if plan.order == "any":
        return "any: as is cheapest"
    first = "recent: newest commits first"
    if base.version < 0:
        return first
    if base.tier == _CHECKPOINT:
        return f"{first}, then the checkpoint as it lies"
    if not base.newest_by:
        return f"{first}, then the sidecar from its end, which is in no order of time"
    return f"{first}, then the sidecar downward by {', '.join(base.newest_by)}"


def _base(plan: Explanation) -> Iterator[str]:
    base = plan.base
    if base.version < 0:
        yield _line("base", "none: the log is replayed from its start")
        return
    better = None if plan.fallback_reason is None else _REASONS.get(plan.fallback_reason, "see above")
    yield _line("base", f"{base.name}, version {base.version}: {_TIERS[base.tier]}")
    parts = f"{human_size(base.bytes)} in {counted(base.files, 'file')}, {counted(base.rows, 'row')}"
    groups = f"{counted(base.row_groups, 'row group')}"
    if base.row_groups_without_files:
        groups += f", {base.row_groups_without_files:,} without files"
    if base.row_groups_pruned:
        groups += f", {base.row_groups_pruned:,} of them without a match by the manifest"
    yield _line("", f"{parts}, {groups}")
    if base.tier < _CHECKPOINT:
        yield _line("", _read(base))
    if better is not None:
        yield _line("", f"{'not the newest' if base.tier == 1 else 'not tier 1'}: {better}")


_CHECKPOINT = 3
_TIERS = {
    1: "a metadata sidecar with its manifest (tier 1)",
    2: "a metadata sidecar by its footer (tier 2)",
    3: "a checkpoint (tier 3)",
}

# Others are about a metadata sidecar that is named among those that cannot be used.
_REASONS = {
    "none": "the log has no metadata sidecar; delta-sidecar build makes one",
    "disabled": "metadata sidecars are disabled (sidecar_enabled)",
    "too_old": "too many commits follow the log's metadata sidecars; delta-sidecar build makes a new one",
    "no_manifest": "the metadata sidecar has no manifest; delta-sidecar build makes a new one",
}


def _read(base: BaseExplanation) -> str:
    if base.segments:
        return f"read: {counted(base.segments, 'segment')} of the manifest, which list row groups"
    groups = base.row_groups - base.row_groups_pruned
    if not groups:
        return "read: nothing"
    statistics = f" and {human_size(base.statistics_bytes)} of statistics" if base.statistics_bytes else ""
    return f"read: {counted(groups, 'row group')}, {human_size(base.index_bytes or 0)} of index{statistics}"


def _tests(plan: Explanation) -> str:
    kinds = {"partition values": plan.pruned_by_partition, "statistics": plan.pruned_by_statistics}
    tests = [f"{kind} of {', '.join(columns)}" for kind, columns in kinds.items() if columns]
    return ", then ".join(tests) or "none: every live file is wanted"


def _expected(plan: Explanation) -> str:
    expected = plan.expected
    groups = counted(expected.row_groups_at_most, "row group")
    most = f"at most {counted(plan.commits, 'commit')}, {groups} and {human_size(expected.bytes_at_most)}"
    about = f"{counted(expected.requests_about, 'request')} and {counted(expected.trips_about, 'trip')}"
    return f"{most}; about {about}" if plan.limit is None else f"{most}; less where the limit is reached before"


def _actual(plan: Explanation, actual: ScanMetrics) -> Iterator[str]:
    entries = actual.entries
    yield ""
    tail = entries.commit_adds - entries.commit_hidden - entries.commit_pruned
    early, late = entries.base_pruned_early, entries.base_pruned
    base = entries.base_adds - entries.base_hidden - early - late
    rows = [
        ("", "met", "dead", "partition", "statistics", "left"),
        ("tail", *map(_number, (entries.commit_adds, entries.commit_hidden, None, entries.commit_pruned, tail))),
        ("base", *map(_number, (entries.base_adds, entries.base_hidden, early, late, base))),
    ]
    least = _CELL if (terminal_width() or _WIDE) >= _WIDE else 0
    widths = [max(least, *map(len, texts)) for texts in zip(*rows, strict=True)][1:]
    for label, *texts in rows:
        line = f"{label:<{_LABEL}}{GAP}{GAP.join(map(str.rjust, texts, widths))}"
        yield line if label else click.style(line, bold=True)
    yield ""
    trips = actual.trips_to_first_file
    first = "" if trips is None else f", the first after {counted(trips, 'trip')}"
    ended = "" if actual.is_complete else " (the limit)"
    yield _line("found", f"{counted(actual.files_emitted, 'file')}{ended} in {plan.milliseconds or 0:,.0f} ms{first}")
    groups = f"{counted(actual.row_groups_read, 'row group')}, {actual.row_groups_skipped:,} skipped"
    yield _line("read", f"{counted(actual.commits_read, 'commit')}, {groups}; {requests_text(actual.requests)}")
    yield _line("kept", f"{counted(actual.seen_keys or 0, 'key')} of the tail, as {actual.seen_tier}")
    if actual.fallbacks:
        yield _line("fallback", "strict mode tripped, and the scan went on in the standard chain")


def _number(number: int | None) -> str:
    return "-" if number is None else f"{number:,}"
