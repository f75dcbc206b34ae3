from __future__ import annotations

import contextlib
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.sidecar.made import VALUES

from delta_sidecar._thrift import (
    BINARY,
    DEEPEST,
    DOUBLE,
    FALSE,
    I8,
    I16,
    I32,
    I64,
    LIST,
    SET,
    STRUCT,
    TRUE,
    ThriftList,
    TruncatedThriftError,
    field,
    field_head,
    list_head,
    read_struct,
    read_struct_at,
    write_struct,
)

NUMBERS = {I16: 15, I32: 31, I64: 63}


def value_of(kind: int, deeper: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    if kind in NUMBERS:
        return st.integers(-(1 << NUMBERS[kind]), (1 << NUMBERS[kind]) - 1)
    if kind == BINARY:
        return st.binary(max_size=200)
    if kind in (LIST, SET):
        return kinds().flatmap(
            lambda item: st.builds(ThriftList, st.just(item), st.lists(item_of(item, deeper), max_size=20))
        )
    if kind == STRUCT:
        return deeper
    return {I8: st.integers(-128, 127), DOUBLE: st.binary(min_size=8, max_size=8)}[kind]


def kinds() -> st.SearchStrategy[int]:
    return st.sampled_from([TRUE, FALSE, I8, I16, I32, I64, DOUBLE, BINARY, STRUCT])


def item_of(kind: int, deeper: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.booleans() if kind in (TRUE, FALSE) else value_of(kind, deeper)


@st.composite
def one_struct(draw: st.DrawFn, deeper: st.SearchStrategy[Any]) -> dict[int, Any]:
    fields: dict[int, Any] = {}
    for number in sorted(draw(st.sets(st.integers(1, 40) | st.integers(1, 2**15 - 1), max_size=5))):
        kind = draw(st.sampled_from([TRUE, FALSE, I8, I16, I32, I64, DOUBLE, BINARY, LIST, SET, STRUCT]))
        fields[field(number, kind)] = kind == TRUE if kind in (TRUE, FALSE) else draw(value_of(kind, deeper))
    return fields


STRUCTS = st.recursive(st.just({}), one_struct, max_leaves=8)


@given(STRUCTS)
def test_structs_are_read_back(struct: dict[int, Any]) -> None:
    data = write_struct(struct)
    read = read_struct(data)
    assert read == struct
    assert list(read) == list(struct)
    assert write_struct(read) == data


@given(st.binary(max_size=60) | STRUCTS.map(write_struct), st.data())
def test_bytes_are_read_whole_or_refused(data: bytes, draw: st.DataObject) -> None:
    changed = bytearray(data)
    for place in draw.draw(st.lists(st.integers(0, max(0, len(data) - 1)), max_size=3)):
        if changed:
            changed[place] = draw.draw(st.integers(0, 255))
    with contextlib.suppress(ValueError):
        assert write_struct(read_struct(bytes(changed))) == bytes(changed)


@pytest.mark.parametrize("version", ["1.0", "2.6"])
@pytest.mark.parametrize("dictionary", [True, False])
def test_real_footers_are_read_back(version: str, *, dictionary: bool) -> None:
    columns = {f"c{number}": pa.nulls(40, kind) for number, kind in enumerate(VALUES)}
    columns |= {f"d{number}": pa.array(range(40)) for number in range(20)}
    table = pa.table(columns | {"nested": pa.array([{"a": [1, 2], "b": {"c": "x"}}] * 40)})
    sink = pa.BufferOutputStream()
    pq.write_table(
        table,
        sink,
        row_group_size=7,
        version=version,
        use_dictionary=dictionary,
        write_page_index=True,
        sorting_columns=[pq.SortingColumn(0)],
    )
    data = sink.getvalue().to_pybytes()
    length = int.from_bytes(data[-8:-4], "little")
    footer = data[-8 - length : -8]
    assert write_struct(read_struct(footer)) == footer
    for end in range(0, length, 1_009):
        with pytest.raises(TruncatedThriftError, match=r"end|longer|more items"):
            read_struct(footer[:end])
    assert read_struct_at(b".." + footer + b"..", 2) == (read_struct(footer), 2 + length)


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"", "end before"),
        (b"\x15", "end before"),
        (b"\x15\x80", "end before"),
        (b"\x00\x00", "bytes after"),
        (b"\x15\x02\x00\x15", "bytes after"),
        (b"\x10\x00", "type 0"),
        (b"\x1d\x00", "type 13"),
        (b"\x1f\x00", "type 15"),
        (b"\x15\x82\x00\x00", "more bytes than it needs"),
        (b"\x15" + b"\xff" * 11 + b"\x00", "without an end"),
        (b"\x15\x80\x80\x80\x80\x20\x00", "out of range"),
        (b"\x14\x80\x80\x04\x00", "out of range"),
        (b"\x16\x80\x80\x80\x80\x80\x80\x80\x80\x80\x02\x00", "out of range"),
        (b"\x05\x02\x02\x00", "short one"),
        (b"\x25\x02\x05\x02\x02\x00", "out of order"),
        (b"\x25\x02\x05\x03\x02\x00", "out of order"),
        (b"\x18\x05ab\x00", "longer than the bytes"),
        (b"\x18\xff\xff\xff\xff\x0fab\x00", "longer than the bytes"),
        (b"\x17\x00\x00", "longer than the bytes"),
        (b"\x19\xf5\xff\xff\xff\xff\x0f\x00", "more items than bytes"),
        (b"\x19\xf5\x01\x02\x00", "short one"),
        (b"\x19\x11\x00\x00", "neither true nor false"),
        (b"\x19\x0d\x00", "type 13"),
        (b"\x19\x00\x00", "type 0"),
        (b"\x1b\x01\x55\x00\x00", "type 11"),
        (b"\x19\x1b\x00\x00", "type 11"),
        (b"\x1c" * (DEEPEST + 1) + b"\x00" * (DEEPEST + 2), "nested too deeply"),
        (b"\x1c" * 1_000_000, "nested too deeply"),
        (b"\x19" * 1 + b"\x19" * 1_000, "nested too deeply"),
    ],
)
def test_what_is_out_of_form(data: bytes, reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        read_struct(data)


@pytest.mark.parametrize(
    "struct",
    [
        {field(2, I32): 1, field(1, I32): 1},
        {field(1, I32): 2**31},
        {field(1, I64): -(2**63) - 1},
        {field(0, I32): 1},
        {field(1, 13): 1},
        {field(2**15 + 20, I32): 1},
    ],
)
def test_what_cannot_be_written(struct: dict[int, Any]) -> None:
    with pytest.raises(ValueError, match=r"field|range|type"):
        write_struct(struct)


def test_a_footer_can_be_written_piece_by_piece() -> None:
    items = [{field(1, I32): number} for number in range(20)]
    whole = write_struct({field(3, I64): 7, field(4, LIST): ThriftList(STRUCT, items), field(40, TRUE): True})
    pieces = [write_struct({field(3, I64): 7})[:-1], field_head(field(4, LIST), field(3, I64)), list_head(STRUCT, 20)]
    pieces += [write_struct(item) for item in items]
    pieces += [field_head(field(40, TRUE), field(4, LIST)), b"\x00"]
    assert b"".join(pieces) == whole
