"""The seen-set: the keys of the files that newer commits spoke of.

It is exact. Whole batches of keys are looked up at once: a 64-bit fingerprint finds candidates in sorted runs, and the
key itself, or above a size its 128-bit keyed digest, decides.
"""

from __future__ import annotations

import itertools
import os
from dataclasses import dataclass
from hashlib import blake2b, shake_128
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from delta_sidecar._arrow import bits_of, booleans, int64s, numbers_of

if TYPE_CHECKING:
    from numpy.typing import NDArray

KEY_BYTES = 24 << 20
"""Up to this size the keys themselves are kept; above it, digests of 16 bytes."""

_FEW_RUNS = 6


class SeenSet:
    """A growing set of byte strings, with the memory of about 35 bytes a key at most once it is large."""

    def __init__(self, key_bytes: int = KEY_BYTES) -> None:
        """Makes an empty set; `key_bytes` is the size up to which it keeps whole keys."""
        self._key_bytes = key_bytes
        self._secret = os.urandom(16)
        self._weights = _weights(self._secret)
        self._identities: _Keys | _Digests = _Keys()
        self._runs: list[_Run] = []

    def __len__(self) -> int:
        return len(self._identities)

    @property
    def nbytes(self) -> int:
        """The memory it holds."""
        return self._identities.nbytes + sum(run.nbytes for run in self._runs)

    def freeze(self) -> SeenSet:
        """Lays it out for lookups from several threads; nothing may be inserted any more."""
        self._identities.compact()
        return self

    def contains(self, keys: pa.BinaryArray) -> NDArray[np.bool_]:
        """Tells, key by key, whether it is in the set."""
        if not self._runs or not len(keys):
            return np.zeros(len(keys), dtype=np.bool_)
        return self._lookup(keys, _fingerprints(keys, self._weights))

    def insert(self, keys: pa.BinaryArray) -> NDArray[np.bool_]:
        """Puts keys into the set.

        Returns:
            Key by key, whether it is new: it was not there, and did not come earlier in this very batch.
        """
        fingerprints = _fingerprints(keys, self._weights)
        fresh = ~self._lookup(keys, fingerprints) if self._runs else np.ones(len(keys), dtype=np.bool_)
        fresh = _first_of_equals(keys, fingerprints, fresh)
        if not fresh.any():
            return fresh
        new = keys if fresh.all() else keys.filter(booleans(fresh))
        start = len(self._identities)
        self._identities.append(new, self._secret)
        order = np.argsort(fingerprints[fresh], kind="stable")
        self._runs.append(_Run(fingerprints[fresh][order], order + start))
        if isinstance(self._identities, _Keys) and self._identities.nbytes > self._key_bytes:
            self._identities = self._identities.digested(self._secret)
        self._merge()
        return fresh

    def _lookup(self, keys: pa.BinaryArray, fingerprints: NDArray[np.uint64]) -> NDArray[np.bool_]:
        found = np.zeros(len(keys), dtype=np.bool_)
        for run in self._runs:
            place = np.searchsorted(run.fingerprints, fingerprints)
            open_ = np.flatnonzero(~found & run.has(place, fingerprints))
            # Two keys may share a fingerprint: go along equal fingerprints until the key itself is met.
            while len(open_):
                same = self._identities.equal(run.identity[place[open_]], keys.take(int64s(open_)), self._secret)
                found[open_[same]] = True
                open_ = open_[~same]
                place[open_] += 1
                open_ = open_[run.has(place[open_], fingerprints[open_])]
        return found

    def _merge(self) -> None:
        while len(self._runs) > 1 and (len(self._runs) > _FEW_RUNS or len(self._runs[-2]) <= 2 * len(self._runs[-1])):
            newer, older = self._runs.pop(), self._runs.pop()
            fingerprints = np.concatenate([older.fingerprints, newer.fingerprints])
            order = np.argsort(fingerprints, kind="stable")
            self._runs.append(_Run(fingerprints[order], np.concatenate([older.identity, newer.identity])[order]))


@dataclass(frozen=True, slots=True)
class _Run:
    """Sorted fingerprints, and for each the number of its key."""

    fingerprints: NDArray[np.uint64]
    identity: NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.fingerprints)

    @property
    def nbytes(self) -> int:
        return self.fingerprints.nbytes + self.identity.nbytes

    def has(self, place: NDArray[np.int64], fingerprints: NDArray[np.uint64]) -> NDArray[np.bool_]:
        """Whether the fingerprints stand at these places."""
        inside = place < len(self.fingerprints)
        matches: NDArray[np.bool_] = self.fingerprints[np.where(inside, place, 0)] == fingerprints
        return inside & matches


