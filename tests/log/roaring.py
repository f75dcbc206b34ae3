"""An encoder of Roaring bitmaps after their specification: slow, plain, and with each kind of container at will."""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

PORTABLE, NATIVE = 1681511377, 1681511376
ARRAY, BITSET, RUNS = "array", "bitset", "runs"


@dataclass(frozen=True)
class Container:
    key: int
    kind: str
    values: Sequence[int]  # the lower 16 bits, ascending

    def body(self) -> bytes:
        if self.kind == ARRAY:
            return struct.pack(f"<{len(self.values)}H", *self.values)
        if self.kind == BITSET:
            bits = bytearray(8192)
            for value in self.values:
                bits[value // 8] |= 1 << value % 8
            return bytes(bits)
        return runs_body(runs_of(self.values))


def runs_of(values: Sequence[int]) -> list[tuple[int, int]]:
    """Pairs of a start and how many follow it."""
    runs: list[tuple[int, int]] = []
    for value in values:
        if runs and sum(runs[-1]) + 1 == value:
            runs[-1] = (runs[-1][0], runs[-1][1] + 1)
        else:
            runs.append((value, 0))
    return runs


def runs_body(runs: Sequence[tuple[int, int]]) -> bytes:
    return struct.pack("<H", len(runs)) + b"".join(struct.pack("<HH", *run) for run in runs)


def bitmap32(containers: Sequence[Container]) -> bytes:
    count = len(containers)
    kinds = [container.kind == RUNS for container in containers]
    if any(kinds):
        flags = sum(is_runs << number for number, is_runs in enumerate(kinds)).to_bytes((count + 7) // 8, "little")
        head = struct.pack("<I", 12347 | (count - 1) << 16) + flags
    else:
        head = struct.pack("<II", 12346, count)
    for container in containers:
        head += struct.pack("<HH", container.key, len(container.values) - 1)
    bodies = [container.body() for container in containers]
    if count >= 4 or not any(kinds):
        at = len(head) + 4 * count
        for body in bodies:
            head += struct.pack("<I", at)
            at += len(body)
    return head + b"".join(bodies)


def portable(bitmaps: Mapping[int, bytes]) -> bytes:
    """The format of the protocol, from bitmaps by the upper half of their numbers."""
    parts = [struct.pack("<I", high) + bitmap for high, bitmap in bitmaps.items()]
    return struct.pack("<IQ", PORTABLE, len(parts)) + b"".join(parts)


def native(bitmaps: Sequence[bytes], order: str = "<") -> bytes:
    """The format before it: bitmaps for the upper halves 0, 1, 2 and so on."""
    parts = [struct.pack(f"{order}I", len(bitmap)) + bitmap for bitmap in bitmaps]
    return struct.pack(f"{order}II", NATIVE, len(parts)) + b"".join(parts)
