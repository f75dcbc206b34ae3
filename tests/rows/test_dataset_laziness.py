"""What a dataset reads of a table of 10,000 small files: the files that a question needs, and no more."""

from __future__ import annotations

import gc
from itertools import islice
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from tests.connect.watching import (
    A_HANDFUL,
    FILES,
    HOURS,
    ROWS,
    Barrier,
    Watched,
    files_of,
    many_small_files,
)
from tests.own_threads import await_threads
from tests.small_files import FILES_AN_HOUR, START, hour_name

from delta_sidecar import ScanClosedError

if TYPE_CHECKING:
    from pathlib import Path

    from delta_sidecar.rows.dataset import LazyDataset

HOUR = pc.field("_event_hour")


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return many_small_files(tmp_path_factory)


@pytest.fixture
def watched(root: Path) -> Watched:
    return Watched(root)


@pytest.fixture
def dataset(watched: Watched) -> LazyDataset:
    made: LazyDataset = watched.table.to_pyarrow_dataset()
    watched.forget()
    return made


def test_asking_reads_nothing(dataset: LazyDataset, watched: Watched) -> None:
    narrowed = dataset.filter(pc.field("value") > 3)
    scanner = narrowed.scanner(columns=["value"], filter=HOUR == "x")
    scanner.to_batches()
    scanner.to_reader()
    narrowed.get_fragments()
    assert scanner.projected_schema.names == ["value"]
    assert not watched.store.attempts


def test_ten_rows_are_had_of_one_file(dataset: LazyDataset, watched: Watched) -> None:
    assert dataset.head(10).num_rows == 10
    assert len(watched.opened) == 1


def test_the_first_batch_opens_a_handful_of_files(dataset: LazyDataset, watched: Watched) -> None:
    for stream in (
        dataset.to_batches(),
        dataset.scanner().to_reader(),
        pa.RecordBatchReader.from_stream(dataset.scanner()),
    ):
        watched.store.attempts.clear()
        assert next(iter(stream)).num_rows == ROWS
        assert len(watched.opened) <= A_HANDFUL


def test_rows_by_their_places_are_read_up_to_the_last(dataset: LazyDataset, watched: Watched) -> None:
    assert dataset.take([0, 2 * ROWS]).num_rows == 2
    assert len(watched.opened) <= A_HANDFUL


@pytest.mark.parametrize(
    ("condition", "hours"),
    [
        (pc.equal(HOUR, hour_name(7)), (7,)),
        (HOUR.isin([hour_name(7), hour_name(HOURS - 1)]), (7, HOURS - 1)),
        (pc.field("event_ts") >= pa.scalar(START.replace(day=21, hour=18)), (HOURS - 2, HOURS - 1)),
        ((hour_name(3) == HOUR) & (pc.field("device_id") > "a"), (3,)),
        (pc.field("event_ts") < pa.scalar(START), ()),
    ],
)
def test_a_filter_on_time_opens_the_files_of_that_time(
    dataset: LazyDataset, watched: Watched, condition: pc.Expression, hours: tuple[int, ...]
) -> None:
    assert dataset.to_table(filter=condition).num_rows == len(hours) * FILES_AN_HOUR * ROWS
    assert watched.opened == files_of(*hours)
    assert {fragment.path for fragment in dataset.get_fragments(condition)} == files_of(*hours)


def test_rows_are_counted_in_the_log(dataset: LazyDataset, watched: Watched) -> None:
    assert dataset.count_rows() == FILES * ROWS
    assert dataset.count_rows(filter=hour_name(2) >= HOUR) == 3 * FILES_AN_HOUR * ROWS
    assert dataset.to_table(columns=[], filter=hour_name(2) == HOUR).num_rows == FILES_AN_HOUR * ROWS
    assert not watched.opened


def test_fragments_come_before_the_files_are_known(root: Path) -> None:
    barrier = Barrier()
    dataset = Watched(root, barrier).table.to_pyarrow_dataset()
    barrier.put_up()
    fragments = dataset.get_fragments()
    paths = {fragment.path for fragment in islice(fragments, FILES_AN_HOUR)}
    assert paths == files_of(HOURS - 1)
    barrier.take_away()
    fragments.close()


def test_the_first_rows_come_before_the_files_are_known(root: Path) -> None:
    barrier = Barrier()
    dataset = Watched(root, barrier).table.to_pyarrow_dataset()
    barrier.put_up()
    batches = dataset.to_batches()
    assert next(batches).num_rows == ROWS
    barrier.take_away()
    batches.close()


def test_a_fragment_reads_its_file_alone(dataset: LazyDataset, watched: Watched) -> None:
    fragments = dataset.get_fragments()
    second = list(islice(fragments, 2))[1]
    fragments.close()
    watched.forget()
    assert second.head(3).num_rows == 3
    assert watched.opened == {second.path}


@pytest.mark.parametrize("way", ["close", "drop", "drop the reader"])
def test_breaking_off_stops_reading(dataset: LazyDataset, watched: Watched, way: str) -> None:
    stream = iter(dataset.scanner().to_reader() if way == "drop the reader" else dataset.to_batches())
    for _ in range(3):
        next(stream)
    if way == "close":
        stream.close()  # type: ignore[attr-defined]
    del stream
    gc.collect()
    await_threads()
    asked = len(watched.store.attempts)
    assert len(watched.opened) <= 3 + A_HANDFUL
    await_threads()
    assert len(watched.store.attempts) == asked


def test_closing_the_table_stops_its_datasets(dataset: LazyDataset, watched: Watched) -> None:
    batches = dataset.to_batches()
    next(batches)
    watched.table.close()
    with pytest.raises(ScanClosedError):
        list(batches)
    await_threads()
    assert len(watched.opened) <= A_HANDFUL
