"""Clean-ups: what goes, what stays, and that no answer changes."""

from __future__ import annotations

import json
import re
from collections import Counter
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.build.vacuum_tables import BUILT, SidecarTable, age
from tests.builder import TableBuilder, add, protocol
from tests.scan.reading import agrees_with_model

from delta_sidecar import (
    DeltaSidecarError,
    OptionError,
    StorageError,
    TableNotFoundError,
    UnsupportedFeatureError,
)
from delta_sidecar.build import vacuum, vacuum_inventory
from delta_sidecar.build.vacuum import vacuum_sidecars
from delta_sidecar.events import Event, VacuumEnded
from delta_sidecar.store import open_store
from delta_sidecar.store.wrappers import Attempt, Fail, FaultStore, RecordingStore

if TYPE_CHECKING:
    from tests.azurite import Azurite

    from delta_sidecar.build.vacuum_summary import VacuumSummary

LOG = "_delta_log/_sidecars/"


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> SidecarTable:
    return SidecarTable.make(tmp_path_factory.mktemp("vacuum") / "table")


@pytest.fixture
def made(template: SidecarTable, tmp_path: Path) -> SidecarTable:
    return template.copy(tmp_path / "table")


def deleted(summary: VacuumSummary) -> set[str]:
    return {file.path.removeprefix(LOG) for file in summary.deleted}


def unknown(summary: VacuumSummary) -> set[str]:
    return {file.path.removeprefix(LOG) for file in summary.unknown}


def reason(summary: VacuumSummary, name: str) -> str:
    return {file.path.removeprefix(LOG): file.reason for file in (*summary.deleted, *summary.unknown)}[name]


def clean(made: SidecarTable, **arguments: object) -> VacuumSummary:
    """Cleans up, and asserts what always holds."""
    before = made.names()
    would = vacuum_sidecars(made.root, **{**arguments, "dry_run": True})
    assert made.names() == before, "a dry run deletes nothing"
    summary = vacuum_sidecars(made.root, **arguments)
    assert [file.path for file in would.deleted] == [file.path for file in summary.deleted]
    assert made.names() == before - deleted(summary)
    assert unknown(summary) <= made.names()
    agrees_with_model(made.table)
    return summary


def pair(*versions: int) -> set[str]:
    return {name for version in versions for name in (f"v{version}.parquet", f"v{version}.manifest.json")}


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


def test_a_commit_that_was_cleaned_up_is_no_reason(made: SidecarTable) -> None:
    made.table.checkpoint()
    made.table.clean_up()
    assert deleted(clean(made, keep=1)) == pair(1, 3, 5)


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


KINDS = ["v2-json", "v2-parquet", "v2-classic"]


@pytest.mark.parametrize("kind", KINDS)
def test_sidecars_of_v2_checkpoints_stay_whatever_their_names(made: SidecarTable, kind: str) -> None:
    names = ["v9.parquet", "v2.b.00000-0.parquet", "v4.parquet.tmp-ab"]
    made.v2_checkpoint(kind, *names)
    summary = clean(made)
    assert deleted(summary) == pair(1, 3)
    assert summary.referred == 3
    assert summary.unknown == ()


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("form", ["{}", "_delta_log/_sidecars/{}", "file:///elsewhere/%76{}", "a%20b/{}"])
def test_a_file_that_a_checkpoint_refers_to_stays_even_if_it_is_ours(made: SidecarTable, kind: str, form: str) -> None:
    top = made.v2_checkpoint(kind, "v1.parquet.new", last=False)
    text = form.format("v1.parquet").replace("%76v", "%76")
    rewrite(top, "v1.parquet.new", text)
    (made.folder / "v1.parquet.new").unlink()
    made.table.checkpoints.clear()
    summary = vacuum_sidecars(made.root, keep=1)
    assert deleted(summary) == {"v1.manifest.json", *pair(3, 5)}
    assert summary.referred == 1


