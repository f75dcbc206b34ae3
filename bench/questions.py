"""What is asked, and whether an answer is true."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from bench.readers import digest
from bench.tables import LAYOUTS

if TYPE_CHECKING:
    from bench.measure import Measurement
    from bench.tables import BenchTable

FIRST_FILE = "first file"
LAST_HOUR = "last hour"
LAST_HOUR_PATHS = "last hour, paths"
ALL_FILES = "all files"
BUILD = "sidecar build"

QUESTIONS = {
    FIRST_FILE: "any live file, as soon as it is known",
    LAST_HOUR: "every live file of the newest hour, with everything that the log knows of it",
    LAST_HOUR_PATHS: "the same without statistics: path, size, modification time, partition values",
    ALL_FILES: "every live file as Arrow batches: path, size, modification time, partition values",
}
_COLUMNS = ["path", "size", "modification_time", "partition_values"]


class WrongAnswerError(Exception):
    """A reader gave an answer that is not true. Its time means nothing."""


@dataclass(frozen=True, slots=True)
class Result:
    """A reader's way to answer a question, measured.

    Attributes:
        question: As in `QUESTIONS`, or `BUILD`.
        reader: Who.
        layout: Of which table.
        seconds: The median of the runs.
        peak_bytes: The highest of the runs.
        requests: How many requests it took; None where the reader does not tell.
        bytes_read: How many bytes were read; None where the reader does not tell.
    """

    question: str
    reader: str
    layout: str
    seconds: float
    peak_bytes: int
    requests: int | None = None
    bytes_read: int | None = None


def questions_of(layout: str) -> list[str]:
    """What is asked of a table."""
    if LAYOUTS[layout].small:
        return [LAST_HOUR, LAST_HOUR_PATHS]
    return [question for question in QUESTIONS if LAYOUTS[layout].sidecar or question != LAST_HOUR_PATHS]


def lazy_arguments(question: str, table: BenchTable) -> dict[str, Any]:
    """What this library is asked."""
    hour = f"_event_hour = '{table.log.newest_hour}'"
    asked: dict[str, dict[str, Any]] = {
        FIRST_FILE: {"limit": 1},
        LAST_HOUR: {"predicate": hour},
        LAST_HOUR_PATHS: {"predicate": hour, "columns": _COLUMNS},
        ALL_FILES: {"columns": _COLUMNS},
    }
    return asked[question]


def check(question: str, table: BenchTable, measurement: Measurement) -> None:
    """Compares an answer with what the table's generator knows.

    Raises:
        WrongAnswerError: They differ, or a metadata sidecar that should have been used was not.
    """
    answer, log = measurement.answer, table.log
    newest = list(log.live_paths(log.newest_hour))
    if question == FIRST_FILE:
        # The newest commit adds to the newest hour.
        right = answer["first_path"] in newest
    elif question in {LAST_HOUR, LAST_HOUR_PATHS}:
        right = (answer["files"], answer["paths"]) == (log.expected_hour(log.newest_hour), digest(newest))
    else:
        right = (answer["files"], answer["size"]) == (log.live_files, table.total_size)
    # A limit may be reached before any base is chosen.
    if LAYOUTS[table.layout].sidecar and question != FIRST_FILE:
        right = right and answer["tier"] == 1
    if not right:
        msg = f"{question} of {table.path}: {answer}"
        raise WrongAnswerError(msg)
