"""Fingerprints and digests of keys: short stand-ins that depend on a secret, so that nobody can choose what collides.

A fingerprint is cheap, made for whole batches at once, and only finds candidates. A digest decides.
"""

from __future__ import annotations

import itertools
import os
from dataclasses import dataclass, field
from hashlib import blake2b, shake_128
from typing import TYPE_CHECKING

import numpy as np
import pyarrow.compute as pc

from delta_sidecar._arrow import booleans, numbers_of

if TYPE_CHECKING:
    import pyarrow as pa
    from numpy.typing import NDArray

    Fingerprints = NDArray[np.uint64]
    """64 bits for each key."""

    Digests = NDArray[np.uint64]
    """A row of two words for each key."""

DIGEST_BYTES = 16

_MOST_WORDS = 4096


@dataclass(frozen=True, slots=True)
class KeyHashes:
    """Makes fingerprints and digests; those of two instances have nothing to do with each other."""

    secret: bytes = field(default_factory=lambda: os.urandom(16), repr=False)

    def fingerprints(self, keys: pa.BinaryArray) -> Fingerprints:
        """A weighted sum of each key's eight-byte words, with secret odd weights; all keys of a length at once."""
        lengths = numbers_of(pc.binary_length(keys))
        out = np.zeros(len(keys), dtype=np.uint64)
        for length in np.flatnonzero(np.bincount(lengths)):
            where = lengths == length
            same = keys if where.all() else keys.filter(booleans(where))
            words = _words(same, int(length))
            out[where] = words @ self._weights(words.shape[1]) + np.uint64(length)
        return out

    def digests(self, keys: pa.BinaryArray) -> Digests:
        """A keyed blake2b of each key."""
        if not len(keys):
            return np.zeros((0, 2), dtype=np.uint64)
        offsets, data = keys.buffers()[1:]
        bounds = np.frombuffer(offsets, dtype=np.int32)[keys.offset : keys.offset + len(keys) + 1].tolist()
        view = memoryview(b"" if data is None else data)
        out = bytearray()
        for start, end in itertools.pairwise(bounds):
            out += blake2b(view[start:end], digest_size=DIGEST_BYTES, key=self.secret).digest()
        return np.frombuffer(out, dtype=np.uint64).reshape(-1, 2)

    def _weights(self, count: int) -> NDArray[np.uint64]:
        return np.frombuffer(shake_128(self.secret).digest(count * 8), dtype=np.uint64) | np.uint64(1)


def _words(keys: pa.BinaryArray, length: int) -> NDArray[np.uint64]:
    """Keys of one length as a matrix of words. Of a very long key only the beginning counts."""
    used = min(length, _MOST_WORDS * 8)
    padded = np.zeros((len(keys), max(8, -(-used // 8) * 8)), dtype=np.uint8)
    if length:
        offsets, data = keys.buffers()[1:]
        start = int(np.frombuffer(offsets, dtype=np.int32)[keys.offset])
        content = np.frombuffer(data, dtype=np.uint8)[start : start + len(keys) * length]
        padded[:, :used] = content.reshape(len(keys), length)[:, :used]
    return padded.view(np.uint64)
