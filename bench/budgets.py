"""What this library may cost beside others in the same run, and what it does.

Times are ratios to a peer, never seconds: seconds are the machine's.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, TypeAlias

from bench.questions import ALL_FILES, FIRST_FILE, LAST_HOUR_PATHS
from bench.readers.kernel import BATCHES, VISITING
from bench.readers.kernel import NAME as KERNEL
from bench.readers.ours import NAME as OURS
from bench.results import Budget
from bench.words import duration

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from bench.results import Measurement

FILES = 10_000_000
"""A ratio to a reader that reads the whole log grows with the log: it is judged at this size."""

Unit: TypeAlias = Literal["x", "bytes", "requests"]
Measure: TypeAlias = "Callable[[Sequence[Measurement]], tuple[float, str] | None]"

MANIFEST_BYTES = 100_000
_WIDE = 50
_LARGE = 1_000_000
_GROWN = 1_000


@dataclass(frozen=True, slots=True)
class Limit:
    """A budget.

    Attributes:
        what: In words.
        unit: `x` for a ratio.
        limit: The figure.
        measure: Finds what was measured, with the two figures in words; None where the run does not have it.
        at_least: Whether the figure is the least that is to be reached, rather than the most.
    """

    what: str
    unit: Unit
    limit: float
    measure: Measure
    at_least: bool = False


def judged(found: Sequence[Measurement]) -> list[Budget]:
    """Every budget that can be judged by these measurements."""
    return list(_judged(found))


def unjudged(found: Sequence[Measurement]) -> list[str]:
    """The budgets that cannot."""
    known = {each.what for each in judged(found)}
    return [each.what for each in LIMITS if each.what not in known]


def _judged(found: Sequence[Measurement]) -> Iterator[Budget]:
    for each in LIMITS:
        measured = each.measure(found)
        if measured is None:
            continue
        figure, detail = measured
        is_met = figure >= each.limit if each.at_least else figure <= each.limit
        yield Budget(
            what=each.what,
            unit=each.unit,
            limit=each.limit,
            at_least=each.at_least,
            measured=figure,
            met=is_met,
            detail=detail,
        )


# Ways to find a figure. Where tables of several sizes were measured, the largest counts.


def _beside_kernel(question: str, variants: Sequence[str], *, base: str = "sidecar", files: int = FILES) -> Measure:
    """How many times as long the kernel takes, the best of its variants."""

    def measure(found: Sequence[Measurement]) -> tuple[float, str] | None:
        ours = _one(found, "files", question, base, files)
        if ours is None:
            return None
        peers = [
            each
            for each in found
            if each.reader == KERNEL
            and each.variant in variants
            and (each.suite, each.question, each.shape) == (ours.suite, ours.question, ours.shape)
        ]
        if not peers:
            return None
        peer = min(peers, key=_took)
        said = f"{duration(_took(ours))} where {KERNEL} ({peer.variant}) took {duration(_took(peer))}, {ours.shape}"
        return _took(peer) / _took(ours), said

    return measure


def _memory(question: str, *, suite: str = "files", base: str = "sidecar", columns: int | None = None) -> Measure:
    def measure(found: Sequence[Measurement]) -> tuple[float, str] | None:
        known = [each for each in found if columns in (None, each.stats_columns)]
        ours = _one(known, suite, question, base, 0)
        return None if ours is None else (ours.median.peak_bytes, f"above the imports, {ours.shape}")

    return measure


def _grown(figure: str) -> Measure:
    """The last hour of a table over that of one with a thousandth of the files."""

    def measure(found: Sequence[Measurement]) -> tuple[float, str] | None:
        of = sorted(_cold(found, "files", LAST_HOUR_PATHS.name, "sidecar"), key=lambda each: each.files)
        pairs = [(small, large) for large in of for small in of if _is_grown(small, large)]
        if not pairs:
            return None
        small, large = pairs[-1]
        if figure == "manifest":
            return float(large.extra["manifest_bytes"]), large.shape
        if figure == "requests":
            # At most none more.
            more = (large.median.requests or 0) - (small.median.requests or 0)
            return more, f"{large.median.requests:.0f} of {large.shape}, {small.median.requests:.0f} of {small.shape}"
        said = f"{duration(_took(large))} of {large.shape}, {duration(_took(small))} of {small.shape}"
        return _took(large) / _took(small), said

    return measure


def _is_grown(small: Measurement, large: Measurement) -> bool:
    return large.files >= _GROWN * small.files and (small.tail, small.stats_columns) == (
        large.tail,
        large.stats_columns,
    )


def _beside(name: str, suite: str, figure: Literal["seconds", "memory"]) -> Measure:
    """This library beside a peer in the same suite, at the largest size of table."""

    def measure(found: Sequence[Measurement]) -> tuple[float, str] | None:
        of = [each for each in found if each.suite == suite]
        ours = max((each for each in of if each.reader == OURS and not each.variant), key=_files, default=None)
        if ours is None:
            return None
        if figure == "memory":
            return ours.median.peak_bytes, f"{ours.question}, {ours.shape}"
        peers = [each for each in of if each.reader == name and each.files in (0, ours.files)]
        if not peers:
            return None
        peer = min(peers, key=lambda each: each.median.seconds)
        taken = (ours.median.seconds, peer.median.seconds)
        said = f"{duration(taken[0])} ({ours.question}) where {peer.reader} took {duration(taken[1])}, {ours.shape}"
        return taken[0] / taken[1], said

    return measure


def _one(found: Sequence[Measurement], suite: str, question: str, base: str, files: int) -> Measurement | None:
    those = [each for each in _cold(found, suite, question, base) if each.files >= files]
    # Of tables that a peer was asked about, the largest.
    asked = {each.shape for each in found if each.reader == KERNEL}
    return max(those, key=lambda each: (each.shape in asked, each.files), default=None)


def _cold(found: Sequence[Measurement], suite: str, question: str, base: str) -> list[Measurement]:
    return [
        each
        for each in found
        if each.reader == OURS
        and not each.variant
        and (each.suite, each.question, each.base) == (suite, question, base)
    ]


def _took(each: Measurement) -> float:
    first = each.median.first_seconds
    return first if each.question == FIRST_FILE.name and first is not None else each.median.seconds


def _files(each: Measurement) -> int:
    return each.files


def _at_least(what: str, limit: float, measure: Measure) -> Limit:
    return Limit(what, "x", limit, measure, at_least=True)


def _at_most(what: str, limit: float, measure: Measure, unit: Unit = "x") -> Limit:
    return Limit(what, unit, limit, measure)


_BEST = (VISITING, BATCHES)
_FIRST, _HOUR, _ALL = FIRST_FILE.name, LAST_HOUR_PATHS.name, ALL_FILES.name
LIMITS = (
    _at_least("last hour with a sidecar, beside the kernel", 800, _beside_kernel(_HOUR, _BEST)),
    _at_least("first file with a sidecar, beside the kernel", 3, _beside_kernel(_FIRST, _BEST, files=_LARGE)),
    _at_least("all files, beside the kernel visiting them", 15, _beside_kernel(_ALL, (VISITING,))),
    _at_least(
        "last hour without a sidecar, beside the kernel",
        1.5,
        _beside_kernel(_HOUR, _BEST, base="checkpoint", files=_LARGE),
    ),
    _at_most("memory, last hour without a sidecar", 100e6, _memory(_HOUR, base="checkpoint"), "bytes"),
    _at_most("memory, last hour", 12e6, _memory(_HOUR), "bytes"),
    _at_most("memory, all files", 50e6, _memory(_ALL), "bytes"),
    _at_most("memory, last hour at 50 columns", 12e6, _memory(_HOUR, suite="columns", columns=_WIDE), "bytes"),
    _at_most("memory, all files at 50 columns", 50e6, _memory(_ALL, suite="columns", columns=_WIDE), "bytes"),
    _at_most("last hour, a thousand times the files", 1.5, _grown("seconds")),
    _at_most("more requests for a thousand times the files", 0, _grown("requests"), "requests"),
    _at_most("manifest at the most files", MANIFEST_BYTES, _grown("manifest"), "bytes"),
    _at_most("full build, beside DuckDB's own sort", 1.5, _beside("DuckDB", "build", "seconds")),
    _at_most("memory, full build", 2e9, _beside("DuckDB", "build", "memory"), "bytes"),
    _at_most("cold process, beside importing pyarrow", 1.5, _beside("pyarrow", "startup", "seconds")),
)
"""Those of DESIGN.md, section 7, that a run can judge."""
