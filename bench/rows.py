"""`python -m bench.rows [--files N]`: rows of the last hour of a table of real data files, beside other readers."""

from __future__ import annotations

import argparse
import json
import shutil
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING

from rich.console import Console
from tests.small_files import FILES_AN_HOUR, hour_name, small_files

from bench import console as report
from bench import row_readers
from bench.measure import measured
from bench.questions import WrongAnswerError
from bench.tables import CACHE
from delta_sidecar.build import build_sidecar

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rich.table import Table

    from bench.measure import Work

CAVEATS = f"""\
- The data files are real and small, 20 rows each, {FILES_AN_HOUR} an hour, partitioned by
  hour, with statistics; the newest hour is asked for. Tables in use have
  larger files: what is compared is what it takes to get to the rows.
- Everything is on a local disk and in its cache. There is no network, where
  round trips and files that are opened in vain would count most.
- Every reader opens the table anew. deltalake and Polars are made to hold a
  table for many queries; here they are asked one.
- Times are without imports, memory is the peak above what the imports left.
  Polars gives a whole frame: its first row comes with its last.
"""

OURS: dict[str, Work] = {
    "DeltaTable.scan": row_readers.ours,
    "connect.duckdb": row_readers.ours_duckdb,
    "connect.polars": row_readers.ours_polars,
}
PEERS: dict[str, Work] = {
    "deltalake, to_pyarrow_dataset": row_readers.deltalake_dataset,
    "deltalake, QueryBuilder": row_readers.deltalake_sql,
    "polars, scan_delta": row_readers.polars_delta,
}


@dataclass(frozen=True, slots=True)
class RowResult:
    """A reader, measured.

    Attributes:
        layout: `checkpoint`, or `sidecar` with a metadata sidecar.
        reader: Who.
        first_seconds: Until the first row; the median of the runs.
        seconds: Until the last row; likewise.
        peak_bytes: The highest of the runs.
        rows: How many rows it gave.
    """

    layout: str
    reader: str
    first_seconds: float
    seconds: float
    peak_bytes: int
    rows: int


def main() -> None:
    """Makes the table, measures, and prints."""
    arguments = _arguments()
    console = Console(highlight=False)
    console.print("[bold]Before you read the figures[/]")
    console.print(CAVEATS)
    console.print(f"{arguments.files:,} files; {report.machine()}, polars {report.version('polars')}\n", style="dim")
    path = arguments.cache / f"rows-{arguments.files}"
    with console.status("") as status:
        status.update(f"writing {arguments.files:,} data files")
        if not (path / "done").exists():
            shutil.rmtree(path, ignore_errors=True)
            small_files(path, arguments.files)
            (path / "done").touch()
        results = []
        for result in _results(path, arguments):
            results.append(result)
            status.update(f"{result.layout}, {result.reader}: {report.duration(result.seconds)}")
    console.print(_figures(results))
    console.print(f"\n[bold]To reproduce[/]: .venv/bin/python -m bench.rows --files {arguments.files}")
    if arguments.json:
        arguments.json.write_text(json.dumps([asdict(each) for each in results], indent=2) + "\n", encoding="utf-8")


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser("python -m bench.rows", description="Rows of the last hour, side by side.")
    parser.add_argument("--files", type=int, default=100_000, help="data files (default: %(default)s)")
    parser.add_argument("--runs", type=int, default=3, help="runs of each reader (default: %(default)s)")
    parser.add_argument("--cache", type=Path, default=CACHE, metavar="PATH", help="where the table is kept")
    parser.add_argument("--json", type=Path, metavar="PATH", help="write the figures there too")
    return parser.parse_args()


def _results(path: Path, arguments: argparse.Namespace) -> Iterator[RowResult]:
    sidecars = path / "_delta_log" / "_sidecars"
    hour = hour_name(-(-arguments.files // FILES_AN_HOUR) - 1)
    shutil.rmtree(sidecars, ignore_errors=True)
    answers = {}
    for layout in ("checkpoint", "sidecar"):
        if layout == "sidecar":
            build_sidecar(path)
        for reader, work in (OURS | PEERS if layout == "checkpoint" else OURS).items():
            runs = [measured(work, table=str(path), hour=hour) for _ in range(arguments.runs)]
            answers[layout, reader] = {(run.answer["rows"], run.answer["total"]) for run in runs}
            yield RowResult(
                layout,
                reader,
                median(run.answer["first_seconds"] for run in runs),
                median(run.seconds for run in runs),
                max(run.peak_bytes for run in runs),
                runs[0].answer["rows"],
            )
    if len(set.union(*answers.values())) != 1:
        msg = f"the readers do not agree: {answers}"
        raise WrongAnswerError(msg)


def _figures(results: list[RowResult]) -> Table:
    table = report.grid("reader", right=("first row", "ratio", "all rows", "ratio", "memory", "ratio"))
    best = next(result for result in results if result.layout == "sidecar")
    for layout, title in (("checkpoint", "with a checkpoint"), ("sidecar", "with a metadata sidecar")):
        table.add_row(title, style="bold")
        for result in results:
            if result.layout == layout:
                table.add_row(
                    f" {result.reader}",
                    report.duration(result.first_seconds),
                    _ratio(result.first_seconds / best.first_seconds),
                    report.duration(result.seconds),
                    _ratio(result.seconds / best.seconds),
                    report.bytes_text(result.peak_bytes),
                    _ratio(result.peak_bytes / max(1, best.peak_bytes)),
                )
    return table


def _ratio(value: float) -> str:
    return f"{value:.1f}x" if value < 10 else f"{value:.0f}x"  # noqa: PLR2004 - two digits are enough


if __name__ == "__main__":
    main()
