"""Deletion vectors: where they are stored, what they delete, and what is refused."""

from __future__ import annotations

import struct
import zlib
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.log.roaring import ARRAY, RUNS, Container, bitmap32, portable

from delta_sidecar import DeletionVector, DeletionVectorError
from delta_sidecar.log.deletion_vectors import deleted_rows, inline_bytes, stored_range

# The descriptors that the protocol has as examples.
RELATIVE = DeletionVector("u", "ab^-aqEH.-t@S}K{vb[*k^", 4, 40, 6)
ABSOLUTE = DeletionVector("p", "s3://mytable/deletion_vector_d2c639aa-8816-431a-aaf6-d3fe2512ff61.bin", 4, 40, 6)
INLINE = DeletionVector("i", "wi5b=000010000siXQKl0rr91000f55c8Xg0@@D72lkbi5=-{L", None, 40, 6)
INLINE_ROWS = [3, 4, 7, 11, 18, 29]

BITMAP = portable({0: bitmap32([Container(0, ARRAY, INLINE_ROWS), Container(1, RUNS, range(5))])})
ROWS = [*INLINE_ROWS, *range(65536, 65541)]
STORED = DeletionVector("u", "vBn[lx{q8@P<9BNH/isA", 1, len(BITMAP), len(ROWS))


def framed(bitmap: bytes) -> bytes:
    return struct.pack(">I", len(bitmap)) + bitmap + struct.pack(">I", zlib.crc32(bitmap))


def test_a_vector_in_a_file_is_read() -> None:
    assert deleted_rows(STORED, framed(BITMAP)).tolist() == ROWS
    assert deleted_rows(replace(ABSOLUTE, size_in_bytes=len(BITMAP), cardinality=len(ROWS)), framed(BITMAP)).size


def test_the_inline_vector_of_the_protocol_is_read() -> None:
    assert INLINE.file_path() is None
    assert deleted_rows(INLINE, inline_bytes(INLINE)).tolist() == INLINE_ROWS


@pytest.mark.parametrize(
    ("text", "size", "rows"),
    [
        ("^Bg9^0rr910000000000iXQKl0rr91000f55c8Xg0@@D72lkbi5=-{L", 44, INLINE_ROWS),
        ("^Bg9^0rr910000000000iXQKl0rr91000935c8Xg000311onP9", 40, [0, 1, 4, 5]),
        # The last two bytes in a short block of their own, and in a block that is filled up.
        ("^Bg9^0rr910000000000iXQKl0rr91000005c8Xg##093", 34, [3]),
        ("^Bg9^0rr910000000000iXQKl0rr91000005c8Xg0@@r3", 34, [3]),
    ],
)
def test_inline_vectors(text: str, size: int, rows: list[int]) -> None:
    vector = DeletionVector("i", text, None, size, len(rows))
    assert deleted_rows(vector, inline_bytes(vector)).tolist() == rows


@pytest.mark.parametrize(
    "vector", [DeletionVector("i", "", None, 0, 0), replace(STORED, size_in_bytes=0, cardinality=0)]
)
def test_a_vector_without_a_byte_deletes_nothing(vector: DeletionVector) -> None:
    data = inline_bytes(vector) if vector.storage_type == "i" else framed(b"")
    assert deleted_rows(vector, data).tolist() == []
    with pytest.raises(DeletionVectorError, match="it is empty"):
        deleted_rows(replace(vector, cardinality=1), data)


@pytest.mark.parametrize(
    ("kind", "text", "path"),
    [
        ("u", "ab^-aqEH.-t@S}K{vb[*k^", "ab/deletion_vector_d2c639aa-8816-431a-aaf6-d3fe2512ff61.bin"),
        ("u", "^-aqEH.-t@S}K{vb[*k^", "deletion_vector_d2c639aa-8816-431a-aaf6-d3fe2512ff61.bin"),
        ("u", "a%20b^-aqEH.-t@S}K{vb[*k^", "a%20b/deletion_vector_d2c639aa-8816-431a-aaf6-d3fe2512ff61.bin"),
        ("u", "a/ü^-aqEH.-t@S}K{vb[*k^", "a/ü/deletion_vector_d2c639aa-8816-431a-aaf6-d3fe2512ff61.bin"),
        ("p", "s3://mytable/deletion_vector_1.bin", "s3://mytable/deletion_vector_1.bin"),
        ("p", "file:/a%20b/c%25.bin", "file:/a b/c%.bin"),
        ("p", "/a/b.bin", "/a/b.bin"),
        ("i", "anything", None),
    ],
)
def test_the_file_of_a_vector(kind: str, text: str, path: str | None) -> None:
    assert DeletionVector(kind, text, 1, 40, 6).file_path() == path


@pytest.mark.parametrize(
    ("kind", "text", "reason"),
    [
        ("u", "", "does not end with a UUID"),
        ("u", "aqEH.-t@S}K{vb[*k^", "is not Z85"),
        ("u", "qEH.-t@S}K{vb[*", "does not end with a UUID"),
        ("u", "^-aqEH.-t@S}K{v#[*k^", "is not Z85"),
        ("u", '^-aqEH.-t@S}K{vb"*k^', "is not Z85"),
        ("u", "..^-aqEH.-t@S}K{vb[*k^", "no folder of the table"),
        ("u", "a/../b^-aqEH.-t@S}K{vb[*k^", "no folder of the table"),
        ("u", r"a\..\b^-aqEH.-t@S}K{vb[*k^", "no folder of the table"),
        ("u", "/etc^-aqEH.-t@S}K{vb[*k^", "no folder of the table"),
        ("u", "a/^-aqEH.-t@S}K{vb[*k^", "no folder of the table"),
        ("u", "s3://a^-aqEH.-t@S}K{vb[*k^", "no folder of the table"),
        ("p", "a/b.bin", "no absolute path"),
        ("p", "", "no absolute path"),
        ("r", "a/b.bin", "storage type 'r' is not known"),
    ],
)
def test_a_descriptor_without_a_file_is_refused(kind: str, text: str, reason: str) -> None:
    with pytest.raises(DeletionVectorError, match=reason):
        DeletionVector(kind, text, 1, 40, 6).file_path()


