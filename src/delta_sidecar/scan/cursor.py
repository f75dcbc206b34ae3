"""Where a scan stands: after which file, of what it gave out, and of what another scan gave out before it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from delta_sidecar.errors import PageTokenExpiredError

if TYPE_CHECKING:
    import pyarrow as pa

    from delta_sidecar.plan import Place


@dataclass(frozen=True, slots=True)
class Position:
    """Up to where a scan came.

    Attributes:
        place: Where its last file is from.
        rows: How many files of that place were given out.
    """

    place: Place
    rows: int


class _Standing(NamedTuple):
    """Where a scan stands in the batch that it gave last.

    Attributes:
        before: Where it stood before that batch.
        place: Where the batch is from.
        rows: Files of that place that were given out before the batch.
        batch: The batch; None before the first.
        taken: Files of the batch that were given out.
    """

    before: Position | None
    place: Place | None
    rows: int
    batch: pa.RecordBatch | None = None
    taken: int = 0


class Cursor:
    """Follows what a scan gives out, file by file. Where it stands can be asked from any thread."""

    def __init__(self, start: Position | None) -> None:
        # One value, so that whoever asks from another thread finds what belongs together.
        self._standing = _Standing(start, None, 0) if start is None else _Standing(start, start.place, start.rows)

    def give(self, batch: pa.RecordBatch, place: Place | None) -> None:
        """A batch goes out, none of whose files counts yet."""
        last = self._standing
        rows = 0
        if place == last.place:
            rows = last.rows + (0 if last.batch is None else last.batch.num_rows)
        self._standing = _Standing(self.position(), place, rows, batch)

    def take(self, files: int) -> None:
        """So many more of its files are given out."""
        self._standing = self._standing._replace(taken=self._standing.taken + files)

    def position(self) -> Position | None:
        """After the last file that was given out; None before the first."""
        at = self._standing
        if at.batch is None or not at.taken:
            return at.before
        return None if at.place is None else Position(at.place, at.rows + at.taken)


@dataclass(slots=True)
class GivenBefore:
    """Passes over the files that another scan gave out of the place where this one begins."""

    position: Position | None
    _passed: int = field(default=0)

    def left(self, batch: pa.RecordBatch, place: Place | None) -> pa.RecordBatch:
        """What is left of a batch."""
        at = self.position
        if at is None or self._passed == at.rows:
            return batch
        if place != at.place:
            self.check()
        skipped = min(batch.num_rows, at.rows - self._passed)
        self._passed += skipped
        return batch.slice(skipped)

    def check(self) -> None:
        """Refuses to go on where there are fewer files at the place than were given out.

        Raises:
            PageTokenExpiredError: So it is.
        """
        at = self.position
        if at is not None and self._passed < at.rows:
            msg = (
                f"{at.place.path} does not have the files any more that the page token is a place after: begin at the "
                f"first page"
            )
            raise PageTokenExpiredError(msg)
