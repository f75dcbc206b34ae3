"""What a clean-up asks for, tells and refuses, and what happens while it runs."""

from __future__ import annotations

import json
import re
from collections import Counter
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from tests.builder import TableBuilder, add, protocol
from tests.maintain.cleaning import LOG, deleted, pair, unknown
from tests.scan.reading import agrees_with_model

from delta_sidecar import (
    DeltaSidecarError,
    OptionError,
    StorageError,
    TableNotFoundError,
    UnsupportedFeatureError,
)
from delta_sidecar.events import Event, VacuumEnded
from delta_sidecar.maintain.vacuum import vacuum_sidecars
from delta_sidecar.store import open_store
from delta_sidecar.store.testing import Attempt, Fail, FaultStore, RecordingStore

if TYPE_CHECKING:
    from tests.azurite import Azurite
    from tests.maintain.vacuum_tables import SidecarTable


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
