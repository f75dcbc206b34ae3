"""The seen-set: the keys of the files that newer commits spoke of.

It is exact, and it keeps to a limit of memory. Few keys are kept whole. More than that are kept as digests of 128 bits
that depend on a secret, and what is too much for memory even so goes to temporary files. Whole batches of keys are
looked up at once.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import pyarrow as pa

from delta_sidecar._arrow import int64s
from delta_sidecar.replay.seen.runs import DigestRun, KeyHashes, KeyRun, SpilledRun, merged

if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Self

    from delta_sidecar.replay.seen.runs import Asked, Fingerprints, Mask, Rows


Tier = Literal["keys", "digests", "disk"]

MEMORY_LIMIT = 16 << 20
"""The memory that a seen-set may take, if nothing else is said."""

_MOST_KEY_BYTES = 32 << 20
_FEW_RUNS = 6


class SeenSet:
    """A growing set of byte strings within a limit of memory.

    Keys can be held back: those are not in the set yet, and all come into it at once. They count for the limit too.
    """

    def __init__(self, memory_limit: int = MEMORY_LIMIT) -> None:
        """Makes an empty set.

        Args:
            memory_limit: The most memory, in bytes, that it takes for the keys, the copies that it makes in between
                included. What is more goes to temporary files.
        """
        self._limit = memory_limit
        self._hashes = KeyHashes()
        self._digested = False
        self._seen = _Layer()
        self._later = _Layer()

    def __len__(self) -> int:
        return len(self._seen)

    @property
    def nbytes(self) -> int:
        """The memory it holds."""
        return self._seen.nbytes + self._later.nbytes

    @property
    def tier(self) -> Tier:
        """What the keys have become."""
        if self._seen.spilled or self._later.spilled:
            return "disk"
        return "digests" if self._digested else "keys"

    def freeze(self) -> SeenSet:
        """Lays it out for lookups, from several threads too; nothing may be inserted any more."""
        self._seen.merge()
        return self

    def few(self, most: int) -> pa.BinaryArray | None:
        """All keys, where they are few and kept whole; else None."""
        return None if self._digested or len(self) > most else self._seen.keys()

    def contains(self, keys: pa.BinaryArray) -> Mask:
        """Tells, key by key, whether it is in the set.

        Raises:
            TemporaryFileError: It is in a temporary file that cannot be read.
        """
        if not len(self) or not len(keys):
            return np.zeros(len(keys), dtype=np.bool_)
        batch = self._batch(keys)
        return batch.as_given(self._seen.find(batch))

    def insert(self, keys: pa.BinaryArray) -> Mask:
        """Puts keys into the set.

        Returns:
            Key by key, whether it is new: it was not there, and did not come earlier in this very batch.

        Raises:
            TemporaryFileError: It does not fit into memory, and not into a temporary file.
        """
        return self._insert(self._seen, keys)

    def hold_back(self, keys: pa.BinaryArray) -> None:
        """Takes keys that are to come into the set later. Raises as `insert` does."""
        self._insert(self._later, keys)

    def release(self) -> None:
        """Puts the keys that were held back into the set. Raises as `insert` does."""
        if len(self._seen) < len(self._later):
            self._seen, self._later = self._later, self._seen
        for run in self._later.drained():
            self._seen.add(run.only(~self._seen.find(run)))
            self._keep_to_limit()

    def _insert(self, layer: _Layer, keys: pa.BinaryArray) -> Mask:
        batch = self._batch(keys)
        fresh = batch.first_of_equals()
        fresh &= ~layer.find(batch)
        layer.add(batch.run(fresh))
        self._keep_to_limit()
        return batch.as_given(fresh)

    def _batch(self, keys: pa.BinaryArray) -> KeyBatch:
        return KeyBatch.of(keys, self._hashes, digested=self._digested)

    def _keep_to_limit(self) -> None:
        # Merging makes copies: of keys two, of digests one.
        layers = (self._seen, self._later)
        if not self._digested and self._in_memory() > min(self._limit // 3, _MOST_KEY_BYTES):
            self._digested = True
            for layer in layers:
                layer.digest(self._hashes)
        for layer in sorted(layers, key=lambda layer: layer.in_memory, reverse=True):
            if self._in_memory() > self._limit // 2:
                layer.spill()

    def _in_memory(self) -> int:
        return self._seen.in_memory + self._later.in_memory


class _Layer:
    """Keys in runs that get smaller from one to the next: first those in files, then those in memory."""

    def __init__(self) -> None:
        self.spilled: list[SpilledRun] = []
        self._runs: list[KeyRun | DigestRun] = []

    def __len__(self) -> int:
        return sum(len(run) for run in (*self.spilled, *self._runs))

    @property
    def nbytes(self) -> int:
        return self.in_memory + sum(run.nbytes for run in self.spilled)

    @property
    def in_memory(self) -> int:
        """The memory of the runs that are not in files."""
        return sum(run.nbytes for run in self._runs)

    def keys(self) -> pa.BinaryArray:
        """The keys that are kept whole."""
        return pa.concat_arrays(
            [pa.nulls(0, pa.binary()), *(run.keys for run in self._runs if isinstance(run, KeyRun))]
        )

    def find(self, asked: Asked) -> Mask:
        found = np.zeros(len(asked.fingerprints), dtype=np.bool_)
        for run in (*self._runs, *self.spilled):
            found |= run.find(asked)
        return found

    def add(self, run: KeyRun | DigestRun) -> None:
        """Adds keys that are not here yet."""
        if not len(run):
            return
        self._runs.append(run)
        runs = self._runs
        while len(runs) > 1 and (len(runs) > _FEW_RUNS or len(runs[-2]) <= 2 * len(runs[-1])):
            self.merge(2)

    def merge(self, last: int | None = None) -> None:
        """Makes one run of the last ones in memory, or of all of them."""
        some = self._runs[-last:] if last is not None else self._runs
        if len(some) > 1:
            self._runs[-len(some) :] = [merged(some)]

    def digest(self, hashes: KeyHashes) -> None:
        """Keeps digests instead of keys."""
        for number, run in enumerate(self._runs):
            if isinstance(run, KeyRun):
                self._runs[number] = run.digested(hashes)

    def spill(self) -> None:
        """Moves the digests in memory to a file, together with files that are not much larger."""
        if not self._runs:
            return
        count = sum(len(run) for run in self._runs)
        streams = [run.blocks() for run in self._runs if isinstance(run, DigestRun)]
        keep = len(self.spilled)
        while keep and len(self.spilled[keep - 1]) <= 2 * count:
            keep -= 1
            count += len(self.spilled[keep])
            streams.append(self.spilled[keep].blocks())
        written = SpilledRun.of(streams)
        self.spilled[keep:] = [written]
        self._runs.clear()

    def drained(self) -> Iterator[KeyRun | DigestRun]:
        """Gives all keys away, run by run."""
        while self._runs:
            yield self._runs.pop()
        while self.spilled:
            yield from self.spilled.pop().blocks()


# A batch of keys, on its way into a seen-set or looked up in one.


@dataclass(frozen=True, slots=True)
class KeyBatch:
    """Keys as they came, with their fingerprints in order.

    Attributes:
        keys: The keys.
        fingerprints: Their fingerprints, in ascending order.
        order: Which key each fingerprint is of; of equal ones the first comes first.
        digested: Makes digests of keys, where those are compared; None where the keys themselves are.
    """

    keys: pa.BinaryArray
    fingerprints: Fingerprints
    order: Rows
    digested: KeyHashes | None

    @classmethod
    def of(cls, keys: pa.BinaryArray, hashes: KeyHashes, *, digested: bool) -> Self:
        """Sorts keys."""
        fingerprints = hashes.fingerprints(keys)
        order = np.argsort(fingerprints, kind="stable")
        return cls(keys, fingerprints[order], order, hashes if digested else None)

    def __len__(self) -> int:
        return len(self.order)

    def identities_at(self, rows: Rows) -> Any:  # noqa: ANN401 - Arrow's keys or numpy's digests
        """Keys or digests of some fingerprints."""
        keys = self.keys.take(int64s(self.order[rows]))
        return keys if self.digested is None else self.digested.digests(keys)

    def run(self, chosen: Mask) -> KeyRun | DigestRun:
        """Makes a run of some of them."""
        rows = np.flatnonzero(chosen)
        kind = KeyRun if self.digested is None else DigestRun
        return kind(self.fingerprints[rows], self.identities_at(rows))

    def first_of_equals(self) -> Mask:
        """Which fingerprint is of a key that did not come before in this batch."""
        first = np.ones(len(self), dtype=np.bool_)
        repeats = self.fingerprints[1:] == self.fingerprints[:-1]
        if not repeats.any():
            return first
        twins = np.zeros(len(self), dtype=np.bool_)
        twins[1:] |= repeats
        twins[:-1] |= repeats
        rows = np.flatnonzero(twins)
        met: set[bytes] = set()
        for row, key in zip(rows.tolist(), self.keys.take(int64s(self.order[rows])).to_pylist(), strict=True):
            first[row] = key not in met
            met.add(key)
        return first

    def as_given(self, mask: Mask) -> Mask:
        """Turns what is known of each fingerprint into the order in which the keys came."""
        out = np.empty_like(mask)
        out[self.order] = mask
        return out
