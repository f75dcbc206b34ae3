"""What DuckDB reads of a table of 10,000 small files: the files that a question needs, and no more."""

from __future__ import annotations

import gc
import subprocess
import sys
from contextlib import closing
from typing import TYPE_CHECKING, Any

import duckdb
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

from delta_sidecar.connect import duckdb as connect
from delta_sidecar.connect.duckdb import register
from delta_sidecar.events import RowScanEnded
from delta_sidecar.rows.dataset import LazyDataset

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

Connection = duckdb.DuckDBPyConnection

WAYS: dict[str, Callable[[Connection, str], object]] = {
    "fetchall": lambda con, query: con.execute(query).fetchall(),
    "fetchone": lambda con, query: [con.execute(query).fetchone() for _ in range(10)],
    "fetchmany": lambda con, query: con.execute(query).fetchmany(100),
    "relation": lambda con, query: con.sql(query).fetchall(),
    "arrow table": lambda con, query: con.sql(query).to_arrow_table().to_pylist(),
    "arrow reader": lambda con, query: con.sql(query).to_arrow_reader(3).read_all().to_pylist(),
    "pandas": lambda con, query: con.sql(query).df().to_dict("records"),
    "shown": lambda con, query: [str(con.sql(query))] * 10,
}


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return many_small_files(tmp_path_factory)


@pytest.fixture
def con() -> Iterator[Connection]:
    with duckdb.connect() as opened:
        opened.execute("SET timezone = 'UTC'")
        yield opened


@pytest.fixture
def watched(root: Path, con: Connection) -> Watched:
    """The table, registered as `t`."""
    watched = Watched(root)
    register(con, "t", watched.table)
    return watched


def count(con: Connection, condition: str) -> int:
    (found,) = con.execute(f"SELECT count(*) FROM t WHERE {condition}").fetchall()  # noqa: S608
    rows: int = found[0]
    return rows


def test_registering_and_planning_open_no_file(con: Connection, watched: Watched) -> None:
    con.execute("DESCRIBE t").fetchall()
    con.execute("EXPLAIN SELECT max(value) FROM t WHERE value < 3 LIMIT 5").fetchall()
    assert not watched.opened


@pytest.mark.parametrize("way", WAYS)
def test_ten_rows_open_a_handful_of_files(con: Connection, watched: Watched, way: str) -> None:
    found: Any = WAYS[way](con, "SELECT device_id, value FROM t LIMIT 10")
    assert len(found) == 10
    assert 1 <= len(watched.opened) <= 3


def test_ten_rows_are_of_the_newest_commit(con: Connection, watched: Watched) -> None:
    con.execute("EXPLAIN FROM t").fetchall()
    watched.forget()
    found = con.execute("SELECT _event_hour FROM t LIMIT 10").fetchall()
    assert found == [(hour_name(HOURS - 1),)] * 10
    assert not [attempt for attempt in watched.store.attempts if "checkpoint" in attempt.path]


def test_ten_rows_of_a_filter_open_a_handful_of_files(con: Connection, watched: Watched) -> None:
    assert len(con.execute("SELECT device_id FROM t WHERE value < 1 LIMIT 10").fetchall()) == 10
    assert len(watched.opened) <= 10 + A_HANDFUL, "a file has one such row"
    watched.forget()
    assert len(con.execute("SELECT device_id FROM t WHERE value > 5 LIMIT 10").fetchall()) == 10
    assert len(watched.opened) <= A_HANDFUL


def test_a_filter_that_duckdb_keeps_opens_some_files(con: Connection, watched: Watched) -> None:
    assert len(con.execute("SELECT device_id FROM t WHERE device_id LIKE '%7' LIMIT 10").fetchall()) == 10
    assert len(watched.opened) <= 10 + 3 * A_HANDFUL


@pytest.mark.parametrize(
    ("condition", "hours"),
    [
        (f"_event_hour = '{hour_name(7)}'", (7,)),
        (f"_event_hour IN ('{hour_name(7)}', '{hour_name(HOURS - 1)}')", (7, HOURS - 1)),
        ("event_ts >= '2026-01-21 18:00:00+00'", (HOURS - 2, HOURS - 1)),
        ("event_ts >= '2026-01-02 00:00:00+00' AND event_ts < '2026-01-02 02:00:00+00'", (24, 25)),
        ("event_ts BETWEEN '2026-01-02 00:00:00+00' AND '2026-01-02 00:59:59+00'", (24,)),
        ("event_ts < '2026-01-01 00:00:00+00'", ()),
    ],
)
def test_a_filter_on_time_opens_the_files_of_that_time(
    con: Connection, watched: Watched, condition: str, hours: tuple[int, ...]
) -> None:
    assert count(con, condition) == len(hours) * FILES_AN_HOUR * ROWS
    assert watched.opened == files_of(*hours)


