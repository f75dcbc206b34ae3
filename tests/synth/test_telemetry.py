"""Synthetic logs are valid Delta, hold what their closed form says, and are the same each time."""

from __future__ import annotations

import datetime as dt
import hashlib
import json
from typing import TYPE_CHECKING, Any, Literal

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable

from delta_sidecar.errors import OptionError
from delta_sidecar.synth import TelemetryLog

if TYPE_CHECKING:
    from pathlib import Path

    from delta_sidecar.synth.log_spec import CheckpointKind

KINDS = [("v1", 1), ("v1-multipart", 3), ("v2-json", 2), ("v2-parquet", 2), (None, 1)]
SMALL: dict[str, Any] = {"files": 2_000, "files_per_hour": 300, "tail_commits": 4, "adds_per_commit": 25}
VARIANTS: dict[str, dict[str, Any]] = {
    "plain": {},
    "everything": {
        "deletes_per_commit": 20,
        "deletion_vectors": 0.3,
        "tombstones": 50,
        "struct_stats": True,
        "row_group_rows": 500,
    },
    "one row group": {"row_group_rows": "single", "order": "time", "codec": "zstd", "stats_columns": 0},
    "no hints": {"checksum": False, "last_checkpoint": False, "struct_stats": True, "json_stats": False},
}


def independent_files(path: Path) -> pa.Table:
    return pa.table(DeltaTable(path).get_add_actions())


def log_files(path: Path, pattern: str) -> list[Path]:
    return sorted((path / "_delta_log").rglob(pattern))


def checkpoint_rows(path: Path) -> list[dict[str, Any]]:
    return [row for file in log_files(path, "*.parquet") for row in pq.read_table(file).to_pylist()]


@pytest.mark.parametrize(("kind", "parts"), KINDS)
@pytest.mark.parametrize("variant", sorted(VARIANTS))
def test_an_independent_reader_finds_the_expected_files(
    tmp_path: Path, kind: CheckpointKind | None, parts: int, variant: str
) -> None:
    log = TelemetryLog(**SMALL, checkpoint=kind, parts=parts, **VARIANTS[variant])
    summary = log.write(tmp_path)
    found = independent_files(tmp_path)

    paths = found["path"].to_pylist()
    assert DeltaTable(tmp_path).version() == summary.version == log.version
    assert len(paths) == summary.files == log.live_files
    assert set(paths) == set(log.live_paths())
    assert sum(found["size_bytes"].to_pylist()) == summary.table_bytes
    hours = {path[12:22] for path in paths}
    assert {hour: sum(hour in path for path in paths) for hour in hours} == {
        hour: log.expected_hour(hour) for hour in hours
    }
    assert max(hours) == summary.newest_hour


def test_the_newest_hour_is_full_and_spans_checkpoint_and_tail(tmp_path: Path) -> None:
    log = TelemetryLog(**SMALL)
    log.write(tmp_path)
    in_tail = sum(log.newest_hour in line for file in tail_commits(tmp_path, log) for line in file)

    assert log.expected_hour(log.newest_hour) == 300
    assert 0 < in_tail < 300
    assert log.expected_hour("1999010100") == log.expected_hour("2099010100") == 0


def test_deletes_are_in_the_newest_hour_and_elsewhere() -> None:
    log = TelemetryLog(**SMALL, deletes_per_commit=50)

    assert len(set(log.deleted.tolist())) == 200
    assert log.expected_hour(log.newest_hour) < 300
    assert log.deleted.min() < 1_000


def test_every_file_may_be_deleted() -> None:
    log = TelemetryLog(files=100, files_per_hour=30, tail_commits=10, adds_per_commit=1, deletes_per_commit=10)

    assert sorted(log.deleted.tolist()) == list(range(100))
    assert len(list(log.live_paths())) == log.live_files == 10


