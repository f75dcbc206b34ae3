"""Randomness by number: a hash of (seed, stream, number), and a shuffled order that needs no list.

Nothing here holds state, so any block of a log can be made alone and in any order.
"""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

_ROUNDS = 4
_WORD = (1 << 64) - 1


def mix(numbers: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Scatters 64-bit numbers: the finalizer of splitmix64."""
    with np.errstate(over="ignore"):
        mixed = (numbers ^ (numbers >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        mixed = (mixed ^ (mixed >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        return mixed ^ (mixed >> np.uint64(31))


def hashed(numbers: NDArray[np.int64], seed: int, stream: int) -> NDArray[np.uint64]:
    """Makes one random word for each number; streams of one seed are independent of each other."""
    key = np.uint64((seed * 0x9E3779B97F4A7C15 + stream * 0xD1B54A32D192ED03) & _WORD)
    with np.errstate(over="ignore"):
        return mix(numbers.astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15) + key)


def shuffled(start: int, stop: int, size: int, seed: int) -> NDArray[np.int64]:
    """Returns positions `start..stop` of one fixed random order of the numbers below `size`.

    A Feistel network permutes the next even power of two; a number that lands outside goes round again
    until it lands inside, which keeps it a permutation of exactly `size` numbers.
    """
    half = max(1, (max(size - 1, 1).bit_length() + 1) // 2)
    values = np.arange(start, stop, dtype=np.uint64)
    outside = np.arange(len(values))
    while len(outside):
        values[outside] = _feistel(values[outside], half, seed)
        outside = outside[values[outside] >= np.uint64(size)]
    return values.astype(np.int64)


def random_uuid(seed: int, stream: int, number: int = 0) -> str:
    """Returns the canonical text of a version 4 UUID that depends on the arguments alone."""
    words = [int(hashed(np.array([number]), seed, stream * 2 + side)[0]) for side in range(2)]
    return str(uuid.UUID(int=words[0] << 64 | words[1], version=4))


def _feistel(values: NDArray[np.uint64], half: int, seed: int) -> NDArray[np.uint64]:
    bits, mask = np.uint64(half), np.uint64((1 << half) - 1)
    left, right = values >> bits, values & mask
    for turn in range(_ROUNDS):
        left, right = right, left ^ (hashed(right.astype(np.int64), seed, 1_000 + turn) & mask)
    return (left << bits) | right
