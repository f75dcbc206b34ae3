"""A scanner that is closed stops what it has under way, and nothing that was stopped looks complete."""

from __future__ import annotations

import sys
import threading
from typing import TYPE_CHECKING

import pytest
from tests.builder import TableBuilder, add
from tests.own_threads import PATIENCE, await_threads, own_threads
from tests.scan.reading import scanner, store_of

from delta_sidecar import ScanClosedError, StorageError
from delta_sidecar.store.testing import Attempt, Fail, FaultStore, RecordingStore

if TYPE_CHECKING:
    from pathlib import Path

COMMITS = 60


@pytest.fixture
def table(tmp_path: Path) -> TableBuilder:
    built = TableBuilder(tmp_path)
    for number in range(COMMITS):
        built.commit([add(f"{number}.parquet")])
    built.checksum()
    return built


def test_a_closed_scanner_has_no_threads_left_and_asks_for_nothing(table: TableBuilder) -> None:
    before = own_threads()
    store = RecordingStore(store_of(table))
    with scanner(table, store, commit_read_parallelism=3, strategy="reverse") as scanning:
        reader, files = scanning.scan_batches(), scanning.scan_files()
        reader.read_next_batch()
        next(files)
    await_threads(before)
    asked = len(store.attempts)
    assert asked < 2 * COMMITS
    with pytest.raises(ScanClosedError):
        reader.read_next_batch()
    with pytest.raises(ScanClosedError):
        list(files)
    assert len(store.attempts) == asked


def test_a_stopped_scan_never_looks_complete(table: TableBuilder) -> None:
    scanning = scanner(table)
    files = scanning.scan_files()
    next(files)
    scanning.close()
    with pytest.raises(ScanClosedError, match="before its end"):
        next(files)
    assert not scanning.metrics.is_complete


def test_a_scan_that_came_to_its_end_stays_so(table: TableBuilder) -> None:
    with scanner(table) as scanning:
        files = list(scanning.scan_files())
    assert len(files) == COMMITS
    assert scanning.metrics.is_complete


def test_a_closed_scanner_can_scan_again(table: TableBuilder) -> None:
    scanning = scanner(table)
    scanning.close()
    assert len(list(scanning.scan_files())) == COMMITS


def test_files_and_batches_of_a_closed_scanner_alike_are_closed(table: TableBuilder) -> None:
    with scanner(table) as scanning:
        files, reader = scanning.scan_files(), scanning.scan_batches()
    with pytest.raises(ScanClosedError):
        next(files)
    with pytest.raises(ScanClosedError):
        reader.read_next_batch()


def test_a_failed_scan_fails_however_often_it_is_asked(table: TableBuilder) -> None:
    store = FaultStore(store_of(table), Fail("*0005.json"))
    reader = scanner(table, store).scan_batches()
    for _ in range(3):
        with pytest.raises(StorageError):
            reader.read_all()


def test_an_interrupted_scan_never_looks_complete(table: TableBuilder) -> None:
    def interrupt(attempt: Attempt) -> None:
        if attempt.path.endswith("00.json"):
            raise KeyboardInterrupt

    reader = scanner(table, RecordingStore(store_of(table), interrupt)).scan_batches()
    with pytest.raises(KeyboardInterrupt):
        reader.read_all()
    with pytest.raises(ScanClosedError, match="interrupted"):
        reader.read_all()


def test_scans_start_while_others_are_closed(table: TableBuilder) -> None:
    scanning = scanner(table)
    done = threading.Event()

    def start() -> None:
        while not done.is_set():
            scanning.scan_batches()

    starting = [threading.Thread(target=start) for _ in range(2)]
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        for thread in starting:
            thread.start()
        for _ in range(300):
            scanning.close()
    finally:
        done.set()
        sys.setswitchinterval(before)
        for thread in starting:
            thread.join(PATIENCE)
    assert not any(thread.is_alive() for thread in starting)
    assert scanning.scan_batches().read_all().num_rows > 0, "what failed in a thread fails the test by itself"


def test_closing_from_another_thread_ends_a_consumer_that_waits(table: TableBuilder) -> None:
    held, gate = threading.Event(), threading.Event()

    def hold(attempt: Attempt) -> None:
        if attempt.path.endswith("30.json"):
            held.set()
            assert gate.wait(PATIENCE)

    scanning = scanner(table, RecordingStore(store_of(table), hold), commit_read_parallelism=2)
    outcome: list[Exception] = []

    def consume() -> None:
        try:
            list(scanning.scan_files())
        except Exception as error:  # noqa: BLE001 - told below
            outcome.append(error)

    consumer = threading.Thread(target=consume)
    consumer.start()
    assert held.wait(PATIENCE)
    scanning.close()
    gate.set()
    consumer.join(PATIENCE)
    assert not consumer.is_alive()
    assert [type(error) for error in outcome] == [ScanClosedError]


def test_the_keys_of_a_scan_are_let_go_at_its_end(table: TableBuilder) -> None:
    scanning = scanner(table, remove_set_memory_limit=0, strategy="reverse")
    files = scanning.scan_files()
    next(files)
    assert scanning._run.progress.seen is not None
    list(files)
    assert scanning._run.progress.seen is None
    assert (scanning.metrics.seen_keys, scanning.metrics.seen_tier) == (COMMITS, "disk")
