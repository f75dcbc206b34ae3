"""What a run asks of whom: shapes of tables, questions and readers.

`CORE` is for `make bench`, ten minutes; `FULL` is all of it.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from bench.questions import (
    ALL_FILES,
    FIRST_100,
    FIRST_FILE,
    LAST_HOUR,
    LAST_HOUR_PATHS,
    QUESTIONS,
    Question,
)
from bench.readers import delta_rs, duckdb_delta, kernel, ours, spark
from bench.readers.reader import NotHereError
from bench.shapes import Shape

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from bench.readers import Reader
    from bench.results import Suite


@dataclass(frozen=True, slots=True)
class Workload:
    """Some questions about one table.

    Attributes:
        suite: The part of the results that it is for.
        shape: The table.
        questions: What is asked, one after the other.
        readers: Who is asked, by the names of `READERS`; of those that are not there nothing is said here.
        rounds: How often each is asked; a reader that is slow is asked once.
    """

    suite: Suite
    shape: Shape
    questions: tuple[Question, ...]
    readers: tuple[str, ...]
    rounds: int = 3


_QUICK = frozenset({FIRST_FILE.name, LAST_HOUR_PATHS.name})

READERS: dict[str, Callable[[], list[Reader]]] = {
    "ours": lambda: [ours.reader("sidecar"), ours.reader("checkpoint")],
    "warm": lambda: [ours.reader("sidecar", "warm", questions=_QUICK, is_warm=True)],
    "forward": lambda: [ours.reader("checkpoint", "forward", questions=_QUICK, strategy="forward")],
    "ladder": ours.levels,
    "kernel": kernel.readers,
    "deltalake": delta_rs.readers,
    "DuckDB": duckdb_delta.readers,
    "Spark": spark.readers,
}
"""Readers that come together, by a name."""

LARGEST = Shape(100_000_000, tail=10, is_generated=True)
"""A table that nobody else is asked about: it would have taken a day to write."""

PEERS = ("kernel", "deltalake", "DuckDB", "Spark")
"""Those that are not this library."""

_MANY = ("ours", "warm", "kernel", "deltalake", "DuckDB")
_ALL = (*_MANY, "forward", "Spark")
# DuckDB's list of a million files takes gigabytes.
_LARGE = tuple(name for name in _ALL if name != "DuckDB")
_HOUR = (FIRST_FILE, LAST_HOUR_PATHS)
_BOTH = ("ours", "kernel")

CORE = (
    Workload("files", Shape(100_000), (LAST_HOUR_PATHS,), ("ours",), rounds=5),
    Workload("files", Shape(1_000_000), QUESTIONS, _MANY),
    Workload("columns", Shape(100_000, stats_columns=50), (LAST_HOUR_PATHS, ALL_FILES), _BOTH),
    Workload("ladder", Shape(1_000_000), (LAST_HOUR, FIRST_100), ("ladder",), rounds=2),
)
"""For `make bench`."""

FULL = (
    *(Workload("files", Shape(files), QUESTIONS, _ALL, rounds=5) for files in (100_000, 1_000_000)),
    Workload("files", Shape(10_000_000), QUESTIONS, _LARGE, rounds=3),
    *(
        Workload("files", shape, QUESTIONS[:-1], ("ours",), rounds=5)
        for shape in (replace(LARGEST, files=100_000), LARGEST)
    ),
    *(Workload("tails", Shape(1_000_000, tail=tail), (*_HOUR, ALL_FILES), _BOTH) for tail in (0, 10, 100, 1_000)),
    *(
        Workload("columns", Shape(files, stats_columns=columns), (LAST_HOUR, LAST_HOUR_PATHS, ALL_FILES), _BOTH)
        for files, columns in ((100_000, 5), (100_000, 50), (10_000, 1_000))
    ),
    *(
        Workload("removes", Shape(2_000_000, tail=10, removes=removes), (*_HOUR, ALL_FILES), _BOTH)
        for removes in (0, 50_000, 1_000_000)
    ),
    Workload("ladder", Shape(10_000_000), (LAST_HOUR, FIRST_100), ("ladder",)),
)
"""For `make bench-full`."""

ELSEWHERE = ("startup", "rows", "build", "ingestion", "cloud", "growth")
"""Suites that modules of their own measure."""

CORE_ELSEWHERE = ("startup",)
"""Those of them that `make bench` has too."""


def at_most(workloads: Iterable[Workload], files: int) -> list[Workload]:
    """Workloads on tables of at most so many files. Where several become one, that with the most questions stays."""
    found: dict[tuple[str, Shape], Workload] = {}
    for each in workloads:
        shape = replace(each.shape, files=min(each.shape.files, files))
        before = found.get((each.suite, shape))
        if before is None or len(before.questions) < len(each.questions):
            found[each.suite, shape] = replace(each, shape=shape)
    return list(found.values())


def prepared(names: Iterable[str], say: Callable[[str], None]) -> tuple[dict[str, list[Reader]], list[str]]:
    """Makes readers ready, which may take long where one has to be installed.

    Args:
        names: Of `READERS`.
        say: Is told what takes long.

    Returns:
        Those that are there, and why others are not.
    """
    found, missing = {}, []
    for name in names:
        try:
            if name == "kernel":
                kernel.built(say)
            found[name] = READERS[name]()
        except (NotHereError, OSError, RuntimeError) as error:
            missing.append(f"{name}: {error}" if not isinstance(error, NotHereError) else str(error))
    return found, missing
