"""What a build reads, writes, tells and refuses."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from tests.build.checked import build, hours, is_right
from tests.build.reading_back import read_back
from tests.builder import add

from delta_sidecar.build import BuildProgress, build_sidecar
from delta_sidecar.errors import OptionError, TableNotFoundError, VersionNotFoundError
from delta_sidecar.events import BuildEnded, Event
from delta_sidecar.store import open_store
from delta_sidecar.synth import TelemetryLog

if TYPE_CHECKING:
    from pathlib import Path

    from tests.azurite import Azurite


def test_an_older_version_and_a_commit_that_is_gone(tmp_path: Path) -> None:
    table = hours(tmp_path, 6)
    table.checkpoint()
    table.commit([add("late", partition_values={"_event_hour": "2026021023"})])
    assert build(tmp_path, version=3).files == 4
    table.clean_up(inclusive=True)
    found = is_right(tmp_path, build(tmp_path, version=5))
    assert found.manifest.commit is None
    assert is_right(tmp_path, build(tmp_path)).manifest.commit is not None


@pytest.mark.full
def test_a_telemetry_table_is_rebuilt_to_the_letter(tmp_path: Path) -> None:
    TelemetryLog(files=20_000, files_per_hour=500, tail_commits=3, adds_per_commit=10, deletion_vectors=0.1).write(
        tmp_path
    )
    told: list[BuildProgress] = []
    summary = build(tmp_path, rows_per_group=5_000, progress=told.append, threads=2)
    assert (summary.files, summary.kept_texts, summary.stats_format) == (20_030, 0, "spark")
    is_right(tmp_path, summary)
    stages = list(dict.fromkeys(progress.stage for progress in told))
    assert stages == ["opening", "reading", "sorting", "writing", "publishing"]
    assert told[-1] == BuildProgress("publishing", 20_030, 20_030)
    assert next(progress.total for progress in told if progress.stage == "reading") == 20_030


def test_only_the_folder_of_sidecars_is_written_to(tmp_path: Path) -> None:
    hours(tmp_path).checkpoint()
    before = {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*") if path.is_file()}
    build(tmp_path)
    after = {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*") if path.is_file()}
    assert {path.name for path in after.keys() - before.keys()} == {"v24.parquet", "v24.manifest.json"}
    assert {path: after[path] for path in before} == before


def test_the_end_of_a_build_is_told(tmp_path: Path) -> None:
    hours(tmp_path, 3)
    told: list[Event] = []
    build(tmp_path, listeners=[told.append])
    build(tmp_path, listeners=[told.append])
    with pytest.raises(VersionNotFoundError):
        build(tmp_path, version=9, listeners=[told.append])
    ends = [event for event in told if isinstance(event, BuildEnded)]
    assert [(end.outcome, end.error, end.version, end.files) for end in ends] == [
        ("complete", None, 2, 3),
        ("already_there", None, 2, 3),
        ("failed", "VersionNotFoundError", None, 0),
    ]
    assert ends[0].requests > 0


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"rows_per_group": 0}, "rows_per_group must be a whole number from 1"),
        ({"version": -1}, "version must be a whole number from 0"),
        ({"memory_limit": "lots"}, "memory_limit must be a size"),
        ({"memory_limit": 1}, "memory_limit must be at least"),
        ({"summaries": "at"}, "summaries must be a list"),
        ({"threads": 0}, "threads must be"),
        ({"sort": "nothing"}, "sort: the table has no column 'nothing'; columns with bounds: id, at"),
        ({"sort": "_event_hour"}, "sort: '_event_hour' is a partition column"),
        ({"summaries": ["at", "nothing"]}, "summaries: the table has no column 'nothing'"),
    ],
)
def test_options_that_make_no_sense(tmp_path: Path, options: dict[str, Any], message: str) -> None:
    hours(tmp_path, 1)
    with pytest.raises(OptionError, match=message):
        build(tmp_path, **options)
    assert not (tmp_path / "_delta_log" / "_sidecars").exists()


def test_no_table(tmp_path: Path) -> None:
    with pytest.raises(TableNotFoundError):
        build(tmp_path)


def test_the_manifest_holds_protocol_and_metadata_as_the_log_does(tmp_path: Path) -> None:
    table = hours(tmp_path, 2)
    build(tmp_path)
    manifest = read_back(tmp_path, 1).manifest
    metadata = table.model_action("metaData")
    assert json.loads(manifest.metadata["schemaString"]) == json.loads(metadata["schemaString"])
    assert {name: manifest.metadata[name] for name in metadata if name != "schemaString"} == {
        name: value for name, value in metadata.items() if name != "schemaString"
    }
    assert manifest.protocol == table.model_action("protocol")
    commit = table.commit_path(1).read_bytes()
    assert manifest.commit.size == len(commit)


@pytest.mark.azurite
def test_a_table_on_azure(tmp_path: Path, azurite: Azurite) -> None:
    local = hours(tmp_path)
    local.checkpoint()
    address = f"az://{azurite.create_container()}/table"
    store = open_store(address, azurite.options)
    for path in sorted(tmp_path.rglob("*")):
        if path.is_file():
            store.put(str(path.relative_to(tmp_path)), path.read_bytes())
    there = build_sidecar(address, storage_options=azurite.options)
    here = build(tmp_path, threads=2)
    assert (there.bytes, there.file, there.manifest_bytes) == (here.bytes, here.file, here.manifest_bytes)
    for name in (there.file, there.manifest):
        path = f"_delta_log/_sidecars/{name}"
        assert bytes(store.get(path).data) == (tmp_path / path).read_bytes()
    assert build_sidecar(address, storage_options=azurite.options).already_there
