from __future__ import annotations

import json
from typing import Any

import pyarrow as pa
import pytest
from tests.builder.values import PRIMITIVES

from delta_sidecar.errors import InvalidMetadataError
from delta_sidecar.log.actions import Metadata, Protocol
from delta_sidecar.log.schema import UNKNOWN_TYPE, TableSchema, read_schema

TYPES = {
    **PRIMITIVES,
    "decimal(10,2)": pa.decimal128(10, 2),
    "decimal( 38 , 0 )": pa.decimal128(38, 0),
    "void": pa.null(),
    "char(5)": pa.string(),
    "varchar(255)": pa.string(),
}


def field(name: str, kind: object, *, nullable: bool = True, **metadata: object) -> dict[str, Any]:
    return {"name": name, "type": kind, "nullable": nullable, "metadata": metadata}


def struct(*fields: dict[str, Any]) -> dict[str, Any]:
    return {"type": "struct", "fields": list(fields)}


def mapped(name: str, kind: object, physical: str, number: int) -> dict[str, Any]:
    return field(name, kind, **{"delta.columnMapping.physicalName": physical, "delta.columnMapping.id": number})


def schema_of(
    root: object, partition_columns: tuple[str, ...] = (), mode: str | None = None, protocol: Protocol | None = None
) -> TableSchema:
    configuration = {} if mode is None else {"delta.columnMapping.mode": mode}
    text = root if isinstance(root, str) else json.dumps(root)
    metadata = Metadata("id", text, partition_columns, configuration)
    return read_schema(metadata, protocol or Protocol(2, 5), "the table")


@pytest.mark.parametrize("name", TYPES)
def test_primitive_types(name: str) -> None:
    for nullable in (True, False) if name != "void" else (True,):
        schema = schema_of(struct(field("c", name, nullable=nullable)))
        assert schema.logical == schema.physical == pa.schema([pa.field("c", TYPES[name], nullable=nullable)])
    assert schema.physical_names == {("c",): ("c",)}
    assert schema.bounded_types == ({("c",): TYPES[name]})


def test_nested_types() -> None:
    inner = struct(field("x", "long"), field("y.z", struct(field("deep", "date"))))
    array = {"type": "array", "elementType": inner, "containsNull": False}
    mapping = {"type": "map", "keyType": "string", "valueType": array, "valueContainsNull": True}
    schema = schema_of(struct(field("s", inner), field("a", array), field("m", mapping)))
    arrow = pa.struct([("x", pa.int64()), ("y.z", pa.struct([("deep", pa.date32())]))])
    assert schema.logical.field("s").type == arrow
    assert schema.logical.field("a").type == pa.list_(pa.field("element", arrow, nullable=False))
    assert schema.logical.field("m").type.item_type == schema.logical.field("a").type
    assert schema.physical_names.keys() == {("s",), ("s", "x"), ("s", "y.z"), ("s", "y.z", "deep"), ("a",), ("m",)}
    assert schema.bounded_types == {("s", "x"): pa.int64(), ("s", "y.z", "deep"): pa.date32()}


def test_a_variant_is_a_struct_without_columns_of_its_own() -> None:
    schema = schema_of(struct(field("v", "variant")))
    assert pa.types.is_struct(schema.logical.field("v").type)
    assert schema.bounded_types == {}


@pytest.mark.parametrize("nullable", [True, False])
def test_an_unknown_type_is_kept_by_name_and_has_no_bounds(*, nullable: bool) -> None:
    schema = schema_of(struct(field("g", "geometry(4326)", nullable=nullable), field("id", "long")))
    assert schema.logical.field("g").type == pa.null()
    assert schema.logical.field("g").metadata[UNKNOWN_TYPE] == b"geometry(4326)"
    assert schema.logical.field("id").type == pa.int64()


