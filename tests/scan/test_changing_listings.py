"""Listings that change between two looks at a log, and what is asked for beside them."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any, Literal

import pytest
from tests.builder import TableBuilder, add

from delta_sidecar import LazyDeltaScanner, LazyScanConfig, PageTokenExpiredError
from delta_sidecar.store import RequestLog, Store, open_store
from delta_sidecar.store.testing import RecordingStore

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from delta_sidecar.store.testing import Attempt

PATIENCE = 60


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


def torn_and_newer(root: Path, *, clean: bool) -> TableBuilder:
    """A table whose last checkpoint, by the hint, is torn; a newer one is listed late."""
    table = TableBuilder(root, schema={"_event_hour": "string", "id": "long"}, partition_columns=["_event_hour"])
    for number in range(4):
        table.commit([in_hour(number)])
    torn = table.checkpoint("v1")[0]
    table.checksum()
    hint = (table.log / "_last_checkpoint").read_text()
    for number in range(4, 7):
        table.commit([in_hour(number)])
    table.checkpoint("v1", row_group_rows=2)
    table.last_checkpoint(hint)
    table.commit([in_hour(7)])
    table.tear(torn, 10)
    if clean:
        for version in range(4):
            table.delete_commit(version)
    return table


def in_hour(number: int) -> dict[str, Any]:
    return add(f"{number}.parquet", partition_values={"_event_hour": f"20260210{23 - number:02}"})


def late(table: TableBuilder) -> LateStore:
    return LateStore(open_store(table.root), f"{6:020}.checkpoint")


@pytest.mark.parametrize("strategy", ["reverse", "forward"])
@pytest.mark.parametrize("clean", [False, True])
def test_a_newer_checkpoint_that_shows_up_while_a_torn_one_is_given_up(
    tmp_path: Path, strategy: str, *, clean: bool
) -> None:
    store = late(torn_and_newer(tmp_path, clean=clean))
    scanner = LazyDeltaScanner(tmp_path, LazyScanConfig(strategy=strategy), store=store)
    assert sorted(file.path for file in scanner.scan_files()) == [f"{number}.parquet" for number in range(8)]
    assert scanner.metrics.is_complete
    assert store.listings == 2


@pytest.mark.parametrize(("strategy", "order"), [("reverse", "any"), ("reverse", "recent"), ("forward", "any")])
@pytest.mark.parametrize("clean", [False, True])
def test_pages_over_a_newer_checkpoint_that_showed_up(
    tmp_path: Path, strategy: str, order: Literal["any", "recent"], *, clean: bool
) -> None:
    table = torn_and_newer(tmp_path, clean=clean)
    for limit in range(1, 8):
        config = LazyScanConfig(strategy=strategy, order=order, limit=limit)
        scanner = LazyDeltaScanner(tmp_path, config, store=late(table))
        found = [file.path for file in scanner.scan_files()]
        again = LazyDeltaScanner(tmp_path, LazyScanConfig(page_token=scanner.page_token))
        found += [file.path for file in again.scan_files()]
        assert sorted(found) == [f"{number}.parquet" for number in range(8)], limit


def test_pages_end_where_commits_are_gone_that_were_gone_through(tmp_path: Path) -> None:
    table = torn_and_newer(tmp_path, clean=True)
    scanner = LazyDeltaScanner(tmp_path, LazyScanConfig(strategy="reverse", order="any", limit=6), store=late(table))
    assert len(list(scanner.scan_files())) == 6
    table.delete_commit(5)
    again = LazyDeltaScanner(tmp_path, LazyScanConfig(page_token=scanner.page_token))
    with pytest.raises(PageTokenExpiredError, match="is gone or was replaced"):
        list(again.scan_files())


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
