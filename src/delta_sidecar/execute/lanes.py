"""Streams made by several threads, taken by one consumer in order, each only a few items ahead.

A producer that is ahead waits. A consumer that stops, by closing or dropping its iterator, ends the producers at
their next item: nothing goes on in the background.
"""

from __future__ import annotations

import atexit
import threading
import time
from collections import deque
from functools import partial
from queue import SimpleQueue
from typing import TYPE_CHECKING, Any, Generic, TypeVar
from weakref import WeakSet

from delta_sidecar.store import run_in

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterable, Iterator

    from delta_sidecar.store import TripClock

T = TypeVar("T")

_ITEMS = 4


def in_lanes(
    workers: int,
    clock: TripClock,
    makers: Iterable[Callable[[], Iterator[T]]],
    *,
    ahead: int | Callable[[], int],
    budget: int,
    weigh: Callable[[T], int],
) -> Generator[T, None, None]:
    """Runs streams in threads of their own and gives their items, stream after stream.

    The threads do not keep a process alive: a stream that nobody takes from any more must not hold up its end.

    Args:
        workers: How many streams run at once.
        clock: The consumer's clock of dependent round trips.
        makers: Each makes one stream.
        ahead: How many streams may be under way or wait for a thread, one at least; a function is asked each time.
        budget: How much may wait to be taken, over all streams. One item of the first stream always may.
        weigh: How much an item counts.
    """
    waiting: deque[Lane[T]] = deque()
    scale = Scale(budget)
    crew: Crew[T] = Crew(workers, scale)
    remaining = iter(makers)
    try:
        while True:
            while len(waiting) < _most(ahead) and (maker := next(remaining, None)) is not None:
                waiting.append(Lane(maker, scale, weigh, clock.fork()))
                crew.put(waiting[-1])
            if not waiting:
                return
            waiting[0].come_first()
            for item, made_at in waiting[0].items():
                clock.join(made_at)
                yield item
                del item
            clock.join(waiting[0].clock)
            waiting.popleft()
    finally:
        crew.stop()


def _most(ahead: int | Callable[[], int]) -> int:
    return ahead if isinstance(ahead, int) else max(1, ahead())


class Crew(Generic[T]):
    """Threads that produce lanes, one after another."""

    def __init__(self, size: int, scale: Scale) -> None:
        self._size = size
        self._scale = scale
        self._queue: SimpleQueue[Lane[T] | None] = SimpleQueue()
        self._threads = self._workers = 0
        with _crews_lock:
            _crews.add(self)

    def put(self, lane: Lane[T]) -> None:
        """Has a lane produced once a thread is free."""
        self._queue.put(lane)
        if self._workers < self._size:
            self._workers += 1
            self.run(partial(_work, self._queue), f"delta-sidecar-decode_{self._workers}")

    def run(self, work: Callable[[], None], name: str) -> None:
        """Has a thread of its own do something else for these lanes."""
        _Hand(target=work, name=name, daemon=True).start()
        self._threads += 1

    def stop(self) -> None:
        """Ends the threads at their next item."""
        self._scale.stop()
        for _ in range(self._threads):
            self._queue.put(None)


class _Hand(threading.Thread):
    """A thread of a crew."""


_crews: WeakSet[Crew[Any]] = WeakSet()
_crews_lock = threading.Lock()
_PATIENCE = 30.0


@atexit.register
def _stop_all() -> None:
    """Stops what is left over when the process ends: a thread that is cut off inside of Arrow would abort it."""
    with _crews_lock:
        left = list(_crews)
    for crew in left:
        crew.stop()
    deadline = time.monotonic() + _PATIENCE
    # Of other crews too: a thread in the middle of an item outlives the crew of a consumer that has stopped.
    for thread in threading.enumerate():
        if isinstance(thread, _Hand) and thread.is_alive():
            thread.join(max(0.0, deadline - time.monotonic()))


def _work(queue: SimpleQueue[Lane[T] | None]) -> None:
    while (lane := queue.get()) is not None:
        run_in(lane.clock, lane.produce)


class Scale:
    """How much waits to be taken, over all streams, and whether anything is wanted at all."""

    def __init__(self, budget: int) -> None:
        self.budget = budget
        self.held = 0
        self.stopped = False
        self.changed = threading.Condition()

    def stop(self) -> None:
        """Nobody takes any more."""
        with self.changed:
            self.stopped = True
            self.changed.notify_all()


class Lane(Generic[T]):
    """One stream: produced in a thread of a crew, taken by the consumer."""

    def __init__(
        self, maker: Callable[[], Iterator[T]], scale: Scale, weigh: Callable[[T], int], clock: TripClock
    ) -> None:
        self.clock = clock
        self._maker = maker
        self._scale = scale
        self._weigh = weigh
        self._items: deque[tuple[T, int, TripClock]] = deque()
        self._first = False
        self._done = False
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
            del item
        if self._error is not None:
            raise self._error

    def produce(self) -> None:
        """Runs the stream, in a thread of its own, as far as it is wanted."""
        try:
            for item in () if self._scale.stopped else self._maker():
                if not self._offer(item):
                    break
                del item
        except BaseException as error:  # noqa: BLE001 - handed to the consumer, whatever it is
            self._error = error
        finally:
            with self._scale.changed:
                self._done = True
                self._scale.changed.notify_all()

    def _offer(self, item: T) -> bool:
        weight, made_at = self._weigh(item), self.clock.fork()
        with self._scale.changed:
            self._scale.changed.wait_for(lambda: self._scale.stopped or self._has_room(weight))
            if self._scale.stopped:
                return False
            self._items.append((item, weight, made_at))
            self._scale.held += weight
            self._scale.changed.notify_all()
            return True

    def _has_room(self, weight: int) -> bool:
        if self._first and not self._items:
            return True
        return len(self._items) < _ITEMS and self._scale.held + weight <= self._scale.budget
