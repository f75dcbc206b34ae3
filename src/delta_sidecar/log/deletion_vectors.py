"""Deletion vectors: which rows of a data file are no longer in the table.

The log has a descriptor of each: where it is stored, how long it is and how many rows it deletes. What it says is held
against the bytes that are found there.
"""

from __future__ import annotations

import struct
import zlib
from dataclasses import dataclass
from typing import TYPE_CHECKING
from uuid import UUID

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from delta_sidecar._arrow import scalar, strings
from delta_sidecar.errors import DeletionVectorError
from delta_sidecar.log.paths import decode_paths, is_absolute
from delta_sidecar.log.row_bitmaps import decode_rows
from delta_sidecar.log.z85 import decode_z85

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray


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


def unique_ids(descriptors: pa.StructArray) -> pa.StringArray | None:
    """The unique id of each row's deletion vector, null where it has none; None where no row has one."""
    if descriptors.null_count == len(descriptors):
        return None
    # flatten() lays the struct's own nulls over its fields.
    fields = dict(zip((field.name for field in descriptors.type), descriptors.flatten(), strict=True))
    offset = fields.get("offset", pa.nulls(len(descriptors), pa.int32()))
    place = pc.binary_join_element_wise(scalar("@", pa.string()), offset.cast(pa.string()), scalar("", pa.string()))
    joined = pc.binary_join_element_wise(
        fields["storageType"],
        fields["pathOrInlineDv"],
        pc.fill_null(place, scalar("", pa.string())),
        scalar("", pa.string()),
    )
    return None if joined.null_count == len(joined) else joined


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