def rewrite(top: Path, old: str, new: str) -> None:
    if top.suffix == ".json":
        top.write_text(top.read_text().replace(old, new))
        return
    rows = pq.read_table(top)
    actions = rows.to_pylist()
    for action in actions:
        if action["sidecar"] is not None:
            action["sidecar"]["path"] = action["sidecar"]["path"].replace(old, new)
    pq.write_table(type(rows).from_pylist(actions, schema=rows.schema), top, store_schema=False)


def test_every_checkpoint_counts_and_not_only_the_newest(made: SidecarTable) -> None:
    made.v2_checkpoint("v2-json", "v1.b.00000-0.parquet")
    made.table.commit([add("later")])
    made.table.checkpoint("v1-multipart")
    made.table.commit([add("latest")])
    made.table.checkpoint("v1")
    assert "v1.b.00000-0.parquet" not in deleted(clean(made))


@pytest.mark.parametrize("kind", KINDS)
def test_a_checkpoint_that_cannot_be_read_keeps_all_data_files(made: SidecarTable, kind: str) -> None:
    top = made.v2_checkpoint(kind, "v2.parquet")
    TableBuilder.tear(top, 60 if kind == "v2-json" else -4)
    made.put_data("v6.b.00000-0.parquet")
    made.put("v6.b.segments.json", b"[]")
    made.put("v4.manifest.json", b"{}")
    made.put("v8.parquet.tmp-ab")
    made.table.checkpoints.clear()
    summary = clean(made)
    assert deleted(summary) == {"v6.b.segments.json", "v4.manifest.json"}
    (note,) = summary.notes
    assert f"{top.name} cannot be read" in note
    assert [kept.version for kept in summary.kept] == [7, 5, 3, 1], "who proves whose a file is stays as well"
    top.unlink()
    assert deleted(clean(made)) == {"v6.b.00000-0.parquet", "v8.parquet.tmp-ab", *pair(1, 3)}


def test_a_v2_checkpoint_without_its_beginning_cannot_be_read(made: SidecarTable) -> None:
    top = made.v2_checkpoint("v2-json", "v2.parquet")
    lines = top.read_text().splitlines(keepends=True)
    top.write_text("".join(line for line in lines if "metaData" not in line))
    made.table.checkpoints.clear()
    summary = clean(made)
    assert summary.deleted == ()
    assert "it has no metaData" in summary.notes[0]


@pytest.mark.parametrize("kind", KINDS)
def test_a_checkpoint_that_goes_meanwhile_refers_to_nothing(made: SidecarTable, kind: str) -> None:
    top = made.v2_checkpoint(kind, "v2.parquet")
    made.table.commit([add("later")])
    made.table.checkpoint("v1")

    def vanish(attempt: Attempt) -> None:
        if attempt.path.endswith("v7.manifest.json"):
            top.unlink(missing_ok=True)

    store = RecordingStore(open_store(made.root), vanish)
    summary = vacuum_sidecars(made.root, store=store)
    assert (deleted(summary), summary.notes) == (pair(1, 3), ())
    assert any(attempt.path.endswith(top.name) for attempt in store.attempts)


def test_sidecar_actions_whose_paths_are_no_texts_cannot_be_read(made: SidecarTable) -> None:
    top = made.v2_checkpoint("v2-parquet", "v2.parquet")
    made.table.checkpoints.clear()
    rows = pq.read_table(top)
    numbers = pa.StructArray.from_arrays([pa.array([1] * len(rows))], ["path"])
    place = rows.schema.get_field_index("sidecar")
    pq.write_table(rows.set_column(place, "sidecar", numbers), top)
    made.table.commit([add("later")])
    made.table.checkpoint("v1")
    summary = clean(made)
    assert summary.deleted == ()
    assert f"{top.name} cannot be read" in summary.notes[0]


