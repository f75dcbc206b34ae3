"""Clean-ups: which metadata sidecars go, which stay, and that no answer changes."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import pytest
from tests.maintain.cleaning import clean, deleted, pair, reason, unknown
from tests.maintain.vacuum_tables import BUILT, SidecarTable, age
from tests.scan.sidecar_tables import heard

from delta_sidecar.build import build_sidecar
from delta_sidecar.build.publish import Levels
from delta_sidecar.maintain import vacuum

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.parametrize("keep", [1, 2, 3, 4, 9])
def test_the_newest_stay(made: SidecarTable, keep: int) -> None:
    summary = clean(made, keep=keep)
    assert deleted(summary) == pair(*BUILT[:-keep])
    assert [kept.version for kept in summary.kept] == list(reversed(BUILT[-keep:]))
    assert summary.kept[0].reason == "the newest that can be used"
    assert {file.reason for file in summary.deleted} <= {f"newer ones can be used: {', '.join('7531'[:keep])}"}
    assert summary.unknown_count == 0
    assert clean(made, keep=keep).deleted == (), "there is nothing more to do"


def test_the_newest_two_stay_by_default(made: SidecarTable) -> None:
    summary = clean(made)
    assert (summary.keep, summary.retention) == (2, timedelta(days=7))
    assert deleted(summary) == pair(1, 3)
    assert summary.deleted_bytes == sum(file.size for file in summary.deleted) > 0
    assert all(timedelta(days=30) <= file.age < timedelta(days=31) for file in summary.deleted)


def test_what_is_younger_than_the_retention_stays(made: SidecarTable) -> None:
    age(made.folder / "v3.manifest.json", 6)
    summary = clean(made)
    assert deleted(summary) == pair(1)
    assert [(kept.version, "younger" in kept.reason) for kept in summary.kept] == [(7, False), (5, False), (3, True)]
    assert deleted(clean(made, retention=timedelta(days=5))) == pair(3)


def test_a_young_manifest_keeps_its_old_files(made: SidecarTable) -> None:
    name = made.into_parts(1, "b1", days=30)
    age(made.folder / "v1.manifest.json", 1)
    assert deleted(clean(made)) == pair(3)
    assert name in made.names()


def test_a_sidecar_of_a_table_that_was_here_before_goes(made: SidecarTable) -> None:
    for version in (5, 7):
        path = made.table.commit_path(version)
        path.write_text(path.read_text().replace('"dataChange":true', '"dataChange":false'))
    summary = clean(made)
    assert deleted(summary) == pair(5, 7)
    assert "commit 7 is not the one" in reason(summary, "v7.parquet")
    assert [kept.version for kept in summary.kept] == [3, 1]


def test_a_young_sidecar_of_a_table_that_was_here_before_stays(made: SidecarTable) -> None:
    path = made.table.commit_path(7)
    path.write_text(path.read_text() + "\n")
    age(made.folder / "v7.parquet", 1)
    summary = clean(made, keep=1)
    assert deleted(summary) == pair(1, 3)
    assert [kept.version for kept in summary.kept] == [7, 5]
    assert summary.kept[0].reason.startswith("younger than the retention; it cannot be used: commit 7")


def test_a_sidecar_of_a_version_that_the_table_has_not_goes(made: SidecarTable) -> None:
    for version in (7, 8, 9):
        made.table.delete_commit(version)
        made.table.commits.pop()
    summary = clean(made, keep=1)
    assert deleted(summary) == pair(1, 3, 7)
    assert reason(summary, "v7.manifest.json") == "it cannot be used: the table has no version 7"


def test_one_that_nothing_proves_once_its_commit_was_cleaned_up_goes(made: SidecarTable) -> None:
    made.table.checkpoint()
    made.table.clean_up()
    summary = clean(made, keep=1)
    assert deleted(summary) == pair(*BUILT)
    assert "nothing proves" in reason(summary, "v7.manifest.json")


def test_one_that_a_witness_proves_stays_without_its_commit(tmp_path: Path) -> None:
    """The checkpoint that proves it is older than the one that `_last_checkpoint` points to."""
    made = SidecarTable.make(tmp_path, checkpoint=7)
    made.table.checkpoint()
    for version in range(8):
        made.table.delete_commit(version)
    assert deleted(clean(made, keep=1)) == pair(1, 3, 5)
    made.table.log.joinpath(f"{7:020}.checkpoint.parquet").unlink()
    assert deleted(clean(made, keep=1)) == pair(7)


@pytest.mark.parametrize("damage", ["gone", "longer"])
def test_a_sidecar_that_lacks_a_file_goes(made: SidecarTable, damage: str) -> None:
    path = made.folder / "v7.parquet"
    if damage == "gone":
        path.unlink()
    else:
        path.write_bytes(path.read_bytes() + b"more")
        age(path, 30)
    summary = clean(made, keep=2)
    assert "v7.manifest.json" in deleted(summary)
    assert "v7.parquet" in reason(summary, "v7.manifest.json")
    assert [kept.version for kept in summary.kept] == [5, 3]
    assert ("v7.parquet" in unknown(summary)) is (damage == "longer"), "it is not the file that was meant"


def test_a_damaged_manifest_goes_and_the_footer_stands_in(made: SidecarTable) -> None:
    made.put("v7.manifest.json", b'{"digest":"')
    summary = clean(made, keep=2)
    assert deleted(summary) == {"v7.manifest.json", *pair(1)}
    assert [(kept.version, "by its footer" in kept.reason) for kept in summary.kept] == [
        (7, True),
        (5, False),
        (3, False),
    ], "as many stay by manifests as were asked for"
    assert clean(made, keep=2).deleted == ()


def test_a_manifest_whose_footer_is_no_use_goes_with_it(made: SidecarTable) -> None:
    made.put("v7.manifest.json", b"{}")
    path = made.table.commit_path(7)
    path.write_text(path.read_text() + "\n")
    summary = clean(made, keep=1)
    assert deleted(summary) == pair(1, 3, 7)
    assert reason(summary, "v7.parquet") == "no manifest names it"


def test_a_footer_stands_in_with_the_segments_that_it_names(made: SidecarTable) -> None:
    for name in pair(7):
        (made.folder / name).unlink()
    # The segments cannot have the name that a first build gives them.
    made.put("v7.segments.json", b"[]")
    build_sidecar(made.root, version=7, rows_per_group=1, levels=Levels(2, 2, 1))
    (segments,) = (name for name in made.names() if re.fullmatch(r"v7\.\w+\.segments\.json", name))
    (made.folder / "v7.manifest.json").unlink()
    for name in (segments, "v7.parquet"):
        age(made.folder / name, 30)
    assert deleted(clean(made, keep=1)) == pair(1, 3)
    assert {segments, "v7.parquet"} <= made.names()
    one = heard(made.table, version=7)
    assert (len(one.files), one.end.sidecar_tier) == (8, 2)


def test_no_retention(made: SidecarTable) -> None:
    for path in made.folder.iterdir():
        age(path, 0.001)
    assert deleted(clean(made)) == set()
    assert deleted(clean(made, retention=timedelta())) == pair(1, 3)


@pytest.mark.parametrize("years", [-20, 20])
def test_a_wrong_clock_deletes_nothing_too_early(
    made: SidecarTable, monkeypatch: pytest.MonkeyPatch, years: int
) -> None:
    age(made.folder / "v3.manifest.json", 1)
    now = datetime.now(UTC) + timedelta(days=365 * years)
    monkeypatch.setattr(vacuum, "_now", lambda: now)
    assert deleted(clean(made)) == (pair(1) if years > 0 else set())


def test_a_file_from_the_future_makes_no_other_older(made: SidecarTable) -> None:
    age(made.folder / "v3.manifest.json", 1)
    age(made.table.commit_path(9), -3_000)
    summary = clean(made)
    assert deleted(summary) == pair(1)
    assert summary.as_of <= datetime.now(UTC)


def test_on_an_idle_table_age_is_counted_up_to_the_newest_file(made: SidecarTable) -> None:
    for path in made.table.log.glob("*.json"):
        age(path, 40)
    age(made.folder / "v1.manifest.json", 38)
    age(made.folder / "v1.parquet", 38)
    assert deleted(clean(made)) == pair(1), "the other ones were written on its last day"
