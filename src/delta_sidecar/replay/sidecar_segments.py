"""Segments of a large manifest: a second level, of which only those are read that may hold a file that matches."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Generic, TypeVar

from delta_sidecar.log.names import SIDECAR_FOLDER
from delta_sidecar.plan import ConsumePhase, FileRef, ReadRanges, StateMachinePhase
from delta_sidecar.sidecar.segments import decode_segment

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pyarrow as pa

    from delta_sidecar.replay.sidecar_course import Course
    from delta_sidecar.sidecar.groups import RowGroups, Segment

T = TypeVar("T")


class SegmentContinuation(ABC, Generic[T]):
    """What goes on once a segment is read, or cannot be."""

    @abstractmethod
    def read(self, groups: RowGroups) -> StateMachinePhase[T]:
        """Goes on with its row groups."""

    @abstractmethod
    def broken(self, segment: Segment, error: Exception) -> StateMachinePhase[T] | None:
        """Goes on without it."""


@dataclass(frozen=True, slots=True)
class SegmentPhase(ConsumePhase[T]):
    """Reads one segment of a large manifest."""

    course: Course[T]
    segment: Segment = field(repr=False)
    then: SegmentContinuation[T]

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
        return self.then.read(decode_segment(content, self.segment, self.course.manifest))

    def recover(self, error: Exception) -> StateMachinePhase[T] | None:
        """What came before it stands; the next base goes on with the rest."""
        return self.then.broken(self.segment, error)
