"""Inspections of tables with metadata sidecars: which one is used, why none is, and every finding about them."""

from __future__ import annotations

import json
import os
import shutil
import time
from typing import TYPE_CHECKING

import pytest
from tests.builder import metadata, txn
from tests.health.test_inspection import codes, severity
from tests.scan.reading import scan
from tests.scan.sidecar_tables import (
    BASE,
    NEWEST,
    SCHEMA,
    heard,
    hourly,
    manifest_of,
    manifest_path,
    sidecar_path,
    spoil,
    with_sidecar,
)

from delta_sidecar.build.publish import Levels
from delta_sidecar.health import TableReport, inspect_table
from delta_sidecar.health import findings as sidecar_findings
from delta_sidecar.log import segment as listed_sidecars
from delta_sidecar.replay.estimate import Range
from delta_sidecar.store import open_store
from delta_sidecar.store.testing import RecordingStore

if TYPE_CHECKING:
    from pathlib import Path

    from tests.builder import TableBuilder

    from delta_sidecar.health.report import SidecarReport, SidecarsReport


def inspected(table: TableBuilder, **options: object) -> tuple[SidecarsReport, set[str]]:
    """What is said of metadata sidecars, and the codes of the findings about them."""
    report = inspect_table(table.root, **options)
    json.dumps(report.as_dict())
    assert report.metadata_sidecars is not None
    # Base and reason are what a scan comes to as well.
    told = heard(table, **options).end
    base = report.metadata_sidecars.base
    assert told.sidecar_tier == (3 if base is None else base.tier)
    assert told.sidecar_fallback_reason == report.metadata_sidecars.reason
    return report.metadata_sidecars, {code for code in codes(report) if "sidecar" in code}


def based(table: TableBuilder, **options: object) -> tuple[SidecarReport, set[str]]:
    found, about = inspected(table, **options)
    assert found.base is not None
    return found.base, about


@pytest.fixture
def table(tmp_path: Path) -> TableBuilder:
    return with_sidecar(hourly(tmp_path), BASE)


def test_a_checksum_file_does_not_make_it_needless(table: TableBuilder) -> None:
    without = based(table)
    table.checksum()
    assert based(table) == without
    spoil(manifest_path(table, BASE), 100)
    found, _ = inspected(table)
    # The footer of its one file takes over.
    assert found.base is not None
    assert (found.base.tier, found.reason) == (2, "damaged")
    assert [each.version for each in found.unusable] == [BASE]


def test_the_one_that_scans_end_on(table: TableBuilder) -> None:
    found, about = inspected(table)
    manifest, base = manifest_of(table, BASE), found.base
    assert base is not None
    assert (base.name, base.version, base.tier, base.commits) == (f"v{BASE}.manifest.json", BASE, 1, NEWEST - BASE)
    assert (base.files, base.row_groups) == (manifest.num_files, len(manifest.row_groups))
    assert (base.data_files, base.bytes) == (1, sidecar_path(table, BASE).stat().st_size)
    assert (base.sorted_by, base.time_column, base.statistics) == (("_event_hour",), "at", 3)
    assert (base.missing_columns, base.lacks_bucket) == ((), False)
    assert (found.reason, found.versions, found.unusable) == (None, (BASE,), ())
    assert (found.files, found.bytes) == (2, base.bytes + manifest_path(table, BASE).stat().st_size)
    assert about == set()


def test_it_reads_no_piece_of_it(table: TableBuilder) -> None:
    store = RecordingStore(open_store(table.root))
    inspect_table(table.root, store=store)
    asked = [path.rpartition("/")[2] for path in store.paths("get") if "_sidecars" in path]
    assert asked == [f"v{BASE}.manifest.json"]


def test_checkpoints_are_reported_as_without_it(table: TableBuilder) -> None:
    with_it = inspect_table(table.root)
    shutil.rmtree(table.log / "_sidecars")
    without = inspect_table(table.root)
    assert with_it.base == without.base
    assert with_it.tail == without.tail
    assert with_it.checkpoints == without.checkpoints
    assert with_it.earliest_version == without.earliest_version
    assert (with_it.log.sidecar_files, without.log.sidecar_files) == (2, 0)


