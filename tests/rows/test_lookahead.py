"""How far a scan for rows runs ahead of who takes them, in files and in bytes."""

from __future__ import annotations

import json
import threading
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest
from tests.builder import TableBuilder
from tests.own_threads import PATIENCE, forget, settled
from tests.rows.tables import WITH_VECTORS, inline_vector, put
from tests.rows.watching import FILES, ROWS, Blocking, data_files, watched, write
from tests.small_files import FILES_AN_HOUR, TAIL, hour_name

from delta_sidecar import DeltaTable, build_sidecar

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from delta_sidecar.store.testing import Attempt


def test_all_rows_come(root: Path) -> None:
    table, store = watched(root)
    stream = table.scan(["device_id"])
    assert sum(batch.num_rows for batch in stream) == FILES * ROWS
    metrics = stream.metrics
    assert metrics.files_found == metrics.files_opened == metrics.files_read == FILES
    assert metrics.rows == metrics.rows_decoded == FILES * ROWS
    assert metrics.is_complete
    assert len(data_files(store)) == FILES
    # A small file takes one request.
    assert metrics.requests.requests == FILES


def test_nothing_of_the_files_is_read_before_the_first_batch_is_asked_for(root: Path) -> None:
    table, store = watched(root)
    stream = table.scan()
    assert stream.schema.names == ["device_id", "event_ts", "value", "_event_hour"]
    settled(lambda: len(store.attempts))
    assert not data_files(store)
    stream.close()


def test_who_takes_one_batch_has_opened_a_few_files(root: Path) -> None:
    table, store = watched(root)
    with table.scan() as stream:
        assert next(stream).num_rows == ROWS
        assert settled(lambda: len(data_files(store))) <= 3
        while stream.metrics.rows < 21 * ROWS:
            next(stream)
        taken = stream.metrics.rows // ROWS
        assert taken <= 1.5 * 21
        opened = settled(lambda: len(data_files(store)))
        # As many more as may be under way at once.
        assert taken < opened <= taken + 8
    assert len(data_files(store)) == opened


def test_files_without_a_matching_row_are_read_by_all_threads_that_there_are(root: Path) -> None:
    together = threading.Barrier(4)
    table, store = watched(root, file_parallelism=1)
    assert list(table.scan(predicate="value = 0.5")) == []
    # The first ones tell that there is nothing in them; a few later ones are let go four at a time.
    in_order = [attempt.path for attempt in store.attempts if "_delta_log" not in attempt.path]
    held = set(in_order[12:52])
    assert len(held) == 40

    def hook(attempt: Attempt) -> None:
        if attempt.path in held:
            together.wait(PATIENCE)

    table, _ = watched(root, hook, file_parallelism=4)
    stream = table.scan(predicate="value = 0.5", limit=1)
    assert list(stream) == []
    assert stream.metrics.files_found == stream.metrics.files_read == FILES


def test_one_file_at_a_time_if_that_is_asked_for(root: Path) -> None:
    table, store = watched(root, file_parallelism=1)
    with table.scan() as stream:
        taken = 0
        while taken < 5:
            taken += next(stream).num_rows // ROWS
            assert settled(lambda: len(data_files(store)), 0.05) <= taken


def held_bytes_at_rest(root: Path, budget: int, rows_a_batch: int) -> int:
    """How many rows are decoded and not taken, once one batch is taken and nobody asks for more."""
    table, _ = watched(root, rows_memory_limit=budget, rows_per_batch=rows_a_batch)
    with table.scan() as stream:
        taken = next(stream).num_rows
        return settled(lambda: stream.metrics.rows_decoded) - taken


def test_what_waits_to_be_taken_is_bounded_in_bytes(tmp_path: Path) -> None:
    built = TableBuilder(tmp_path, schema={"id": "long", "text": "string"})
    rows = pa.table({"id": range(20_000), "text": ["x" * 92] * 20_000})
    built.commit([put(built, f"{number}.parquet", rows) for number in range(4)])
    a_batch = 100 * 1_024
    tight = held_bytes_at_rest(tmp_path, budget=a_batch, rows_a_batch=1_024)
    wide = held_bytes_at_rest(tmp_path, budget=100 * a_batch, rows_a_batch=1_024)
    # One batch waits for its turn, each of two threads holds one more, and the first file always may.
    assert tight <= 4 * 1_024
    # Two files are under way, and four batches of each may wait.
    assert tight < wide <= 2 * 5 * 1_024


# --- a first batch before the last file is known ----------------------------------------------------------------


@pytest.fixture
def blocking() -> Iterator[Blocking]:
    made = Blocking(lambda attempt: ".checkpoint" in attempt.path and attempt.kind == "get")
    yield made
    made.released.set()


