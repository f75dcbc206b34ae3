"""A build holds a few row groups and what the sort may take, however large the table is."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from bench.measure import measured
from tests.build.work import building

from delta_sidecar.synth import TelemetryLog

if TYPE_CHECKING:
    from pathlib import Path

MB = 1_000_000

pytestmark = pytest.mark.slow


def peak(log: TelemetryLog, path: Path, memory_limit: str) -> int:
    log.write(path)
    found = measured(building, table=str(path), memory_limit=memory_limit)
    assert found.answer["files"] == log.live_files
    assert found.answer["kept_texts"] == 0
    return found.peak_bytes


@pytest.mark.full
def test_three_times_the_files_take_little_more_memory(tmp_path: Path) -> None:
    few = peak(TelemetryLog(files=300_000), tmp_path / "few", "160MB")
    many = peak(TelemetryLog(files=900_000), tmp_path / "many", "160MB")
    assert many - few <= 120 * MB, f"{few} and {many}"
    assert many <= 900 * MB


@pytest.mark.full
def test_a_commit_of_many_files_is_not_held(tmp_path: Path) -> None:
    assert peak(TelemetryLog(files=300_000, checkpoint=None, tail_commits=0), tmp_path, "160MB") <= 900 * MB


@pytest.mark.full
def test_rows_too_large_to_be_sorted_are_not_held(tmp_path: Path) -> None:
    log = TelemetryLog(files=30_000, stats_columns=200, row_group_rows=5_000)
    assert peak(log, tmp_path, "128MB") <= 900 * MB
