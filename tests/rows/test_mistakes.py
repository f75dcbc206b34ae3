"""Mistakes of those who ask: they are named as such, and not blamed on the table."""

from __future__ import annotations

import datetime as dt
import traceback
from typing import TYPE_CHECKING, Any

import deltalake
import duckdb
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from tests.builder import TableBuilder, add
from tests.rows.tables import one_file, parquet

from delta_sidecar import (
    DeltaTable,
    InvalidMetadataError,
    LogCorruptionError,
    NotEnoughMemoryError,
    OptionError,
    PredicateError,
    UnsupportedFeatureError,
)
from delta_sidecar.connect.duckdb import register
from delta_sidecar.rows.reader import FileReader
from delta_sidecar.table.pinned import TableHandle

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def table(tmp_path: Path) -> DeltaTable:
    one_file(tmp_path, {"x": "long"}, pa.table({"x": [1, 2, 3]}))
    return DeltaTable(tmp_path)


@pytest.mark.parametrize("is_empty", [True, False])
@pytest.mark.parametrize("expression", [pc.field("nope") > 1, pc.field("x") > "abc", pc.add(pc.field("x"), 1)])
def test_a_filter_that_does_not_fit(tmp_path: Path, expression: pc.Expression, is_empty: bool) -> None:  # noqa: FBT001
    if is_empty:
        TableBuilder(tmp_path, schema={"x": "long"}).commit([])
    else:
        one_file(tmp_path, {"x": "long"}, pa.table({"x": [1, 2, 3]}))
    dataset = DeltaTable(tmp_path).to_pyarrow_dataset()
    for ask in (dataset.to_table, dataset.count_rows):
        with pytest.raises(PredicateError, match="does not fit the table"):
            ask(filter=expression)


def test_a_filter_that_cannot_be_evaluated(table: DeltaTable) -> None:
    with pytest.raises(PredicateError, match="cannot be evaluated: divide by zero"):
        table.to_pyarrow_dataset().to_table(filter=pc.divide(pc.field("x"), 0) > 1)


@pytest.mark.parametrize("year", [2020, 2030])
def test_a_clock_beside_a_moment_does_not_fit_whatever_files_there_are(tmp_path: Path, year: int) -> None:
    """One of them is beyond the bounds of the only file."""
    moments = pa.array([dt.datetime(2024, 1, 1, tzinfo=dt.UTC)], pa.timestamp("us", "UTC"))
    deltalake.write_deltalake(tmp_path, pa.table({"ts": moments}))
    reading = pa.scalar(dt.datetime(year, 1, 1), pa.timestamp("us"))  # noqa: DTZ001 - a reading of a clock
    with pytest.raises(PredicateError, match="does not fit the table"):
        DeltaTable(tmp_path).to_pyarrow_dataset().to_table(filter=pc.field("ts") > reading)


def test_engines_keep_the_error_that_says_what_is_wrong(tmp_path: Path) -> None:
    one_file(tmp_path, {"id": "long", "g": "geometry(OGC:CRS84)"}, pa.table({"id": [1]}))
    with duckdb.connect() as con:
        dataset = register(con, "t", tmp_path)
        with pytest.raises(duckdb.Error):
            con.sql("FROM t").fetchall()
        assert isinstance(dataset.last_error, UnsupportedFeatureError)
        assert con.sql("SELECT id FROM t").fetchall() == [(1,)]


@pytest.mark.parametrize("columns", [[1], [None], [b"x"]])
def test_columns_that_are_no_names(table: DeltaTable, columns: list[Any]) -> None:
    with pytest.raises(OptionError, match="columns are given by their names"):
        table.scan(columns)


@pytest.mark.parametrize("predicate", [False, 0, 0.0])
def test_what_is_no_condition_is_not_taken_for_none(table: DeltaTable, predicate: Any) -> None:  # noqa: ANN401
    with pytest.raises(PredicateError):
        table.scan(predicate=predicate)


@pytest.mark.parametrize("predicate", [None, "", [], ()])
def test_no_condition(table: DeltaTable, predicate: Any) -> None:  # noqa: ANN401
    assert table.scan(predicate=predicate).read_all().num_rows == 3


@pytest.mark.parametrize("places", [[1.7], [True, False], ["1"]])
def test_rows_are_taken_by_whole_numbers(table: DeltaTable, places: list[Any]) -> None:
    with pytest.raises(OptionError, match="rows are taken by their numbers"):
        table.to_pyarrow_dataset().take(places)
    assert table.to_pyarrow_dataset().take([]).num_rows == 0


def test_a_number_that_is_none(tmp_path: Path) -> None:
    one_file(tmp_path, {"x": "long", "p": "long"}, pa.table({"x": [1]}), partition_values={"p": "0x10"})
    with pytest.raises(LogCorruptionError, match="'0x10'"):
        DeltaTable(tmp_path).scan().read_all()
    assert len(list(DeltaTable(tmp_path).file_infos("p = 3"))) == 1


def test_what_leaves_out_files_leaves_out_no_rows_of_others(tmp_path: Path) -> None:
    one_file(tmp_path, {"x": "long"}, parquet(pa.table({"x": range(10)}), row_group_size=2))
    dataset = DeltaTable(tmp_path).to_pyarrow_dataset(file_pruning_predicate="x > 7")
    assert dataset.to_table().num_rows == dataset.count_rows() == dataset.to_table(columns=[]).num_rows == 10


