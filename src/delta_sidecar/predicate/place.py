"""Where in a predicate's source something stands, so that an error can point at it."""

from __future__ import annotations

from dataclasses import dataclass

from delta_sidecar.errors import PredicateError

# A line longer than this is cut around the place that an error is about.
_MARGIN = 60


@dataclass(frozen=True, slots=True)
class Place:
    """A stretch of a SQL text, or a named spot in a structure.

    Attributes:
        source: The whole SQL text, or, without `start`, the spot in words (`filters[0][1]`).
        start: The first character of the stretch, counted from 0.
        end: One past its last character.
    """

    source: str
    start: int | None = None
    end: int | None = None

    def describe(self) -> str:
        """Gives the lines that go under an error message: the source line and a caret line."""
        if self.start is None:
            return f"  at {self.source}"
        start = min(max(self.start, 0), len(self.source))
        end = max(self.end if self.end is not None else start + 1, start + 1)
        first = self.source.rfind("\n", 0, start) + 1
        last = self.source.find("\n", start)
        last = len(self.source) if last < 0 else last
        left, right = max(first, start - _MARGIN), min(last, max(end, start) + _MARGIN, start + 2 * _MARGIN)
        before = ("..." if left > first else "") + self.source[left:start]
        line = before + self.source[start:right] + ("..." if right < last else "")
        # A tab stays a tab, so that the caret stands under its character however wide tabs are shown.
        blank = "".join("\t" if character == "\t" else " " for character in before)
        return f"  {line}\n  {blank}^{'~' * (max(min(end, right), start + 1) - start - 1)}"


def refusal(problem: str, place: Place | None) -> PredicateError:
    """Makes the error for a problem, pointing at its place where that is known."""
    return PredicateError(problem if place is None else f"{problem}\n{place.describe()}")
