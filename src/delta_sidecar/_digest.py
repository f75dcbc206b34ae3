"""Digests that tell a damaged file from a whole one. They are no proof against forgery."""

from __future__ import annotations

from typing import TYPE_CHECKING

import xxhash

if TYPE_CHECKING:
    from collections.abc import Iterable

DIGEST_LENGTH = 32
"""Characters of a digest."""


def xxh3_128(data: bytes | memoryview) -> str:
    """The XXH3 digest of 128 bits, in small hexadecimal digits."""
    return xxhash.xxh3_128_hexdigest(data)


def xxh3_128_of(pieces: Iterable[bytes | memoryview]) -> str:
    """The same of pieces one after another."""
    digest = xxhash.xxh3_128()
    for piece in pieces:
        digest.update(piece)
    return digest.hexdigest()
