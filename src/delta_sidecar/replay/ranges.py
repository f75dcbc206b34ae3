"""Numbers that are known within bounds, and what a table has of files, rows and bytes in such numbers."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Range:
    """A number that is not known exactly. Both bounds hold, and belong to it.

    Attributes:
        lower: It is no smaller.
        upper: It is no larger; None where there is no telling.
    """

    lower: int = 0
    upper: int | None = None

    @classmethod
    def exactly(cls, number: int) -> Range:
        """A number that is known."""
        return cls(number, number)

    @property
    def is_exact(self) -> bool:
        """Whether the number is known."""
        return self.lower == self.upper

    def __add__(self, other: Range) -> Range:
        is_open = self.upper is None or other.upper is None
        return Range(self.lower + other.lower, None if is_open else (self.upper or 0) + (other.upper or 0))

    def both(self, other: Range) -> Range | None:
        """What is left where both are right; None where they contradict each other."""
        uppers = [upper for upper in (self.upper, other.upper) if upper is not None]
        found = Range(max(self.lower, other.lower), min(uppers, default=None))
        return found if found.upper is None or found.lower <= found.upper else None

    def at_most(self, most: int) -> Range:
        """The number, or `most` where it is larger."""
        return Range(min(self.lower, most), most if self.upper is None else min(self.upper, most))


ZERO = Range(0, 0)


@dataclass(frozen=True, slots=True)
class Counts:
    """How much there is of something that has files.

    Attributes:
        files: Files.
        rows: Rows in them that are not deleted.
        bytes: Their size together.
    """

    files: Range = Range()
    rows: Range = Range()
    bytes: Range = Range()

    def __add__(self, other: Counts) -> Counts:
        return Counts(self.files + other.files, self.rows + other.rows, self.bytes + other.bytes)

    @property
    def is_exact(self) -> bool:
        """Whether all three are known."""
        return self.files.is_exact and self.rows.is_exact and self.bytes.is_exact

    def both(self, other: Counts) -> Counts | None:
        """What is left where both are right; None where they contradict each other."""
        files, rows, size = (self.files.both(other.files), self.rows.both(other.rows), self.bytes.both(other.bytes))
        return None if files is None or rows is None or size is None else Counts(files, rows, size).tidy()

    def any_part(self) -> Counts:
        """Of some of the files, maybe none."""
        return Counts(Range(0, self.files.upper), Range(0, self.rows.upper), Range(0, self.bytes.upper))

    def tidy(self) -> Counts:
        """Where there are no files, there is nothing in them."""
        return NOTHING if self.files.upper == 0 else self


UNKNOWN = Counts()
"""Of any number of files."""

NOTHING = Counts(ZERO, ZERO, ZERO)
"""Of no files."""
