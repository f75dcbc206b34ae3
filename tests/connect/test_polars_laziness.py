"""What Polars reads of a table of 10,000 small files: the files that a question needs, and no more."""

from __future__ import annotations

import datetime as dt
import subprocess
import sys
import threading
import time
from typing import TYPE_CHECKING

import polars as pl
import pytest
from tests.own_threads import own_threads
from tests.small_files import FILES_AN_HOUR, START, hour_name, small_files

from delta_sidecar import DeltaTable
from delta_sidecar.connect.polars import scan_delta
from delta_sidecar.store import open_store
from delta_sidecar.store.testing import RecordingStore

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from polars._typing import EngineType

    from delta_sidecar.store.testing import Attempt

FILES = 10_000
ROWS = 20
HOURS = FILES // FILES_AN_HOUR
A_HANDFUL = 12
ENGINES: list[EngineType] = ["in-memory", "streaming"]

c = pl.col
each_engine = pytest.mark.parametrize("engine", ENGINES)


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("small-files") / "t"
    small_files(root, FILES, ROWS)
    return root


class Watched:
    """The table, and what is asked of its store."""

    def __init__(self, root: Path, hook: Callable[[Attempt], None] | None = None) -> None:
        self.store = RecordingStore(open_store(root), hook)
        self.frame = scan_delta(DeltaTable(root, store=self.store))

    @property
    def opened(self) -> set[str]:
        """The data files of which something was asked."""
        return {attempt.path for attempt in list(self.store.attempts) if is_data(attempt)}


def is_data(attempt: Attempt) -> bool:
    return attempt.path.endswith(".parquet") and not attempt.path.startswith("_delta_log")


@pytest.fixture
def watched(root: Path) -> Watched:
    return Watched(root)


def folder(hour: int) -> str:
    return f"_event_hour={hour_name(hour)}/"


def test_making_a_frame_opens_no_file(watched: Watched) -> None:
    assert watched.frame.collect_schema().names() == ["device_id", "event_ts", "value", "_event_hour"]
    assert "DELTA" in watched.frame.filter(c("value") > 1).explain()
    assert not watched.opened


@each_engine
def test_ten_rows_are_had_of_one_file(watched: Watched, engine: EngineType) -> None:
    before = len(watched.store.attempts)
    assert watched.frame.head(10).collect(engine=engine).height == 10
    assert len(watched.opened) == 1
    assert not [attempt for attempt in watched.store.attempts[before:] if "checkpoint" in attempt.path]


@each_engine
def test_ten_rows_of_some_columns_are_had_of_one_file(watched: Watched, engine: EngineType) -> None:
    few = watched.frame.select("value", x=c("device_id")).limit(10)
    assert few.collect(engine=engine).columns == ["value", "x"]
    assert len(watched.opened) == 1


@each_engine
def test_rows_that_are_filtered_afterwards_are_had_of_few_files(watched: Watched, engine: EngineType) -> None:
    watched.frame.head(50).filter(c("value") > 5).collect(engine=engine)
    assert len(watched.opened) <= 4


def test_ten_matching_rows_open_a_handful_of_files(watched: Watched) -> None:
    assert watched.frame.filter(c("value") > 5).head(10).collect(engine="streaming").height == 10
    assert len(watched.opened) <= A_HANDFUL


def test_ten_rows_of_a_function_open_a_handful_of_files(watched: Watched) -> None:
    even = watched.frame.filter(c("device_id").str.len_chars() == 12).head(10)
    assert even.collect(engine="streaming").height == 10
    assert len(watched.opened) <= A_HANDFUL


@each_engine
def test_a_filter_on_time_opens_the_files_of_that_time(watched: Watched, engine: EngineType) -> None:
    begin = START + dt.timedelta(hours=100)
    inside = c("event_ts").is_between(begin, begin + dt.timedelta(hours=2), closed="left")
    assert watched.frame.filter(inside).collect(engine=engine).height == 2 * FILES_AN_HOUR * ROWS
    assert {path.partition("/")[0] + "/" for path in watched.opened} == {folder(100), folder(101)}
    assert len(watched.opened) == 2 * FILES_AN_HOUR


@each_engine
@pytest.mark.parametrize(
    ("predicate", "files", "rows"),
    [
        (c("_event_hour") == hour_name(7), FILES_AN_HOUR, FILES_AN_HOUR * ROWS),
        (c("_event_hour").is_in([hour_name(7), hour_name(HOURS - 1)]), 2 * FILES_AN_HOUR, 2 * FILES_AN_HOUR * ROWS),
        (c("_event_hour").str.ends_with("0523"), FILES_AN_HOUR, FILES_AN_HOUR * ROWS),
        (c("device_id") == "device-00042", 1, ROWS),
        (c("device_id").str.starts_with("device-0004"), 10, 10 * ROWS),
        (~(c("device_id") < "device-09995") & (c("value") < 2), 5, 10),
        (c("event_ts") >= pl.datetime(2026, 1, 21, 19, time_zone="UTC"), FILES_AN_HOUR, FILES_AN_HOUR * ROWS),
        (c("event_ts") < START, 0, 0),
        (pl.lit(value=False), 0, 0),
    ],
)
def test_a_filter_opens_the_files_that_may_match(
    watched: Watched, engine: EngineType, predicate: pl.Expr, files: int, rows: int
) -> None:
    assert watched.frame.filter(predicate).select(pl.len()).collect(engine=engine).item() == rows
    assert len(watched.opened) == files


def test_nan_is_above_all_numbers_as_in_polars(watched: Watched) -> None:
    hours = c("_event_hour").is_in([hour_name(2), hour_name(3)])
    found = watched.frame.filter(hours, c("value") > 100).collect()
    assert found["_event_hour"].unique().to_list() == [hour_name(3)]
    assert found.height == FILES_AN_HOUR
    assert found["value"].is_nan().all()


def test_the_first_rows_come_before_the_files_are_known(root: Path) -> None:
    opening = threading.Event()
    came_first = threading.Event()

    def wait(attempt: Attempt) -> None:
        if "checkpoint.parquet" in attempt.path and not opening.is_set():
            assert came_first.wait(60), "no row before the checkpoint was read"

    opening.set()
    watched = Watched(root, wait)
    opening.clear()
    batches = iter(watched.frame.collect_batches(chunk_size=ROWS))
    assert next(batches).height == ROWS
    came_first.set()
    del batches


def test_breaking_off_stops_reading(watched: Watched) -> None:
    batches = iter(watched.frame.collect_batches(chunk_size=ROWS))
    for _ in range(3):
        next(batches)
    del batches
    deadline = time.monotonic() + 60
    while own_threads():
        assert time.monotonic() < deadline, "a scan that nobody takes from goes on"
        # What Polars has dropped it lets go of when it is called again.
        pl.select(1)
        time.sleep(0.01)
    assert len(watched.opened) <= 3 + A_HANDFUL


def test_a_process_ends_well_while_polars_still_asks_for_rows(root: Path) -> None:
    code = (
        "import sys, polars as pl\n"
        "from delta_sidecar.connect.polars import scan_delta\n"
        "frame = scan_delta(sys.argv[1])\n"
        "print(frame.filter(pl.col('value') > 3).head(10).collect(engine='streaming').height)\n"
        "next(iter(frame.collect_batches(chunk_size=10)))\n"
    )
    run = subprocess.run([sys.executable, "-c", code, root], check=False, capture_output=True, text=True)
    assert (run.returncode, run.stdout, run.stderr) == (0, "10\n", "")
