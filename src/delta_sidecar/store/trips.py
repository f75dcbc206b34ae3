"""How deep the chain of dependent requests is: what a user far from the store waits for.

Requests that run side by side cost one round trip together; a request that needs another's answer costs one
more, and so does one that has to wait until a thread is free. A clock goes along with the work: `fork` it where
parallel work is handed out, `run_in` it there, and `join` it where the result is taken. Work that is handed to a few
threads is forked by a `TripQueue`. The depth then depends on what waits for what, as if all requests took the same
time, and never on how threads happen to run.
"""

from __future__ import annotations

import contextvars
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable

T = TypeVar("T")


@dataclass(slots=True)
class TripClock:
    """The depth that one line of work has reached: how many trips one after another lie behind it."""

    depth: int = 0

    def fork(self) -> TripClock:
        """Gives a clock for work that starts from here."""
        return TripClock(self.depth)

    def join(self, other: TripClock) -> None:
        """Moves on to where other work, whose result is used from here on, has arrived."""
        self.depth = max(self.depth, other.depth)


class TripQueue:
    """Requests that a few threads make, in the order in which they are handed over.

    Those that a trip has no thread left for are part of the next. All calls come from one thread, for one clock.

    Args:
        threads: How many requests run side by side.
    """

    def __init__(self, threads: int) -> None:
        self._threads = threads
        self._depth = self._taken = 0

    def fork(self, clock: TripClock) -> TripClock:
        """Gives a clock for a request that is handed over now."""
        if clock.depth > self._depth or self._taken >= self._threads:
            # A clock never goes back, so every trip between it and the last one that was taken from is full.
            self._depth, self._taken = max(clock.depth, self._depth + 1), 0
        self._taken += 1
        return TripClock(self._depth)


def current_clock() -> TripClock:
    """Gives the clock of the work that is running; work outside of `run_in` gets one of its own."""
    clock = _current.get()
    if clock is None:
        clock = TripClock()
        _current.set(clock)
    return clock


def fork() -> TripClock:
    """Forks the current clock."""
    return current_clock().fork()


def join(clock: TripClock) -> None:
    """Joins a forked clock into the current one."""
    current_clock().join(clock)


def run_in(clock: TripClock, work: Callable[[], T]) -> T:
    """Calls `work` with `clock` as the current one."""
    token = _current.set(clock)
    try:
        return work()
    finally:
        _current.reset(token)


_current: contextvars.ContextVar[TripClock | None] = contextvars.ContextVar("trip_clock", default=None)
