"""Async scans: the files of the sync ones, requests only while somebody awaits, and none after a cancellation."""

from __future__ import annotations

import asyncio
import gc
import subprocess
import sys
import threading
from contextlib import aclosing
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest
from tests.builder import TableBuilder, add
from tests.own_threads import PATIENCE, are_at_rest, await_threads, own_threads
from tests.scan.large_tables import FILES, append, wide_stats
from tests.scan.reading import STRATEGIES, scan, scanner, store_of

from delta_sidecar import LogCorruptionError, OptionError, ScanClosedError, StorageError
from delta_sidecar.scan.stream import AsyncStream, BatchStream
from delta_sidecar.store import RequestLog
from delta_sidecar.store.testing import Attempt, Fail, FaultStore, RecordingStore

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
    from pathlib import Path

    from delta_sidecar import DeltaFile, LazyDeltaScanner

COMMITS = 120


@pytest.fixture(scope="module")
def long_tail(tmp_path_factory: pytest.TempPathFactory) -> TableBuilder:
    table = TableBuilder(tmp_path_factory.mktemp("long"))
    append(table, COMMITS)
    table.checksum()
    return table


@pytest.fixture(scope="module")
def many_groups(tmp_path_factory: pytest.TempPathFactory) -> TableBuilder:
    """A checkpoint of many row groups, of which each takes a request of its own."""
    table = TableBuilder(tmp_path_factory.mktemp("groups"), schema={"id": "long", "value": "string"})
    table.commit([add(f"{number:06}.parquet", stats=wide_stats(number)) for number in range(FILES)])
    table.checkpoint(row_group_rows=100)
    table.checksum()
    return table


@pytest.fixture(autouse=True)
def _no_thread_is_left() -> Iterator[None]:
    before = own_threads()
    yield
    gc.collect()
    await_threads(before)


class Held:
    """A store's hook that holds the requests of some files until they are let go."""

    def __init__(self, *endings: str) -> None:
        self.endings = endings
        self.reached, self.gate = threading.Event(), threading.Event()
        self.answered = False

    def __call__(self, attempt: Attempt) -> None:
        if attempt.path.endswith(self.endings):
            self.reached.set()
            assert self.gate.wait(PATIENCE)
            self.answered = True

    async def is_reached(self) -> None:
        await until(self.reached.is_set)


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(PATIENCE):
        while not condition():  # noqa: ASYNC110 - what is waited for happens in threads
            await asyncio.sleep(0.005)


def requests_of(scanning: LazyDeltaScanner) -> int:
    return scanning.metrics.requests.requests


async def settled(scanning: LazyDeltaScanner, quiet: float = 0.15) -> int:
    """Waits until no request has come for a while in which all was at rest; gives how many came in all."""
    now = asyncio.get_running_loop().time
    async with asyncio.timeout(PATIENCE):
        last, since = requests_of(scanning), now()
        while now() - since < quiet:
            await asyncio.sleep(0.005)
            if requests_of(scanning) != last or not are_at_rest():
                last, since = requests_of(scanning), now()
    return last


async def taken(files: AsyncIterator[DeltaFile]) -> list[DeltaFile]:
    return [file async for file in files]


@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize("table", ["long_tail", "many_groups"])
def test_an_async_scan_gives_the_files_of_a_sync_one(request: pytest.FixtureRequest, table: str, strategy: str) -> None:
    built = request.getfixturevalue(table)
    scanning = scanner(built, strategy=strategy)
    assert asyncio.run(taken(scanning.scan_files_async())) == scan(built, strategy=strategy)
    assert scanning.metrics.is_complete


def test_async_batches_are_those_of_a_sync_scan(many_groups: TableBuilder) -> None:
    async def batches() -> list[pa.RecordBatch]:
        return [batch async for batch in scanner(many_groups).scan_batches_async(["size", "path"])]

    expected = scanner(many_groups).scan_batches(["size", "path"]).read_all()
    assert pa.Table.from_batches(asyncio.run(batches())) == expected


def test_an_unknown_column_is_refused_at_once(long_tail: TableBuilder) -> None:
    with pytest.raises(OptionError, match="no column 'sise'"):
        scanner(long_tail).scan_batches_async(["sise"])


def test_a_limit_ends_an_async_scan(long_tail: TableBuilder) -> None:
    scanning = scanner(long_tail, limit=3, commit_read_parallelism=3)
    assert len(asyncio.run(taken(scanning.scan_files_async()))) == 3
    assert requests_of(scanning) < 20


