"""Lanes that are fed: order, bounds, and every way of coming to an end."""

from __future__ import annotations

import gc
import threading
import time
from contextlib import closing, contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any

import pytest
from tests.execute.letting_go import WatchedItems
from tests.own_threads import PATIENCE, await_threads, own_threads, settled

from delta_sidecar.execute.lanes import in_fed_lanes
from delta_sidecar.store import RequestLog, ScanCancelledError, TripClock, current_clock

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterable, Iterator

    Maker = Callable[[], Iterator[int]]


class Feeder:
    """Finds streams, and remembers what was asked of it."""

    def __init__(self, makers: Iterable[Maker], before: Callable[[int], None] = lambda _: None) -> None:
        self.found = 0
        self.entered: threading.Thread | None = None
        self.left: threading.Thread | None = None
        self._makers = makers
        self._before = before

    @contextmanager
    def __call__(self) -> Iterator[Iterator[Maker]]:
        self.entered = threading.current_thread()
        try:
            yield self._run()
        finally:
            self.left = threading.current_thread()

    def _run(self) -> Iterator[Maker]:
        for maker in self._makers:
            self._before(self.found)
            self.found += 1
            yield maker


def fed(
    feeder: Feeder,
    log: RequestLog | None = None,
    clock: TripClock | None = None,
    **how: Any,  # noqa: ANN401
) -> Generator[int, None, None]:
    given = {"ahead": lambda: 4, "budget": 1_000, "weigh": lambda _: 1} | how
    return in_fed_lanes(3, clock or TripClock(), feeder(), log=log or RequestLog(), **given)


def numbers(start: int, count: int = 3) -> Maker:
    return partial(iter, range(start, start + count))


@pytest.fixture(autouse=True)
def _no_thread_is_left() -> Iterator[None]:
    before = own_threads()
    yield
    gc.collect()
    await_threads(before)


def test_an_item_is_held_by_nobody_once_its_consumer_has_let_go_of_it() -> None:
    watched = WatchedItems()
    items = fed(Feeder([watched]))
    while next(items, None) is not None:
        pass
    assert watched.let_go == [True] * 3


def test_streams_come_in_the_order_they_were_found_in() -> None:
    def slow(start: int) -> Iterator[int]:
        time.sleep(0.02 if start % 2 else 0)
        yield from range(start, start + 3)

    feeder = Feeder([partial(slow, start) for start in range(0, 60, 3)])
    assert list(fed(feeder)) == list(range(60))
    assert feeder.found == 20


def test_nothing_to_find_is_nothing_to_give() -> None:
    feeder = Feeder([])
    assert list(fed(feeder)) == []
    assert list(fed(Feeder([numbers(0, 0), numbers(0, 2), numbers(0, 0)]))) == [0, 1]


def test_streams_are_looked_for_in_a_thread_of_their_own() -> None:
    feeder = Feeder([numbers(0)])
    assert list(fed(feeder)) == [0, 1, 2]
    assert feeder.entered is not None
    await_threads()
    assert feeder.left is feeder.entered
    assert feeder.entered is not threading.current_thread()
    assert feeder.entered.daemon


def test_trips_of_streams_do_not_add_up_however_late_one_is_found() -> None:
    def asking() -> Iterator[int]:
        current_clock().depth += 1
        yield current_clock().depth

    clock = TripClock(2)
    taken = threading.Semaphore(1)
    feeder = Feeder([asking] * 5, lambda _: taken.acquire(timeout=PATIENCE))
    depths = []
    for depth in fed(feeder, clock=clock):
        depths.append(depth)
        taken.release()
    assert (depths, clock.depth) == ([3] * 5, 3)


def test_only_so_many_streams_are_looked_for_ahead() -> None:
    feeder = Feeder(numbers(start) for start in range(0, 300, 3))
    allowed = 2
    with closing(fed(feeder, ahead=lambda: allowed)) as stream:
        assert next(stream) == 0
        assert settled(lambda: feeder.found, at_least=2) == 2
        allowed = 7
        assert [next(stream) for _ in range(3)] == [1, 2, 3]
        assert settled(lambda: feeder.found, at_least=8) == 8


def test_only_so_much_waits_to_be_taken() -> None:
    made = []

    def making(start: int) -> Iterator[int]:
        for number in range(start, start + 100):
            made.append(number)
            yield number

    feeder = Feeder([partial(making, start) for start in range(0, 1_000, 100)])
    with closing(fed(feeder, ahead=lambda: 10, budget=40, weigh=lambda _: 10)) as stream:
        assert next(stream) == 0
        # Four wait and one of the first stream, and three threads have one more in their hands.
        assert settled(lambda: len(made)) <= 1 + 5 + 3
        assert [next(stream) for _ in range(10)] == list(range(1, 11))
        assert settled(lambda: len(made)) <= 11 + 5 + 3