def test_checkpoint_looks_like_one_of_spark(tmp_path: Path) -> None:
    log = TelemetryLog(**SMALL, row_group_rows=500)
    summary = log.write(tmp_path)
    (file,) = log_files(tmp_path, "*.checkpoint.parquet")
    parquet = pq.ParquetFile(file)

    assert [parquet.metadata.row_group(index).num_rows for index in range(parquet.num_row_groups)] == [500] * 4 + [3]
    columns = ["txn", "add", "remove", "metaData", "protocol", "domainMetadata"]
    assert parquet.schema_arrow.names == columns
    add = next(row["add"] for row in checkpoint_rows(tmp_path) if row["add"])
    assert add["dataChange"] is False
    assert add["tags"] is None
    assert dict(add["partitionValues"]) == {"_event_hour": add["path"][12:22]}
    stats = json.loads(add["stats"])
    assert list(stats) == ["numRecords", "minValues", "maxValues", "nullCount"]
    assert set(stats["minValues"]) == {
        "event_ts",
        "device_id",
        "temperature",
        "humidity",
        "pressure",
        "sequence",
    }
    hint = json.loads((tmp_path / "_delta_log" / "_last_checkpoint").read_text())
    assert hint["version"] == summary.checkpoint_version
    assert hint["size"] == len(checkpoint_rows(tmp_path))
    assert hint["numOfAddFiles"] == 2_000


def test_bounds_lie_in_the_hour_and_in_order(tmp_path: Path) -> None:
    TelemetryLog(**SMALL, struct_stats=True, deletion_vectors=0.5).write(tmp_path)
    adds = [row["add"] for row in checkpoint_rows(tmp_path) if row["add"]]

    assert len(adds) == 2_000
    for add in adds:
        stats = json.loads(add["stats"])
        low, high = stats["minValues"], stats["maxValues"]
        assert all(low[name] <= high[name] for name in low)
        hour = add["partitionValues_parsed"]["_event_hour"]
        for bound in (low["event_ts"], high["event_ts"]):
            assert dt.datetime.fromisoformat(bound).strftime("%Y%m%d%H") == hour
        assert stats["tightBounds"] is (add["deletionVector"] is None)
        parsed = add["stats_parsed"]
        assert parsed["numRecords"] == stats["numRecords"]
        assert parsed["nullCount"] == stats["nullCount"]
        assert parsed["minValues"]["temperature"] == low["temperature"]
        assert parsed["maxValues"]["device_id"] == high["device_id"]
        assert parsed["maxValues"]["event_ts"] == dt.datetime.fromisoformat(high["event_ts"])


def test_hash_order_scatters_the_hours_and_time_order_keeps_them(tmp_path: Path) -> None:
    def hours_of_row_groups(order: Literal["hash", "time"]) -> list[int]:
        root = tmp_path / order
        TelemetryLog(**SMALL, row_group_rows=250, order=order).write(root)
        parquet = pq.ParquetFile(log_files(root, "*.checkpoint.parquet")[0])
        groups = [parquet.read_row_group(index, columns=["add.path"]) for index in range(8)]
        return [len({row["add"]["path"][:22] for row in group.to_pylist() if row["add"]}) for group in groups]

    assert max(hours_of_row_groups("time")) <= 2
    assert min(hours_of_row_groups("hash")) == 7


def test_tail_commits_carry_what_a_stream_writes(tmp_path: Path) -> None:
    log = TelemetryLog(**SMALL, deletes_per_commit=2, deletion_vectors=1)
    log.write(tmp_path)
    lines = [json.loads(line) for line in tail_commits(tmp_path, log)[0]]

    assert [next(iter(line)) for line in lines] == ["commitInfo", "txn", *["add"] * 25, *["remove"] * 2]
    assert all(line["add"]["dataChange"] for line in lines if "add" in line)
    assert all("deletionVector" in line["remove"] for line in lines if "remove" in line)


def test_checksum_files_are_true(tmp_path: Path) -> None:
    log = TelemetryLog(**SMALL, deletes_per_commit=3, deletion_vectors=0.2)
    summary = log.write(tmp_path)
    checksums = {int(file.stem): json.loads(file.read_text()) for file in log_files(tmp_path, "*.crc")}

    assert summary.checkpoint_version is not None
    assert sorted(checksums) == list(range(summary.checkpoint_version, summary.version + 1))
    newest = checksums[summary.version]
    assert (newest["numFiles"], newest["tableSizeBytes"]) == (summary.files, summary.table_bytes)
    protocol = next(row["protocol"] for row in checkpoint_rows(tmp_path) if row["protocol"])
    assert newest["protocol"] == protocol
    assert protocol["readerFeatures"] == ["deletionVectors"]