def test_nothing_is_read_before_the_first_file_is_awaited(long_tail: TableBuilder) -> None:
    async def start() -> None:
        store = RecordingStore(store_of(long_tail))
        before = own_threads()
        files, batches = scanner(long_tail, store).scan_files_async(), scanner(long_tail, store).scan_batches_async()
        waiting = anext(files)
        await asyncio.sleep(0.05)
        assert not store.attempts
        assert not own_threads() - before
        await waiting
        assert store.attempts
        await files.aclose()
        await batches.aclose()

    asyncio.run(start())


@pytest.mark.parametrize("table", ["long_tail", "many_groups"])
def test_a_stalled_consumer_issues_no_requests(request: pytest.FixtureRequest, table: str) -> None:
    few = {"batch_size": 10, "commit_read_parallelism": 4, "checkpoint_row_groups_per_batch": 3}
    scanning = scanner(request.getfixturevalue(table), strategy="reverse", **few)

    async def stall() -> int:
        async with scanning.scan_batches_async() as batches:
            await anext(batches)
            at_rest = await settled(scanning)
            assert await settled(scanning) == at_rest
            async for _ in batches:
                pass
        return at_rest

    assert asyncio.run(stall()) < requests_of(scanning) / 2, "bounded look-ahead"


async def by_timeout(files: AsyncStream[DeltaFile], held: Held) -> None:
    async def expire(deadline: asyncio.Timeout) -> None:
        await held.is_reached()
        deadline.reschedule(0)

    async def take() -> None:
        async with asyncio.timeout(None) as deadline, asyncio.TaskGroup() as group:
            group.create_task(expire(deadline))
            await taken(files)

    with pytest.raises(TimeoutError):
        await take()


async def by_cancelling(files: AsyncStream[DeltaFile], held: Held) -> None:
    task = asyncio.create_task(taken(files))
    await held.is_reached()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


async def by_a_group(files: AsyncStream[DeltaFile], held: Held) -> None:
    async def fail() -> None:
        await held.is_reached()
        raise LookupError

    async def both() -> None:
        async with asyncio.TaskGroup() as group:
            group.create_task(taken(files))
            group.create_task(fail())

    with pytest.raises(ExceptionGroup):
        await both()


async def by_closing(files: AsyncStream[DeltaFile], held: Held) -> None:
    task = asyncio.create_task(taken(files))
    await held.is_reached()
    await files.aclose()
    assert not held.answered
    held.gate.set()
    with pytest.raises(ScanClosedError, match="iterator was closed"):
        await task


@pytest.mark.full
@pytest.mark.parametrize("ending", ["_delta_log/", f"{COMMITS - 1:020}.json", "50.json"])
@pytest.mark.parametrize("stop", [by_timeout, by_cancelling, by_a_group, by_closing])
def test_a_scan_that_is_stopped_amid_a_request_lets_no_other_follow(
    long_tail: TableBuilder, stop: Callable[[AsyncStream[DeltaFile], Held], Awaitable[None]], ending: str
) -> None:
    held = Held(ending)
    store = RecordingStore(store_of(long_tail), held)
    scanning = scanner(long_tail, store, strategy="reverse", commit_read_parallelism=3)

    async def stopped() -> None:
        files = scanning.scan_files_async()
        await stop(files, held)
        assert held.gate.is_set() or not held.answered, "a task that is cancelled does not wait for the store"
        asked = await settled(scanning)
        held.gate.set()
        assert await settled(scanning) == asked
        assert asked < COMMITS
        for _ in range(2):
            with pytest.raises(ScanClosedError, match="before its end"):
                await anext(files)
        await until(lambda: not own_threads())

    asyncio.run(stopped())
    assert not scanning.metrics.is_complete


def test_a_loop_ends_while_a_request_of_a_cancelled_scan_hangs(long_tail: TableBuilder) -> None:
    held = Held("50.json")
    scanning = scanner(long_tail, RecordingStore(store_of(long_tail), held), commit_read_parallelism=1)

    async def leave_it() -> int:
        asyncio.create_task(taken(scanning.scan_files_async()))  # noqa: RUF006 - asyncio.run cancels it
        await held.is_reached()
        return await settled(scanning)

    asked = asyncio.run(leave_it())
    assert not held.answered
    held.gate.set()
    for thread in own_threads():
        thread.join(PATIENCE)
    assert requests_of(scanning) == asked


async def break_off(files: AsyncStream[DeltaFile]) -> None:
    async for _ in files:
        break


async def close(files: AsyncStream[DeltaFile]) -> None:
    await anext(files)
    await files.aclose()


async def end_a_block(files: AsyncStream[DeltaFile]) -> None:
    async with aclosing(files):
        await anext(files)


