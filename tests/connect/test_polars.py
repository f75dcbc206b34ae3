"""`scan_delta`: what a table looks like in Polars, and which version of it."""

from __future__ import annotations

import asyncio
import datetime as dt
import inspect
import itertools
import os
import pickle
import subprocess
import sys
import threading
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any
from zoneinfo import ZoneInfo

import deltalake
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import write_deltalake
from tests.builder import TableBuilder, add, protocol
from tests.own_threads import PATIENCE
from tests.small_files import small_files

from delta_sidecar import DeltaTable
from delta_sidecar.connect.polars import _opened, scan_delta
from delta_sidecar.errors import (
    OptionError,
    ScanClosedError,
    TableNotFoundError,
    UnreadableFileError,
    VersionNotFoundError,
)
from delta_sidecar.store import open_store
from delta_sidecar.store.testing import RecordingStore

if TYPE_CHECKING:
    from polars._typing import EngineType

    from delta_sidecar.store.testing import Attempt

ENGINES: list[EngineType] = ["in-memory", "streaming"]
EXAMPLE = Path(__file__).parents[2] / "examples" / "polars_query.py"

c = pl.col
each_engine = pytest.mark.parametrize("engine", ENGINES)


@pytest.fixture
def table(tmp_path: Path) -> Path:
    """Two commits of three rows each."""
    root = tmp_path / "t"
    for first in (0, 3):
        rows = {"id": range(first, first + 3), "name": [f"n{number}" for number in range(first, first + 3)]}
        write_deltalake(root, pa.table(rows), mode="append")
    return root


@each_engine
def test_a_table_is_a_frame(table: Path, engine: EngineType) -> None:
    frame = scan_delta(table)
    assert frame.collect_schema() == {"id": pl.Int64, "name": pl.String}
    assert frame.collect(engine=engine).sort("id")["id"].to_list() == [0, 1, 2, 3, 4, 5]


@each_engine
def test_columns_come_in_the_order_that_is_asked_for(table: Path, engine: EngineType) -> None:
    frame = scan_delta(str(table))
    assert frame.select("name", "id").collect(engine=engine).columns == ["name", "id"]
    assert frame.filter(c("id") == 4).select("name").collect(engine=engine).to_dicts() == [{"name": "n4"}]
    renamed = frame.rename({"id": "number"}).filter(c("number") >= 4).sort("number").select("number", n="name")
    assert renamed.collect(engine=engine).rows() == [(4, "n4"), (5, "n5")]


@each_engine
def test_rows_are_counted_before_a_filter_that_comes_after(table: Path, engine: EngineType) -> None:
    frame = scan_delta(table)
    (first,) = frame.head(1).collect(engine=engine)["id"]
    (other, *_) = set(range(6)) - {first}
    assert frame.head(1).filter(c("id") == other).collect(engine=engine).height == 0
    assert frame.head(1).filter(c("id") == first).collect(engine=engine).height == 1
    assert frame.filter(c("id") == other).head(1).collect(engine=engine)["id"].to_list() == [other]
    assert frame.filter(c("id") > 1).slice(1, 2).collect(engine=engine).height == 2
    assert frame.head(0).collect(engine=engine).shape == (0, 2)


@each_engine
def test_rows_can_be_counted_without_a_column(table: Path, engine: EngineType) -> None:
    frame = scan_delta(table)
    assert frame.select(pl.len()).collect(engine=engine).item() == 6
    assert frame.filter(c("id") > 1).select(pl.len()).collect(engine=engine).item() == 4
    assert frame.select(pl.lit(1)).collect(engine=engine).item() == 1


def test_a_source_gives_rows_without_columns(table: Path) -> None:
    source = _opened(table, None, {})
    assert sum(frame.height for frame in source([], None, None, None)) == 6
    assert sum(frame.height for frame in source([], c("id") > 1, None, None)) == 4
    assert {tuple(frame.columns) for frame in source(["name"], c("id") > 1, None, None)} == {("name",)}


