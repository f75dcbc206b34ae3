"""Sets of row indices: against bytes of other encoders, an encoder of our own, and bytes that are damaged."""

from __future__ import annotations

import random
import resource
import struct
import tracemalloc
import zlib
from itertools import product

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from pyroaring import BitMap64
from tests.log.roaring import ARRAY, BITSET, PORTABLE, RUNS, Container, bitmap32, native, portable, runs_body

from delta_sidecar.errors import DeletionVectorError
from delta_sidecar.log.deletion_vectors import decode_rows

PATIENTLY = settings(deadline=None)
EVERY_SECOND = range(0, 65536, 2)
KINDS = bitmap32(
    [
        Container(0, RUNS, [*range(10), 20, *range(30, 40)]),
        Container(1, ARRAY, [3, 5, 65535]),
        Container(2, BITSET, EVERY_SECOND),
        Container(9, RUNS, range(65536)),
        Container(10, ARRAY, [0]),
        Container(65535, RUNS, [65535]),
    ]
)
KINDS_ROWS = [
    *(*range(10), 20, *range(30, 40)),
    *(65536 + 3, 65536 + 5, 2 * 65536 - 1),
    *range(2 * 65536, 3 * 65536, 2),
    *range(9 * 65536, 10 * 65536),
    *(10 * 65536, 2**32 - 1),
]


def rows_of(data: bytes, cardinality: int | None = None, num_rows: int | None = None) -> list[int]:
    rows = decode_rows(data, cardinality, num_rows)
    assert rows.dtype == np.int64
    found: list[int] = rows.tolist()
    return found


# What CRoaring writes, by the library pyroaring, in the portable format without Delta's magic number.
ARRAYS = (
    "0300000000000000000000003a3000000200000000000300010000001800000020000000000001000500ffff0000010000003a3000000100"
    "0000000001001000000000000700000100003a3000000100000000000000100000000300"
)
THREE_CONTAINERS_WITH_RUNS = (
    "0100000000000000000000003b30020003000064000100ffff030000000200640063002c01000001000000ffff0000"
)
FOUR_CONTAINERS_WITH_RUNS = zlib.decompress(
    bytes.fromhex(
        "78daeddab10d02410c04c0e54e046494404244c0c75007f57cb99461ce22a006a419c996256f093bf2f3dc664ec97b8e1c3253fb3155d7f5"
        "b8adb9f75cb23e9de8e00b00000000000000f87bdd04a81a6b3fb66f2fa09dd3f7078dc5a9c3"
    )
).hex()


@pytest.mark.parametrize(
    ("text", "rows"),
    [
        (ARRAYS, [0, 1, 5, 65535, 65536, 2**32, 2**32 + 7, 2**40 + 3]),
        (THREE_CONTAINERS_WITH_RUNS, [*range(100, 200), 300, *range(65536, 2 * 65536), 3 * 65536]),
        (
            FOUR_CONTAINERS_WITH_RUNS,
            [
                *range(1000),
                *(2 * 65536 + 3, 2 * 65536 + 9),
                *range(3 * 65536, 4 * 65536, 2),
                *range(5 * 65536, 6 * 65536),
                2**33 + 1,
            ],
        ),
        ("0000000000000000", []),
        ("0100000000000000ffffff7f3a30000001000000ffff000010000000ffff", [2**63 - 1]),
    ],
)
def test_what_another_encoder_writes_is_read(text: str, rows: list[int]) -> None:
    assert rows_of(struct.pack("<I", PORTABLE) + bytes.fromhex(text), len(rows)) == rows


@given(
    ranges=st.lists(st.tuples(st.integers(0, 2**40), st.integers(1, 70_000)), max_size=5),
    single=st.sets(st.integers(0, 2**63 - 1), max_size=20),
    as_runs=st.booleans(),
)
@PATIENTLY
def test_what_pyroaring_writes_is_read(ranges: list[tuple[int, int]], single: set[int], *, as_runs: bool) -> None:
    bitmap = BitMap64(single)
    for start, length in ranges:
        bitmap.add_range(start, start + length)
        bitmap.add_range(start + 2**20, start + 2**20 + 9)
        bitmap.update(range(start + 2**21, start + 2**21 + length, 3))
    if as_runs:
        bitmap.run_optimize()
    data = struct.pack("<I", PORTABLE) + bitmap.serialize()
    assert rows_of(data, len(bitmap)) == list(bitmap)
    with pytest.raises(DeletionVectorError):
        decode_rows(data[:-1])


