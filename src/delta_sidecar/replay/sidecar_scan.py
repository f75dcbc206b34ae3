"""The replay of a metadata sidecar: its row groups that may match, a few at once.

    (SegmentPhase ->) MetadataSidecarPhase -> ...        in the order of the file; in reverse, and by time, from its end

A row group is let through whole or not at all. Where one cannot be read, or is not what its digest says, the base
breaks off there and tells which files it came past: all those of the row groups before it.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from itertools import takewhile
from typing import TYPE_CHECKING, TypeVar

from delta_sidecar.errors import PageTokenExpiredError, UnreadableFileError
from delta_sidecar.plan import (
    WHOLE_PIECE_BYTES,
    Consume,
    FilterOrdered,
    PartialResult,
    PartialResultPhase,
    Piece,
    Plan,
    StateMachinePhase,
)
from delta_sidecar.replay.given_files import given_keys, is_one_run
from delta_sidecar.replay.seen import SeenSet
from delta_sidecar.replay.sidecar_breaks import broken_at, holds, in_order, is_told_alike
from delta_sidecar.replay.sidecar_course import Course, enough, pieces_of
from delta_sidecar.replay.sidecar_groups import matching
from delta_sidecar.replay.sidecar_rows import wanted_columns
from delta_sidecar.replay.sidecar_segments import SegmentContinuation, SegmentPhase

if TYPE_CHECKING:
    import pyarrow as pa

    from delta_sidecar.replay.bases import Base, Reading, ReplayContinuation, Wanted
    from delta_sidecar.replay.pruning import Pruning
    from delta_sidecar.replay.sidecar_layout import SidecarLayout
    from delta_sidecar.sidecar.groups import RowGroup, RowGroups, Segment

T = TypeVar("T")

_MOST_NOTED = 100_000


def replay_sidecar(
    base: Base, layout: SidecarLayout, reading: Reading, then: ReplayContinuation[T]
) -> StateMachinePhase[T]:
    """Lets the live files of a metadata sidecar through."""
    course = Course.of(base, layout, reading, then)
    if layout.manifest.segments:
        return _segments(course, in_order(course, course.matching_segments()))
    return _groups(course, layout.manifest.row_groups, ())


def first_pieces(layout: SidecarLayout, pruning: Pruning | None, wanted: Wanted) -> tuple[Piece, ...]:
    """The pieces that a scan reads, where they are few and their places are known."""
    manifest = layout.manifest
    if manifest.segments:
        return ()
    numbers = matching(layout, manifest.row_groups, pruning)
    if len(numbers) > wanted.at_once:
        return ()
    columns = wanted_columns(layout.schema, pruning, wanted.without)
    groups = (pieces_of(manifest, manifest.row_groups[number], columns) for number in numbers)
    return tuple(piece for group in groups for piece in group.pieces if piece.length <= WHOLE_PIECE_BYTES)


@dataclass(frozen=True, slots=True)
class MetadataSidecarPhase(PartialResultPhase[T]):
    """Lets the live files of row groups through. The seen-set does not change any more.

    Incomplete rows come first, and their files are noted down: where another row group fails later, who goes on cannot
    tell by anything else whether such a file was let through. In order of time they come between the others, and so all
    files are noted down.

    Attributes:
        course: What is read.
        groups: The row groups.
        skipped: How many were passed over.
        left: Segments that are read after them.
        noted: Keys of the files that are let through, of incomplete row groups or of all; None where they are not noted
            down.
        complete: Row groups that come after these, where these are the incomplete ones.
    """

    course: Course[T]
    groups: tuple[RowGroup, ...] = field(repr=False)
    skipped: int
    left: tuple[Segment, ...] = field(repr=False)
    noted: SeenSet | None = field(default=None, repr=False)
    complete: tuple[RowGroup, ...] = field(default=(), repr=False)

    def plan(self) -> Plan:
        """The row groups, in order."""
        reading = self.course.reading
        at_first = len(self.groups) if reading.enough is None else enough(self.groups, reading.enough)
        plan = self.course.plan(self.groups, self.skipped, at_first)
        is_noted = self.complete or reading.recent
        return FilterOrdered(plan, _NoteDown(self.noted)) if self.noted is not None and is_noted else plan

    def is_parallelizable(self) -> bool:
        """Unless files are noted down, or wanted in order."""
        return not self.complete and not self.course.reading.recent

    def next(self) -> StateMachinePhase[T]:
        """The complete row groups, the next segment, or what comes after the base."""
        if self.complete:
            return PartialResult(replace(self, groups=self.complete, complete=(), skipped=0))
        return _segments(self.course, self.left) if self.left else self.course.then.replayed()

    def recover(self, error: Exception) -> StateMachinePhase[T] | None:
        """What came before the row group that failed stands; the next base goes on with the rest."""
        if not isinstance(error, UnreadableFileError):
            return None
        failed = next((group for group in self.groups if group.index == error.label), None)
        return None if failed is None else broken_at(self.course, failed, error, self.noted)


@dataclass(frozen=True, slots=True)
class _NoteDown:
    """Notes down the files that are let through."""

    keys: SeenSet

    def __call__(self, files: pa.RecordBatch) -> pa.RecordBatch:
        self.keys.insert(given_keys(files))
        return files


@dataclass(frozen=True, slots=True)
class _GoThrough(SegmentContinuation[T]):
    course: Course[T]
    left: tuple[Segment, ...] = field(repr=False)

    def read(self, groups: RowGroups) -> StateMachinePhase[T]:
        return _groups(self.course, groups, self.left)

    def broken(self, segment: Segment, error: Exception) -> StateMachinePhase[T] | None:
        return broken_at(self.course, segment, error)


def _segments(course: Course[T], left: tuple[Segment, ...]) -> StateMachinePhase[T]:
    """Goes on with the segments that are left, from the one where a page token stands on."""
    start = course.reading.start
    while start is not None and left and not holds(left[0], start.part):
        left = left[1:]
    if not left:
        return course.then.replayed()
    return Consume(SegmentPhase(course, left[0], _GoThrough(course, left[1:])))


def _groups(course: Course[T], groups: RowGroups, left: tuple[Segment, ...]) -> StateMachinePhase[T]:
    """Lets row groups through, and then goes on with the segments that are left."""
    found = in_order(course, course.matching(groups))
    start = course.reading.start
    if start is not None:
        places = [at for at, group in enumerate(found) if group.index == start.part]
        if not places or start.path != course.path(found[places[0]]):
            msg = (
                f"the page token points into {start.path}, where no file of that place can match any more: begin at "
                f"the first page"
            )
            raise PageTokenExpiredError(msg)
        found = found[places[0] :]
        course = replace(course, reading=replace(course.reading, start=None))
    if found:
        phase = MetadataSidecarPhase(course, found, len(groups) - len(found), left)
        return PartialResult(phase if start is not None or course.manifest.segments else _noted(phase))
    return _segments(course, left) if left else course.then.replayed()


def _noted(phase: MetadataSidecarPhase[T]) -> MetadataSidecarPhase[T]:
    """Notes down the files that the sidecar's keys alone do not tell, should a row group fail; as few as possible."""
    course, groups = phase.course, phase.groups
    is_alike = is_told_alike(course)
    if course.reading.recent:
        # Without a limit that would be every file of the table: the row groups are read again instead.
        is_worth_it = course.reading.limit is not None and course.reading.limit <= _MOST_NOTED
        is_needed = is_worth_it and not (is_alike and is_one_run(course.manifest))
        return replace(phase, noted=SeenSet()) if is_needed else phase
    incomplete = tuple(takewhile(lambda group: not group.first_key[0], groups))
    if not is_alike or not 0 < len(incomplete) < len(groups):
        return phase
    return replace(phase, groups=incomplete, noted=SeenSet(), complete=groups[len(incomplete) :])