@each_engine
def test_what_looks_at_other_rows_is_not_asked_of_each_file(table: Path, engine: EngineType) -> None:
    frame = scan_delta(table)
    assert frame.filter(c("id") == c("id").max()).collect(engine=engine)["id"].to_list() == [5]
    assert frame.filter(c("id").rank() == 6).collect(engine=engine)["id"].to_list() == [5]
    assert frame.filter(pl.len() == 6).collect(engine=engine).height == 6


@each_engine
def test_a_frame_meets_itself(table: Path, engine: EngineType) -> None:
    frame = scan_delta(table)
    assert frame.join(frame, on="id").select(pl.len()).collect(engine=engine).item() == 6
    assert pl.concat([frame, frame.filter(c("id") == 1)]).select(pl.len()).collect(engine=engine).item() == 7


def test_every_way_to_collect(table: Path, tmp_path: Path) -> None:
    frame = scan_delta(table).filter(c("id") > 1)

    async def collected() -> pl.DataFrame:
        return await frame.collect_async()

    assert asyncio.run(collected()).height == 4
    assert [part.height for part in pl.collect_all([frame, frame.head(1)])] == [4, 1]
    assert sum(batch.height for batch in frame.collect_batches()) == 4
    frame.sink_parquet(tmp_path / "sunk.parquet")
    assert pl.read_parquet(tmp_path / "sunk.parquet").height == 4
    assert pl.SQLContext(t=frame).execute("SELECT name FROM t WHERE id IN (2, 9) LIMIT 5").collect().item() == "n2"


# --- versions ---------------------------------------------------------------------------------------------------------


@each_engine
def test_a_frame_stays_at_its_version(table: Path, engine: EngineType) -> None:
    frame = scan_delta(table)
    write_deltalake(table, pa.table({"id": [6], "name": ["n6"]}), mode="append")
    assert [frame.select(pl.len()).collect(engine=engine).item() for _ in range(2)] == [6, 6]
    assert scan_delta(table).select(pl.len()).collect(engine=engine).item() == 7
    assert scan_delta(table, version=0).select(pl.len()).collect(engine=engine).item() == 3


def test_a_frame_stays_at_its_version_when_its_table_moves(table: Path) -> None:
    given = DeltaTable(table)
    newest, oldest = scan_delta(given), scan_delta(given, version=0)
    assert given.version() == 1
    given.load_as_version(0)
    assert newest.select(pl.len()).collect().item() == 6
    assert oldest.select(pl.len()).collect().item() == 3
    assert scan_delta(given).select(pl.len()).collect().item() == 3


@pytest.mark.parametrize("form", [lambda time: time, dt.datetime.isoformat], ids=["datetime", "text"])
def test_a_version_may_be_a_time(table: Path, form: Any) -> None:  # noqa: ANN401 - a function
    first = dt.datetime(2026, 2, 10, 12, tzinfo=dt.UTC)
    for version, time in enumerate((first, first + dt.timedelta(hours=1))):
        os.utime(table / "_delta_log" / f"{version:020}.json", (time.timestamp(), time.timestamp()))
    for hours, rows in ((0.5, 3), (1.5, 6)):
        version = form(first + dt.timedelta(hours=hours))
        frame = scan_delta(table, version=version)
        assert frame.collect().height == rows
        assert pickle.loads(pickle.dumps(frame)).collect().height == rows  # noqa: S301 - made here
        moved = DeltaTable(table)
        assert scan_delta(moved, version=version).collect().height == rows
        assert moved.version() == 1


def test_what_polars_own_takes_is_taken(table: Path) -> None:
    options = {"file_cache_ttl": 7, "max_retries": 3, "retry_timeout_ms": 9873, "retry_base_multiplier": 3.1}
    frame = scan_delta(
        source=table,
        storage_options=options,
        credential_provider=None,
        delta_table_options={"without_files": True, "log_buffer_size": 2},
        use_pyarrow=True,
    )
    assert frame.collect().height == 6
    # What is about retries counts where there are requests.
    assert scan_delta(f"file://{table}", storage_options=options, credential_provider="auto").collect().height == 6
    parameters = inspect.signature(scan_delta).parameters
    assert list(parameters)[: len(POLARS_PARAMETERS)] == list(POLARS_PARAMETERS)
    assert all(parameters[name].default == each.default for name, each in POLARS_PARAMETERS.items())


