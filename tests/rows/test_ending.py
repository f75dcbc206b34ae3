"""Every way in which a scan for rows comes to an end: no thread and no request is left, and errors keep their place."""

from __future__ import annotations

import gc
import os
import subprocess
import sys
import threading
from itertools import accumulate
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest
from tests.builder import TableBuilder, add
from tests.own_threads import PATIENCE, await_threads, own_threads, settled
from tests.rows.tables import parquet, put
from tests.rows.watching import FILES, ROWS, Blocking, data_files, watched
from tests.small_files import FILES_AN_HOUR, TAIL

from delta_sidecar import (
    CorruptCommitError,
    DeltaTable,
    LogCorruptionError,
    ScanClosedError,
    UnreadableFileError,
)
from delta_sidecar.events import RowScanEnded
from delta_sidecar.store import ScanCancelledError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from delta_sidecar import RowStream
    from delta_sidecar.store.testing import Attempt, RecordingStore


pytestmark = pytest.mark.usefixtures("no_thread_is_left")


def exhaust(stream: RowStream) -> None:
    assert sum(batch.num_rows for batch in stream) == FILES * ROWS
    assert next(stream, None) is None


def break_off(stream: RowStream) -> None:
    for _ in stream:
        break


def close(stream: RowStream) -> None:
    next(stream)
    stream.close()
    with pytest.raises(ScanClosedError, match="closed before its end"):
        next(stream)


def leave(stream: RowStream) -> None:
    with stream:
        next(stream)


def stop(stream: RowStream) -> None:
    next(stream)
    stream.stop()
    for _ in range(2):
        with pytest.raises(ScanClosedError):
            next(stream)


def stop_at_first(stream: RowStream) -> None:
    stream.stop()
    with pytest.raises(ScanClosedError):
        next(stream)


def stop_as_it_begins(stream: RowStream) -> None:
    """As a stop from another thread, between the first batch's being asked for and the first file's being found."""
    stream._scan._requests.cancel()
    with pytest.raises(ScanCancelledError):
        next(stream)


def close_at_first(stream: RowStream) -> None:
    stream.close()


def drop_at_first(stream: RowStream) -> None:
    assert stream.schema.names


def drop_a_reader(stream: RowStream) -> None:
    reader = stream.reader()
    reader.read_next_batch()
    del reader


def close_a_reader_at_first(stream: RowStream) -> None:
    stream.reader().close()


WAYS = [
    *(exhaust, break_off, close, leave, stop, stop_at_first, close_at_first, drop_at_first, drop_a_reader),
    *(close_a_reader_at_first, stop_as_it_begins),
]


@pytest.mark.full
@pytest.mark.parametrize("opened", [True, False])
@pytest.mark.parametrize("end", WAYS)
def test_whatever_way_it_ends_nothing_goes_on(root: Path, end: Callable[[RowStream], None], opened: bool) -> None:  # noqa: FBT001
    before = own_threads()
    table, store = watched(root)
    if opened:
        table.snapshot()
    # Only what is dropped at once, not what some later collection of garbage finds, counts as ended.
    gc.disable()
    try:
        end(table.scan())
        await_threads(before)
    finally:
        gc.enable()
    asked = len(store.attempts)
    assert settled(lambda: len(store.attempts), 0.05) == asked
    assert end is exhaust or len(data_files(store)) <= 3


def test_closing_a_table_ends_its_scans(root: Path) -> None:
    table, store = watched(root)
    streams = [table.scan() for _ in range(3)]
    for stream in streams:
        next(stream)
    table.close()
    for stream in streams:
        with pytest.raises(ScanClosedError):
            next(stream)
    asked = settled(lambda: len(store.attempts), 0.05)
    assert sum(batch.num_rows for batch in table.scan(limit=5)) == 5, "another scan is not concerned"
    assert len(store.attempts) > asked


def test_a_limit_ends_it(root: Path) -> None:
    before = own_threads()
    table, store = watched(root)
    stream = table.scan(limit=25)
    assert sum(batch.num_rows for batch in stream) == 25
    await_threads(before)
    asked = len(store.attempts)
    assert settled(lambda: len(store.attempts), 0.05) == asked


# --- while a request is not answered ----------------------------------------------------------------------------


def is_data(attempt: Attempt) -> bool:
    return "_delta_log" not in attempt.path


def is_old_log(attempt: Attempt) -> bool:
    """Tells requests for what comes after the first files."""
    return ".checkpoint" in attempt.path


