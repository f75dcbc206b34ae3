"""The replay of a metadata sidecar: its row groups that may match, a few at once.

    (SegmentPhase ->) MetadataSidecarPhase -> ...        in the order of the file; in reverse from its end

A row group is let through whole or not at all. Where one cannot be read, or is not what its digest says, the base
breaks off there and tells which files it came past: all those of the row groups before it.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from itertools import takewhile
from typing import TYPE_CHECKING, TypeVar

import numpy as np

from delta_sidecar.errors import PageTokenExpiredError, UnreadableFileError
from delta_sidecar.log.keys import file_keys
from delta_sidecar.plan import (
    WHOLE_PIECE_BYTES,
    Consume,
    ConsumePhase,
    FilterOrdered,
    PartialResult,
    PartialResultPhase,
    Piece,
    Plan,
    ScanPieces,
    StateMachinePhase,
)
from delta_sidecar.replay.failures import raise_sidecar_failure
from delta_sidecar.replay.given_files import BrokenOff, GivenKeys, KeysBetween, given_keys, is_by_partitions, is_one_run
from delta_sidecar.replay.seen import SeenSet
from delta_sidecar.replay.sidecar_course import Course, enough, pieces_of
from delta_sidecar.replay.sidecar_groups import may_hold
from delta_sidecar.replay.sidecar_newest import look_for, newest_files
from delta_sidecar.replay.sidecar_rows import VECTOR_COLUMNS, WantedColumns, row_keys, wanted_columns
from delta_sidecar.replay.sidecar_segments import SegmentContinuation, SegmentPhase
from delta_sidecar.sidecar.groups import RowGroup

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import pyarrow as pa

    from delta_sidecar.replay.bases import Base, Reading, ReplayContinuation, Wanted
    from delta_sidecar.replay.pruning import Pruning
    from delta_sidecar.replay.sidecar_layout import SidecarLayout
    from delta_sidecar.sidecar.groups import RowGroups, Segment

T = TypeVar("T")
_Ordered = TypeVar("_Ordered", "RowGroup", "Segment")


def replay_sidecar(
    base: Base, layout: SidecarLayout, reading: Reading, then: ReplayContinuation[T]
) -> StateMachinePhase[T]:
    """Lets the live files of a metadata sidecar through."""
    course = Course.of(base, layout, reading, then)
    if reading.recent is not None:
        return look_for(course, newest_files(reading.recent))
    if layout.manifest.segments:
        return _segments(course, _in_order(course, course.matching_segments()))
    return _groups(course, layout.manifest.row_groups, ())


def first_pieces(layout: SidecarLayout, pruning: Pruning | None, wanted: Wanted) -> tuple[Piece, ...]:
    """The pieces that a scan reads, where they are few and their places are known."""
    manifest = layout.manifest
    if manifest.segments:
        return ()
    at = np.flatnonzero(may_hold(layout, manifest.row_groups, pruning)).tolist()
    if len(at) > wanted.at_once:
        return ()
    columns = wanted_columns(layout.schema, pruning, wanted.without)
    groups = (pieces_of(manifest, manifest.row_groups[number], columns) for number in at)
    return tuple(piece for group in groups for piece in group.pieces if piece.length <= WHOLE_PIECE_BYTES)


@dataclass(frozen=True, slots=True)
class MetadataSidecarPhase(PartialResultPhase[T]):
    """Lets the live files of row groups through. The seen-set does not change any more.

    Incomplete rows come first, and their files are noted down: where another row group fails later, who goes on cannot
    tell by anything else whether such a file was let through.

    Attributes:
        course: What is read.
        groups: The row groups.
        skipped: How many were passed over.
        left: Segments that are read after them.
        noted: Keys of the files of incomplete row groups; None where they are not noted down.
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
        limit = self.course.reading.limit
        at_first = len(self.groups) if limit is None else enough(self.groups, limit)
        plan = self.course.plan(self.groups, self.skipped, at_first)
        return FilterOrdered(plan, _NoteDown(self.noted)) if self.noted is not None and self.complete else plan

    def is_parallelizable(self) -> bool:
        """Unless files are noted down."""
        return not self.complete

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
        return None if failed is None else _broken_at(self.course, failed, error, self.noted)


