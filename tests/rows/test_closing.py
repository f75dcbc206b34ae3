"""Streams and tables that are closed while somebody still reads: who takes on hears of it, and nothing is left."""

from __future__ import annotations

import gc
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from tests.builder import TableBuilder, add
from tests.own_threads import PATIENCE, await_threads, own_threads
from tests.rows.tables import put
from tests.rows.watching import FILES, ROWS, Blocking, watched

from delta_sidecar import DeltaTable, RowMetrics, ScanClosedError, UnreadableFileError
from delta_sidecar.events import RowScanEnded

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path
    from typing import Any

    from delta_sidecar.rows.dataset import FileFragment


LARGE = pc.field("value") > 1


class OddError(Exception):
    """Nothing that anybody expects."""


pytestmark = pytest.mark.usefixtures("no_thread_is_left")


def test_what_is_left_of_a_closed_stream_is_an_error_and_not_nothing(root: Path) -> None:
    with DeltaTable(root).scan() as stream:
        reader = stream.reader()
        reader.read_next_batch()
    with pytest.raises(ScanClosedError, match="take all of it first"):
        reader.read_all()
    with DeltaTable(root).scan() as stream:
        assert stream.read_all().num_rows == FILES * ROWS
    assert next(stream, None) is None
    assert DeltaTable(root).scan().reader().read_all().num_rows == FILES * ROWS


@pytest.mark.parametrize("by", ["the table", "the stream"])
def test_who_stops_it_from_inside_ends_it_too(root: Path, by: str) -> None:
    """The consumer is in the stream when it is stopped, and finds out with the next batch."""
    told: list[object] = []
    table = DeltaTable(root, listeners=[told.append])

    def progress(metrics: RowMetrics) -> None:
        if metrics.batches == 3:
            (table if by == "the table" else stream).close()

    stream = table.scan(progress=progress)
    before = own_threads()
    gc.disable()
    try:
        with pytest.raises(ScanClosedError):
            list(stream)
        await_threads(before)
    finally:
        gc.enable()
    (ended,) = [event for event in told if isinstance(event, RowScanEnded)]
    assert ended.outcome == "stopped"


@pytest.mark.parametrize("taken", [0, 3])
def test_a_scan_that_is_cancelled_says_so_in_its_own_words(root: Path, taken: int) -> None:
    """A table that is closed cancels the scan before the stream, or after it."""
    stream = DeltaTable(root).scan()
    for _ in range(taken):
        next(stream)
    stream._scan.cancel()
    for _ in range(2):
        with pytest.raises(ScanClosedError):
            list(stream)


def test_two_who_take_from_one_stream_both_hear_of_it(root: Path) -> None:
    inside, go_on = threading.Event(), threading.Event()

    def progress(_: object) -> None:
        inside.set()
        go_on.wait(PATIENCE)

    stream = DeltaTable(root).scan(progress=progress)
    with ThreadPoolExecutor(1) as pool:
        first = pool.submit(list, stream)
        assert inside.wait(PATIENCE)
        with pytest.raises(ScanClosedError, match="two take from one stream"):
            next(stream)
        go_on.set()
        with pytest.raises(ScanClosedError, match="two take from one stream"):
            first.result(PATIENCE)


@pytest.mark.parametrize(
    ("folder", "read"),
    [
        pytest.param("_delta_log/", lambda table: table.scan().read_all(), id="what is being opened"),
        pytest.param("_event_hour", lambda table: first_fragment(table).to_table(), id="a fragment"),
        pytest.param("_event_hour", lambda table: first_fragment(table).count_rows(filter=LARGE), id="a count"),
    ],
)
def test_closing_a_table_ends_all_that_reads_it(root: Path, folder: str, read: Callable[[DeltaTable], Any]) -> None:
    blocking = Blocking(lambda attempt: attempt.path.startswith(folder))
    is_made = False
    table, _ = watched(root, lambda attempt: blocking(attempt) if is_made else None)
    is_made = True
    with ThreadPoolExecutor(1) as pool:
        try:
            waiting = pool.submit(read, table)
            assert blocking.reached.wait(PATIENCE)
            table.close()
        finally:
            blocking.released.set()
        with pytest.raises(ScanClosedError):
            waiting.result(PATIENCE)


def first_fragment(table: DeltaTable) -> FileFragment:
    return next(table.to_pyarrow_dataset().get_fragments())


def test_an_error_while_telling_does_not_hide_another(tmp_path: Path) -> None:
    built = TableBuilder(tmp_path, schema={"id": "long"})
    built.commit([put(built, "a.parquet", pa.table({"id": [1]})), add("gone.parquet")])
    told: list[int] = []

    def progress(metrics: RowMetrics) -> None:
        if metrics.batches in told:
            raise OddError
        told.append(metrics.batches)

    with pytest.raises(UnreadableFileError, match=r"gone\.parquet"):
        list(DeltaTable(tmp_path).scan(progress=progress))
    assert told == [1]
    whole = DeltaTable(tmp_path).scan(limit=1, progress=progress)
    told.clear()
    next(whole)
    with pytest.raises(OddError):
        whole.close()
