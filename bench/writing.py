"""`python -m bench.writing [--files N ...]`: building metadata sidecars, and writing tables that have them."""

from __future__ import annotations

import argparse
import json
import os
import shutil
import tempfile
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import mean, median
from typing import TYPE_CHECKING, get_args

from rich.console import Console

from bench import console as report
from bench import readers, writers
from bench.measure import measured
from bench.questions import WrongAnswerError
from bench.tables import CACHE, table, warm
from delta_sidecar.sidecar.manifest import decode_manifest

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rich.table import Table

    from bench.tables import BenchTable

CAVEATS = """\
- Builds are of logs that this project's own generator makes, with a V1
  checkpoint in hash order and without data files. Both builds have to give the
  same schema and the same number of files.
- Spark runs as a cluster of its own on this machine (local-cluster), one core
  an executor, so that the driver's memory is the driver's alone. On one machine
  it has no more cores than the local build, and pays for being spread out: what
  it is for are tables whose log is larger than one machine likes.
- Memory is the peak of the Python driver above its imports; of Spark also the
  peak of the driver's JVM, all of it, whose heap is 1 GB at most.
- Ingestion writes small batches into a local table, one after the other, in a
  JVM that is warm. "delta" is Delta's own writer on the same table, with its
  own checkpoints: the same rows and generated partition column, but neither
  batch ids nor one file a bucket.
"""


@dataclass(frozen=True, slots=True)
class Built:
    """A build, measured.

    Attributes:
        files: Files of the table.
        engine: `local` or `spark`.
        seconds: How long it took.
        peak_bytes: Memory of the Python driver.
        jvm_bytes: Memory of the driver's JVM; None where there is none.
        sidecar_bytes: What it put into the table, the manifest included.
    """

    files: int
    engine: str
    seconds: float
    peak_bytes: int
    jvm_bytes: int | None
    sidecar_bytes: int


@dataclass(frozen=True, slots=True)
class Ingested:
    """Batches, written and measured.

    Attributes:
        writer: Who wrote.
        mean_seconds: Of a commit, those with a checkpoint among them.
        median_seconds: Of a commit; most are without a checkpoint.
    """

    writer: str
    mean_seconds: float
    median_seconds: float


def main() -> None:
    """Measures, and prints."""
    arguments = _arguments()
    console = Console(highlight=False)
    console.print("[bold]Before you read the figures[/]")
    console.print(CAVEATS)
    console.print(f"{report.machine()}, pyspark {report.version('pyspark')}\n", style="dim")
    with console.status("") as status:
        builds = []
        for files in arguments.files:
            for each in _builds(files, arguments):
                builds.append(each)
                status.update(f"{each.files:,} files, {each.engine}: {report.duration(each.seconds)}")
        batches = list(_ingested(arguments)) if arguments.commits else []
    if builds:
        console.print(_build_figures(builds))
    if batches:
        console.print(
            f"\n{arguments.commits} commits of {arguments.rows:,} rows, a checkpoint every {arguments.interval}"
        )
        console.print(_ingest_figures(batches))
    console.print("\n[bold]To reproduce[/]: .venv/bin/python -m bench.writing")
    if arguments.json:
        found = {"builds": [asdict(each) for each in builds], "ingestion": [asdict(each) for each in batches]}
        arguments.json.write_text(json.dumps(found, indent=2) + "\n", encoding="utf-8")


def _arguments() -> argparse.Namespace:
    cores = os.cpu_count() or 2
    parser = argparse.ArgumentParser("python -m bench.writing", description="Builds and ingestion, side by side.")
    parser.add_argument("--files", type=int, nargs="*", default=[1_000_000, 10_000_000], help="tables that are built")
    parser.add_argument("--commits", type=int, default=30, help="batches that are written (default: %(default)s)")
    parser.add_argument("--rows", type=int, default=100_000, help="rows of a batch (default: %(default)s)")
    parser.add_argument("--interval", type=int, default=10, help="commits between checkpoints (default: %(default)s)")
    parser.add_argument(
        "--cluster",
        default=f"local-cluster[{cores},1,4096]",
        metavar="MASTER",
        help="where Spark builds (default: %(default)s)",
    )
    parser.add_argument("--cache", type=Path, default=CACHE, metavar="PATH", help="where tables are kept")
    parser.add_argument("--json", type=Path, metavar="PATH", help="write the figures there too")
    return parser.parse_args()


def _builds(files: int, arguments: argparse.Namespace) -> Iterator[Built]:
    made = table("sidecar", files, arguments.cache)
    warm(made)
    version = made.log.checkpoint_version
    schemas = set()
    for engine in ("local", "spark"):
        shutil.rmtree(made.sidecars, ignore_errors=True)
        if engine == "local":
            run = measured(readers.build, table=str(made.path), version=version)
        else:
            run = measured(writers.build_on_spark, table=str(made.path), version=version, master=arguments.cluster)
        schemas.add(_checked(made, version))
        yield Built(
            files,
            engine,
            run.seconds,
            run.peak_bytes,
            run.answer.get("driver_bytes"),
            run.answer["bytes"] + run.answer["manifest_bytes"],
        )
    if len(schemas) > 1:
        msg = f"the sidecars of {files:,} files differ"
        raise WrongAnswerError(msg)


def _checked(made: BenchTable, version: int) -> tuple[str, int]:
    """What both builds have to have in common."""
    manifest = decode_manifest((made.sidecars / f"v{version}.manifest.json").read_bytes())
    if not manifest.num_files:
        msg = f"the sidecar of {made.path} is empty"
        raise WrongAnswerError(msg)
    return manifest.schema_hash, manifest.num_files


def _ingested(arguments: argparse.Namespace) -> Iterator[Ingested]:
    for writer in get_args(writers.Writer):
        with tempfile.TemporaryDirectory(prefix="delta-sidecar-bench-") as folder:
            run = measured(
                writers.ingest,
                table=f"{folder}/table",
                writer=writer,
                commits=arguments.commits,
                rows=arguments.rows,
                interval=arguments.interval,
                master="local[*]",
            )
        if run.answer["rows"] != arguments.commits * arguments.rows:
            msg = f"{writer} wrote {run.answer['rows']:,} rows"
            raise WrongAnswerError(msg)
        yield Ingested(writer, mean(run.answer["seconds"]), median(run.answer["seconds"]))


def _build_figures(builds: list[Built]) -> Table:
    shown = report.grid("build", right=("time", "ratio", "driver", "driver's JVM", "sidecar", "a file"))
    for each in builds:
        local = next(other for other in builds if other.files == each.files)
        shown.add_row(
            f"{each.files:,} files, {each.engine}",
            report.duration(each.seconds),
            f"{each.seconds / local.seconds:.1f}x",
            report.bytes_text(each.peak_bytes),
            "" if each.jvm_bytes is None else report.bytes_text(each.jvm_bytes),
            report.bytes_text(each.sidecar_bytes),
            f"{each.sidecar_bytes / each.files:.0f} bytes",
        )
    return shown


def _ingest_figures(batches: list[Ingested]) -> Table:
    shown = report.grid("writer", right=("mean of a commit", "ratio", "median", "ratio"))
    first = batches[0]
    for each in batches:
        shown.add_row(
            each.writer,
            report.duration(each.mean_seconds),
            f"{each.mean_seconds / first.mean_seconds:.2f}x",
            report.duration(each.median_seconds),
            f"{each.median_seconds / first.median_seconds:.2f}x",
        )
    return shown


if __name__ == "__main__":
    main()
