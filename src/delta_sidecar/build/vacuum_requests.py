"""Requests of a clean-up: several at once, a bounded number ahead, their answers in order."""

from __future__ import annotations

from collections import deque
from concurrent.futures import Future, ThreadPoolExecutor, wait
from functools import partial
from typing import TYPE_CHECKING, TypeVar

from delta_sidecar.store import TripClock, run_in

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

T = TypeVar("T")
R = TypeVar("R")

AT_ONCE = 4
"""Requests that are under way at the same time."""


class Requests:
    """Threads that wait for the store, so that an interrupt reaches the caller. `close` ends them."""

    def __init__(self, at_once: int = AT_ONCE) -> None:
        self._at_once = at_once
        self._pool = ThreadPoolExecutor(at_once, thread_name_prefix="delta-sidecar-vacuum")
        self._clock = TripClock()

    def each(self, ask: Callable[[T], R], items: Iterable[T]) -> Iterator[R]:
        """Asks for each item. After a failure, or where the caller stops, nothing more is asked for.

        Args:
            ask: Makes the requests for one item, in a thread.
            items: The items; they are taken as they are needed.
        """
        waiting: deque[tuple[TripClock, Future[R]]] = deque()
        remaining = iter(items)
        try:
            while True:
                while len(waiting) < self._at_once:
                    try:
                        item = next(remaining)
                    except StopIteration:
                        break
                    clock = self._clock.fork()
                    waiting.append((clock, self._pool.submit(run_in, clock, partial(ask, item))))
                if not waiting:
                    return
                clock, future = waiting.popleft()
                answer = future.result()
                self._clock.join(clock)
                yield answer
        except Exception:
            # What is under way comes to its end, so that nothing changes any more once the failure is told.
            wait([future for _, future in waiting if not future.cancel()])
            raise
        finally:
            for _, future in waiting:
                future.cancel()

    def close(self) -> None:
        """Ends the threads. What is under way is not waited for."""
        self._pool.shutdown(wait=False, cancel_futures=True)
