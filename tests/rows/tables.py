"""Tables with data files of any layout, and the rows that come out of them."""

from __future__ import annotations

import io
import struct
import uuid
import zlib
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

import pyarrow as pa
import pyarrow.parquet as pq
from tests.builder import TableBuilder, add, protocol
from tests.log.roaring import ARRAY, Container, bitmap32, portable
from tests.log.test_z85 import encode_z85

from delta_sidecar import DeltaTable

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

MAPPED = protocol(2, 5)
WITH_VECTORS = protocol(features=["deletionVectors"])


def parquet(rows: pa.Table, **how: Any) -> bytes:  # noqa: ANN401 - what `write_table` takes
    """Writes rows into a Parquet file in memory."""
    into = io.BytesIO()
    pq.write_table(rows, into, **how)
    return into.getvalue()


def put(
    table: TableBuilder,
    name: str,
    content: bytes | pa.Table,
    *,
    partition_values: Mapping[str, str | None] | None = None,
    dv: Mapping[str, Any] | None = None,
    **extra: Any,  # noqa: ANN401 - further fields of the action
) -> dict[str, Any]:
    """Writes a data file of a table and gives its add action, without statistics unless they are given."""
    data = parquet(content) if isinstance(content, pa.Table) else content
    path = table.root / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)
    given = {"stats": None, "size": len(data)} | extra
    return add(quote(name), partition_values=partition_values, dv=dv, **given)


def one_file(
    root: Path,
    schema: Mapping[str, Any],
    content: bytes | pa.Table,
    *,
    partition_values: Mapping[str, str | None] | None = None,
    **table: Any,  # noqa: ANN401 - what the builder takes
) -> TableBuilder:
    """Makes a table of a single data file."""
    built = TableBuilder(root, schema=schema, partition_columns=list(partition_values or ()), **table)
    built.commit([put(built, "part-0.parquet", content, partition_values=partition_values)])
    return built


def read(table: TableBuilder | Path, columns: Sequence[str] | None = None, **query: Any) -> pa.Table:  # noqa: ANN401
    """Reads rows, and checks the batches they come in."""
    root = table.root if isinstance(table, TableBuilder) else table
    found: pa.Table = DeltaTable(root, options=query.pop("options", None)).scan(columns, **query).reader().read_all()
    found.validate(full=True)
    return found


def values(table: TableBuilder | Path, columns: Sequence[str] | None = None, **query: Any) -> list[dict[str, Any]]:  # noqa: ANN401
    """Reads rows as Python values."""
    rows: list[dict[str, Any]] = read(table, columns, **query).to_pylist()
    return rows


def field(name: str, kind: Any, number: int, physical: str | None = None) -> dict[str, Any]:  # noqa: ANN401
    """Makes a field of a schema with column mapping."""
    mapping = {"delta.columnMapping.id": number, "delta.columnMapping.physicalName": physical or f"col-{number}"}
    return {"name": name, "type": kind, "nullable": True, "metadata": mapping}


def struct_type(*fields: Mapping[str, Any] | tuple[str, Any]) -> dict[str, Any]:
    """Makes Delta's struct of fields, or of pairs of a name and a type."""
    made = [
        {"name": each[0], "type": each[1], "nullable": True, "metadata": {}} if isinstance(each, tuple) else each
        for each in fields
    ]
    return {"type": "struct", "fields": made}


def array_type(element: Any) -> dict[str, Any]:  # noqa: ANN401
    """Makes Delta's array."""
    return {"type": "array", "elementType": element, "containsNull": True}


def map_type(key: Any, value: Any) -> dict[str, Any]:  # noqa: ANN401
    """Makes Delta's map."""
    return {"type": "map", "keyType": key, "valueType": value, "valueContainsNull": True}


def with_id(arrow: pa.Field, number: int) -> pa.Field:
    """Gives a field of Arrow the id that it is to have in Parquet."""
    return arrow.with_metadata({"PARQUET:field_id": str(number)})


def inline_vector(deleted: Sequence[int]) -> dict[str, Any]:
    """Makes the descriptor of a deletion vector that is in the log."""
    bitmap = _bitmap(deleted)
    text = encode_z85(bitmap + b"\0" * (-len(bitmap) % 4))
    return {"storageType": "i", "pathOrInlineDv": text, "sizeInBytes": len(bitmap), "cardinality": len(deleted)}


def stored_vector(folder: Path, deleted: Sequence[int], *, prefix: str = "") -> dict[str, Any]:
    """Writes a deletion vector to a file of the table, and makes its descriptor."""
    name = uuid.uuid4()
    path = folder / prefix / f"deletion_vector_{name}.bin"
    return _stored(path, deleted) | {"storageType": "u", "pathOrInlineDv": prefix + encode_z85(name.bytes)}


def absolute_vector(path: Path, deleted: Sequence[int]) -> dict[str, Any]:
    """Writes a deletion vector to a file anywhere, and makes its descriptor."""
    return _stored(path, deleted) | {"storageType": "p", "pathOrInlineDv": f"file://{quote(str(path))}"}


def _stored(path: Path, deleted: Sequence[int]) -> dict[str, Any]:
    bitmap = _bitmap(deleted)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b"\1" + struct.pack(">I", len(bitmap)) + bitmap + struct.pack(">I", zlib.crc32(bitmap)))
    return {"offset": 1, "sizeInBytes": len(bitmap), "cardinality": len(deleted)}


def _bitmap(deleted: Sequence[int]) -> bytes:
    return portable({0: bitmap32([Container(0, ARRAY, sorted(deleted))])})
