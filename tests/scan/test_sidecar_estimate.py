"""estimate() on a metadata sidecar: its manifest bounds the files, and nothing of a checkpoint is read."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from tests.builder import TableBuilder
from tests.scan.reading import key_of, scan, scanner, store_of
from tests.scan.sidecar_layouts import LAYOUTS, SIDECAR, laid_out
from tests.scan.sidecar_tables import BASE, NEWEST, hourly, manifest_of, manifest_path, with_sidecar
from tests.scan.test_estimate import holds, more_requests

from delta_sidecar.build.publishing import Levels
from delta_sidecar.replay.ranges import Range
from delta_sidecar.store.wrappers import RecordingStore

if TYPE_CHECKING:
    from pathlib import Path

    from delta_sidecar.scan.estimate import ScanEstimate


def holds_for(table: TableBuilder, **config: object) -> ScanEstimate:
    """Asserts that the bounds hold, and that they cost no more than they may."""
    store = RecordingStore(store_of(table))
    found = scanner(table, store, **config).estimate()
    files = scan(table, **config, sidecar_enabled=False)
    model = table.model_files(config.get("version"))
    holds(found, files, sum(len(model[key_of(file)].rows) for file in files))
    assert not [attempt for attempt in store.attempts if attempt.path.endswith(".parquet")]
    assert more_requests(table, **config) <= 2
    return found


def test_without_a_tail_the_manifest_tells_the_files(tmp_path: Path) -> None:
    table = with_sidecar(hourly(tmp_path), NEWEST)
    found = holds_for(table)
    assert found.files == Range.exactly(len(scan(table)))
    assert (found.rows, found.bytes) == (Range(), Range())
    assert found.sources == (f"metadata sidecar {manifest_path(table, NEWEST).name}",)
    assert more_requests(table) == 0


def test_commits_after_it_may_add_and_hide_files(tmp_path: Path) -> None:
    table = with_sidecar(hourly(tmp_path), BASE)
    found = holds_for(table)
    assert found.files.upper is not None
    assert found.files.lower < len(scan(table)) <= found.files.upper
    assert found.sources == ("metadata sidecar v3.manifest.json", "3 commits after it")


def test_a_checksum_file_tells_the_bytes(tmp_path: Path) -> None:
    table = with_sidecar(hourly(tmp_path), BASE)
    table.checksum()
    found = holds_for(table)
    files = scan(table)
    assert (found.files, found.bytes) == (Range.exactly(len(files)), Range.exactly(sum(file.size for file in files)))


@pytest.mark.parametrize("levels", [None, Levels(3, 2)], ids=["one level", "two levels"])
def test_a_predicate_leaves_out_row_groups(tmp_path: Path, levels: Levels | None) -> None:
    table = with_sidecar(hourly(tmp_path), NEWEST, levels=levels)
    manifest = manifest_of(table, NEWEST)
    predicate = "_event_hour >= '2026021012'"
    found = holds_for(table, predicate=predicate)
    assert found.files.upper is not None
    assert len(scan(table, predicate=predicate)) <= found.files.upper < manifest.num_files
    assert found.files.lower == 0
    assert holds_for(table, predicate="_event_hour = '1999'").files == Range(0, 0)


@pytest.mark.parametrize("name", LAYOUTS)
def test_the_bounds_hold_whatever_it_is_sorted_by(tmp_path: Path, name: str) -> None:
    layout = LAYOUTS[name]
    table = laid_out(tmp_path, layout)
    for version in (SIDECAR, table.version):
        for predicate in (None, "id < 12", "id = 77", *layout.predicates):
            for limit in (None, 3):
                holds_for(table, version=version, predicate=predicate, limit=limit)


def test_an_empty_one(tmp_path: Path) -> None:
    table = TableBuilder(tmp_path)
    table.commit([])
    with_sidecar(table, 0)
    assert (manifest_path(table, 0).exists(), holds_for(table).files) == (True, Range(0, 0))


def test_one_without_a_manifest_tells_as_much(tmp_path: Path) -> None:
    table = with_sidecar(hourly(tmp_path), NEWEST)
    manifest_path(table, NEWEST).unlink()
    found = scanner(table).estimate()
    assert found.files == Range.exactly(len(scan(table)))
    assert found.sources == (f"metadata sidecar v{NEWEST}.parquet",)
    assert more_requests(table) == 0


@pytest.mark.parametrize("place", ["call", "table"])
def test_where_it_is_disabled_the_checkpoint_tells(tmp_path: Path, place: str) -> None:
    properties = {"deltaSidecar.enabled": "false"} if place == "table" else {}
    table = with_sidecar(hourly(tmp_path, **properties), BASE)
    config = {"sidecar_enabled": False} if place == "call" else {}
    found = scanner(table, version=BASE, **config).estimate()
    assert found.files == Range.exactly(len(scan(table, version=BASE)))
    assert found.sources == (f"the footers of {BASE:020}.checkpoint.parquet",)
