"""Memory follows the tail of a log, not the table. Every scan is a process of its own."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from bench.measure import measured
from bench.questions import digest
from tests.scan.many_removes import write_many_removes

from delta_sidecar.synth import TelemetryLog

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from tests.scan.many_removes import Live

MB = 1_000_000

pytestmark = pytest.mark.slow


@pytest.fixture(autouse=True)
def cores() -> Iterator[set[int]]:
    """Two cores for the processes that are measured: each thread that decodes needs some memory of its own.

    Gives all that there are.
    """
    if not hasattr(os, "sched_setaffinity"):
        yield set(range(os.cpu_count() or 1))
        return
    there = os.sched_getaffinity(0)
    os.sched_setaffinity(0, sorted(there)[:2])
    yield there
    os.sched_setaffinity(0, there)


@pytest.mark.full
@pytest.mark.parametrize("row_group_rows", [None, 25_000], ids=["as Spark writes them", "25,000 rows"])
def test_five_times_the_files_take_no_more_memory(tmp_path: Path, row_group_rows: int | None) -> None:
    few, many = (TelemetryLog(files=files, row_group_rows=row_group_rows) for files in (100_000, 500_000))
    assert last_hour(many, tmp_path / "many") <= 110 * MB
    less, more = last_hour_steadily(few, tmp_path / "few"), last_hour_steadily(many, tmp_path / "many")
    assert more - less <= 10 * MB, f"{less} and {more}"


@pytest.mark.full
def test_a_checkpoint_of_one_single_row_group_is_not_held(tmp_path: Path) -> None:
    assert last_hour(TelemetryLog(files=500_000, row_group_rows="single"), tmp_path) <= 150 * MB


@pytest.mark.full
def test_many_columns_are_not_held_either(tmp_path: Path) -> None:
    log = TelemetryLog(
        files=200_000, row_group_rows="single", stats_columns=50, struct_stats=True, json_stats=False, tail_commits=2
    )
    assert last_hour(log, tmp_path) <= 150 * MB


@pytest.mark.full
def test_ten_times_the_parts_take_little_more_memory(tmp_path: Path) -> None:
    def log(parts: int) -> TelemetryLog:
        return TelemetryLog(files=1_400 * parts, checkpoint="v2-parquet", parts=parts)

    few, many = (last_hour_steadily(log(parts), tmp_path / str(parts)) for parts in (20, 200))
    assert many - few <= 25 * MB, f"{few} and {many}"


@pytest.mark.full
def test_a_commit_of_many_files_is_not_held(tmp_path: Path) -> None:
    log = TelemetryLog(files=500_000, checkpoint=None, tail_commits=0)
    written = log.write(tmp_path)
    found = measured(listed, table=str(tmp_path))
    assert (found.answer["files"], found.answer["size"]) == (log.live_files, written.table_bytes)
    assert found.peak_bytes <= 200 * MB


@pytest.fixture(scope="module", params=[(1, 1_000_000), (1_000, 1_000)], ids=["one commit", "a thousand commits"])
def million_removes(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[str, Live, bool]:
    """A table, its live files, and whether it has one commit only."""
    path = tmp_path_factory.mktemp("removes")
    commits, each = request.param
    return str(path), write_many_removes(path, commits, each), commits == 1


@pytest.mark.full
@pytest.mark.parametrize("strategy", ["reverse", "forward"])
def test_a_million_removes_go_to_disk(million_removes: tuple[str, Live, bool], strategy: str) -> None:
    table, live, is_one_commit = million_removes
    # Each limit with each strategy and each table, though not with each pair of them.
    limit = "1MB" if is_one_commit == (strategy == "forward") else None
    found = measured(listed, table=table, strategy=strategy, limit=limit)
    assert (found.answer["files"], found.answer["size"], found.answer["tier"]) == (live.files, live.size, "disk")
    # 54-78 MB with every allocator of Arrow's: the bound is above what they differ by.
    assert found.peak_bytes <= 100 * MB


def test_four_cores_take_a_little_more(tmp_path: Path, cores: set[int]) -> None:
    if len(cores) < 4 or not hasattr(os, "sched_setaffinity"):
        pytest.skip("there are no four cores here to be bound to")
    live = write_many_removes(tmp_path, 1, 1_000_000)
    os.sched_setaffinity(0, sorted(cores)[:4])
    found = measured(listed, table=str(tmp_path), strategy="reverse", limit=None)
    assert (found.answer["files"], found.answer["size"], found.answer["tier"]) == (live.files, live.size, "disk")
    assert found.peak_bytes <= 130 * MB


def test_the_measure_sees_what_is_held() -> None:
    assert measured(hoard, size=64 * MB).peak_bytes > 60 * MB
    assert measured(hoard, size=0).peak_bytes < 8 * MB


def listed(
    table: str, strategy: str = "auto", limit: str | None = None, predicate: str | None = None
) -> Callable[[], dict[str, Any]]:
    """Lists a table, whose tail may be remembered within a limit; paths are kept where there is a predicate."""
    import pyarrow.compute as pc

    from delta_sidecar import LazyDeltaScanner, LazyScanConfig

    config = LazyScanConfig(predicate=predicate, strategy=strategy, remove_set_memory_limit=limit)

    def work() -> dict[str, Any]:
        files = size = 0
        paths: list[str] = []
        with LazyDeltaScanner(table, config) as scanner:
            for batch in scanner.scan_batches():
                files += batch.num_rows
                size += pc.sum(batch["size"]).as_py()
                paths += [] if predicate is None else batch["path"].to_pylist()
        return {"files": files, "size": size, "tier": scanner.metrics.seen_tier, "paths": digest(paths)}

    return work


def hoard(size: int) -> Callable[[], dict[str, int]]:
    """Work that holds some memory."""
    return lambda: {"held": len(b"x" * size)}


def last_hour_steadily(log: TelemetryLog, path: Path) -> int:
    """The peak with an allocator that keeps less than Arrow's default one, and about as much each time.

    What the default one keeps differs by 20 MB for one and the same table.
    """
    with pytest.MonkeyPatch.context() as environment:
        backends = pa.supported_memory_backends()
        environment.setenv("ARROW_DEFAULT_MEMORY_POOL", "jemalloc" if "jemalloc" in backends else "system")
        return last_hour(log, path)


def last_hour(log: TelemetryLog, path: Path) -> int:
    """Asks for the newest hour, checks the answer, and gives the peak."""
    if not (path / "_delta_log").exists():
        log.write(path)
    found = measured(listed, table=str(path), predicate=f"_event_hour = '{log.newest_hour}'")
    assert found.answer["files"] == log.expected_hour(log.newest_hour)
    assert found.answer["paths"] == digest(log.live_paths(log.newest_hour))
    return found.peak_bytes
