"""What a table says of itself, side by side with deltalake, on tables that deltalake writes."""

from __future__ import annotations

import datetime as dt
import json
from typing import TYPE_CHECKING, Any

import deltalake
import pyarrow as pa
import pytest
from tests.builder import TableBuilder, add
from tests.table.comparing import same_facts, same_files, same_schema
from tests.table.written import SPECIAL, counting_table, every_type, in_order, numbers, partitioned, write

from delta_sidecar import DeltaTable, PredicateError
from delta_sidecar.table.facts import DeltaSchema

if TYPE_CHECKING:
    from pathlib import Path

    from tests.azurite import Azurite


def compared(root: Path) -> tuple[DeltaTable, deltalake.DeltaTable]:
    return DeltaTable(root), deltalake.DeltaTable(root)


def test_a_table_with_every_type(tmp_path: Path) -> None:
    write(tmp_path, every_type())
    write(tmp_path, every_type().take(pa.array([2])))
    ours, theirs = compared(tmp_path)
    same_facts(ours, theirs)
    same_schema(ours, theirs)
    same_files(ours, theirs)


@pytest.mark.parametrize(
    "configuration",
    [
        {"delta.dataSkippingNumIndexedCols": "0"},
        {"delta.dataSkippingNumIndexedCols": "3"},
        {"delta.dataSkippingNumIndexedCols": "16"},
        {"delta.dataSkippingNumIndexedCols": "-1"},
        {"delta.dataSkippingStatsColumns": "long,struct.x,`text`"},
        {"delta.dataSkippingStatsColumns": "struct.y"},
        {"delta.dataSkippingStatsColumns": "list,struct"},
    ],
)
def test_columns_with_statistics_follow_from_the_properties(tmp_path: Path, configuration: dict[str, str]) -> None:
    write(tmp_path, every_type(), configuration=configuration)
    same_files(*compared(tmp_path))


def test_more_columns_than_have_statistics(tmp_path: Path) -> None:
    write(tmp_path, pa.table({f"c{number}": [number] for number in range(40)}), partition_by=["c3"])
    ours, theirs = compared(tmp_path)
    same_files(ours, theirs)
    assert "min.c32" in ours.get_add_actions(flatten=True).schema.names
    assert "min.c33" not in ours.get_add_actions(flatten=True).schema.names


@pytest.mark.parametrize("text", ['{"numRecords":4}', "{}", None, '{"numRecords":2,"nullCount":{"n":1}}'])
def test_statistics_that_tell_little(tmp_path: Path, text: str | None) -> None:
    counting_table(tmp_path, 2)
    commit = tmp_path / "_delta_log" / f"{1:020}.json"
    actions = [json.loads(line) for line in commit.read_text().splitlines()]
    for action in actions:
        if "add" in action:
            action["add"]["stats"] = text
    commit.write_text("\n".join(map(json.dumps, actions)))
    same_files(*compared(tmp_path))


def test_partition_values_with_special_characters(tmp_path: Path) -> None:
    write(tmp_path, pa.table({"p": [*SPECIAL, None], "v": range(len(SPECIAL) + 1)}), partition_by=["p"])
    ours, theirs = compared(tmp_path)
    same_files(ours, theirs)
    for path in ours.file_uris():
        assert (tmp_path / path).exists()


def test_a_folder_with_special_characters(tmp_path: Path) -> None:
    root = counting_table(tmp_path / "a täble (1) 100%")
    ours, theirs = compared(root)
    same_facts(ours, theirs)
    # In deltalake the folder is encoded in them: nothing is there.
    assert all((root / path).exists() for path in ours.file_uris())
    assert {path.rpartition("/")[2] for path in ours.file_uris()} == {
        path.rpartition("/")[2] for path in theirs.file_uris()
    }


def test_a_table_on_azure(azurite: Azurite) -> None:
    options = {**azurite.options, "allow_http": "true"}
    address = f"abfss://{azurite.create_container()}/some/table"
    data = pa.table({"p": [*SPECIAL, None], "v": range(len(SPECIAL) + 1)})
    deltalake.write_deltalake(address, data, partition_by=["p"], storage_options=options)
    ours, theirs = (kind(address, storage_options=options) for kind in (DeltaTable, deltalake.DeltaTable))
    same_facts(ours, theirs)
    same_files(ours, theirs)
    assert ours.history() == theirs.history()
    assert DeltaTable.is_deltatable(address, options)
    assert not DeltaTable.is_deltatable(f"{address}/not", options)
    ours.delete("v > 3")
    assert (ours.version(), ours.count()) == (1, 4)


