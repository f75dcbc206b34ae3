"""Results for the terminal: a compact table a suite, the budgets, and what to know before reading them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich import box
from rich.table import Table

from bench.readers.ours import NAME
from bench.words import duration, precise, short, size, times

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from bench.results import Budget, Machine, Measurement

CAVEATS = """\
- The tables are logs that this project's own generator makes: Delta's real
  format, a V1 checkpoint in the order of hashes as Spark writes it, and a tail
  of commits, without data files. "sidecar" has a metadata sidecar as well, at
  the checkpoint's version: somebody has to build it (suite "build").
- Everything is on a local disk and in its cache. There is no network, where
  round trips would count most (suite "cloud").
- Every answer is made in a process of its own, readers in turn, and compared
  with the truth before its time counts. Times are the median, without imports;
  memory is the peak above what the imports left. Read ratios, not digits.
- delta-kernel-rs is a program in Rust that lists and adds up: nothing of it is
  handed to Python, while what is measured of this library is its Python API.
  deltalake and Spark hold a table for many questions; here they are asked one.
  DuckDB's extension shows its files by a function that makes the whole list,
  whatever is asked of it: a query of rows does not have to (suite "rows").
"""


def machine_words(machine: Machine, versions: dict[str, str]) -> str:
    """What the figures were made on."""
    shown = ", ".join(f"{name} {version}" for name, version in versions.items())
    memory = size(machine.memory_bytes)
    return f"{machine.cores} cores ({machine.cpu}), {memory}, {machine.system}, Python {machine.python}; {shown}"


def figures(measurements: Sequence[Measurement]) -> Iterable[Table]:
    """A table for every suite and shape."""
    tables: dict[tuple[str, str], list[Measurement]] = {}
    for each in measurements:
        tables.setdefault((each.suite, each.shape), []).append(each)
    return [_figures(f"suite {suite}: {shape}", those) for (suite, shape), those in tables.items()]


def line(each: Measurement) -> str:
    """A measurement in a line, while others are still to come."""
    who = ", ".join(part for part in (each.reader, each.variant, each.base) if part)
    return f"{each.shape}: {each.question}: {who}: {duration(each.median.seconds)}, {size(each.median.peak_bytes)}"


def budgets(judged: Sequence[Budget]) -> Table:
    """The budgets that could be judged, met or not, each with what it is of."""
    table = _grid("budget", right=("limit", "measured", ""))
    for each in judged:
        table.add_row(
            each.what,
            f"{'at least' if each.at_least else 'at most'} {_amount(each.limit, each.unit)}",
            _amount(each.measured, each.unit),
            "[green]met[/]" if each.met else "[red]not met[/]",
        )
    return table


def details(judged: Sequence[Budget]) -> str:
    """What the figures of the budgets are of."""
    return "\n".join(f"{each.what}: {each.detail}" for each in judged)


def verdict(judged: Sequence[Budget], unjudged: Sequence[str]) -> str:
    """All budgets in a sentence or two."""
    failed = [each.what for each in judged if not each.met]
    said = f"{len(judged) - len(failed)} of {len(judged)} budgets are met."
    if failed:
        said += f" Not met: {'; '.join(failed)}."
    if unjudged:
        said += f"\nNot judged by this run (make bench-full does): {'; '.join(unjudged)}."
    return said


def _figures(title: str, measurements: Sequence[Measurement]) -> Table:
    table = _grid("", right=("time", "", "ratio", "first", "memory", "reqs", "read"))
    table.title, table.title_justify, table.title_style = title, "left", "bold"
    questions: dict[str, list[Measurement]] = {}
    for each in measurements:
        questions.setdefault(each.question, []).append(each)
    for question, those in questions.items():
        table.add_row(f"[bold]{question}[/]")
        ours = next((each for each in those if each.reader.startswith(NAME)), None)
        for each in those:
            _add(table, each, ours)
    return table


def _add(table: Table, each: Measurement, ours: Measurement | None) -> None:
    median = each.median
    is_ours = each.reader.startswith(NAME)
    parts = [each.reader, each.variant, each.base if is_ours else ""]
    table.add_row(
        f" {', '.join(part for part in parts if part)}",
        duration(median.seconds),
        _spread(each),
        "" if ours is None or each is ours else times(median.seconds / max(1e-9, ours.median.seconds)),
        _known(median.first_seconds, duration),
        size(median.peak_bytes),
        _known(median.requests, short),
        _known(median.bytes, size),
        style=None if is_ours else "dim",
    )


def _spread(each: Measurement) -> str:
    """How far the runs are from their median, at most."""
    if len(each.runs) == 1:
        return "once"
    far = max(abs(side - each.median.seconds) for side in each.spread.seconds)
    return f"±{far / max(1e-9, each.median.seconds):.0%}"


def _known(value: float | None, say: Callable[[float], str]) -> str:
    return "" if value is None else say(value)


def _grid(left: str, right: Iterable[str]) -> Table:
    table = Table(box=box.HORIZONTALS, show_edge=False, header_style="bold", padding=(0, 1, 0, 0), pad_edge=False)
    table.add_column(left, no_wrap=True)
    for name in right:
        table.add_column(name, justify="right", no_wrap=True)
    return table


def _amount(value: float, unit: str) -> str:
    if unit == "bytes":
        return size(value)
    return f"{precise(value)}x" if unit == "x" else short(value)
