"""Builds on Spark that fail, are repeated or meet: the answer stays right, and the next build repairs."""

from __future__ import annotations

import base64
import logging
import os
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from tests.spark.both_builds import Table
from tests.spark.faulty_stores import FaultyStore, SecretStore
from tests.spark.test_building import hours

from delta_sidecar.build.publish import Levels
from delta_sidecar.errors import StorageError
from delta_sidecar.log.names import SIDECAR_FOLDER, SidecarFileKind, manifest_name, parse_sidecar_name
from delta_sidecar.maintain import vacuum_sidecars
from delta_sidecar.spark import build as driver
from delta_sidecar.spark.build import build_sidecar, joined_records

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from tests.spark.conftest import Lake

    from delta_sidecar.sidecar.manifest import Manifest
    from delta_sidecar.spark.build import PartRecord

PARTS = {"rows_per_part": 10, "rows_per_group": 4, "levels": Levels(2, 2, 1)}
FILES = 20


@pytest.fixture
def table(local_lake: Lake) -> Table:
    """A table of two parts."""
    found = Table(local_lake.new_url("faults"), {})
    hours(Path(found.url), FILES - 3)
    return found


def faulty(table: Table, notes: Path, **options: Any) -> FaultyStore:  # noqa: ANN401 - any field
    notes.mkdir()
    return FaultyStore(table.store, str(notes), **options)


def is_whole(table: Table, version: int) -> None:
    """Asserts that the sidecar has all files, and that vacuum leaves it and nothing else."""
    named = table.read(version).manifest
    assert named.num_files == FILES
    wanted = {each.name for each in named.files}
    vacuum_sidecars(table.url, keep=1, retention=timedelta())
    assert set(table.sidecar_files()) == {*wanted, manifest_name(version)}
    assert table.scanned(sidecar=True).equals(table.scanned(sidecar=False))


@pytest.mark.full
def test_cut_at_every_put(spark: SparkSession, table: Table, tmp_path: Path) -> None:
    truth = table.scanned(sidecar=False)
    whole = faulty(table, tmp_path / "all")
    version = build_sidecar(spark, table.url, store=whole, **PARTS).version
    kinds = [parse_sidecar_name(path.removeprefix(SIDECAR_FOLDER)) for path in whole.puts]
    # Parts are put by the processes that made them, the rest by this one.
    assert [process == os.getpid() for process in whole.processes] == [False, False, True, True]
    assert [each and each.kind for each in kinds] == [
        *(SidecarFileKind.PART, SidecarFileKind.PART, SidecarFileKind.SEGMENTS, SidecarFileKind.MANIFEST)
    ]
    table.clear()
    for cut in range(len(whole.puts)):
        # Nothing reaches the store any more from this put on.
        store = faulty(table, tmp_path / f"cut{cut}", failing=range(cut, 100))
        with pytest.raises(StorageError, match="cut off"):
            build_sidecar(spark, table.url, store=store, **PARTS)
        assert manifest_name(version) not in table.sidecar_files()
        assert table.scanned(sidecar=True, tier=3).equals(truth)
    assert len(table.sidecar_files()) > 3
    assert not build_sidecar(spark, table.url, **PARTS).already_there
    is_whole(table, version)


def test_an_answer_that_is_lost(spark: SparkSession, table: Table, tmp_path: Path) -> None:
    store = faulty(table, tmp_path / "lost", failing=range(3, 100), sent=True)
    with pytest.raises(StorageError):
        build_sidecar(spark, table.url, store=store, **PARTS)
    # The manifest arrived: nothing is left to do.
    found = build_sidecar(spark, table.url, **PARTS)
    assert found.already_there
    is_whole(table, found.version)


@pytest.mark.full
@pytest.mark.parametrize("sent", [False, True], ids=["not sent", "sent"])
def test_a_task_that_is_tried_again(spark: SparkSession, table: Table, tmp_path: Path, *, sent: bool) -> None:
    store = faulty(table, tmp_path / "again", failing=range(1), sent=sent)
    found = build_sidecar(spark, table.url, store=store, **PARTS)
    parts = [name for name in table.sidecar_files() if name.endswith(".parquet")]
    assert len(parts) == (3 if sent else 2)
    assert len(store.puts) == 5
    is_whole(table, found.version)


def test_two_builds_at_once(spark: SparkSession, table: Table) -> None:
    with ThreadPoolExecutor(2) as pool:
        runs = [pool.submit(build_sidecar, spark, table.url, **PARTS) for _ in range(2)]
        found = [run.result() for run in runs]
    assert {summary.files for summary in found} == {FILES}
    assert build_sidecar(spark, table.url, **PARTS).already_there
    is_whole(table, found[0].version)


@pytest.mark.full
def test_a_damaged_sidecar_is_built_again(spark: SparkSession, table: Table) -> None:
    found = build_sidecar(spark, table.url, **PARTS)
    damaged = Path(table.url) / SIDECAR_FOLDER / found.file
    whole = damaged.read_bytes()
    damaged.write_bytes(whole[:100] + bytes([whole[100] ^ 1]) + whole[101:])
    again = build_sidecar(spark, table.url, **PARTS)
    assert not again.already_there
    assert again.file != found.file
    (Path(table.url) / SIDECAR_FOLDER / again.file).unlink()
    assert not build_sidecar(spark, table.url, **PARTS).already_there
    is_whole(table, found.version)


def test_the_driver_gets_one_record_a_part(spark: SparkSession, table: Table, monkeypatch: pytest.MonkeyPatch) -> None:
    collected: list[int] = []

    def counted(records: list[PartRecord], facts: Manifest) -> Manifest:
        collected.append(len(records))
        return joined_records(records, facts)

    monkeypatch.setattr(driver, "joined_records", counted)
    build_sidecar(spark, table.url, **PARTS)
    assert collected == [2]


@pytest.mark.full
def test_another_size_of_row_groups_is_another_sidecar(spark: SparkSession, table: Table) -> None:
    build_sidecar(spark, table.url, **PARTS)
    again = build_sidecar(spark, table.url, **{**PARTS, "rows_per_group": 5})
    assert not again.already_there
    assert build_sidecar(spark, table.url, **{**PARTS, "rows_per_group": 5}).already_there


def test_credentials_are_in_no_log(spark: SparkSession, table: Table, caplog: pytest.LogCaptureFixture) -> None:
    store = SecretStore(table.store, "hunter2-hunter2")
    with caplog.at_level(logging.DEBUG):
        for _ in range(2):
            build_sidecar(spark, table.url, store=store, **PARTS)
    assert "py4j" in {record.name.partition(".")[0] for record in caplog.records}
    for secret in (b"xhunter2-hunter2", b"hunter2-hunter2", b"yyhunter2-hunter2"):
        # As it is, and in base64 at any of three places.
        assert base64.b64encode(secret).decode()[4:-4] not in caplog.text
    assert "hunter2" not in caplog.text
