"""Metadata sidecars on stores that fail, and beside everything else that a scan can be asked for."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest
from tests.builder import TableBuilder, add, metadata, remove, txn
from tests.scan.damage import NOT_FOUND
from tests.scan.reading import STRATEGIES, keys_of, scan, scanner, store_of
from tests.scan.sidecar_layouts import LAYOUTS, SIDECAR, laid_out
from tests.scan.sidecar_tables import (
    BASE,
    heard,
    hour_file,
    hourly,
    is_same,
    manifest_of,
    manifest_path,
    sidecar_path,
    spoil_piece,
    with_sidecar,
    without_sidecars,
)

from delta_sidecar import LazyDeltaScanner, LazyScanConfig, LogCorruptionError, PageTokenExpiredError, StorageError
from delta_sidecar.events import BaseChosen, Event, ScanEnded
from delta_sidecar.store.testing import EmptyAfterOffset, Fail, FaultStore, Hide, IgnoreOffset, Truncate

if TYPE_CHECKING:
    from pathlib import Path

DATA, MANIFEST = f"*/v{BASE}.parquet", f"*/v{BASE}.manifest.json"


@pytest.fixture
def table(tmp_path: Path) -> TableBuilder:
    return with_sidecar(hourly(tmp_path / "table"), BASE)


@pytest.fixture(params=STRATEGIES)
def strategy(request: pytest.FixtureRequest) -> str:
    return str(request.param)


# --- faults of the store -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("first", [1, 2])
def test_a_file_that_vanishes_before_its_first_row_group(table: TableBuilder, strategy: str, first: int) -> None:
    """Delta's own clean-up may take it away at any moment."""
    store = FaultStore(store_of(table), Fail(DATA, "get", NOT_FOUND, first=first))
    one = heard(table, store, strategy=strategy, sidecar_row_groups_per_batch=1)
    is_same(one.files, without_sidecars(table))
    assert one.told[0] == 3
    assert one.told[1] is not None


@pytest.mark.parametrize("first", [3, 5])
def test_a_file_that_vanishes_while_it_is_read(table: TableBuilder, strategy: str, first: int) -> None:
    """Its keys cannot be read again: the scan fails, and another one takes another base."""
    store = FaultStore(store_of(table), Fail(DATA, "get", NOT_FOUND, first=first))
    with pytest.raises(LogCorruptionError, match="removed while it was read: scan again"):
        heard(table, store, strategy=strategy, sidecar_row_groups_per_batch=1)
    is_same(heard(table, store, strategy=strategy).files, without_sidecars(table))


def test_a_manifest_that_vanishes_after_the_listing(table: TableBuilder, strategy: str) -> None:
    one = heard(table, FaultStore(store_of(table), Fail(MANIFEST, "get", NOT_FOUND)), strategy=strategy)
    is_same(one.files, without_sidecars(table))
    assert one.told == (2, "gone")


@pytest.mark.parametrize("path", [DATA, MANIFEST])
def test_a_store_that_is_out_of_reach_fails_the_scan(table: TableBuilder, strategy: str, path: str) -> None:
    """It is no reason to distrust a sidecar, and a checkpoint would be out of reach as well."""
    with pytest.raises(StorageError):
        heard(table, FaultStore(store_of(table), Fail(path, "get")), strategy=strategy)


