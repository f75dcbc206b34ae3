"""Commands on the metadata sidecars of a table: `build` makes one, `vacuum` deletes old ones."""

from __future__ import annotations

import re
from datetime import timedelta
from functools import partial
from typing import TYPE_CHECKING, Any

import click

from delta_sidecar.cli import options
from delta_sidecar.cli.process import command, in_background
from delta_sidecar.cli.text import (
    counted,
    echo,
    echo_report,
    folded,
    human_size,
    labelled,
    printable,
    terminal_width,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from delta_sidecar.build import BuildSummary
    from delta_sidecar.maintain.vacuum import VacuumSummary


@command(
    "Build the metadata sidecar of a Delta table.",
    """
    delta-sidecar build ./telemetry
    delta-sidecar build ./telemetry --version 41
    delta-sidecar build ./events --sort event_ts --summaries device_id,temperature
    delta-sidecar build ./telemetry --output json | jq .files
    delta-sidecar build abfss://lake@account.dfs.core.windows.net/telemetry --engine spark
    """,
)
@options.table
@options.version
@click.option(
    "--bucket-column",
    metavar="COLUMN",
    help="The partition column that holds the time bucket, by which files are sorted. [default: _event_hour]",
)
@click.option("--sort", metavar="COLUMN", help="The time column. [default: the first timestamp with statistics]")
@click.option(
    "--summaries",
    metavar="COLUMN,...",
    callback=options.column_names,
    help="Other columns whose bounds every row group tells, so that predicates on them skip row groups.",
)
@click.option(
    "--rows-per-group",
    type=click.IntRange(1, 1 << 20),
    metavar="N",
    help="Files in a row group: what a reader fetches at once. [default: 10000]",
)
@click.option(
    "--engine",
    type=click.Choice(["local", "spark"]),
    default="local",
    help="What builds it: this machine, or Spark, which spreads the work and writes parts.",
)
@click.option(
    "--memory-limit",
    metavar="SIZE",
    help="local: most memory to sort in; the rest is on disk. About 0.5GB are needed besides. [default: 1GB]",
)
@click.option(
    "--temp-directory",
    metavar="FOLDER",
    type=click.Path(file_okay=False),
    help="local: where temporary files go. [default: the machine's own]",
)
@click.option(
    "--rows-per-part",
    type=click.IntRange(1, 1 << 31),
    metavar="N",
    help="spark: files in a part, about: what one task sorts and writes. [default: 250000]",
)
@click.option(
    "--master",
    metavar="URL",
    help="spark: where it runs, such as local[4] or yarn. [default: as Spark is configured, else this machine]",
)
@options.output
@options.storage
def build(*, table: str, engine: str, output: str, **flags: Any) -> None:  # noqa: ANN401 - the flags of the command
    """Build the metadata sidecar of the Delta table at TABLE, and put it into its _delta_log/_sidecars.

    Readers with a sidecar find the files of a query without reading the checkpoint. The table itself does not change;
    one that is there already and good is not built again.
    """
    from delta_sidecar.cli.progress import build_progress

    other = "spark" if engine == "local" else "local"
    for name in _FLAGS_OF[other]:
        if flags.pop(name) is not None:
            msg = f"--{name.replace('_', '-')} is for --engine {other}"
            raise click.UsageError(msg)
    chosen = {name: value for name, value in flags.items() if value is not None}
    with build_progress() as progress:
        build = _build_on_spark if engine == "spark" else _build_here
        summary = build(table, progress=progress, **chosen)
    echo_report(output, summary_lines(summary), summary.as_dict())


_FLAGS_OF = {"local": ("memory_limit", "temp_directory"), "spark": ("rows_per_part", "master")}


def _build_here(table: str, **flags: Any) -> BuildSummary:  # noqa: ANN401 - options of the build
    from delta_sidecar.build import build_sidecar

    return build_sidecar(table, **{"memory_limit": "1GB", **flags})


def _build_on_spark(table: str, *, master: str | None = None, **flags: Any) -> BuildSummary:  # noqa: ANN401 - as above
    from delta_sidecar.spark import build_sidecar, spark_session

    def build() -> BuildSummary:
        # The session ends with the process. A failure is one line of the command's own.
        spark = spark_session(
            table,
            name="delta-sidecar build",
            master=master,
            storage_options=flags["storage_options"],
            settings={"spark.log.level": "FATAL"},
        )
        return build_sidecar(spark, table, **flags)

    return in_background(build)


_line = partial(labelled, indent=12)


def summary_lines(summary: BuildSummary) -> Iterator[str]:
    """The metadata sidecar that a build made, or found."""
    yield _line("table", f"{summary.table}, version {summary.version}")
    yield _line("sidecar", f"_delta_log/_sidecars/{summary.file}, {human_size(summary.bytes)}")
    pieces = f"index {human_size(summary.index_bytes)}, statistics {human_size(summary.stats_bytes)}"
    yield _line("", f"{pieces}; manifest {human_size(summary.manifest_bytes)}")
    yield _line("files", f"{summary.files:,} in {counted(summary.row_groups, 'row group')}")
    yield _line("sorted by", summary.sorted_by)
    yield _line("time column", summary.time_column or "none: no timestamp has statistics (--sort names one)")
    yield _line("statistics", _statistics(summary))
    yield ""
    taken = f"{summary.seconds:.1f} s"
    if summary.already_there:
        yield click.style(f"It is there already and good: nothing was built ({taken}).", bold=True)
    else:
        yield click.style(f"Built in {taken}.", bold=True)


def _statistics(summary: BuildSummary) -> str:
    text = f"of {counted(summary.stats_columns, 'column')}"
    if summary.kept_texts:
        return f"{text}; beside them the text of {counted(summary.kept_texts, 'file')}, which cannot be rebuilt"
    return text


_MOST_UNKNOWN = 10
_HOURS = re.compile(r"(\d{1,7})\s*(h|d|w)?", re.IGNORECASE)
_IN_HOURS = {"h": 1, "d": 24, "w": 7 * 24}


def _retention(_: click.Context, __: click.Parameter, text: str) -> timedelta:
    """Reads hours, or a span of time with a unit."""
    from delta_sidecar.log.commit_times import read_interval

    if hours := _HOURS.fullmatch(text.strip()):
        return timedelta(hours=int(hours[1]) * _IN_HOURS[(hours[2] or "h").lower()])
    try:
        return read_interval(text)
    except ValueError:
        msg = "hours are expected, or a span such as '7 days', '36h' or '2w'"
        raise click.BadParameter(msg) from None


@command(
    "Delete metadata sidecars that no reader needs any more.",
    """
    delta-sidecar vacuum ./telemetry --dry-run
    delta-sidecar vacuum ./telemetry --keep 3 --retention "2 days"
    delta-sidecar vacuum ./telemetry --output json | jq .deleted_bytes
    """,
)
@options.table
@click.option(
    "--keep",
    type=click.IntRange(min=1),
    default=2,
    metavar="N",
    help="So many of the newest metadata sidecars that can be used stay.",
)
@click.option(
    "--retention",
    default="7 days",
    callback=_retention,
    metavar="HOURS",
    help="Nothing younger is deleted: hours, or a span such as '2 days' or '36h'.",
)
@click.option("--dry-run", is_flag=True, help="Only show what would be deleted.")
@options.output_of("A line for each file that is deleted, or one JSON object.")
@options.storage
def vacuum(*, table: str, output: str, **flags: Any) -> None:  # noqa: ANN401 - the flags of the command
    """Delete metadata sidecars of the Delta table at TABLE that no reader needs any more.

    Old ones, those of a table that was here before, and what builds left behind. Files of Delta itself are never
    touched, and what cannot be told whose it is stays. Lines show the file, its size, its age and why it goes.
    """
    from delta_sidecar.maintain.vacuum import vacuum_sidecars

    summary = vacuum_sidecars(table, **flags)
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