POLARS_PARAMETERS = inspect.signature(pl.scan_delta).parameters


def test_storage_options_of_polars_count_for_requests() -> None:
    memory = open_store("memory://polars-options/t")
    memory.put("_delta_log/x", b"")
    given = {"retry_init_backoff_ms": 5, "retry_max_backoff_ms": 6, "rate_read_init": 1, "max_retries": 2}
    with pytest.raises(TableNotFoundError):
        scan_delta("memory://polars-options/t", storage_options=given)
    with pytest.raises(OptionError, match="rate_raed_init"):
        scan_delta("memory://polars-options/t", storage_options={"rate_raed_init": 1})
    with pytest.raises(OptionError, match="timeout_ms"):
        scan_delta("memory://polars-options/t", storage_options={"timeout_ms": 500})


def test_a_table_of_deltalake_is_read_at_its_version(table: Path) -> None:
    theirs = deltalake.DeltaTable(table, version=0, storage_options={"timeout": "5s"})
    frame = scan_delta(theirs)
    assert frame.collect().height == 3
    assert pickle.loads(pickle.dumps(frame)).collect().height == 3  # noqa: S301 - made here
    assert scan_delta(theirs, version=1, storage_options={"timeout": "6s"}).collect().height == 6


def test_partitions_are_chosen_as_for_a_dataset(tmp_path: Path) -> None:
    write_deltalake(tmp_path, pa.table({"p": [1, 2, 2], "n": [1, 2, 3]}), partition_by=["p"])
    frame = scan_delta(tmp_path, use_pyarrow=True, pyarrow_options={"partitions": [("p", "=", "2")]})
    assert frame.select("n").head(1).collect().height == 1
    assert sorted(pickle.loads(pickle.dumps(frame)).collect()["n"]) == [2, 3]  # noqa: S301 - made here
    # As in Polars, without use_pyarrow they have no effect.
    assert scan_delta(tmp_path, pyarrow_options={"partitions": [("p", "=", "2")]}).collect().height == 3


def test_what_cannot_be_kept_is_refused(table: Path) -> None:
    with pytest.raises(OptionError, match="credential_provider"):
        scan_delta(table, credential_provider=lambda: ({}, None))
    with pytest.raises(OptionError, match="pyarrow_options: filesystem is not supported"):
        scan_delta(table, use_pyarrow=True, pyarrow_options={"filesystem": object()})
    with pytest.raises(TypeError, match="without_flies"):
        scan_delta(table, delta_table_options={"without_flies": True})


def test_a_plan_names_the_table_and_its_version(table: Path) -> None:
    assert "DELTA" in scan_delta(table, version=0).explain()
    assert f"{table} version 0" in scan_delta(table, version=0).explain()


def test_a_frame_of_an_address_can_be_pickled(table: Path) -> None:
    frame = scan_delta(table).filter(c("id") > 1)
    write_deltalake(table, pa.table({"id": [6], "name": ["n6"]}), mode="append")
    assert pickle.loads(pickle.dumps(frame)).collect().height == 4  # noqa: S301 - our own
    assert pl.LazyFrame.deserialize(frame.serialize()).collect().height == 4
    with pytest.raises(pl.exceptions.ComputeError, match="of the table's address"):
        pickle.dumps(scan_delta(DeltaTable(table)))


