"""What DataFusion reads of a table of 10,000 small files: the files that a question needs, and no more."""

from __future__ import annotations

import gc
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import datafusion
import pyarrow as pa
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
from tests.small_files import FILES_AN_HOUR, hour_name

from delta_sidecar.connect.datafusion import register, session_context

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

Context = datafusion.SessionContext

WAYS: dict[str, Callable[[datafusion.DataFrame], int]] = {
    "collect": lambda frame: sum(batch.num_rows for batch in frame.collect()),
    "arrow table": lambda frame: frame.to_arrow_table().num_rows,
    "pandas": lambda frame: len(frame.to_pandas()),
    "stream": lambda frame: sum(batch.to_pyarrow().num_rows for batch in frame.execute_stream()),
    "arrow stream": lambda frame: pa.RecordBatchReader.from_stream(frame).read_all().num_rows,
    "iterated": lambda frame: sum(batch.to_pyarrow().num_rows for batch in frame),
}


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return many_small_files(tmp_path_factory)


@pytest.fixture
def ctx() -> Context:
    return session_context()


@pytest.fixture
def watched(root: Path, ctx: Context) -> Watched:
    """The table, registered as `t`."""
    watched = Watched(root)
    register(ctx, "t", watched.table)
    return watched


def only(ctx: Context, query: str) -> Any:  # noqa: ANN401
    (row,) = ctx.sql(query).to_pylist()
    (value,) = row.values()
    return value


def test_registering_and_planning_ask_for_nothing(ctx: Context, watched: Watched) -> None:
    watched.forget()
    ctx.sql("EXPLAIN SELECT max(value) FROM t WHERE value < 3 LIMIT 5").collect()
    assert not watched.store.attempts


@pytest.mark.parametrize("way", WAYS)
def test_ten_rows_open_a_handful_of_files(ctx: Context, watched: Watched, way: str) -> None:
    assert WAYS[way](ctx.sql("SELECT device_id, value FROM t LIMIT 10")) == 10
    assert 1 <= len(watched.opened) <= 3


def test_ten_rows_are_of_the_newest_commit(ctx: Context, watched: Watched) -> None:
    watched.forget()
    found = ctx.sql("SELECT _event_hour FROM t LIMIT 10").to_pydict()
    assert found == {"_event_hour": [hour_name(HOURS - 1)] * 10}
    assert not [attempt for attempt in watched.store.attempts if "checkpoint" in attempt.path]


def test_ten_rows_of_a_filter_open_a_handful_of_files(ctx: Context, watched: Watched) -> None:
    assert ctx.sql("SELECT device_id FROM t WHERE value < 1 LIMIT 10").to_arrow_table().num_rows == 10
    assert len(watched.opened) <= 10 + A_HANDFUL, "a file has one such row"
    watched.forget()
    assert ctx.sql("SELECT device_id FROM t WHERE value > 5 LIMIT 10").to_arrow_table().num_rows == 10
    assert len(watched.opened) <= A_HANDFUL


def test_a_filter_that_datafusion_keeps_opens_some_files(ctx: Context, watched: Watched) -> None:
    assert ctx.sql("SELECT device_id FROM t WHERE device_id LIKE '%7' LIMIT 10").to_arrow_table().num_rows == 10
    assert len(watched.opened) <= 10 + 3 * A_HANDFUL


@pytest.mark.parametrize(
    ("condition", "hours"),
    [
        (f"_event_hour = '{hour_name(7)}'", (7,)),
        (f"_event_hour IN ('{hour_name(7)}', '{hour_name(HOURS - 1)}')", (7, HOURS - 1)),
        ("event_ts >= '2026-01-21T18:00:00Z'", (HOURS - 2, HOURS - 1)),
        ("event_ts >= '2026-01-02T00:00:00Z' AND event_ts < '2026-01-02T02:00:00Z'", (24, 25)),
        ("event_ts BETWEEN '2026-01-02T00:00:00Z' AND '2026-01-02T00:59:59Z'", (24,)),
        ("event_ts < '2026-01-01T00:00:00Z'", ()),
        ("event_ts = '2026-01-01T00:00:00Z' AND event_ts = '2026-01-02T00:00:00Z'", ()),
    ],
)
def test_a_filter_on_time_opens_the_files_of_that_time(
    ctx: Context, watched: Watched, condition: str, hours: tuple[int, ...]
) -> None:
    assert only(ctx, f"SELECT count(value) FROM t WHERE {condition}") == len(hours) * FILES_AN_HOUR * ROWS  # noqa: S608
    assert watched.opened == files_of(*hours)