@pytest.mark.parametrize("mode", ["name", "id", "NAME"])
@pytest.mark.parametrize("protocol", [Protocol(2, 5), Protocol(3, 7, ("columnMapping",))])
def test_column_mapping(mode: str, protocol: Protocol) -> None:
    inner = struct(mapped("x", "long", "col-3", 3))
    array = {"type": "array", "elementType": inner, "containsNull": True}
    root = struct(mapped("a b", "string", "col-1", 1), mapped("s", inner, "col-2", 2), mapped("l", array, "col-4", 4))
    schema = schema_of(root, ("a b",), mode, protocol)
    assert schema.column_mapping == mode.lower()
    assert schema.logical.names == ["a b", "s", "l"]
    assert schema.physical.names == ["col-1", "col-2", "col-4"]
    assert schema.physical.field("col-2").type == pa.struct([("col-3", pa.int64())])
    assert schema.physical.field("col-4").type.value_type == pa.struct([("col-3", pa.int64())])
    assert schema.physical_names[("s", "x")] == ("col-2", "col-3")
    assert (schema.partition_columns, schema.physical_partition_columns) == (("a b",), ("col-1",))
    assert schema.physical.field("col-1").metadata[b"PARQUET:field_id"] == b"1"
    assert schema.bounded_types == {("col-1",): pa.string(), ("col-2", "col-3"): pa.int64()}


@pytest.mark.parametrize("protocol", [Protocol(1, 2), Protocol(3, 7, ("deletionVectors",)), Protocol(3, 7)])
def test_column_mapping_needs_its_protocol(protocol: Protocol) -> None:
    schema = schema_of(struct(mapped("a", "long", "col-1", 1)), mode="name", protocol=protocol)
    assert schema.physical.names == ["a"]
    assert schema.column_mapping == "none"


def test_physical_names_count_only_with_column_mapping() -> None:
    assert schema_of(struct(mapped("a", "long", "col-1", 1))).physical.names == ["a"]
    assert schema_of(struct(mapped("a", "long", "col-1", 1)), mode="none").physical.names == ["a"]


def test_columns_whose_bounds_cannot_be_compared() -> None:
    changed = {"delta.typeChanges": [{"fromType": "integer", "toType": "long"}]}
    collated = {"__COLLATIONS": {"c": "ICU.UNICODE"}}
    root = struct(field("w", "long", **changed), field("c", "string", **collated), field("k", "long"))
    schema = schema_of(root)
    assert schema.incomparable == {("w",), ("c",)}
    assert schema.bounded_types == {("k",): pa.int64()}


def test_partition_columns_are_found_whatever_their_case() -> None:
    assert schema_of(struct(field("Day", "date")), ("day",)).partition_columns == ("Day",)
    with pytest.raises(InvalidMetadataError, match=r"'dai'.*the table"):
        schema_of(struct(field("Day", "date")), ("dai",))
    with pytest.raises(InvalidMetadataError, match="'DAY'"):
        schema_of(struct(field("Day", "date"), field("day", "date")), ("DAY",))
    assert schema_of(struct(field("Day", "date"), field("day", "date")), ("day",)).partition_columns == ("day",)


def test_metadata_of_a_field_is_kept() -> None:
    schema = schema_of(struct(field("a", "long", comment="hello", **{"x.y": {"z": 1}})))
    assert schema.logical.field("a").metadata == {b"comment": b'"hello"', b"x.y": b'{"z": 1}'}


@pytest.mark.parametrize(
    "root",
    [
        "",
        "{",
        "null",
        "7",
        "[]",
        "{}",
        '{"fields":7}',
        '{"fields":[7]}',
        '{"fields":[{}]}',
        '{"fields":[{"name":"a"}]}',
        '{"fields":[{"name":"a","type":7}]}',
        '{"fields":[{"name":"a","type":{}}]}',
        '{"fields":[{"name":"a","type":{"type":"array"}}]}',
        '{"fields":[{"name":"a","type":"decimal(99,2)"}]}',
        '{"fields":[{"name":"a","type":"long","metadata":7}]}',
        '{"type":"struct","fields":[{"name":"a","type":' * 50_000,
        '{"fields":[{"name":"a","type":' + '{"type":"array","elementType":' * 50_000 + '"long"' + "}" * 50_000 + "}]}",
    ],
    ids=lambda text: text[:50],
)
def test_a_schema_that_makes_no_sense_is_refused(root: str) -> None:
    with pytest.raises(InvalidMetadataError, match="the table"):
        schema_of(root)


def test_a_mapped_column_without_a_physical_name_is_refused() -> None:
    with pytest.raises(InvalidMetadataError, match="physicalName"):
        schema_of(struct(field("a", "long")), mode="name")
    with pytest.raises(InvalidMetadataError, match="'sideways'"):
        schema_of(struct(field("a", "long")), mode="sideways")


def test_an_empty_schema_is_no_error() -> None:
    assert schema_of(struct()).logical == pa.schema([])
