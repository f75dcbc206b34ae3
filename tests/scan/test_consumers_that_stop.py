"""Consumers that are slow, stop early or fail: the requests stop, and no thread is left."""

from __future__ import annotations

import gc
import threading
from typing import TYPE_CHECKING

import pytest
from tests.builder import TableBuilder, add, remove
from tests.own_threads import PATIENCE, await_threads, own_threads, settled
from tests.scan.byte_ranges import checkpoint_reads, chunk_ranges, footer_start, touches
from tests.scan.large_tables import FILES, append, wide_stats
from tests.scan.reading import STRATEGIES, scan, scanner, store_of

from delta_sidecar import DeltaFile, LazyDeltaScanner, LazyScanConfig
from delta_sidecar.log.names import commit_path
from delta_sidecar.store.testing import Attempt, RecordingStore

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path


@pytest.fixture(scope="module")
def long_tail(tmp_path_factory: pytest.TempPathFactory) -> TableBuilder:
    table = TableBuilder(tmp_path_factory.mktemp("long"))
    append(table, 1)
    table.checksum()
    append(table, 120)
    table.checksum()
    return table


@pytest.fixture(scope="module")
def many_groups(tmp_path_factory: pytest.TempPathFactory) -> TableBuilder:
    """A checkpoint of many row groups, of which each takes a request of its own."""
    root = tmp_path_factory.mktemp("groups")
    table = TableBuilder(root, schema={"id": "long", "value": "string"})
    table.commit([add(f"{number:06}.parquet", stats=wide_stats(number)) for number in range(FILES)])
    table.checkpoint(row_group_rows=100)
    table.checksum()
    return table


def test_a_slow_consumer_of_commits_stops_the_requests(long_tail: TableBuilder) -> None:
    store = RecordingStore(store_of(long_tail))
    files = scanner(long_tail, store, commit_read_parallelism=4, strategy="reverse").scan_files()
    next(files)
    first = settled(lambda: len(store.attempts))
    assert first < 40, "bounded look-ahead"
    for _ in range(50):
        next(files)
    second = settled(lambda: len(store.attempts))
    assert first + 40 < second < first + 60
    assert len(list(files)) == 121 - 51


def test_a_slow_consumer_of_a_checkpoint_stops_the_requests(many_groups: TableBuilder) -> None:
    store = RecordingStore(store_of(many_groups))
    reader = scanner(many_groups, store, checkpoint_row_groups_per_batch=3).scan_batches()
    reader.read_next_batch()
    first = settled(lambda: len(store.attempts))
    assert first < 40, "bounded look-ahead"
    for _ in range(20):
        reader.read_next_batch()
    second = settled(lambda: len(store.attempts))
    assert first + 10 < second < first + 240
    assert sum(batch.num_rows for batch in reader) + 2_100 >= FILES - 100


def break_off(files: Iterator[DeltaFile]) -> None:
    for _ in files:
        break
    del files


def close(files: Iterator[DeltaFile]) -> None:
    next(files)
    files.close()


def drop(files: Iterator[DeltaFile]) -> None:
    next(files)
    del files
    gc.collect()


@pytest.mark.parametrize("stop", [break_off, close, drop])
@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize("table", ["long_tail", "many_groups"])
def test_an_iterator_that_ends_early_stops_all_requests(
    request: pytest.FixtureRequest, table: str, strategy: str, stop: Callable[[Iterator[DeltaFile]], None]
) -> None:
    built = request.getfixturevalue(table)
    before = own_threads()
    reader = LazyDeltaScanner(built.root, LazyScanConfig(strategy=strategy, commit_read_parallelism=3))
    stop(reader.scan_files())
    await_threads(before)
    count = reader.metrics.requests.requests
    assert settled(lambda: reader.metrics.requests.requests, 0.05) == count
    assert count < 130
    assert not reader.metrics.is_complete


