"""Deletion vectors: the rows of a data file that are no longer in the table.

The log has a descriptor of each: where it is stored, how long it is and how many rows it deletes. Size, checksum,
number of rows and highest row of the stored bytes have to agree with it before memory is taken for the rows.
"""

from __future__ import annotations

import struct
import zlib
from base64 import b85decode
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, NoReturn
from uuid import UUID

import numpy as np

from delta_sidecar._arrow import strings
from delta_sidecar.errors import DeletionVectorError
from delta_sidecar.log.identity import decode_paths, is_absolute

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray
    from pyroaring import BitMap64


@dataclass(frozen=True, slots=True)
class DeletionVector:
    """The descriptor of a file's deletion vector: its place, size and number of rows.

    Attributes:
        storage_type: `u` (a file named by a UUID, relative to the table), `p` (an absolute path) or `i` (inline).
        path_or_inline_dv: The encoded UUID with its prefix, the path, or the vector itself, by storage type.
        offset: Start of the vector in its file; None for an inline one.
        size_in_bytes: Size of the serialized vector.
        cardinality: Number of deleted rows.
    """

    storage_type: str
    path_or_inline_dv: str
    offset: int | None
    size_in_bytes: int
    cardinality: int

    @property
    def unique_id(self) -> str:
        """An id that differs between the vectors of one data file."""
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
    """The byte range of a vector in its file: its size, the vector, its checksum.

    Raises:
        DeletionVectorError: It is inline, or the descriptor has a negative offset or size.
    """
    if vector.storage_type == "i":
        raise _unreadable(vector, "it is stored in the log, not in a file")
    # Without an offset the protocol says 0, but the version of the file is there, and the first vector behind it.
    start = 1 if vector.offset is None else vector.offset
    if start < 0 or vector.size_in_bytes < 0:
        raise _unreadable(vector, f"it cannot have {vector.size_in_bytes} bytes at offset {start}")
    return start, start + _FRAME + vector.size_in_bytes + _FRAME


def inline_bytes(vector: DeletionVector) -> bytes:
    """The bytes of an inline vector.

    Raises:
        DeletionVectorError: It is not inline, its text is damaged, or its length is not that of the descriptor.
    """
    if vector.storage_type != "i":
        raise _unreadable(vector, "it is stored in a file, not in the log")
    try:
        data = decode_z85(vector.path_or_inline_dv)
    except DeletionVectorError as error:
        raise _unreadable(vector, str(error)) from error
    # Up to three bytes of padding may follow.
    if vector.size_in_bytes < 0 or len(data) - vector.size_in_bytes not in range(_BLOCK):
        raise _unreadable(vector, f"its text has {len(data)} bytes, not {vector.size_in_bytes}")
    return data[: vector.size_in_bytes]


def deleted_rows(vector: DeletionVector, data: bytes, *, num_rows: int | None = None) -> NDArray[np.int64]:
    """The indices of the deleted rows, in ascending order; the first row of a file is 0.

    Args:
        vector: Its descriptor.
        data: The bytes of its file at `stored_range`, or those of `inline_bytes`.
        num_rows: Number of rows in the data file, if known: a limit for the number of deleted rows and their indices.

    Raises:
        DeletionVectorError: The bytes are damaged, or do not agree with the descriptor.
    """
    if num_rows is not None and vector.cardinality > num_rows:
        raise _unreadable(vector, f"it deletes {vector.cardinality} rows of a file that has {num_rows}")
    bitmap = data if vector.storage_type == "i" else _unframed(vector, data)
    if len(bitmap) != vector.size_in_bytes:
        raise _unreadable(vector, f"it has {len(bitmap)} bytes, not {vector.size_in_bytes}")
    if not bitmap and not vector.cardinality:
        return np.empty(0, dtype=np.int64)
    try:
        return decode_rows(bitmap, vector.cardinality, num_rows)
    except DeletionVectorError as error:
        raise _unreadable(vector, str(error)) from error


_UUID_LENGTH, _UUID_BYTES = 20, 16
_BLOCK = 4
_FRAME = 4  # bytes of the size in front, and of the checksum behind


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


def _unframed(vector: DeletionVector, data: bytes) -> bytes:
    """Checks and removes the size and checksum around a stored vector."""
    start, end = stored_range(vector)
    if len(data) != end - start:
        raise _unreadable(vector, f"its file has {len(data)} bytes for it, not {end - start}")
    bitmap = data[_FRAME:-_FRAME]
    size, checksum = struct.unpack(f">I{len(bitmap)}xI", data)
    if size != vector.size_in_bytes:
        raise _unreadable(vector, f"its file gives it {size} bytes, the log {vector.size_in_bytes}")
    if checksum != zlib.crc32(bitmap):
        raise _unreadable(vector, "its bytes do not have the checksum that is stored with them")
    return bitmap


