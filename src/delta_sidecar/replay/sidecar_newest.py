"""The newest files of a metadata sidecar, in the order of their buckets.

    (SegmentPhase ->) NewestRowsPhase -> FoundRowsPhase -> ...

The row groups that may hold the newest files are read until no other one can hold a file that is wanted. For more files
than may be kept at once there is another search, for those after the last.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, TypeVar

from delta_sidecar.plan import (
    Consume,
    ConsumePhase,
    Given,
    PartialResult,
    PartialResultPhase,
    Plan,
    StateMachinePhase,
)
from delta_sidecar.replay.given_files import GivenUpTo
from delta_sidecar.replay.newest_groups import NewestGroups
from delta_sidecar.replay.recent import NewestFiles
from delta_sidecar.replay.sidecar_course import Course, enough
from delta_sidecar.replay.sidecar_segments import SegmentContinuation, SegmentPhase

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pyarrow as pa

    from delta_sidecar.replay.recent import Recent
    from delta_sidecar.sidecar.groups import RowGroup, RowGroups, Segment

T = TypeVar("T")

_MOST_FILES = 16_384


def newest_files(recent: Recent) -> NewestFiles:
    """Keeps few files at once: for those after them little is read again."""
    return NewestFiles(recent, most=_MOST_FILES)


def look_for(course: Course[T], newest: NewestFiles) -> StateMachinePhase[T]:
    """Lets the newest files through, as many as may be kept at once, and then those after them."""
    if course.manifest.segments:
        segments = NewestGroups.of(course.matching_segments(), course.manifest, newest.recent)
        return _look_in(course, segments, newest)
    return _look_among(course, course.manifest.row_groups, newest, None)


@dataclass(frozen=True, slots=True)
class NewestRowsPhase(ConsumePhase[T]):
    """Looks for the newest live files among row groups, as long as these may hold any."""

    course: Course[T]
    groups: NewestGroups[RowGroup]
    newest: NewestFiles = field(repr=False)
    segments: NewestGroups[Segment] | None
    skipped: int

    def plan(self) -> Plan:
        """The first row groups, as many as may be needed and are fetched together."""
        return self.course.plan(self.groups.groups[: self._count], self.skipped, self._count)

    def next(self, data: Iterator[pa.RecordBatch]) -> StateMachinePhase[T]:
        """Keeps the newest, and goes on with the other row groups if they may hold any."""
        for batch in data:
            self.newest.add(batch)
        rest = self.groups.rest(self._count)
        if rest.may_improve(self.newest):
            return Consume(replace(self, groups=rest, skipped=0))
        if self.segments is None:
            return _found(self.course, self.newest)
        return _look_in(self.course, self.segments, self.newest)

    def recover(self, error: Exception) -> StateMachinePhase[T] | None:
        """What was let through before this search stands; the next base goes on with the files after it."""
        return self.course.broken(error, GivenUpTo(self.newest.recent))

    @property
    def _count(self) -> int:
        return min(self.course.reading.at_once, enough(self.groups.groups, self.newest.room))


@dataclass(frozen=True, slots=True)
class FoundRowsPhase(PartialResultPhase[T]):
    """Lets files through that were found before, and looks for those after them if there are any."""

    course: Course[T]
    files: pa.RecordBatch = field(repr=False)
    after: Recent
    is_last: bool

    def plan(self) -> Given:
        """The files."""
        return Given((self.files,))

    def is_parallelizable(self) -> bool:
        """No: they are in order."""
        return False

    def next(self) -> StateMachinePhase[T]:
        """Another search, or what comes after the base."""
        return self.course.then.replayed() if self.is_last else look_for(self.course, newest_files(self.after))


@dataclass(frozen=True, slots=True)
class _LookFor(SegmentContinuation[T]):
    course: Course[T]
    segments: NewestGroups[Segment]
    newest: NewestFiles = field(repr=False)

    def read(self, groups: RowGroups) -> StateMachinePhase[T]:
        return _look_among(self.course, groups, self.newest, self.segments)

    def broken(self, segment: Segment, error: Exception) -> StateMachinePhase[T] | None:
        del segment
        return self.course.broken(error, GivenUpTo(self.newest.recent))


def _look_in(course: Course[T], segments: NewestGroups[Segment], newest: NewestFiles) -> StateMachinePhase[T]:
    """Looks in the segments that are left, as long as they may hold a file that is wanted."""
    if not segments.may_improve(newest):
        return _found(course, newest)
    return Consume(SegmentPhase(course, segments.groups[0], _LookFor(course, segments.rest(), newest)))


def _look_among(
    course: Course[T], groups: RowGroups, newest: NewestFiles, segments: NewestGroups[Segment] | None
) -> StateMachinePhase[T]:
    wanted = NewestGroups.of(course.matching(groups), course.manifest, newest.recent)
    if wanted.may_improve(newest):
        return Consume(NewestRowsPhase(course, wanted, newest, segments, len(groups) - len(wanted.groups)))
    return _found(course, newest) if segments is None else _look_in(course, segments, newest)


def _found(course: Course[T], newest: NewestFiles) -> StateMachinePhase[T]:
    found = newest.take()
    if found is None:
        return course.then.replayed()
    recent = newest.recent
    after = replace(recent, after=recent.key(found, found.num_rows - 1))
    is_last = not newest.is_cut and newest.room > found.num_rows
    return PartialResult(FoundRowsPhase(course, found, after, is_last=is_last))
