"""`delta-sidecar ingest`: files into a Delta table whose data files hold one time bucket each."""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Any

import click

from delta_sidecar.cli import options
from delta_sidecar.cli.process import Command, command, in_background
from delta_sidecar.cli.text import counted, echo_report, human_size, labelled

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rich.console import RenderableType

    from delta_sidecar.events import Event
    from delta_sidecar.spark.ingest.buckets import TimeBucket
    from delta_sidecar.spark.ingest.pipeline import IngestPipeline, WriteSummary
    from delta_sidecar.spark.ingest.sources import Source
    from delta_sidecar.store import Store

_FORMATS = {".json": "json", ".jsonl": "json", ".ndjson": "json", ".csv": "csv", ".parquet": "parquet"}


class _IngestCommand(Command):
    expected, hint = "SOURCE and TABLE are expected", ": put a pattern in quotes"


@command(
    "Write files into a Delta table, one time bucket a data file.",
    """
    delta-sidecar ingest readings.json ./telemetry --timestamp-column event_ts
    delta-sidecar ingest 'day/*.csv' ./telemetry --timestamp-column at --batch-id 41
    delta-sidecar ingest ./arriving ./telemetry --timestamp-column event_ts --format json \\
        --stream --checkpoint-location ./telemetry-stream
    """,
    cls=_IngestCommand,
)
@click.argument("source")
@options.table
@click.option("--timestamp-column", metavar="COLUMN", required=True, help="The column that time buckets come from.")
@click.option(
    "--timestamp-format",
    metavar="FORMAT",
    help="How it is written: a pattern of Spark's such as 'dd.MM.yyyy HH:mm', or epoch-s, epoch-ms, epoch-us for "
    "numbers. In UTC where it names no zone. [default: ISO 8601]",
)
@click.option(
    "--format",
    "source_format",
    type=click.Choice(["json", "csv", "parquet"]),
    help="What the files are; JSON has one object a line, CSV has names in its first. [default: by their names]",
)
@click.option(
    "--granularity",
    type=click.Choice(["month", "day", "hour", "minute", "second"]),
    help="How long a time bucket is. [default: as the table has it, else hour]",
)
@click.option(
    "--bucket-column",
    metavar="COLUMN",
    help="The partition column. [default: as the table has it, else _event_hour, _event_day, ...]",
)
@click.option(
    "--bad-timestamps",
    type=click.Choice(["reject", "null-bucket"]),
    default="reject",
    help="Rows without a timestamp, or with one outside the years 1 to 9999: nothing is written, or they go into the "
    "partition of rows without a bucket.",
)
@click.option(
    "--batch-id",
    type=click.IntRange(0, (1 << 63) - 1),
    metavar="N",
    help="A number that grows from batch to batch; one that was written is not written again.",
)
@click.option("--app-id", metavar="NAME", default="delta-sidecar", help="Whose batch ids they are.")
@click.option("--target-size", "target_file_size", metavar="SIZE", default="128MB", help="Size of large data files.")
@click.option(
    "--interval",
    "checkpoint_interval",
    type=click.IntRange(1, 1_000_000),
    metavar="N",
    default=10,
    help="Every N commits get a checkpoint and a metadata sidecar.",
)
@click.option("--merge-schema", is_flag=True, help="Add columns to the table that it does not have.")
@click.option("--no-sidecars", is_flag=True, help="Make no metadata sidecars.")
@click.option("--stream", "as_stream", is_flag=True, help="Go on with files that arrive, until it is interrupted.")
@click.option("--once", is_flag=True, help="With --stream: take what is new since the last time, and end.")
@click.option(
    "--checkpoint-location",
    metavar="FOLDER",
    help="With --stream: where it is kept how far it has come; the same again goes on from there.",
)
@click.option("--master", metavar="URL", help="Where Spark runs. [default: on this machine]")
@options.output
@options.storage
def ingest(*, source: str, table: str, output: str, **flags: Any) -> None:  # noqa: ANN401 - the flags
    """Write the files at SOURCE into the Delta table at TABLE, with Spark.

    SOURCE is a file, a folder or a pattern. The table is made where it is missing, partitioned by the time bucket of
    each row, so that a data file holds rows of one bucket alone. Nothing is written of files that cannot be read.
    """
    _check_stream(**flags)
    flags["source_format"] = flags["source_format"] or _format_of(source)
    act = _stream if flags["as_stream"] else _write
    act(source, table, output, flags)


