"""Files that are nearly alike: each is read by its own columns, though what is known of one serves many."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import duckdb
import pyarrow as pa
import pytest
from tests.builder import TableBuilder
from tests.rows.old_lists import repeated
from tests.rows.tables import MAPPED, array_type, field, one_file, parquet, put, struct_type, values, with_id

if TYPE_CHECKING:
    from pathlib import Path

ONE_BY_ONE = {"file_parallelism": 1}
INNER = pa.struct([("x", pa.int64())])


def bare(rows: pa.Table, **how: Any) -> bytes:  # noqa: ANN401
    """Writes a file that says nothing of Arrow's schema, as most writers do."""
    return parquet(rows, store_schema=False, **how)


def by_duckdb(folder: Path, name: str, select: str) -> bytes:
    path = folder / f"{name}.duckdb.parquet"
    duckdb.sql(f"COPY (SELECT {select}) TO '{path}' (FORMAT parquet)")
    return path.read_bytes()


@pytest.mark.parametrize("writer", ["arrow", "duckdb"])
def test_lists_of_other_names(tmp_path: Path, writer: str) -> None:
    """Of both, the leaf is called list.element, and has the same type and levels."""
    built = TableBuilder(tmp_path, schema={"i": "long", "l": array_type("long"), "m": array_type("long")})
    if writer == "arrow":
        files = [bare(pa.table({"i": [1], "l": [[1]]})), bare(pa.table({"i": [2], "m": [[2]]}))]
    else:
        files = [
            by_duckdb(tmp_path, "1", "1::BIGINT AS i, [1::BIGINT] AS l"),
            by_duckdb(tmp_path, "2", "2::BIGINT AS i, [2::BIGINT] AS m"),
        ]
    built.commit([put(built, f"{at}.parquet", content) for at, content in enumerate(files)])
    assert values(built, options=ONE_BY_ONE) == [{"i": 1, "l": [1], "m": None}, {"i": 2, "l": None, "m": [2]}]
    assert values(built, ["i", "m"], options=ONE_BY_ONE) == [{"i": 1, "m": None}, {"i": 2, "m": [2]}]


def test_structs_in_another_order(tmp_path: Path) -> None:
    low, high = (
        pa.array([{"x": value} for value in numbers], INNER) for numbers in ([1, 2, 3, 4], [100, 200, 300, 400])
    )
    built = TableBuilder(tmp_path, schema={"a": struct_type(("x", "long")), "b": struct_type(("x", "long"))})
    orders = [pa.table({"a": low, "b": high}), pa.table({"b": high, "a": low})]
    built.commit([put(built, f"{at}.parquet", bare(rows, row_group_size=2)) for at, rows in enumerate(orders)])
    assert len(values(built, predicate="a.x <= 4", options=ONE_BY_ONE)) == 8
    assert [row["b"]["x"] for row in values(built, predicate="b.x >= 300", options=ONE_BY_ONE)] == [300, 400] * 2


def test_ids_of_structs_alone(tmp_path: Path) -> None:
    """The fields in them have the same ids, and so the leaves."""
    inner = struct_type(field("x", "long", 3))
    fields = struct_type(field("a", inner, 1), field("b", inner, 2))
    mode = {"delta.columnMapping.mode": "id"}
    built = TableBuilder(tmp_path, schema=fields, protocol=MAPPED, configuration=mode)
    kind = pa.struct([with_id(pa.field("x", pa.int64()), 3)])
    rows = [
        pa.table([pa.array([{"x": number}], kind)], schema=pa.schema([with_id(pa.field("s", kind), number)]))
        for number in (1, 2)
    ]
    built.commit([put(built, f"{at}.parquet", bare(each)) for at, each in enumerate(rows)])
    assert values(built, options=ONE_BY_ONE) == [{"a": {"x": 1}, "b": None}, {"a": None, "b": {"x": 2}}]


def test_empty_lists_of_old_writers_are_no_nulls(tmp_path: Path) -> None:
    """A list that is nothing but repeated counts an empty one as a null of its leaf, which has the column's name."""
    element = pa.field("element", pa.int32(), nullable=False)
    schema = pa.schema([pa.field("l", pa.list_(element), nullable=False), ("x", pa.int64())])
    rows = pa.Table.from_pydict({"l": [[], [], [1]], "x": [1, 2, 3]}, schema=schema)
    content = repeated(parquet(rows, row_group_size=2))
    table = one_file(tmp_path, {"l": array_type("integer"), "x": "long"}, content)
    assert len(values(table, predicate="l IS NOT NULL")) == 3
    assert values(table, predicate="l IS NULL") == []


def test_names_that_were_made_up_are_told_apart_by_case(tmp_path: Path) -> None:
    fields = struct_type(field("x", "long", 1, "col"), field("y", "long", 2, "COL"))
    mode = {"delta.columnMapping.mode": "name"}
    table = one_file(tmp_path, fields, pa.table({"col": [1]}), protocol=MAPPED, configuration=mode)
    assert values(table) == [{"x": 1, "y": None}]
