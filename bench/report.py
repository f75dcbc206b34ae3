"""The words and tables around the figures."""

from __future__ import annotations

import os
import platform
from importlib.metadata import version
from typing import TYPE_CHECKING

from rich import box
from rich.table import Table

if TYPE_CHECKING:
    from collections.abc import Sequence

    from bench.questions import Result

OURS = "delta-sidecar"

CAVEATS = """\
- The tables are logs that this project's own generator makes: Delta's real
  format, a V1 checkpoint and a tail of 20 commits, without data files. "spark"
  has row groups as Spark writes them, in hash order; "single" has one.
- Everything is on a local disk and in its cache. There is no network, where
  round trips would count most.
- Times are without imports, memory is the peak above what the imports left.
  One machine, a few runs: read the ratios, not the digits.
- deltalake gives no file before it has them all, so its first file takes what
  its last hour takes. It is made to hold a table for many questions; here it
  is asked one.
"""

# Budgets for a table without a metadata sidecar. The times are delta-kernel-rs's, on a machine with 2 cores.
BUDGET_FILES = 10_000_000
KERNEL_LAST_HOUR = 5.4
KERNEL_FIRST_FILE = 0.007
MEMORY_BYTES = 150_000_000


def machine() -> str:
    """What the figures were made on."""
    system = f"{os.cpu_count()} cores, {platform.system()} {platform.machine()}, Python {platform.python_version()}"
    return f"{system}; {', '.join(f'{name} {version(name)}' for name in (OURS, 'deltalake', 'pyarrow'))}"


def figures(results: Sequence[Result]) -> Table:
    """Every result, the peers' with their ratio to ours."""
    table = _table("question", "reader", "layout", right=("time", "ratio", "memory", "ratio", "read"))
    for result in sorted(results, key=lambda result: [each.question for each in results].index(result.question)):
        ours = next((other for other in results if _is_ours_beside(other, result)), None)
        table.add_row(
            result.question,
            result.reader,
            result.layout,
            duration(result.seconds),
            "" if ours is None else f"{_short(result.seconds / ours.seconds)}x",
            bytes_text(result.peak_bytes),
            "" if ours is None else f"{_short(result.peak_bytes / max(1, ours.peak_bytes))}x",
            "" if result.bytes_read is None else bytes_text(result.bytes_read),
            style=None if result.reader == OURS else "dim",
        )
    return table


def budgets(results: Sequence[Result], files: int) -> Table:
    """The budgets that can be judged here, met or not."""
    table = _table("budget", "layout", right=("at most", "measured", ""))
    limits = {"last hour": KERNEL_LAST_HOUR, "first file": KERNEL_FIRST_FILE / 2}
    for result in results:
        if result.reader != OURS:
            continue
        what, measured = f"memory, {result.question}", bytes_text(result.peak_bytes)
        met = result.peak_bytes <= MEMORY_BYTES
        table.add_row(what, result.layout, bytes_text(MEMORY_BYTES), measured, _verdict(met=met))
        limit = limits.get(result.question)
        if limit is not None and files == BUDGET_FILES:
            met = result.seconds <= limit
            what, measured = f"time, {result.question} *", duration(result.seconds)
            table.add_row(what, result.layout, duration(limit), measured, _verdict(met=met))
    return table


def duration(seconds: float) -> str:
    """A time for people."""
    return f"{_short(seconds)} s" if seconds >= 1 else f"{_short(seconds * 1000)} ms"


def bytes_text(size: int) -> str:
    """A size for people."""
    return f"{_short(size / 1e9)} GB" if size >= 1e9 else f"{_short(size / 1e6)} MB"  # noqa: PLR2004 - a gigabyte


def _short(value: float) -> str:
    return f"{value:.1f}" if value < 10 else f"{value:,.0f}"  # noqa: PLR2004 - two digits are enough


def _table(*left: str, right: tuple[str, ...]) -> Table:
    table = Table(box=box.HORIZONTALS, show_edge=False, header_style="bold", padding=(0, 1, 0, 0), pad_edge=False)
    for name in left:
        table.add_column(name, no_wrap=True)
    for name in right:
        table.add_column(name, justify="right", no_wrap=True)
    return table


def _verdict(*, met: bool) -> str:
    return "[green]met[/]" if met else "[red]not met[/]"


def _is_ours_beside(other: Result, result: Result) -> bool:
    same = (other.question, other.layout) == (result.question, result.layout)
    return same and result.reader != OURS and other.reader == OURS
