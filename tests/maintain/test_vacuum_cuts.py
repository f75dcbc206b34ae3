"""Clean-ups that are cut off: the table's answer stays, no manifest names what is gone, the next run goes on."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from tests.scan.reading import agrees_with_model

from delta_sidecar import StorageError
from delta_sidecar.maintain.vacuum import vacuum_sidecars
from delta_sidecar.store import open_store
from delta_sidecar.store.testing import Attempt, Fail, FaultStore, RecordingStore

if TYPE_CHECKING:
    from pathlib import Path

    from tests.maintain.vacuum_tables import SidecarTable


def crowded(made: SidecarTable) -> SidecarTable:
    """Puts something of each kind beside the metadata sidecars."""
    made.into_parts(3, "b1")
    made.put_data("v3.parquet")
    made.put_data("v3.b2.00000-0.parquet")
    made.put("v3.b2.segments.json", b"[]")
    made.put("v9.parquet.tmp-ab")
    made.put("notes.txt")
    made.v2_checkpoint("v2-parquet", "v8.parquet")
    return made


def whole_manifests(made: SidecarTable) -> None:
    """Asserts that every file is there that a manifest names."""
    names = made.names()
    for name in names:
        if name.endswith(".manifest.json"):
            files = made.manifest(int(name[1:].partition(".")[0])).files
            assert {file.name for file in files} <= names, name


@pytest.fixture(scope="module")
def crowd(template: SidecarTable, tmp_path_factory: pytest.TempPathFactory) -> SidecarTable:
    return crowded(template.copy(tmp_path_factory.mktemp("cuts") / "table"))


@pytest.mark.parametrize("number", range(1, 11))
def test_a_cut_at_any_delete(crowd: SidecarTable, tmp_path: Path, number: int) -> None:
    whole = crowd.copy(tmp_path / "whole")
    planned = vacuum_sidecars(whole.root, keep=1).deleted
    assert len(planned) == 10, "each of them is a place to be cut at"
    made = crowd.copy(tmp_path / "cut")
    before = made.names()
    broken = FaultStore(open_store(made.root), Fail(kind="delete", first=number))
    with pytest.raises(StorageError):
        vacuum_sidecars(made.root, keep=1, store=broken)
    left = before - made.names()
    assert len(left) == number - 1
    whole_manifests(made)
    agrees_with_model(made.table)
    summary = vacuum_sidecars(made.root, keep=1)
    assert len(summary.deleted) == 11 - number
    assert made.names() == whole.names()
    agrees_with_model(made.table)


def test_the_answer_is_the_same_before_every_delete(crowd: SidecarTable, tmp_path: Path) -> None:
    made = crowd.copy(tmp_path / "table")
    looked = []

    def look(attempt: Attempt) -> None:
        if attempt.kind == "delete":
            whole_manifests(made)
            agrees_with_model(made.table)
            looked.append(attempt.path)

    vacuum_sidecars(made.root, keep=1, store=RecordingStore(open_store(made.root), look))
    assert len(looked) == 10


def test_manifests_go_first(crowd: SidecarTable, tmp_path: Path) -> None:
    made = crowd.copy(tmp_path / "table")
    store = RecordingStore(open_store(made.root))
    vacuum_sidecars(made.root, keep=1, store=store)
    is_manifest = [path.endswith(".manifest.json") for path in store.paths("delete")]
    assert is_manifest == sorted(is_manifest, reverse=True)
    assert sum(is_manifest) == 3


def test_a_delete_that_is_done_twice_is_no_error(crowd: SidecarTable, tmp_path: Path) -> None:
    made = crowd.copy(tmp_path / "table")

    def also(attempt: Attempt) -> None:
        if attempt.kind == "delete":
            (made.root / attempt.path).unlink()

    store = RecordingStore(open_store(made.root), also)
    assert len(vacuum_sidecars(made.root, keep=1, store=store).deleted) == 10


def test_a_reader_at_work_gets_its_answer(crowd: SidecarTable, tmp_path: Path) -> None:
    made = crowd.copy(tmp_path / "table")
    done = []

    def clean(attempt: Attempt) -> None:
        if attempt.path.startswith("_delta_log/_sidecars/") and not done:
            done.append(True)
            vacuum_sidecars(made.root, keep=1)

    agrees_with_model(made.table, RecordingStore(open_store(made.root), clean))
    assert done