@pytest.mark.parametrize(
    "fault",
    [
        Fail("_delta_log/", "list"),
        Fail("*.checkpoint.*", "get"),
        Fail("*manifest.json", "get"),
        Fail("*v2.parquet", "get"),
    ],
    ids=lambda fault: fault.path,
)
def test_a_store_out_of_reach_is_an_error_and_nothing_is_deleted(made: SidecarTable, fault: Fail) -> None:
    made.table.checkpoint("v1", last_checkpoint=False)
    made.put_data("v2.parquet")
    before = made.names()
    store = RecordingStore(FaultStore(open_store(made.root), fault))
    with pytest.raises(StorageError):
        vacuum_sidecars(made.root, store=store)
    assert store.paths("delete") == []
    assert made.names() == before


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


def test_events_tell_how_it_ended(made: SidecarTable) -> None:
    told: list[Event] = []
    summary = vacuum_sidecars(made.root, listeners=[told.append])
    end = told[-1]
    assert isinstance(end, VacuumEnded)
    assert (end.outcome, end.error, end.dry_run, end.files_deleted) == ("complete", None, False, 4)
    assert (end.bytes_deleted, end.requests) == (summary.deleted_bytes, summary.requests)
    broken = FaultStore(open_store(made.root), Fail("*", "list"))
    with pytest.raises(StorageError):
        vacuum_sidecars(made.root, store=broken, listeners=[told.append])
    end = told[-1]
    assert isinstance(end, VacuumEnded)
    assert (end.outcome, end.error, end.files_deleted) == ("failed", "StorageError", 0)


def test_what_is_no_table_is_not_touched(tmp_path: Path, made: SidecarTable) -> None:
    with pytest.raises(TableNotFoundError):
        vacuum_sidecars(tmp_path / "nowhere")
    before = made.names()
    for path in made.table.log.glob("*.json"):
        path.unlink()
    with pytest.raises(TableNotFoundError):
        vacuum_sidecars(made.root)
    assert made.names() == before


def test_a_table_that_cannot_be_read_is_not_touched(made: SidecarTable) -> None:
    made.table.delete_commit(8)
    before = made.names()
    with pytest.raises(DeltaSidecarError):
        vacuum_sidecars(made.root)
    made.table.commit_path(8).write_text("{}\n")
    made.table.commit([{"protocol": protocol(features=["newfangled"])["protocol"]}])
    with pytest.raises(UnsupportedFeatureError, match="newfangled"):
        vacuum_sidecars(made.root)
    assert made.names() == before


@pytest.mark.parametrize(
    "arguments",
    [
        {"keep": 0},
        {"keep": -1},
        {"keep": True},
        {"keep": 1.5},
        {"retention": timedelta(seconds=-1)},
        {"retention": 7},
    ],
    ids=repr,
)
def test_options_that_are_not_valid(made: SidecarTable, arguments: dict[str, object]) -> None:
    with pytest.raises(OptionError, match=next(iter(arguments))):
        vacuum_sidecars(made.root, **arguments)


def test_a_table_without_sidecars(tmp_path: Path) -> None:
    table = TableBuilder(tmp_path)
    table.commit([add("a")])
    table.checkpoint()
    store = RecordingStore(open_store(tmp_path))
    summary = vacuum_sidecars(tmp_path, store=store)
    assert (summary.deleted, summary.kept, summary.unknown_count, summary.notes) == ((), (), 0, ())
    assert len(store.attempts) == summary.requests <= 5


def test_requests_do_not_grow_with_the_commits(made: SidecarTable) -> None:
    counts = []
    for _ in range(2):
        made.table.checkpoint()
        counts.append(vacuum_sidecars(made.root, dry_run=True).requests)
        for _ in range(40):
            made.table.commit([add(f"{len(made.table.commits)}")])
    assert counts[1] <= counts[0] + 1, "one more checkpoint"


