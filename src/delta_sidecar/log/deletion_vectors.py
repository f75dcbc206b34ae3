"""Deletion vectors: which rows of a data file are no longer in the table.

The log has a descriptor of each: where it is stored, how long it is and how many rows it deletes. What it says is held
against the bytes that are found there.
"""

from __future__ import annotations

import struct
import zlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NoReturn
from uuid import UUID

import numpy as np

from delta_sidecar._arrow import strings
from delta_sidecar.errors import DeletionVectorError
from delta_sidecar.log.identity import decode_paths, is_absolute

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from numpy.typing import NDArray

    Numbers = NDArray[np.int64]
    Words = NDArray[np.uint16]


@dataclass(frozen=True, slots=True)
class DeletionVector:
    """Where the deletion vector of a file is stored.

    Attributes:
        storage_type: `u` (a file named by a UUID, relative to the table), `p` (an absolute path) or `i` (inline).
        path_or_inline_dv: The encoded UUID with its prefix, the path, or the vector itself, by storage type.
        offset: Where in its file the vector starts; None for an inline one.
        size_in_bytes: Size of the serialized vector.
        cardinality: How many rows it deletes.
    """

    storage_type: str
    path_or_inline_dv: str
    offset: int | None
    size_in_bytes: int
    cardinality: int

    @property
    def unique_id(self) -> str:
        """What tells this vector from another of the same data file."""
        place = "" if self.offset is None else f"@{self.offset}"
        return f"{self.storage_type}{self.path_or_inline_dv}{place}"

    def file_path(self) -> str | None:
        """The file that holds the vector: relative to the table, or absolute; None for an inline one.

        Raises:
            DeletionVectorError: The descriptor names no file.
        """
        if self.storage_type == "i":
            return None
        text = self.path_or_inline_dv
        if self.storage_type == "u":
            return _relative_path(self, prefix=text[:-_UUID_LENGTH], name=text[-_UUID_LENGTH:])
        if self.storage_type == "p":
            path: str = decode_paths(strings([text]))[0].as_py()
            if is_absolute(path):
                return path
            raise _unreadable(self, f"{text!r} is no absolute path")
        raise _unreadable(self, f"the storage type {self.storage_type!r} is not known")

    @classmethod
    def from_struct(cls, fields: Mapping[str, object] | None) -> DeletionVector | None:
        """Reads a descriptor as the log has it; None where a file has no deletion vector."""
        if fields is None or fields.get("storageType") is None:
            return None
        offset = fields.get("offset")
        return cls(
            storage_type=str(fields["storageType"]),
            path_or_inline_dv=str(fields["pathOrInlineDv"]),
            offset=offset if isinstance(offset, int) else None,
            size_in_bytes=int(str(fields.get("sizeInBytes") or 0)),
            cardinality=int(str(fields.get("cardinality") or 0)),
        )


def stored_range(vector: DeletionVector) -> tuple[int, int]:
    """The bytes of its file that a vector takes, first and past the last: its size, the vector, its checksum.

    Raises:
        DeletionVectorError: It is inline, or the descriptor says where no byte can be.
    """
    if vector.storage_type == "i":
        raise _unreadable(vector, "it is stored in the log, not in a file")
    # Without an offset the protocol says 0, but the version of the file is there, and the first vector behind it.
    start = 1 if vector.offset is None else vector.offset
    if start < 0 or vector.size_in_bytes < 0:
        raise _unreadable(vector, f"it cannot have {vector.size_in_bytes} bytes at offset {start}")
    return start, start + _FRAME.size + vector.size_in_bytes + _FRAME.size


def inline_bytes(vector: DeletionVector) -> bytes:
    """The bytes of a vector that is stored in the log.

    Raises:
        DeletionVectorError: It is not inline, its text is damaged, or it is not as long as the descriptor says.
    """
    if vector.storage_type != "i":
        raise _unreadable(vector, "it is stored in a file, not in the log")
    try:
        data = decode_z85(vector.path_or_inline_dv)
    except DeletionVectorError as error:
        raise _unreadable(vector, str(error)) from error
    # Only what fills the last block of four up may be too much.
    if vector.size_in_bytes < 0 or len(data) - vector.size_in_bytes not in range(_FILLED_TO):
        raise _unreadable(vector, f"its text has {len(data)} bytes, not {vector.size_in_bytes}")
    return data[: vector.size_in_bytes]


def deleted_rows(vector: DeletionVector, data: bytes, *, num_rows: int | None = None) -> NDArray[np.int64]:
    """The indices of the rows that a vector deletes, in ascending order; the first row of a file is 0.

    Args:
        vector: Its descriptor.
        data: What its file has at `stored_range`, or what `inline_bytes` gives.
        num_rows: How many rows the data file has, where that is known. No more are deleted, and none behind them.

    Raises:
        DeletionVectorError: The bytes are damaged, or not what the descriptor says.
    """
    if num_rows is not None and vector.cardinality > num_rows:
        raise _unreadable(vector, f"it deletes {vector.cardinality} rows of a file that has {num_rows}")
    bitmap = memoryview(data) if vector.storage_type == "i" else _unframed(vector, data)
    if len(bitmap) != vector.size_in_bytes:
        raise _unreadable(vector, f"it has {len(bitmap)} bytes, not {vector.size_in_bytes}")
    if not bitmap and not vector.cardinality:
        return np.empty(0, dtype=np.int64)
    try:
        return decode_rows(bitmap, vector.cardinality, num_rows)
    except DeletionVectorError as error:
        raise _unreadable(vector, str(error)) from error


