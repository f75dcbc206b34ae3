"""What this library may cost, and which of it is met."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from bench.questions import ALL_FILES, BUILD, FIRST_FILE, LAST_HOUR, LAST_HOUR_PATHS

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from bench.questions import Result

OURS = "delta-sidecar"
FILES = 10_000_000
"""Times are judged for this many files only."""

# delta-kernel-rs's times, on a machine with 2 cores. It is not part of the run.
_KERNEL_FIRST_FILE = 0.007
_KERNEL_LAST_HOUR = 5.4
_KERNEL_ALL_FILES = 18.8

MOST_GROWTH = 2.0
"""How much longer the last hour may take with `FILES` files than with few."""


@dataclass(frozen=True, slots=True)
class Budget:
    """What a question may cost; None where that has no budget."""

    seconds: float | None = None
    peak_bytes: int | None = None


_CHECKPOINT = {
    FIRST_FILE: Budget(_KERNEL_FIRST_FILE / 2, 150_000_000),
    LAST_HOUR: Budget(_KERNEL_LAST_HOUR, 150_000_000),
    ALL_FILES: Budget(None, 150_000_000),
}
BUDGETS: dict[str, dict[str, Budget]] = {
    "spark": _CHECKPOINT,
    "single": _CHECKPOINT,
    "sidecar": {
        BUILD: Budget(60, 2_000_000_000),
        FIRST_FILE: Budget(_KERNEL_FIRST_FILE / 2),
        LAST_HOUR: Budget(_KERNEL_LAST_HOUR / 300, 5_000_000),
        LAST_HOUR_PATHS: Budget(_KERNEL_LAST_HOUR / 300, 5_000_000),
        ALL_FILES: Budget(_KERNEL_ALL_FILES / 10, 50_000_000),
    },
    "wide": {LAST_HOUR: Budget(None, 5_000_000), LAST_HOUR_PATHS: Budget(None, 5_000_000)},
}
"""By layout and question."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """A budget beside what was measured.

    Attributes:
        what: The budget: what of which question.
        layout: Of which table.
        unit: `s`, `bytes`, `times` or `requests`.
        limit: At most this.
        measured: What it was.
    """

    what: str
    layout: str
    unit: str
    limit: float
    measured: float

    @property
    def met(self) -> bool:
        """Whether it was kept."""
        return self.measured <= self.limit


def verdicts(results: Sequence[Result], files: int) -> Iterator[Verdict]:
    """Every budget that can be judged here."""
    ours = [result for result in results if result.reader == OURS]
    for result in ours:
        budget = BUDGETS.get(result.layout, {}).get(result.question, Budget())
        if budget.seconds is not None and files == FILES:
            yield Verdict(f"time, {result.question}", result.layout, "s", budget.seconds, result.seconds)
        if budget.peak_bytes is not None:
            yield Verdict(f"memory, {result.question}", result.layout, "bytes", budget.peak_bytes, result.peak_bytes)
    for question in (LAST_HOUR, LAST_HOUR_PATHS):
        of = {result.layout: result for result in ours if result.question == question}
        if "sidecar" not in of or "small" not in of:
            continue
        large, small = of["sidecar"], of["small"]
        if files == FILES:
            yield Verdict(f"growth, {question}", "sidecar", "times", MOST_GROWTH, large.seconds / small.seconds)
        requests = (small.requests or 0, large.requests or 0)
        yield Verdict(f"requests, {question}", "sidecar", "requests", *requests)
