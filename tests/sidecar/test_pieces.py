from __future__ import annotations

import io
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.sidecar.made import VALUES, batches, schemas

from delta_sidecar._arrow import xxh3_128
from delta_sidecar._thrift import I32, STRUCT, ThriftList, ThriftStruct, field, read_struct, write_struct
from delta_sidecar.errors import SidecarError
from delta_sidecar.sidecar.pieces import (
    CHUNKS_KEY,
    FILE_GROUPS,
    FILE_KEYS,
    KEY,
    VALUE,
    encode_piece,
    piece_footer,
    read_footer,
    read_piece_footer,
    sealed,
)

if TYPE_CHECKING:
    from delta_sidecar.sidecar.schema import SidecarSchema

PATIENTLY = settings(deadline=None, max_examples=25)
ROWS = pa.record_batch(
    {
        "path": pa.array([f"part-{number:05}.parquet" for number in range(1_000)]),
        "min.a.b": pa.array(range(1_000)),
        "max.a.b": pa.array([None, 1] * 500),
        "hour": pa.array(["2025010100"] * 400 + [None] * 600),
    }
)


def read(piece: bytes) -> pa.Table:
    return pq.ParquetFile(io.BytesIO(piece), page_checksum_verification=True).read()


@PATIENTLY
@given(st.data(), schemas(), st.integers(0, 12))
def test_a_piece_is_a_parquet_file_of_its_own(data: st.DataObject, schema: SidecarSchema, rows: int) -> None:
    for columns in (schema.index, schema.statistics_schema):
        batch = data.draw(batches(columns, rows))
        for digests in (False, True):
            piece = encode_piece(batch, chunk_digests=digests, skippable=columns.names)
            table = read(piece)
            assert table.schema == columns
            assert table.to_pylist() == batch.to_pylist()
            assert piece == encode_piece(batch, chunk_digests=digests, skippable=columns.names)


def test_a_piece_is_one_row_group_and_a_column_one_page() -> None:
    rows = pa.record_batch({"path": pa.array(["x" * 300 + str(number) for number in range(30_000)])})
    piece = encode_piece(rows, chunk_digests=False)
    metadata = pq.read_metadata(io.BytesIO(piece))
    assert metadata.num_row_groups == 1
    assert metadata.row_group(0).column(0).compression == "ZSTD"
    assert not metadata.row_group(0).column(0).has_dictionary_page
    assert metadata.metadata is None
    found = read_piece_footer(piece_footer(piece)).ranges["path"]
    chunk = piece[found.start : found.end]
    length, header = next(
        (length, header) for length in range(1, 80) if (header := page_header(chunk[:length])) is not None
    )
    assert length + header[field(3, I32)] == len(chunk)


def page_header(data: bytes) -> ThriftStruct | None:
    try:
        return read_struct(data)
    except ValueError:
        return None


def test_only_columns_for_skipping_tell_their_bounds() -> None:
    piece = encode_piece(ROWS, chunk_digests=False, skippable=["hour", "min.a.b"])
    group = pq.read_metadata(io.BytesIO(piece)).row_group(0)
    told = {group.column(place).path_in_schema: group.column(place).statistics for place in range(4)}
    assert told["path"] is None
    assert told["max.a.b"] is None
    assert (told["hour"].min, told["hour"].max, told["hour"].null_count) == ("2025010100", "2025010100", 600)
    assert (told["min.a.b"].min, told["min.a.b"].max) == (0, 999)


def test_pages_have_checksums() -> None:
    piece = bytearray(encode_piece(ROWS, chunk_digests=False))
    found = read_piece_footer(piece_footer(bytes(piece))).ranges["path"]
    piece[found.end - 1] ^= 1
    with pytest.raises(OSError, match=r"CRC|crc|[Cc]hecksum"):
        read(bytes(piece))


def test_every_column_has_its_digest() -> None:
    piece = encode_piece(ROWS, chunk_digests=True)
    ranges = read_piece_footer(piece_footer(piece)).ranges
    assert list(ranges) == ROWS.schema.names
    for found in ranges.values():
        assert found.digest == xxh3_128(piece[found.start : found.end])
    ends = [4, *(found.end for found in ranges.values())]
    assert [found.start for found in ranges.values()] == ends[:-1]
    assert piece[ends[-1] :] == piece_footer(piece)
    assert {
        found.digest
        for found in read_piece_footer(piece_footer(encode_piece(ROWS, chunk_digests=False))).ranges.values()
    } == {None}


