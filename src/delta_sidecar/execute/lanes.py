"""Streams made by several threads, taken by one consumer in order, each only a few items ahead.

A producer that is ahead waits. A consumer that stops, by closing or dropping its iterator, ends the producers at
their next item: nothing goes on in the background.
"""

from __future__ import annotations

import threading
from collections import deque
from queue import SimpleQueue
from typing import TYPE_CHECKING, Generic, TypeVar

from delta_sidecar.store import run_in

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from delta_sidecar.store import TripClock

T = TypeVar("T")

_ITEMS = 4


def in_lanes(
    workers: int,
    clock: TripClock,
    makers: Iterable[Callable[[], Iterator[T]]],
    *,
    ahead: int,
    budget: int,
    weigh: Callable[[T], int],
) -> Iterator[T]:
    """Runs streams in threads of their own and gives their items, stream after stream.

    The threads do not keep a process alive: a stream that nobody takes from any more must not hold up its end.

    Args:
        workers: How many streams run at once.
        clock: The consumer's clock of dependent round trips.
        makers: Each makes one stream.
        ahead: How many streams may be under way or wait for a thread.
        budget: How much may wait to be taken, over all streams. One item of the first stream always may.
        weigh: How much an item counts.
    """
    waiting: deque[_Lane[T]] = deque()
    scale = _Scale(budget)
    queue: SimpleQueue[_Lane[T] | None] = SimpleQueue()
    threads = 0
    remaining = iter(makers)
    try:
        while True:
            while len(waiting) < ahead and (maker := next(remaining, None)) is not None:
                lane = _Lane(maker, scale, weigh, clock.fork())
                queue.put(lane)
                waiting.append(lane)
                if threads < workers:
                    threads += 1
                    name = f"delta-sidecar-decode_{threads}"
                    threading.Thread(target=_work, args=(queue,), name=name, daemon=True).start()
            if not waiting:
                return
            waiting[0].come_first()
            for item, made_at in waiting[0].items():
                clock.join(made_at)
                yield item
            clock.join(waiting[0].clock)
            waiting.popleft()
    finally:
        for lane in waiting:
            lane.stop()
        for _ in range(threads):
            queue.put(None)


def _work(queue: SimpleQueue[_Lane[T] | None]) -> None:
    while (lane := queue.get()) is not None:
        run_in(lane.clock, lane.produce)


class _Scale:
    """How much waits to be taken, over all streams."""

    def __init__(self, budget: int) -> None:
        self.budget = budget
        self.held = 0
        self.changed = threading.Condition()


class _Lane(Generic[T]):
    def __init__(
        self, maker: Callable[[], Iterator[T]], scale: _Scale, weigh: Callable[[T], int], clock: TripClock
    ) -> None:
        self.clock = clock
        self._maker = maker
        self._scale = scale
        self._weigh = weigh
        self._items: deque[tuple[T, int, TripClock]] = deque()
        self._first = False
        self._done = False
        self._stopped = False
        self._error: BaseException | None = None

    def come_first(self) -> None:
        """Tells that the consumer waits for this stream: it must not wait for room in turn."""
        with self._scale.changed:
            self._first = True
            self._scale.changed.notify_all()

    def items(self) -> Iterator[tuple[T, TripClock]]:
        """Items, each with the trips that it took; those of later ones may be under way already."""
        while True:
            with self._scale.changed:
                self._scale.changed.wait_for(lambda: self._items or self._done)
                if not self._items:
                    break
                item, weight, made_at = self._items.popleft()
                self._scale.held -= weight
                self._scale.changed.notify_all()
            yield item, made_at
        if self._error is not None:
            raise self._error

    def stop(self) -> None:
        with self._scale.changed:
            self._stopped = True
            self._scale.changed.notify_all()

    def produce(self) -> None:
        """Runs the stream, in a thread of its own, as far as it is wanted."""
        try:
            for item in () if self._stopped else self._maker():
                if not self._offer(item):
                    break
        except BaseException as error:  # noqa: BLE001 - handed to the consumer, whatever it is
            self._error = error
        finally:
            with self._scale.changed:
                self._done = True
                self._scale.changed.notify_all()

    def _offer(self, item: T) -> bool:
        weight, made_at = self._weigh(item), self.clock.fork()
        with self._scale.changed:
            self._scale.changed.wait_for(lambda: self._stopped or self._has_room(weight))
            if self._stopped:
                return False
            self._items.append((item, weight, made_at))
            self._scale.held += weight
            self._scale.changed.notify_all()
            return True

    def _has_room(self, weight: int) -> bool:
        if self._first and not self._items:
            return True
        return len(self._items) < _ITEMS and self._scale.held + weight <= self._scale.budget
