"""Sorted runs of keys: what a seen-set is made of.

A run never changes. It has fingerprints in ascending order, and beside each the key itself or its digest: fingerprints
find candidates for a whole batch at once, and what stands beside them decides.
"""

from __future__ import annotations

import itertools
import mmap
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol, Self

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from delta_sidecar._arrow import bits_of, booleans, int64s

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray

    from delta_sidecar.replay.key_hashes import Digests, Fingerprints, KeyHashes

    Mask = NDArray[np.bool_]
    Rows = NDArray[np.int64]

BLOCK_KEYS = 8192
"""About so many keys of a run are handled at once."""

_LARGE = 256 << 10


class Asked(Protocol):
    """Keys that are looked up."""

    @property
    def fingerprints(self) -> Fingerprints:
        """Their fingerprints, in ascending order."""

    def identities_at(self, rows: Rows) -> Any:  # noqa: ANN401 - Arrow's keys or numpy's digests
        """What stands beside some of them: keys, or digests where it is asked of digests."""


class Run(ABC):
    """Some keys, at least one, in ascending order of their fingerprints."""

    fingerprints: Fingerprints

    __slots__ = ()

    def __len__(self) -> int:
        return len(self.fingerprints)

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        return self

    @property
    @abstractmethod
    def nbytes(self) -> int:
        """The memory it holds."""

    @abstractmethod
    def identities_at(self, rows: Rows) -> Any:  # noqa: ANN401
        """What stands beside some of its fingerprints."""

    def find(self, asked: Asked) -> Mask:
        """Tells, key by key, whether it is here."""
        wanted = asked.fingerprints
        found = np.zeros(len(wanted), dtype=np.bool_)
        place = np.searchsorted(self.fingerprints, wanted)
        open_ = np.flatnonzero(self._has(place, wanted))
        # Two keys may share a fingerprint: go along equal fingerprints until the key itself is met.
        while len(open_):
            same = self._equal(self.identities_at(place[open_]), asked.identities_at(open_))
            found[open_[same]] = True
            open_ = open_[~same]
            place[open_] += 1
            open_ = open_[self._has(place[open_], wanted[open_])]
        return found

    def _has(self, place: Rows, wanted: Fingerprints) -> Mask:
        """Whether fingerprints stand at these places."""
        inside = place < len(self.fingerprints)
        matches: Mask = self.fingerprints[np.where(inside, place, 0)] == wanted
        return inside & matches

    def _equal(self, some: Digests, others: Digests) -> Mask:
        equal: Mask = (some == others).all(axis=1)
        return equal


@dataclass(frozen=True, slots=True)
class KeyRun(Run):
    """A run of whole keys."""

    fingerprints: Fingerprints
    keys: pa.BinaryArray

    @classmethod
    def merged(cls, runs: Sequence[Self]) -> Self:
        """One run of all their keys."""
        fingerprints = np.concatenate([run.fingerprints for run in runs])
        order = np.argsort(fingerprints, kind="stable")
        return cls(fingerprints[order], pa.concat_arrays([run.keys for run in runs]).take(int64s(order)))

    @property
    def nbytes(self) -> int:
        """The memory it holds."""
        return self.fingerprints.nbytes + int(self.keys.get_total_buffer_size())

    def identities_at(self, rows: Rows) -> pa.BinaryArray:
        """Some of its keys."""
        return self.keys.take(int64s(rows))

    def only(self, chosen: Mask) -> KeyRun:
        """A part of it."""
        return self if chosen.all() else KeyRun(self.fingerprints[chosen], self.keys.filter(booleans(chosen)))

    def digested(self, hashes: KeyHashes) -> DigestRun:
        """The same keys as digests."""
        return DigestRun(self.fingerprints, hashes.digests(self.keys))

    def _equal(self, some: pa.BinaryArray, others: pa.BinaryArray) -> Mask:
        return bits_of(pc.equal(some, others))


@dataclass(frozen=True, slots=True)
class DigestRun(Run):
    """A run of digests."""

    fingerprints: Fingerprints
    digests: Digests

    @classmethod
    def merged(cls, runs: Sequence[Self]) -> Self:
        """One run of all their digests, made piece by piece: beside it there is little more than the runs."""
        count = sum(len(run) for run in runs)
        fingerprints, digests = _words(count), _words(2 * count).reshape(-1, 2)
        end = 0
        for piece in in_order([run.blocks() for run in runs]):
            start, end = end, end + len(piece)
            fingerprints[start:end], digests[start:end] = piece.fingerprints, piece.digests
        return cls(fingerprints, digests)

    @property
    def nbytes(self) -> int:
        """The memory it holds."""
        return self.fingerprints.nbytes + self.digests.nbytes

    def identities_at(self, rows: Rows) -> Digests:
        """Some of its digests."""
        return self.digests[rows]

    def only(self, chosen: Mask) -> DigestRun:
        """A part of it."""
        return self if chosen.all() else DigestRun(self.fingerprints[chosen], self.digests[chosen])

    def between(self, start: int, end: int) -> DigestRun:
        """A stretch of it; it shares its memory."""
        return DigestRun(self.fingerprints[start:end], self.digests[start:end])

    def blocks(self) -> Iterator[DigestRun]:
        """Cuts it into blocks; equal fingerprints stay together."""
        starts = np.unique(np.searchsorted(self.fingerprints, self.fingerprints[::BLOCK_KEYS])).tolist()
        for start, end in itertools.pairwise([*starts, len(self)]):
            yield self.between(start, end)


def merged(runs: Sequence[KeyRun | DigestRun]) -> KeyRun | DigestRun:
    """One run of all that is in runs, which are of one kind."""
    digests = [run for run in runs if isinstance(run, DigestRun)]
    return DigestRun.merged(digests) if digests else KeyRun.merged([run for run in runs if isinstance(run, KeyRun)])


def in_order(streams: Sequence[Iterator[DigestRun]]) -> Iterator[DigestRun]:
    """Merges streams of blocks, each of which goes up, into one that does. Equal fingerprints stay together."""
    heads = [(head, stream) for stream in streams if (head := next(stream, None)) is not None]
    while heads:
        # Up to here every stream has shown all that it has.
        cut = min(head.fingerprints[-1] for head, _ in heads)
        pieces, left = [], []
        for head, stream in heads:
            count = int(np.searchsorted(head.fingerprints, cut, side="right"))
            pieces.append(head.between(0, count))
            rest = head.between(count, len(head)) if count < len(head) else next(stream, None)
            if rest is not None:
                left.append((rest, stream))
        heads = left
        fingerprints = np.concatenate([piece.fingerprints for piece in pieces])
        order = np.argsort(fingerprints, kind="stable")
        yield DigestRun(fingerprints[order], np.concatenate([piece.digests for piece in pieces])[order])


def _words(count: int) -> NDArray[np.uint64]:
    """Room for words. Much of it is memory of its own, which goes back to the system with its last user."""
    if count * 8 < _LARGE:
        return np.empty(count, dtype=np.uint64)
    return np.frombuffer(mmap.mmap(-1, count * 8), dtype=np.uint64)
