"""`delta-sidecar vacuum`: old metadata sidecars, and what builds left behind, go."""

from __future__ import annotations

import re
from datetime import timedelta
from typing import TYPE_CHECKING

import click

from delta_sidecar.cli import options
from delta_sidecar.cli.process import Command
from delta_sidecar.cli.text import counted, echo, echo_report, folded, human_size, printable, terminal_width

if TYPE_CHECKING:
    from collections.abc import Iterator

    from delta_sidecar.maintain.vacuum import VacuumSummary

# The mark keeps the lines as they are.
_EXAMPLES = """\b
Examples:
  delta-sidecar vacuum ./telemetry --dry-run
  delta-sidecar vacuum ./telemetry --keep 3 --retention "2 days"
  delta-sidecar vacuum ./telemetry --output json | jq .deleted_bytes
"""

_MOST_UNKNOWN = 10
_HOURS = re.compile(r"(\d{1,7})\s*(h|d|w)?", re.IGNORECASE)
_IN_HOURS = {"h": 1, "d": 24, "w": 7 * 24}


def _retention(ctx: click.Context, param: click.Parameter, text: str) -> timedelta:
    """Reads hours, or a span of time with a unit."""
    from delta_sidecar.log.commit_times import read_interval

    if hours := _HOURS.fullmatch(text.strip()):
        return timedelta(hours=int(hours[1]) * _IN_HOURS[(hours[2] or "h").lower()])
    try:
        return read_interval(text)
    except ValueError:
        msg = "hours are expected, or a span such as '7 days', '36h' or '2w'"
        raise click.BadParameter(msg, ctx, param) from None


@click.command(cls=Command, epilog=_EXAMPLES, short_help="Delete metadata sidecars that no reader needs any more.")
@options.table
@click.option(
    "--keep",
    type=click.IntRange(min=1),
    default=2,
    show_default=True,
    metavar="N",
    help="So many of the newest metadata sidecars that can be used stay.",
)
@click.option(
    "--retention",
    default="7 days",
    callback=_retention,
    show_default=True,
    metavar="HOURS",
    help="Nothing younger is deleted: hours, or a span such as '2 days' or '36h'.",
)
@click.option("--dry-run", is_flag=True, help="Only show what would be deleted.")
@click.option(
    "--output",
    type=click.Choice(["text", "json"]),
    default="text",
    show_default=True,
    help="A line for each file that is deleted, or one JSON object.",
)
@options.storage
def vacuum(
    *,
    table: str,
    keep: int,
    retention: timedelta,
    dry_run: bool,
    output: str,
    storage_options: dict[str, str],
) -> None:
    """Delete metadata sidecars of the Delta table at TABLE that no reader needs any more.

    Old ones, those of a table that was here before, and what builds left behind. Files of Delta itself are never
    touched, and what cannot be told whose it is stays. Lines show the file, its size, its age and why it goes.
    """
    from delta_sidecar.maintain.vacuum import vacuum_sidecars

    summary = vacuum_sidecars(table, keep=keep, retention=retention, dry_run=dry_run, storage_options=storage_options)
    echo_report(output, _deletion_lines(summary), summary.as_dict())
    width = terminal_width(err=True)
    echo((line for text in _summary_lines(summary) for line in folded(text, width)), err=True)


def _deletion_lines(summary: VacuumSummary) -> Iterator[str]:
    names = [printable(file.path) for file in summary.deleted]
    width = max(map(len, names), default=0)
    for name, file in zip(names, summary.deleted, strict=True):
        yield f"{name:<{width}}  {human_size(file.size):>8}  {_span(file.age):>8}  {printable(file.reason)}"


def _summary_lines(summary: VacuumSummary) -> Iterator[str]:
    for note in summary.notes:
        yield f"{click.style('warning:', fg='yellow', bold=True)} {printable(note)}"
    done = "would delete" if summary.dry_run else "deleted"
    size = human_size(summary.deleted_bytes)
    yield f"{done} {counted(len(summary.deleted), 'file')}, {size}" if summary.deleted else "nothing to delete"
    for kept in summary.kept:
        about = f"{counted(kept.files, 'file')}, {human_size(kept.bytes)}"
        yield f"kept version {kept.version} ({about}): {printable(kept.reason)}"
    waiting = summary.waiting
    if waiting.files:
        yield (
            f"{counted(waiting.files, 'file')} that nobody needs ({human_size(waiting.bytes)}) "
            f"{'is' if waiting.files == 1 else 'are'} younger than {_span(summary.retention)}"
        )
    if summary.unknown_count:
        yield f"{counted(summary.unknown_count, 'unknown file')}, left alone:"
        for unknown in summary.unknown[:_MOST_UNKNOWN]:
            yield f"  {printable(unknown.path)} ({human_size(unknown.size)}): {printable(unknown.reason)}"
        if summary.unknown_count > _MOST_UNKNOWN:
            yield f"  and {summary.unknown_count - min(_MOST_UNKNOWN, len(summary.unknown)):,} more"


def _span(time: timedelta) -> str:
    seconds = int(time.total_seconds())
    for unit, length in (("day", 86_400), ("hour", 3_600), ("minute", 60)):
        if seconds >= length:
            return counted(seconds // length, unit)
    return counted(seconds, "second")
