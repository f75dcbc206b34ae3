"""The ladder: every level gives the same files, and each does what it is there for."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from delta_sidecar import LazyDeltaScanner, LazyScanConfig, build_sidecar
from delta_sidecar.errors import OptionError
from delta_sidecar.scan.levels import LEVELS
from delta_sidecar.store import open_store
from delta_sidecar.store.testing import RecordingStore
from delta_sidecar.synth import TelemetryLog

if TYPE_CHECKING:
    from pathlib import Path

HIGHEST = len(LEVELS) - 1


@pytest.fixture(scope="module")
def log() -> TelemetryLog:
    return TelemetryLog(files=25_000, tail_commits=12, deletes_per_commit=7, row_group_rows=4_000)


@pytest.fixture(scope="module")
def table(log: TelemetryLog, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("ladder")
    log.write(path)
    build_sidecar(path, version=log.checkpoint_version)
    return path


def scanned(table: Path, level: int | None, **config: Any) -> tuple[LazyDeltaScanner, list[str]]:  # noqa: ANN401 - the options
    columns = config.pop("columns", None)
    scanner = LazyDeltaScanner(str(table), LazyScanConfig(level=level, **config))
    paths = [path for batch in scanner.scan_batches(columns) for path in batch["path"].to_pylist()]
    return scanner, paths


@pytest.mark.parametrize("level", range(HIGHEST + 1))
@pytest.mark.parametrize("strategy", ["auto", "reverse", "forward"])
def test_every_level_gives_the_same_files(table: Path, log: TelemetryLog, level: int, strategy: str) -> None:
    hour = log.newest_hour
    _, paths = scanned(table, level, strategy=strategy, predicate=f"_event_hour = '{hour}'")
    assert sorted(paths) == sorted(log.live_paths(hour))
    _, paths = scanned(table, level, strategy=strategy, columns=["path"])
    assert sorted(paths) == sorted(log.live_paths())


@pytest.mark.parametrize("level", range(HIGHEST + 1))
@pytest.mark.parametrize("limit", [0, 1, 100, 2_000])
def test_a_limit_is_kept_at_every_level(table: Path, log: TelemetryLog, level: int, limit: int) -> None:
    _, paths = scanned(table, level, limit=limit)
    assert len(paths) == len(set(paths)) == limit
    assert set(paths) <= set(log.live_paths())


def test_the_last_level_is_a_scan_without_one(table: Path, log: TelemetryLog) -> None:
    for config in ({"predicate": f"_event_hour = '{log.newest_hour}'"}, {"limit": 100}, {"columns": ["path"]}):
        (ours, paths), (usual, same) = scanned(table, HIGHEST, **config), scanned(table, None, **config)
        assert paths == same
        assert ours.metrics.requests == usual.metrics.requests


def test_each_level_does_what_it_adds(table: Path, log: TelemetryLog) -> None:
    wanted = {"predicate": f"_event_hour = '{log.newest_hour}'", "columns": ["path"]}
    scans = [scanned(table, level, **wanted)[0] for level in range(HIGHEST + 1)]
    tiers = [scanner._run.sidecar_tier for scanner in scans]
    assert tiers == [3, 3, 3, 2, 1, 1, 1, 1]
    read = [scanner.metrics.requests.bytes for scanner in scans]
    assert read[0] == read[1] == read[2]
    assert read[6] < read[5] < read[4] < read[2]
    assert [scanner.metrics.row_groups_skipped > 0 for scanner in scans] == [False] * 6 + [True] * 2
    few = [scanned(table, level, limit=10)[0].metrics.requests.bytes for level in (6, 7)]
    assert few[1] * 10 < few[0]


def test_what_is_collected_is_read_before_the_first_file(table: Path) -> None:
    read = []
    for level in (0, 1):
        store = RecordingStore(open_store(str(table)))
        scanner = LazyDeltaScanner(str(table), LazyScanConfig(level=level, strategy="reverse"), store=store)
        with scanner:
            next(iter(scanner.scan_batches()))
            read.append(scanner.metrics.row_groups_read)
    assert read[0] == 7
    assert read[1] == 0


@pytest.mark.parametrize("level", [1, 2])
def test_commits_are_fetched_together_from_level_2_on(table: Path, level: int) -> None:
    scanner = LazyDeltaScanner(
        str(table), LazyScanConfig(level=level, strategy="reverse"), store=RecordingStore(open_store(str(table)))
    )
    for _ in scanner.scan_batches():
        pass
    assert (scanner.metrics.requests.trips > 12) == (level == 1)


@pytest.mark.parametrize("level", [-1, HIGHEST + 1, 1.5, True])
def test_a_level_that_there_is_not(level: Any) -> None:  # noqa: ANN401 - wrong on purpose
    with pytest.raises((OptionError, TypeError), match="level must be"):
        LazyScanConfig(level=level)


def test_a_level_has_no_pages(table: Path) -> None:
    scanner, _ = scanned(table, None, limit=5)
    assert scanner.page_token is not None
    with pytest.raises(OptionError, match="leave level or page_token out"):
        LazyScanConfig(level=3, page_token=scanner.page_token)
