"""Byte ranges of one object: close ones are read together."""

from __future__ import annotations

from bisect import bisect_right
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from delta_sidecar.store.interface import Buffer

CLOSE = 256 * 1024
"""Ranges this near to each other share a request: reading the gap is quicker than asking again."""


def check_range(start: int, end: int) -> None:
    """Refuses ranges that are none.

    Raises:
        ValueError: The range starts before the object, or ends before it starts.
    """
    if not 0 <= start <= end:
        msg = f"not a range of bytes: {start} to {end}"
        raise ValueError(msg)


def check_max_bytes(max_bytes: int | None) -> None:
    """Refuses to read nothing of an object.

    Raises:
        ValueError: The number is not positive.
    """
    if max_bytes is not None and max_bytes < 1:
        msg = f"max_bytes must be positive: {max_bytes}"
        raise ValueError(msg)


def merge(ranges: Sequence[tuple[int, int]], close: int = CLOSE) -> list[tuple[int, int]]:
    """Gives the fewest ranges that cover all of these, reading over gaps of up to `close` bytes."""
    merged: list[tuple[int, int]] = []
    for start, end in sorted(ranges):
        check_range(start, end)
        if merged and start - merged[-1][1] <= close:
            merged[-1] = (merged[-1][0], max(merged[-1][1], end))
        else:
            merged.append((start, end))
    return merged


def split(
    merged: Sequence[tuple[int, int]], parts: Sequence[Buffer], ranges: Sequence[tuple[int, int]]
) -> list[Buffer]:
    """Cuts what was read for merged ranges into what was asked for, without copying."""
    firsts = [first for first, _ in merged]
    answers: list[Buffer] = []
    for start, end in ranges:
        at = bisect_right(firsts, start) - 1
        answers.append(memoryview(parts[at])[start - firsts[at] : end - firsts[at]])
    return answers
