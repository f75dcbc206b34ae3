"""Listings that change between two looks at a log, and what is asked for beside them."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

import pytest
from tests.builder import TableBuilder, add

from delta_sidecar import LazyDeltaScanner, LazyScanConfig
from delta_sidecar.store import RequestLog, Store, open_store
from delta_sidecar.store.wrappers import RecordingStore

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from delta_sidecar.store.wrappers.recording import Attempt

PATIENCE = 10


class LateStore:
    """A store whose listings show some files only from the second listing on."""

    def __init__(self, inner: Store, late: str) -> None:
        self.inner = inner
        self.late = late
        self.listings = 0

    def __getattr__(self, name: str) -> object:
        return getattr(self.inner, name)

    def bind(self, log: RequestLog) -> LateStore:
        self.inner = self.inner.bind(log)
        return self

    def list(self, prefix: str, *, after: str | None = None) -> Iterator[Any]:
        self.listings += 1
        hidden = self.late if self.listings == 1 else None
        for page in self.inner.list(prefix, after=after):
            yield [found for found in page if not (hidden and hidden in found.path)]


@pytest.mark.parametrize("strategy", ["reverse", "forward"])
@pytest.mark.parametrize("clean", [False, True])
def test_a_newer_checkpoint_that_shows_up_while_a_torn_one_is_given_up(
    tmp_path: Path, strategy: str, *, clean: bool
) -> None:
    table = TableBuilder(tmp_path)
    for number in range(4):
        table.commit([add(f"{number}.parquet")])
    torn = table.checkpoint("v1")[0]
    table.checksum()
    hint = (table.log / "_last_checkpoint").read_text()
    for number in range(4, 7):
        table.commit([add(f"{number}.parquet")])
    table.checkpoint("v1")
    table.last_checkpoint(hint)
    table.commit([add("7.parquet")])
    table.tear(torn, 10)
    if clean:
        for version in range(4):
            table.delete_commit(version)
    store = LateStore(open_store(tmp_path), f"{6:020}.checkpoint")
    scanner = LazyDeltaScanner(tmp_path, LazyScanConfig(strategy=strategy), store=store)
    assert sorted(file.path for file in scanner.scan_files()) == [f"{number}.parquet" for number in range(8)]
    assert scanner.metrics.is_complete
    assert store.listings == 2


def test_the_listing_does_not_wait_for_what_is_asked_for_on_speculation(tmp_path: Path) -> None:
    table = TableBuilder(tmp_path)
    table.commit([add("a.parquet")])
    table.checkpoint("v1")
    for number in range(12):
        table.commit([add(f"{number}.parquet")])
    listed = threading.Event()

    def hold(request: Attempt) -> None:
        if request.kind == "list":
            listed.set()
        elif not request.path.endswith("_last_checkpoint"):
            assert listed.wait(PATIENCE), "a speculative request went first and kept the listing waiting"

    store = RecordingStore(open_store(tmp_path), hook=hold)
    assert len(list(LazyDeltaScanner(tmp_path, store=store).scan_files())) == 13
