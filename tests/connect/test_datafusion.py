"""Tables in DataFusion: by name and by address, the rows that it finds, and what it says when something is wrong."""

from __future__ import annotations

import subprocess
import sys
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Any

import datafusion
import pyarrow as pa
import pytest
from deltalake import write_deltalake
from hypothesis import given, settings
from tests.builder import TableBuilder
from tests.connect import odd_rows
from tests.small_files import small_files

from delta_sidecar import DeltaTable, OptionError, TableNotFoundError, UnreadableFileError, VersionNotFoundError
from delta_sidecar.connect.datafusion import register, register_delta_function, session_context
from delta_sidecar.store import open_store

if TYPE_CHECKING:
    from tests.azurite import Azurite

EXAMPLE = Path(__file__).parents[2] / "examples" / "datafusion_query.py"


@pytest.fixture
def ctx() -> datafusion.SessionContext:
    return session_context()


@pytest.fixture
def table(tmp_path: Path) -> Path:
    """Two commits of three rows each."""
    root = tmp_path / "t"
    for first in (0, 3):
        rows = {"id": range(first, first + 3), "name": [f"n{number}" for number in range(first, first + 3)]}
        write_deltalake(root, pa.table(rows), mode="append")
    return root


def answer(ctx: datafusion.SessionContext, query: str) -> list[tuple[Any, ...]]:
    return [tuple(row.values()) for row in ctx.sql(query).to_pylist()]


def test_a_table_has_a_name(ctx: datafusion.SessionContext, table: Path) -> None:
    register(ctx, "t", table)
    assert answer(ctx, "SELECT * FROM t ORDER BY id") == [(number, f"n{number}") for number in range(6)]
    assert answer(ctx, "SELECT name FROM t WHERE id = 4") == [("n4",)]
    assert answer(ctx, "SELECT count(*), max(name) FROM t") == [(6, "n5")]
    assert ctx.table("t").filter(datafusion.col("id") > 3).count() == 2


def test_an_address_and_a_table_are_taken(ctx: datafusion.SessionContext, table: Path) -> None:
    for given_as in (table, str(table), f"file://{table}", DeltaTable(table)):
        register(ctx, "t", given_as)
        assert answer(ctx, "SELECT count(*) FROM t") == [(6,)]


def test_a_table_meets_itself(ctx: datafusion.SessionContext, table: Path) -> None:
    register(ctx, "t", table)
    assert answer(ctx, "SELECT count(*) FROM t a JOIN t b ON a.id = b.id WHERE b.id > 1") == [(4,)]
    assert answer(ctx, "SELECT count(*) FROM t a, t b WHERE a.id < b.id") == [(15,)]