def test_the_three_kinds_of_containers_stand_side_by_side() -> None:
    assert rows_of(portable({0: KINDS})) == KINDS_ROWS
    assert rows_of(portable({7: KINDS})) == [7 * 2**32 + row for row in KINDS_ROWS]


def test_upper_halves_may_be_empty_or_left_out() -> None:
    nothing, some = bitmap32([]), bitmap32([Container(0, ARRAY, [4])])
    assert rows_of(portable({0: nothing})) == []
    assert rows_of(portable({0: nothing, 1: some, 2: nothing, 5: some})) == [2**32 + 4, 5 * 2**32 + 4]


@pytest.mark.parametrize("order", "<>")
def test_the_format_before_is_read(order: str) -> None:
    data = native([KINDS, bitmap32([]), bitmap32([Container(0, ARRAY, [4])])], order)
    assert rows_of(data) == [*KINDS_ROWS, 2 * 2**32 + 4]


@pytest.mark.parametrize("kind", [ARRAY, BITSET, RUNS])
def test_many_containers_of_one_kind(kind: str, subtests: pytest.Subtests) -> None:
    values = [*range(4096), 5000] if kind == BITSET else [1, 2, 3, 9]
    for count in (1, 3, 4, 5, 8, 9, 31, 32, 33, 100):
        with subtests.test(count=count):
            keys = [key * 3 for key in range(count)]
            data = portable({0: bitmap32([Container(key, kind, values) for key in keys])})
            assert rows_of(data, count * len(values)) == [key << 16 | value for key in keys for value in values]


@pytest.mark.parametrize("size", [4096, 4097])
def test_an_array_has_up_to_4096_rows(size: int) -> None:
    kind = ARRAY if size == 4096 else BITSET
    assert rows_of(portable({0: bitmap32([Container(0, kind, range(size))])})) == list(range(size))


@st.composite
def containers(draw: st.DrawFn, key: int) -> Container:
    kind = draw(st.sampled_from([ARRAY, BITSET, RUNS]))
    chance = random.Random(draw(st.integers(0, 2**32)))  # noqa: S311 - not for secrets
    if kind == ARRAY:
        size = draw(st.sampled_from([1, 2, 17, 4095, 4096]))
        return Container(key, kind, sorted(chance.sample(range(65536), size)))
    if kind == BITSET:
        size = draw(st.sampled_from([4097, 20000, 65535, 65536]))
        return Container(key, kind, sorted(chance.sample(range(65536), size)))
    bounds = sorted(chance.sample(range(65537), 2 * draw(st.sampled_from([1, 2, 5, 300]))))
    return Container(
        key, kind, [row for start, end in zip(bounds[::2], bounds[1::2], strict=True) for row in range(start, end)]
    )


@st.composite
def sets(draw: st.DrawFn) -> tuple[bytes, list[int]]:
    """The bytes of a set of rows, and the rows."""
    highs = sorted(draw(st.sets(st.integers(0, 2**31 - 1), max_size=3)))
    bitmaps, rows = {}, []
    for high in highs:
        keys = sorted(draw(st.sets(st.integers(0, 65535), max_size=6)))
        members = [draw(containers(key)) for key in keys]
        bitmaps[high] = bitmap32(members)
        rows += [high << 32 | member.key << 16 | value for member in members for value in member.values]
    return portable(bitmaps), rows


@pytest.mark.full
@settings(PATIENTLY, max_examples=50)
@given(sets())
def test_what_is_encoded_is_decoded(drawn: tuple[bytes, list[int]]) -> None:
    data, rows = drawn
    assert rows_of(data, len(rows)) == rows


SMALL = portable(
    {
        0: bitmap32([Container(3, RUNS, [1, 2, 3, 7]), Container(4, ARRAY, [5, 6]), Container(6, RUNS, [0])]),
        1: bitmap32([Container(key, RUNS if key % 2 else ARRAY, [1, 2, 9]) for key in range(5)]),
        2: bitmap32([Container(0, ARRAY, [8, 80]), Container(1, ARRAY, [3])]),
        3: bitmap32([]),
    }
)
SOURCES = [SMALL, portable({0: KINDS}), native([KINDS, bitmap32([Container(2, ARRAY, [4, 5])])])]


