"""`register`: a table as DuckDB sees it, the rows that it finds there, and what it says when something is wrong."""

from __future__ import annotations

import subprocess
import sys
import threading
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import duckdb
import pyarrow as pa
import pytest
from deltalake import write_deltalake
from hypothesis import given, settings
from tests.builder import TableBuilder
from tests.connect import odd_rows
from tests.small_files import small_files

from delta_sidecar import DeltaTable, OptionError, TableNotFoundError, UnreadableFileError, VersionNotFoundError
from delta_sidecar.connect import duckdb as connect
from delta_sidecar.connect.duckdb import register
from delta_sidecar.store import open_store

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.azurite import Azurite

EXAMPLE = Path(__file__).parents[2] / "examples" / "duckdb_query.py"


@pytest.fixture
def con() -> Iterator[duckdb.DuckDBPyConnection]:
    with duckdb.connect() as opened:
        yield opened


@pytest.fixture
def table(tmp_path: Path) -> Path:
    """Two commits of three rows each."""
    root = tmp_path / "t"
    for first in (0, 3):
        rows = {"id": range(first, first + 3), "name": [f"n{number}" for number in range(first, first + 3)]}
        write_deltalake(root, pa.table(rows), mode="append")
    return root


@contextmanager
def only_public_ways() -> Iterator[None]:
    """Has DuckDB look as if it had no entrance but the public one."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(connect, "_register_with_rows", lambda *_: False)
        yield


def test_a_table_is_a_view(con: duckdb.DuckDBPyConnection, table: Path) -> None:
    register(con, "t", table)
    assert con.execute("SELECT * FROM t ORDER BY id").fetchall() == [(number, f"n{number}") for number in range(6)]
    assert con.execute("SELECT name FROM t WHERE id = 4").fetchall() == [("n4",)]
    assert con.execute("SELECT count(*), max(name) FROM t").fetchall() == [(6, "n5")]
    assert con.execute("DESCRIBE t").fetchall()[0][:2] == ("id", "BIGINT")


def test_an_address_and_a_table_are_taken(con: duckdb.DuckDBPyConnection, table: Path) -> None:
    for given_as in (table, str(table), f"file://{table}", DeltaTable(table)):
        register(con, "t", given_as)
        assert con.execute("SELECT count(*) FROM t").fetchall() == [(6,)]


def test_a_table_meets_itself(con: duckdb.DuckDBPyConnection, table: Path) -> None:
    register(con, "t", table)
    assert con.execute("SELECT count(*) FROM t a JOIN t b USING (id) WHERE b.id > 1").fetchall() == [(4,)]
    assert con.execute("SELECT count(*) FROM t a, t b WHERE a.id < b.id").fetchall() == [(15,)]


def test_cursors_read_at_once(con: duckdb.DuckDBPyConnection, table: Path) -> None:
    opened = DeltaTable(table)
    answers: list[Any] = []

    def ask(number: int) -> None:
        with con.cursor() as cursor:
            register(cursor, f"t{number}", opened)
            query = f"SELECT sum(id), count(*) FROM t{number} WHERE id > 1"  # noqa: S608
            answers.extend(cursor.execute(query).fetchall() for _ in range(5))

    threads = [threading.Thread(target=ask, args=(number,)) for number in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert answers == [[(14, 4)]] * 30


def test_one_dataset_serves_many_connections(table: Path) -> None:
    with duckdb.connect() as first, duckdb.connect() as second:
        dataset = register(first, "t", table)
        second.register("t", dataset)
        readers = [con.sql("SELECT id FROM t").to_arrow_reader(1) for con in (first, second)]
        assert [sum(batch.num_rows for batch in reader) for reader in readers] == [6, 6]


def test_a_view_goes_and_comes(con: duckdb.DuckDBPyConnection, table: Path, tmp_path: Path) -> None:
    register(con, "t", table)
    con.unregister("t")
    with pytest.raises(duckdb.CatalogException):
        con.execute("FROM t")
    register(con, "t", table)
    write_deltalake(tmp_path / "other", pa.table({"x": [1]}))
    register(con, "t", tmp_path / "other")
    assert con.execute("FROM t").fetchall() == [(1,)]


# --- versions ---------------------------------------------------------------------------------------------------------


def test_a_view_stays_at_its_version(con: duckdb.DuckDBPyConnection, table: Path) -> None:
    opened = DeltaTable(table)
    register(con, "t", opened)
    register(con, "first", opened, version=0)
    write_deltalake(table, pa.table({"id": [6], "name": ["n6"]}), mode="append")
    assert con.execute("SELECT count(*) FROM t").fetchall() == [(6,)]
    opened.update_incremental()
    assert con.execute("SELECT (SELECT count(*) FROM t), (SELECT count(*) FROM first)").fetchall() == [(6, 3)]
    register(con, "t", opened)
    assert con.execute("SELECT count(*) FROM t").fetchall() == [(7,)]
    assert opened.version() == 2


# --- rows -------------------------------------------------------------------------------------------------------------


def test_a_table_without_files_has_no_rows(con: duckdb.DuckDBPyConnection, tmp_path: Path) -> None:
    TableBuilder(tmp_path, schema={"id": "long"}).commit([])
    register(con, "t", tmp_path)
    assert con.execute("FROM t").fetchall() == []
    assert con.execute("SELECT count(*), max(id) FROM t").fetchall() == [(0, None)]


@pytest.fixture(scope="module")
def odd(tmp_path_factory: pytest.TempPathFactory) -> Iterator[duckdb.DuckDBPyConnection]:
    """One connection with the same rows in memory, in a table, and in a table by the public way."""
    root = tmp_path_factory.mktemp("odd")
    odd_rows.write(root)
    with duckdb.connect() as con:
        con.execute("SET timezone = 'UTC'")
        con.register("m", odd_rows.rows())
        register(con, "t", root)
        with only_public_ways():
            register(con, "public", root)
        yield con


@pytest.mark.full
@settings(max_examples=60)
@given(odd_rows.conditions("TIMESTAMPTZ '{}'", "'NaN'::DOUBLE"))
def test_every_condition_has_the_rows_that_it_has_in_memory(odd: duckdb.DuckDBPyConnection, condition: str) -> None:
    found = {
        name: odd_rows.places(odd.sql(f"SELECT row FROM {name} WHERE {condition}").to_arrow_table())  # noqa: S608
        for name in ("m", "t", "public")
    }
    assert found["t"] == found["m"]
    assert found["public"] == found["m"]


JOINS = [
    "SELECT count(*) FROM {t} a JOIN m b USING (row)",
    "SELECT count(*) FROM m a LEFT JOIN {t} b ON a.row = b.i",
    "SELECT i, count(*) FROM {t} GROUP BY i ORDER BY i",
    "SELECT row FROM {t} ORDER BY row DESC LIMIT 3",
    "SELECT count(*) FROM (FROM {t} LIMIT 20)",
    "SELECT count(*) FROM (FROM {t} OFFSET 20)",
    "SELECT count(*) FROM {t} WHERE row IN (SELECT i FROM m)",
    "SELECT count(*) FROM {t} a, {t} b WHERE a.row < b.row",
]


@pytest.mark.parametrize("rows", [None, 0, 1, 25, 10**12])
def test_an_estimate_of_the_rows_changes_no_answer(
    odd: duckdb.DuckDBPyConnection, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, rows: int | None
) -> None:
    odd_rows.write(tmp_path)
    monkeypatch.setattr(connect, "_estimated_rows", lambda _: rows)
    register(odd, "guessed", tmp_path)
    for query in JOINS:
        assert odd.execute(query.format(t="guessed")).fetchall() == odd.execute(query.format(t="m")).fetchall()
    plan = odd.execute("EXPLAIN FROM guessed").fetchall()[0][1]
    assert rows in (None, 0, 1) or f"{rows:,} rows" in plan
    odd.unregister("guessed")


class Changed:
    """A connection whose private entrance takes something else."""

    def __init__(self, con: duckdb.DuckDBPyConnection) -> None:
        self.register = con.register

    def _register_arrow_source(self, *_: object) -> None:
        msg = "not such a source"
        raise TypeError(msg)


def test_where_the_private_entrance_has_changed_the_public_one_serves(
    con: duckdb.DuckDBPyConnection, table: Path
) -> None:
    register(Changed(con), "t", table)  # type: ignore[arg-type]
    assert con.execute("SELECT count(*) FROM t").fetchall() == [(6,)]


# --- errors -----------------------------------------------------------------------------------------------------------


def test_what_cannot_be_opened_is_refused(con: duckdb.DuckDBPyConnection, table: Path, tmp_path: Path) -> None:
    with pytest.raises(TableNotFoundError):
        register(con, "t", tmp_path / "nothing")
    with pytest.raises(VersionNotFoundError):
        register(con, "t", table, version=9)
    with pytest.raises(OptionError, match="has its own options: give them to it"):
        register(con, "t", DeltaTable(table), options={"rows_per_batch": 1})


def test_a_file_that_is_gone_is_named(con: duckdb.DuckDBPyConnection, table: Path) -> None:
    (gone, *_) = table.glob("*.parquet")
    gone.unlink()
    dataset = register(con, "t", table)
    assert dataset.last_error is None
    with pytest.raises(duckdb.Error, match=f"data file {gone.name} of the table is not there"):
        con.execute("SELECT max(id) FROM t").fetchall()
    assert isinstance(dataset.last_error, UnreadableFileError)
    assert dataset.last_error.path == gone.name


@pytest.mark.azurite
def test_no_error_tells_a_secret(con: duckdb.DuckDBPyConnection, azurite: Azurite, table: Path) -> None:
    sas = azurite.account_sas()
    options = {"account_name": azurite.account, "sas_key": sas, "endpoint": azurite.endpoint}
    address = f"az://{azurite.create_container()}/t"
    store = open_store(address, options)
    (gone, *_) = table.glob("*.parquet")
    for path in table.rglob("*.*"):
        if path != gone:
            store.put(path.relative_to(table).as_posix(), path.read_bytes())
    dataset = register(con, "t", address, storage_options=options)
    with pytest.raises(duckdb.Error, match=gone.name) as failure:
        con.execute("SELECT max(id) FROM t").fetchall()
    signature = sas.rpartition("sig=")[2][:12]
    assert signature not in f"{failure.value} {dataset.last_error!r} {dataset!r}"


def test_the_example_runs(tmp_path: Path) -> None:
    small_files(tmp_path / "t", files=200)
    run = subprocess.run([sys.executable, EXAMPLE, tmp_path / "t"], check=True, capture_output=True, text=True)
    assert run.stderr == ""
    assert "device-00199" in run.stdout