async def end_its_own_block(files: AsyncStream[DeltaFile]) -> None:
    async with files:
        await anext(files)


@pytest.mark.full
@pytest.mark.parametrize("stop", [break_off, close, end_a_block, end_its_own_block])
@pytest.mark.parametrize("table", ["long_tail", "many_groups"])
def test_an_iterator_that_ends_early_stops_all_requests(
    request: pytest.FixtureRequest, table: str, stop: Callable[[AsyncStream[DeltaFile]], Awaitable[None]]
) -> None:
    built = request.getfixturevalue(table)
    scanning = scanner(built, commit_read_parallelism=3)

    async def stopped() -> None:
        await stop(scanning.scan_files_async())
        gc.collect()
        await until(lambda: not own_threads())
        asked = requests_of(scanning)
        assert await settled(scanning) == asked
        assert asked < 130

    asyncio.run(stopped())


def test_an_iterator_that_was_closed_does_not_look_complete(many_groups: TableBuilder) -> None:
    async def take_on() -> None:
        files = scanner(many_groups).scan_files_async()
        await anext(files)
        await files.aclose()
        await files.aclose()
        with pytest.raises(ScanClosedError, match="iterator was closed"):
            await anext(files)

    asyncio.run(take_on())


def test_a_scan_that_came_to_its_end_stays_so(long_tail: TableBuilder) -> None:
    async def ended() -> None:
        async with scanner(long_tail).scan_files_async() as files:
            assert len(await taken(files)) == COMMITS
        for _ in range(2):
            assert await anext(files, None) is None

    asyncio.run(ended())


def test_the_loop_goes_on_while_a_request_hangs(long_tail: TableBuilder) -> None:
    held = Held("50.json")

    async def release() -> None:
        await held.is_reached()
        for _ in range(10):
            await asyncio.sleep(0)
        held.gate.set()

    async def both() -> list[DeltaFile]:
        files = scanner(long_tail, RecordingStore(store_of(long_tail), held)).scan_files_async()
        found, _ = await asyncio.gather(taken(files), release())
        return found

    assert len(asyncio.run(both())) == COMMITS


def test_a_scan_needs_no_thread_of_the_loop(long_tail: TableBuilder) -> None:
    gate = threading.Event()

    async def starved() -> list[DeltaFile]:
        loop = asyncio.get_running_loop()
        others = [loop.run_in_executor(None, gate.wait, PATIENCE) for _ in range(64)]
        try:
            return await taken(scanner(long_tail).scan_files_async())
        finally:
            gate.set()
            await asyncio.gather(*others)

    assert len(asyncio.run(starved())) == COMMITS


def test_many_scans_run_at_once(long_tail: TableBuilder) -> None:
    async def all_of_them() -> list[list[DeltaFile]]:
        one = scanner(long_tail, commit_read_parallelism=2)
        return await asyncio.gather(*(taken(one.scan_files_async()) for _ in range(8)))

    expected = scan(long_tail)
    assert all(found == expected for found in asyncio.run(all_of_them()))


def test_one_of_several_scans_is_cancelled_alone(long_tail: TableBuilder) -> None:
    held = Held("50.json")

    async def cancel_one() -> list[DeltaFile]:
        slow = scanner(long_tail, RecordingStore(store_of(long_tail), held)).scan_files_async()
        task = asyncio.create_task(taken(slow))
        other = scanner(long_tail).scan_files_async()
        await anext(other)
        await held.is_reached()
        task.cancel()
        rest = await taken(other)
        held.gate.set()
        return rest

    assert len(asyncio.run(cancel_one())) == COMMITS - 1


def test_two_tasks_cannot_await_the_same_scan_at_once(long_tail: TableBuilder) -> None:
    held = Held("50.json")

    async def share() -> None:
        files = scanner(long_tail, RecordingStore(store_of(long_tail), held)).scan_files_async()
        task = asyncio.create_task(taken(files))
        await held.is_reached()
        with pytest.raises(RuntimeError, match="another task awaits the next item of this scan"):
            await anext(files)
        held.gate.set()
        assert len(await task) == COMMITS

    asyncio.run(share())


def test_an_error_passes_through_and_stays(long_tail: TableBuilder) -> None:
    error = StorageError("injected")
    store = FaultStore(store_of(long_tail), Fail("*0005.json", error=error))

    async def fail(failing: LazyDeltaScanner) -> Exception:
        files = failing.scan_files_async()
        with pytest.raises(StorageError) as first:
            await taken(files)
        with pytest.raises(StorageError) as second:
            await anext(files)
        assert second.value is first.value
        await until(lambda: not own_threads())
        return first.value

    raised = asyncio.run(fail(scanner(long_tail, store)))
    with pytest.raises(type(raised)) as sync:
        scan(long_tail, store)
    assert str(raised) == str(sync.value)