def test_columns_without_the_id_that_they_are_found_by(tmp_path: Path) -> None:
    named = {"delta.columnMapping.physicalName": "c"}
    fields = {"type": "struct", "fields": [{"name": "x", "type": "long", "nullable": True, "metadata": named}]}
    mapped = {"minReaderVersion": 2, "minWriterVersion": 5}
    mode = {"delta.columnMapping.mode": "id"}
    one_file(tmp_path, fields, pa.table({"c": [1]}), protocol={"protocol": mapped}, configuration=mode)
    with pytest.raises(InvalidMetadataError, match=r"delta\.columnMapping\.id"):
        DeltaTable(tmp_path).scan()


@pytest.mark.parametrize("mistake", [KeyError("x"), AttributeError("x")])
def test_a_mistake_of_ours_is_not_blamed_on_a_file(
    table: DeltaTable, monkeypatch: pytest.MonkeyPatch, mistake: Exception
) -> None:
    def mistaken(*_: object) -> None:
        raise mistake

    monkeypatch.setattr(FileReader, "_converted", mistaken)
    with pytest.raises(type(mistake)) as raised:
        table.scan().read_all()
    assert raised.value is mistake


@pytest.mark.parametrize("failure", [pa.ArrowMemoryError("no more"), pa.ArrowCapacityError("no more"), MemoryError()])
def test_memory_that_does_not_suffice_is_no_damage(
    table: DeltaTable, monkeypatch: pytest.MonkeyPatch, failure: Exception
) -> None:
    def failing(*_: object) -> None:
        raise failure

    monkeypatch.setattr(FileReader, "_converted", failing)
    with pytest.raises(NotEnoughMemoryError, match="memory") as raised:
        table.scan().read_all()
    assert isinstance(raised.value, MemoryError)
    assert raised.value.path.endswith(".parquet")
    assert raised.value.__cause__ is failure


def test_an_empty_text_is_null_beside_partition_columns_only(tmp_path: Path) -> None:
    deltalake.write_deltalake(tmp_path, pa.table({"s": ["", ""], "p": [None, "x"]}), partition_by=["p"])
    table = DeltaTable(tmp_path)
    for condition in (("s", "=", ""), ("s", "in", [""])):
        assert len(table.file_uris(file_pruning_predicate=[condition])) == 2
    assert table.partitions([("p", "=", "")]) == [{"p": None}]


def test_the_schema_of_a_file_whose_size_is_wrong_in_the_log(tmp_path: Path) -> None:
    built = one_file(tmp_path, {"x": "long"}, pa.table({"x": [1, 2, 3]}))
    commit = built.log / f"{0:020}.json"
    size = (tmp_path / "part-0.parquet").stat().st_size
    commit.write_text(commit.read_text().replace(f'"size":{size}', '"size":700'))
    (fragment,) = DeltaTable(tmp_path).to_pyarrow_dataset().get_fragments()
    assert fragment.physical_schema.names == ["x"]
    assert fragment.to_table().num_rows == 3


SECRET = "c2VjcmV0IHNlY3JldCBzZWNyZXQ="  # noqa: S105 - of nobody


@pytest.mark.parametrize(
    "ask",
    [
        lambda root: DeltaTable(root, {"account_key": SECRET}),
        lambda root: DeltaTable(root, f"account_key={SECRET}"),
        lambda root: DeltaTable(root, options=f"account_key={SECRET}"),
        lambda root: DeltaTable(root, options=[("account_key", SECRET)]),
        lambda root: DeltaTable(root).load_as_version({"account_key": SECRET}),
        lambda root: DeltaTable(root).scan(limit={"account_key": SECRET}),
    ],
)
def test_a_secret_in_the_wrong_place_is_not_shown(table: DeltaTable, tmp_path: Path, ask: Any) -> None:  # noqa: ANN401
    assert table.version() == 0
    with pytest.raises(OptionError) as refused:
        ask(tmp_path)
    assert SECRET not in "".join(traceback.format_exception(refused.value))


def test_a_fragment_shows_no_signature(tmp_path: Path) -> None:
    built = TableBuilder(tmp_path, schema={"x": "long"})
    built.commit([add(f"abfss://c@account.dfs.core.windows.net/x.parquet?sig={SECRET}")])
    (fragment,) = DeltaTable(tmp_path).to_pyarrow_dataset().get_fragments()
    assert "x.parquet" in repr(fragment)
    assert SECRET not in repr(fragment)


def test_a_dataset_keeps_whatever_went_wrong(table: DeltaTable, monkeypatch: pytest.MonkeyPatch) -> None:
    def mistaken(*_: object, **__: object) -> None:
        raise RuntimeError

    monkeypatch.setattr(TableHandle, "scanner", mistaken)
    for ask in (lambda dataset: dataset.count_rows(), lambda dataset: list(dataset.get_fragments())):
        dataset = table.to_pyarrow_dataset()
        with pytest.raises(RuntimeError) as raised:
            ask(dataset)
        assert dataset.last_error is raised.value
