"""Sets of row indices as deletion vectors hold them: Roaring bitmaps for 64-bit numbers, from bytes.

A bitmap of 32-bit numbers is a list of containers. Each holds the numbers of one key, their upper 16 bits, in one of
three kinds: an array of the lower 16 bits, a bitset, or runs of a start and a length. A bitmap of 64-bit numbers is a
list of such bitmaps, each with the upper 32 bits of its numbers. Containers of one kind that follow each other are
decoded together.

Nothing is taken on trust: every size is held against the bytes that are there, and every number of rows against what
the bytes come to, before memory is taken for it.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np

from delta_sidecar.errors import DeletionVectorError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    Numbers = NDArray[np.int64]
    Words = NDArray[np.uint16]

PORTABLE_MAGIC = 1681511377
NATIVE_MAGIC = 1681511376


def decode_rows(data: bytes | memoryview, cardinality: int | None = None, num_rows: int | None = None) -> Numbers:
    """Decodes a set of row indices; they are in ascending order.

    Args:
        data: A bitmap as the Delta protocol has it: a magic number, then the portable format, or the one before it.
        cardinality: How many rows there have to be. Without it a few bytes can ask for much memory: a run of 65,536
            rows takes four.
        num_rows: How many rows the data file has. Each index has to be less.

    Raises:
        DeletionVectorError: The bytes are not such a set.
    """
    parts: list[Numbers] = []
    found = 0
    for bitmap in _bitmaps(data):
        found += int(bitmap.counts.sum())
        if cardinality is not None and found > cardinality:
            _refuse(f"it says to hold {found} rows or more; there have to be {cardinality}")
        # Looked at before a bitmap is decoded: there may be many, in files of more than 2**32 rows.
        if num_rows is not None and bitmap.bases[-1] >= num_rows:
            _refuse(f"it holds row {bitmap.bases[-1]} or a later one; the file has {num_rows} rows")
        parts.append(_rows(bitmap))
        if num_rows is not None and parts[-1][-1] >= num_rows:
            _refuse(f"it holds row {parts[-1][-1]}; the file has {num_rows} rows")
    if cardinality is not None and found != cardinality:
        _refuse(f"it holds {found} rows; there have to be {cardinality}")
    return parts[0] if len(parts) == 1 else np.concatenate([np.empty(0, dtype=np.int64), *parts])


_NO_RUNS, _WITH_RUNS = 12346, 12347  # the cookies
_OFFSETS_FROM = 4  # containers; a bitmap with runs has no offsets below
_ARRAY, _BITSET, _RUNS = range(3)
_MOST_IN_ARRAY = 4096
_KEYS = 1 << 16
_BITSET_WORDS = _KEYS // 16
_AT_ONCE = 32  # containers; this bounds what decoding takes beside the rows themselves


@dataclass(frozen=True, slots=True)
class _Bitmap:
    """The containers of a bitmap of 32-bit numbers: one element for each, but for `places`.

    Attributes:
        words: The 16-bit words of all containers.
        places: Where in `words` a container starts, and at the end where the last one ends.
        bases: The least row that a container can hold.
        counts: How many rows a container says to hold.
        kinds: `_ARRAY`, `_BITSET` or `_RUNS`.
    """

    words: Words
    places: Numbers
    bases: Numbers
    counts: Numbers
    kinds: NDArray[np.uint8]


def _bitmaps(data: bytes | memoryview) -> Iterator[_Bitmap]:
    magic = data[:4]
    if magic == struct.pack("<I", PORTABLE_MAGIC):
        yield from _portable(data)
    elif magic == struct.pack("<I", NATIVE_MAGIC):
        yield from _native(data, "<I")
    elif magic == struct.pack(">I", NATIVE_MAGIC):
        # The protocol's own example of an inline vector is written this way round.
        yield from _native(data, ">I")
    else:
        _refuse(f"it does not start with the magic number of a known format: {magic.hex() or 'it is empty'}")


def _portable(data: bytes | memoryview) -> Iterator[_Bitmap]:
    (count,) = _unpack("<Q", data, 4)
    at, least = 12, 0
    for _ in range(count):
        (high,) = _unpack("<I", data, at)
        if not least <= high < 1 << 31:
            _refuse(f"the upper half {high} of row indices is out of order or range")
        bitmap, at = _bitmap(data, at + 4, high)
        least = high + 1
        if bitmap is not None:
            yield bitmap
    _expect_end(data, at)


def _native(data: bytes | memoryview, number: str) -> Iterator[_Bitmap]:
    """Reads the format that Delta had before: an upper half for every bitmap, from 0 on, and their sizes."""
    (count,) = _unpack(number, data, 4)
    at = 8
    for high in range(count):
        (size,) = _unpack(number, data, at)
        bitmap, end = _bitmap(data, at + 4, high)
        if end - at - 4 != size:
            _refuse(f"a bitmap says to have {size} bytes and has {end - at - 4}")
        at = end
        if bitmap is not None:
            yield bitmap
    _expect_end(data, at)


def _bitmap(data: bytes | memoryview, start: int, high: int) -> tuple[_Bitmap | None, int]:
    """Reads the headers of a bitmap, and gives it and where it ends; None where it is empty."""
    (cookie,) = _unpack("<I", data, start)
    if cookie == _NO_RUNS:
        (count,) = _unpack("<I", data, start + 4)
        if count > _KEYS:
            _refuse(f"a bitmap says to have {count} containers")
        at = start + 8
        if not count:
            return None, at
        has_runs = np.zeros(count, dtype=np.bool_)
    elif cookie & 0xFFFF == _WITH_RUNS:
        count = (cookie >> 16) + 1
        flags = _array(data, start + 4, (count + 7) // 8, "u1")
        at = start + 4 + len(flags)
        has_runs = np.unpackbits(flags, count=count, bitorder="little").view(np.bool_)
    else:
        _refuse(f"a bitmap starts with {cookie}, which is no cookie of the format")
    keys, counts = _array(data, at, 2 * count, "<u2").reshape(count, 2).astype(np.int64).T
    if (keys[1:] <= keys[:-1]).any():
        _refuse("the keys of containers are out of order")
    counts += 1
    kinds = np.where(has_runs, _RUNS, np.where(counts > _MOST_IN_ARRAY, _BITSET, _ARRAY)).astype(np.uint8)
    at += 4 * count
    offsets = None
    if cookie == _NO_RUNS or count >= _OFFSETS_FROM:
        offsets = _array(data, at, count, "<u4").astype(np.int64) + (start - at - 4 * count)
        at += 4 * count
    words = _array(data, at, (len(data) - at) // 2, "<u2")
    places = _places(words, counts, kinds, offsets)
    end = at + 2 * int(places[-1])
    if end > len(data):
        _refuse("it ends within a container")
    return _Bitmap(words, places, high << 32 | keys << 16, counts, kinds), end


def _places(words: Words, counts: Numbers, kinds: NDArray[np.uint8], offsets: Numbers | None) -> Numbers:
    """Where containers start, in words, and the last one ends. Offsets are in bytes."""
    sizes = np.where(kinds == _BITSET, _BITSET_WORDS, counts)
    if offsets is None:
        # Only a walk tells where containers behind runs are, of three at most.
        at = 0
        for container in range(len(counts)):
            if kinds[container] == _RUNS:
                sizes[container] = 1 + 2 * int(_word(words, at))
            at += int(sizes[container])
    elif (kinds == _RUNS).any():
        at_runs = offsets[kinds == _RUNS] // 2
        if (at_runs < 0).any() or (at_runs >= len(words)).any():
            _refuse("a container is said to be outside of it")
        sizes[kinds == _RUNS] = 1 + 2 * words[at_runs].astype(np.int64)
    places = np.concatenate([np.zeros(1, dtype=np.int64), np.cumsum(sizes)])
    if offsets is not None and (offsets != 2 * places[:-1]).any():
        _refuse("containers are not where it says they are")
    return places


def _rows(bitmap: _Bitmap) -> Numbers:
    for some in _stretches(bitmap):
        if (_held(bitmap, some) != bitmap.counts[some]).any():
            _refuse("a container holds another number of rows than it says")
    ends = np.cumsum(bitmap.counts)
    rows = np.empty(int(ends[-1]), dtype=np.int64)
    for some in _stretches(bitmap):
        first, last = ends[some.start] - bitmap.counts[some.start], ends[some.stop - 1]
        _DECODERS[bitmap.kinds[some.start]](bitmap, some, rows[first:last])
    if (rows[1:] <= rows[:-1]).any():
        _refuse("rows in a container are out of order, or there twice")
    return rows


def _stretches(bitmap: _Bitmap) -> Iterator[slice]:
    """Cuts containers into stretches of one kind."""
    changes = (np.flatnonzero(np.diff(bitmap.kinds)) + 1).tolist()
    for first, last in zip([0, *changes], [*changes, len(bitmap.kinds)], strict=True):
        for start in range(first, last, _AT_ONCE):
            yield slice(start, min(start + _AT_ONCE, last))


def _held(bitmap: _Bitmap, some: slice) -> Numbers:
    """How many rows containers of one kind hold, whatever they say."""
    kind = bitmap.kinds[some.start]
    if kind == _BITSET:
        bits = np.bitwise_count(_words_of(bitmap, some)).reshape(-1, _BITSET_WORDS)
        set_bits: Numbers = bits.sum(axis=1, dtype=np.int64)
        return set_bits
    if kind == _RUNS:
        runs, starts, lengths = _runs_of(bitmap, some)
        if (runs == 0).any() or (starts + lengths > _KEYS).any():
            _refuse("a container has no runs, or one beyond its end")
        held: Numbers = np.add.reduceat(lengths, np.cumsum(runs) - runs)
        return held
    return np.diff(bitmap.places[some.start : some.stop + 1])


def _decode_arrays(bitmap: _Bitmap, some: slice, rows: Numbers) -> None:
    rows[:] = _words_of(bitmap, some)
    rows += np.repeat(bitmap.bases[some], bitmap.counts[some])


def _decode_bitsets(bitmap: _Bitmap, some: slice, rows: Numbers) -> None:
    bits = np.unpackbits(_words_of(bitmap, some).view(np.uint8), bitorder="little")
    rows[:] = np.flatnonzero(bits.view(np.bool_))
    bases = bitmap.bases[some]
    rows += np.repeat(bases - _KEYS * np.arange(len(bases)), bitmap.counts[some])


def _decode_runs(bitmap: _Bitmap, some: slice, rows: Numbers) -> None:
    runs, starts, lengths = _runs_of(bitmap, some)
    rows[:] = np.arange(len(rows))
    rows += np.repeat(starts + np.repeat(bitmap.bases[some], runs) - (np.cumsum(lengths) - lengths), lengths)


_DECODERS = {_ARRAY: _decode_arrays, _BITSET: _decode_bitsets, _RUNS: _decode_runs}


def _words_of(bitmap: _Bitmap, some: slice) -> Words:
    return bitmap.words[bitmap.places[some.start] : bitmap.places[some.stop]]


def _runs_of(bitmap: _Bitmap, some: slice) -> tuple[Numbers, Numbers, Numbers]:
    """How many runs each container has; where runs start, and their lengths."""
    words = _words_of(bitmap, some)
    first = bitmap.places[some] - bitmap.places[some.start]
    pairs = np.delete(words, first).reshape(-1, 2).astype(np.int64)
    return words[first].astype(np.int64), pairs[:, 0], pairs[:, 1] + 1


def _word(words: Words, at: int) -> int:
    if at >= len(words):
        _refuse("it ends within a container")
    return int(words[at])


def _unpack(form: str, data: bytes | memoryview, at: int) -> tuple[int, ...]:
    if at + struct.calcsize(form) > len(data):
        _refuse("it ends too early")
    return struct.unpack_from(form, data, at)


def _array(data: bytes | memoryview, at: int, count: int, kind: str) -> NDArray[Any]:
    if at + count * np.dtype(kind).itemsize > len(data):
        _refuse("it ends too early")
    return np.frombuffer(data, dtype=kind, count=count, offset=at)


def _expect_end(data: bytes | memoryview, at: int) -> None:
    if at != len(data):
        _refuse(f"{len(data) - at} bytes follow after its end")


def _refuse(reason: str) -> NoReturn:
    raise DeletionVectorError(reason) from None