def test_a_file_that_is_shorter_than_the_listing_says(table: TableBuilder, strategy: str) -> None:
    size = sidecar_path(table, BASE).stat().st_size
    one = heard(table, FaultStore(store_of(table), Truncate(DATA, size // 2)), strategy=strategy)
    is_same(one.files, without_sidecars(table))
    assert one.told == (3, "wrong_size")


@pytest.mark.parametrize("hidden", [DATA, MANIFEST, "*/_sidecars/*"])
def test_a_stale_listing(table: TableBuilder, strategy: str, hidden: str) -> None:
    one = heard(table, FaultStore(store_of(table), Hide(hidden)), strategy=strategy)
    is_same(one.files, without_sidecars(table))
    assert one.told == {DATA: (3, "missing_file"), MANIFEST: (2, "no_manifest")}.get(hidden, (3, "none"))


@pytest.mark.parametrize("rule", [IgnoreOffset(), EmptyAfterOffset()], ids=["shows all", "shows nothing"])
def test_listings_that_do_not_know_offsets(table: TableBuilder, strategy: str, rule: Any) -> None:  # noqa: ANN401
    one = heard(table, FaultStore(store_of(table), rule), strategy=strategy)
    is_same(one.files, without_sidecars(table))
    assert one.told == (1, None)


def test_commits_of_the_tail_are_never_done_without(table: TableBuilder, strategy: str) -> None:
    with pytest.raises(StorageError):
        heard(table, FaultStore(store_of(table), Fail("*05.json", "get")), strategy=strategy)


# --- other things that a scan can be asked for -------------------------------------------------------------------


@pytest.mark.parametrize("limit", [1, 5, 9, 16])
def test_a_limit_over_a_break(tmp_path: Path, limit: int) -> None:
    table = laid_out(tmp_path, LAYOUTS["bucket"])
    whole = scan(table, order="recent")
    for group in list(manifest_of(table, SIDECAR).row_groups)[1::4]:
        content = sidecar_path(table, SIDECAR).read_bytes()
        spoil_piece(table, SIDECAR, group, "index")
        for order in ("recent", "any"):
            found = keys_of(scan(table, limit=limit, order=order))
            assert len(set(found)) == len(found) == min(limit, len(whole))
            assert set(found) <= set(keys_of(whole))
        sidecar_path(table, SIDECAR).write_bytes(content)


@pytest.mark.parametrize("layout", ["bucket", "time"])
def test_keys_of_the_tail_on_disk_while_a_row_group_breaks(tmp_path: Path, layout: str, strategy: str) -> None:
    table = laid_out(tmp_path, LAYOUTS[layout])
    expected = keys_of(without_sidecars(table))
    config: dict[str, Any] = {"strategy": strategy, "remove_set_memory_limit": 0}
    assert keys_of(scan(table, **config)) == expected
    groups = list(manifest_of(table, SIDECAR).row_groups)
    spoil_piece(table, SIDECAR, groups[len(groups) // 2], "index")
    one = heard(table, **config)
    assert keys_of(one.files) == expected
    assert one.end.remove_set_tier != "keys"


def test_a_table_with_other_partition_columns_while_a_row_group_breaks(tmp_path: Path, strategy: str) -> None:
    """CREATE OR REPLACE: what the sidecar is sorted by is no column of the table any more."""
    for name in ("bucket", "other partitions"):
        table = laid_out(tmp_path / name, LAYOUTS[name])
        removes = [remove(path, dv=file.get("deletionVector")) for (path, _), file in table.model_files().items()]
        table.commit([metadata({"k": "long"}), *removes, add("new.parquet", rows=[{"k": 1}])])
        spoil_piece(table, SIDECAR, manifest_of(table, SIDECAR).row_groups[3], "index")
        for config in ({"strategy": strategy}, {"order": "recent"}):
            assert [file.path for file in scan(table, **config)] == ["new.parquet"]


def test_strict_mode_trips_in_the_tail_only(table: TableBuilder, strategy: str) -> None:
    config: dict[str, Any] = {"strategy": strategy, "strict": True}
    is_same(heard(table, **config).files, without_sidecars(table))
    table.commit([txn("app", 1), hour_file(40)])
    one = heard(table, **config)
    is_same(one.files, without_sidecars(table))
    assert one.told == (1, None)


def test_a_time_to_read_at(table: TableBuilder) -> None:
    stamps = [table.commit_path(version).stat().st_mtime for version in range(7)]
    assert stamps == sorted(stamps)
    one = heard(table, timestamp="2999-01-01T00:00:00Z")
    is_same(one.files, without_sidecars(table))
    assert one.told == (1, None)


def test_asyncio(table: TableBuilder) -> None:
    events: list[Event] = []

    async def files() -> list[Any]:
        reader = LazyDeltaScanner(table.root, LazyScanConfig(), listeners=[events.append])
        return [file async for file in reader.scan_files_async()]

    is_same(asyncio.run(files()), without_sidecars(table))
    assert [event.tier for event in events if isinstance(event, BaseChosen)] == [1]


def test_who_stops_early_leaves_nothing_behind(table: TableBuilder, strategy: str) -> None:
    events: list[Event] = []
    reader = LazyDeltaScanner(table.root, LazyScanConfig(strategy=strategy), listeners=[events.append])
    files = reader.scan_files()
    next(files)
    files.close()
    (end,) = (event for event in events if isinstance(event, ScanEnded))
    assert (end.outcome, end.error) == ("stopped", None)


def test_one_that_was_built_again_serves_page_tokens_or_expires_them(table: TableBuilder, strategy: str) -> None:
    reader = scanner(table, strategy=strategy, limit=9, order="any")
    first = list(reader.scan_files())
    for path in (manifest_path(table, BASE), sidecar_path(table, BASE)):
        path.unlink()
    with_sidecar(table, BASE)
    try:
        rest = list(scanner(table, strategy=strategy, page_token=reader.page_token).scan_files())
    except PageTokenExpiredError:
        return
    is_same(first + rest, without_sidecars(table))