def test_an_item_that_is_too_heavy_comes_alone() -> None:
    feeder = Feeder([numbers(0), numbers(3)])
    assert list(fed(feeder, budget=0, weigh=lambda _: 99)) == list(range(6))


class OddError(Exception):
    """Nothing that anybody expects."""


def failing(start: int) -> Iterator[int]:
    yield start
    msg = f"after {start}"
    raise OddError(msg)


def test_an_error_of_a_stream_comes_in_its_place() -> None:
    stream = fed(Feeder([numbers(0), partial(failing, 3), partial(failing, 4), numbers(5)]))
    assert [next(stream) for _ in range(4)] == [0, 1, 2, 3]
    with pytest.raises(OddError, match="after 3"):
        next(stream)
    assert list(stream) == []


@pytest.mark.parametrize("error", [OddError, KeyError, SystemExit])
def test_an_error_in_finding_comes_after_what_was_found(error: type[BaseException]) -> None:
    def before(number: int) -> None:
        if number == 2:
            raise error(number)

    stream = fed(Feeder([numbers(0), numbers(3), numbers(6)], before))
    given = [next(stream) for _ in range(6)]
    with pytest.raises(error) as raised:
        next(stream)
    assert given == list(range(6))
    assert raised.type is error
    assert next(stream, None) is None


# --- ways to end ------------------------------------------------------------------------------------------------


class Blocked:
    """Something that waits until it is let go."""

    def __init__(self) -> None:
        self.reached = threading.Event()
        self.released = threading.Event()

    def wait(self) -> None:
        self.reached.set()
        assert self.released.wait(PATIENCE)


@pytest.fixture
def blocked() -> Iterator[Blocked]:
    made = Blocked()
    yield made
    made.released.set()


def blocked_finding(blocked: Blocked, at: int) -> Feeder:
    return Feeder([numbers(start) for start in (0, 3, 6)], lambda number: blocked.wait() if number == at else None)


def blocked_stream(blocked: Blocked) -> Iterator[int]:
    yield 0
    blocked.wait()
    yield 1


def test_what_was_never_asked_for_does_nothing() -> None:
    feeder = Feeder([numbers(0)])
    stream = fed(feeder)
    stream.close()
    del stream
    assert feeder.entered is None


@pytest.mark.parametrize("end", ["close", "drop", "interrupt"])
def test_a_consumer_that_ends_waits_for_nobody(blocked: Blocked, end: str) -> None:
    feeder = blocked_finding(blocked, 1)
    stream = fed(feeder)
    assert next(stream) == 0
    assert blocked.reached.wait(PATIENCE)
    if end == "close":
        stream.close()
    elif end == "interrupt":
        with pytest.raises(KeyboardInterrupt):
            stream.throw(KeyboardInterrupt)
    del stream
    assert feeder.left is None, "it is still blocked"
    blocked.released.set()
    # The thread itself is kept for the next work.
    settled(lambda: feeder.left is not None, at_least=1)
    assert feeder.left is feeder.entered
    assert feeder.found == 2, "what was on its way is found, and nothing after it"


@pytest.mark.parametrize("where", ["finding", "stream"])
def test_a_consumer_that_waits_is_let_go_from_outside(blocked: Blocked, where: str) -> None:
    feeder = blocked_finding(blocked, 0) if where == "finding" else Feeder([partial(blocked_stream, blocked)])
    log = RequestLog()
    stream = fed(feeder, log)
    failures: list[BaseException] = []

    def consume() -> None:
        try:
            for _ in stream:
                pass
        except ScanCancelledError as error:
            failures.append(error)

    consumer = threading.Thread(target=consume)
    consumer.start()
    assert blocked.reached.wait(PATIENCE)
    log.cancel()
    consumer.join(PATIENCE)
    assert not consumer.is_alive(), "let go while all else is still blocked"
    assert not blocked.released.is_set()
    assert len(failures) == 1


def test_a_log_that_is_cancelled_already_gives_nothing() -> None:
    log = RequestLog()
    log.cancel()
    stream = fed(Feeder(numbers(start) for start in range(0, 300, 3)), log)
    with pytest.raises(ScanCancelledError):
        list(stream)


def test_the_end_of_one_leaves_others_alone() -> None:
    log = RequestLog()
    first, second = fed(Feeder([numbers(0)] * 9), log), fed(Feeder([numbers(0)] * 9))
    assert next(first) == next(second) == 0
    log.cancel()
    with pytest.raises(ScanCancelledError):
        list(first)
    assert len(list(second)) == 26


def test_a_finder_that_fails_as_it_is_left_says_so() -> None:
    @contextmanager
    def makers() -> Iterator[Iterator[Maker]]:
        yield iter([numbers(0)])
        raise OddError

    stream = in_fed_lanes(2, TripClock(), makers(), log=RequestLog(), ahead=lambda: 2, budget=9, weigh=lambda _: 1)
    given = [next(stream) for _ in range(3)]
    with pytest.raises(OddError):
        next(stream)
    assert given == [0, 1, 2]
