"""Paths of data files: raw as the log has them, decoded, and canonical for telling files apart.

A path in the log is a URI: `a%20b.parquet` names the file `a b.parquet`, and `/p`, `file:/p` and `file:///p` are one
file. Everything works on whole Arrow columns.
"""

from __future__ import annotations

import re
from urllib.parse import unquote_to_bytes

import pyarrow as pa
import pyarrow.compute as pc

from delta_sidecar._arrow import strings


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
    """Paths of which two are equal just where they name the same file."""
    decoded = decode_paths(raw)
    if not _holds(decoded, "file:"):
        return decoded
    return pc.replace_substring_regex(decoded, pattern=r"^file:(?://(?:localhost)?)?/", replacement="/")


def is_absolute(path: str) -> bool:
    """Whether a decoded path names a file by itself, not relative to the table."""
    return path.startswith("/") or _SCHEME.match(path) is not None


_ESCAPE = re.compile(rb"%[0-9A-Fa-f]{2}")
_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:/")


def _holds(array: pa.StringArray, text: str) -> bool:
    return bool(pc.any(pc.match_substring(array, pattern=text)).as_py())


def _escapes(array: pa.StringArray) -> set[bytes] | None:
    """The distinct escapes in a column; None where a percent sign stands by itself."""
    offsets, data = array.buffers()[1:]
    first, last = memoryview(offsets).cast("i")[array.offset :: len(array)][:2]
    text = bytes(memoryview(data)[first:last])
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
