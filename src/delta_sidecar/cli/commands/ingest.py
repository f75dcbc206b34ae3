"""`delta-sidecar ingest`: files into a Delta table whose data files hold one time bucket each."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Any

import click

from delta_sidecar.cli.options import output_option, storage_option, table_argument
from delta_sidecar.cli.output import counted, human_size, labelled
from delta_sidecar.cli.process import ending, in_background, is_colourless
from delta_sidecar.cli.progress import Tally, ingest_progress

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from delta_sidecar.spark.ingest.buckets import TimeBucket
    from delta_sidecar.spark.ingest.pipeline import IngestPipeline, WriteSummary
    from delta_sidecar.spark.ingest.sources import Source
    from delta_sidecar.store import Store

_LABEL = 12

# The mark keeps the lines as they are.
_EXAMPLES = """\b
Examples:
  delta-sidecar ingest readings.json ./telemetry --timestamp-column event_ts
  delta-sidecar ingest 'day/*.csv' ./telemetry --timestamp-column at --batch-id 41
  delta-sidecar ingest ./arriving ./telemetry --timestamp-column event_ts --format json \\
      --stream --checkpoint-location ./telemetry-stream
"""

_FORMATS = {".json": "json", ".jsonl": "json", ".ndjson": "json", ".csv": "csv", ".parquet": "parquet"}


@click.command(
    context_settings={"allow_extra_args": True},
    epilog=_EXAMPLES,
    short_help="Write files into a Delta table, one time bucket a data file.",
)
@click.argument("source")
@table_argument
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
    show_default=True,
    help="Rows without a timestamp, or with one outside the years 1 to 9999: nothing is written, or they go into the "
    "partition of rows without a bucket.",
)
@click.option(
    "--batch-id",
    type=click.IntRange(0, (1 << 63) - 1),
    metavar="N",
    help="A number that grows from batch to batch; one that was written is not written again.",
)
@click.option(
    "--app-id",
    metavar="NAME",
    default="delta-sidecar",
    show_default=True,
    help="Whose batch ids they are.",
)
@click.option("--target-size", metavar="SIZE", default="128MB", show_default=True, help="Size of large data files.")
@click.option(
    "--interval",
    type=click.IntRange(1, 1_000_000),
    metavar="N",
    default=10,
    show_default=True,
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
@output_option
@storage_option
def ingest(*, source: str, table: str, output: str, **given: Any) -> None:  # noqa: ANN401 - the flags of the command
    """Write the files at SOURCE into the Delta table at TABLE, with Spark.

    SOURCE is a file, a folder or a pattern. The table is made where it is missing, partitioned by the time bucket of
    each row, so that a data file holds rows of one bucket alone. Nothing is written of files that cannot be read.
    """
    ctx = click.get_current_context()
    if ctx.args:
        more = len(ctx.args)
        msg = (
            f"SOURCE and TABLE are expected, and {more} more argument{'s were' if more > 1 else ' was'} given: put a "
            "pattern in quotes"
        )
        raise click.UsageError(msg, ctx)
    _check_stream(ctx, **given)
    given["source_format"] = given["source_format"] or _format_of(ctx, source)
    tally = Tally()
    with ending():
        if given["as_stream"]:
            _stream(source, table, tally, output, given)
            return
        summary = _written(source, table, tally, given)
        _show(output, summary_lines(summary, given["granularity"]), summary.as_dict())


def summary_lines(summary: WriteSummary, granularity: str) -> Iterator[str]:
    """What became of a batch."""
    taken = f"{summary.seconds:.1f} s"
    if summary.version is None:
        yield _line("table", summary.table)
        yield ""
        why = f"Batch {summary.batch_id} was written before" if summary.skipped else "There are no rows"
        yield click.style(f"{why}: nothing was written ({taken}).", bold=True)
        return
    yield _line("table", f"{summary.table}, version {summary.version}")
    files = f"{counted(summary.rows, 'row')} in {counted(summary.files, 'file')}, {human_size(summary.bytes)}"
    yield _line("written", files)
    named = summary.buckets - bool(summary.null_bucket_rows)
    yield _line("buckets", counted(named, granularity))
    if summary.null_bucket_rows:
        yield _line("", f"{counted(summary.null_bucket_rows, 'row')} in none, for want of a timestamp")
    yield _line("sidecar", _sidecar(summary.sidecar))
    yield ""
    yield click.style(f"Written in {taken}.", bold=True)


def stream_lines(table: str, tally: Tally) -> Iterator[str]:
    """What became of a stream."""
    yield _line("table", table if tally.version is None else f"{table}, version {tally.version}")
    yield _line("written", f"{tally.text()}, in {tally.batches:,} {'batch' if tally.batches == 1 else 'batches'}")
    if tally.skipped:
        yield _line("", f"{tally.skipped:,} more had been written before")
    if tally.null_bucket_rows:
        yield _line("", f"{counted(tally.null_bucket_rows, 'row')} in no time bucket, for want of a timestamp")
    sidecar = "none was due" if tally.sidecar_version is None else f"of version {tally.sidecar_version}"
    if tally.sidecar_failures:
        sidecar += f"; failed {counted(tally.sidecar_failures, 'time')} (--log text says why)"
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


def _check_stream(ctx: click.Context, *, as_stream: bool, checkpoint_location: str | None, **others: Any) -> None:  # noqa: ANN401
    if as_stream and not checkpoint_location:
        msg = "--stream needs --checkpoint-location FOLDER, where it is kept how far it has come"
        raise click.UsageError(msg, ctx)
    if as_stream and others["batch_id"] is not None:
        msg = "--batch-id is for one batch; those of a stream have ids by themselves"
        raise click.UsageError(msg, ctx)
    if not as_stream and (others["once"] or checkpoint_location):
        msg = "--once and --checkpoint-location belong to --stream"
        raise click.UsageError(msg, ctx)


def _format_of(ctx: click.Context, source: str) -> str:
    """What files are by their name."""
    suffixes = PurePosixPath(source.rstrip("/")).suffixes
    found = next((_FORMATS[each.lower()] for each in reversed(suffixes) if each.lower() in _FORMATS), None)
    if found is None:
        msg = "--format is needed: the name of SOURCE does not tell what its files are"
        raise click.UsageError(msg, ctx)
    return found


def _written(source: str, table: str, tally: Tally, given: dict[str, Any]) -> WriteSummary:
    with ingest_progress(tally) as stage:

        def write() -> WriteSummary:
            spark, pipeline, files, store = _opened(source, table, tally, given)
            stage("reading")
            rows = files.rows(spark, store)
            stage("writing")
            return pipeline.write(rows, batch_id=given["batch_id"])

        return in_background(write)


def _stream(source: str, table: str, tally: Tally, output: str, given: dict[str, Any]) -> None:
    from delta_sidecar.store.address import parse_address

    def show() -> None:
        told = {name: getattr(tally, name) for name in Tally.__slots__ if name != "changed"}
        # An address may hold a signature.
        shown = parse_address(table).url
        _show(output, stream_lines(shown, tally), {"table": shown, **told})

    try:
        with ingest_progress(tally) as stage:

            def stream() -> None:
                from delta_sidecar.spark.ingest.pipeline import wait_for

                spark, pipeline, files, store = _opened(source, table, tally, given)
                stage("streaming")
                query = pipeline.write_stream(
                    files.stream(spark),
                    checkpoint_location=given["checkpoint_location"],
                    trigger={"availableNow": True} if given["once"] else None,
                    transform=lambda batch: files.arrived(batch, store),
                )
                wait_for(query)

            in_background(stream)
    except KeyboardInterrupt:
        # The usual end of a stream. There are a few seconds to say what it did.
        show()
        raise
    except Exception:
        if tally.batches:
            show()
        raise
    show()


def _opened(
    source: str, table: str, tally: Callable[[Any], None], given: dict[str, Any]
) -> tuple[Any, IngestPipeline, Source, Any]:
    """The session, the pipeline, the files and the table's store."""
    from delta_sidecar.spark import IngestPipeline, spark_session
    from delta_sidecar.spark.ingest.sources import Source
    from delta_sidecar.spark.session.access import spark_path
    from delta_sidecar.store import open_store

    options = given["storage_options"]
    files = Source(
        spark_path(source, options), given["source_format"], given["timestamp_column"], given["timestamp_format"]
    )
    store = open_store(table, options)
    bucket = _bucket(store, given)
    given["granularity"] = bucket.granularity
    spark = spark_session(
        table,
        master=given["master"],
        storage_options=options,
        # Timestamps that name no zone are in UTC. What goes wrong is told in a line.
        settings={"spark.sql.session.timeZone": "UTC", "spark.log.level": "FATAL"},
        others=[source, *filter(None, [given["checkpoint_location"]])],
    )
    pipeline = IngestPipeline(
        spark,
        table,
        bucket=bucket,
        checkpoint_interval=given["interval"],
        target_file_size=given["target_size"],
        app_id=given["app_id"],
        bad_timestamps=given["bad_timestamps"].replace("-", "_"),
        merge_schema=given["merge_schema"],
        sidecars=not given["no_sidecars"],
        storage_options=options,
        listeners=[tally],
    )
    return spark, pipeline, files, store


def _bucket(store: Store, given: dict[str, Any]) -> TimeBucket:
    """The time bucket as the flags say, and for the rest as the table that is there has it."""
    from delta_sidecar.spark import TimeBucket
    from delta_sidecar.spark.ingest.tables import read_table

    snapshot = read_table(store)
    declared = None if snapshot is None else TimeBucket.from_properties(snapshot.metadata.configuration)
    granularity = given["granularity"] or (declared.granularity if declared else "hour")
    if declared is None or granularity != declared.granularity:
        return TimeBucket(granularity, given["bucket_column"] or f"_event_{granularity}", given["timestamp_column"])
    return replace(
        declared,
        column=given["bucket_column"] or declared.column,
        timestamp_column=given["timestamp_column"],
    )


def _show(output: str, lines: Iterator[str], told: dict[str, Any]) -> None:
    if output == "json":
        # Whatever is no ASCII letter is escaped: nothing in a name can steer a terminal.
        click.echo(json.dumps(told, indent=2))
        return
    for line in lines:
        click.echo(line, color=False if is_colourless() else None)


def _line(label: str, text: str) -> str:
    return labelled(label, text, _LABEL)
