from __future__ import annotations

import io
import random
import uuid
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from delta_sidecar.execute.parquet.sparse import SparseFile, Window
from delta_sidecar.store import TripClock, open_store, run_in
from delta_sidecar.store.testing import RecordingStore

if TYPE_CHECKING:
    from collections.abc import Iterator

SIZE = 300_000
CONTENT = random.Random(7).randbytes(SIZE)  # noqa: S311 - repeatable, not secret
PATIENTLY = settings(deadline=None, max_examples=20, suppress_health_check=[HealthCheck.function_scoped_fixture])

RANGES = st.lists(st.tuples(st.integers(0, SIZE), st.integers(0, 60_000)).map(lambda r: (r[0], min(r[0] + r[1], SIZE))))
READS = st.lists(
    st.one_of(
        st.tuples(st.just("read"), st.integers(-1, 50_000), st.just(0)),
        st.tuples(st.just("seek"), st.integers(0, SIZE + 10), st.just(0)),
        st.tuples(st.just("back"), st.integers(0, SIZE), st.just(2)),
        st.tuples(st.just("at"), st.integers(0, SIZE), st.integers(0, SIZE)),
    ),
    max_size=12,
)


@pytest.fixture
def store() -> RecordingStore:
    # One for each test: what an earlier one reads ahead may still be under way.
    inner = open_store(f"memory://{uuid.uuid4().hex}")
    inner.put("f", CONTENT)
    return RecordingStore(inner)


@pytest.fixture(scope="module")
def pool() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(2) as threads:
        yield threads


@PATIENTLY
@given(RANGES, RANGES, st.lists(st.tuples(st.integers(0, 5), st.integers(1, 70_000)), max_size=2), READS)
def test_any_reads_are_those_of_the_file(
    store: RecordingStore,
    pool: ThreadPoolExecutor,
    loaded: list[tuple[int, int]],
    kept: list[tuple[int, int]],
    windows: list[tuple[int, int]],
    reads: list[tuple[str, int, int]],
) -> None:
    sparse = SparseFile(store, "f", SIZE, pool)
    plain = io.BytesIO(CONTENT)
    sparse.load([span for span in loaded if span[0] < span[1]])
    for start, end in kept:
        sparse.keep(start, CONTENT[start:end])
    if windows:
        width = windows[0][1]
        starts = {number * 50_000 for number, _ in windows}
        sparse.load((), [Window(start, start + 50_000, min(width * 2, 50_000), width) for start in starts])
    for verb, first, second in reads:
        if verb == "read":
            assert sparse.read(first) == plain.read(first)
        elif verb == "at":
            low, high = sorted((first, second))
            assert sparse.read_at(low, high) == CONTENT[low:high]
        elif verb == "back":
            assert sparse.seek(-first, 2) == plain.seek(-first, 2)
        else:
            assert sparse.seek(first) == plain.seek(first)
        assert sparse.tell() == plain.tell()


@PATIENTLY
@given(st.integers(1, 40_000), st.lists(st.integers(1, 30_000), max_size=20))
def test_a_window_gives_a_range_from_its_start_to_its_end(
    store: RecordingStore, pool: ThreadPoolExecutor, width: int, steps: list[int]
) -> None:
    start, end = 1_000, 250_000
    sparse = SparseFile(store, "f", SIZE, pool)
    sparse.load((), [Window(start, end, width, width)])
    position = start
    for step in steps:
        sparse.seek(position)
        length = min(step, end - position)
        assert sparse.read(length) == CONTENT[position : position + length]
        position += length


def test_what_was_loaded_is_not_asked_for_again(store: RecordingStore, pool: ThreadPoolExecutor) -> None:
    sparse = SparseFile(store, "f", SIZE, pool)
    before = len(store.attempts)
    sparse.load([(0, 1_000), (1_000, 2_000), (200_000, 201_000)])
    asked = store.attempts[before:]
    assert [(attempt.start, attempt.end) for attempt in asked] == [(0, 1_000), (1_000, 2_000), (200_000, 201_000)]
    for start in (0, 500, 1_900, 200_500):
        sparse.seek(start)
        assert sparse.read(100) == CONTENT[start : start + 100]
    sparse.load([(100, 900)])
    assert len(store.attempts) == before + 3


def test_ranges_that_are_loaded_together_are_one_trip(store: RecordingStore, pool: ThreadPoolExecutor) -> None:
    clock = TripClock(3)

    def load() -> None:
        sparse = SparseFile(store, "f", SIZE, pool)
        sparse.load([(0, 10), (100_000, 100_010), (290_000, 290_010)])
        sparse.seek(100_000)
        sparse.read(10)

    run_in(clock, load)
    assert clock.depth in (3, 4), "a store that is not bound to a scan counts nothing"


def test_it_is_closed(store: RecordingStore, pool: ThreadPoolExecutor) -> None:
    sparse = SparseFile(store, "f", SIZE, pool)
    sparse.close()
    assert sparse.closed