def test_threads_read_at_once(ctx: datafusion.SessionContext, table: Path) -> None:
    register(ctx, "t", table)
    answers: list[Any] = []

    def ask() -> None:
        answers.extend(answer(ctx, "SELECT sum(id), count(*) FROM t WHERE id > 1") for _ in range(5))

    threads = [threading.Thread(target=ask) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert answers == [[(14, 4)]] * 30


# --- versions ---------------------------------------------------------------------------------------------------------


def test_a_name_stays_at_its_version(ctx: datafusion.SessionContext, table: Path) -> None:
    opened = DeltaTable(table)
    register(ctx, "t", opened)
    register(ctx, "first", opened, version=0)
    write_deltalake(table, pa.table({"id": [6], "name": ["n6"]}), mode="append")
    assert answer(ctx, "SELECT count(*), max(id) FROM t") == [(6, 5)]
    opened.update_incremental()
    assert answer(ctx, "SELECT count(*) FROM t") == [(6,)]
    assert answer(ctx, "SELECT count(*), max(id) FROM first") == [(3, 2)]
    register(ctx, "t", opened)
    assert answer(ctx, "SELECT count(*), max(id) FROM t") == [(7, 6)]


def test_a_function_reads_by_address(ctx: datafusion.SessionContext, table: Path) -> None:
    register_delta_function(ctx)
    assert answer(ctx, f"SELECT count(*), max(id) FROM delta('{table}')") == [(6, 5)]  # noqa: S608
    assert answer(ctx, f"SELECT count(*), max(id) FROM delta('{table}', 0) WHERE id > 0") == [(2, 2)]  # noqa: S608
    assert answer(ctx, f"SELECT count(*) FROM delta('{table}', 0 + 1) a JOIN delta('{table}', 0) b ON a.id = b.id") == [  # noqa: S608
        (3,)
    ]
    register_delta_function(ctx, "lake", options={"rows_per_batch": 1})
    assert answer(ctx, f"SELECT name FROM lake('{table}') WHERE id = 4") == [("n4",)]  # noqa: S608


@pytest.mark.parametrize("arguments", ["", "1", "'{}', '0'", "'{}', 0, 0", "null", "'{}', true"])
def test_a_function_says_what_it_takes(ctx: datafusion.SessionContext, table: Path, arguments: str) -> None:
    register_delta_function(ctx)
    with pytest.raises(ValueError, match=r"delta takes the address of a table"):
        ctx.sql(f"SELECT * FROM delta({arguments.format(table)})")  # noqa: S608


def test_a_function_names_a_table_that_is_not_there(ctx: datafusion.SessionContext, tmp_path: Path) -> None:
    register_delta_function(ctx)
    with pytest.raises(ValueError, match=f"{tmp_path}/nothing is not a Delta table"):
        ctx.sql(f"SELECT * FROM delta('{tmp_path}/nothing')")  # noqa: S608


# --- rows -------------------------------------------------------------------------------------------------------------


def test_a_table_without_files_has_no_rows(ctx: datafusion.SessionContext, tmp_path: Path) -> None:
    TableBuilder(tmp_path, schema={"id": "long"}).commit([])
    register(ctx, "t", tmp_path)
    assert answer(ctx, "SELECT * FROM t") == []
    assert answer(ctx, "SELECT count(*), max(id) FROM t") == [(0, None)]
    assert answer(ctx, "SELECT count(*) FROM t") == [(0,)]


@pytest.fixture(scope="module")
def odd(tmp_path_factory: pytest.TempPathFactory) -> datafusion.SessionContext:
    """One session with the same rows in memory and in a table."""
    root = tmp_path_factory.mktemp("odd")
    odd_rows.write(root)
    ctx = session_context()
    ctx.from_arrow(odd_rows.rows(), "m")
    register(ctx, "t", root)
    return ctx


@pytest.mark.full
@settings(max_examples=100)
@given(odd_rows.conditions("""arrow_cast('{}', 'Timestamp(Microsecond, Some("UTC"))')""", "'NaN'::DOUBLE"))
def test_every_condition_has_the_rows_that_it_has_in_memory(odd: datafusion.SessionContext, condition: str) -> None:
    found = {
        name: odd_rows.places(odd.sql(f"SELECT row FROM {name} WHERE {condition}").to_arrow_table())  # noqa: S608
        for name in ("m", "t")
    }
    assert found["t"] == found["m"]
    counted = answer(odd, f"SELECT count(*) FROM t WHERE {condition}")  # noqa: S608
    assert counted == [(len(found["m"]),)]


# --- errors -----------------------------------------------------------------------------------------------------------


def test_what_cannot_be_opened_is_refused(ctx: datafusion.SessionContext, table: Path, tmp_path: Path) -> None:
    with pytest.raises(TableNotFoundError):
        register(ctx, "t", tmp_path / "nothing")
    with pytest.raises(VersionNotFoundError):
        register(ctx, "t", table, version=9)
    with pytest.raises(OptionError, match="has its own storage_options: give them to it"):
        register(ctx, "t", DeltaTable(table), storage_options={})


def test_a_file_that_is_gone_is_named(ctx: datafusion.SessionContext, table: Path) -> None:
    (gone, *_) = table.glob("*.parquet")
    gone.unlink()
    dataset = register(ctx, "t", table)
    assert dataset.last_error is None
    with pytest.raises(Exception, match=f"data file {gone.name} of the table is not there"):
        ctx.sql("SELECT max(id) FROM t").collect()
    assert isinstance(dataset.last_error, UnreadableFileError)
    assert dataset.last_error.path == gone.name


@pytest.mark.azurite
def test_no_error_tells_a_secret(ctx: datafusion.SessionContext, azurite: Azurite, table: Path) -> None:
    sas = azurite.account_sas()
    options = {"account_name": azurite.account, "sas_key": sas, "endpoint": azurite.endpoint}
    address = f"az://{azurite.create_container()}/t"
    store = open_store(address, options)
    (gone, *_) = table.glob("*.parquet")
    for path in table.rglob("*.*"):
        if path != gone:
            store.put(path.relative_to(table).as_posix(), path.read_bytes())
    dataset = register(ctx, "t", address, storage_options=options)
    register_delta_function(ctx, storage_options=options)
    texts = [repr(dataset)]
    for query in ("SELECT max(id) FROM t", f"SELECT max(id) FROM delta('{address}')", f"FROM delta('{address}x')"):  # noqa: S608
        with pytest.raises(Exception, match=r"is not there|is not a Delta table") as failure:
            ctx.sql(query).collect()
        texts.append(str(failure.value))
    assert sas.rpartition("sig=")[2][:12] not in " ".join([*texts, repr(dataset.last_error)])


def test_the_example_runs(tmp_path: Path) -> None:
    small_files(tmp_path / "t", files=200)
    run = subprocess.run([sys.executable, EXAMPLE, tmp_path / "t"], check=True, capture_output=True, text=True)
    assert run.stderr == ""
    assert "device-00199" in run.stdout