@pytest.fixture(params=[is_data, is_old_log])
def held(request: pytest.FixtureRequest, root: Path) -> Iterator[tuple[DeltaTable, RecordingStore, Blocking]]:
    """A table whose data files, or whose older files, are asked for in vain; it is open."""
    blocking = Blocking(request.param)
    is_open = False
    table, store = watched(root, lambda attempt: blocking(attempt) if is_open else None, strategy="reverse")
    table.snapshot()
    is_open = True
    yield table, store, blocking
    blocking.released.set()


def waiting_consumer(stream: RowStream, blocking: Blocking) -> tuple[threading.Thread, list[BaseException]]:
    """A thread that takes all there is, and by now waits for a request that is not answered."""
    failures: list[BaseException] = []

    def consume() -> None:
        try:
            for _ in stream:
                pass
        except Exception as error:  # noqa: BLE001 - looked at by the test
            failures.append(error)

    thread = threading.Thread(target=consume)
    thread.start()
    assert blocking.reached.wait(PATIENCE)
    return thread, failures


@pytest.mark.parametrize("way", ["the table is closed", "stop", "close"])
def test_who_waits_is_let_go_from_outside(held: tuple[DeltaTable, RecordingStore, Blocking], way: str) -> None:
    table, store, blocking = held
    stream = table.scan()
    consumer, failures = waiting_consumer(stream, blocking)
    settled(lambda: len(store.attempts), 0.05)
    {"the table is closed": table.close, "stop": stream.stop, "close": stream.close}[way]()
    consumer.join(PATIENCE)
    assert not consumer.is_alive()
    assert not blocking.released.is_set()
    assert [type(error) for error in failures] == [ScanClosedError]
    answered = stream.metrics.requests.requests
    blocking.released.set()
    assert settled(lambda: stream.metrics.requests.requests, 0.05) == answered, "no request follows"


def later_data(root: Path) -> Callable[[Attempt], bool]:
    """Tells requests for all files but the first."""
    (first,) = DeltaTable(str(root)).file_infos(limit=1)
    return lambda attempt: is_data(attempt) and attempt.path != first.path


@pytest.mark.parametrize(("is_held", "taken"), [(later_data, 1), (lambda _: is_old_log, TAIL * FILES_AN_HOUR)])
@pytest.mark.parametrize("way", ["close", "drop"])
def test_who_breaks_off_waits_for_nobody(
    root: Path, is_held: Callable[[Path], Callable[[Attempt], bool]], taken: int, way: str
) -> None:
    blocking, is_open = Blocking(is_held(root)), False
    table, _ = watched(root, lambda attempt: blocking(attempt) if is_open else None, strategy="reverse")
    table.snapshot()
    is_open = True
    stream = table.scan()
    while stream.metrics.rows < taken * ROWS:
        next(stream)
    assert blocking.reached.wait(PATIENCE)
    if way == "close":
        stream.close()
    del stream
    assert not blocking.released.is_set()
    blocking.released.set()


def test_a_large_file_that_is_read_ahead_holds_nobody_up(tmp_path: Path) -> None:
    """Parts of it are on their way in threads of their own, and are not waited for."""
    built = TableBuilder(tmp_path, schema={"noise": "binary"})
    rows = pa.table({"noise": [os.urandom(400) for _ in range(45_000)]})
    built.commit([put(built, "large.parquet", parquet(rows, use_dictionary=False))])
    size, megabyte = (tmp_path / "large.parquet").stat().st_size, 1 << 20
    blocking = Blocking(lambda attempt: 12 * megabyte < (attempt.start or 0) < size - megabyte)
    table, _ = watched(tmp_path, blocking)
    stream = table.scan()
    next(stream)
    consumer, failures = waiting_consumer(stream, blocking)
    stream.stop()
    consumer.join(PATIENCE)
    assert not consumer.is_alive()
    assert [type(error) for error in failures] == [ScanClosedError]
    blocking.released.set()


# --- errors -----------------------------------------------------------------------------------------------------


def table_of(root: Path, names: list[str], **options: object) -> TableBuilder:
    built = TableBuilder(root, schema={"id": "long"}, **options)
    for number, name in enumerate(names):
        if name == "missing":
            built.commit([add("missing.parquet")])
        else:
            built.commit([put(built, f"{number}.parquet", pa.table({"id": [number]}))])
    return built


