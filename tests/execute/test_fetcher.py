from __future__ import annotations

import threading
import uuid
from contextlib import ExitStack, closing
from typing import TYPE_CHECKING

import pytest
from tests.recorded_log import RecordedLog

from delta_sidecar.errors import ObjectNotFoundError, StorageError
from delta_sidecar.execute import fetch as module
from delta_sidecar.execute.fetch import Fetcher, Work
from delta_sidecar.store import RequestLog, open_store
from delta_sidecar.store.testing import Fail, FaultStore, RecordingStore

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from delta_sidecar.store import Store
    from delta_sidecar.store.testing import Attempt

    WorkWith = Callable[..., Work]

PATIENCE = 60


@pytest.fixture
def work_with() -> Iterator[WorkWith]:
    with ExitStack() as stack:

        def made(store: Store, threads: int = 8) -> Work:
            return stack.enter_context(closing(Work(store, threads, other_requests=0)))

        yield made


@pytest.fixture
def inner() -> Store:
    store = open_store(f"memory://{uuid.uuid4().hex}")
    for name in "abc":
        store.put(name, name.encode() * 100)
    return store


@pytest.fixture
def store(inner: Store) -> RecordingStore:
    return RecordingStore(inner)


def test_a_file_is_asked_for_once_ahead_and_taken(store: RecordingStore, work_with: WorkWith) -> None:
    fetcher = Fetcher(work_with(store))
    fetcher.ahead("a")
    fetcher.ahead("a")
    assert bytes(fetcher.take(fetcher.start("a")).data) == b"a" * 100
    assert store.paths("get") == ["a"]


def test_what_is_kept_is_not_asked_for_again(store: RecordingStore, work_with: WorkWith) -> None:
    fetcher = Fetcher(work_with(store))
    for _ in range(3):
        assert fetcher.take(fetcher.start("a"), keep=True).size == 100
    fetcher.ahead("a")
    assert fetcher.take(fetcher.start("a")).size == 100
    assert store.paths("get") == ["a"]
    fetcher.take(fetcher.start("a"))
    assert store.paths("get") == ["a", "a"], "the last one that took it did not want it kept"


def test_only_so_much_is_kept(store: RecordingStore, monkeypatch: pytest.MonkeyPatch, work_with: WorkWith) -> None:
    monkeypatch.setattr(module, "KEPT_BYTES", 250)
    fetcher = Fetcher(work_with(store))
    for name in "abc":
        fetcher.take(fetcher.start(name), keep=True)
    for name in "abc":
        fetcher.take(fetcher.start(name), keep=True)
    assert store.paths("get") == ["a", "b", "c", "c"]
    fetcher.take(fetcher.start("a"))
    fetcher.take(fetcher.start("c"), keep=True)
    fetcher.take(fetcher.start("c"), keep=True)
    assert store.paths("get")[4:] == ["c"], "room that was given back is used"


def test_a_file_that_was_not_there_ahead_is_asked_for_again(inner: Store, work_with: WorkWith) -> None:
    missing = Fail("a", "get", ObjectNotFoundError("not yet"), times=1)
    store = RecordingStore(FaultStore(inner, missing))
    fetcher = Fetcher(work_with(store))
    fetcher.ahead("a")
    assert fetcher.take(fetcher.start("a")).size == 100
    assert store.paths("get") == ["a", "a"]


def test_a_file_that_is_not_there_is_an_error(store: RecordingStore, work_with: WorkWith) -> None:
    fetcher = Fetcher(work_with(store))
    with pytest.raises(ObjectNotFoundError):
        fetcher.take(fetcher.start("x"))
    assert store.paths("get") == ["x"]
    fetcher.ahead("y")
    with pytest.raises(ObjectNotFoundError):
        fetcher.take(fetcher.start("y"))


def test_other_errors_are_not_hidden(inner: Store, work_with: WorkWith) -> None:
    fetcher = Fetcher(work_with(FaultStore(inner, Fail("a"))))
    with pytest.raises(StorageError, match="injected"):
        fetcher.take(fetcher.start("a"))


def test_files_asked_for_side_by_side_are_one_trip(inner: Store, work_with: WorkWith) -> None:
    log = RecordedLog()
    work = work_with(inner.bind(log))
    work.clock.depth = 4
    fetcher = Fetcher(work)
    started = [fetcher.start(name) for name in "abc"]
    for pending in started:
        fetcher.take(pending)
    assert work.clock.depth == 5
    assert {record.trip for record in log.records} == {5}
    fetcher.take(fetcher.start("a"))
    assert work.clock.depth == 6


@pytest.mark.parametrize(("threads", "trips"), [(1, 3), (2, 2), (3, 1)])
def test_files_that_wait_for_a_thread_are_another_trip(
    inner: Store, threads: int, trips: int, work_with: WorkWith
) -> None:
    log = RecordedLog()
    work = work_with(inner.bind(log), threads)
    work.clock.depth = 4
    fetcher = Fetcher(work)
    for pending in [fetcher.start(name) for name in "abc"]:
        fetcher.take(pending)
    assert work.clock.depth == 4 + trips
    assert {record.trip for record in log.records} == set(range(5, 5 + trips))
    fetcher.take(fetcher.start("a"))
    assert work.clock.depth == 5 + trips


def test_what_was_asked_for_ahead_costs_no_trip_before_it_is_taken(inner: Store, work_with: WorkWith) -> None:
    work = work_with(inner.bind(RequestLog()))
    fetcher = Fetcher(work)
    fetcher.ahead("a")
    fetcher.take(fetcher.start("b"))
    assert work.clock.depth == 1
    fetcher.take(fetcher.start("a"))
    assert work.clock.depth == 1


def test_what_waits_for_its_turn_is_given_up(inner: Store, work_with: WorkWith) -> None:
    hold, begun = threading.Event(), threading.Event()

    def wait(_: Attempt) -> None:
        begun.set()
        assert hold.wait(PATIENCE)

    store = RecordingStore(inner, wait)
    work = work_with(store, 1)
    fetcher = Fetcher(work)
    for name in "abc":
        fetcher.ahead(name)
    assert begun.wait(PATIENCE)
    fetcher.drop_ahead()
    hold.set()
    work.pool.close(wait_for_calls=True)
    assert store.paths("get") == ["a"]