@settings(PATIENTLY, max_examples=1000)
@given(
    st.sampled_from(SOURCES),
    st.lists(st.tuples(st.integers(0, 2**20), st.integers(1, 255)), max_size=4),
    st.one_of(st.none(), st.integers(0, 2**20)),
    st.binary(max_size=4),
)
@example(SMALL, [], None, b"")
def test_damaged_bytes_give_ascending_rows_or_the_error(
    data: bytes, flips: list[tuple[int, int]], end: int | None, more: bytes
) -> None:
    damaged = bytearray(data)
    for place, bits in flips:
        # Most of the damage goes to the headers.
        damaged[place % (len(data) if place % 3 == 0 else min(len(data), 150))] ^= bits
    _ascending_or_refused(bytes(damaged[: None if end is None else end % (len(data) + 1)]) + more)


@settings(PATIENTLY, max_examples=300)
@given(st.binary(max_size=80))
def test_any_bytes_give_ascending_rows_or_the_error(noise: bytes) -> None:
    for start in [b"", SMALL[:4], SMALL[:16], SMALL[:20], native([b""])[:12]]:
        _ascending_or_refused(start + noise)


def test_every_cut_and_every_flip_of_small_bytes() -> None:
    for end in range(len(SMALL)):
        with pytest.raises(DeletionVectorError):
            decode_rows(SMALL[:end])
    for place in range(len(SMALL)):
        for bit in range(8):
            damaged = bytearray(SMALL)
            damaged[place] ^= 1 << bit
            _ascending_or_refused(bytes(damaged))


def _ascending_or_refused(data: bytes) -> None:
    try:
        rows = decode_rows(data)
    except DeletionVectorError:
        return
    assert rows.dtype == np.int64
    assert (rows >= 0).all()
    assert (rows[1:] > rows[:-1]).all()


def one(container: Container, body: bytes | None = None, count: int | None = None) -> bytes:
    """A set of one container with another body or number of rows than it should have."""
    head = bitmap32([container])[: -len(container.body())]
    if count is not None:
        place = head.rindex(struct.pack("<HH", container.key, len(container.values) - 1))
        head = head[: place + 2] + struct.pack("<H", count - 1) + head[place + 4 :]
    return portable({0: head + (container.body() if body is None else body)})


ROWS = Container(5, RUNS, [1, 2, 3, 7])


NO_BITMAP = "its bytes are no Roaring bitmap"


DAMAGE = [
    (b"", "it is empty"),
    (b"\x01\x02\x03", "magic number of a known format: 010203"),
    (SMALL[:3], "magic number"),
    (SMALL[:4], NO_BITMAP),
    (native([])[:4], "ends too early"),
    (struct.pack("<IQ", PORTABLE + 1, 0), "magic number"),
    (struct.pack(">IQ", PORTABLE, 0), "magic number"),
    (struct.pack("<IQ", PORTABLE, 2**64 - 1), NO_BITMAP),
    (struct.pack("<IQ", PORTABLE, 2**32) + SMALL[12:], NO_BITMAP),
    (native([])[:4] + b"\xff\xff\xff\xff", "ends too early"),
    (native([bitmap32([]), b""]), NO_BITMAP),
    (portable({2**31: bitmap32([ROWS])}), f"it holds row {2**63 + 5 * 65536 + 7}"),
    (portable({1: bitmap32([]), 0: bitmap32([])}), NO_BITMAP),
    (struct.pack("<IQ", PORTABLE, 2) + 2 * (struct.pack("<I", 3) + bitmap32([])), NO_BITMAP),
    (portable({0: struct.pack("<II", 12345, 0)}), NO_BITMAP),
    (portable({0: struct.pack("<II", 12346 | 1 << 16, 0)}), NO_BITMAP),
    (portable({0: struct.pack("<II", 12346, 65537)}), NO_BITMAP),
    (portable({0: struct.pack("<II", 12346, 65536)}), NO_BITMAP),
    (portable({0: struct.pack("<I", 12347 | 65535 << 16)}), NO_BITMAP),
    (SMALL + b"\0", "bytes follow"),
    (SMALL + SMALL, "bytes follow"),
    (native([KINDS]) + b"\0\0", "2 bytes follow"),
    (native([KINDS + b"\0\0"]), "bytes follow"),
    (native([KINDS[:-1]]), NO_BITMAP),
    (portable({0: bitmap32([ROWS, ROWS])}), NO_BITMAP),
    (portable({0: bitmap32([Container(6, ARRAY, [1]), Container(5, ARRAY, [1])])}), NO_BITMAP),
    (one(Container(0, ARRAY, [4, 3])), "not strictly increasing"),
    (one(Container(0, ARRAY, [4, 4])), "not strictly increasing"),
    (one(Container(0, BITSET, range(5000)), count=5001), "cardinality is incorrect"),
    (one(Container(0, BITSET, range(5000)), count=4999), "cardinality is incorrect"),
    (one(ROWS, runs_body([])), "zero run count"),
    (one(ROWS, runs_body([(65535, 3)])), "run start . length too large"),
    (one(ROWS, runs_body([(7, 0), (1, 2)])), "run start less than last end"),
    (one(ROWS, runs_body([(1, 2), (3, 0)])), "run start less than last end"),
    (one(ROWS, b""), NO_BITMAP),
    (one(ROWS, struct.pack("<H", 65535)), NO_BITMAP),
    (one(Container(0, ARRAY, [1]), b""), NO_BITMAP),
]  # fmt: skip


