"""The proxy that fault points are enumerated with: it records, passes on and cuts off."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from tests.spark.recording_proxy import Mutation, RecordingProxy

from delta_sidecar.errors import ObjectNotFoundError, StorageError
from delta_sidecar.store import Store, open_store

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.azurite import Azurite

pytestmark = pytest.mark.azurite


@pytest.fixture
def proxy(azurite: Azurite) -> Iterator[RecordingProxy]:
    with RecordingProxy(azurite.endpoint) as running:
        yield running


@pytest.fixture
def container(azurite: Azurite) -> str:
    return azurite.create_container()


@pytest.fixture
def store(azurite: Azurite, proxy: RecordingProxy, container: str) -> Store:
    options = azurite.options | {"endpoint": proxy.endpoint, "retry_max_retries": "0"}
    return open_store(f"abfss://{container}@{azurite.account}.dfs.core.windows.net/a table", options)


def test_what_changes_the_store_is_recorded_in_order(store: Store, proxy: RecordingProxy, container: str) -> None:
    with proxy.recording() as mutations:
        store.put("p=ä/one", b"1" * 100_000)
        assert bytes(store.get("p=ä/one").data) == b"1" * 100_000
        assert store.head("p=ä/one").size == 100_000
        assert [meta.path for page in store.list("") for meta in page] == ["p=ä/one"]
        store.delete("p=ä/one")
    path = f"{container}/a table/p=ä/one"
    # Our store deletes by batches, which name their blobs inside.
    assert mutations == [Mutation("put", path), Mutation("batch", container)]


def test_from_the_cut_on_nothing_changes_until_healed(store: Store, proxy: RecordingProxy, container: str) -> None:
    with proxy.recording(cut_at=2) as mutations:
        store.put("one", b"1")
        with pytest.raises(StorageError):
            store.put("two", b"2")
        with pytest.raises(StorageError):
            store.delete("one")
        assert bytes(store.get("one").data) == b"1"
        with pytest.raises(ObjectNotFoundError):
            store.get("two")
    assert [(each.name, each.reached) for each in mutations] == [("one", True), ("two", False), (container, False)]
    store.put("two", b"2")
    assert bytes(store.get("two").data) == b"2"


def test_an_answer_may_be_lost(store: Store, proxy: RecordingProxy) -> None:
    with proxy.recording(cut_at=1, cut="answer lost") as mutations:
        for name in ("one", "two"):
            with pytest.raises(StorageError):
                store.put(name, b"1")
    assert [each.reached for each in mutations] == [True, False]
    assert bytes(store.get("one").data) == b"1"
    with pytest.raises(ObjectNotFoundError):
        store.get("two")
