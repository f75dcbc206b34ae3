"""Text columns of one width, filled in by numpy.

A pattern is written once into every row of a byte matrix, then each slot is overwritten with the digits of
that row. No string object is made per row, and the matrix is the Arrow buffer.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    Text = NDArray[np.uint8]
    """A matrix of bytes: one row per value, all of one width."""

_SLOT = re.compile("«([a-z_0-9.]+)»")
_Z85 = np.frombuffer(b"0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ.-:+=^!/*?&<>()[]{}@%$#", np.uint8)
_HEX = np.frombuffer(b"".join(b"%02x" % byte for byte in range(256)), np.uint8).reshape(256, 2)
_CHUNK = 4
_DIGITS = np.frombuffer(b"".join(b"%04d" % number for number in range(10_000)), np.uint8).reshape(10_000, 4)


def fill(pattern: str, slots: Mapping[str, Text]) -> Text:
    """Writes every row of a pattern, each `«name»` in it replaced by that row of the slot."""
    pieces = _SLOT.split(pattern)
    literals, names = [piece.encode() for piece in pieces[::2]], pieces[1::2]
    rows = len(slots[names[0]])
    widths = [slots[name].shape[1] for name in names]
    row = b"".join(literal + b" " * width for literal, width in zip(literals, [*widths, 0], strict=True))
    text = np.empty((rows, len(row)), dtype=np.uint8)
    text[:] = np.frombuffer(row, dtype=np.uint8)
    at = 0
    for literal, name, width in zip(literals[:-1], names, widths, strict=True):
        at += len(literal)
        text[:, at : at + width] = slots[name]
        at += width
    return text


def as_strings(text: Text) -> pa.StringArray:
    """Wraps a matrix as an Arrow string array without copying it."""
    rows, width = text.shape
    offsets = np.arange(rows + 1, dtype=np.int32) * np.int32(width)
    return pa.StringArray.from_buffers(rows, pa.py_buffer(offsets), pa.py_buffer(np.ascontiguousarray(text)))


def digits(values: NDArray[Any], width: int) -> Text:
    """Writes whole numbers in decimal, padded with zeros to `width`."""
    chunks = -(-width // _CHUNK)
    text = np.empty((len(values), chunks * _CHUNK), dtype=np.uint8)
    rest = values.astype(np.int64)
    for chunk in reversed(range(chunks)):
        rest, low = np.divmod(rest, 10_000) if chunk else (rest, rest)
        text[:, chunk * _CHUNK : (chunk + 1) * _CHUNK] = _DIGITS[low]
    return text[:, chunks * _CHUNK - width :]


def decimals(hundredths: NDArray[Any], width: int) -> Text:
    """Writes hundredths with two places: 2150 of width 5 is `21.50`."""
    number = digits(hundredths, width - 1)
    point = np.full((len(number), 1), ord("."), dtype=np.uint8)
    return np.concatenate([number[:, :-2], point, number[:, -2:]], axis=1)


def uuids(high: NDArray[np.uint64], low: NDArray[np.uint64]) -> Text:
    """Writes 128 random bits as the canonical text of a version 4 UUID."""
    raw = np.stack([high, low], axis=1).astype(">u8").view(np.uint8)
    raw[:, 6] = (raw[:, 6] & 0x0F) | 0x40
    raw[:, 8] = (raw[:, 8] & 0x3F) | 0x80
    plain = _HEX[raw].reshape(len(raw), 32)
    text = np.full((len(raw), 36), ord("-"), dtype=np.uint8)
    for start, stop, at in ((0, 8, 0), (8, 12, 9), (12, 16, 14), (16, 20, 19), (20, 32, 24)):
        text[:, at : at + stop - start] = plain[:, start:stop]
    return text


def z85(high: NDArray[np.uint64], low: NDArray[np.uint64]) -> Text:
    """Writes 128 random bits in Z85, the alphabet of deletion-vector names: 20 characters."""
    words = np.stack([high, low], axis=1).astype(">u8").view(">u4").astype(np.int64)
    text = np.empty((len(words), 4, 5), dtype=np.uint8)
    for place in reversed(range(5)):
        words, digit = np.divmod(words, 85)
        text[:, :, place] = _Z85[digit]
    return text.reshape(len(words), 20)


def hour_digits(hours: NDArray[np.int64]) -> Text:
    """Writes hours since the epoch as `yyyyMMddHH`."""
    unique, where = np.unique(hours, return_inverse=True)
    stamps = np.datetime_as_string(unique.astype("datetime64[h]"), unit="h").astype("S13")
    letters = stamps.view(np.uint8).reshape(len(unique), 13)
    return letters[:, [0, 1, 2, 3, 5, 6, 8, 9, 11, 12]][where]


def timestamps(values: NDArray[np.int64]) -> Text:
    """Writes milliseconds since the epoch as `2026-02-10T22:00:00.123Z`."""
    hours, rest = np.divmod(values, 3_600_000)
    minutes, rest = np.divmod(rest, 60_000)
    seconds, millis = np.divmod(rest, 1_000)
    hour = hour_digits(hours)
    slots = {
        "y": hour[:, :4],
        "m": hour[:, 4:6],
        "d": hour[:, 6:8],
        "h": hour[:, 8:],
        "minute": digits(minutes, 2),
        "second": digits(seconds, 2),
        "milli": digits(millis, 3),
    }
    return fill("«y»-«m»-«d»T«h»:«minute»:«second».«milli»Z", slots)