@pytest.mark.parametrize("way", ["close", "with", "drop"])
@pytest.mark.parametrize("table", ["long_tail", "many_groups"])
def test_a_reader_that_ends_early_stops_all_requests(request: pytest.FixtureRequest, table: str, way: str) -> None:
    built = request.getfixturevalue(table)
    before = own_threads()
    scanning = LazyDeltaScanner(built.root, LazyScanConfig(commit_read_parallelism=3))
    reader = scanning.scan_batches()
    reader.read_next_batch()
    if way == "close":
        reader.close()
    elif way == "with":
        with reader:
            pass
    # Arrow's own close does not reach the scan: it comes to rest since nobody takes from it, and ends when dropped.
    at_rest = settled(lambda: scanning.metrics.requests.requests)
    assert at_rest < 130
    del reader
    gc.collect()
    await_threads(before)
    assert settled(lambda: scanning.metrics.requests.requests, 0.05) == at_rest
    assert not scanning.metrics.is_complete


def test_a_limit_stops_all_requests(long_tail: TableBuilder) -> None:
    before = own_threads()
    reader = scanner(long_tail, limit=3, commit_read_parallelism=3)
    files = reader.scan_files()
    assert len([next(files), next(files), next(files)]) == 3
    with pytest.raises(StopIteration):
        next(files)
    await_threads(before)
    assert reader.metrics.requests.requests < 20


def test_closing_while_requests_are_under_way_lets_no_others_follow(long_tail: TableBuilder) -> None:
    gate = threading.Event()
    waiting = threading.Semaphore(0)

    def hold(attempt: Attempt) -> None:
        if attempt.path.endswith(".json") and attempt.path < commit_path(120):
            waiting.release()
            assert gate.wait(PATIENCE)

    before = own_threads()
    store = RecordingStore(store_of(long_tail), hold)
    reader = scanner(long_tail, store, commit_read_parallelism=3)
    files = reader.scan_files()
    next(files)
    assert waiting.acquire(timeout=PATIENCE)
    files.close()
    answered = reader.metrics.requests.requests
    gate.set()
    await_threads(before)
    assert reader.metrics.requests.requests == answered


def test_a_failed_scan_leaves_no_threads(tmp_path: Path) -> None:
    table = TableBuilder(tmp_path)
    append(table, 30)
    table.tear(table.commit_path(20), -5)
    before = own_threads()
    with pytest.raises(Exception, match="commit 20"):
        scan(table)
    gc.collect()
    await_threads(before)


def test_a_snapshot_leaves_no_threads_and_reads_no_files(large: TableBuilder, recording: RecordingStore) -> None:
    before = own_threads()
    snapshot = scanner(large, recording).snapshot()
    await_threads(before)
    assert snapshot.version == 30
    assert snapshot.partition_columns == ("day",)
    path = next(large.log.glob("*.checkpoint.parquet"))
    rows = [attempt for attempt in checkpoint_reads(recording) if attempt.start < footer_start(path)]
    assert not touches(rows, chunk_ranges(path, "add"))


def test_two_scans_of_one_scanner_stand_by_themselves(long_tail: TableBuilder) -> None:
    reader = scanner(long_tail)
    first, second = reader.scan_files(), reader.scan_files()
    assert next(first) == next(second)
    first.close()
    assert len(list(second)) == 120


def test_removes_of_the_tail_are_counted_as_keys(tmp_path: Path) -> None:
    table = TableBuilder(tmp_path)
    table.commit([add("a"), add("b")])
    table.checkpoint()
    table.commit([remove("a"), add("c")])
    for strategy in STRATEGIES:
        reader = scanner(table, strategy=strategy)
        assert {file.path for file in reader.scan_files()} == {"b", "c"}
        metrics = reader.metrics
        assert (metrics.files_emitted, metrics.version, metrics.base_version, metrics.is_complete) == (2, 1, 0, True)
        assert metrics.seen_keys is not None