def test_rows_of_earlier_files_come_before_an_error_and_it_stays(tmp_path: Path) -> None:
    table_of(tmp_path, ["0", "1", "missing", "3", "4"])
    told: list[object] = []
    stream = DeltaTable(tmp_path, options={"strategy": "reverse"}, listeners=[told.append]).scan()
    assert [next(stream).to_pydict() for _ in range(2)] == [{"id": [4]}, {"id": [3]}]
    with pytest.raises(UnreadableFileError, match=r"data file missing.parquet of the table is not there") as first:
        next(stream)
    with pytest.raises(UnreadableFileError) as again:
        next(stream)
    assert again.value is first.value
    assert first.value.path == "missing.parquet"
    assert not stream.metrics.is_complete
    (ended,) = [event for event in told if isinstance(event, RowScanEnded)]
    assert (ended.outcome, ended.error, ended.rows) == ("failed", "MissingDataFileError", 2)


def test_a_log_that_is_damaged_fails_after_the_files_before_the_damage(tmp_path: Path) -> None:
    built = table_of(tmp_path, ["0", "1", "2", "3"])
    built.checksum()
    TableBuilder.tear(built.commit_path(1), -5)
    stream = DeltaTable(tmp_path, options={"strategy": "reverse"}).scan()
    assert [next(stream).to_pydict() for _ in range(2)] == [{"id": [3]}, {"id": [2]}]
    with pytest.raises(CorruptCommitError, match="commit 1"):
        next(stream)


def test_a_partition_value_that_is_none_of_its_type_is_the_log_s_fault(tmp_path: Path) -> None:
    built = TableBuilder(tmp_path, schema={"id": "long", "day": "date"}, partition_columns=["day"])
    built.commit([put(built, "a.parquet", pa.table({"id": [1]}), partition_values={"day": "tomorrow"})])
    with pytest.raises(LogCorruptionError, match=r"'tomorrow' for partition column day of a.parquet"):
        list(DeltaTable(tmp_path).scan())
    assert [batch.num_rows for batch in DeltaTable(tmp_path).scan(["id"])] == [1]


class OddError(Exception):
    """Nothing that anybody expects."""


@pytest.mark.parametrize("error", [OddError, KeyboardInterrupt, SystemExit])
def test_an_error_in_the_consumer_ends_it(root: Path, error: type[BaseException]) -> None:
    """Here it is the callback that fails; a key pressed comes to the same."""
    calls = []

    def progress(metrics: object) -> None:
        calls.append(metrics)
        raise error

    told: list[object] = []
    table = DeltaTable(root, listeners=[told.append])
    stream = table.scan(progress=progress)
    with pytest.raises(error):
        next(stream)
    assert len(calls) == 1, "who fails is not called again"
    (ended,) = [event for event in told if isinstance(event, RowScanEnded)]
    assert ended.outcome == ("stopped" if error is KeyboardInterrupt else "failed")


def test_an_interrupted_stream_says_that_it_was(root: Path) -> None:
    def interrupt(_: object) -> None:
        raise KeyboardInterrupt

    stream = DeltaTable(root).scan(progress=interrupt)
    with pytest.raises(KeyboardInterrupt):
        next(stream)
    with pytest.raises(ScanClosedError, match="interrupted"):
        next(stream)


# --- what is told -----------------------------------------------------------------------------------------------


def test_progress_is_told_after_each_batch_and_at_the_end(root: Path) -> None:
    seen = []
    threads = set()

    def progress(metrics: object) -> None:
        seen.append(metrics)
        threads.add(threading.current_thread())

    stream = DeltaTable(root).scan(["value"], limit=90, progress=progress)
    batches = [batch.num_rows for batch in stream]
    assert batches[0] == 20
    assert [metrics.rows for metrics in seen] == [*accumulate(batches), 90]
    assert [metrics.batches for metrics in seen] == [*range(1, len(batches) + 1), len(batches)]
    assert [metrics.is_complete for metrics in seen] == [False] * len(batches) + [True]
    assert threads == {threading.current_thread()}


@pytest.mark.parametrize(
    ("end", "outcome"), [(exhaust, "complete"), (break_off, "stopped"), (close, "stopped"), (stop, "stopped")]
)
def test_an_event_tells_how_it_ended(root: Path, end: Callable[[RowStream], None], outcome: str) -> None:
    told: list[object] = []
    end(DeltaTable(root, listeners=[told.append]).scan())
    (ended,) = [event for event in told if isinstance(event, RowScanEnded)]
    assert (ended.outcome, ended.error) == (outcome, None)
    assert ended.rows in (ROWS, FILES * ROWS)


PROGRAM = """
import sys
from delta_sidecar import DeltaTable
stream = DeltaTable(sys.argv[1]).scan()
{}
print('end')
"""


@pytest.mark.full
@pytest.mark.parametrize("then", ["", "next(stream)", "reader = stream.reader(); reader.read_next_batch()"])
def test_a_process_ends_with_a_scan_left_over(root: Path, then: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM.format(then), str(root)],
        check=False,
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "end\n", "")