_UUID_LENGTH, _UUID_BYTES = 20, 16
_FILLED_TO = 4
_FRAME = struct.Struct(">I")  # the size in front and the checksum behind


def _relative_path(vector: DeletionVector, *, prefix: str, name: str) -> str:
    try:
        uuid = decode_z85(name)
    except DeletionVectorError as error:
        raise _unreadable(vector, str(error)) from error
    if len(uuid) != _UUID_BYTES:
        raise _unreadable(vector, "its text does not end with a UUID")
    file = f"deletion_vector_{UUID(bytes=uuid)}.bin"
    path = f"{prefix}/{file}" if prefix else file
    # A prefix is a folder of the table: it must not lead out of it.
    if is_absolute(path) or {"", ".", ".."} & set(path.replace("\\", "/").split("/")):
        raise _unreadable(vector, f"{prefix!r} is no folder of the table")
    return path


def _unframed(vector: DeletionVector, data: bytes) -> memoryview:
    """The vector without its size and checksum, both of which hold."""
    start, end = stored_range(vector)
    if len(data) != end - start:
        raise _unreadable(vector, f"its file has {len(data)} bytes for it, not {end - start}")
    bitmap = memoryview(data)[_FRAME.size : -_FRAME.size]
    (size,) = _FRAME.unpack_from(data)
    if size != vector.size_in_bytes:
        raise _unreadable(vector, f"its file gives it {size} bytes, the log {vector.size_in_bytes}")
    (checksum,) = _FRAME.unpack_from(data, len(data) - _FRAME.size)
    if checksum != zlib.crc32(bitmap):
        raise _unreadable(vector, "its bytes do not have the checksum that is stored with them")
    return bitmap


def _unreadable(vector: DeletionVector, reason: str) -> DeletionVectorError:
    name = vector.unique_id if len(vector.unique_id) <= _LONGEST_NAME else f"{vector.unique_id[:_LONGEST_NAME]}..."
    return DeletionVectorError(f"the deletion vector {name} cannot be read: {reason}")


_LONGEST_NAME = 200


# Sets of row indices as deletion vectors hold them: Roaring bitmaps for 64-bit numbers, from bytes.
#
# A bitmap of 32-bit numbers is a list of containers. Each holds the numbers of one key, their upper 16 bits, in one of
# three kinds: an array of the lower 16 bits, a bitset, or runs of a start and a length. A bitmap of 64-bit numbers is a
# list of such bitmaps, each with the upper 32 bits of its numbers. Containers of one kind that follow each other are
# decoded together.
#
# Nothing is taken on trust: every size is held against the bytes that are there, and every number of rows against what
# the bytes come to, before memory is taken for it.


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


# Z85, the base 85 of deletion vectors: five characters for four bytes, first byte first.
#
# Z85 knows whole blocks of four bytes only, and there are two ways to write the bytes that are left over. Delta on
# Spark fills the block up, and the reader cuts off what is too much. Writers in Rust leave the missing bytes out and
# begin the block with a `#` for each. No whole block begins with that sign: its number has no room in four bytes.


ALPHABET = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ.-:+=^!/*?&<>()[]{}@%$#"


def decode_z85(text: str) -> bytes:
    """Decodes a text. What its writer filled the last block up with is still there.

    Raises:
        DeletionVectorError: The text is not Z85.
    """
    if not text:
        return b""
    last = text[-5:]
    missing = len(last) - len(last.lstrip("#"))
    if len(text) % 5 or missing > _MOST_MISSING or not _SIGNS.issuperset(text):
        msg = f"the text that begins with {text[:20]!r} is not Z85"
        raise DeletionVectorError(msg)
    digits = _DIGITS[np.frombuffer(text.encode("ascii"), dtype=np.uint8)].reshape(-1, 5)
    digits[-1, :missing] = 0
    numbers = digits @ _POWERS
    room = np.full(len(numbers), 1 << 32)
    room[-1] >>= 8 * missing
    if (numbers >= room).any():
        msg = f"the text that begins with {text[:20]!r} is not Z85: the number of a block is too large"
        raise DeletionVectorError(msg)
    decoded = numbers.astype(">u4").tobytes()
    return decoded[:-4] + decoded[-4 + missing :] if missing else decoded


_MOST_MISSING = 3
_SIGNS = frozenset(ALPHABET)
_POWERS = 85 ** np.arange(4, -1, -1)
_DIGITS = np.zeros(128, dtype=np.int64)
_DIGITS[[ord(sign) for sign in ALPHABET]] = np.arange(len(ALPHABET))
