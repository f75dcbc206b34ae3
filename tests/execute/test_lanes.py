from __future__ import annotations

import subprocess
import sys
import threading
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.execute.letting_go import WatchedItems
from tests.own_threads import PATIENCE, await_threads

from delta_sidecar.execute.lanes import in_lanes
from delta_sidecar.store import TripClock, current_clock

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

WORKERS = 3


def lanes(
    makers: object, clock: TripClock | None = None, workers: int = WORKERS, ahead: int = 3, **options: object
) -> Iterator[Any]:
    chosen = {"budget": 1_000, "weigh": lambda _: 1, **options}
    return in_lanes(workers, clock or TripClock(), makers, ahead=lambda: ahead, **chosen)


def stream(*items: object) -> Callable[[], Iterator[Any]]:
    return lambda: iter(items)


@settings(deadline=None)
@given(
    st.lists(st.lists(st.integers(1, 5), max_size=6), max_size=8),
    st.integers(1, 6),
    st.integers(0, 12),
    st.integers(1, 3),
)
def test_items_come_stream_after_stream_whatever_the_bounds(
    content: list[list[int]], ahead: int, budget: int, threads: int
) -> None:
    expected = [(number, item) for number, items in enumerate(content) for item in items]
    makers = [stream(*[(number, item) for item in items]) for number, items in enumerate(content)]
    found = list(lanes(makers, workers=threads, ahead=ahead, budget=budget, weigh=lambda item: item[1]))
    assert found == expected


def test_an_item_is_held_by_nobody_once_its_consumer_has_let_go_of_it() -> None:
    watched = WatchedItems()
    items = lanes([watched])
    while next(items, None) is not None:
        pass
    assert watched.let_go == [True] * 3


def test_nothing_starts_before_the_first_item_is_asked_for() -> None:
    started: list[int] = []
    items = lanes(started.append(number) or stream(number) for number in range(9))
    assert started == []
    assert next(items) == 0
    assert len(started) == 3


def test_only_so_many_streams_are_under_way() -> None:
    taken: list[int] = []

    def makers() -> Iterator[Any]:
        for number in range(20):
            taken.append(number)
            yield stream(number)

    for number, item in enumerate(lanes(makers(), ahead=4)):
        assert item == number
        assert len(taken) <= number + 5


def test_what_waits_to_be_taken_is_bounded() -> None:
    made = threading.Semaphore(0)
    count = 0
    lock = threading.Lock()

    def endless() -> Iterator[int]:
        nonlocal count
        while True:
            with lock:
                count += 1
            made.release()
            yield 1

    items = lanes([endless, endless], budget=5)
    next(items)
    for _ in range(7):
        assert made.acquire(timeout=PATIENCE)
    # At most the budget waits; each producer holds one item more in its hand, and one was taken.
    settled = threading.Event()
    settled.wait(0.05)
    assert count <= 5 + 2 + 1
    items.close()


def test_an_item_larger_than_the_budget_passes() -> None:
    makers = [stream(100, 200), stream(300)]
    assert list(lanes(makers, budget=1, weigh=lambda item: item)) == [100, 200, 300]


def test_an_error_comes_in_its_place() -> None:
    def failing() -> Iterator[int]:
        yield 3
        msg = "in the middle"
        raise OSError(msg)

    items = lanes([stream(1, 2), failing, stream(4)])
    assert [next(items), next(items), next(items)] == [1, 2, 3]
    with pytest.raises(OSError, match="in the middle"):
        next(items)
    assert list(items) == []


def test_an_error_of_a_later_stream_does_not_overtake() -> None:
    failed = threading.Event()

    def slow() -> Iterator[int]:
        assert failed.wait(PATIENCE)
        yield 1

    def failing() -> Iterator[int]:
        failed.set()
        raise OSError
        yield

    items = lanes([slow, failing])
    assert next(items) == 1
    with pytest.raises(OSError):  # noqa: PT011 - it has no message
        next(items)


def test_an_error_while_making_a_stream() -> None:
    def broken() -> Iterator[int]:
        msg = "no stream"
        raise ValueError(msg)

    items = lanes([stream(1), broken])
    assert next(items) == 1
    with pytest.raises(ValueError, match="no stream"):
        next(items)


@pytest.mark.parametrize("way", ["close", "drop"])
def test_stopping_ends_the_producers(way: str) -> None:
    began, ended = threading.Semaphore(0), threading.Semaphore(0)

    def endless() -> Iterator[int]:
        began.release()
        try:
            while True:
                yield 1
        finally:
            ended.release()

    items = lanes([endless] * 10, workers=2, budget=3)
    next(items)
    next(items)
    assert began.acquire(timeout=PATIENCE)
    assert began.acquire(timeout=PATIENCE)
    if way == "close":
        items.close()
    del items
    assert ended.acquire(timeout=PATIENCE)
    assert ended.acquire(timeout=PATIENCE)
    await_threads()


def test_streams_that_have_not_begun_never_begin() -> None:
    begun: list[int] = []
    hold = threading.Event()

    def first() -> Iterator[int]:
        yield 0
        assert hold.wait(PATIENCE)
        yield 1

    def other() -> Iterator[int]:
        begun.append(1)
        yield 2

    items = lanes([first, other, other], workers=1)
    assert next(items) == 0
    items.close()
    hold.set()
    await_threads()
    assert begun == []


PROGRAM = """
import os, threading, time
from delta_sidecar.execute.lanes import in_lanes
from delta_sidecar.store import TripClock

begun = threading.Event()

def stream():
    yield 1
    begun.set()
    time.sleep(0.5)
    os.write(1, b"the item is made ")

items = in_lanes(1, TripClock(), [stream], ahead=lambda: 3, budget=1_000, weigh=lambda _: 1)
next(items)
begun.wait()
{}
os.write(1, b"the program ends ")
"""


@pytest.mark.full
@pytest.mark.parametrize("then", ["", "items.close()", "items.close(); del items"])
def test_no_thread_is_cut_off_amid_an_item_when_a_process_ends(then: str) -> None:
    # Inside of Arrow that would be a crash.
    program = [sys.executable, "-c", PROGRAM.format(then)]
    done = subprocess.run(program, check=False, capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stdout, done.stderr) == (0, "the program ends the item is made ", "")


def test_trips_of_streams_side_by_side_count_once() -> None:
    def trips(count: int) -> Callable[[], Iterator[int]]:
        def run() -> Iterator[int]:
            for _ in range(count):
                current_clock().depth += 1
            yield current_clock().depth

        return run

    clock = TripClock(2)
    assert list(lanes([trips(1), trips(3), trips(2)], clock)) == [3, 5, 4]
    assert clock.depth == 5
