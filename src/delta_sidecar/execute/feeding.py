"""Lanes whose streams are found one by one, by a thread of its own.

Where the next stream has to be looked for, nobody should wait for it who could have items of the streams that are found
already. So a feeder looks ahead, as far as it is allowed to, while the consumer takes.
"""

from __future__ import annotations

from collections import deque
from contextlib import closing
from typing import TYPE_CHECKING, Generic, TypeVar

from delta_sidecar.execute.lanes import Crew, Lane, Scale

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterator

    from delta_sidecar.store import TripClock

T = TypeVar("T")


def in_fed_lanes(
    workers: int,
    clock: TripClock,
    makers: Generator[Callable[[], Iterator[T]], None, None],
    *,
    ahead: Callable[[], int],
    budget: int,
    weigh: Callable[[T], int],
) -> Generator[T, None, None]:
    """Runs streams in threads and gives their items, stream after stream, while more streams are being found.

    Args:
        workers: How many streams run at once.
        clock: The consumer's clock of dependent round trips.
        makers: Each makes one stream. They are asked for, and closed, in a thread of their own.
        ahead: How many streams may be under way or wait to be taken. It is asked whenever one has been taken whole.
        budget: How much may wait to be taken, over all streams. One item of the first stream always may.
        weigh: How much an item counts.
    """
    scale = Scale(budget)
    crew: Crew[T] = Crew(workers, scale)
    feed = _Feed(makers, crew, scale, weigh, clock, ahead)
    crew.run(feed.run, "delta-sidecar-discovery")
    try:
        while (lane := feed.first()) is not None:
            lane.come_first()
            for item, made_at in lane.items():
                clock.join(made_at)
                yield item
            clock.join(lane.clock)
            feed.done()
    finally:
        crew.stop()


class _Feed(Generic[T]):
    """The lanes that are under way, in order, and the thread that adds to them."""

    def __init__(
        self,
        makers: Generator[Callable[[], Iterator[T]], None, None],
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
        self._clock = clock
        self._ahead = ahead
        self._lanes: deque[Lane[T]] = deque()
        self._ended = False
        self._error: BaseException | None = None

    def run(self) -> None:
        """Adds lanes as long as there is room for one, until no more are found or nobody takes any more."""
        try:
            with closing(self._makers) as makers:
                while self._has_room() and (maker := next(makers, None)) is not None:
                    lane = Lane(maker, self._scale, self._weigh, self._clock.fork())
                    with self._scale.changed:
                        self._lanes.append(lane)
                        self._scale.changed.notify_all()
                    self._crew.put(lane)
        except BaseException as error:  # noqa: BLE001 - handed to the consumer, whatever it is
            self._error = error
        finally:
            with self._scale.changed:
                self._ended = True
                self._scale.changed.notify_all()

    def first(self) -> Lane[T] | None:
        """The lane to take from, once there is one; None after the last."""
        with self._scale.changed:
            self._scale.changed.wait_for(lambda: self._lanes or self._ended)
            if self._lanes:
                return self._lanes[0]
        if self._error is not None:
            raise self._error
        return None

    def done(self) -> None:
        """The first lane has been taken whole."""
        with self._scale.changed:
            self._lanes.popleft()
            self._scale.changed.notify_all()

    def _has_room(self) -> bool:
        with self._scale.changed:
            self._scale.changed.wait_for(lambda: self._scale.stopped or len(self._lanes) < self._ahead())
            return not self._scale.stopped
