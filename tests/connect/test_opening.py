"""What it takes to open a table by its address: an engine asks no more than a scan does."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

from tests.builder import TableBuilder, add
from tests.own_threads import PATIENCE

from delta_sidecar.connect import tables
from delta_sidecar.store import open_store
from delta_sidecar.store.testing import RecordingStore
from delta_sidecar.table import DeltaTable
from delta_sidecar.table import pinned as handle

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    import pytest

    from delta_sidecar.store.testing import Attempt


def leading_to_all_addresses(
    root: Path, monkeypatch: pytest.MonkeyPatch, hook: Callable[[Attempt], None] | None = None
) -> RecordingStore:
    """The store of a table with a checkpoint and two commits after it."""
    table = TableBuilder(root)
    for number in range(3):
        table.commit([add(f"f{number}.parquet")])
        if not number:
            table.checkpoint()
    store = RecordingStore(open_store(root), hook)
    monkeypatch.setattr(handle, "open_store", lambda *_, **__: store)
    return store


def test_an_address_is_opened_in_two_trips(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    is_asked, together = threading.Event(), []

    def watch(attempt: Attempt) -> None:
        if attempt.path == f"_delta_log/{2:020}.json":
            is_asked.set()
        if attempt.kind == "list":
            together.append(is_asked.wait(PATIENCE))

    store = leading_to_all_addresses(tmp_path, monkeypatch, watch)
    found = tables.open_handle(tmp_path)
    # The newest commit is asked for before the listing is there.
    assert (found.version(), found.snapshot().version, together) == (2, 2, [True])
    assert store.paths("get").count("_delta_log/_last_checkpoint") == 1


def test_a_table_is_opened_by_the_listing_that_pinned_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = leading_to_all_addresses(tmp_path, monkeypatch)
    found = tables.open_handle(DeltaTable(tmp_path))
    assert (found.version(), found.snapshot().version) == (2, 2)
    assert store.paths("list") == ["_delta_log/"]
    assert store.paths("get").count("_delta_log/_last_checkpoint") == 1
