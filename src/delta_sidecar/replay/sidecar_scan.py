"""The replay of a metadata sidecar: its row groups that may match, a few at once.

    (SegmentPhase ->) MetadataSidecarPhase -> ...                     in the order of the file, or from its end
    (SegmentPhase ->) NewestRowsPhase -> FoundRowsPhase -> ...        newest buckets first

A row group is let through whole or not at all. Where one cannot be read, or is not what its digest says, the base
breaks off there and tells which files it came past: all those whose keys lie before that row group.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Generic, TypeVar

import numpy as np

from delta_sidecar.errors import PageTokenExpiredError, SidecarError, UnreadableFileError
from delta_sidecar.log.names import SIDECAR_FOLDER
from delta_sidecar.plan import (
    WHOLE_PIECE_BYTES,
    Consume,
    ConsumePhase,
    FileRef,
    Filter,
    Given,
    PartialResult,
    PartialResultPhase,
    Piece,
    PieceGroup,
    Plan,
    ReadRanges,
    ScanPieces,
    StateMachinePhase,
)
from delta_sidecar.replay.checkpoint import is_torn
from delta_sidecar.replay.failures import raise_unreachable
from delta_sidecar.replay.given_files import GivenUpTo, KeysBetween
from delta_sidecar.replay.newest_groups import NewestGroups
from delta_sidecar.replay.recent import NewestFiles
from delta_sidecar.replay.sidecar_groups import may_hold
from delta_sidecar.replay.sidecar_rows import SidecarRows, WantedColumns, wanted_columns
from delta_sidecar.sidecar.pieces import read_piece_footer
from delta_sidecar.sidecar.segments import decode_segment

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import pyarrow as pa

    from delta_sidecar.plan.nodes import RowTest
    from delta_sidecar.replay.bases import Base, Reading, ReplayContinuation, Wanted
    from delta_sidecar.replay.pruning import Pruning
    from delta_sidecar.replay.recent import Recent
    from delta_sidecar.replay.sidecar_layout import SidecarLayout
    from delta_sidecar.sidecar.groups import RowGroup, RowGroups, Segment
    from delta_sidecar.sidecar.manifest import Manifest

T = TypeVar("T")


def replay_sidecar(
    base: Base, layout: SidecarLayout, reading: Reading, then: ReplayContinuation[T]
) -> StateMachinePhase[T]:
    """Lets the live files of a metadata sidecar through."""
    columns = wanted_columns(layout.schema, reading.pruning, reading.columns.without)
    course = _Course(base, layout, reading, columns, then)
    if reading.recent is not None:
        return course.look_for(NewestFiles(reading.recent))
    return course.go_through()


def first_pieces(layout: SidecarLayout, pruning: Pruning | None, wanted: Wanted) -> tuple[Piece, ...]:
    """The pieces that a scan reads, where they are few and their places are known."""
    manifest = layout.manifest
    if manifest.segments:
        return ()
    at = np.flatnonzero(may_hold(manifest, manifest.row_groups, pruning)).tolist()
    if len(at) > wanted.at_once:
        return ()
    columns = wanted_columns(layout.schema, pruning, wanted.without)
    groups = (_pieces(manifest, manifest.row_groups[number], columns) for number in at)
    return tuple(piece for group in groups for piece in group.pieces if piece.length <= WHOLE_PIECE_BYTES)


@dataclass(frozen=True, slots=True)
class _Course(Generic[T]):
    """What a replay reads, and what goes on after it."""

    base: Base
    layout: SidecarLayout
    reading: Reading
    columns: WantedColumns
    then: ReplayContinuation[T] = field(repr=False)

    @property
    def manifest(self) -> Manifest:
        return self.layout.manifest

    def go_through(self) -> StateMachinePhase[T]:
        """Lets row groups through in the order of the file; in reverse from its end."""
        if self.manifest.segments:
            return self.segments(self.ordered(_matching_segments(self.manifest, self.reading.pruning)))
        return self.groups(self.manifest.row_groups, ())

    def segments(self, left: tuple[Segment, ...]) -> StateMachinePhase[T]:
        """Goes on with the segments that are left, from the one where a page token stands on."""
        start = self.reading.start
        while start is not None and left and not _holds(left[0], start.part):
            left = left[1:]
        if not left:
            return self.then.replayed()
        return Consume(SegmentPhase(self, left[0], _GoThrough(self, left[1:])))

    def groups(self, groups: RowGroups, left: tuple[Segment, ...]) -> StateMachinePhase[T]:
        """Lets row groups through, and then goes on with the segments that are left."""
        found = self.ordered(_matching(self.manifest, groups, self.reading.pruning))
        start = self.reading.start
        if start is not None:
            places = [at for at, group in enumerate(found) if group.index == start.part]
            if not places or start.path not in {self.path(group) for group in found}:
                msg = (
                    f"the page token points into {start.path}, where no file of that place can match any more: begin "
                    f"at the first page"
                )
                raise PageTokenExpiredError(msg)
            found = found[places[0] :]
        course = replace(self, reading=replace(self.reading, start=None))
        if found:
            return PartialResult(MetadataSidecarPhase(course, found, len(groups) - len(found), left))
        return course.segments(left) if left else self.then.replayed()

    def ordered(self, groups: Sequence[_Ordered]) -> tuple[_Ordered, ...]:
        return tuple(groups) if self.reading.forward else tuple(reversed(groups))

    def look_for(self, newest: NewestFiles) -> StateMachinePhase[T]:
        """Lets the newest files through, as many as may be kept at once, and then those after them."""
        if self.manifest.segments:
            segments = _matching_segments(self.manifest, self.reading.pruning)
            return self.look_in(NewestGroups.of(segments, self.manifest, newest.recent), newest)
        return self.look_among(self.manifest.row_groups, newest, None)

    def look_in(self, segments: NewestGroups[Segment], newest: NewestFiles) -> StateMachinePhase[T]:
        """Looks in the segments that are left, as long as they may hold a file that is wanted."""
        if not segments.may_improve(newest):
            return self.found(newest)
        return Consume(SegmentPhase(self, segments.groups[0], _LookFor(self, segments.rest(), newest)))

    def look_among(
        self, groups: RowGroups, newest: NewestFiles, segments: NewestGroups[Segment] | None
    ) -> StateMachinePhase[T]:
        matching = _matching(self.manifest, groups, self.reading.pruning)
        wanted = NewestGroups.of(matching, self.manifest, newest.recent)
        if wanted.may_improve(newest):
            return Consume(NewestRowsPhase(self, wanted, newest, segments, len(groups) - len(wanted.groups)))
        return self.found(newest) if segments is None else self.look_in(segments, newest)

    def found(self, newest: NewestFiles) -> StateMachinePhase[T]:
        found = newest.take()
        if found is None:
            return self.then.replayed()
        recent = newest.recent
        after = replace(recent, after=recent.key(found, found.num_rows - 1))
        return PartialResult(
            FoundRowsPhase(self, found, after, is_last=not newest.is_cut and newest.room > found.num_rows)
        )

    def plan(self, groups: Sequence[RowGroup], skipped: int, at_first: int) -> Plan:
        """Row groups as files."""
        reading = self.reading
        pieces = ScanPieces(
            tuple(_pieces(self.manifest, group, self.columns) for group in groups),
            self.columns.by_piece,
            at_once=reading.at_once,
            at_first=max(1, min(at_first, reading.at_once)),
            directory=read_piece_footer,
            skipped=skipped,
        )
        schema, stats_format = self.layout.schema, self.manifest.stats_format
        rows = SidecarRows(reading.seen, reading.columns, reading.pruning, schema, stats_format, reading.tally)
        return reading.rest(Filter(pieces, rows))

    def path(self, group: RowGroup) -> str:
        return SIDECAR_FOLDER + self.manifest.files[group.file].name

    def broken(self, error: Exception, decided: RowTest) -> StateMachinePhase[T] | None:
        """Goes on with another base where a file is torn; the store being out of reach is another matter."""
        if isinstance(error, SidecarError) or is_torn(error):
            return self.then.broken(self.base, error, decided)
        raise_unreachable(error)
        return None


@dataclass(frozen=True, slots=True)
class MetadataSidecarPhase(PartialResultPhase[T]):
    """Lets the live files of row groups through. The seen-set does not change any more."""

    course: _Course[T]
    groups: tuple[RowGroup, ...] = field(repr=False)
    skipped: int
    left: tuple[Segment, ...] = field(repr=False)

    def plan(self) -> Plan:
        """The row groups, in order."""
        limit = self.course.reading.limit
        enough = len(self.groups) if limit is None else _enough(self.groups, limit)
        return self.course.plan(self.groups, self.skipped, enough)

    def is_parallelizable(self) -> bool:
        """Yes."""
        return True

    def next(self) -> StateMachinePhase[T]:
        """The next segment, or what comes after the base."""
        return self.course.segments(self.left) if self.left else self.course.then.replayed()

    def recover(self, error: Exception) -> StateMachinePhase[T] | None:
        """What came before the row group that failed stands; the next base goes on with the rest."""
        if not isinstance(error, UnreadableFileError):
            return None
        failed = next((group for group in self.groups if group.index == error.label), None)
        return None if failed is None else self.course.broken(error, _before(self.course, failed))


@dataclass(frozen=True, slots=True)
class NewestRowsPhase(ConsumePhase[T]):
    """Looks for the newest live files among row groups, as long as these may hold any."""

    course: _Course[T]
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
            return self.course.found(self.newest)
        return self.course.look_in(self.segments, self.newest)

    def recover(self, error: Exception) -> StateMachinePhase[T] | None:
        """What was let through before this search stands; the next base goes on with the files after it."""
        return self.course.broken(error, GivenUpTo(self.newest.recent))

    @property
    def _count(self) -> int:
        return min(self.course.reading.at_once, _enough(self.groups.groups, self.newest.room))


@dataclass(frozen=True, slots=True)
class FoundRowsPhase(PartialResultPhase[T]):
    """Lets files through that were found before, and looks for those after them if there are any."""

    course: _Course[T]
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
        return self.course.then.replayed() if self.is_last else self.course.look_for(NewestFiles(self.after))


@dataclass(frozen=True, slots=True)
class _GoThrough(Generic[T]):
    course: _Course[T]
    left: tuple[Segment, ...] = field(repr=False)

    def __call__(self, groups: RowGroups) -> StateMachinePhase[T]:
        return self.course.groups(groups, self.left)

    def decided(self, segment: Segment) -> RowTest:
        return _before(self.course, segment)


@dataclass(frozen=True, slots=True)
class _LookFor(Generic[T]):
    course: _Course[T]
    segments: NewestGroups[Segment]
    newest: NewestFiles = field(repr=False)

    def __call__(self, groups: RowGroups) -> StateMachinePhase[T]:
        return self.course.look_among(groups, self.newest, self.segments)

    def decided(self, segment: Segment) -> RowTest:
        del segment
        return GivenUpTo(self.newest.recent)


@dataclass(frozen=True, slots=True)
class SegmentPhase(ConsumePhase[T]):
    """Reads one segment of a large manifest."""

    course: _Course[T]
    segment: Segment = field(repr=False)
    then: _GoThrough[T] | _LookFor[T]

    def plan(self) -> ReadRanges:
        """Its range."""
        file, start = self.course.manifest.segments_file, self.segment.byte_offset
        if file is None:
            msg = "a manifest with segments names their file"
            raise RuntimeError(msg)
        ref = FileRef(SIDECAR_FOLDER + file.name, file.size)
        return ReadRanges(ref, ((start, start + self.segment.byte_length),))

    def next(self, data: Iterator[pa.RecordBatch]) -> StateMachinePhase[T]:
        """Goes on with its row groups."""
        (content,) = (batch.column("data")[0].as_py() for batch in data)
        return self.then(decode_segment(content, self.segment, self.course.manifest))

    def recover(self, error: Exception) -> StateMachinePhase[T] | None:
        """What came before it stands; the next base goes on with the rest."""
        return self.course.broken(error, self.then.decided(self.segment))


_Ordered = TypeVar("_Ordered", "RowGroup", "Segment")


def _matching(manifest: Manifest, groups: RowGroups, pruning: Pruning | None) -> list[RowGroup]:
    at = np.flatnonzero(may_hold(manifest, groups, pruning)).tolist()
    return [groups[number] for number in at]


def _matching_segments(manifest: Manifest, pruning: Pruning | None) -> list[Segment]:
    at = np.flatnonzero(may_hold(manifest, manifest.segments, pruning)).tolist()
    return [manifest.segments[number] for number in at]


def _pieces(manifest: Manifest, group: RowGroup, columns: WantedColumns) -> PieceGroup:
    path = SIDECAR_FOLDER + manifest.files[group.file].name
    index = Piece(path, group.byte_offset, group.byte_length, group.digest)
    if not columns.has_statistics:
        return PieceGroup(group.index, group.num_rows, (index,))
    statistics = Piece(
        path,
        group.stats_offset,
        group.stats_length,
        group.stats_digest,
        group.stats_footer_length,
        group.stats_footer_digest,
    )
    return PieceGroup(group.index, group.num_rows, (index, statistics))


def _enough(groups: Sequence[RowGroup], files: int) -> int:
    """How many row groups hold as many files, if all of them are wanted."""
    held = 0
    for count, group in enumerate(groups, 1):
        held += group.num_rows
        if held >= files:
            return count
    return len(groups)


def _holds(segment: Segment, index: int) -> bool:
    return segment.first_index <= index < segment.first_index + segment.num_row_groups


def _before(course: _Course[T], failed: RowGroup | Segment) -> RowTest:
    """Tells which files lie before a row group in the order of reading."""
    logical = {physical: name for name, physical in course.reading.columns.partition_columns}
    manifest = course.manifest
    all_of_it = manifest.segments or manifest.row_groups
    order, sort = course.layout.order, manifest.sort
    if course.reading.forward:
        return KeysBetween(order, sort, failed.first_key, all_of_it[0].first_key, logical, above=False)
    return KeysBetween(order, sort, failed.last_key, all_of_it[-1].last_key, logical, above=True)
