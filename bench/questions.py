"""What is asked, and whether an answer is true."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from bench.readers import digest

if TYPE_CHECKING:
    from bench.measure import Measurement
    from bench.tables import BenchTable

QUESTIONS = {
    "first file": "any live file, as soon as it is known",
    "last hour": "every live file of the newest hour",
    "all files": "every live file as Arrow batches: path, size, modification time, partition values",
}
_COLUMNS = ["path", "size", "modification_time", "partition_values"]


class WrongAnswerError(Exception):
    """A reader gave an answer that is not true. Its time means nothing."""


@dataclass(frozen=True, slots=True)
class Result:
    """A reader's way to answer a question, measured.

    Attributes:
        question: As in `QUESTIONS`.
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


def lazy_arguments(question: str, table: BenchTable) -> dict[str, Any]:
    """What this library is asked."""
    hour = f"_event_hour = '{table.log.newest_hour}'"
    return {"first file": {"limit": 1}, "last hour": {"predicate": hour}, "all files": {"columns": _COLUMNS}}[question]


def check(question: str, table: BenchTable, measurement: Measurement) -> None:
    """Compares an answer with what the table's generator knows.

    Raises:
        WrongAnswerError: They differ.
    """
    answer, log = measurement.answer, table.log
    newest = list(log.live_paths(log.newest_hour))
    if question == "first file":
        # The newest commit adds to the newest hour.
        right = answer["first_path"] in newest
    elif question == "last hour":
        right = (answer["files"], answer["paths"]) == (log.expected_hour(log.newest_hour), digest(newest))
    else:
        right = (answer["files"], answer["size"]) == (log.live_files, table.total_size)
    if not right:
        msg = f"{question} of {table.path}: {answer}"
        raise WrongAnswerError(msg)
