"""`python -m bench [--files N] [--json PATH]`."""

from __future__ import annotations

import argparse
import json
import shutil
from dataclasses import asdict, replace
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING

from rich.console import Console
from rich.progress import Progress

from bench import budgets, readers
from bench import console as report
from bench.measure import Measurement, measured
from bench.questions import ALL_FILES, BUILD, FIRST_FILE, LAST_HOUR, Result, check, lazy_arguments, questions_of
from bench.tables import CACHE, LAYOUTS, BenchTable, table, warm

if TYPE_CHECKING:
    from collections.abc import Iterator


def main() -> None:
    """Makes the tables, measures, and prints."""
    arguments = _arguments()
    console = Console(highlight=False)
    console.print("[bold]Before you read the figures[/]")
    console.print(report.CAVEATS)
    console.print(f"{arguments.files:,} files, few are {arguments.small:,}; {report.machine()}\n", style="dim")
    results: list[Result] = []
    for layout in arguments.layouts:
        made = _made(layout, arguments, console)
        warm(made)
        with console.status("") as status:
            for result in _results(made, arguments):
                results.append(result)
                status.update(f"{result.question}, {result.reader}: {report.duration(result.seconds)}")
    console.print(report.figures(results))
    console.print()
    verdicts = list(budgets.verdicts(results, arguments.files))
    console.print(report.budgets(verdicts))
    console.print(report.verdict(verdicts))
    console.print(report.notes(arguments.files, arguments.small), style="dim")
    console.print(f"\n[bold]To reproduce[/]: make bench ARGS='--files {arguments.files}'")
    if arguments.json:
        found = {
            "files": arguments.files,
            "small": arguments.small,
            "machine": report.machine(),
            "results": [asdict(each) for each in results],
            "budgets": [{**asdict(each), "met": each.met} for each in verdicts],
        }
        arguments.json.write_text(json.dumps(found, indent=2) + "\n", encoding="utf-8")
        console.print(f"figures: {arguments.json}")


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser("python -m bench", description="Side by side with other readers, in one run.")
    parser.add_argument("--files", type=int, default=10_000_000, help="files in the checkpoint (default: %(default)s)")
    parser.add_argument(
        "--small", type=int, default=100_000, metavar="N", help="files where few are enough (default: %(default)s)"
    )
    parser.add_argument("--runs", type=int, default=3, help="runs of this library; the median counts (default: 3)")
    parser.add_argument("--layouts", nargs="+", choices=list(LAYOUTS), default=list(LAYOUTS), help="which tables")
    parser.add_argument("--no-peers", dest="peers", action="store_false", help="leave the other readers out")
    parser.add_argument(
        "--keep-sidecars",
        action="store_true",
        help="use metadata sidecars that are there, instead of measuring a build",
    )
    parser.add_argument("--cache", type=Path, default=CACHE, metavar="PATH", help="where tables are kept")
    parser.add_argument("--json", type=Path, metavar="PATH", help="write the figures there too")
    return parser.parse_args()


def _made(layout: str, arguments: argparse.Namespace, console: Console) -> BenchTable:
    files = min(arguments.files, arguments.small) if LAYOUTS[layout].small else arguments.files
    with Progress(console=console, transient=True, disable=not console.is_terminal) as bar:
        task = bar.add_task(f"making a table ({layout})", total=None)

        def report_progress(done: int, total: int) -> None:
            bar.update(task, completed=done, total=total)

        return table(layout, files, arguments.cache, report_progress)


def _results(made: BenchTable, arguments: argparse.Namespace) -> Iterator[Result]:
    if LAYOUTS[made.layout].sidecar and not (arguments.keep_sidecars and made.sidecars.exists()):
        shutil.rmtree(made.sidecars, ignore_errors=True)
        yield _built(made)
    for question in questions_of(made.layout):
        yield _ours(question, made, arguments.runs)
    if arguments.peers and made.layout == "spark":
        hour = measured(readers.deltalake_hour, table=str(made.path), hour=made.log.newest_hour)
        check(LAST_HOUR, made, hour)
        result = Result(LAST_HOUR, "deltalake", made.layout, hour.seconds, hour.peak_bytes)
        yield replace(result, question=FIRST_FILE)
        yield result
        every = measured(readers.deltalake_all, table=str(made.path))
        check(ALL_FILES, made, every)
        yield Result(ALL_FILES, "deltalake", made.layout, every.seconds, every.peak_bytes)


def _built(made: BenchTable) -> Result:
    # At the checkpoint's version: the same commits follow both.
    run = measured(readers.build, table=str(made.path), version=made.log.checkpoint_version)
    return Result(BUILD, budgets.OURS, made.layout, run.seconds, run.peak_bytes)


def _ours(question: str, made: BenchTable, runs: int) -> Result:
    found: list[Measurement] = []
    for _ in range(runs):
        found.append(measured(readers.lazy, table=str(made.path), **lazy_arguments(question, made)))
        check(question, made, found[-1])
    first = question == FIRST_FILE
    return Result(
        question,
        budgets.OURS,
        made.layout,
        median(run.answer["first_seconds"] if first else run.seconds for run in found),
        max(run.peak_bytes for run in found),
        found[0].answer["requests"],
        found[0].answer["bytes"],
    )


main()
