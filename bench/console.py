"""The words and tables around the figures."""

from __future__ import annotations

import os
import platform
from importlib.metadata import version
from typing import TYPE_CHECKING

from rich import box
from rich.table import Table

from bench.budgets import FILES, OURS
from bench.questions import BUILD, QUESTIONS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from bench.budgets import Verdict
    from bench.questions import Result

CAVEATS = """\
- The tables are logs that this project's own generator makes: Delta's real
  format, a V1 checkpoint and a tail of 20 commits, without data files. "spark"
  has row groups as Spark writes them, in hash order; "single" has one.
- "sidecar" is "spark" with a metadata sidecar at the checkpoint's version,
  "small" the same with few files, "wide" has few files and statistics of 50
  columns. Somebody has to build a sidecar: that is a line of its own.
- Everything is on a local disk and in its cache. There is no network, where
  round trips would count most.
- Times are without imports, memory is the peak above what the imports left.
  One machine, a few runs: read the ratios, not the digits.
- deltalake gives no file before it has them all, so its first file takes what
  its last hour takes. It is made to hold a table for many questions; here it
  is asked one. Where no reader is named, it is this library.
"""


def machine() -> str:
    """What the figures were made on."""
    system = f"{os.cpu_count()} cores, {platform.system()} {platform.machine()}, Python {platform.python_version()}"
    return f"{system}; {', '.join(f'{name} {version(name)}' for name in (OURS, 'deltalake', 'pyarrow'))}"


def figures(results: Sequence[Result]) -> Table:
    """Every result, the peers' with their ratio to ours."""
    table = grid("question, layout", right=("time", "ratio", "memory", "ratio", "requests", "read"))
    for question in (*QUESTIONS, BUILD):
        of = [result for result in results if result.question == question]
        if of:
            table.add_row(question, style="bold")
        for result in of:
            is_ours = result.reader == OURS
            ours = next((other for other in of if other.reader == OURS and other.layout == result.layout), None)
            beside = None if is_ours else ours
            table.add_row(
                f"  {result.layout}" if is_ours else f"  {result.layout}, {result.reader}",
                duration(result.seconds),
                "" if beside is None else f"{_short(result.seconds / beside.seconds)}x",
                bytes_text(result.peak_bytes),
                "" if beside is None else f"{_short(result.peak_bytes / max(1, beside.peak_bytes))}x",
                "" if result.requests is None else f"{result.requests:,}",
                "" if result.bytes_read is None else bytes_text(result.bytes_read),
                style=None if is_ours else "dim",
            )
    return table


def budgets(verdicts: Sequence[Verdict]) -> Table:
    """The budgets that can be judged here, met or not."""
    table = grid("budget", "layout", right=("at most", "measured", ""))
    for each in verdicts:
        limit, measured = (_amount(value, each.unit) for value in (each.limit, each.measured))
        table.add_row(each.what, each.layout, limit, measured, "[green]met[/]" if each.met else "[red]not met[/]")
    return table


def verdict(verdicts: Sequence[Verdict]) -> str:
    """All budgets in a sentence."""
    failed = [f"{each.what} ({each.layout})" for each in verdicts if not each.met]
    if not failed:
        return f"\nAll of {len(verdicts)} budgets are met.\n"
    return f"\n{len(verdicts) - len(failed)} of {len(verdicts)} budgets are met. Not met: {'; '.join(failed)}.\n"


def notes(files: int, small: int) -> str:
    """What the budgets are."""
    if files != FILES:
        return f"Times have budgets for {FILES:,} files only: they are not judged here."
    return (
        "Times are beside delta-kernel-rs, which is not part of this run: its first file takes 7 ms, and ours at most "
        "half of it; its last hour 5.4 s, and ours no more, and with a sidecar 1/300 of it; all its files 18.8 s, and "
        f"ours with a sidecar 1/10 of it. Growth is the time with {files:,} files over the time with {small:,}; for "
        f"requests, at most are those with {small:,}."
    )


def duration(seconds: float) -> str:
    """A time for people."""
    return f"{_short(seconds)} s" if seconds >= 1 else f"{_short(seconds * 1000)} ms"


def bytes_text(size: int) -> str:
    """A size for people."""
    return f"{_short(size / 1e9)} GB" if size >= 1e9 else f"{_short(size / 1e6)} MB"  # noqa: PLR2004 - a gigabyte


def grid(*left: str, right: tuple[str, ...]) -> Table:
    """An empty table, with columns of texts and then of figures."""
    table = Table(box=box.HORIZONTALS, show_edge=False, header_style="bold", padding=(0, 1, 0, 0), pad_edge=False)
    for name in left:
        table.add_column(name, no_wrap=True)
    for name in right:
        table.add_column(name, justify="right", no_wrap=True)
    return table


def _amount(value: float, unit: str) -> str:
    if unit == "bytes":
        return bytes_text(int(value))
    return duration(value) if unit == "s" else f"{_short(value)}x" if unit == "times" else f"{value:,.0f}"


def _short(value: float) -> str:
    return f"{value:.1f}" if value < 10 else f"{value:,.0f}"  # noqa: PLR2004 - two digits are enough