def _unreadable(vector: DeletionVector, reason: str) -> DeletionVectorError:
    name = vector.unique_id if len(vector.unique_id) <= _LONGEST_NAME else f"{vector.unique_id[:_LONGEST_NAME]}..."
    return DeletionVectorError(f"the deletion vector {name} cannot be read: {reason}")


_LONGEST_NAME = 200


# Row indices as deletion vectors hold them: a magic number, then Roaring bitmaps for 64-bit numbers.


_PORTABLE = struct.pack("<I", 1681511377)
_NATIVE = struct.pack("<I", 1681511376)
_MOST_ROWS = 1 << 63


def decode_rows(data: bytes, cardinality: int | None = None, num_rows: int | None = None) -> NDArray[np.int64]:
    """Decodes a set of row indices, in ascending order.

    Args:
        data: A bitmap as the Delta protocol has it: a magic number, then the portable format, or the one before it.
        cardinality: Expected number of rows. Without it a few bytes can ask for much memory: a run of 65,536 rows
            takes four.
        num_rows: Number of rows in the data file. Each index has to be less.

    Raises:
        DeletionVectorError: The bytes are not such a set.
    """
    magic = data[:4]
    if magic == _PORTABLE:
        bitmap = _read_portable(data[4:])
    elif magic in (_NATIVE, _NATIVE[::-1]):
        # The protocol's own example of an inline vector has its numbers in big-endian order.
        bitmap = _read_native(data, "<I" if magic == _NATIVE else ">I")
    else:
        _refuse(f"it does not start with the magic number of a known format: {magic.hex() or 'it is empty'}")
    # The array is made last: a small bitmap may stand for many rows.
    if cardinality is not None and len(bitmap) != cardinality:
        _refuse(f"it holds {len(bitmap)} rows; there have to be {cardinality}")
    if bitmap and bitmap.max() >= (_MOST_ROWS if num_rows is None else num_rows):
        _refuse(f"it holds row {bitmap.max()}; the file has {'fewer' if num_rows is None else num_rows} rows")
    return np.frombuffer(bitmap.to_array(), dtype=np.int64)


def _read_portable(data: bytes) -> BitMap64:
    from pyroaring import BitMap64

    try:
        # CRoaring's safe reader: it checks every size before it reads and validates the bitmap afterwards.
        bitmap = BitMap64.deserialize(data)
    except (ValueError, IndexError) as error:
        _refuse(f"its bytes are no Roaring bitmap: {error}")
    # It does not say how many bytes it took: if some are left over, it can do without the last one.
    with suppress(ValueError):
        BitMap64.deserialize(data[:-1])
        _refuse("more bytes follow after its end")
    return bitmap


def _read_native(data: bytes, number: str) -> BitMap64:
    """Reads Delta's format before the portable one: a size and a 32-bit bitmap for every upper half, from 0 on."""
    from pyroaring import BitMap64

    found, at = BitMap64(), 8
    try:
        (count,) = struct.unpack_from(number, data, 4)
        for high in range(count):
            (size,) = struct.unpack_from(number, data, at)
            found |= _read_portable(struct.pack("<QI", 1, high) + data[at + 4 : at + 4 + size])
            at += 4 + size
    except struct.error:
        _refuse("it ends too early")
    if at != len(data):
        _refuse(f"{len(data) - at} bytes follow after its end")
    return found


def _refuse(reason: str) -> NoReturn:
    raise DeletionVectorError(reason)


# Z85, the base 85 of deletion vectors: five characters for four bytes, first byte first.
#
# Z85 has whole blocks of four bytes only, and writers differ in the last one. Delta on Spark pads it, and the reader
# cuts the padding off. Writers in Rust leave the missing bytes out and begin the block with a `#` for each: no whole
# block begins with that character, since its number would need more than four bytes. (The standard library has Z85
# itself from Python 3.13 on.)


ALPHABET = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ.-:+=^!/*?&<>()[]{}@%$#"


def decode_z85(text: str) -> bytes:
    """Decodes a text; the padding of its last block is kept.

    Raises:
        DeletionVectorError: The text is not Z85.
    """
    last = text[-5:]
    missing = len(last) - len(last.lstrip("#"))
    try:
        whole = text[:-5] + "0" * missing + last[missing:]
        decoded = b85decode(whole.encode("ascii").translate(_TO_RFC_1924))
    except ValueError as error:
        _refuse(f"the text that begins with {text[:20]!r} is not Z85: {error}")
    if len(text) % 5 or missing > _MOST_MISSING or any(decoded[-4:][:missing]):
        _refuse(f"the text that begins with {text[:20]!r} is not Z85: its last block is incomplete or too large")
    return decoded[:-4] + decoded[-4:][missing:]


_MOST_MISSING = 3
# The standard library has the digits of RFC 1924. Those that Z85 does not have are not decoded.
_RFC_1924 = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz!#$%&()*+-;<=>?@^_`{|}~"
_TO_RFC_1924 = bytes.maketrans(ALPHABET.encode() + b";_`|~", _RFC_1924 + bytes(5))
