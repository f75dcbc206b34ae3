from __future__ import annotations

import threading
from functools import partial

import pytest

from delta_sidecar.store import (
    RequestCounts,
    RequestLog,
    ScanCancelledError,
    TripClock,
    current_clock,
    run_in,
)


def ask(log: RequestLog) -> int:
    trip = log.begin()
    log.finish("get", trip, moved=10)
    return trip


def ask_often(log: RequestLog, times: int) -> list[int]:
    return [ask(log) for _ in range(times)]


def cancelled() -> RequestLog:
    log = RequestLog()
    log.cancel()
    return log


def test_requests_one_after_another_are_trips() -> None:
    log = RequestLog()
    assert run_in(TripClock(), lambda: [ask(log), ask(log), ask(log)]) == [1, 2, 3]
    assert log.snapshot() == RequestCounts(gets=3, bytes=30, trips=3)
    assert log.snapshot().requests == 3


def test_parallel_work_is_as_deep_as_its_deepest_part() -> None:
    log = RequestLog()

    def scan() -> int:
        ask(log)
        clocks = [TripClock(current_clock().depth) for _ in range(3)]
        depths = [run_in(clock, partial(ask_often, log, n)) for n, clock in enumerate(clocks, 1)]
        assert depths == [[2], [2, 3], [2, 3, 4]]
        assert current_clock().depth == 1
        current_clock().depth = max(clock.depth for clock in clocks[:2])
        return ask(log)

    assert run_in(TripClock(), scan) == 4
    assert log.snapshot().trips == 4


def test_the_clock_is_put_back() -> None:
    outer, inner = TripClock(5), TripClock()
    seen = run_in(outer, lambda: (run_in(inner, current_clock), current_clock()))
    assert seen[0] is inner
    assert seen[1] is outer
    with pytest.raises(ScanCancelledError):
        run_in(outer, cancelled().begin)
    assert current_clock() is not outer


def test_every_thread_has_a_clock_of_its_own() -> None:
    found: list[TripClock] = []
    thread = threading.Thread(target=lambda: found.append(current_clock()))
    thread.start()
    thread.join()
    assert found[0] is not current_clock()
    assert current_clock() is current_clock()


def test_counting_from_many_threads_loses_nothing() -> None:
    log = RequestLog()
    threads = [threading.Thread(target=lambda: [ask(log) for _ in range(500)]) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert log.snapshot() == RequestCounts(gets=4000, bytes=40_000, trips=500)


def test_cancelling_wakes_who_waits_and_refuses_who_comes() -> None:
    log = RequestLog()
    woken: list[str] = []

    def first() -> None:
        woken.append("first")

    def second() -> None:
        woken.append("second")

    log.watch(first)
    log.watch(second)
    log.unwatch(second)
    assert not log.cancelled
    log.cancel()
    log.cancel()
    assert log.cancelled
    assert woken == ["first"]
    log.watch(second)
    assert woken == ["first", "second"]
    with pytest.raises(ScanCancelledError):
        log.begin()