def test_rows_and_bytes_are_bounded_by_the_checkpoint(tmp_path: Path) -> None:
    table = hourly(tmp_path)
    table.checkpoint()
    with_sidecar(table, NEWEST)
    report = inspect_table(tmp_path)
    files = scan(table)
    assert report.estimate is not None
    assert report.estimate.files == Range.exactly(len(files))
    assert report.estimate.bytes.upper is not None
    assert report.estimate.bytes.lower <= sum(file.size for file in files) <= report.estimate.bytes.upper


def test_segments_count_as_files_of_it(tmp_path: Path) -> None:
    base, about = based(with_sidecar(hourly(tmp_path), BASE, levels=Levels(3, 2, 2)))
    assert (base.data_files, base.row_groups, about) == (2, 8, set())


def test_a_log_that_has_nothing_else_left(tmp_path: Path) -> None:
    table = with_sidecar(hourly(tmp_path, kind=None), BASE)
    for version in range(BASE):
        table.delete_commit(version)
    report = inspect_table(tmp_path)
    assert (report.refusal, report.base, report.earliest_version) == (None, None, BASE)
    assert "not-readable" not in codes(report)
    assert report.tail.commits == NEWEST - BASE + 1


def test_a_large_table_without_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table = hourly(tmp_path)
    found, about = inspected(table)
    assert (found.base, found.reason, found.files, about) == (None, "none", 0, set())
    monkeypatch.setattr(sidecar_findings, "LARGE_TABLE_FILES", 12)
    report = inspect_table(tmp_path)
    assert severity(report, "no-sidecar") == "warning"
    assert "delta-sidecar build" in advice(report, "no-sidecar")
    assert "no-sidecar" not in codes(inspect_table(with_sidecar(table, BASE).root))


def test_one_without_its_manifest(table: TableBuilder) -> None:
    manifest_path(table, BASE).unlink()
    found, about = inspected(table)
    assert found.base is not None
    assert (found.base.name, found.base.tier, found.reason) == (f"v{BASE}.parquet", 2, "no_manifest")
    assert about == {"sidecar-without-manifest"}


def test_a_damaged_manifest_and_a_good_footer(table: TableBuilder) -> None:
    spoil(manifest_path(table, BASE), 100)
    found, about = inspected(table)
    assert (found.reason, [each.code for each in found.unusable]) == ("damaged", ["damaged"])
    assert found.base is not None
    assert found.base.tier == 2
    assert about == {"sidecar-unusable"}
    assert "torn-checkpoint" not in codes(inspect_table(table.root))


@pytest.mark.parametrize("code", ["missing_file", "wrong_size", "other_commit"])
def test_one_that_cannot_be_trusted(table: TableBuilder, code: str) -> None:
    if code == "missing_file":
        sidecar_path(table, BASE).unlink()
    elif code == "wrong_size":
        with sidecar_path(table, BASE).open("ab") as file:
            file.write(b"more")
    else:
        path = table.commit_path(BASE)
        path.write_text(path.read_text() + "\n")
    found, about = inspected(table)
    assert (found.base, found.reason, about) == (None, code, {"sidecar-unusable"})
    report = inspect_table(table.root)
    # It is tried again by its footer, and there is one finding all the same.
    assert severity(report, "sidecar-unusable") == "warning"
    assert ("vacuum" in advice(report, "sidecar-unusable")) is (code == "other_commit")


def test_an_older_one_goes_on(table: TableBuilder) -> None:
    with_sidecar(table, NEWEST)
    sidecar_path(table, NEWEST).unlink()
    base, about = based(table)
    assert (base.version, about) == (BASE, {"sidecar-unusable"})


