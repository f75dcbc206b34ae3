from __future__ import annotations

import pickle
import uuid
from typing import TYPE_CHECKING

import pytest

from delta_sidecar.errors import ObjectNotFoundError, StorageError
from delta_sidecar.store import ObjectMeta, RequestLog, Store, open_store
from delta_sidecar.store.testing import (
    Attempt,
    EmptyAfterOffset,
    Fail,
    FaultStore,
    Hide,
    IgnoreOffset,
    LatencyStore,
    RecordingStore,
    Truncate,
)

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture
def store() -> Store:
    store = open_store(f"memory://{uuid.uuid4().hex}")
    for number in range(4):
        store.put(f"l/{number}.json", b"0123456789")
    return store


def paths(store: Store, after: str | None = None) -> list[str]:
    return sorted(meta.path for page in store.list("l/", after=after) for meta in page)


def test_recording_remembers_every_request_over_all_views(store: Store) -> None:
    recording = RecordingStore(store)
    bound = recording.bind(RequestLog())
    bound.get("l/0.json", max_bytes=5)
    bound.get_range("l/0.json", 1, 2)
    bound.get_ranges("l/0.json", [(0, 1), (5, 6)])
    recording.head("l/1.json")
    paths(bound)
    recording.put("x", b"")
    recording.delete("x")
    with pytest.raises(ObjectNotFoundError):
        recording.get("nope")
    assert recording.attempts == [
        Attempt("get", "l/0.json", 0, 5),
        Attempt("get", "l/0.json", 1, 2),
        Attempt("get", "l/0.json", 0, 1),
        Attempt("get", "l/0.json", 5, 6),
        Attempt("head", "l/1.json"),
        Attempt("list", "l/"),
        Attempt("put", "x"),
        Attempt("delete", "x"),
        Attempt("get", "nope", 0, None),
    ]
    assert recording.paths("head") == ["l/1.json"]


def test_the_hook_comes_before_the_request(store: Store) -> None:
    log = RequestLog()
    seen: list[int] = []
    recording = RecordingStore(store, hook=lambda _: seen.append(log.snapshot().requests)).bind(log)
    recording.get("l/0.json")
    recording.head("l/0.json")
    assert seen == [0, 1]
    assert log.snapshot().requests == 2


def test_latency_waits_once_for_ranges_read_together(store: Store) -> None:
    waits: list[float] = []
    slow = LatencyStore(store, 0.02, sleep=waits.append)
    slow.get("l/0.json")
    slow.get_ranges("l/0.json", [(0, 1), (5, 6)])
    assert paths(slow) == paths(store)
    assert waits == [0.02] * 3


def test_the_nth_request_fails(store: Store) -> None:
    faulty = FaultStore(store, Fail("l/*.json", kind="get", first=2, times=1))
    log = RequestLog()
    bound = faulty.bind(log)
    assert bytes(bound.get("l/0.json").data) == b"0123456789"
    with pytest.raises(StorageError, match="injected"):
        faulty.bind(RequestLog()).get("l/1.json")
    assert bytes(bound.get("l/1.json").data) == b"0123456789"
    assert log.snapshot().gets == 2


def test_a_path_fails_with_a_given_error(store: Store) -> None:
    faulty = FaultStore(store, Fail("l/2.json", error=ObjectNotFoundError("gone")), Fail("l/", kind="list"))
    for ask in (faulty.get, faulty.head, faulty.delete):
        with pytest.raises(ObjectNotFoundError, match="gone"):
            ask("l/2.json")
    with pytest.raises(StorageError, match="injected"):
        paths(faulty)
    assert faulty.head("l/1.json").size == 10


def test_a_truncated_object_is_short_for_everyone(store: Store) -> None:
    faulty = FaultStore(store, Truncate("l/1.json", keep=4))
    got = faulty.get("l/1.json")
    assert (bytes(got.data), got.size) == (b"0123", 4)
    assert faulty.head("l/1.json").size == 4
    assert {meta.path: meta.size for page in faulty.list("l/") for meta in page}["l/1.json"] == 4
    assert bytes(faulty.get_range("l/1.json", 1, 4)) == b"123"
    with pytest.raises(StorageError, match="ends at 4"):
        faulty.get_range("l/1.json", 3, 5)
    with pytest.raises(StorageError, match="ends at 4"):
        faulty.get_ranges("l/1.json", [(0, 1), (3, 5)])
    assert faulty.get("l/0.json").size == 10


def test_a_stale_listing_hides_what_can_be_read(store: Store) -> None:
    faulty = FaultStore(store, Hide("l/[23].json"))
    assert paths(faulty) == ["l/0.json", "l/1.json"]
    assert faulty.get("l/3.json").size == 10


def test_listings_with_a_broken_offset(store: Store) -> None:
    assert len(paths(FaultStore(store, IgnoreOffset()), after="l/2.json")) == 4
    empty = FaultStore(store, EmptyAfterOffset())
    assert paths(empty, after="l/2.json") == []
    assert len(paths(empty)) == 4


class PagedStore(RecordingStore):
    """A store whose listing has three pages."""

    def list(self, prefix: str, *, after: str | None = None) -> Iterator[list[ObjectMeta]]:  # noqa: ARG002
        for number in range(3):
            yield [ObjectMeta(f"{prefix}{number}", 1, 0, None)]


def test_each_page_of_a_listing_is_a_request(store: Store) -> None:
    recording = RecordingStore(PagedStore(store))
    listing = recording.list("l/")
    assert recording.attempts == []
    next(listing)
    assert len(recording.attempts) == 1
    assert len(list(listing)) == 2
    assert len(recording.attempts) == 3


def test_wrappers_compose_and_pickle(store: Store) -> None:
    wrapped = LatencyStore(FaultStore(store, Fail("x")), 0.0)
    copy = pickle.loads(pickle.dumps(wrapped))  # noqa: S301 - its own pickle
    assert copy.url == wrapped.url == store.url
    assert repr(copy) == f"LatencyStore(FaultStore(RemoteStore({store.url!r})))"
    assert bytes(copy.get("l/0.json").data) == b"0123456789"
    with pytest.raises(StorageError, match="injected"):
        copy.get("x")
