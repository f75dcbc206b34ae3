"""`python -m bench [--files N] [--json PATH]`."""

from __future__ import annotations

import argparse
import json
from dataclasses import asdict, replace
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING

from rich.console import Console
from rich.progress import Progress

from bench import readers, report
from bench.measure import Measurement, measured
from bench.questions import QUESTIONS, Result, check, lazy_arguments
from bench.tables import CACHE, LAYOUTS, BenchTable, table

if TYPE_CHECKING:
    from collections.abc import Iterator


def main() -> None:
    """Makes the tables, measures, and prints."""
    arguments = _arguments()
    console = Console(highlight=False)
    console.print("[bold]Before you read the figures[/]")
    console.print(report.CAVEATS)
    console.print(f"{arguments.files:,} files; {report.machine()}\n", style="dim")
    results: list[Result] = []
    for layout in arguments.layouts:
        made = _made(layout, arguments, console)
        warm(made)
        with console.status("") as status:
            for result in _results(made, peers=arguments.peers and layout == "spark", runs=arguments.runs):
                results.append(result)
                status.update(f"{result.question}, {result.reader}: {report.duration(result.seconds)}")
    console.print(report.figures(results))
    console.print()
    console.print(report.budgets(results, arguments.files))
    _explain(console, arguments.files)
    if arguments.json:
        found = {"files": arguments.files, "machine": report.machine(), "results": [asdict(each) for each in results]}
        arguments.json.write_text(json.dumps(found, indent=2) + "\n", encoding="utf-8")
        console.print(f"figures: {arguments.json}")


def warm(made: BenchTable) -> None:
    """Reads the log once, so that no reader pays for the first touch of the disk."""
    for path in sorted((made.path / "_delta_log").iterdir()):
        with path.open("rb") as file:
            while file.read(1 << 24):
                pass


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser("python -m bench", description="Side by side with other readers, in one run.")
    parser.add_argument("--files", type=int, default=10_000_000, help="files in the checkpoint (default: %(default)s)")
    parser.add_argument("--runs", type=int, default=3, help="runs of this library; the median counts (default: 3)")
    parser.add_argument("--layouts", nargs="+", choices=list(LAYOUTS), default=list(LAYOUTS), help="which tables")
    parser.add_argument("--no-peers", dest="peers", action="store_false", help="leave the other readers out")
    parser.add_argument("--cache", type=Path, default=CACHE, metavar="PATH", help="where tables are kept")
    parser.add_argument("--json", type=Path, metavar="PATH", help="write the figures there too")
    return parser.parse_args()


def _made(layout: str, arguments: argparse.Namespace, console: Console) -> BenchTable:
    with Progress(console=console, transient=True, disable=not console.is_terminal) as bar:
        task = bar.add_task(f"making a table ({layout})", total=None)

        def report_progress(done: int, total: int) -> None:
            bar.update(task, completed=done, total=total)

        return table(layout, arguments.files, arguments.cache, report_progress)


def _results(made: BenchTable, *, peers: bool, runs: int) -> Iterator[Result]:
    for question in QUESTIONS:
        yield _ours(question, made, runs)
    if peers:
        hour = measured(readers.deltalake_hour, table=str(made.path), hour=made.log.newest_hour)
        check("last hour", made, hour)
        result = Result("last hour", "deltalake", made.layout, hour.seconds, hour.peak_bytes)
        yield replace(result, question="first file")
        yield result
        every = measured(readers.deltalake_all, table=str(made.path))
        check("all files", made, every)
        yield Result("all files", "deltalake", made.layout, every.seconds, every.peak_bytes)


def _ours(question: str, made: BenchTable, runs: int) -> Result:
    found: list[Measurement] = []
    for _ in range(runs):
        found.append(measured(readers.lazy, table=str(made.path), **lazy_arguments(question, made)))
        check(question, made, found[-1])
    first = question == "first file"
    return Result(
        question,
        report.OURS,
        made.layout,
        median(run.answer["first_seconds"] if first else run.seconds for run in found),
        max(run.peak_bytes for run in found),
        found[0].answer["requests"],
        found[0].answer["bytes"],
    )


def _explain(console: Console, files: int) -> None:
    if files == report.BUDGET_FILES:
        note = "* beside delta-kernel-rs, which is not part of this run: half of its 7 ms, and no more than its 5.4 s."
    else:
        note = f"Times have budgets for {report.BUDGET_FILES:,} files only: they are not judged here."
    console.print(note, style="dim")
    console.print(f"\n[bold]To reproduce[/]: make bench ARGS='--files {files}'")


main()
