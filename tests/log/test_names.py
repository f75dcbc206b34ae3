from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from delta_sidecar.log.names import (
    LOG_FOLDER,
    LogFileKind,
    LogFileName,
    checksum_path,
    commit_path,
    listing_start,
    parse_log_name,
)

PATIENTLY = settings(deadline=None)

UUID = "80a083e8-7026-4e79-81be-64bd76c43a11"


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        (f"{12:020}.json", LogFileName(LogFileKind.COMMIT, 12)),
        (f"{12:020}.crc", LogFileName(LogFileKind.CHECKSUM, 12)),
        (f"{10:020}.checkpoint.parquet", LogFileName(LogFileKind.CHECKPOINT, 10)),
        (
            f"{10:020}.checkpoint.0000000001.0000000002.parquet",
            LogFileName(LogFileKind.CHECKPOINT_PART, 10, 1, 2),
        ),
        (f"{10:020}.checkpoint.{UUID}.json", LogFileName(LogFileKind.V2_CHECKPOINT, 10)),
        (f"{10:020}.checkpoint.{UUID.upper()}.parquet", LogFileName(LogFileKind.V2_CHECKPOINT, 10)),
        (f"{3:020}.{9:020}.compacted.json", LogFileName(LogFileKind.COMPACTED, 3)),
        (f"{2**63 - 1:020}.json", LogFileName(LogFileKind.COMMIT, 2**63 - 1)),
    ],
)
def test_names_of_the_log(name: str, expected: LogFileName) -> None:
    assert parse_log_name(LOG_FOLDER + name) == expected


@pytest.mark.parametrize(
    "path",
    [
        "",
        "_delta_log/",
        "_delta_log",
        f"{1:020}.json",
        f"other/{1:020}.json",
        f"x/_delta_log/{1:020}.json",
        f"_delta_log/{1:019}.json",
        f"_delta_log/{1:021}.json",
        f"_delta_log/.{1:020}.json.crc",
        f"_delta_log/{1:020}.json.tmp",
        f"_delta_log/{1:020}.JSON",
        f"_delta_log/{1:020}json",
        f"_delta_log/{1:020}.json\n",
        f"_delta_log/_staged_commits/{1:020}.{UUID}.json",
        f"_delta_log/_commits/{1:020}.json",
        f"_delta_log/{1:020}.{UUID}.json",
        f"_delta_log/{1:020}.checkpoint.1.2.parquet",
        f"_delta_log/{1:020}.checkpoint.{UUID}",
        f"_delta_log/{1:020}.checkpoint.{UUID}.txt",
        f"_delta_log/{1:020}.checkpoint.json",
        f"_delta_log/{1:020}.5.compacted.json",
        "_delta_log/_last_checkpoint",
        "_delta_log/_sidecars/x.parquet",
        "_delta_log/" + "٣" * 20 + ".json",
    ],
)
def test_what_is_no_name_of_the_log(path: str) -> None:
    assert parse_log_name(path) is None


@PATIENTLY
@given(st.integers(0, 2**63 - 1))
def test_paths_are_read_back_and_sort_between_the_versions(version: int) -> None:
    commit, checksum = parse_log_name(commit_path(version)), parse_log_name(checksum_path(version))
    assert commit == LogFileName(LogFileKind.COMMIT, version)
    assert checksum == LogFileName(LogFileKind.CHECKSUM, version)
    start = listing_start(version)
    own = [commit_path(version), checksum_path(version), f"{LOG_FOLDER}{version:020}.checkpoint.parquet"]
    assert all(start < path for path in own)
    if version:
        before = [commit_path(version - 1), f"{LOG_FOLDER}{version - 1:020}.checkpoint.{UUID}.parquet"]
        assert all(path < start for path in before)