def test_damage_is_named(subtests: pytest.Subtests) -> None:
    for number, (data, reason) in enumerate(DAMAGE):
        with subtests.test(f"case {number}: {reason}"), pytest.raises(DeletionVectorError, match=reason):
            decode_rows(data)


@pytest.mark.parametrize("count", [1, 5, 65536])
def test_runs_count_whatever_their_container_says(count: int) -> None:
    data = one(ROWS, count=count)
    assert rows_of(data, len(ROWS.values)) == [5 * 65536 + value for value in ROWS.values]
    with pytest.raises(DeletionVectorError, match=f"there have to be {count}"):
        decode_rows(data, count)


@pytest.mark.parametrize("kind", [ARRAY, RUNS])
def test_containers_follow_each_other_wherever_the_offsets_lead(kind: str, subtests: pytest.Subtests) -> None:
    members = [Container(key, kind, [1, 2]) for key in range(4)]
    data = bitmap32(members)
    bodies = sum(len(member.body()) for member in members)
    for offset, number in product([0, 1, 2, 2**31, 2**32 - 1], range(4)):
        with subtests.test(offset=offset, number=number):
            place = len(data) - bodies - 4 * (4 - number)
            moved = data[:place] + struct.pack("<I", offset) + data[place + 4 :]
            assert rows_of(portable({0: moved}), 8) == [key << 16 | value for key in range(4) for value in (1, 2)]


def test_the_number_of_rows_has_to_be_the_expected_one() -> None:
    data = portable({0: KINDS, 1: KINDS})
    assert len(rows_of(data, 2 * len(KINDS_ROWS))) == 2 * len(KINDS_ROWS)
    for number in [0, len(KINDS_ROWS), 2 * len(KINDS_ROWS) - 1, 2 * len(KINDS_ROWS) + 1, -1]:
        with pytest.raises(DeletionVectorError, match=f"there have to be {number}"):
            decode_rows(data, number)


def test_a_row_that_the_file_does_not_have_is_refused() -> None:
    data = portable({0: bitmap32([Container(0, ARRAY, [1]), Container(1, ARRAY, [7])])})
    assert rows_of(data, num_rows=65536 + 8) == [1, 65536 + 7]
    for num_rows in [0, 1, 2, 65536, 65536 + 7]:
        with pytest.raises(DeletionVectorError, match=f"the file has {num_rows} rows"):
            decode_rows(data, num_rows=num_rows)


def test_a_few_bytes_do_not_take_much_memory() -> None:
    full, short = runs_body([(0, 65535)]), runs_body([(0, 0)])
    assert len(rows_of(_full_containers(3, 3 * full))) == 3 * 65536
    count = 20_000
    # They say to hold ten gigabytes, and do: but the log knows better, or the file has fewer rows. Or they do not.
    for body, cardinality, num_rows in [(full, 7, None), (full, None, 1000), (short, count * 65536, None)]:
        data = _full_containers(count, count * body)
        tracemalloc.start()
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        with pytest.raises(DeletionVectorError):
            decode_rows(data, cardinality, num_rows)
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert peak < 20e6
        # What CRoaring takes is known to the system alone, in kilobytes here.
        assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 200e3


def _full_containers(count: int, bodies: bytes) -> bytes:
    """A set of containers that say to have 65,536 rows each, in one run."""
    flags = (2**count - 1).to_bytes((count + 7) // 8, "little")
    head = struct.pack("<I", 12347 | (count - 1) << 16) + flags
    head += b"".join(struct.pack("<HH", key, 65535) for key in range(count))
    if count >= 4:
        first = len(head) + 4 * count
        head += b"".join(struct.pack("<I", first + 6 * key) for key in range(count))
    return portable({0: head + bodies})