def test_nan_is_above_all_numbers_as_in_datafusion(ctx: Context, watched: Watched) -> None:
    hours = f"_event_hour IN ('{hour_name(2)}', '{hour_name(3)}')"
    assert only(ctx, f"SELECT count(*) FROM t WHERE {hours} AND value > 100") == FILES_AN_HOUR  # noqa: S608
    assert only(ctx, f"SELECT count(*) FROM t WHERE {hours} AND NOT (value <= 100)") == FILES_AN_HOUR  # noqa: S608
    assert len(watched.opened) == 2 * FILES_AN_HOUR


@pytest.mark.parametrize(
    ("rest", "rows"),
    [
        ("t", FILES * ROWS),
        (f"t WHERE _event_hour = '{hour_name(7)}'", FILES_AN_HOUR * ROWS),
        (f"t WHERE _event_hour > '{hour_name(HOURS - 4)}'", 3 * FILES_AN_HOUR * ROWS),
        ("t WHERE _event_hour IS NULL", 0),
        ("(SELECT 1 FROM t LIMIT 30)", 30),
    ],
)
def test_rows_are_counted_in_the_log(ctx: Context, watched: Watched, rest: str, rows: int) -> None:
    assert only(ctx, f"SELECT count(*) FROM {rest}") == rows  # noqa: S608
    assert not watched.opened


def test_rows_that_match_are_counted_in_files(ctx: Context, watched: Watched) -> None:
    query = f"SELECT count(*) FROM t WHERE _event_hour = '{hour_name(7)}' AND value < 3"  # noqa: S608
    assert only(ctx, query) == FILES_AN_HOUR * 3
    assert watched.opened == files_of(7)


# --- streaming --------------------------------------------------------------------------------------------------------


def test_the_first_rows_come_before_the_files_are_known(ctx: Context, root: Path) -> None:
    barrier = Barrier()
    watched = Watched(root, barrier)
    register(ctx, "t", watched.table)
    barrier.put_up()
    stream = ctx.sql("SELECT device_id FROM t").execute_stream()
    assert next(stream).to_pyarrow().num_rows == ROWS
    barrier.take_away()


def test_breaking_off_stops_reading(ctx: Context, watched: Watched) -> None:
    stream = ctx.sql("SELECT device_id FROM t").execute_stream()
    for _ in range(3):
        next(stream)
    del stream
    gc.collect()
    # DataFusion lets go of what it has dropped when it is called again.
    ctx.sql("SELECT 1").collect()
    await_threads()
    asked = len(watched.store.attempts)
    assert len(watched.opened) <= 3 + 2 * A_HANDFUL
    ctx.sql("SELECT 1").collect()
    assert len(watched.store.attempts) == asked


def test_a_process_ends_well_while_rows_are_left(root: Path) -> None:
    code = (
        "import sys\n"
        "from delta_sidecar.connect.datafusion import register, session_context\n"
        "ctx = session_context()\n"
        "register(ctx, 't', sys.argv[1])\n"
        "stream = ctx.sql('SELECT device_id FROM t').execute_stream()\n"
        "print(next(stream).to_pyarrow().num_rows)\n"
    )
    run = subprocess.run([sys.executable, "-c", code, root], check=False, capture_output=True, text=True)
    assert (run.returncode, run.stdout, run.stderr) == (0, "20\n", "")