MOMENT = dt.datetime(2026, 1, 1, 1, tzinfo=dt.UTC)
FILTERS: list[Any] = [
    [("s", "=", "a")],
    [("s", "!=", "a")],
    [("s", "in", ["a", "b"])],
    [("s", "not in", ["a", "b"])],
    [("s", "not in", ("a", ""))],
    [("s", "=", "")],
    [("s", "!=", "")],
    [("s", "in", ["a", ""])],
    [("s", ">=", 12)],
    [("s", "=", 12)],
    [("s", "<", "b")],
    [("i", "=", "1")],
    [("i", "=", 1)],
    [("i", ">=", "5"), ("b", "=", True)],
    [("i", "in", [1, "2"])],
    [("i", "!=", "1")],
    [("i", "=", "")],
    [("b", "=", "true")],
    [("b", "!=", True)],
    [("d", "=", MOMENT.date())],
    [("d", ">", "2026-01-01")],
    [("t", ">", MOMENT.replace(tzinfo=None))],
    [("t", ">", MOMENT)],
    [("t", "=", "2026-01-01 01:00:00")],
    [("f", "=", 1.5)],
    [("f", ">", "2")],
    [("v", ">", 3)],
    [("v", ">", 3), ("s", "=", "x y")],
    [[("s", "=", "a")], [("i", ">", 5)]],
    [[("s", "=", "a")], [("v", ">", 4)]],
    [],
    "s = 'a'",
    "i > 1 AND v < 3",
    "d >= '2026-01-02'",
    "t > '2026-01-01T01:00:00Z'",
    "s IS NULL",
    "s IN ('a', 'b') AND NOT b",
    "i BETWEEN 1 AND 5",
    "f = 1.5 OR s IS NULL",
]


@pytest.fixture(scope="module")
def both(tmp_path_factory: pytest.TempPathFactory) -> tuple[DeltaTable, deltalake.DeltaTable]:
    return compared(write(tmp_path_factory.mktemp("partitioned"), partitioned(), partition_by=list("sibdtf")))


def test_a_table_with_many_partition_columns(both: tuple[DeltaTable, deltalake.DeltaTable]) -> None:
    same_facts(*both)
    same_schema(*both)
    same_files(*both)


@pytest.mark.parametrize("condition", FILTERS, ids=str)
def test_a_condition_chooses_the_same_files(both: tuple[DeltaTable, deltalake.DeltaTable], condition: Any) -> None:  # noqa: ANN401
    ours, theirs = both
    files = sorted(theirs.file_uris(file_pruning_predicate=condition))
    places = in_order(theirs.partitions(file_pruning_predicate=condition))
    assert sorted(ours.file_uris(file_pruning_predicate=condition)) == files
    assert in_order(ours.partitions(file_pruning_predicate=condition)) == places
    if not isinstance(condition, str):
        assert sorted(ours.file_uris(condition)) == files
        assert in_order(ours.partitions(condition)) == places


@pytest.mark.parametrize("condition", [[("nothing", "=", "1")], [("i", "=", "x")], [("s", "~", "a")], [()], "i >"])
def test_a_condition_that_does_not_fit_is_refused(
    both: tuple[DeltaTable, deltalake.DeltaTable],
    condition: Any,  # noqa: ANN401 - any notation
) -> None:
    with pytest.raises(PredicateError):
        both[0].file_uris(file_pruning_predicate=condition)


def test_rows_of_partitions(both: tuple[DeltaTable, deltalake.DeltaTable]) -> None:
    ours, theirs = both
    whole = theirs.to_pyarrow_table()
    assert in_order(ours.to_pyarrow_table().to_pylist()) == in_order(whole.to_pylist())
    for condition in FILTERS:
        if isinstance(condition, str) or not condition or "'v'" in str(condition):
            continue
        expected = theirs.to_pyarrow_dataset(file_pruning_predicate=condition).to_table().to_pylist()
        assert in_order(ours.to_pyarrow_table(partitions=condition).to_pylist()) == in_order(expected), condition
    with pytest.raises(PredicateError, match="v: not a partition column"):
        ours.to_pyarrow_table(partitions=[("v", "=", 1)])


def test_schemas_are_equal_where_their_columns_are(tmp_path: Path) -> None:
    first, second = counting_table(tmp_path / "a"), counting_table(tmp_path / "b")
    other = write(tmp_path / "c", numbers(1).rename_columns(["m"]))
    schema = DeltaTable(first).schema()
    assert schema == DeltaTable(second).schema()
    assert schema != DeltaTable(other).schema()
    assert schema == deltalake.DeltaTable(first).schema()
    assert deltalake.DeltaTable(first).schema() == schema
    assert (pa.schema(schema).names, schema.type) == (["n"], "struct")
    empty = deltalake.DeltaTable.create(str(tmp_path / "d"), pa.schema([("k", pa.int64())]))
    empty.alter.add_columns(schema.fields)
    assert [field.name for field in DeltaTable(tmp_path / "d").schema().fields] == ["k", "n"]


def test_a_type_that_deltalake_does_not_know_is_in_the_schema_all_the_same(tmp_path: Path) -> None:
    table = TableBuilder(tmp_path)
    table.commit([add("f.parquet")])
    commit = table.commit_path(0)
    commit.write_text(commit.read_text().replace('\\"string\\"', '\\"varchar(9)\\"'))
    schema = DeltaTable(tmp_path).schema()
    same = DeltaTable(tmp_path).schema()
    assert isinstance(schema, DeltaSchema)
    assert "varchar(9)" in {field.type.type for field in schema.fields}
    assert (schema == same, hash(schema) == hash(same), schema == "n") == (True, True, False)
    assert pa.schema(schema) == schema.to_arrow()
    with pytest.raises(AttributeError, match="no fields"):
        _ = schema.fields[0].type.fields
