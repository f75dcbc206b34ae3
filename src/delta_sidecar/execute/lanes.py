"""Work of several threads for one consumer, in order and only a few items ahead: streams, and a function's values.

A producer that is ahead waits. A consumer that stops, by closing or dropping its iterator, ends the producers at
their next item: nothing goes on in the background.
"""

from __future__ import annotations

import atexit
import threading
from collections import deque
from itertools import islice
from typing import TYPE_CHECKING, Any, Generic, TypeVar
from weakref import WeakSet

from delta_sidecar._threads import ThreadPool, in_thread
from delta_sidecar.store import ScanCancelledError, TripClock, run_in

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterable, Iterator
    from concurrent.futures import Future
    from contextlib import AbstractContextManager

    from delta_sidecar.store import RequestLog


S = TypeVar("S")
T = TypeVar("T")

_ITEMS = 4


def in_lanes(
    workers: int,
    clock: TripClock,
    makers: Iterable[Callable[[], Iterator[T]]],
    *,
    ahead: Callable[[], int],
    budget: int,
    weigh: Callable[[T], int],
) -> Generator[T, None, None]:
    """Runs streams in threads of their own and gives their items, stream after stream.

    The threads do not keep a process alive: a stream that nobody takes from any more must not hold up its end.

    Args:
        workers: How many streams run at once.
        clock: The consumer's clock of dependent round trips.
        makers: Each makes one stream.
        ahead: How many streams may be under way or wait for a thread, one at least. It is asked each time.
        budget: How much may wait to be taken, over all streams. One item of the first stream always may.
        weigh: How much an item counts.
    """
    waiting: deque[Lane[T]] = deque()
    crew = Crew(workers, budget, weigh)
    remaining = iter(makers)
    try:
        while True:
            while len(waiting) < max(1, ahead()) and (maker := next(remaining, None)) is not None:
                waiting.append(Lane(maker, crew, TripClock(clock.depth)))
                crew.put(waiting[-1])
            if not waiting:
                return
            yield from waiting[0].items(clock)
            waiting.popleft()
    finally:
        crew.stop()


class Crew(Generic[T]):
    """Threads that produce lanes, one after another, and what of all lanes waits to be taken."""

    def __init__(self, size: int, budget: int, weigh: Callable[[T], int]) -> None:
        self.budget = budget
        self.weigh = weigh
        self.held = 0
        self.stopped = False
        self.changed = threading.Condition()
        self._size = size
        self._waiting: deque[Lane[T]] = deque()
        self._workers = 0
        _crews.add(self)

    def put(self, lane: Lane[T]) -> None:
        """Has a lane produced once a thread is free."""
        with self.changed:
            self._waiting.append(lane)
            if self._workers >= self._size:
                return
            self._workers += 1
        in_thread(self._work, "delta-sidecar-decode")

    def stop(self) -> None:
        """Ends the threads at their next item: nobody takes any more."""
        with self.changed:
            self.stopped = True
            self.changed.notify_all()

    def _work(self) -> None:
        while True:
            with self.changed:
                if self.stopped or not self._waiting:
                    self._workers -= 1
                    return
                lane = self._waiting.popleft()
            run_in(lane.clock, lane.produce)
            del lane


_crews: WeakSet[Crew[Any]] = WeakSet()


@atexit.register
def _stop_all() -> None:
    """Stops what is left over when the process ends; the end of the threads waits for it."""
    for crew in list(_crews):
        crew.stop()


class Lane(Generic[T]):
    """One stream: produced in a thread of a crew, taken by the consumer."""

    def __init__(self, maker: Callable[[], Iterator[T]], crew: Crew[T], clock: TripClock) -> None:
        self.clock = clock
        self._maker = maker
        self._crew = crew
        self._items: deque[tuple[T, int, int]] = deque()
        self._first = False
        self._done = False
        self._error: BaseException | None = None

    def items(self, clock: TripClock) -> Iterator[T]:
        """Items for the consumer, whose clock has the trips of those that it took, not of later ones under way."""
        with self._crew.changed:
            # The consumer waits for this stream, which must not wait for room in turn.
            self._first = True
            self._crew.changed.notify_all()
        while True:
            with self._crew.changed:
                self._crew.changed.wait_for(lambda: self._items or self._done)
                if not self._items:
                    break
                item, weight, made_at = self._items.popleft()
                self._crew.held -= weight
                self._crew.changed.notify_all()
            clock.depth = max(clock.depth, made_at)
            yield item
            del item
        if self._error is not None:
            raise self._error
        clock.depth = max(clock.depth, self.clock.depth)

    def produce(self) -> None:
        """Runs the stream, in a thread of its own, until it ends or nobody takes any more."""
        try:
            for item in () if self._crew.stopped else self._maker():
                if not self._offer(item):
                    break
                del item
        except BaseException as error:  # noqa: BLE001 - handed to the consumer
            self.end(error)
        else:
            self.end()

    def end(self, error: BaseException | None = None) -> None:
        """Ends the stream for the consumer, by the first error that there is."""
        with self._crew.changed:
            self._error = self._error or error
            self._done = True
            self._crew.changed.notify_all()

    def _offer(self, item: T) -> bool:
        crew, weight, made_at = self._crew, self._crew.weigh(item), self.clock.depth
        with crew.changed:
            crew.changed.wait_for(lambda: crew.stopped or self._has_room(weight))
            if crew.stopped:
                return False
            self._items.append((item, weight, made_at))
            crew.held += weight
            crew.changed.notify_all()
            return True

    def _has_room(self, weight: int) -> bool:
        if self._first and not self._items:
            return True
        return len(self._items) < _ITEMS and self._crew.held + weight <= self._crew.budget


