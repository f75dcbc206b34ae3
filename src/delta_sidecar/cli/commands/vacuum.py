"""`delta-sidecar vacuum`: old metadata sidecars, and what builds left behind, go."""

from __future__ import annotations

import json
import re
from datetime import timedelta
from typing import TYPE_CHECKING

import click

from delta_sidecar.cli.options import ONE_TABLE, only_one_table, storage_option, table_argument
from delta_sidecar.cli.output import counted, folded, human_size, printable, terminal_width
from delta_sidecar.cli.process import ending, is_colourless

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


def _retention(ctx: click.Context, param: click.Parameter, given: str) -> timedelta:
    """Reads hours, or a span of time with a unit."""
    from delta_sidecar.log.commit_times import read_interval

    if hours := _HOURS.fullmatch(given.strip()):
        return timedelta(hours=int(hours[1]) * _IN_HOURS[(hours[2] or "h").lower()])
    try:
        return read_interval(given)
    except ValueError:
        msg = "hours are expected, or a span such as '7 days', '36h' or '2w'"
        raise click.BadParameter(msg, ctx, param) from None


@click.command(
    context_settings=ONE_TABLE, epilog=_EXAMPLES, short_help="Delete metadata sidecars that no reader needs any more."
)
@table_argument
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
@storage_option
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
    only_one_table()
    with ending():
        from delta_sidecar.maintain.vacuum import vacuum_sidecars

        summary = vacuum_sidecars(
            table, keep=keep, retention=retention, dry_run=dry_run, storage_options=storage_options
        )
        if output == "json":
            # Whatever is no ASCII letter is escaped: nothing in a name can steer a terminal.
            click.echo(json.dumps(summary.as_dict(), indent=2))
        else:
            for line in deletion_lines(summary):
                click.echo(line)
        for text in summary_lines(summary):
            for line in folded(text, terminal_width(err=True)):
                click.echo(line, err=True, color=False if is_colourless() else None)


def deletion_lines(summary: VacuumSummary) -> Iterator[str]:
    """A line for each file that is deleted: its name, size, age and why."""
    names = [printable(file.path) for file in summary.deleted]
    width = max(map(len, names), default=0)
    for name, file in zip(names, summary.deleted, strict=True):
        yield f"{name:<{width}}  {human_size(file.size):>8}  {span(file.age):>8}  {printable(file.reason)}"


def summary_lines(summary: VacuumSummary) -> Iterator[str]:
    """What a clean-up came to, and what stays."""
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
            f"{'is' if waiting.files == 1 else 'are'} younger than {span(summary.retention)}"
        )
    if summary.unknown_count:
        yield f"{counted(summary.unknown_count, 'unknown file')}, left alone:"
        for unknown in summary.unknown[:_MOST_UNKNOWN]:
            yield f"  {printable(unknown.path)} ({human_size(unknown.size)}): {printable(unknown.reason)}"
        if summary.unknown_count > _MOST_UNKNOWN:
            yield f"  and {summary.unknown_count - min(_MOST_UNKNOWN, len(summary.unknown)):,} more"


def span(time: timedelta) -> str:
    """A span of time for people: its largest whole unit."""
    seconds = int(time.total_seconds())
    for unit, length in (("day", 86_400), ("hour", 3_600), ("minute", 60)):
        if seconds >= length:
            return counted(seconds // length, unit)
    return counted(seconds, "second")
