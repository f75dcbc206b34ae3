"""What a replay of a metadata sidecar reads: row groups out of its pieces, and what goes on after them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Generic, TypeVar

from delta_sidecar.errors import SidecarError
from delta_sidecar.log.keys import key_paths
from delta_sidecar.log.names import SIDECAR_FOLDER
from delta_sidecar.plan import Filter, Piece, PieceGroup, Plan, ScanPieces, StateMachinePhase
from delta_sidecar.replay.checkpoint import is_torn
from delta_sidecar.replay.failures import raise_unreachable
from delta_sidecar.replay.sidecar_groups import matching
from delta_sidecar.replay.sidecar_rows import SidecarRows, WantedColumns, wanted_columns
from delta_sidecar.sidecar.pieces import read_piece_footer

if TYPE_CHECKING:
    from collections.abc import Sequence

    from delta_sidecar.plan.nodes import RowTest
    from delta_sidecar.replay.bases import Base, Reading, ReplayContinuation
    from delta_sidecar.replay.sidecar_layout import SidecarLayout
    from delta_sidecar.sidecar.groups import RowGroup, RowGroups, Segment
    from delta_sidecar.sidecar.manifest import Manifest

T = TypeVar("T")

_FEW_KEYS = 10_000
_MOST_BYTES = 8 << 20
"""So much is asked for together, unless one row group is larger."""


@dataclass(frozen=True, slots=True)
class Course(Generic[T]):
    """What a replay reads, and what goes on after it.

    Attributes:
        base: The metadata sidecar.
        layout: What is where in it.
        reading: Which files are wanted.
        columns: Which columns it takes to tell.
        then: What goes on.
    """

    base: Base
    layout: SidecarLayout
    reading: Reading
    columns: WantedColumns
    then: ReplayContinuation[T] = field(repr=False)

    @classmethod
    def of(cls, base: Base, layout: SidecarLayout, reading: Reading, then: ReplayContinuation[T]) -> Course[T]:
        """Makes one for what is wanted."""
        newest = layout.newest_rows if reading.recent else None
        columns = wanted_columns(layout.schema, reading.pruning, reading.columns.without, newest)
        return cls(base, layout, reading, columns, then)

    @property
    def manifest(self) -> Manifest:
        """The sidecar's manifest."""
        return self.layout.manifest

    def matching(self, groups: RowGroups) -> list[RowGroup]:
        """Those row groups that may hold a file that matches."""
        return [groups[number] for number in matching(self.layout, groups, self.reading.pruning)]

    def matching_segments(self) -> list[Segment]:
        """Those segments that may hold a file that matches."""
        segments = self.manifest.segments
        return [segments[number] for number in matching(self.layout, segments, self.reading.pruning)]

    def plan(self, groups: Sequence[RowGroup], skipped: int, at_first: int) -> Plan:
        """Row groups as files."""
        reading = self.reading
        read = tuple(pieces_of(self.manifest, group, self.columns) for group in groups)
        largest = max((sum(piece.length for piece in group.pieces) for group in read), default=1)
        # Row groups with statistics of many columns are large.
        at_once = max(1, min(reading.at_once, _MOST_BYTES // largest))
        pieces = ScanPieces(
            read,
            self.columns.by_piece,
            self.layout.piece_schemas[: len(self.columns.by_piece)],
            at_once=at_once,
            at_first=max(1, min(at_first, at_once)),
            directory=read_piece_footer,
            skipped=skipped,
        )
        few = reading.seen.few(_FEW_KEYS) if len(reading.seen) else None
        rows = SidecarRows(
            reading.seen,
            reading.columns,
            reading.pruning,
            self.layout.schema,
            self.manifest.stats_format,
            None if few is None else key_paths(few),
            self.layout.newest_rows if reading.recent else None,
            # Of the files that are decided on nobody knows how many there are in a row group.
            None if reading.decided else reading.limit,
            reading.tally,
        )
        return reading.rest(Filter(pieces, rows))

    def path(self, group: RowGroup) -> str:
        """The file that a row group is in."""
        return SIDECAR_FOLDER + self.manifest.files[group.file].name

    def is_torn(self, error: Exception) -> bool:
        """Whether a file of the sidecar is absent, cut short or not what it should be.

        Raises:
            StorageError: It is out of reach, which is another matter.
        """
        if isinstance(error, SidecarError) or is_torn(error):
            return True
        raise_unreachable(self.reading.table, error)
        return False

    def broken(self, error: Exception, decided: RowTest) -> StateMachinePhase[T] | None:
        """Goes on with another base where a file is torn; the store being out of reach is another matter."""
        return self.then.broken(self.base, error, decided) if self.is_torn(error) else None


def pieces_of(manifest: Manifest, group: RowGroup, columns: WantedColumns) -> PieceGroup:
    """The pieces of a row group that are read."""
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


def enough(groups: Sequence[RowGroup], files: int) -> int:
    """How many row groups hold as many files, if all of them are wanted."""
    held = 0
    for count, group in enumerate(groups, 1):
        held += group.num_rows
        if held >= files:
            return count
    return len(groups)