class _Keys:
    """Keys, kept whole."""

    def __init__(self) -> None:
        self._chunks: list[pa.BinaryArray] = []
        self._count = 0
        self.nbytes = 0

    def __len__(self) -> int:
        return self._count

    def append(self, keys: pa.BinaryArray, secret: bytes) -> None:
        del secret
        self._chunks.append(keys)
        self._count += len(keys)
        self.nbytes += keys.nbytes

    def equal(self, numbers: NDArray[np.int64], keys: pa.BinaryArray, secret: bytes) -> NDArray[np.bool_]:
        del secret
        self.compact()
        return bits_of(pc.equal(self._chunks[0].take(int64s(numbers)), keys))

    def compact(self) -> None:
        if len(self._chunks) > 1:
            self._chunks = [pa.concat_arrays(self._chunks)]

    def digested(self, secret: bytes) -> _Digests:
        digests = _Digests()
        for chunk in self._chunks:
            digests.append(chunk, secret)
        return digests


class _Digests:
    """A digest of 16 bytes for each key. The secret in it keeps anyone from making two keys with one digest."""

    def __init__(self) -> None:
        self._chunks: list[NDArray[np.uint64]] = []
        self._count = 0

    def __len__(self) -> int:
        return self._count

    @property
    def nbytes(self) -> int:
        return self._count * 16

    def append(self, keys: pa.BinaryArray, secret: bytes) -> None:
        self._chunks.append(_digests(keys, secret))
        self._count += len(keys)

    def compact(self) -> None:
        if len(self._chunks) > 1:
            self._chunks = [np.concatenate(self._chunks)]

    def equal(self, numbers: NDArray[np.int64], keys: pa.BinaryArray, secret: bytes) -> NDArray[np.bool_]:
        self.compact()
        same: NDArray[np.bool_] = (self._chunks[0][numbers] == _digests(keys, secret)).all(axis=1)
        return same


def _digests(keys: pa.BinaryArray, secret: bytes) -> NDArray[np.uint64]:
    offsets, data = keys.buffers()[1:]
    bounds = np.frombuffer(offsets, dtype=np.int32)[keys.offset : keys.offset + len(keys) + 1].tolist()
    view = memoryview(data)
    out = bytearray()
    for start, end in itertools.pairwise(bounds):
        out += blake2b(view[start:end], digest_size=16, key=secret).digest()
    return np.frombuffer(bytes(out), dtype=np.uint64).reshape(-1, 2)


_MOST_WORDS = 4096


def _weights(secret: bytes) -> NDArray[np.uint64]:
    stream = shake_128(secret).digest(_MOST_WORDS * 8)
    return np.frombuffer(stream, dtype=np.uint64) | np.uint64(1)


def _fingerprints(keys: pa.BinaryArray, weights: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """A weighted sum of each key's eight-byte words, with secret odd weights; all keys of a length at once."""
    lengths = numbers_of(pc.binary_length(keys))
    out = np.zeros(len(keys), dtype=np.uint64)
    for length in np.flatnonzero(np.bincount(lengths)):
        where = lengths == length
        rows = np.flatnonzero(where)
        same = keys if len(rows) == len(keys) else keys.filter(booleans(where))
        words = _words(same, int(length))
        out[rows] = (words * weights[: words.shape[1]]).sum(axis=1, dtype=np.uint64) + np.uint64(length)
    return out


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


def _first_of_equals(
    keys: pa.BinaryArray, fingerprints: NDArray[np.uint64], among: NDArray[np.bool_]
) -> NDArray[np.bool_]:
    """Of keys that are equal within a batch, leaves the first."""
    rows = np.flatnonzero(among)
    order = np.argsort(fingerprints[rows], kind="stable")
    ordered = fingerprints[rows][order]
    repeats = ordered[1:] == ordered[:-1]
    if not repeats.any():
        return among
    twins = np.zeros(len(rows), dtype=np.bool_)
    twins[order[1:][repeats]] = True
    twins[order[:-1][repeats]] = True
    met: set[bytes] = set()
    out = among.copy()
    for row in rows[twins].tolist():
        key = keys[row].as_py()
        out[row] = key not in met
        met.add(key)
    return out
