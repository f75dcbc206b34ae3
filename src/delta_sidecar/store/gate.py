"""One cap on concurrent requests per account, shared fairly by all scans of the process.

A scan's own requests go in the order they came; between scans the turns go round, so a scan with a thousand
requests waiting does not keep a small one from its first answer.
"""

from __future__ import annotations

import threading
from collections import deque
from contextlib import contextmanager
from typing import TYPE_CHECKING

from delta_sidecar.store.requests import RequestLog, ScanCancelledError

if TYPE_CHECKING:
    from collections.abc import Iterator


class RequestGate:
    """Lets at most `limit` requests run at the same time."""

    def __init__(self, limit: int) -> None:
        self._lock = threading.Lock()
        self._limit = limit
        self._running = 0
        # In round-robin order: the scan in front is served next and goes to the back.
        self._waiting: dict[RequestLog, deque[_Turn]] = {}

    @property
    def limit(self) -> int:
        """The most requests that run at the same time."""
        return self._limit

    @property
    def waiting(self) -> int:
        """How many requests wait for their turn."""
        with self._lock:
            return sum(len(turns) for turns in self._waiting.values())

    def resize(self, limit: int) -> None:
        """Changes the limit; requests that run already are not stopped."""
        with self._lock:
            self._limit = limit
            self._admit()

    @contextmanager
    def slot(self, log: RequestLog) -> Iterator[None]:
        """Waits for a turn, and holds it while the body runs.

        Raises:
            ScanCancelledError: The scan was cancelled before its turn came.
        """
        self._enter(log)
        try:
            yield
        finally:
            self._leave()

    def _enter(self, log: RequestLog) -> None:
        with self._lock:
            if self._running < self._limit:
                self._running += 1
                return
            turn = _Turn()
            self._waiting.setdefault(log, deque()).append(turn)
        log.watch(turn.wake)
        served = False
        try:
            turn.wait()
            served = not log.cancelled
        finally:
            log.unwatch(turn.wake)
            if not served:
                self._abandon(log, turn)
        if not served:
            raise ScanCancelledError

    def _leave(self) -> None:
        with self._lock:
            self._running -= 1
            self._admit()

    def _abandon(self, log: RequestLog, turn: _Turn) -> None:
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
        while self._running < self._limit and self._waiting:
            log = next(iter(self._waiting))
            turns = self._waiting.pop(log)
            turn = turns.popleft()
            if turns:
                self._waiting[log] = turns
            self._running += 1
            turn.granted = True
            turn.wake()


def gate_for(account: str, limit: int, *, explicit: bool) -> RequestGate:
    """Gives the gate that all stores of an account share.

    Args:
        account: What the cap is for: an account's endpoint, or a bucket.
        limit: How many requests may run at the same time.
        explicit: The caller chose the limit, so it holds from now on; else it only counts for a new gate.
    """
    with _gates_lock:
        gate = _gates.get(account)
        if gate is None:
            gate = _gates[account] = RequestGate(limit)
        elif explicit and gate.limit != limit:
            gate.resize(limit)
        return gate


class _Turn:
    """One waiting request."""

    __slots__ = ("_event", "granted")

    def __init__(self) -> None:
        self._event = threading.Event()
        self.granted = False

    def wake(self) -> None:
        self._event.set()

    def wait(self) -> None:
        self._event.wait()


_gates: dict[str, RequestGate] = {}
_gates_lock = threading.Lock()
