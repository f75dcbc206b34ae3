"""Checkpoints that tell partition values in another way than the map: no live file is lost by it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.builder import TableBuilder, add
from tests.scan.reading import STRATEGIES, scan

from delta_sidecar.predicate import bind, parse
from delta_sidecar.replay.files import Pruning

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

Row = dict[str, object]

SCHEMA = {"id": "long", "day": "string", "hour": "integer"}


def partitioned(tmp_path: Path, change: Callable[[int, Row], None], *, parsed: bool = True) -> TableBuilder:
    """Gives a table that is left with a checkpoint, whose `add` rows were changed one by one."""
    table = TableBuilder(tmp_path, partition_columns=["day", "hour"], schema=SCHEMA)
    files = [(number, day) for number in range(10) for day in "ab"]
    table.commit(
        [
            add(f"{day}{number}", partition_values={"day": day, "hour": str(number)}, rows=[{"id": number}])
            for number, day in files
        ]
    )
    (path,) = table.checkpoint(struct_stats=True)
    table.clean_up(inclusive=True)
    schema = pq.read_schema(path)
    rows = pq.read_table(path).to_pylist()
    for number, row in enumerate(row["add"] for row in rows if row["add"] is not None):
        change(number, row)
        if not parsed:
            row["partitionValues_parsed"] = None
    pq.write_table(pa.Table.from_pylist(rows, schema=schema), path)
    return table


def without_column(table: TableBuilder) -> TableBuilder:
    """Takes `add.partitionValues` out of the table's checkpoint altogether."""
    (path,) = table.log.glob("*.checkpoint.parquet")
    rows = pq.read_table(path)
    actions = rows["add"].combine_chunks()
    kept = [field for field in actions.type if field.name != "partitionValues"]
    columns = [actions.field(field.name) for field in kept]
    narrow = pa.StructArray.from_arrays(columns, fields=kept, mask=actions.is_null())
    pq.write_table(rows.set_column(rows.schema.get_field_index("add"), "add", narrow), path)
    return table


def untouched(number: int, row: Row) -> None:
    del number, row


def null_map(number: int, row: Row) -> None:
    del number
    row["partitionValues"] = None


def some_null_maps(number: int, row: Row) -> None:
    if number % 3 == 0:
        row["partitionValues"] = None


def some_empty_maps(number: int, row: Row) -> None:
    if number % 3 == 0:
        row["partitionValues"] = []


def maps_without_day(number: int, row: Row) -> None:
    del number
    row["partitionValues"] = [entry for entry in row["partitionValues"] if entry[0] != "day"]  # type: ignore[attr-defined]


CHANGES = [null_map, some_null_maps, some_empty_maps]
ABSENT = "no such column"
PREDICATES = {
    "day = 'a'": {f"a{number}" for number in range(10)},
    "day = 'a' AND id >= 5": {f"a{number}" for number in range(5, 10)},
    "day = 'a' AND hour >= 5": {f"a{number}" for number in range(5, 10)},
    "day != 'a' AND hour = 3": {"b3"},
    "id < 2": {"a0", "a1", "b0", "b1"},
    "day IS NULL": set(),
}


def case(tmp_path: Path, change: Callable[[int, Row], None] | str, *, parsed: bool = True) -> TableBuilder:
    if isinstance(change, str):
        return without_column(partitioned(tmp_path, untouched, parsed=parsed))
    return partitioned(tmp_path, change, parsed=parsed)


@pytest.mark.parametrize("change", [untouched, *CHANGES, ABSENT])
def test_what_the_map_does_not_tell_is_taken_from_the_columns(
    tmp_path: Path, change: Callable[[int, Row], None] | str
) -> None:
    table = case(tmp_path, change)
    for strategy in STRATEGIES:
        for predicate, expected in PREDICATES.items():
            found = [file.path for file in scan(table, predicate=predicate, strategy=strategy)]
            assert sorted(found) == sorted(expected), predicate
        values = {file.path: dict(file.partition_values) for file in scan(table, strategy=strategy)}
        assert values == {f"{day}{number}": {"day": day, "hour": str(number)} for number in range(10) for day in "ab"}


@pytest.mark.parametrize("change", [*CHANGES, maps_without_day, ABSENT])
def test_a_partition_value_that_nobody_tells_never_drops_a_file(
    tmp_path: Path, change: Callable[[int, Row], None] | str
) -> None:
    table = case(tmp_path, change, parsed=False)
    untold = {file.path for file in scan(table) if file.partition_values["day"] is None}
    assert untold
    for strategy in STRATEGIES:
        for predicate, expected in PREDICATES.items():
            found = {file.path for file in scan(table, predicate=predicate, strategy=strategy)}
            assert found >= expected, predicate
        for predicate in ("day = 'a'", "day = 'z'", "day IS NULL", "day IS NOT NULL", "NOT day LIKE 'z%'"):
            assert {file.path for file in scan(table, predicate=predicate, strategy=strategy)} >= untold
        # What else is known still decides.
        found = {file.path for file in scan(table, predicate="day = 'a' AND id >= 5", strategy=strategy)}
        assert found
        assert all(int(path[1:]) >= 5 for path in found)


def test_a_commit_that_does_not_tell_partition_values_keeps_its_file(tmp_path: Path) -> None:
    table = TableBuilder(tmp_path, partition_columns=["day"], schema={"id": "long", "day": "string"})
    bare = add("bare", rows=[{"id": 1}])
    del bare["add"]["partitionValues"]
    table.commit([bare, add("a", partition_values={"day": "a"}), add("null", partition_values={"day": None})])
    for strategy in STRATEGIES:
        assert {file.path for file in scan(table, predicate="day = 'a'", strategy=strategy)} == {"a", "bare"}
        assert {file.path for file in scan(table, predicate="day IS NULL", strategy=strategy)} == {"bare", "null"}
        assert {file.path for file in scan(table, predicate="day = 'a' AND id = 2", strategy=strategy)} == {"a"}


def test_values_in_dictionaries_are_tested_as_they_are_in_rows() -> None:
    hour = pa.schema([("hour", pa.int32())])
    pruning = Pruning(bind(parse("hour = 3 OR hour IS NULL"), hour), {("hour",): pa.int32()}, {})
    maps = [[("hour", "4"), ("other", "3")], [("hour", "3")], [("hour", None)], [("hour", "")], [("hour", "03")], None]
    maps = [*maps, [("day", "a"), ("hour", "3")], [("hour", "x")]]
    plain = pa.array(maps * 3, pa.map_(pa.string(), pa.string()))
    coded = pa.MapArray.from_arrays(plain.offsets, plain.keys.dictionary_encode(), plain.items.dictionary_encode())
    coded = coded.filter(plain.is_valid())
    plain = plain.drop_null()
    expected = [False, True, True, True, True, True, True] * 3
    for values in (plain, coded):
        present = np.ones(len(values), dtype=np.bool_)
        assert pruning.by_partition({"partitionValues": values}, present).tolist() == expected
        unknown = pa.concat_arrays([values, values.slice(0, 1)]).take(pa.array([*range(len(values)), None]))
        present = np.ones(len(unknown), dtype=np.bool_)
        # A file whose value is not known may match, and a row that is no file does not.
        assert pruning.by_partition({"partitionValues": unknown}, present).tolist() == [*expected, True]
        present[-1] = False
        assert pruning.by_partition({"partitionValues": unknown}, present).tolist() == [*expected, False]