def test_one_that_is_too_old(table: TableBuilder, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(listed_sidecars, "MOST_TAIL", NEWEST - BASE - 1)
    found, about = inspected(table)
    assert (found.base, found.reason, found.versions, about) == (None, "too_old", (BASE,), {"sidecar-too-old"})


@pytest.mark.parametrize("place", ["environment", "table"])
def test_one_that_is_disabled(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, place: str) -> None:
    if place == "environment":
        monkeypatch.setenv("DELTA_SIDECAR_ENABLED", "false")
    table = hourly(tmp_path, **({"deltaSidecar.enabled": "false"} if place == "table" else {}))
    assert inspected(table)[1] == set()
    with_sidecar(table, BASE)
    found, about = inspected(table)
    assert (found.base, found.reason, found.versions, about) == (None, "disabled", (BASE,), {"sidecars-disabled"})
    report = inspect_table(tmp_path)
    assert report.estimate is not None
    assert not [source for source in report.estimate.sources if "sidecar" in source]


def test_one_that_is_older_than_the_checkpoint(table: TableBuilder) -> None:
    table.checkpoint()
    assert based(table)[1] == {"sidecar-stale"}
    assert severity(inspect_table(table.root), "sidecar-stale") == "info"


def test_one_with_many_commits_after_it(table: TableBuilder) -> None:
    for number in range(sidecar_findings.MANY_COMMITS - (NEWEST - BASE)):
        table.commit([txn("a", number)])
    assert "sidecar-stale" not in codes(inspect_table(table.root))
    table.commit([txn("a", -1)])
    report = inspect_table(table.root)
    assert severity(report, "sidecar-stale") == "warning"
    assert "long-tail" in codes(report)


def test_columns_that_came_later(table: TableBuilder) -> None:
    more = {f"c{number}": "long" for number in range(7)}
    table.commit([metadata(SCHEMA | more | {"blob": "binary"}, ["_event_hour"], table_id="one")])
    base, about = based(table)
    assert base.missing_columns == tuple(more)
    assert about == {"sidecar-without-columns"}
    (found,) = (each for each in inspect_table(table.root).findings if each.code == "sidecar-without-columns")
    assert "c0, c1, c2, c3, c4 and 2 more" in found.message


def test_a_bucket_that_the_build_did_not_know(tmp_path: Path) -> None:
    base, about = based(with_sidecar(hourly(tmp_path), BASE, bucket_column="elsewhere"))
    assert (base.lacks_bucket, about) == (True, {"sidecar-without-bucket"})


def test_a_bucket_is_found_whatever_its_case(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DELTA_BUCKET_COLUMN", "_EVENT_HOUR")
    assert based(with_sidecar(hourly(tmp_path), BASE))[0].lacks_bucket is False


def test_leftovers(tmp_path: Path) -> None:
    table = hourly(tmp_path)
    for version in (1, 2, 3, 5):
        with_sidecar(table, version)
    folder = table.log / "_sidecars"
    (folder / "v5.parquet.tmp-0123456789abcdef").write_bytes(b"x" * 10)
    (folder / "v5.other.00000-0.parquet").write_bytes(b"x" * 10)
    (folder / "3a0d65cd-4056-49b8-937b-95f9e3ee90e5.parquet").write_bytes(b"somebody else's")
    found, about = inspected(table)
    assert (found.files, found.leftover_files, about) == (10, 0, set()), "what is young is left alone"
    aged = time.time() - 8 * 24 * 3600
    for file in folder.iterdir():
        os.utime(file, (aged, aged))
    found, about = inspected(table)
    kept = sum(path(table, version).stat().st_size for path in (manifest_path, sidecar_path) for version in (1, 2))
    assert (found.leftover_files, found.leftover_bytes, about) == (6, kept + 20, {"sidecar-leftovers"})
    assert found.versions == (5, 3, 2, 1)


def test_a_version_before_them_has_none(table: TableBuilder) -> None:
    report = inspect_table(table.root, version=BASE - 1)
    assert report.metadata_sidecars is not None
    assert (report.metadata_sidecars.base, report.metadata_sidecars.reason) == (None, "none")
    assert (report.metadata_sidecars.versions, report.metadata_sidecars.files) == ((), 2)


def test_a_log_that_cannot_be_opened_says_nothing_of_them(table: TableBuilder) -> None:
    table.tear(table.commit_path(NEWEST), -9)
    report = inspect_table(table.root)
    assert (report.metadata_sidecars, report.refusal is None) == (None, False)


def advice(report: TableReport, code: str) -> str:
    (found,) = (each.advice for each in report.findings if each.code == code)
    return found