def _check_stream(*, as_stream: bool, checkpoint_location: str | None, **others: Any) -> None:  # noqa: ANN401
    if as_stream and not checkpoint_location:
        msg = "--stream needs --checkpoint-location FOLDER, where it is kept how far it has come"
        raise click.UsageError(msg)
    if as_stream and others["batch_id"] is not None:
        msg = "--batch-id is for one batch; those of a stream have ids by themselves"
        raise click.UsageError(msg)
    if not as_stream and (others["once"] or checkpoint_location):
        msg = "--once and --checkpoint-location belong to --stream"
        raise click.UsageError(msg)


def _format_of(source: str) -> str:
    suffixes = PurePosixPath(source.rstrip("/")).suffixes
    found = next((_FORMATS[each.lower()] for each in reversed(suffixes) if each.lower() in _FORMATS), None)
    if found is None:
        msg = "--format is needed: the name of SOURCE does not tell what its files are"
        raise click.UsageError(msg)
    return found


@dataclass(slots=True)
class IngestCounts:
    """Numbers of what a pipeline has written so far, by its events."""

    batches: int = 0  # with rows
    skipped: int = 0  # batches that were written before
    rows: int = 0
    null_bucket_rows: int = 0  # rows among them without a time bucket
    files: int = 0
    bytes: int = 0
    version: int | None = None  # the newest; None before the first
    sidecar_version: int | None = None  # the newest that got a metadata sidecar
    sidecar_failures: int = 0
    stage: str = "starting Spark"  # of the progress line

    def __call__(self, event: Event) -> None:
        """Counts an event."""
        from delta_sidecar.events import BatchWritten, CheckpointTriggered

        if isinstance(event, BatchWritten):
            self.batches += event.outcome == "complete"
            self.skipped += event.outcome == "skipped"
            self.rows += event.rows
            self.null_bucket_rows += event.null_bucket_rows
            self.files += event.files
            self.bytes += event.bytes
            self.version = self.version if event.version is None else event.version
        elif isinstance(event, CheckpointTriggered):
            self.sidecar_version = event.version if event.built_sidecar else self.sidecar_version
            self.sidecar_failures += event.outcome == "failed"

    def text(self) -> str:
        """Rows, files and bytes."""
        return _size(self.rows, self.files, self.bytes)

    def line(self, seconds: float) -> RenderableType:
        """The progress line, which counts where there are several batches."""
        from delta_sidecar.cli.progress import progress_bar

        return progress_bar(f"{self.stage:<15}", self.text() if self.batches else "", seconds)


def _write(source: str, table: str, output: str, flags: dict[str, Any]) -> None:
    from delta_sidecar.cli.progress import Reporter

    counts = IngestCounts()

    def write() -> WriteSummary:
        spark, pipeline, files, store = _opened(source, table, counts, flags)
        counts.stage = "reading"
        rows = files.rows(spark, store)
        counts.stage = "writing"
        return pipeline.write(rows, batch_id=flags["batch_id"])

    with Reporter(counts.line):
        summary = in_background(write)
    echo_report(output, summary_lines(summary, flags["granularity"]), summary.as_dict())


def _stream(source: str, table: str, output: str, flags: dict[str, Any]) -> None:
    from delta_sidecar.cli.progress import Reporter
    from delta_sidecar.store.address import parse_address

    counts = IngestCounts()

    def stream() -> None:
        from delta_sidecar.spark.ingest.pipeline import wait_for

        spark, pipeline, files, store = _opened(source, table, counts, flags)
        counts.stage = "streaming"
        query = pipeline.write_stream(
            files.stream(spark),
            checkpoint_location=flags["checkpoint_location"],
            trigger={"availableNow": True} if flags["once"] else None,
            transform=lambda batch: files.arrived(batch, store),
        )
        wait_for(query)

    def show() -> None:
        # An address may hold a signature.
        shown = parse_address(table).url
        values = {"table": shown, **asdict(counts)}
        del values["stage"]
        echo_report(output, stream_lines(shown, counts), values)

    try:
        with Reporter(counts.line):
            in_background(stream)
    except KeyboardInterrupt:
        # The usual end of a stream. There are a few seconds to say what it did.
        show()
        raise
    except Exception:
        if counts.batches:
            show()
        raise
    show()


