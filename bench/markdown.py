"""Parts of pages: tables, charts, and readers beside each other."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bench import plots
from bench.findings import (
    FIRST_FILE,
    KERNEL,
    SUBJECTS,
    by,
    finding,
    is_ours,
    label,
    peak,
    peers,
    reference,
    subject,
    took,
    who,
)
from bench.words import count, duration, short, size, times

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Sequence
    from pathlib import Path

    from bench.results import Measurement, Results

TABLES = ("files", "tail", "stats_columns", "removes", "shape")
"""The fields that tell tables apart."""
MISSING = "This was not part of the run.\n"


def suite(found: Results, name: str) -> list[Measurement]:
    """The measurements of a suite."""
    return [each for each in found.measurements if each.suite == name]


def of(measured: Iterable[Measurement], question: str) -> list[Measurement]:
    """Those of a question."""
    return [each for each in measured if each.question == question]


def table(header: Sequence[str], rows: Iterable[Sequence[str]], left: int = 1) -> str:
    """A table, without the columns in which there is nothing; the first `left` are texts, the others figures."""
    rows = [[*row, *[""] * (len(header) - len(row))] for row in rows]
    kept = [number for number, _ in enumerate(header) if any(row[number] for row in rows)]
    lines = [
        [header[number] for number in kept],
        ["---" if number < left else "---:" for number in kept],
        *([row[number].replace("|", "\\|") for number in kept] for row in rows),
    ]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def chart(folder: Path, name: str, title: str, panels: Sequence[plots.Panel], mark: str = "") -> str:
    """Draws bars; gives what shows them. `mark` says what their targets are."""
    plots.bars(folder, name, title, panels, mark)
    return picture(name, title) + "\n"


def picture(name: str, title: str, folder: str = "") -> str:
    """Shows a chart, light or dark as the reader's screen is."""
    path, words = f"{folder}{name}", title.replace('"', "&quot;")
    return (
        f'<picture>\n  <source media="(prefers-color-scheme: dark)" srcset="{path}-dark.svg">\n'
        f'  <img alt="{words}" src="{path}-light.svg">\n</picture>\n'
    )


def bars(
    measured: Sequence[Measurement],
    figure: Callable[[Measurement], float],
    *,
    name: Callable[[Measurement], str] = label,
    group: str = "",
) -> list[plots.Bar]:
    """A bar for everyone, the shortest first; whom others are compared with stands out."""
    ours = reference(measured)
    kinds: dict[bool, plots.Kind] = {True: "ours, otherwise", False: "peer"}
    return [
        plots.Bar(name(each), figure(each), "ours" if each is ours else kinds[is_ours(each)], group=group)
        for each in sorted(measured, key=figure)
        if figure(each) > 0
    ]


def title(asked: Sequence[Measurement]) -> str:
    """What times of one question say, in a sentence."""
    ours = reference(asked)
    return finding(subject(ours.question, ours.files), ours, peers(asked)) if ours else ""


def comparison(measured: Sequence[Measurement], *, first: bool = False) -> str:
    """Everyone's figures by question, with ratios to ours and the kernel's; with `first` when the answer began."""
    rows = []
    order = [*SUBJECTS]
    questions = by(measured, lambda each: each.question)
    for asked in sorted(
        questions, key=lambda group: order.index(q) if (q := group[0].question) in order else len(order)
    ):
        ours = reference(asked)
        kernel = min((each for each in asked if each.reader == KERNEL), key=took, default=None)
        if len(questions) > 1:
            rows.append([f"**{asked[0].question}**"])
        for each in sorted(asked, key=took):
            strong = "**" if each is ours else ""
            came = each.median.first_seconds if first and each.question != FIRST_FILE else None
            rows.append(
                [
                    f"{strong}{who(each)}{strong}",
                    f"{strong}{duration(took(each))}{strong}",
                    _spread(each),
                    "" if came is None else duration(came),
                    "" if ours is None else times(took(each) / took(ours)),
                    "" if kernel is None else times(took(each) / took(kernel)),
                    size(peak(each)),
                    *reads(each),
                ]
            )
    header = [
        "",
        "time",
        "spread",
        "first one",
        "beside ours",
        "beside the kernel",
        "memory",
        "requests",
        "trips",
        "read",
    ]
    return table(header, rows)


def reads(each: Measurement) -> list[str]:
    """Requests, trips and bytes, where they are known."""
    median = each.median
    return [
        "" if median.requests is None else short(median.requests),
        "" if median.trips is None else short(median.trips),
        "" if median.bytes is None else size(median.bytes),
    ]


def table_words(each: Measurement, fields: Collection[str] = ()) -> str:
    """Which table that is; by some fields only, where those tell it from the others."""
    said = {
        "files": f"{count(each.files)} files",
        "tail": f"{each.tail:,} commits after the checkpoint" if each.tail or "tail" in fields else "",
        "stats_columns": f"statistics of {each.stats_columns:,} columns" if each.stats_columns else "",
        "removes": f"{count(each.removes)} removes" if each.removes or "removes" in fields else "",
        "shape": "" if "files" in each.shape else each.shape,  # else it says all of this itself
    }
    return ", ".join(words for name, words in said.items() if words and (not fields or name in fields))


def telling(measured: Sequence[Measurement]) -> list[str]:
    """The fields of tables that tell these apart."""
    return [name for name in TABLES if len({getattr(each, name) for each in measured}) > 1]


def _spread(each: Measurement) -> str:
    """The least and the most of the runs; nothing where that is of another figure, or of one run."""
    if len(each.runs) < 2:  # noqa: PLR2004 - one run has no spread
        return "one run"
    values = [
        run.first_seconds if each.question == FIRST_FILE and run.first_seconds is not None else run.seconds
        for run in each.runs
    ]
    return f"{duration(min(values))} to {duration(max(values))}"
