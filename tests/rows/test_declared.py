"""Tables of rows whose columns are declared as the table's schema has them."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import deltalake
import pyarrow as pa

from delta_sidecar import DeltaTable

if TYPE_CHECKING:
    from pathlib import Path

SCHEMA = pa.schema(
    [
        pa.field("id", pa.int64(), nullable=False),
        pa.field("list", pa.list_(pa.field("element", pa.int64(), nullable=False))),
        pa.field("struct", pa.struct([pa.field("x", pa.int64(), nullable=False), pa.field("y", pa.string())])),
        pa.field("map", pa.map_(pa.string(), pa.field("value", pa.int64(), nullable=False))),
    ]
)
ROWS = {
    "id": [1, 2],
    "list": [[1], None],
    "struct": [{"x": 1, "y": None}, None],
    "map": [[("a", 1)], None],
}


def test_a_table_is_declared_as_its_schema(tmp_path: Path) -> None:
    deltalake.write_deltalake(tmp_path, pa.table(ROWS, schema=SCHEMA))
    found = DeltaTable(tmp_path).to_pyarrow_table()
    found.validate(full=True)
    assert found == deltalake.DeltaTable(tmp_path).to_pyarrow_table() == pa.table(ROWS, schema=SCHEMA)
    assert found.schema == SCHEMA
    assert DeltaTable(tmp_path).to_pyarrow_table(columns=["map", "id"]).schema.field("id") == SCHEMA.field("id")
    # Batches come before it is known that no row is null.
    assert all(field.nullable for field in DeltaTable(tmp_path).scan().schema)


def test_a_column_with_a_null_is_nullable_whatever_the_schema_says(tmp_path: Path) -> None:
    nullable = pa.schema([field.with_nullable(True) for field in SCHEMA])  # noqa: FBT003 - as pyarrow has it
    deltalake.write_deltalake(tmp_path, pa.table({**ROWS, "id": [1, None]}, schema=nullable))
    commit = tmp_path / "_delta_log" / f"{0:020}.json"
    lines = [json.loads(line) for line in commit.read_text().splitlines()]
    for line in lines:
        if "metaData" in line:
            schema = json.loads(line["metaData"]["schemaString"])
            schema["fields"][0]["nullable"] = False
            line["metaData"]["schemaString"] = json.dumps(schema)
    commit.write_text("".join(json.dumps(line) + "\n" for line in lines))
    found = DeltaTable(tmp_path).to_pyarrow_table()
    found.validate(full=True)
    assert found.schema.field("id").nullable
    assert found["id"].to_pylist() == [1, None]
    assert found.schema.field("struct") == SCHEMA.field("struct")