def test_a_frame_of_a_relative_path_stays_with_its_table(
    table: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(table.parent)
    frame = scan_delta(table.name)
    expected, kept = frame.collect().sort("id"), pickle.dumps(frame)
    elsewhere = tmp_path / "elsewhere"
    write_deltalake(elsewhere / table.name, pa.table({"id": [99], "name": ["other"]}))
    monkeypatch.chdir(elsewhere)
    assert frame.collect().sort("id").equals(expected)
    assert pickle.loads(kept).collect().sort("id").equals(expected)  # noqa: S301 - our own


# --- types ------------------------------------------------------------------------------------------------------------

FIELDS: dict[str, Any] = {
    "tiny": "byte",
    "money": "decimal(10,2)",
    "most": "decimal(38,18)",
    "single": "float",
    "day": "date",
    "moment": "timestamp",
    "clock": "timestamp_ntz",
    "blob": "binary",
    "nothing": "void",
    "list": {"type": "array", "elementType": "integer", "containsNull": True},
    "map": {"type": "map", "keyType": "string", "valueType": "long", "valueContainsNull": True},
    "inner": {
        "type": "struct",
        "fields": [
            {"name": "x", "type": "long", "nullable": True, "metadata": {}},
            {
                "name": "deep",
                "type": {"type": "map", "keyType": "string", "valueType": "string", "valueContainsNull": True},
                "nullable": True,
                "metadata": {},
            },
        ],
    },
    "open": "variant",
    "part": "timestamp",
}
ROW: dict[str, Any] = {
    "tiny": 1,
    "money": Decimal("1.20"),
    "most": Decimal("1.000000000000000001"),
    "single": 0.5,
    "day": dt.date(2026, 2, 10),
    "moment": dt.datetime(2026, 2, 10, 1, 2, 3, 4, tzinfo=dt.UTC),
    "clock": dt.datetime(2026, 2, 10, 1, 2, 3, 4),  # noqa: DTZ001 - a clock without a zone
    "blob": b"\x00\xff",
    "list": [1, None],
    "map": [("a", 1), ("b", None)],
    "inner": {"x": 1, "deep": [("a", "b")]},
    "open": {"metadata": b"\x01\x00\x00", "value": b"\x0c\x01"},
}
TYPES = pa.schema(
    [
        ("tiny", pa.int8()),
        ("money", pa.decimal128(10, 2)),
        ("most", pa.decimal128(38, 18)),
        ("single", pa.float32()),
        ("day", pa.date32()),
        ("moment", pa.timestamp("us", tz="UTC")),
        ("clock", pa.timestamp("us")),
        ("blob", pa.binary()),
        ("list", pa.list_(pa.int32())),
        ("map", pa.map_(pa.string(), pa.int64())),
        ("inner", pa.struct([("x", pa.int64()), ("deep", pa.map_(pa.string(), pa.string()))])),
        pa.field("open", pa.struct([("metadata", pa.binary()), ("value", pa.binary())])),
    ]
)


@pytest.fixture(scope="module")
def typed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A table with a column of every type; its second file has none of them, so that they are all null."""
    root = tmp_path_factory.mktemp("types") / "t"
    features = protocol(features=["timestampNtz", "variantType"])
    table = TableBuilder(root, schema=FIELDS, partition_columns=["part"], protocol=features)
    pq.write_table(pa.Table.from_pylist([ROW], schema=TYPES), root / "all.parquet")
    pq.write_table(pa.Table.from_pylist([{"tiny": None}], schema=TYPES).select(["tiny"]), root / "none.parquet")
    parts = {"all.parquet": "2026-02-10 01:02:03.000004", "none.parquet": None}
    table.commit(
        [
            add(name, size=(root / name).stat().st_size, partition_values={"part": value}, stats={"numRecords": 1})
            for name, value in parts.items()
        ]
    )
    return root


@each_engine
def test_rows_have_the_types_that_are_announced(typed: Path, engine: EngineType) -> None:
    frame = scan_delta(typed)
    announced = frame.collect_schema()
    assert announced.names() == list(FIELDS)
    read = frame.sort("tiny", nulls_last=True).collect(engine=engine)
    assert read.schema == announced
    for name in FIELDS:
        assert frame.select(name).collect(engine=engine).schema == {name: announced[name]}
    full, empty = read.drop("nothing").rows(named=True)
    assert full == {**pl.DataFrame(pa.Table.from_pylist([ROW], schema=TYPES)).row(0, named=True), "part": ROW["moment"]}
    assert set(empty.values()) == {None}


def test_types_are_those_of_polars(typed: Path) -> None:
    announced = scan_delta(typed).collect_schema()
    assert announced["moment"] == pl.Datetime("us", "UTC")
    assert announced["clock"] == pl.Datetime("us")
    assert announced["most"] == pl.Decimal(38, 18)
    assert announced["nothing"] == pl.Null
    assert announced["list"] == pl.List(pl.Int32)
    assert announced["open"] == pl.Struct({"metadata": pl.Binary, "value": pl.Binary})
    assert {**announced} == {**pl.Schema(TYPES), "nothing": pl.Null, "part": announced["moment"]}


@each_engine
def test_fields_of_structs_can_be_asked_for(typed: Path, engine: EngineType) -> None:
    frame = scan_delta(typed)
    assert frame.filter(c("inner").struct.field("x") == 1).select("tiny").collect(engine=engine).item() == 1
    assert frame.filter(c("inner").struct.field("x") == 2).collect(engine=engine).height == 0
    assert frame.filter(c("inner").is_null()).collect(engine=engine).height == 1
    assert frame.filter(c("nothing").is_null()).collect(engine=engine).height == 2


@each_engine
def test_an_empty_table_has_columns(tmp_path: Path, engine: EngineType) -> None:
    TableBuilder(tmp_path, schema=FIELDS, protocol=protocol(features=["timestampNtz", "variantType"])).commit()
    frame = scan_delta(tmp_path)
    assert frame.collect(engine=engine).schema == frame.collect_schema()
    assert frame.filter(c("tiny") > 1).select("day").collect(engine=engine).schema == {"day": pl.Date}
    assert frame.select(pl.len()).collect(engine=engine).item() == 0


# --- errors -----------------------------------------------------------------------------------------------------------


def test_a_table_that_is_not_there_is_told_at_once(table: Path) -> None:
    with pytest.raises(TableNotFoundError):
        scan_delta(table / "elsewhere")
    with pytest.raises(VersionNotFoundError):
        scan_delta(table, version=9)
    with pytest.raises(OptionError, match="unknown option"):
        scan_delta(table, options={"speed": 9})


def test_a_table_has_its_own_options(table: Path) -> None:
    with pytest.raises(OptionError, match="its own options, listeners"):
        scan_delta(DeltaTable(table), options={}, listeners=[print])


@each_engine
def test_what_goes_wrong_while_reading_is_told_as_it_is(table: Path, engine: EngineType) -> None:
    frame = scan_delta(table)
    broken = next(table.glob("*.parquet"))
    broken.unlink()
    with pytest.raises(UnreadableFileError, match=broken.name):
        frame.collect(engine=engine)


@each_engine
def test_a_filter_that_polars_refuses_is_refused(typed: Path, engine: EngineType) -> None:
    without_zone, elsewhere = dt.datetime(2999, 1, 1), dt.datetime(2999, 1, 1, tzinfo=ZoneInfo("Asia/Tokyo"))  # noqa: DTZ001
    for moment in (without_zone, elsewhere):
        with pytest.raises(pl.exceptions.SchemaError):
            scan_delta(typed).filter(c("moment") > moment).collect(engine=engine)


def test_closing_the_table_ends_its_queries(table: Path) -> None:
    closed, asked = threading.Event(), itertools.count()

    def hold(attempt: Attempt) -> None:
        # Polars takes rows ahead: but for the first file there are none before the table is closed.
        if attempt.path.endswith(".parquet") and next(asked) > 0:
            assert closed.wait(PATIENCE)

    store = RecordingStore(open_store(table), hold)
    given = DeltaTable(table, options={"rows_per_batch": 1, "file_parallelism": 1}, store=store)
    batches = iter(scan_delta(given).collect_batches(chunk_size=1, maintain_order=True))
    next(batches)
    given.close()
    closed.set()
    with pytest.raises(ScanClosedError):
        list(batches)


def test_without_polars_the_error_says_what_to_install() -> None:
    code = "import sys; sys.modules['polars'] = None; import delta_sidecar.connect.polars"
    run = subprocess.run([sys.executable, "-c", code], check=False, capture_output=True, text=True)
    assert "ImportError: reading with Polars needs the package polars: pip install '.[polars]'" in run.stderr


def test_the_example_runs(tmp_path: Path) -> None:
    small_files(tmp_path / "t", files=200)
    run = subprocess.run([sys.executable, EXAMPLE, tmp_path / "t"], check=True, capture_output=True, text=True)
    assert run.stderr == ""
    assert "device-00199" in run.stdout
