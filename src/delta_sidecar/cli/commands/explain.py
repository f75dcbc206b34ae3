"""`delta-sidecar explain`: what a scan is going to do, and why; with --analyze, what it did."""

from __future__ import annotations

import json
from functools import partial
from typing import TYPE_CHECKING, Any

import click

from delta_sidecar.cli import options
from delta_sidecar.cli.process import Command
from delta_sidecar.cli.text import GAP, TextColumn, counted, echo, human_size, labelled, requests_text, terminal_width

if TYPE_CHECKING:
    from collections.abc import Iterator

    from delta_sidecar.scan.explain import BaseExplanation, Explanation
    from delta_sidecar.scan.files import ScanMetrics

_LABEL = 10
_CELL = 11
_WIDE = _LABEL + 5 * (_CELL + len(GAP))

# The mark keeps the lines as they are.
_EXAMPLES = """\b
Examples:
  delta-sidecar explain ./telemetry --where "_event_hour >= '2026021022'"
  delta-sidecar explain ./telemetry --limit 100 --analyze
"""


@click.command(cls=Command, epilog=_EXAMPLES, short_help="Say how a scan is going to go, and why.")
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
def explain(
    *,
    table: str,
    analyze: bool,
    output: str,
    storage_options: dict[str, str],
    **scan: Any,  # noqa: ANN401 - options of the scan by their names
) -> None:
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
        echo(_lines(plan))


_line = partial(labelled, indent=_LABEL)


def _lines(plan: Explanation) -> Iterator[str]:
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
        return f"read: {counted(base.segments, 'segment')} of the manifest, which tell of the row groups"
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
    columns = [TextColumn("", to_right=True, width=max(least, *map(len, texts))) for texts in zip(*rows, strict=True)]
    for label, *texts in rows:
        line = f"{label:<{_LABEL}}{GAP}{GAP.join(map(TextColumn.place, columns[1:], texts))}"
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
