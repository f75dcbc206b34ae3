"""What results say: who is compared with whom, in which sentence, and how figures grow."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from bench.words import count, duration, precise, size

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from bench.results import Measurement

OURS = "delta-sidecar"
KERNEL = "delta-kernel-rs"
FIRST_FILE = "first file"
SUBJECTS = {
    FIRST_FILE: "The first file",
    "first 100": "The first 100 files",
    "first 1,000": "The first 1,000 files",
    "last hour": "The last hour",
    "last hour, paths": "The paths of the last hour",
    "one day": "One day",
    "statistics": "A search by statistics",
    "all files": "All files",
}
_ALIKE = 0.1  # times that differ by less are called alike


def is_ours(each: Measurement) -> bool:
    """Whether it is this library, by itself or inside of an engine."""
    return each.reader.startswith(OURS)


def took(each: Measurement) -> float:
    """The seconds that its question is about."""
    first = each.median.first_seconds
    return first if each.question == FIRST_FILE and first is not None else each.median.seconds


def reference(measured: Iterable[Measurement]) -> Measurement | None:
    """Ours that others are compared with: cold, with a metadata sidecar if there is one."""
    ours = [each for each in measured if is_ours(each)]
    return min(ours, key=lambda each: (each.variant != "", each.base != "sidecar"), default=None)


def peers(measured: Iterable[Measurement]) -> list[Measurement]:
    """The others, the quickest first."""
    return sorted((each for each in measured if not is_ours(each)), key=took)


def by(measured: Iterable[Measurement], key: Callable[[Measurement], object]) -> list[list[Measurement]]:
    """Those of the same key together, in the order in which keys are met."""
    groups: dict[object, list[Measurement]] = {}
    for each in measured:
        groups.setdefault(key(each), []).append(each)
    return list(groups.values())


def label(each: Measurement) -> str:
    """Who it is, on what; of others all that they have is the checkpoint."""
    return ", ".join(part for part in (who(each, ""), on(each)) if part)


def who(each: Measurement, usual: str = "sidecar") -> str:
    """The same in short: only a base that is not the usual one is named."""
    if not is_ours(each):
        return f"{each.reader} ({each.variant})" if each.variant else each.reader
    base = f"{each.base} alone" if usual and each.base not in {usual, ""} else ""
    return ", ".join(part for part in (each.reader, each.variant, base) if part)


def on(each: Measurement) -> str:
    """What ours has to go by."""
    if not is_ours(each) or not each.base:
        return ""
    return "with a metadata sidecar" if each.base == "sidecar" else f"with the {each.base} alone"


def subject(question: str, files: int) -> str:
    """What was asked of what, as the beginning of a sentence."""
    if question == "all files":
        return f"All of {count(files)} files"
    return f"{SUBJECTS.get(question, question[:1].upper() + question[1:])} of {count(files)} files"


def finding(what: str, ours: Measurement, others: Sequence[Measurement]) -> str:
    """A sentence on our time beside that of the quickest of the others, whoever that is."""
    said = f"{what}: {duration(took(ours))}"
    if not others:
        return said
    best = min(others, key=took)
    ratio = took(best) / took(ours)
    if abs(math.log(ratio)) < math.log1p(_ALIKE):
        return f"{said}, about as quick as {who(best)}"
    if ratio > 1:
        return f"{said}, {precise(ratio)} times as quick as {who(best)}"
    return f"{said}, {precise(1 / ratio)} times as long as {who(best)} takes"


def memory_finding(what: str, ours: Measurement, others: Sequence[Measurement]) -> str:
    """The same on memory."""
    mine = ours.median.peak_bytes
    said = f"{what}: {size(mine)} of memory"
    if not others:
        return said
    best = min(others, key=peak)
    ratio = peak(best) / mine
    if abs(math.log(ratio)) < math.log1p(_ALIKE):
        return f"{said}, about what {who(best)} takes"
    if ratio > 1:
        return f"{said}; {who(best)} takes {precise(ratio)} times that"
    return f"{said}, {precise(1 / ratio)} times what {who(best)} takes"


def peak(each: Measurement) -> float:
    """The most memory that it had above its imports."""
    return each.median.peak_bytes


def exponent(points: Sequence[tuple[float, float]]) -> float | None:
    """The power of x that y grows with, by least squares over the logarithms; None for fewer than two x."""
    logs = [(math.log(x), math.log(y)) for x, y in points if x > 0 and y > 0]
    if len({x for x, _ in logs}) < 2:  # noqa: PLR2004 - a line needs two
        return None
    mean_x, mean_y = (sum(axis) / len(logs) for axis in zip(*logs, strict=True))
    return sum((x - mean_x) * (y - mean_y) for x, y in logs) / sum((x - mean_x) ** 2 for x, _ in logs)


def loses(
    measured: Iterable[Measurement], figure: Callable[[Measurement], float]
) -> list[tuple[Measurement, Measurement]]:
    """Ours, cold, and the best of the others where that does with less; the worst first."""
    found = []
    for group in by(measured, lambda each: (each.suite, each.question, table_key(each))):
        best = min((each for each in group if not is_ours(each)), key=figure, default=None)
        if best is not None:
            ours = [each for each in group if is_ours(each) and not each.variant]
            found += [(each, best) for each in ours if figure(best) < figure(each)]
    return sorted(found, key=lambda pair: figure(pair[1]) / figure(pair[0]))


def table_key(each: Measurement) -> tuple[object, ...]:
    """What tells tables apart. Tables with a metadata sidecar and without one are the same table."""
    return each.shape, each.files, each.tail, each.stats_columns, each.removes
