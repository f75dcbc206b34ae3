"""Numbers out of the middle of texts, whole columns at a time, where they stand in the one form that writers give them.

A build reads some twenty numbers of every file. Arrow takes 30 ns to cut a text out, 30 ns to parse it and 50 ns to
write it again, which shows whether it was in that form. Here eight digits are one 64-bit word, for 10 ns in all.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Words = NDArray[np.uint64]

WORD = 8
_MOST_DIGITS = 2 * WORD
_EXACT_DIGITS = 15  # a 64-bit float holds as many, so that no shorter text and no other one of that length means it
_MOST_FRACTION = WORD - 1

_ZERO, _POINT, _MINUS = ord("0"), ord("."), ord("-")
_ONES, _LOW_BITS, _HIGH_BITS = (np.uint64(byte * 0x0101010101010101) for byte in (0x01, 0x7F, 0x80))
_ZEROS, _POINTS, _SIXES = (np.uint64(byte * 0x0101010101010101) for byte in (_ZERO, _POINT, 0x06))
_NIBBLES = np.uint64(0xF0F0F0F0F0F0F0F0)
_KEPT = np.array([(1 << 64) - (1 << 8 * (WORD - kept)) for kept in range(WORD + 1)], dtype=np.uint64)
_POWERS = 10.0 ** np.arange(WORD)
# Of these numbers no writer needs an exponent.
_SMALLEST, _LARGEST = 1e-3, 1e7


@dataclass(frozen=True, slots=True)
class TextRanges:
    """A range of bytes in each of many texts, which stand in one buffer."""

    data: NDArray[np.uint8]
    starts: NDArray[np.int64]
    ends: NDArray[np.int64]

    def all_are(self, content: bytes) -> bool:
        """Whether all ranges, which are as long as `content`, hold just that."""
        found = self._windows(len(content))[self.starts]
        return found.tobytes() == content * len(self.starts)

    def whole_numbers(self) -> NDArray[np.int64] | None:
        """The whole numbers in the ranges; None where one is not in the usual form, or has more than 16 digits."""
        negative, starts = self._signs()
        counts = self.ends - starts
        if not len(counts) or counts.min() < 1 or counts.max() > _MOST_DIGITS:
            return None
        leading = (self.data[starts] == _ZERO) & ((counts > 1) | negative)
        numbers = None if leading.any() else _parsed(self._before_end(0), self._high(counts), counts)
        return None if numbers is None else np.where(negative, -numbers, numbers)

    def decimals(self) -> NDArray[np.float64] | None:
        """The numbers with a point in the ranges, as 64-bit floats.

        None where one does not have the fewest digits that tell it from all others, or has more than 15 of them, or is
        too small or too large for certain to be written without an exponent.
        """
        negative, starts = self._signs()
        counts = self.ends - starts
        if not len(counts) or counts.min() < len("0.0") or counts.max() > _EXACT_DIGITS + 1:
            return None
        low = _only_digits_of(self._before_end(0), counts)
        high = self._high(counts)
        # The highest bit of every byte that is a point.
        others = low ^ _POINTS
        points = ~(((others & _LOW_BITS) + _LOW_BITS) | others) & _HIGH_BITS
        if (points == 0).any() or (points & (points - np.uint64(1))).any():
            return None
        point = points >> np.uint64(7)
        fractions = _MOST_FRACTION - ((np.frexp(point.astype(np.float64))[1] - 1) >> 3)
        wholes = counts - 1 - fractions
        odd = (fractions < 1) | (wholes < 1)
        odd |= (self.data[starts] == _ZERO) & (wholes > 1)
        odd |= (self.data[self.ends - 1] == _ZERO) & (fractions > 1)
        if odd.any():
            return None
        # What is in front of the point moves into its place.
        before = point - np.uint64(1)
        after = ~((point << np.uint64(8)) - np.uint64(1))
        carried = _ZEROS & np.uint64(0xFF) if high is None else _only_digits_of(high, counts - WORD) >> np.uint64(56)
        low = (low & after) | ((low & before) << np.uint64(8)) | carried
        digits = _parsed(low, None if high is None else high << np.uint64(8), counts - 1)
        if digits is None:
            return None
        sizes: NDArray[np.float64] = digits / _POWERS[fractions]
        if ((sizes != 0) & ((sizes < _SMALLEST) | (sizes >= _LARGEST))).any():
            return None
        sizes[negative] *= -1
        return sizes

    def _signs(self) -> tuple[NDArray[np.bool_], NDArray[np.int64]]:
        """Which ranges begin with a minus, and where they go on behind it."""
        negative = self.data[np.minimum(self.starts, len(self.data) - 1)] == _MINUS
        return negative, self.starts + negative

    def _high(self, counts: NDArray[np.int64]) -> Words | None:
        return self._before_end(WORD) if counts.max() > WORD else None

    def _before_end(self, distance: int) -> Words:
        """The words that end so far before the end of each range. What is in front of the buffer is its end here."""
        return self._windows(WORD)[self.ends - (distance + WORD)].view("<u8")

    def _windows(self, width: int) -> NDArray[np.void]:
        """As many bytes from each byte of the buffer on: bytes without a type may stand anywhere."""
        shape = (max(0, len(self.data) - width + 1),)
        return np.ndarray(shape, dtype=f"V{width}", buffer=self.data.data, strides=(1,))


def _only_digits_of(words: Words, counts: NDArray[np.int64]) -> Words:
    """The last `counts` characters of words, with zeros in the place of the others."""
    kept = _KEPT[np.clip(counts, 0, WORD)]
    return (words & kept) | (_ZEROS & ~kept)


def _parsed(low: Words, high: Words | None, counts: NDArray[np.int64]) -> NDArray[np.int64] | None:
    """The numbers of at most sixteen digits that end in words; None where a character is no digit."""
    found = _of_eight(_only_digits_of(low, counts))
    if high is None or found is None:
        return found
    upper = _of_eight(_only_digits_of(high, counts - WORD))
    return None if upper is None else upper * 10**WORD + found


def _of_eight(words: Words) -> NDArray[np.int64] | None:
    is_digits = (words & _NIBBLES) | (((words + _SIXES) & _NIBBLES) >> np.uint64(4))
    if (is_digits != np.uint64(0x3333333333333333)).any():
        return None
    # Pairs of digits, then all four of them: the first digit is in the lowest byte.
    pairs = words - _ZEROS
    pairs = pairs * np.uint64(10) + (pairs >> np.uint64(8))
    mask = np.uint64(0x000000FF000000FF)
    upper = (pairs & mask) * np.uint64(0x000F424000000064)
    lower = ((pairs >> np.uint64(16)) & mask) * np.uint64(0x0000271000000001)
    return ((upper + lower) >> np.uint64(32)).astype(np.int64)