@dataclass(frozen=True, slots=True)
class _NoteDown:
    """Notes down the files that are let through."""

    keys: SeenSet

    def __call__(self, files: pa.RecordBatch) -> pa.RecordBatch:
        self.keys.insert(given_keys(files))
        return files


@dataclass(frozen=True, slots=True)
class GivenKeysPhase(ConsumePhase[T]):
    """Notes down the keys of row groups that were let through before another one failed."""

    noted: _Noted[T]
    groups: tuple[RowGroup, ...] = field(repr=False)

    def plan(self) -> ScanPieces:
        """What their keys are made of."""
        columns = WantedColumns(("path", *VECTOR_COLUMNS), ())
        course = self.noted.course
        groups = tuple(pieces_of(course.manifest, group, columns) for group in self.groups)
        schemas = course.layout.piece_schemas[:1]
        return ScanPieces(groups, columns.by_piece, schemas, at_once=course.reading.at_once)

    def next(self, data: Iterator[pa.RecordBatch]) -> StateMachinePhase[T]:
        """Goes on with what else was let through."""
        for batch in data:
            self.noted.keys.insert(file_keys(row_keys(batch)))
        return _note_down(self.noted, ())

    def recover(self, error: Exception) -> StateMachinePhase[T] | None:
        """Nobody can tell any more which files were given out: the scan fails, and the error names the file."""
        raise_sidecar_failure(self.noted.course.reading.table, error)
        return None


@dataclass(frozen=True, slots=True)
class _Noted(SegmentContinuation[T]):
    """What is known of the files that were let through before a row group failed.

    Attributes:
        course: What was read.
        left: Segments whose row groups are not noted down yet.
        where: Which row group failed.
        error: Why.
        keys: The keys that are.
    """

    course: Course[T]
    left: tuple[Segment, ...] = field(repr=False)
    where: BrokenOff
    error: Exception
    keys: SeenSet = field(default_factory=SeenSet, repr=False)

    def read(self, groups: RowGroups) -> StateMachinePhase[T]:
        return _note_down(self, _up_to(_in_order(self.course, self.course.matching(groups)), self.where.index))

    def broken(self, segment: Segment, error: Exception) -> StateMachinePhase[T] | None:
        del segment
        raise_sidecar_failure(self.course.reading.table, error)
        return None


@dataclass(frozen=True, slots=True)
class _GoThrough(SegmentContinuation[T]):
    course: Course[T]
    left: tuple[Segment, ...] = field(repr=False)

    def read(self, groups: RowGroups) -> StateMachinePhase[T]:
        return _groups(self.course, groups, self.left)

    def broken(self, segment: Segment, error: Exception) -> StateMachinePhase[T] | None:
        return _broken_at(self.course, segment, error)


def _segments(course: Course[T], left: tuple[Segment, ...]) -> StateMachinePhase[T]:
    """Goes on with the segments that are left, from the one where a page token stands on."""
    start = course.reading.start
    while start is not None and left and not _holds(left[0], start.part):
        left = left[1:]
    if not left:
        return course.then.replayed()
    return Consume(SegmentPhase(course, left[0], _GoThrough(course, left[1:])))


def _groups(course: Course[T], groups: RowGroups, left: tuple[Segment, ...]) -> StateMachinePhase[T]:
    """Lets row groups through, and then goes on with the segments that are left."""
    found = _in_order(course, course.matching(groups))
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
        incomplete = tuple(takewhile(lambda group: not group.first_key[0], found))
        is_mixed = 0 < len(incomplete) < len(found)
        if is_mixed and start is None and not course.manifest.segments and _is_by_partitions(course):
            complete = found[len(incomplete) :]
            phase = replace(phase, groups=incomplete, noted=SeenSet(), complete=complete)
        return PartialResult(phase)
    return _segments(course, left) if left else course.then.replayed()


