"""A request log that keeps every request."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from delta_sidecar.store import RequestLog

if TYPE_CHECKING:
    from delta_sidecar.store import RequestKind


class Record(NamedTuple):
    kind: RequestKind
    trip: int
    moved: int


class RecordedLog(RequestLog):
    def __init__(self) -> None:
        super().__init__()
        self.records: list[Record] = []

    def finish(self, kind: RequestKind, trip: int, *, moved: int = 0) -> None:
        super().finish(kind, trip, moved=moved)
        self.records.append(Record(kind, trip, moved))