def test_nan_is_above_all_numbers_as_in_duckdb(con: Connection, watched: Watched) -> None:
    hours = f"_event_hour IN ('{hour_name(2)}', '{hour_name(3)}')"
    assert count(con, f"{hours} AND value > 100") == FILES_AN_HOUR
    assert count(con, f"{hours} AND NOT (value <= 100)") == FILES_AN_HOUR
    assert len(watched.opened) == 2 * FILES_AN_HOUR


def test_filters_and_columns_are_handed_over(
    con: Connection, watched: Watched, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[tuple[object, str]] = []
    scanner = LazyDataset.scanner

    def spy(self: LazyDataset, columns: Any = None, filter: Any = None, **manner: Any) -> Any:  # noqa: A002, ANN401
        asked.append((columns, str(filter)))
        return scanner(self, columns, filter, **manner)

    monkeypatch.setattr(LazyDataset, "scanner", spy)
    con.execute(f"SELECT value FROM t WHERE device_id = 'device-00042' AND _event_hour = '{hour_name(2)}'").fetchall()  # noqa: S608
    assert asked == [(["value"], f'((device_id == "device-00042") and (_event_hour == "{hour_name(2)}"))')]
    (ended,) = [event for event in watched.events if isinstance(event, RowScanEnded)]
    assert (ended.rows, ended.files_opened) == (ROWS, 1)


# --- joins ------------------------------------------------------------------------------------------------------------


@pytest.fixture
def small(con: Connection) -> pa.Table:
    """Every second device, as `small`."""
    devices = pa.table({"device_id": [f"device-{number:05}" for number in range(0, FILES, 2)]})
    con.register("small", devices)
    return devices


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize("tables", ["t JOIN small", "small JOIN t"])
def test_a_join_with_a_small_table_stays_lazy(con: Connection, watched: Watched, tables: str) -> None:
    assert len(con.execute(f"SELECT value FROM {tables} USING (device_id) LIMIT 10").fetchall()) == 10  # noqa: S608
    assert len(watched.opened) <= A_HANDFUL


@pytest.mark.usefixtures("small")
def test_a_join_by_the_public_way_stays_lazy_where_duckdb_is_told_so(
    con: Connection, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connect, "_register_with_rows", lambda *_: False)
    watched = Watched(root)
    register(con, "t", watched.table)
    con.execute("SET disabled_optimizers = 'build_side_probe_side'")
    assert len(con.execute("SELECT value FROM t JOIN small USING (device_id) LIMIT 10").fetchall()) == 10
    assert len(watched.opened) <= A_HANDFUL


def test_the_rows_are_estimated_once(con: Connection, watched: Watched) -> None:
    con.execute("EXPLAIN FROM t").fetchall()
    watched.forget()
    con.execute("EXPLAIN FROM t").fetchall()
    assert not watched.store.attempts


# --- streaming --------------------------------------------------------------------------------------------------------


def test_the_first_rows_come_before_the_files_are_known(con: Connection, root: Path) -> None:
    barrier = Barrier()
    watched = Watched(root, barrier)
    register(con, "t", watched.table)
    # Planning estimates the rows, and looks at the checkpoint for that.
    con.execute("EXPLAIN FROM t").fetchall()
    con.execute("SET streaming_buffer_size = '1KB'")
    barrier.put_up()
    with closing(con.sql("SELECT device_id FROM t").to_arrow_reader(ROWS)) as reader:
        assert reader.read_next_batch().num_rows == ROWS
        barrier.take_away()


def test_breaking_off_stops_reading(con: Connection, watched: Watched) -> None:
    con.execute("SET streaming_buffer_size = '1KB'")
    reader = con.sql("SELECT device_id FROM t").to_arrow_reader(ROWS)
    for _ in range(3):
        reader.read_next_batch()
    reader.close()
    del reader
    gc.collect()
    await_threads()
    asked = len(watched.store.attempts)
    assert len(watched.opened) <= 5 * A_HANDFUL
    con.execute("SELECT 1").fetchall()
    assert len(watched.store.attempts) == asked


def test_another_query_stops_the_one_before(con: Connection, watched: Watched) -> None:
    con.execute("SET streaming_buffer_size = '1KB'")
    con.execute("SELECT device_id FROM t").fetchone()
    con.execute("SELECT 1").fetchall()
    await_threads()
    assert len(watched.opened) <= 5 * A_HANDFUL


def test_a_process_ends_well_while_rows_are_left(root: Path) -> None:
    code = (
        "import sys, duckdb\n"
        "from delta_sidecar.connect.duckdb import register\n"
        "with duckdb.connect() as con:\n"
        "    register(con, 't', sys.argv[1])\n"
        "    reader = con.sql('SELECT device_id FROM t').to_arrow_reader(10)\n"
        "    print(reader.read_next_batch().num_rows)\n"
    )
    run = subprocess.run([sys.executable, "-c", code, root], check=False, capture_output=True, text=True)
    assert (run.returncode, run.stdout, run.stderr) == (0, "10\n", "")
