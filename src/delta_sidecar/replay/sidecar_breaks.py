"""Where a metadata sidecar breaks off: which files it came past, for whoever goes on.

That is told by keys alone where complete and incomplete rows are in an order that every base tells alike. Else the keys
of the files are needed: of incomplete rows they were noted down, or row groups that were let through are read again.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from itertools import takewhile
from typing import TYPE_CHECKING, TypeVar

from delta_sidecar.log.keys import file_keys
from delta_sidecar.plan import Consume, ConsumePhase, ScanPieces, StateMachinePhase
from delta_sidecar.replay.failures import raise_sidecar_failure
from delta_sidecar.replay.given_files import BrokenOff, GivenKeys, KeysBetween, is_by_partitions, is_one_run
from delta_sidecar.replay.seen import SeenSet
from delta_sidecar.replay.sidecar_course import Course, pieces_of
from delta_sidecar.replay.sidecar_order import newest_first
from delta_sidecar.replay.sidecar_rows import VECTOR_COLUMNS, WantedColumns, row_keys
from delta_sidecar.replay.sidecar_segments import SegmentContinuation, SegmentPhase
from delta_sidecar.sidecar.groups import RowGroup

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import pyarrow as pa

    from delta_sidecar.sidecar.groups import RowGroups, Segment

T = TypeVar("T")
_Ordered = TypeVar("_Ordered", "RowGroup", "Segment")


def broken_at(
    course: Course[T], failed: RowGroup | Segment, error: Exception, noted: SeenSet | None = None
) -> StateMachinePhase[T] | None:
    """Goes on with another base, without the files before a row group or segment in the order of reading.

    Args:
        course: What was read.
        failed: The row group or segment.
        error: Why.
        noted: Keys of the files that were let through: in order of time of all, else of those of incomplete rows. None
            where they were not noted down.
    """
    if not course.is_torn(error):
        return None
    if is_one_run(course.manifest) and is_told_alike(course):
        return course.broken(error, _before(course, failed))
    if isinstance(failed, RowGroup) and noted is not None:
        # In order of time all files were noted down, else those of the incomplete rows, which come first.
        besides = _before(course, failed) if failed.first_key[0] and not course.reading.recent else None
        return course.broken(error, GivenKeys(noted.freeze(), _where(course, failed.index), besides))
    is_segment = not isinstance(failed, RowGroup)
    index = failed.index if isinstance(failed, RowGroup) else failed.first_index
    return note_given(course, index, error, of_segment=is_segment)


def note_given(course: Course[T], index: int, error: Exception, *, of_segment: bool) -> StateMachinePhase[T]:
    """Notes down which files were let through before a row group, and breaks off.

    Args:
        course: What was read.
        index: Number of the row group, or of the first one of the segment, that failed.
        error: Why.
        of_segment: Whether it was the segment.
    """
    segments = in_order(course, course.matching_segments())
    before = tuple(takewhile(lambda segment: not holds(segment, index), segments))
    if not of_segment:
        # Row groups of its own segment may have come before it.
        before = segments[: len(before) + 1]
    groups = () if segments else _up_to(in_order(course, course.matching(course.manifest.row_groups)), index)
    return _note_down(_Noted(course, before, _where(course, index, of_segment=of_segment), error), groups)


def in_order(course: Course[T], groups: Sequence[_Ordered]) -> tuple[_Ordered, ...]:
    """Row groups, or segments, in the order of reading."""
    if course.reading.forward:
        return tuple(groups)
    if course.reading.recent:
        return newest_first(groups, course.layout.order)
    # Incomplete rows come first, in reverse too.
    return tuple(_run(groups, is_complete=False) + _run(groups, is_complete=True))


def is_told_alike(course: Course[T]) -> bool:
    """Whether other bases tell the order of complete rows, and of incomplete ones, as the metadata sidecar does."""
    return is_by_partitions(course.manifest, {physical for _, physical in course.reading.columns.partition_columns})


def holds(segment: Segment, index: int) -> bool:
    """Whether a row group is in a segment."""
    return segment.first_index <= index < segment.first_index + segment.num_row_groups


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
        return _note_down(self, _up_to(in_order(self.course, self.course.matching(groups)), self.where.index))

    def broken(self, segment: Segment, error: Exception) -> StateMachinePhase[T] | None:
        del segment
        raise_sidecar_failure(self.course.reading.table, error)
        return None


def _run(groups: Sequence[_Ordered], *, is_complete: bool) -> list[_Ordered]:
    return [group for group in reversed(groups) if bool(group.first_key[0]) == is_complete]


def _where(course: Course[T], index: int, *, of_segment: bool = False) -> BrokenOff:
    (identity,) = course.base.identity.values()
    base, reading = course.base, course.reading
    return BrokenOff(base.name, base.version, identity, index, of_segment, reading.forward, reading.recent)


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
