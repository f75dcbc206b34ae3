"""`delta-sidecar explain`: what a scan is going to do, and why; with --analyze, what it did."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Literal

import click

from delta_sidecar.cli.options import (
    ONE_TABLE,
    limit_option,
    only_one_table,
    order_option,
    output_option,
    storage_option,
    strategy_option,
    table_argument,
    timestamp_option,
    version_option,
    where_option,
)
from delta_sidecar.cli.output import counted, human_size, labelled, terminal_width
from delta_sidecar.cli.process import ending, is_colourless

if TYPE_CHECKING:
    from collections.abc import Iterator

    from delta_sidecar.scan.explain import BaseExplanation, Explanation
    from delta_sidecar.scan.files import ScanMetrics
    from delta_sidecar.store import RequestCounts

_LABEL = 10
_CELL = 13
_WIDE = _LABEL + 5 * _CELL

# The mark keeps the lines as they are.
_EXAMPLES = """\b
Examples:
  delta-sidecar explain ./telemetry --where "_event_hour >= '2026021022'"
  delta-sidecar explain ./telemetry --limit 100 --analyze
"""


@click.command(context_settings=ONE_TABLE, epilog=_EXAMPLES, short_help="Say how a scan is going to go, and why.")
@table_argument
@where_option
@limit_option
@strategy_option
@order_option
@version_option
@timestamp_option
@click.option("--analyze", is_flag=True, help="Run the scan too, and say what it read and what was pruned where.")
@output_option
@storage_option
def explain(  # noqa: PLR0913 - the flags of the command
    *,
    table: str,
    where: str | None,
    limit: int | None,
    strategy: str | None,
    order: Literal["recent", "any"] | None,
    version: int | None,
    timestamp: str | None,
    analyze: bool,
    output: str,
    storage_options: dict[str, str],
) -> None:
    """Say how a scan of the Delta table at TABLE is going to go: strategy, commits, base, what files are tested by.

    The table is opened and its base is looked at: a metadata sidecar by its manifest, a checkpoint by its footers. No
    file entry is read without --analyze.
    """
    only_one_table()
    with ending():
        from delta_sidecar.scan.config import LazyScanConfig
        from delta_sidecar.scan.scanner import LazyDeltaScanner

        config = LazyScanConfig(
            predicate=where, limit=limit, strategy=strategy, order=order, version=version, timestamp=timestamp
        )
        with LazyDeltaScanner(table, config, storage_options=storage_options) as scanner:
            explanation = scanner.explain(analyze=analyze)
        if output == "json":
            click.echo(json.dumps(explanation.to_dict(), indent=2, ensure_ascii=False))
            return
        for line in _lines(explanation):
            click.echo(line, color=False if is_colourless() else None)


def _lines(told: Explanation) -> Iterator[str]:
    yield _line("table", f"{told.table}, version {told.version}")
    wanted = told.predicate or "all files"
    yield _line("wanted", wanted if told.limit is None else f"{wanted}, at most {told.limit:,}")
    yield _line("strategy", f"{told.strategy}: {told.reason}")
    yield _line("order", _order(told))
    for name, reason in told.passed_over:
        yield _line("unusable", f"{name}: {reason}")
    yield ""
    steps = [_tail(told), *_base(told)]
    yield from steps if told.strategy == "reverse" else [*steps[1:], steps[0]]
    yield _line("tests", _tests(told))
    yield ""
    yield _line("looked", _requests(told.opening))
    if told.actual is None:
        yield _line("expected", _expected(told))
    else:
        yield from _actual(told, told.actual)


def _order(told: Explanation) -> str:
    base = told.base
    if told.order == "any":
        return "any: as is cheapest"
    first = "recent: newest commits first"
    if base.version < 0:
        return first
    if base.tier == _CHECKPOINT:
        return f"{first}, then the checkpoint as it lies"
    if not base.newest_by:
        return f"{first}, then the sidecar from its end, which is in no order of time"
    return f"{first}, then the sidecar downward by {', '.join(base.newest_by)}"


def _tail(told: Explanation) -> str:
    return _line("tail", f"{counted(told.commits, 'commit')}, {human_size(told.commit_bytes)}")


def _base(told: Explanation) -> Iterator[str]:
    base = told.base
    if base.version < 0:
        yield _line("base", "none: the log is replayed from its start")
        return
    better = None if told.fallback_reason is None else _REASONS.get(told.fallback_reason, "see above")
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


def _tests(told: Explanation) -> str:
    tests = [
        f"{kind} of {', '.join(columns)}"
        for kind, columns in (
            ("partition values", told.pruned_by_partition),
            ("statistics", told.pruned_by_statistics),
        )
        if columns
    ]
    return ", then ".join(tests) if tests else "none: every live file is wanted"


def _expected(told: Explanation) -> str:
    expected = told.expected
    groups = counted(expected.row_groups_at_most, "row group")
    most = f"at most {counted(told.commits, 'commit')}, {groups} and {human_size(expected.bytes_at_most)}"
    about = f"{counted(expected.requests_about, 'request')} and {counted(expected.trips_about, 'trip')}"
    return f"{most}; about {about}" if told.limit is None else f"{most}; less where the limit is reached before"


def _actual(told: Explanation, actual: ScanMetrics) -> Iterator[str]:
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
    widths = [
        _CELL if (terminal_width() or _WIDE) >= _WIDE else 2 + max(map(len, texts)) for texts in zip(*rows, strict=True)
    ]
    for label, *texts in rows:
        line = f"{label:<{_LABEL}}" + "".join(f"{text:>{size}}" for text, size in zip(texts, widths[1:], strict=True))
        yield line if label else click.style(line, bold=True)
    yield ""
    first = (
        "" if actual.trips_to_first_file is None else f", the first after {counted(actual.trips_to_first_file, 'trip')}"
    )
    ended = "" if actual.is_complete else " (the limit)"
    yield _line("found", f"{counted(actual.files_emitted, 'file')}{ended} in {told.milliseconds or 0:,.0f} ms{first}")
    groups = f"{counted(actual.row_groups_read, 'row group')}, {actual.row_groups_skipped:,} skipped"
    yield _line("read", f"{counted(actual.commits_read, 'commit')}, {groups}; {_requests(actual.requests)}")
    yield _line("kept", f"{counted(actual.seen_keys or 0, 'key')} of the tail, as {actual.seen_tier}")
    if actual.fallbacks:
        yield _line("fallback", "strict mode tripped, and the scan went on in the standard chain")


def _number(number: int | None) -> str:
    return "-" if number is None else f"{number:,}"


def _line(label: str, text: str) -> str:
    return labelled(label, text, _LABEL)


def _requests(counts: RequestCounts) -> str:
    return f"{counted(counts.requests, 'request')}, {human_size(counts.bytes)}, {counted(counts.trips, 'trip')}"