def test_the_summary_fits_into_json(made: SidecarTable) -> None:
    made.put("notes.txt")
    plain = json.loads(json.dumps(vacuum_sidecars(made.root, dry_run=True).as_dict()))
    assert plain["retention"] == 7 * 86_400
    assert plain["deleted"][0]["path"] == f"{LOG}v1.manifest.json"
    assert datetime.fromisoformat(plain["deleted"][0]["last_modified"]) < datetime.now(UTC)
    assert plain["unknown"][0]["path"] == f"{LOG}notes.txt"
    assert plain["deleted_bytes"] > 0


def test_a_data_file_that_a_build_takes_meanwhile_stays(made: SidecarTable) -> None:
    manifest = (made.folder / "v1.manifest.json").read_bytes()
    (made.folder / "v1.manifest.json").unlink()

    def publish(attempt: Attempt) -> None:
        if attempt.kind == "delete" and attempt.path.endswith("v3.manifest.json"):
            made.put("v1.manifest.json", manifest, days=0)

    summary = vacuum_sidecars(made.root, store=RecordingStore(open_store(made.root), publish))
    assert deleted(summary) == pair(3)
    assert summary.notes == ("Version 1 was built meanwhile: its files stay.",)
    assert pair(1) <= made.names()


def test_a_manifest_that_is_gone_meanwhile_is_no_error(made: SidecarTable) -> None:
    def vanish(attempt: Attempt) -> None:
        if attempt.kind == "get" and attempt.path.endswith("v3.manifest.json"):
            (made.folder / "v3.manifest.json").unlink()

    store = RecordingStore(open_store(made.root), vanish)
    assert deleted(vacuum_sidecars(made.root, store=store)) == {*pair(1), "v3.parquet"}


def test_a_manifest_is_read_once_or_twice_and_a_data_file_only_by_its_end(made: SidecarTable) -> None:
    made.put_data("v2.parquet")
    store = RecordingStore(open_store(made.root))
    vacuum_sidecars(made.root, store=store)
    read = Counter(path.removeprefix(LOG) for path in store.paths("get") if path.startswith(LOG))
    expected = {"v1.manifest.json": 1, "v3.manifest.json": 1, "v5.manifest.json": 2, "v7.manifest.json": 2}
    assert read == {**expected, "v2.parquet": 1}


def test_many_other_files_are_counted_and_not_remembered(made: SidecarTable, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(vacuum_inventory, "MOST_STRANGERS", 5)
    for number in range(9):
        made.put(f"notes-{number}.txt")
    summary = vacuum_sidecars(made.root)
    assert (len(summary.unknown), summary.unknown_count) == (5, 9)
    assert deleted(summary) == pair(1, 3)


def test_the_example_of_the_guide_runs(
    made: SidecarTable, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    guide = Path(__file__).parents[2] / "docs" / "guides" / "clean-up.md"
    (code,) = re.findall(r"^```python\n(.*?)^```", guide.read_text(), re.MULTILINE | re.DOTALL)
    made.root.rename(made.root.with_name("telemetry"))
    monkeypatch.chdir(made.root.parent)
    exec(code, {})  # noqa: S102 - the example
    assert capsys.readouterr().out.startswith(f"{LOG}v1.manifest.json ")


def test_azure(azurite: Azurite, made: SidecarTable) -> None:
    made.v2_checkpoint("v2-parquet", "v8.parquet", "leaf.parquet")
    made.put("notes.txt")
    store = open_store(f"az://{azurite.create_container()}/some/table", azurite.options)
    for path in made.root.rglob("*"):
        if path.is_file():
            store.put(path.relative_to(made.root).as_posix(), path.read_bytes())
    assert vacuum_sidecars("", store=store).deleted == (), "all of it is young"
    summary = vacuum_sidecars("", store=store, keep=1, retention=timedelta())
    assert deleted(summary) == pair(1, 3, 5)
    assert (unknown(summary), summary.referred) == ({"notes.txt"}, 2)
    left = {meta.path.removeprefix(LOG) for page in store.list(LOG) for meta in page}
    assert left == {"v8.parquet", "leaf.parquet", "notes.txt", *pair(7)}
    agrees_with_model(made.table, store)