@pytest.mark.parametrize("names", [["min.a.b"], ["hour", "path"], ["path", "min.a.b", "max.a.b", "hour"], []])
def test_some_columns_are_read_alone(names: list[str]) -> None:
    piece = encode_piece(ROWS, chunk_digests=True)
    footer = read_piece_footer(piece_footer(piece))
    chunks = {name: piece[footer.ranges[name].start : footer.ranges[name].end] for name in names}
    table = read(footer.excerpt(chunks))
    in_order = [name for name in ROWS.schema.names if name in names]
    assert table.schema.names == in_order
    assert table.to_pylist() == ROWS.select(in_order).to_pylist()


def test_an_excerpt_of_the_wrong_bytes_is_refused() -> None:
    piece = encode_piece(ROWS, chunk_digests=True)
    footer = read_piece_footer(piece_footer(piece))
    with pytest.raises(SidecarError, match="no column 'other'"):
        footer.excerpt({"other": b""})
    with pytest.raises(SidecarError, match="not its length"):
        footer.excerpt({"path": b"short"})


@pytest.mark.parametrize("piece", [b"", b"PAR1", b"PAR1PAR1", b"PAR1" + b"\xff" * 4 + b"PAR1", b"PARE\0\0\0\0\0PAR1"])
def test_what_is_no_piece(piece: bytes) -> None:
    with pytest.raises(SidecarError):
        read_piece_footer(piece_footer(piece))


@pytest.mark.parametrize("footer", [b"", b"PAR1", b"\0\0\0\0PAR1", b"\x01\0\0\0PAR1", b"\0\x01\0\0\0PAR1", b"\0" * 9])
def test_what_is_no_footer(footer: bytes) -> None:
    with pytest.raises(SidecarError):
        read_piece_footer(footer)


@settings(deadline=None, max_examples=150)
@given(st.data())
def test_a_damaged_footer_gives_ranges_or_is_refused(data: st.DataObject) -> None:
    footer = bytearray(piece_footer(encode_piece(ROWS, chunk_digests=True)))
    for _ in range(data.draw(st.integers(1, 3))):
        footer[data.draw(st.integers(0, len(footer) - 1))] = data.draw(st.integers(0, 255))
    try:
        ranges = read_piece_footer(bytes(footer)).ranges
    except SidecarError:
        return
    assert all(4 <= found.start <= found.end for found in ranges.values())


@pytest.mark.parametrize("value", [b"", b"abc", b",".join([b"0" * 32] * 3), b",".join([b"0" * 31] * 4), b"\xff" * 131])
def test_digests_out_of_form_are_refused(value: bytes) -> None:
    tree = read_footer(piece_footer(encode_piece(ROWS, chunk_digests=True)))
    tree[FILE_KEYS] = ThriftList(STRUCT, [{KEY: CHUNKS_KEY, VALUE: value}])
    with pytest.raises(SidecarError, match="out of form"):
        read_piece_footer(sealed(write_struct(tree)))


def test_two_row_groups_are_no_piece() -> None:
    tree = read_footer(piece_footer(encode_piece(ROWS, chunk_digests=True)))
    tree[FILE_GROUPS] = ThriftList(STRUCT, tree[FILE_GROUPS].items * 2)
    with pytest.raises(SidecarError, match="out of form"):
        read_piece_footer(sealed(write_struct(tree)))


def test_a_piece_of_thousands_of_columns() -> None:
    rows = pa.record_batch(
        {
            f"{part}.c{number}": pa.nulls(3, kind)
            for number, kind in enumerate([*VALUES] * 80)
            for part in ("min", "max", "null_count")
        }
    )
    piece = encode_piece(rows, chunk_digests=True)
    ranges = read_piece_footer(piece_footer(piece)).ranges
    assert list(ranges) == rows.schema.names
    assert len(ranges) > 3_000