@pytest.mark.parametrize("rows", [1, 2, 0, "single", 300_000])
def test_any_row_group_size_holds_the_same_files(tmp_path: Path, rows: int | Literal["single"]) -> None:
    log = TelemetryLog(files=20, tail_commits=0, files_per_hour=7, row_group_rows=rows)
    log.write(tmp_path)

    found = [row["add"]["path"] for row in checkpoint_rows(tmp_path) if row["add"]]
    assert sorted(found) == sorted(log.live_paths())
    assert not [file for file in (tmp_path / "_delta_log").iterdir() if file.name.startswith(".")]


def test_more_statistics_columns_than_delta_indexes_are_declared(tmp_path: Path) -> None:
    TelemetryLog(files=50, tail_commits=1, stats_columns=50).write(tmp_path)
    rows = checkpoint_rows(tmp_path)

    stats = json.loads(next(row["add"]["stats"] for row in rows if row["add"]))
    metadata = next(row["metaData"] for row in rows if row["metaData"])
    fields = json.loads(metadata["schemaString"])["fields"]
    assert len(stats["minValues"]) == 50
    assert {field["name"] for field in fields} == {*stats["minValues"], "_event_hour"}
    assert dict(metadata["configuration"]) == {"delta.dataSkippingNumIndexedCols": "50"}


def test_a_checkpoint_may_be_empty(tmp_path: Path) -> None:
    log = TelemetryLog(files=0, tail_commits=2, adds_per_commit=3)
    log.write(tmp_path)

    assert set(independent_files(tmp_path)["path"].to_pylist()) == set(log.live_paths())


def test_the_same_seed_writes_the_same_bytes(tmp_path: Path) -> None:
    def digests(name: str, seed: int) -> dict[str, str]:
        root = tmp_path / name
        TelemetryLog(**SMALL, checkpoint="v2-json", parts=2, deletion_vectors=0.1, seed=seed).write(root)
        files = [file for file in root.rglob("*") if file.is_file()]
        return {file.name: hashlib.sha256(file.read_bytes()).hexdigest() for file in files}

    assert digests("one", 1) == digests("two", 1)
    assert digests("one again", 1) != digests("three", 3)


def test_progress_reaches_the_end(tmp_path: Path) -> None:
    seen: list[tuple[int, int]] = []
    TelemetryLog(**SMALL, row_group_rows=500).write(tmp_path, progress=lambda done, total: seen.append((done, total)))

    assert seen[-1] == (2_100, 2_100)
    assert [done for done, _ in seen] == sorted(done for done, _ in seen)
    assert len(seen) > 5


@pytest.mark.parametrize(
    "options",
    [
        {"checkpoint": "v3"},
        {"files": -1},
        {"files": 0, "tail_commits": 0},
        {"files_per_hour": 0},
        {"checkpoint": "v1-multipart", "parts": 1},
        {"checkpoint": "v1", "parts": 2},
        {"files": 10, "deletes_per_commit": 1, "tail_commits": 11},
        {"deletion_vectors": 2},
        {"row_group_rows": -1},
    ],
)
def test_what_cannot_be_is_refused(options: dict[str, Any]) -> None:
    with pytest.raises(OptionError, match="telemetry log"):
        TelemetryLog(**options)


def test_an_existing_log_is_not_overwritten(tmp_path: Path) -> None:
    log = TelemetryLog(files=1, tail_commits=0)
    log.write(tmp_path)

    with pytest.raises(OptionError, match="has a Delta log already"):
        log.write(tmp_path)


def tail_commits(path: Path, log: TelemetryLog) -> list[list[str]]:
    first = (log.checkpoint_version or 0) + 1
    files = [path / "_delta_log" / f"{version:020}.json" for version in range(first, log.version + 1)]
    return [file.read_text().splitlines() for file in files]