def in_threads(
    function: Callable[[S], T],
    items: Iterable[S],
    threads: int,
    name: str,
    *,
    ahead: Callable[[], int] | None = None,
    wait: bool = True,
) -> Generator[T, None, None]:
    """Applies a function to items in some threads, and gives what it returns in order.

    Args:
        function: The function.
        items: The items, taken by the consumer's own thread.
        threads: How many threads.
        name: Of the threads.
        ahead: How many items may be under way or wait to be taken; it is asked each time. None for one a thread and
            another one.
        wait: Whether the threads are waited for when the stream is closed, since they use what goes then.
    """
    waiting: deque[Future[T]] = deque()
    remaining = iter(items)
    pool = ThreadPool(threads, f"delta-sidecar-{name}")
    try:
        while True:
            room = (threads + 1 if ahead is None else ahead()) - len(waiting)
            waiting.extend(pool.submit(function, item) for item in islice(remaining, max(0, room)))
            if not waiting:
                return
            yield waiting.popleft().result()
    finally:
        pool.close(wait_for_calls=wait)


# Lanes whose streams are found one by one, by a thread of its own.
#
# Where the next stream has to be looked for, nobody should wait for it who could have items of the streams that are
# found already. So a feeder looks ahead, as far as it is allowed to, while the consumer takes.


def in_fed_lanes(
    workers: int,
    clock: TripClock,
    makers: AbstractContextManager[Iterator[Callable[[], Iterator[T]]]],
    *,
    log: RequestLog,
    ahead: Callable[[], int],
    budget: int,
    weigh: Callable[[T], int],
) -> Generator[T, None, None]:
    """Runs streams in threads and gives their items, stream after stream, while more streams are being found.

    A consumer that stops waits for nobody: what is under way ends by itself, at its next item or request.

    Args:
        workers: How many streams run at once.
        clock: The consumer's clock of dependent round trips.
        makers: Each makes one stream. They are entered, asked for and left in a thread of their own.
        log: Once it is cancelled, from any thread, the consumer is let go at once, by a `ScanCancelledError`.
        ahead: How many streams may be under way or wait to be taken. It is asked again whenever something was taken.
        budget: How much may wait to be taken, over all streams. One item of the first stream always may.
        weigh: How much an item counts.
    """
    crew = Crew(workers, budget, weigh)
    feed = _Feed(makers, crew, TripClock(clock.depth), ahead)
    try:
        log.watch(feed.give_up)
        in_thread(feed.run, "delta-sidecar-discovery")
        while (lane := feed.first()) is not None:
            yield from lane.items(clock)
            feed.done()
    finally:
        log.unwatch(feed.give_up)
        crew.stop()


class _Feed(Generic[T]):
    """The lanes that are under way, in order, and the thread that adds to them."""

    def __init__(
        self,
        makers: AbstractContextManager[Iterator[Callable[[], Iterator[T]]]],
        crew: Crew[T],
        start: TripClock,
        ahead: Callable[[], int],
    ) -> None:
        self._makers = makers
        self._crew = crew
        # No stream needs the answer of another one: all start from here, however far the consumer has come.
        self._start = start
        self._ahead = ahead
        self._lanes: deque[Lane[T]] = deque()
        self._ended = False
        self._error: BaseException | None = None

    def run(self) -> None:
        """Adds lanes as long as there is room for one, until no more are found or nobody takes any more."""
        try:
            with self._makers as makers:
                while self._has_room() and (maker := next(makers, None)) is not None:
                    self._add(Lane(maker, self._crew, TripClock(self._start.depth)))
        except BaseException as error:  # noqa: BLE001 - handed to the consumer
            self._error = error
        finally:
            with self._crew.changed:
                self._ended = True
                self._crew.changed.notify_all()

    def first(self) -> Lane[T] | None:
        """The lane to take from, once there is one; None after the last."""
        with self._crew.changed:
            self._crew.changed.wait_for(lambda: self._lanes or self._ended or self._crew.stopped)
            if self._lanes:
                return self._lanes[0]
            # Nobody looked any further: what seems to be the end is none.
            if self._crew.stopped:
                raise ScanCancelledError
        if self._error is not None:
            raise self._error
        return None

    def done(self) -> None:
        """The first lane has been taken whole."""
        with self._crew.changed:
            self._lanes.popleft()
            self._crew.changed.notify_all()

    def give_up(self) -> None:
        """Lets the consumer go, wherever it waits."""
        with self._crew.changed:
            for lane in self._lanes:
                lane.end(ScanCancelledError())
            self._crew.stop()

    def _add(self, lane: Lane[T]) -> None:
        with self._crew.changed:
            # Once all is stopped no thread starts any more: who waits for their end knows them all.
            if not self._crew.stopped:
                self._lanes.append(lane)
                self._crew.put(lane)
                self._crew.changed.notify_all()

    def _has_room(self) -> bool:
        with self._crew.changed:
            self._crew.changed.wait_for(lambda: self._crew.stopped or len(self._lanes) < self._ahead())
            return not self._crew.stopped
