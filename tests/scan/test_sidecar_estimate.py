"""estimate() on a metadata sidecar: its manifest bounds the files, and nothing of a checkpoint is read."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest
from tests.builder import TableBuilder, add, deletion_vector, remove
from tests.scan.reading import key_of, scan, scanner, store_of
from tests.scan.sidecar_layouts import LAYOUTS, SIDECAR, laid_out
from tests.scan.sidecar_tables import BASE, NEWEST, VECTORS, hourly, manifest_of, manifest_path, with_sidecar
from tests.scan.test_estimate import holds, more_requests

from delta_sidecar import DeltaTable
from delta_sidecar.build import build_sidecar
from delta_sidecar.build.publish import Levels
from delta_sidecar.health import inspect_table
from delta_sidecar.replay.estimate import Range
from delta_sidecar.sidecar.manifest import Totals
from delta_sidecar.store.testing import RecordingStore
from delta_sidecar.synth import TelemetryLog

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
    files = scan(table)
    assert found.files == Range.exactly(len(files))
    assert found.bytes == Range.exactly(sum(file.size for file in files))
    assert found.rows == Range(), "not every file tells"
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


@pytest.mark.parametrize("levels", [None, Levels(3, 2, 2)], ids=["one level", "two levels"])
def test_a_predicate_leaves_out_row_groups(tmp_path: Path, levels: Levels | None) -> None:
    table = with_sidecar(hourly(tmp_path), NEWEST, levels=levels)
    manifest = manifest_of(table, NEWEST)
    predicate = "_event_hour >= '2026021012'"
    found = holds_for(table, predicate=predicate)
    assert found.files.upper is not None
    assert len(scan(table, predicate=predicate)) <= found.files.upper < manifest.num_files
    assert found.files.lower == 0
    assert holds_for(table, predicate="_event_hour = '1999'").files == Range(0, 0)


@pytest.mark.full
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


def test_where_every_file_tells_its_rows_the_manifest_tells_all(tmp_path: Path) -> None:
    table = TableBuilder(tmp_path, protocol=VECTORS)
    table.commit([add(f"{number}.parquet", rows=[{"id": number}] * number, size=number) for number in range(1, 5)])
    table.commit(
        [add("5.parquet", rows=[{"id": 5}] * 3, deleted=[0, 2], dv=deletion_vector("v", cardinality=2), size=7)]
    )
    found = holds_for(with_sidecar(table, 1))
    assert (found.files, found.rows, found.bytes) == (Range.exactly(5), Range.exactly(11), Range.exactly(17))
    assert manifest_of(table, 1).totals == Totals(bytes=17, largest=7, rows=11, most_rows=4)
    table.commit([remove("4.parquet")])
    found = holds_for(table)
    assert (found.files, found.rows, found.bytes) == (Range(4, 5), Range(7, 11), Range(10, 17))


@pytest.mark.parametrize("size", [None, -1, 2**62])
def test_what_cannot_be_added_up_is_not_told(tmp_path: Path, size: int | None) -> None:
    table = TableBuilder(tmp_path)
    table.commit([add(f"{number}.parquet", rows=[{"id": number}]) for number in range(3)])
    for line in table.commits[0]:
        if "add" in line:
            line["add"]["size"] = size
    table.commit_path(0).write_text("".join(json.dumps(line) + "\n" for line in table.commits[0]), encoding="utf-8")
    totals = manifest_of(with_sidecar(table, 0), 0).totals
    assert totals is not None
    assert (totals.bytes, totals.rows) == (None, 3)


def test_an_inspection_knows_size_and_rows_after_a_build(tmp_path: Path) -> None:
    """A checksum file tells the size before, and no source the rows."""
    TelemetryLog(files=300, files_per_hour=20, tail_commits=3, adds_per_commit=5, checksum=True).write(tmp_path)
    before = inspect_table(tmp_path).estimate
    build_sidecar(tmp_path)
    after = inspect_table(tmp_path).estimate
    assert before is not None
    assert after is not None
    assert after.files.is_exact
    assert after.rows.is_exact
    assert after.bytes.is_exact
    assert after.rows.lower == DeltaTable(tmp_path).count()
    assert before.bytes == after.bytes