def _in_order(course: Course[T], groups: Sequence[_Ordered]) -> tuple[_Ordered, ...]:
    if course.reading.forward:
        return tuple(groups)
    # Incomplete rows come first, in reverse too.
    return tuple(_run(groups, is_complete=False) + _run(groups, is_complete=True))


def _run(groups: Sequence[_Ordered], *, is_complete: bool) -> list[_Ordered]:
    return [group for group in reversed(groups) if bool(group.first_key[0]) == is_complete]


def _is_by_partitions(course: Course[T]) -> bool:
    return is_by_partitions(course.manifest, {physical for _, physical in course.reading.columns.partition_columns})


def _broken_at(
    course: Course[T], failed: RowGroup | Segment, error: Exception, noted: SeenSet | None = None
) -> StateMachinePhase[T] | None:
    """Goes on with another base, without the files before a row group or segment in the order of reading."""
    if not course.is_torn(error):
        return None
    if is_one_run(course.manifest) and _is_by_partitions(course):
        return course.broken(error, _before(course, failed))
    if isinstance(failed, RowGroup) and noted is not None:
        besides = _before(course, failed) if failed.first_key[0] else None
        return course.broken(error, GivenKeys(noted.freeze(), _where(course, failed.index), besides))
    is_segment = not isinstance(failed, RowGroup)
    index = failed.index if isinstance(failed, RowGroup) else failed.first_index
    return note_given(course, index, error, of_segment=is_segment)


def _where(course: Course[T], index: int, *, of_segment: bool = False) -> BrokenOff:
    (identity,) = course.base.identity.values()
    name, version, forward = course.base.name, course.base.version, course.reading.forward
    return BrokenOff(name, version, identity, index, of_segment=of_segment, forward=forward)


def note_given(course: Course[T], index: int, error: Exception, *, of_segment: bool) -> StateMachinePhase[T]:
    """Notes down which files were let through before a row group, and breaks off.

    Args:
        course: What was read.
        index: Number of the row group, or of the first one of the segment, that failed.
        error: Why.
        of_segment: Whether it was the segment.
    """
    segments = _in_order(course, course.matching_segments())
    before = tuple(takewhile(lambda segment: not _holds(segment, index), segments))
    if not of_segment:
        # Row groups of its own segment may have come before it.
        before = segments[: len(before) + 1]
    groups = () if segments else _up_to(_in_order(course, course.matching(course.manifest.row_groups)), index)
    return _note_down(_Noted(course, before, _where(course, index, of_segment=of_segment), error), groups)


def _up_to(groups: Sequence[RowGroup], index: int) -> tuple[RowGroup, ...]:
    return tuple(takewhile(lambda group: group.index != index, groups))


def _note_down(noted: _Noted[T], groups: tuple[RowGroup, ...]) -> StateMachinePhase[T]:
    """Notes the keys of row groups down, then those of the segments that are left, and goes on with another base."""
    course = noted.course
    if groups:
        return Consume(GivenKeysPhase(noted, groups))
    if noted.left:
        return Consume(SegmentPhase(course, noted.left[0], replace(noted, left=noted.left[1:])))
    return course.then.broken(course.base, noted.error, GivenKeys(noted.keys.freeze(), noted.where))


def _before(course: Course[T], failed: RowGroup | Segment) -> KeysBetween:
    """Tells which files lie before a row group in the order of reading; of two runs, only those of the complete one."""
    logical = {physical: name for name, physical in course.reading.columns.partition_columns}
    manifest = course.manifest
    all_of_it = manifest.segments or manifest.row_groups
    if course.reading.forward:
        run = all_of_it[-1].last_key[0]
        first = next(group for group in all_of_it if group.first_key[0] == run)
        return KeysBetween(manifest.sort, failed.first_key, first.first_key, logical, above=False)
    return KeysBetween(manifest.sort, failed.last_key, all_of_it[-1].last_key, logical, above=True)


def _holds(segment: Segment, index: int) -> bool:
    return segment.first_index <= index < segment.first_index + segment.num_row_groups