def test_an_error_of_decoding_stops_the_scan(tmp_path: Path) -> None:
    table = TableBuilder(tmp_path)
    append(table, 30)
    table.tear(table.commit_path(20), -5)

    async def fail() -> None:
        with pytest.raises(LogCorruptionError, match="commit 20"):
            await taken(scanner(table).scan_files_async())

    asyncio.run(fail())


def test_a_closed_scanner_ends_its_async_scans(long_tail: TableBuilder) -> None:
    async def closed() -> None:
        with scanner(long_tail) as scanning:
            begun, other = scanning.scan_files_async(), scanning.scan_batches_async()
            await anext(begun)
        for files in (begun, other):
            with pytest.raises(ScanClosedError, match="scanner has been closed"):
                await taken(files)

    asyncio.run(closed())


def test_one_scan_may_be_taken_in_two_loops(long_tail: TableBuilder) -> None:
    files = scanner(long_tail).scan_files_async()

    async def first() -> DeltaFile:
        return await anext(files)

    assert [asyncio.run(first()), *asyncio.run(taken(files))] == scan(long_tail)


class Slow:
    """Batches by hand, of which one comes only when it is let go, whatever was cancelled."""

    def __init__(self) -> None:
        self.reached, self.gate, self.closed = threading.Event(), threading.Event(), threading.Event()
        self.threads: set[str] = set()

    def stream(self) -> AsyncStream[int]:
        return AsyncStream(BatchStream(self._batches(), RequestLog()), self._items_of)

    def _batches(self) -> Iterator[pa.RecordBatch]:
        batch = pa.RecordBatch.from_pydict({"number": [1, 2, 3]})
        try:
            yield batch
            self.reached.set()
            self.gate.wait(PATIENCE)
            yield batch
        finally:
            self.closed.set()

    def _items_of(self, batch: pa.RecordBatch) -> Iterator[int]:
        self.threads.add(threading.current_thread().name)
        yield from batch["number"].to_pylist()


def test_batches_are_taken_apart_in_the_thread_of_the_scan() -> None:
    slow = Slow()
    slow.gate.set()
    assert asyncio.run(taken(slow.stream())) == [1, 2, 3] * 2
    assert slow.threads == {"delta-sidecar-async"}


def test_a_batch_that_comes_after_a_cancellation_closes_the_scan() -> None:
    slow = Slow()

    async def stopped() -> None:
        numbers = slow.stream()
        task = asyncio.create_task(taken(numbers))
        await until(slow.reached.is_set)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        slow.gate.set()
        await until(slow.closed.is_set)
        with pytest.raises(ScanClosedError):
            await anext(numbers)

    asyncio.run(stopped())


def test_a_batch_that_comes_after_closing_is_given_to_nobody() -> None:
    slow = Slow()

    async def one_more(numbers: AsyncStream[int]) -> int:
        return await anext(numbers)

    async def stopped() -> None:
        numbers = slow.stream()
        assert [await anext(numbers) for _ in range(3)] == [1, 2, 3]
        task = asyncio.create_task(one_more(numbers))
        await until(slow.reached.is_set)
        await numbers.aclose()
        slow.gate.set()
        with pytest.raises(ScanClosedError):
            await task

    asyncio.run(stopped())


def test_round_trips_are_counted_as_in_a_sync_scan(long_tail: TableBuilder) -> None:
    one, other = scanner(long_tail), scanner(long_tail)
    list(one.scan_files())
    asyncio.run(taken(other.scan_files_async()))
    assert other.metrics.trips_to_first_file == one.metrics.trips_to_first_file
    assert other.metrics.requests == one.metrics.requests


def test_a_process_ends_with_an_async_scan_left_over(long_tail: TableBuilder) -> None:
    program = (
        "import asyncio, sys\n"
        "from delta_sidecar import LazyDeltaScanner\n"
        "files = LazyDeltaScanner(sys.argv[1]).scan_files_async()\n"
        "async def one():\n"
        "    await anext(files)\n"
        "asyncio.run(one())\n"
        "print('end')\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, long_tail.root], check=False, capture_output=True, text=True, timeout=60
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "end\n", "")


def test_scanning_does_not_load_asyncio() -> None:
    program = "import sys, delta_sidecar.scan.scanner\nprint('asyncio' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, text=True)
    assert done.stdout == "False\n"