def test_a_first_batch_is_there_while_files_are_still_being_found(root: Path, blocking: Blocking) -> None:
    checkpoint = next((root / "_delta_log").glob("*.checkpoint.parquet")).name
    blocked = False

    def hook(attempt: Attempt) -> None:
        if blocked:
            blocking(attempt)

    table, store = watched(root, hook, strategy="reverse")
    table.snapshot()
    blocked = True
    stream = table.scan()
    next(stream)
    assert not stream.metrics.discovery.is_complete
    # The commits of the tail have files for some more batches; the checkpoint is asked for, and not answered.
    in_tail = TAIL * FILES_AN_HOUR
    while stream.metrics.rows < in_tail * ROWS:
        next(stream)
    assert blocking.reached.wait(PATIENCE)
    assert f"_delta_log/{checkpoint}" in store.paths("get")
    assert stream.metrics.files_found == in_tail
    blocking.released.set()
    assert sum(batch.num_rows for batch in stream) == (FILES - in_tail) * ROWS


# --- a limit ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("limit", [1, ROWS - 1, ROWS, ROWS + 1, 7 * ROWS, 21 * ROWS])
def test_a_limit_opens_as_many_files_as_it_needs(root: Path, limit: int) -> None:
    table, store = watched(root)
    stream = table.scan(limit=limit)
    assert sum(batch.num_rows for batch in stream) == limit
    settled(lambda: len(store.attempts), 0.05)
    needed = -(-limit // ROWS)
    assert len(data_files(store)) == stream.metrics.files_found == stream.metrics.files_opened == needed
    assert stream.metrics.is_complete
    assert not stream.metrics.discovery.is_complete


def test_a_limit_leaves_the_checkpoint_alone(root: Path) -> None:
    table, store = watched(root)
    table.snapshot()
    forget(store)
    assert sum(batch.num_rows for batch in table.scan(limit=30)) == 30
    assert not [path for path in store.paths("get") if ".checkpoint" in path]
    assert len([path for path in store.paths("get") if path.endswith(".json")]) <= 5


@pytest.mark.parametrize("rows", [1, 3 * FILES_AN_HOUR * ROWS])
def test_with_a_sidecar_the_newest_rows_come_first_too(tmp_path: Path, rows: int) -> None:
    """The sidecar has the oldest hours first, and all commits may be in it."""
    write(tmp_path / "table")
    build_sidecar(tmp_path / "table", rows_per_group=10)
    table, store = watched(tmp_path / "table")
    table.snapshot()
    forget(store)
    stream = table.scan(["_event_hour"], limit=rows)
    found = stream.reader().read_all()["_event_hour"]
    assert len(found) == rows
    hours = -(-FILES // FILES_AN_HOUR)
    assert found.unique().to_pylist() == [hour_name(hours - 1 - at) for at in range(len(found.unique()))]
    assert len(data_files(store)) == -(-rows // ROWS)
    assert not [path for path in store.paths("get") if ".checkpoint" in path]
    assert table.scan(["_event_hour"]).reader().read_all().num_rows == FILES * ROWS


def test_no_rows_are_no_requests(root: Path) -> None:
    table, store = watched(root)
    table.snapshot()
    forget(store)
    assert list(table.scan(limit=0)) == []
    assert not data_files(store)


def test_a_limit_on_matching_rows_looks_on_until_it_has_them(root: Path) -> None:
    table, store = watched(root)
    found = table.scan(["value"], "value < 1", limit=25).reader().read_all()
    assert found.num_rows == 25
    assert len(data_files(store)) < 25 + 20


def test_a_limit_trusts_no_statistics_that_promise_too_much(tmp_path: Path) -> None:
    built = TableBuilder(tmp_path, schema={"id": "long"})
    stats = {"numRecords": 1_000}
    for commit in range(5):
        files = [f"{commit}-{number}.parquet" for number in range(3)]
        built.commit([put(built, name, pa.table({"id": range(10)}), stats=stats) for name in files])
    for limit in (5, 35, 149, 150, 500):
        stream = DeltaTable(tmp_path).scan(limit=limit)
        assert sum(batch.num_rows for batch in stream) == min(limit, 150)
        assert stream.metrics.files_opened == min(-(-limit // 10), 15)


def test_a_limit_knows_of_deleted_rows_and_of_missing_statistics(tmp_path: Path) -> None:
    built = TableBuilder(tmp_path, schema={"id": "long"}, protocol=WITH_VECTORS)
    rows, stats = pa.table({"id": range(10)}), {"numRecords": 10}
    for number in range(8):
        built.commit([put(built, f"{number}.parquet", rows, stats=stats, dv=inline_vector(range(1, 10)))])
    stream = DeltaTable(tmp_path).scan(limit=5)
    assert [batch.num_rows for batch in stream] == [1] * 5
    assert stream.metrics.files_opened == 5
    built.commit([put(built, f"bare-{number}.parquet", rows) for number in range(3)])
    stream = DeltaTable(tmp_path).scan(limit=31)
    assert sum(batch.num_rows for batch in stream) == 31
    assert stream.metrics.files_opened >= 4


def test_few_rows_are_decoded_for_a_small_limit(tmp_path: Path) -> None:
    built = TableBuilder(tmp_path, schema={"id": "long"})
    built.commit([put(built, "a.parquet", pa.table({"id": range(100_000)}), stats=json.dumps({"numRecords": 100_000}))])
    stream = DeltaTable(tmp_path).scan(limit=3)
    assert [batch.to_pydict() for batch in stream] == [{"id": [0, 1, 2]}]
    assert stream.metrics.rows_decoded <= 6 * 1_024
