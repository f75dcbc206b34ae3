"""Clean-ups: what else lies in the folder, and which of it goes."""

from __future__ import annotations

import json

import pytest
from tests.maintain.cleaning import clean, deleted, pair, reason, unknown
from tests.maintain.vacuum_tables import SidecarTable, age

from delta_sidecar.maintain import vacuum
from delta_sidecar.maintain.vacuum import vacuum_sidecars


def test_files_that_no_manifest_names_go(made: SidecarTable) -> None:
    name = made.into_parts(7, "win", days=30)
    lost = ["v7.parquet", "v7.win.00000-1.parquet", "v5.lose.00000-0.parquet", "v6.lose.00003-0.parquet"]
    for loser in lost:
        made.put_data(loser) if loser != "v7.parquet" else made.put(loser, (made.folder / name).read_bytes())
    made.put("v7.segments.json", b"[]")
    made.put("v5.lose.segments.json", b"[]")
    made.put("v5.parquet.tmp-0123456789abcdef")
    made.put("v7.win.00000-0.parquet.tmp-00ff")
    summary = clean(made)
    assert deleted(summary) == {
        *lost,
        "v7.segments.json",
        "v5.lose.segments.json",
        "v5.parquet.tmp-0123456789abcdef",
        "v7.win.00000-0.parquet.tmp-00ff",
        *pair(1, 3),
    }
    assert reason(summary, "v5.lose.00000-0.parquet") == "no manifest names it"
    assert reason(summary, "v5.parquet.tmp-0123456789abcdef") == "left over from a build"


def test_young_files_that_no_manifest_names_wait(made: SidecarTable) -> None:
    young = [made.put_data("v6.b.00000-0.parquet", 1), made.put("v6.b.segments.json", b"[]", 1)]
    young.append(made.put("v8.parquet.tmp-ab", b"x", 0))
    summary = clean(made)
    assert deleted(summary) == pair(1, 3)
    assert summary.waiting.files == 3
    assert summary.waiting.bytes == sum(path.stat().st_size for path in young)


def test_a_build_that_still_writes_keeps_its_first_parts(made: SidecarTable) -> None:
    made.put_data("v9.slow.00000-0.parquet", 20)
    made.put("v9.slow.00001-0.parquet.tmp-ab", b"x", 0.1)
    made.put_data("v9.dead.00000-0.parquet", 20)
    summary = clean(made)
    assert deleted(summary) == {"v9.dead.00000-0.parquet", *pair(1, 3)}
    assert summary.waiting.files == 2


def test_what_a_kept_manifest_needs_stays(made: SidecarTable) -> None:
    needed = {made.into_parts(5, "b1"), made.into_segments(7, "b2"), "v5.manifest.json", "v7.manifest.json"}
    made.put("v7.segments.json", b"[]")
    assert deleted(clean(made)) == {"v7.segments.json", *pair(1, 3)}
    assert needed <= made.names()


def test_data_files_that_do_not_say_whose_they_are_stay(made: SidecarTable) -> None:
    made.put_data("v2.parquet", ours=False)
    made.put_data("v2.b.00000-0.parquet", ours=False)
    made.put("v4.parquet", b"no parquet at all")
    made.put("v6.parquet", b"")
    summary = clean(made)
    assert deleted(summary) == pair(1, 3)
    assert unknown(summary) == {"v2.parquet", "v2.b.00000-0.parquet", "v4.parquet", "v6.parquet"}
    assert reason(summary, "v2.parquet") == "its footer does not say that it is a metadata sidecar"
    assert reason(summary, "v4.parquet") == "it cannot be read as a Parquet file"


def test_other_files_stay(made: SidecarTable) -> None:
    others = {
        "notes.txt",
        "v01.parquet",
        "v1.parquet.crc",
        ".v1.parquet.crc",
        "V1.parquet",
        "v1.manifest.json.bak",
        "v1.B.00000-0.parquet",
        "v99999999999999999999.parquet",
        "v1.parquet.tmp-",
        "v1.parquet.tmp-xyz",
        "tmp-ab",
        "part-0001.parquet",
    }
    for name in others:
        made.put_data(name)
    (made.folder / "deeper").mkdir()
    made.put_data("deeper/v1.parquet")
    summary = vacuum_sidecars(made.root)
    assert unknown(summary) == {*others, "deeper/v1.parquet"}
    assert summary.unknown_count == len(others) + 1
    assert deleted(summary) == pair(1, 3)
    assert (made.folder / "deeper" / "v1.parquet").exists()
    assert others <= made.names()


def test_only_the_folder_of_sidecars_is_touched(made: SidecarTable) -> None:
    for folder in (made.root, made.table.log, made.root / "_sidecars", made.table.log / "deeper" / "_sidecars"):
        folder.mkdir(parents=True, exist_ok=True)
        for name in ("v1.parquet", "v1.manifest.json"):
            age((folder / name), 30) if (folder / name).exists() else None
            path = folder / name
            path.write_bytes((made.folder / name).read_bytes())
            age(path, 30)
    before = {path for path in made.root.rglob("*") if path.is_file()}
    gone = {made.folder / name for name in deleted(clean(made))}
    assert {path for path in made.root.rglob("*") if path.is_file()} == before - gone


@pytest.mark.parametrize("days", [1, 30])
def test_a_manifest_of_a_newer_format_keeps_its_version(made: SidecarTable, days: float) -> None:
    document = json.loads((made.folder / "v1.manifest.json").read_bytes())
    made.put("v1.manifest.json", json.dumps({**document, "format_version": 2}).encode(), days)
    made.put_data("v1.b.00000-0.parquet")
    made.put("v1.parquet.tmp-ab")
    summary = clean(made)
    assert deleted(summary) == pair(3)
    assert unknown(summary) == {*pair(1), "v1.b.00000-0.parquet", "v1.parquet.tmp-ab"}
    assert "v1.manifest.json may need it" in reason(summary, "v1.parquet")


def test_a_manifest_under_a_wrong_name_keeps_its_version(made: SidecarTable) -> None:
    made.put("v2.manifest.json", (made.folder / "v1.manifest.json").read_bytes())
    summary = clean(made)
    assert unknown(summary) == {"v2.manifest.json"}
    assert deleted(summary) == pair(1, 3)


def test_a_young_manifest_that_cannot_be_read_keeps_its_version(made: SidecarTable) -> None:
    made.put("v1.manifest.json", b"half", days=1)
    assert deleted(clean(made)) == pair(3)


def test_many_other_files_are_counted_and_not_named(made: SidecarTable, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(vacuum, "MOST_UNKNOWN", 5)
    for number in range(9):
        made.put(f"notes-{number}.txt")
    summary = vacuum_sidecars(made.root)
    assert (len(summary.unknown), summary.unknown_count) == (5, 9)
    assert deleted(summary) == pair(1, 3)
