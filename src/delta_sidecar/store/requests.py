"""The account of one scan's requests: how many of each kind, how many bytes, how many dependent trips."""

from __future__ import annotations

import threading
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, TypeAlias

from delta_sidecar.store.trips import current_clock

if TYPE_CHECKING:
    from collections.abc import Callable

RequestKind: TypeAlias = Literal["get", "list", "head", "put", "delete"]


class ScanCancelledError(Exception):
    """A request of a cancelled scan. It stops the scan's own threads and never reaches a user."""


@dataclass(frozen=True, slots=True)
class Request:
    """One request that was made.

    Attributes:
        kind: What was asked: get, list (one page), head, put or delete.
        path: The object, or the folder that was listed.
        start: The first byte asked for; None where the request is not a read.
        end: The byte after the last one asked for; None for everything.
        bytes: How many bytes of the object were moved, either way.
        trip: Which dependent trip it was part of, counted from one.
    """

    kind: RequestKind
    path: str
    start: int | None
    end: int | None
    bytes: int
    trip: int


@dataclass(frozen=True, slots=True)
class RequestCounts:
    """What a scan has asked of its store so far.

    Attributes:
        gets: Reads of objects or ranges of them.
        lists: Pages of listings.
        heads: Requests for an object's size and time alone.
        puts: Writes.
        deletes: Deletions.
        bytes: Bytes of objects moved, either way.
        trips: The longest chain of requests that had to wait for another's answer, or for its thread; other scans
            do not count.
    """

    gets: int = 0
    lists: int = 0
    heads: int = 0
    puts: int = 0
    deletes: int = 0
    bytes: int = 0
    trips: int = 0

    @property
    def requests(self) -> int:
        """All requests together."""
        return self.gets + self.lists + self.heads + self.puts + self.deletes


class RequestLog:
    """Counts one scan's requests, and stops them.

    Any number of stores may be bound to it (`Store.bind`); together they are one scan.

    Args:
        record: Keep every request in `records` too.
    """

    def __init__(self, *, record: bool = False) -> None:
        self.records: list[Request] = []
        self._record = record
        # A stream that is dropped is cancelled wherever the collector finds it, be it in here.
        self._lock = threading.RLock()
        self._counts: dict[RequestKind, int] = {"get": 0, "list": 0, "head": 0, "put": 0, "delete": 0}
        self._bytes = 0
        self._trips = 0
        self._cancelled = False
        self._wakers: set[Callable[[], None]] = set()

    @property
    def cancelled(self) -> bool:
        """Whether the scan has been stopped."""
        return self._cancelled

    def cancel(self) -> None:
        """Stops the scan: waiting requests give up, further ones raise `ScanCancelledError` without I/O."""
        with self._lock:
            self._cancelled = True
            wakers, self._wakers = self._wakers, set()
        for wake in wakers:
            wake()

    def snapshot(self) -> RequestCounts:
        """Gives the counts as they are now."""
        with self._lock:
            counts = self._counts
            return RequestCounts(
                gets=counts["get"],
                lists=counts["list"],
                heads=counts["head"],
                puts=counts["put"],
                deletes=counts["delete"],
                bytes=self._bytes,
                trips=self._trips,
            )

    def begin(self, previous: int = 0) -> int:
        """Tells which trip a request that starts now is part of.

        Args:
            previous: A trip that the request depends on besides those of the current clock: the page before.

        Raises:
            ScanCancelledError: The scan has been stopped.
        """
        if self._cancelled:
            raise ScanCancelledError
        return max(current_clock().depth, previous) + 1

    def finish(
        self,
        kind: RequestKind,
        path: str,
        trip: int,
        *,
        moved: int = 0,
        start: int | None = None,
        end: int | None = None,
    ) -> None:
        """Counts a request that was answered or has failed.

        Args:
            kind: What was asked.
            path: Of which object or folder.
            trip: What `begin` gave.
            moved: How many bytes of the object were moved.
            start: The first byte asked for.
            end: The byte after the last one asked for.
        """
        with self._lock:
            self._counts[kind] += 1
            self._bytes += moved
            self._trips = max(self._trips, trip)
            if self._record:
                self.records.append(Request(kind, path, start, end, moved, trip))
        clock = current_clock()
        clock.depth = max(clock.depth, trip)

    def watch(self, wake: Callable[[], None]) -> None:
        """Has `wake` called when the scan is cancelled; at once if it is already."""
        with self._lock:
            if not self._cancelled:
                self._wakers.add(wake)
                return
        wake()

    def unwatch(self, wake: Callable[[], None]) -> None:
        """Takes back a `watch`."""
        with self._lock:
            self._wakers.discard(wake)
