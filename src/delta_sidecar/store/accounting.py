"""The account of one scan's requests: their number by kind, their bytes, their dependent trips, and their turns.

A `RequestLog` counts a scan's requests and stops them; a `TripClock` knows how deep a chain of dependent requests is; a
`RequestGate` caps the concurrent requests of an account.
"""

from __future__ import annotations

import contextvars
import threading
from collections import deque
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, TypeAlias, TypeVar

from msgspec import Struct

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

T = TypeVar("T")

RequestKind: TypeAlias = Literal["get", "list", "head", "put", "delete"]


class ScanCancelledError(Exception):
    """A request of a cancelled scan. It stops the scan's own threads and never reaches a user."""


@dataclass(frozen=True, slots=True)
class RequestCounts:
    """The requests of a scan so far."""

    gets: int = 0  # reads of objects or ranges of them
    lists: int = 0  # pages of listings
    heads: int = 0  # requests for an object's size and time alone
    puts: int = 0  # writes
    deletes: int = 0  # deletions
    bytes: int = 0  # bytes of objects moved, either way
    # The longest chain of requests that had to wait for another's answer, or for its thread; other scans do not
    # count.
    trips: int = 0

    @property
    def requests(self) -> int:
        """All requests together."""
        return self.gets + self.lists + self.heads + self.puts + self.deletes


class RequestLog:
    """Counts one scan's requests, and stops them.

    Any number of stores may be bound to it (`Store.bind`); together they are one scan.
    """

    def __init__(self) -> None:
        # A stream that is dropped is cancelled wherever the collector finds it, be it in here.
        self._lock = threading.RLock()
        self._counts: dict[RequestKind, int] = {"get": 0, "list": 0, "head": 0, "put": 0, "delete": 0}
        self._bytes = 0
        self._trips = 0
        self.cancelled = False  # True once the scan has been stopped
        self._wakers: set[Callable[[], None]] = set()

    def cancel(self) -> None:
        """Stops the scan: waiting requests give up, further ones raise `ScanCancelledError` without I/O."""
        with self._lock:
            self.cancelled = True
            wakers, self._wakers = self._wakers, set()
        for wake in wakers:
            wake()

    def snapshot(self) -> RequestCounts:
        """Returns the counts as they are now."""
        with self._lock:
            counts = {f"{kind}s": count for kind, count in self._counts.items()}
            return RequestCounts(**counts, bytes=self._bytes, trips=self._trips)

    def begin(self, previous: int = 0) -> int:
        """Returns the trip of a request that starts now, after trip `previous` and those of the current clock.

        Raises:
            ScanCancelledError: The scan has been stopped.
        """
        if self.cancelled:
            raise ScanCancelledError
        return max(current_clock().depth, previous) + 1

    def finish(self, kind: RequestKind, trip: int, *, moved: int = 0) -> None:
        """Counts a request of the trip from `begin` that was answered or has failed, and the bytes that it moved."""
        with self._lock:
            self._counts[kind] += 1
            self._bytes += moved
            self._trips = max(self._trips, trip)
        clock = current_clock()
        clock.depth = max(clock.depth, trip)

    def watch(self, wake: Callable[[], None]) -> None:
        """Has `wake` called when the scan is cancelled; at once if it is already."""
        with self._lock:
            if not self.cancelled:
                self._wakers.add(wake)
                return
        wake()

    def unwatch(self, wake: Callable[[], None]) -> None:
        """Takes back a `watch`."""
        with self._lock:
            self._wakers.discard(wake)


# Trips: the depth of the chain of dependent requests, which is what a user far from the store waits for.
#
# Requests that run side by side cost one round trip together; a request that needs another's answer costs one
# more, and so does one that has to wait until a thread is free. A clock goes along with the work (`run_in`): what is
# done in parallel has one of its own that begins at the same depth, and who takes the result is as deep as the deeper
# of the two. The depth depends on what waits for what, as if all requests took the same time, not on threads.


class TripClock(Struct):
    """The depth of one line of work: the number of trips, one after another, that lie behind it."""

    depth: int = 0


_current: contextvars.ContextVar[TripClock | None] = contextvars.ContextVar("trip_clock", default=None)


def current_clock() -> TripClock:
    """Returns the clock of the work that is running; work outside of `run_in` gets one of its own."""
    clock = _current.get()
    if clock is None:
        clock = TripClock()
        _current.set(clock)
    return clock


def run_in(clock: TripClock, work: Callable[[], T]) -> T:
    """Calls `work` with `clock` as the current one."""
    token = _current.set(clock)
    try:
        return work()
    finally:
        _current.reset(token)


# Turns: one cap on concurrent requests per account, shared fairly by all scans of the process.
#
# A scan's own requests go in the order they came; between scans the turns go round, so a scan with a thousand
# requests waiting does not keep a small one from its first answer.


class RequestGate:
    """Lets at most `limit` requests run at the same time."""

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self._lock = threading.Lock()
        self._running = 0
        # In round-robin order: the scan in front is served next and goes to the back.
        self._waiting: dict[RequestLog, deque[_Turn]] = {}

    def resize(self, limit: int) -> None:
        """Changes the limit; requests that run already are not stopped."""
        with self._lock:
            self.limit = limit
            self._admit()

    @contextmanager
    def slot(self, log: RequestLog) -> Iterator[None]:
        """Waits for a turn, and holds it while the body runs.

        Raises:
            ScanCancelledError: The scan was cancelled before its turn came.
        """
        turn = _Turn()
        with self._lock:
            self._waiting.setdefault(log, deque()).append(turn)
            self._admit()
        try:
            if not turn.granted:
                self._wait(turn, log)
            yield
        finally:
            self._leave(turn, log)

    def _wait(self, turn: _Turn, log: RequestLog) -> None:
        log.watch(turn.set)
        try:
            turn.wait()
        finally:
            log.unwatch(turn.set)
        if log.cancelled:
            raise ScanCancelledError

    def _leave(self, turn: _Turn, log: RequestLog) -> None:
        with self._lock:
            if turn.granted:
                self._running -= 1
                self._admit()
                return
            turns = self._waiting[log]
            turns.remove(turn)
            if not turns:
                del self._waiting[log]

    def _admit(self) -> None:
        while self._running < self.limit and self._waiting:
            log = next(iter(self._waiting))
            turns = self._waiting.pop(log)
            turn = turns.popleft()
            if turns:
                self._waiting[log] = turns
            self._running += 1
            turn.granted = True
            turn.set()


class _Turn(threading.Event):
    """One waiting request; set when it is granted or its scan is cancelled."""

    granted = False


_gates: dict[str, RequestGate] = {}


def gate_for(account: str, limit: int, *, explicit: bool) -> RequestGate:
    """Returns the gate that all stores of an account share; only a new one takes a limit that is not `explicit`."""
    gate = _gates.setdefault(account, RequestGate(limit))
    if explicit:
        gate.resize(limit)
    return gate