@pytest.mark.parametrize(
    ("offset", "size", "expected"),
    [
        (1, 40, (1, 49)),
        (43, 34, (43, 85)),
        (None, 40, (1, 49)),
        (0, 40, (0, 48)),
        (2**31 - 1, 2**31 - 1, (2**31 - 1, 2**32 + 6)),
    ],
)
def test_the_bytes_to_fetch(offset: int | None, size: int, expected: tuple[int, int]) -> None:
    assert stored_range(DeletionVector("u", "x", offset, size, 6)) == expected


@pytest.mark.parametrize(("offset", "size"), [(-1, 40), (1, -1), (None, -9)])
def test_a_place_that_cannot_be_is_refused(offset: int | None, size: int) -> None:
    vector = replace(STORED, offset=offset, size_in_bytes=size)
    with pytest.raises(DeletionVectorError, match="it cannot have"):
        stored_range(vector)
    with pytest.raises(DeletionVectorError, match="it cannot have"):
        deleted_rows(vector, framed(BITMAP))


def test_a_vector_is_looked_for_where_it_is() -> None:
    with pytest.raises(DeletionVectorError, match="stored in the log"):
        stored_range(INLINE)
    with pytest.raises(DeletionVectorError, match="stored in a file"):
        inline_bytes(STORED)


@pytest.mark.parametrize(
    ("text", "size", "reason"),
    [
        (INLINE.path_or_inline_dv, 36, "has 40 bytes, not 36"),
        (INLINE.path_or_inline_dv, 41, "has 40 bytes, not 41"),
        (INLINE.path_or_inline_dv, -1, "not -1"),
        ("", -1, "not -1"),
        ("", 2**31 - 1, "has 0 bytes"),
        (INLINE.path_or_inline_dv[:-1], 40, "is not Z85"),
    ],
)
def test_a_damaged_text_is_refused(text: str, size: int, reason: str) -> None:
    with pytest.raises(DeletionVectorError, match=reason):
        inline_bytes(replace(INLINE, path_or_inline_dv=text, size_in_bytes=size))


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"", "has 0 bytes for it"),
        (framed(BITMAP)[:-1], "bytes for it"),
        (framed(BITMAP) + b"\0", "bytes for it"),
        (b"\x01" + framed(BITMAP)[:-1], "its file gives it 16777216 bytes"),
        (b"\xff\xff\xff\xff" + framed(BITMAP)[4:], "its file gives it 4294967295 bytes"),
        (framed(BITMAP)[:-1] + b"\0", "checksum"),
        (framed(BITMAP).replace(b"\x1d", b"\x1e"), "checksum"),
        (framed(BITMAP.replace(b"\x1d", b"\x12")), "no Roaring bitmap: .* not strictly increasing"),
        (framed(bytes(len(BITMAP))), "magic number"),
    ],
)
def test_damaged_bytes_are_refused(data: bytes, reason: str) -> None:
    with pytest.raises(DeletionVectorError, match=reason) as caught:
        deleted_rows(STORED, data)
    assert "the deletion vector uvBn[lx{q8@P<9BNH/isA@1 cannot be read: " in str(caught.value)


def test_bytes_of_another_length_than_the_log_says_are_refused() -> None:
    with pytest.raises(DeletionVectorError, match="it has 41 bytes, not 40"):
        deleted_rows(INLINE, inline_bytes(INLINE) + b"\0")


def test_another_number_of_rows_than_the_log_says_is_refused() -> None:
    for number in [0, len(ROWS) - 1, len(ROWS) + 1, 2**62, -1]:
        with pytest.raises(DeletionVectorError, match=f"there have to be {number}"):
            deleted_rows(replace(STORED, cardinality=number), framed(BITMAP))


def test_no_row_is_deleted_that_the_file_does_not_have() -> None:
    assert deleted_rows(STORED, framed(BITMAP), num_rows=ROWS[-1] + 1).tolist() == ROWS
    with pytest.raises(DeletionVectorError, match=f"it holds row {ROWS[-1]}; the file has {ROWS[-1]} rows"):
        deleted_rows(STORED, framed(BITMAP), num_rows=ROWS[-1])
    with pytest.raises(DeletionVectorError, match="it deletes 11 rows of a file that has 10"):
        deleted_rows(STORED, framed(BITMAP), num_rows=10)


def test_a_long_inline_vector_is_not_repeated_in_the_message() -> None:
    with pytest.raises(DeletionVectorError) as caught:
        inline_bytes(DeletionVector("i", 100_000 * '"', None, 80_000, 6))
    assert len(str(caught.value)) < 500


@given(st.integers(0, len(framed(BITMAP)) - 1), st.integers(1, 255))
def test_no_flipped_byte_gets_past_the_checksum(place: int, bits: int) -> None:
    damaged = bytearray(framed(BITMAP))
    damaged[place] ^= bits
    with pytest.raises(DeletionVectorError):
        deleted_rows(STORED, bytes(damaged))
