"""`python -m bench [--full] [--suites NAME ...] [--files N] [--report FOLDER]`."""

from __future__ import annotations

import argparse
import importlib
from pathlib import Path
from typing import TYPE_CHECKING, get_args

from rich.console import Console

from bench import budgets, results, run, suites, terminal, workloads
from bench.readers import duckdb_delta, kernel
from bench.shapes import CACHE, table

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from bench.results import Measurement, Results


def main(words: Sequence[str] | None = None) -> None:
    """Makes the tables, measures, prints, and writes what was found.

    Raises:
        WrongAnswerError: This library gave a wrong answer.
    """
    arguments = _arguments(words)
    console = Console(highlight=False)
    if not console.is_terminal:
        console = Console(highlight=False, width=100)
    console.print("[bold]Before you read the figures[/]")
    console.print(terminal.CAVEATS)
    here, versions = results.machine(), results.versions()
    console.print(terminal.machine_words(here, versions) + "\n", style="dim")
    notes, found = _kept(arguments)
    with console.status("") as status:

        def say(text: str) -> None:
            # What takes very long is worth a line that stays.
            if text.startswith("building"):
                console.print(text)
            status.update(text)

        def note(text: str) -> None:
            notes.append(text)
            console.print(f"[yellow]note[/] {text}", soft_wrap=True)

        def made() -> Results:
            peers = {kernel.NAME: kernel.VERSION, duckdb_delta.NAME: duckdb_delta.version()}
            there = {each.reader for each in found}
            return results.Results(
                made=results.now(),
                machine=here,
                versions=versions | {name: version for name, version in peers.items() if name in there},
                suites=list(dict.fromkeys(each.suite for each in found)),
                notes=list(dict.fromkeys(notes)),
                measurements=found,
                budgets=budgets.judged(found),
            )

        for each in _measurements(arguments, say, note):
            found.append(each)
            console.print(terminal.line(each), style="dim", soft_wrap=True)
            # A run may take hours: what it has found is there when it breaks off.
            made().save(arguments.json)
    whole = made()
    _print(console, whole)
    whole.save(arguments.json)
    console.print(f"\nfigures: {arguments.json}")
    if arguments.report:
        importlib.import_module("bench.report").write(whole.as_dict(), arguments.report)
        console.print(f"report: {arguments.report}")


def _kept(arguments: argparse.Namespace) -> tuple[list[str], list[Measurement]]:
    """Notes and measurements of an earlier run, of suites that this one does not measure."""
    if not arguments.keep or not arguments.suites or not arguments.json.exists():
        return [], []
    earlier = results.load(arguments.json)
    return earlier.notes, [each for each in earlier.measurements if each.suite not in arguments.suites]


def _print(console: Console, made: Results) -> None:
    console.print()
    for figures in terminal.figures(made.measurements):
        console.print(figures)
        console.print()
    if made.budgets:
        console.print(terminal.budgets(made.budgets))
        console.print(terminal.details(made.budgets), style="dim", soft_wrap=True)
    console.print(terminal.verdict(made.budgets, budgets.unjudged(made.measurements)), soft_wrap=True)
    for note in made.notes:
        console.print(f"[yellow]note[/] {note}", soft_wrap=True)


def _arguments(words: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser("python -m bench", description="Side by side with other readers, in one run.")
    parser.add_argument("--full", action="store_true", help="everything, for hours, rather than the core in 10 minutes")
    parser.add_argument(
        "--suites", nargs="+", choices=get_args(results.Suite), metavar="NAME", help="some suites only (default: all)"
    )
    parser.add_argument("--files", type=int, metavar="N", help="tables of at most so many files")
    parser.add_argument("--rounds", type=int, metavar="N", help="how often each reader is asked")
    parser.add_argument(
        "--patience",
        type=float,
        metavar="SECONDS",
        help="a reader that takes longer is asked once (default: 5, or 20 with --full)",
    )
    parser.add_argument(
        "--readers", nargs="+", choices=list(workloads.READERS), metavar="NAME", help="some readers only (default: all)"
    )
    parser.add_argument("--no-kernel", action="store_true", help="leave delta-kernel-rs out, which has to be built")
    parser.add_argument("--no-peers", action="store_true", help="leave every other reader out")
    parser.add_argument("--cache", type=Path, default=CACHE, metavar="FOLDER", help="where tables are kept")
    parser.add_argument(
        "--json", type=Path, default=CACHE / "results.json", metavar="FILE", help="where figures go (%(default)s)"
    )
    parser.add_argument(
        "--keep", action="store_true", help="keep what that file has of suites that are not measured now"
    )
    parser.add_argument("--report", type=Path, metavar="FOLDER", help="write pages and charts there too")
    return parser.parse_args(words)


def _measurements(arguments: argparse.Namespace, say: run.Say, note: run.Say) -> Iterator[Measurement]:
    chosen = list(workloads.FULL if arguments.full else workloads.CORE)
    elsewhere = list(workloads.ELSEWHERE if arguments.full else workloads.CORE_ELSEWHERE)
    if arguments.suites:
        chosen = [each for each in chosen if each.suite in arguments.suites]
        elsewhere = [each for each in workloads.ELSEWHERE if each in arguments.suites]
    if arguments.files:
        chosen = workloads.at_most(chosen, arguments.files)
    names = dict.fromkeys(name for each in chosen for name in each.readers)
    left_out = {"kernel"} if arguments.no_kernel else set()
    left_out |= set(workloads.PEERS) if arguments.no_peers else set()
    left_out |= set(workloads.READERS) - set(arguments.readers or workloads.READERS)
    readers, missing = workloads.prepared([name for name in names if name not in left_out], say)
    for text in missing:
        note(text)
    patience = arguments.patience or (run.PATIENCE if arguments.full else run.CORE_PATIENCE)
    for workload in chosen:
        yield from run.measurements(
            workload, readers, arguments.cache, say, note, rounds=arguments.rounds, patience=patience
        )
    for suite in elsewhere:
        options = _options(suite, arguments) if arguments.full else {}
        yield from suites.measurements(suite, say, note, **options)


def _options(suite: str, arguments: argparse.Namespace) -> dict[str, object]:
    """What a suite is told that all tables are for."""
    if suite != "growth" or arguments.files:
        return {}
    largest = table(workloads.LARGEST, arguments.cache)
    return {"cache": arguments.cache, "others": [(largest.log, largest.sidecar_path)]}


if __name__ == "__main__":
    main()