def _opened(
    source: str, table: str, counts: IngestCounts, flags: dict[str, Any]
) -> tuple[Any, IngestPipeline, Source, Any]:
    """The session, the pipeline, the files and the table's store."""
    from delta_sidecar.spark import IngestPipeline, spark_session
    from delta_sidecar.spark.access import spark_path
    from delta_sidecar.spark.ingest.sources import Source
    from delta_sidecar.store import open_store

    options = flags["storage_options"]
    files = Source(
        spark_path(source, options), flags["source_format"], flags["timestamp_column"], flags["timestamp_format"]
    )
    store = open_store(table, options)
    bucket = _bucket(store, flags)
    flags["granularity"] = bucket.granularity
    spark = spark_session(
        table,
        master=flags["master"],
        storage_options=options,
        # Timestamps that name no zone are in UTC. A failure is one line of the command's own.
        settings={"spark.sql.session.timeZone": "UTC", "spark.log.level": "FATAL"},
        others=[source, *filter(None, [flags["checkpoint_location"]])],
    )
    pipeline = IngestPipeline(
        spark,
        table,
        bucket=bucket,
        bad_timestamps=flags["bad_timestamps"].replace("-", "_"),
        sidecars=not flags["no_sidecars"],
        storage_options=options,
        listeners=[counts],
        **{name: flags[name] for name in _OF_PIPELINE},
    )
    return spark, pipeline, files, store


_OF_PIPELINE = ("checkpoint_interval", "target_file_size", "app_id", "merge_schema")


def _bucket(store: Store, flags: dict[str, Any]) -> TimeBucket:
    """The time bucket by the flags, and for the rest as the table has it."""
    from delta_sidecar.spark import TimeBucket
    from delta_sidecar.spark.ingest.tables import read_table

    snapshot = read_table(store)
    declared = None if snapshot is None else TimeBucket.from_properties(snapshot.metadata.configuration)
    granularity = flags["granularity"] or (declared.granularity if declared else "hour")
    if declared is None or granularity != declared.granularity:
        return TimeBucket(granularity, flags["bucket_column"] or f"_event_{granularity}", flags["timestamp_column"])
    return replace(
        declared,
        column=flags["bucket_column"] or declared.column,
        timestamp_column=flags["timestamp_column"],
    )


_line = partial(labelled, indent=12)


def summary_lines(summary: WriteSummary, granularity: str) -> Iterator[str]:
    """The result of one batch."""
    taken = f"{summary.seconds:.1f} s"
    if summary.version is None:
        yield _line("table", summary.table)
        yield ""
        why = f"Batch {summary.batch_id} was written before" if summary.skipped else "There are no rows"
        yield click.style(f"{why}: nothing was written ({taken}).", bold=True)
        return
    yield _line("table", f"{summary.table}, version {summary.version}")
    yield _line("written", _size(summary.rows, summary.files, summary.bytes))
    named = summary.buckets - bool(summary.null_bucket_rows)
    yield _line("buckets", counted(named, granularity))
    if summary.null_bucket_rows:
        yield _line("", f"{counted(summary.null_bucket_rows, 'row')} in none, for want of a timestamp")
    yield _line("sidecar", _sidecar(summary.sidecar))
    yield ""
    yield click.style(f"Written in {taken}.", bold=True)


def stream_lines(table: str, counts: IngestCounts) -> Iterator[str]:
    """The result of a stream."""
    yield _line("table", table if counts.version is None else f"{table}, version {counts.version}")
    yield _line("written", f"{counts.text()}, in {counts.batches:,} {'batch' if counts.batches == 1 else 'batches'}")
    if counts.skipped:
        yield _line("", f"{counts.skipped:,} more had been written before")
    if counts.null_bucket_rows:
        yield _line("", f"{counted(counts.null_bucket_rows, 'row')} in no time bucket, for want of a timestamp")
    sidecar = "none was due" if counts.sidecar_version is None else f"of version {counts.sidecar_version}"
    if counts.sidecar_failures:
        sidecar += f"; failed {counted(counts.sidecar_failures, 'time')} (--log text says why)"
    yield _line("sidecar", sidecar)


def _sidecar(outcome: Any) -> str:  # noqa: ANN401 - of a room that is not imported here
    if outcome is None:
        return "none was due"
    at = f"version {outcome.version}"
    if outcome.outcome == "complete" and outcome.sidecar is not None:
        built = f"{counted(outcome.sidecar.files, 'file')}, {human_size(outcome.sidecar.bytes)}"
        return f"of {at}: {built}, in {outcome.seconds:.1f} s"
    return {
        "already_there": f"of {at} is there already",
        "left_to_another": f"of {at} is left to pipeline {outcome.pipeline}",
        "failed": f"of {at} could not be made, and a later batch tries again: {outcome.error}",
    }.get(outcome.outcome, f"none of {at} is needed")


def _size(rows: int, files: int, size: int) -> str:
    return f"{counted(rows, 'row')} in {counted(files, 'file')}, {human_size(size)}"
