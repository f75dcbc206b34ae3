"""Z85, the base 85 of deletion vectors."""

from __future__ import annotations

from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from delta_sidecar.errors import DeletionVectorError
from delta_sidecar.log.deletion_vectors import ALPHABET, decode_z85


def encode_z85(data: bytes) -> str:
    """Encodes whole blocks."""
    text = ""
    for at in range(0, len(data), 4):
        number = int.from_bytes(data[at : at + 4], "big")
        text += "".join(ALPHABET[number // 85**power % 85] for power in (4, 3, 2, 1, 0))
    return text


def encode_short(data: bytes) -> str:
    """Encodes a last block of one to three bytes as writers in Rust do."""
    number = int.from_bytes(data, "big")
    return "#" * (4 - len(data)) + "".join(ALPHABET[number // 85**power % 85] for power in range(len(data), -1, -1))


def test_the_example_of_the_specification() -> None:
    assert decode_z85("HelloWorld") == bytes.fromhex("864fd26fb559f75b")


def test_nothing_is_nothing() -> None:
    assert decode_z85("") == b""


def test_the_alphabet_is_whole() -> None:
    expected = (
        "00099862 0fc79943 1f859a24 2f439b05 3f019be6 4ebf9cc7 5e7d9da8 6e3b9e89 7df99f6a"
        "8db7a04b 9d75a12c ad33a20d bcf1a2ee ccafa3cf dc6da4b0 ec2ba591 fbe9a672"
    )
    assert decode_z85(ALPHABET) == bytes.fromhex(expected)


@pytest.mark.parametrize(
    ("text", "uuid"),
    [
        ("00000000000000000000", "00000000-0000-0000-0000-000000000000"),
        ("%nSc0%nSc0%nSc0%nSc0", "ffffffff-ffff-ffff-ffff-ffffffffffff"),
        ("^-aqEH.-t@S}K{vb[*k^", "d2c639aa-8816-431a-aaf6-d3fe2512ff61"),
        ("vBn[lx{q8@P<9BNH/isA", "61d16c75-6994-46b7-a15b-8b538852e50e"),
    ],
)
def test_uuids(text: str, uuid: str) -> None:
    assert UUID(bytes=decode_z85(text)) == UUID(uuid)


@given(st.binary(max_size=40).map(lambda data: data[: len(data) // 4 * 4]))
def test_whole_blocks_come_back(data: bytes) -> None:
    assert decode_z85(encode_z85(data)) == data


@given(st.binary(max_size=12).map(lambda data: data[: len(data) // 4 * 4]), st.binary(min_size=1, max_size=3))
def test_a_short_block_at_the_end_comes_back(data: bytes, rest: bytes) -> None:
    assert decode_z85(encode_z85(data) + encode_short(rest)) == data + rest


@pytest.mark.parametrize(("text", "size"), [("###30", 1), ("##960", 2), ("#rr90", 3), ("%nSc0", 4)])
def test_the_largest_number_of_a_block(text: str, size: int) -> None:
    assert decode_z85(text) == b"\xff" * size


@pytest.mark.parametrize(
    "text",
    [
        *("a", "abcd", "abcdef"),  # no whole block
        *('ab"de', "ab de", "ab\x7fde", "abéde", "abπde", "ab\ud800de", "00000ab,de"),  # none of its signs
        *("%nSc1", "$####", "00000%nSc1"),  # more than four bytes
        *("#0000#0000", "##00000000"),  # a short block that is not the last one
        *("####0", "#####"),  # a block without a byte
        *("###31", "##961", "#rr91"),  # more than the bytes of a short block
    ],
)
def test_what_is_not_z85_is_refused(text: str) -> None:
    with pytest.raises(DeletionVectorError, match="is not Z85"):
        decode_z85(text)


@given(st.text(ALPHABET + "é ", max_size=20))
def test_any_text_gives_bytes_or_the_error(text: str) -> None:
    try:
        data = decode_z85(text)
    except DeletionVectorError:
        return
    assert len(text) // 5 * 4 - 3 <= len(data) <= len(text) // 5 * 4
