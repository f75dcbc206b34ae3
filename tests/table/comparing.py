"""What a table says of itself, side by side with deltalake."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from tests.table.written import in_order

from delta_sidecar.table.facts import DeltaSchema

if TYPE_CHECKING:
    import deltalake

    from delta_sidecar import DeltaTable

FACTS = ("id", "name", "description", "partition_columns", "created_time", "configuration")


def same_facts(ours: DeltaTable, theirs: deltalake.DeltaTable) -> None:
    assert ours.version() == theirs.version()
    assert ours.table_uri == theirs.table_uri
    assert {name: getattr(ours.metadata(), name) for name in FACTS} == {
        name: getattr(theirs.metadata(), name) for name in FACTS
    }
    assert ours.protocol()._fields == theirs.protocol()._fields
    assert sorted_features(ours.protocol()) == sorted_features(theirs.protocol())


def same_schema(ours: DeltaTable, theirs: deltalake.DeltaTable) -> None:
    other = theirs.schema()
    assert ours.schema() == other
    # What is given where deltalake is not installed says the same.
    state = ours.snapshot().state
    own = DeltaSchema(json.loads(state.metadata.schema_string), state.schema)
    assert own.type == other.type
    assert own.json() == json.loads(own.to_json()) == json.loads(other.to_json())
    assert columns(own.to_arrow()) == columns(pa.schema(other.to_arrow()))
    assert columns(own.to_arrow(as_large_types=True)) == columns(pa.schema(other.to_arrow(as_large_types=True)))
    same_fields(own.fields, other.fields)


def same_files(ours: DeltaTable, theirs: deltalake.DeltaTable, *, flattened: bool = True) -> None:
    assert sorted(ours.file_uris()) == sorted(theirs.file_uris())
    if ours.metadata().partition_columns:
        assert in_order(ours.partitions()) == in_order(theirs.partitions())
    for flatten in (False, True)[: 1 + flattened]:
        own, other = ours.get_add_actions(flatten).read_all(), pa.table(theirs.get_add_actions(flatten))
        assert own.schema == other.schema
        assert in_order(map(without_nulls, own.to_pylist())) == in_order(map(without_nulls, other.to_pylist()))


def same_fields(own: list[Any], others: list[Any]) -> None:
    for one, other in zip(own, others, strict=True):
        assert (one.name, one.nullable, one.metadata) == (other.name, other.nullable, other.metadata)
        assert json.loads(one.to_json()) == json.loads(other.to_json())
        assert columns(pa.schema([one.to_arrow()])) == columns(pa.schema([pa.field(other.to_arrow())]))
        same_type(one.type, other.type)


def same_type(one: Any, other: Any) -> None:  # noqa: ANN401 - ours and deltalake's
    assert (one.type, json.loads(one.to_json())) == (other.type, json.loads(other.to_json()))
    for name in ("contains_null", "value_contains_null"):
        assert getattr(one, name, None) == getattr(other, name, None)
    for name in ("element_type", "key_type", "value_type"):
        assert hasattr(one, name) == hasattr(other, name)
        if hasattr(one, name):
            same_type(getattr(one, name), getattr(other, name))
    assert hasattr(one, "fields") == hasattr(other, "fields")
    same_fields(getattr(one, "fields", []), getattr(other, "fields", []))


def columns(schema: pa.Schema) -> list[tuple[str, pa.DataType, bool]]:
    return [(field.name, field.type, field.nullable) for field in schema]


def sorted_features(protocol: tuple[Any, ...]) -> list[Any]:
    return [sorted(entry) if isinstance(entry, list) else entry for entry in protocol]


def without_nulls(row: dict[str, Any]) -> dict[str, Any]:
    """A row without its nulls: whether a struct is null, or all in it, depends on how little a writer notes down."""
    inner = {name: without_nulls(value) if isinstance(value, dict) else value for name, value in row.items()}
    return {name: value for name, value in inner.items() if value not in (None, {})}
