"""Paths and keys of data files, as whole Arrow columns.

A path in the log is a URI: `a%20b.parquet` names the file `a b.parquet`, and `/p`, `file:/p` and `file:///p` are one
file, so a path is raw, decoded or canonical. The key of a logical file is its canonical path and the id of its deletion
vector, as one unambiguous byte string.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING
from urllib.parse import unquote_to_bytes

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from delta_sidecar._arrow import scalar, strings

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray


def decode_paths(raw: pa.StringArray) -> pa.StringArray:
    """Decodes the percent escapes of a column of paths.

    An escape that is not two hexadecimal digits stays as it is; one that gives no valid UTF-8 leaves its path raw.
    """
    if not _holds(raw, "%"):
        return raw
    escapes = _escapes(raw)
    if escapes is None:
        return _decode_each(raw)
    decoded = raw.cast(pa.binary())
    # The percent sign itself comes last: what it makes must not be taken for another escape.
    for escape in sorted(escapes, key=lambda found: (found == b"%25", found)):
        decoded = pc.replace_substring(decoded, pattern=escape, replacement=bytes([int(escape[1:], 16)]))
    try:
        return decoded.cast(pa.string())
    except pa.ArrowInvalid:
        return _decode_each(raw)


def canonical_paths(raw: pa.StringArray) -> pa.StringArray:
    """Decoded paths in a form that is equal if and only if they name the same file."""
    decoded = decode_paths(raw)
    if not _holds(decoded, ":"):
        return decoded
    return pc.replace_substring_regex(decoded, pattern=r"^file:(?://(?:localhost)?)?/", replacement="/")


def is_absolute(path: str) -> bool:
    """True for a decoded path that is not relative to the table."""
    return path.startswith("/") or _SCHEME.match(path) is not None


_ESCAPE = re.compile(rb"%[0-9A-Fa-f]{2}")
_EMPTY, _COLON, _AT = (scalar(text, pa.string()) for text in ("", ":", "@"))
_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:/")


def _holds(array: pa.StringArray, character: str) -> bool:
    return bool((text_bytes(array) == ord(character)).any())


def text_bytes(column: pa.StringArray) -> NDArray[np.uint8]:
    """The bytes of all texts of a column, one after another."""
    offsets, data = column.buffers()[1:]
    if data is None or not len(column):
        return np.zeros(0, dtype=np.uint8)
    width = np.int64 if pa.types.is_large_string(column.type) else np.int32
    first, last = np.frombuffer(offsets, dtype=width)[[column.offset, column.offset + len(column)]]
    return np.frombuffer(data, dtype=np.uint8)[first:last]


def _escapes(array: pa.StringArray) -> set[bytes] | None:
    """The distinct escapes in a column; None if a percent sign begins none."""
    text = text_bytes(array).tobytes()
    found = _ESCAPE.findall(text)
    return set(found) if len(found) == text.count(b"%") else None


def _decode_each(raw: pa.StringArray) -> pa.StringArray:
    def one(path: str | None) -> str | None:
        if path is None:
            return None
        try:
            return unquote_to_bytes(path).decode()
        except UnicodeDecodeError:
            return path

    return strings(one(path) for path in raw.to_pylist())


def file_keys(fields: Mapping[str, pa.Array]) -> pa.BinaryArray:
    """The key of each action, from its `path` and its `deletionVector`, if that is there.

    The path's length in bytes goes before it, so that no path and id together look like another path and id.
    """
    path = canonical_paths(fields["path"])
    vector = fields.get("deletionVector")
    ids = None if vector is None else unique_ids(vector)
    length = pc.binary_length(path).cast(pa.string())
    tail = _EMPTY if ids is None else pc.fill_null(ids, _EMPTY)
    return pc.binary_join_element_wise(length, path, tail, _COLON).cast(pa.binary())


def key_paths(keys: pa.BinaryArray) -> pa.StringArray:
    """The canonical paths in keys."""
    parts = [key.partition(b":") for key in keys.to_pylist()]
    return strings([rest[: int(length)].decode() for length, _, rest in parts])


def unique_ids(descriptors: pa.StructArray) -> pa.StringArray | None:
    """The unique id of each deletion vector, null for a row without one; None if no row has one."""
    if descriptors.null_count == len(descriptors):
        return None
    # flatten() lays the struct's own nulls over its fields.
    fields = dict(zip((field.name for field in descriptors.type), descriptors.flatten(), strict=True))
    offset = fields.get("offset", pa.nulls(len(descriptors), pa.int32()))
    place = pc.fill_null(pc.binary_join_element_wise(_AT, offset.cast(pa.string()), _EMPTY), _EMPTY)
    joined = pc.binary_join_element_wise(fields["storageType"], fields["pathOrInlineDv"], place, _EMPTY)
    return None if joined.null_count == len(joined) else joined
