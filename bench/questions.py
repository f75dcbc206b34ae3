"""What is asked, and whether an answer is true."""

from __future__ import annotations

import datetime as dt
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from delta_sidecar.synth.file_series import hour_name

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from bench.shapes import BenchTable

PATHS = ("path", "size", "modification_time", "partition_values")
"""The columns of files that say where they are, without statistics."""


@dataclass(frozen=True, slots=True)
class Question:
    """A question about the live files of a table.

    Attributes:
        name: As results have it.
        words: What is asked.
        kind: Of which files: `all`, those of the newest `hour` or `day`, or those that may have one of some
            `sequence` numbers.
        limit: How many of them are enough; None for all.
        columns: What is wanted of each; None for everything that the log knows.
    """

    name: str
    words: str
    kind: str = "all"
    limit: int | None = None
    columns: tuple[str, ...] | None = None


FIRST_FILE = Question("first file", "any live file, as soon as it is known", limit=1)
FIRST_100 = Question("first 100", "any 100 live files", limit=100)
FIRST_1000 = Question("first 1,000", "any 1,000 live files", limit=1_000)
LAST_HOUR = Question("last hour", "the files of the newest hour, with all that the log knows of them", "hour")
LAST_HOUR_PATHS = Question(
    "last hour, paths", "the same: path, size, modification time, partition values", "hour", columns=PATHS
)
ONE_DAY = Question("one day", "the files of the newest whole day, as above", "day", columns=PATHS)
ALL_FILES = Question("all files", "all files as Arrow batches, as above", columns=PATHS)
STATISTICS = Question(
    "statistics", "the files that may hold some sequence numbers, which no partition tells", "statistics", columns=PATHS
)
QUESTIONS = (FIRST_FILE, FIRST_100, FIRST_1000, LAST_HOUR, LAST_HOUR_PATHS, ONE_DAY, ALL_FILES, STATISTICS)

_STATISTICS_FILES = 1_000
_SEQUENCE = 100_000_000_000_000
_SEQUENCE_STEP = 100_000
_HOURS = 24


class WrongAnswerError(Exception):
    """A reader gave an answer that is not true. Its time means nothing."""


def asked(question: Question, table: BenchTable) -> dict[str, Any]:
    """The question as JSON, with the values that it has for a table."""
    numbers = _numbers(question, table)
    first, last = (_SEQUENCE + number * _SEQUENCE_STEP for number in (numbers.start, numbers.stop - 1))
    return {
        "kind": question.kind,
        "hour": table.log.newest_hour,
        "day": _day(table),
        "sequence": [first, last],
        "limit": question.limit,
        "columns": None if question.columns is None else list(question.columns),
    }


def predicate(ask: dict[str, Any]) -> str | None:
    """The question as SQL; None where it is about all files."""
    found: dict[str, str | None] = {
        "all": None,
        "hour": f"_event_hour = '{ask['hour']}'",
        "day": f"_event_hour >= '{ask['day']}00' AND _event_hour <= '{ask['day']}23'",
        "statistics": "sequence >= {} AND sequence <= {}".format(*ask["sequence"]),
    }
    return found[ask["kind"]]


def suits(question: Question, table: BenchTable) -> bool:
    """Whether a table has what is asked about."""
    return question.kind != "statistics" or any(each.name == "sequence" for each in table.log.series.columns)


@dataclass(frozen=True, slots=True)
class Truth:
    """The right answer, of the generator of the table."""

    files: int
    size: int
    paths: str | None  # their digest; None where they are too many


def truth(question: Question, table: BenchTable) -> Truth:
    """The right answer to a question that has no limit."""
    if question.kind == "all":
        return Truth(table.log.live_files, table.total_size, None)
    block = table.log.series.block(_live(table, _numbers(question, table)))
    return Truth(len(block), int(block.sizes.sum()), digest(block.paths.to_pylist()))


def check(question: Question, table: BenchTable, answer: dict[str, Any], right: Truth | None = None) -> None:
    """Compares an answer with the truth.

    Args:
        question: What was asked.
        table: Of which table.
        answer: Has `files`, and where there is a limit `listed`, the paths; may have `size`, and `paths`, their digest.
        right: The truth, where it is known already.

    Raises:
        WrongAnswerError: They differ.
    """
    if question.limit is not None:
        listed = answer["listed"]
        expected = min(question.limit, table.log.live_files)
        is_right = answer["files"] == len(set(listed)) == len(listed) == expected and _are_live(table, listed)
    else:
        right = right or truth(question, table)
        listed = answer.get("listed")
        paths = answer.get("paths") if listed is None else digest(listed)
        # Not every reader has sizes, and nobody keeps the paths of very many files.
        is_right = answer["files"] == right.files and answer.get("size", right.size) == right.size
        is_right = is_right and (right.paths is None or paths is None or paths == right.paths)
    if not is_right:
        shown = {name: value for name, value in answer.items() if name != "listed"}
        msg = f"{question.name} of {table.shape.words}: {shown}, but right is {right or question.limit}"
        raise WrongAnswerError(msg)


def digest(paths: Iterable[str]) -> str:
    """One short text for a set of paths: their FNV-1a hashes added up, as the kernel's lister has it too."""
    by_length: dict[int, list[bytes]] = {}
    for path in paths:
        data = path.encode()
        by_length.setdefault(len(data), []).append(data)
    total = 0
    for length, found in by_length.items():
        matrix = np.frombuffer(b"".join(found), dtype=np.uint8).reshape(len(found), length)
        hashes = np.full(len(found), 0xCBF29CE484222325, dtype=np.uint64)
        for column in range(length):
            hashes = (hashes ^ matrix[:, column]) * np.uint64(0x100000001B3)
        total += int(hashes.sum(dtype=np.uint64))
    return f"{total & (2**64 - 1):016x}"


def _numbers(question: Question, table: BenchTable) -> range:
    """The numbers of the files that it is about, removed ones included."""
    series = table.log.series
    newest = series.start_hour + series.hours - 1
    if question.kind == "hour":
        return series.hour_range(newest)
    if question.kind == "day":
        hours = [_hour(f"{_day(table)}{hour:02}") for hour in range(_HOURS)]
        ranges = [found for hour in hours if (found := series.hour_range(hour))]
        return range(ranges[0].start, ranges[-1].stop)
    middle = series.count // 2
    return range(middle, min(series.count, middle + _STATISTICS_FILES))


def _day(table: BenchTable) -> str:
    """The newest day that is whole, or else the newest one, as `yyyyMMdd`."""
    series = table.log.series
    newest = series.start_hour + series.hours - 1
    before = newest - (newest + 1) % _HOURS
    return hour_name(before if before >= series.start_hour else newest)[:8]


def _hour(name: str) -> int:
    return int(dt.datetime.strptime(name, "%Y%m%d%H").replace(tzinfo=dt.UTC).timestamp()) // 3600


def _live(table: BenchTable, numbers: range) -> np.ndarray[Any, np.dtype[np.int64]]:
    found: np.ndarray[Any, np.dtype[np.int64]] = np.setdiff1d(
        np.arange(numbers.start, numbers.stop, dtype=np.int64), table.log.deleted
    )
    return found


def _are_live(table: BenchTable, paths: list[str]) -> bool:
    """Whether all of these are live files of a table."""
    hours = {path.removeprefix("_event_hour=")[:10] for path in paths}
    return set(paths) <= set(_paths_of(table, hours))


def _paths_of(table: BenchTable, hours: set[str]) -> Iterator[str]:
    for hour in hours:
        if hour.isdecimal():
            yield from table.log.live_paths(hour)
