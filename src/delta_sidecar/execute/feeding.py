"""Lanes whose streams are found one by one, by a thread of its own.

Where the next stream has to be looked for, nobody should wait for it who could have items of the streams that are found
already. So a feeder looks ahead, as far as it is allowed to, while the consumer takes.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Generic, TypeVar

from delta_sidecar.execute.lanes import Crew, Lane, Scale
from delta_sidecar.store import ScanCancelledError

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterator
    from contextlib import AbstractContextManager

    from delta_sidecar.store import RequestLog, TripClock

T = TypeVar("T")


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

    A consumer that stops waits for nobody: whatever is under way ends by itself, at its next item or request.

    Args:
        workers: How many streams run at once.
        clock: The consumer's clock of dependent round trips.
        makers: Each makes one stream. They are entered, asked for and left in a thread of their own.
        log: Once it is cancelled, from any thread, the consumer is let go at once, by a `ScanCancelledError`.
        ahead: How many streams may be under way or wait to be taken. It is asked again whenever something was taken.
        budget: How much may wait to be taken, over all streams. One item of the first stream always may.
        weigh: How much an item counts.
    """
    scale = Scale(budget)
    crew: Crew[T] = Crew(workers, scale)
    feed = _Feed(makers, crew, scale, weigh, clock, ahead)
    try:
        log.watch(feed.give_up)
        crew.run(feed.run, "delta-sidecar-discovery")
        while (lane := feed.first()) is not None:
            lane.come_first()
            for item, made_at in lane.items():
                clock.join(made_at)
                yield item
                del item
            clock.join(lane.clock)
            feed.done()
    finally:
        log.unwatch(feed.give_up)
        crew.stop()


class _FedLane(Lane[T]):
    """A lane whose consumer can be let go from outside."""

    def give_up(self) -> None:
        """Has the consumer wait no longer; the condition of the scale is held."""
        self._error = self._error or ScanCancelledError()
        self._done = True


class _Feed(Generic[T]):
    """The lanes that are under way, in order, and the thread that adds to them."""

    def __init__(
        self,
        makers: AbstractContextManager[Iterator[Callable[[], Iterator[T]]]],
        crew: Crew[T],
        scale: Scale,
        weigh: Callable[[T], int],
        clock: TripClock,
        ahead: Callable[[], int],
    ) -> None:
        self._makers = makers
        self._crew = crew
        self._scale = scale
        self._weigh = weigh
        # No stream needs the answer of another one: all start from here, however far the consumer has come.
        self._start = clock.fork()
        self._ahead = ahead
        self._lanes: deque[_FedLane[T]] = deque()
        self._ended = False
        self._error: BaseException | None = None

    def run(self) -> None:
        """Adds lanes as long as there is room for one, until no more are found or nobody takes any more."""
        try:
            with self._makers as makers:
                while self._has_room() and (maker := next(makers, None)) is not None:
                    self._add(_FedLane(maker, self._scale, self._weigh, self._start.fork()))
        except BaseException as error:  # noqa: BLE001 - handed to the consumer, whatever it is
            self._error = error
        finally:
            with self._scale.changed:
                self._ended = True
                self._scale.changed.notify_all()

    def first(self) -> Lane[T] | None:
        """The lane to take from, once there is one; None after the last."""
        with self._scale.changed:
            self._scale.changed.wait_for(lambda: self._lanes or self._ended or self._scale.stopped)
            if self._lanes:
                return self._lanes[0]
            # Nobody looked any further: what seems to be the end is none.
            if self._scale.stopped:
                raise ScanCancelledError
        if self._error is not None:
            raise self._error
        return None

    def done(self) -> None:
        """The first lane has been taken whole."""
        with self._scale.changed:
            self._lanes.popleft()
            self._scale.changed.notify_all()

    def give_up(self) -> None:
        """Lets the consumer go, wherever it waits."""
        with self._scale.changed:
            for lane in self._lanes:
                lane.give_up()
            self._scale.stop()

    def _add(self, lane: _FedLane[T]) -> None:
        with self._scale.changed:
            # Once all is stopped no thread starts any more: who waits for their end knows them all.
            if not self._scale.stopped:
                self._lanes.append(lane)
                self._crew.put(lane)
                self._scale.changed.notify_all()

    def _has_room(self) -> bool:
        with self._scale.changed:
            self._scale.changed.wait_for(lambda: self._scale.stopped or len(self._lanes) < self._ahead())
            return not self._scale.stopped
