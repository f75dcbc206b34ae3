"""What a reader is."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeAlias

from bench.measure import Measurement

Answer: TypeAlias = Callable[[str, dict[str, Any]], Measurement]
"""Answers a question, as `bench.questions.asked` has it, of the table at a path."""


class NotHereError(Exception):
    """A reader is not installed here; the text says what is missing."""


@dataclass(frozen=True, slots=True)
class Reader:
    """A way to list the files of a table.

    Attributes:
        name: Who.
        answer: Answers a question. Its answer may have `requests`, `bytes`, `trips` and `first_seconds`.
        base: What it finds in the table: `sidecar` or `checkpoint`.
        variant: Which of its ways.
        questions: The names of the questions that it can answer; None for all.
    """

    name: str
    answer: Answer
    base: str = "checkpoint"
    variant: str = ""
    questions: frozenset[str] | None = None

    @property
    def label(self) -> str:
        """All of this in words."""
        return ", ".join(part for part in (self.name, self.variant, self.base) if part)

    def answers(self, question: str) -> bool:
        """Whether it can answer a question."""
        return self.questions is None or question in self.questions
