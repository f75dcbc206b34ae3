"""Variants, and types that are not known: read as they are, or refused by name where they are asked for."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from tests.builder import protocol
from tests.rows.tables import array_type, field, map_type, one_file, parquet, read, struct_type, values, with_id

from delta_sidecar import UnreadableFileError, UnsupportedFeatureError

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.parametrize(
    "kind", ["geography", array_type("geography"), struct_type(("x", map_type("string", "geography")))]
)
def test_an_unknown_type_is_refused_where_it_is_asked_for(tmp_path: Path, kind: Any) -> None:  # noqa: ANN401
    table = one_file(tmp_path, {"id": "long", "place": kind}, pa.table({"id": [1], "place": [b"?"]}))
    assert values(table, ["id"]) == [{"id": 1}]
    for query in ({}, {"columns": ["place"]}, {"columns": ["id"], "predicate": "place IS NULL"}):
        with pytest.raises(UnsupportedFeatureError, match=r"column place has the type geography") as refused:
            read(table, **query)
        assert refused.value.features == ("geography",)


VARIANT = protocol(features=["variantType", "variantShredding", "columnMapping"])
PLAIN = pa.struct({"value": pa.binary(), "metadata": pa.binary()})
ONE = {"value": b"\x0c\x01", "metadata": b"\x01\x00\x00"}
SHREDDED = pa.struct({"metadata": pa.binary(), "value": pa.binary(), "typed_value": pa.int64()})


@pytest.mark.parametrize("mode", ["none", "name", "id"])
def test_variants_come_as_their_bytes(tmp_path: Path, mode: str) -> None:
    schema = struct_type(
        field("v", "variant", 1, "v"),
        field("l", array_type("variant"), 2, "l"),
        field("m", array_type(map_type("string", "variant")), 3, "m"),
    )
    kinds = {"v": PLAIN, "l": pa.list_(PLAIN), "m": pa.list_(pa.map_(pa.string(), PLAIN))}
    held = pa.schema([with_id(pa.field(name, kind), at) for at, (name, kind) in enumerate(kinds.items(), 1)])
    rows = [{"v": ONE, "l": [ONE, None], "m": [[("k", ONE)]]}, {"v": None, "l": None, "m": None}]
    content = pa.Table.from_pylist(rows, held)
    table = one_file(tmp_path, schema, content, protocol=VARIANT, configuration={"delta.columnMapping.mode": mode})
    assert values(table) == rows


@pytest.mark.parametrize("mode", ["none", "name", "id"])
@pytest.mark.parametrize("row_group_size", [1, 2])
def test_a_predicate_may_look_into_a_variant(tmp_path: Path, mode: str, row_group_size: int) -> None:
    schema = struct_type(field("v", "variant", 1, "v"))
    rows = [{"v": ONE}, {"v": None}]
    held = pa.schema([with_id(pa.field("v", PLAIN), 1)])
    content = parquet(pa.Table.from_pylist(rows, held), row_group_size=row_group_size)
    table = one_file(tmp_path, schema, content, protocol=VARIANT, configuration={"delta.columnMapping.mode": mode})
    assert values(table, predicate="v.value IS NOT NULL") == rows[:1]


@pytest.mark.parametrize(
    ("kind", "held"),
    [
        ("variant", SHREDDED),
        (array_type("variant"), pa.list_(SHREDDED)),
        (map_type("string", "variant"), pa.map_(pa.string(), SHREDDED)),
        (struct_type(("x", "variant")), pa.struct({"x": SHREDDED})),
        (array_type(array_type("variant")), pa.list_(pa.list_(SHREDDED))),
        (map_type("string", array_type("variant")), pa.map_(pa.string(), pa.list_(SHREDDED))),
        (map_type("string", map_type("string", "variant")), pa.map_(pa.string(), pa.map_(pa.string(), SHREDDED))),
    ],
)
def test_a_shredded_variant_is_refused_where_it_is_asked_for(tmp_path: Path, kind: Any, held: pa.DataType) -> None:  # noqa: ANN401
    content = pa.table({"id": [1], "v": pa.nulls(1, held)})
    table = one_file(tmp_path, {"id": "long", "v": kind}, content, protocol=VARIANT)
    assert values(table, ["id"]) == [{"id": 1}]
    with pytest.raises(UnsupportedFeatureError, match=r"column v[.\w]* of part-0.parquet is a shredded variant"):
        read(table)


def test_what_is_no_variant_is_refused(tmp_path: Path) -> None:
    content = pa.table({"v": pa.array([{"metadata": b"", "other": 1}])})
    with pytest.raises(UnreadableFileError, match="a variant in the table"):
        read(one_file(tmp_path, {"v": "variant"}, content, protocol=VARIANT))
