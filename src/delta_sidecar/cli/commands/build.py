"""`delta-sidecar build`: the metadata sidecar of a table is made and put into it."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import click

from delta_sidecar.cli import options
from delta_sidecar.cli.process import Command, in_background
from delta_sidecar.cli.text import counted, echo_report, human_size, labelled

if TYPE_CHECKING:
    from collections.abc import Iterator

    from delta_sidecar.build import BuildSummary

# The mark keeps the lines as they are.
_EXAMPLES = """\b
Examples:
  delta-sidecar build ./telemetry
  delta-sidecar build ./telemetry --version 41
  delta-sidecar build ./events --sort event_ts --summaries device_id,temperature
  delta-sidecar build ./telemetry --output json | jq .files
  delta-sidecar build abfss://lake@account.dfs.core.windows.net/telemetry --engine spark
"""


@click.command(cls=Command, epilog=_EXAMPLES, short_help="Build the metadata sidecar of a Delta table.")
@options.table
@options.version
@click.option(
    "--bucket-column",
    metavar="COLUMN",
    help="The partition column that holds the time bucket, by which files are sorted. [default: _event_hour]",
)
@click.option(
    "--sort",
    metavar="COLUMN",
    help="The time column. [default: the first timestamp with statistics]",
)
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
    show_default=True,
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
