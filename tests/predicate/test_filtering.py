# ruff: noqa: ANN401 - literals and bounds of every type
from __future__ import annotations

import math
from typing import Any

import pyarrow as pa
import pytest

from delta_sidecar.errors import PredicateError
from delta_sidecar.predicate import bind, matches, parse

TABLE = pa.table(
    {
        "n": pa.array([1, 2, None, 4], pa.int32()),
        "f": pa.array([0.0, -0.0, math.nan, None]),
        "s": pa.array(["abc", "a\nc", "a%c", None]),
        "b": pa.array([True, False, None, True]),
        "st": pa.array([{"x": 1, "in": {"y": 5}}, None, {"x": None, "in": None}, {"x": 2, "in": {"y": None}}]),
        "dict": pa.array(["x", "y", None, "x"]).dictionary_encode(),
        "view": pa.array(["x", "y", None, "z"], pa.string_view()),
        "fixed": pa.array([b"ab", b"cd", None, b"ab"], pa.binary(2)),
        "void": pa.nulls(4),
    }
)


def rows(text: str, table: pa.Table | pa.RecordBatch = TABLE, schema: pa.Schema | None = None) -> list[int]:
    found = matches(bind(parse(text), schema or table.schema), table)
    assert found.null_count == 0
    return [position for position, hit in enumerate(found.to_pylist()) if hit]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("TRUE", [0, 1, 2, 3]),
        ("NULL", []),
        ("n >= 2", [1, 3]),
        ("NOT (n >= 2)", [0]),
        ("n != 1", [1, 3]),
        ("n IN (1, 4)", [0, 3]),
        ("n NOT IN (1, 4)", [1]),
        ("n NOT IN (1, NULL)", []),
        ("n IN (1, NULL)", [0]),
        ("n = 2.5 OR n IS NULL", [2]),
        ("NOT (n = 2.5)", [0, 1, 3]),
        ("n = NULL OR n = 1", [0]),
        ("n <=> NULL", [2]),
        ("n IS DISTINCT FROM 1", [1, 2, 3]),
        ("n > 1 AND b", [3]),
        ("f = 0", [0, 1]),
        ("f IN (0, 7)", [0, 1]),
        ("f = 'NaN'", []),
        ("f != 5", [0, 1, 2]),
        ("NOT (f < 5)", [2]),
        ("f IN ('NaN', 5)", []),
        ("s LIKE 'a%'", [0, 1, 2]),
        ("s LIKE 'a_c'", [0, 1, 2]),
        ("s LIKE 'a\\%c'", [2]),
        ("s LIKE '%b%'", [0]),
        ("s NOT LIKE '%b%'", [1, 2]),
        ("b IN (true, false)", [0, 1, 3]),
        ("b > false", [0, 3]),
        ("st.x = 1", [0]),
        ("st.x IS NULL", [1, 2]),
        ("st.`in`.y = 5", [0]),
        ("st.`in`.y IS NULL", [1, 2, 3]),
        ("st.in.y IS NULL AND st IS NOT NULL", [2, 3]),
        ("st IS NULL", [1]),
        ("dict = 'x'", [0, 3]),
        ("dict IN ('x', 'y')", [0, 1, 3]),
        ("view > 'x' AND view LIKE '_'", [1, 3]),
        ("fixed = X'6162'", [0, 3]),
        ("void = 1 OR void IS NOT NULL", []),
        ("void IS NULL", [0, 1, 2, 3]),
    ],
)
def test_rows(text: str, expected: list[int]) -> None:
    assert rows(text) == expected


def test_batches_and_chunks_give_the_same() -> None:
    chunked = pa.concat_tables([TABLE.slice(0, 1), TABLE.slice(1, 2), TABLE.slice(3)])
    for text in ("n >= 2 OR f = 0", "st.x = 2", "s LIKE '%c' AND NOT b", "n IN (1, 2)"):
        assert rows(text, chunked) == rows(text) == rows(text, TABLE.to_batches()[0])
    assert rows("n = 1", TABLE.slice(0, 0)) == []


def test_data_of_a_narrower_type_is_widened() -> None:
    assert rows("n = 4000000000 OR n = 2", TABLE, pa.schema([("n", pa.int64())])) == [1]


def column_error(schema: pa.Schema, text: str, table: Any) -> str:
    with pytest.raises(PredicateError) as caught:
        matches(bind(parse(text), schema), table)
    return str(caught.value)


def test_data_that_does_not_fit_the_predicate_is_refused() -> None:
    assert "not in the data" in column_error(pa.schema([("other", pa.int32())]), "other = 1", TABLE)
    assert "has type string" in column_error(pa.schema([("s", pa.int32())]), "s = 1", TABLE)
    with pytest.raises(PredicateError, match="bound"):
        matches(parse("n = 1"), TABLE)


@pytest.mark.parametrize(
    "kind", [pa.string(), pa.string_view(), pa.large_string(), pa.dictionary(pa.int32(), pa.string())]
)
@pytest.mark.parametrize("slice_", [slice(0, 4), slice(1, 3)])
def test_fields_of_any_type_are_null_where_their_struct_is(kind: pa.DataType, slice_: slice) -> None:
    values = pa.array(["a", "a", None, "a"]).cast(kind)
    inner = pa.StructArray.from_arrays([values], names=["v"], mask=pa.array([False, True, False, False]))
    outer = pa.StructArray.from_arrays([inner], names=["in"], mask=pa.array([False, False, False, True]))
    batch = pa.record_batch({"st": outer}).slice(slice_.start, slice_.stop - slice_.start)
    assert rows("st.in.v = 'a'", batch) == [at - slice_.start for at in [0] if at >= slice_.start]
    assert rows("st.in.v IS NULL", batch) == [at - slice_.start for at in range(slice_.start, slice_.stop) if at > 0]
