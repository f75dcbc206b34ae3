"""Z85, the base 85 of deletion vectors: five characters for four bytes, first byte first.

Z85 knows whole blocks of four bytes only, and there are two ways to write the bytes that are left over. Delta on Spark
fills the block up, and the reader cuts off what is too much. Writers in Rust leave the missing bytes out and begin the
block with a `#` for each. No whole block begins with that sign: its number has no room in four bytes.
"""

from __future__ import annotations

import numpy as np

from delta_sidecar.errors import DeletionVectorError

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
