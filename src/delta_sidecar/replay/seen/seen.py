"""The seen-set: the keys of the files that newer commits have.

It is exact, and it keeps to a limit of memory: keys are kept as digests that depend on a secret, and what is too much
for memory goes to temporary files. Few keys, as most tails have, are kept whole instead, in a plain set. Of more, whole
batches are looked up at once.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from msgspec import Struct

from delta_sidecar._arrow import binaries, from_numpy, to_numpy
from delta_sidecar.log.identity import canonical_paths, file_keys, key_paths
from delta_sidecar.replay.seen.runs import KeyHashes, Run, SpilledRun, merged

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from typing import Self

    from delta_sidecar.replay.seen.runs import Digests, Fingerprints, LookedUp, Mask, Rows

Tier = Literal["keys", "digests", "disk"]

MEMORY_LIMIT = 16 << 20
"""The memory that a seen-set may take by default."""

_FEW_RUNS = 6

_MANY_FILES = 1_000
"""For fewer files their keys are made sooner than the paths of a seen-set."""

_FEW_KEYS = 10_000
_KEY_BYTES = 150
"""Bytes that a key takes in a plain set, besides its own; those are in an array too."""


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
        # While the keys are few, these; None from then on.
        self._few: _FewKeys | None = _FewKeys()
        # Once it is frozen, all of them, and the paths in them as soon as they are asked for.
        self._frozen: pa.BinaryArray | None = None
        self._paths: pa.StringArray | None = None
        self._hashes = KeyHashes()
        self._seen = _Layer()
        self._later = _Layer()

    def __len__(self) -> int:
        return len(self._seen) if self._few is None else len(self._few.seen)

    @property
    def nbytes(self) -> int:
        """The memory it holds."""
        return self._seen.nbytes + self._later.nbytes if self._few is None else self._few.nbytes

    @property
    def tier(self) -> Tier:
        """The form that the keys are in: whole, as digests in memory, or as digests on disk."""
        if self._few is not None:
            return "keys"
        return "disk" if self._seen.spilled or self._later.spilled else "digests"

    def freeze(self) -> SeenSet:
        """Lays it out for lookups, from several threads too; nothing may be inserted any more."""
        self._seen.merge()
        self._frozen = None if self._few is None else self._few.array()
        return self

    @property
    def paths(self) -> pa.StringArray | None:
        """The canonical paths in the keys of a frozen set, while these are few; else None."""
        if self._frozen is not None and self._paths is None:
            self._paths = key_paths(self._frozen)
        return self._paths

    def contains(self, keys: pa.BinaryArray) -> Mask:
        """Key by key, whether it is in the set.

        Raises:
            TemporaryFileError: It is in a temporary file that cannot be read.
        """
        if not len(self) or not len(keys):
            return np.zeros(len(keys), dtype=np.bool_)
        if self._few is not None:
            whole = self._few.array() if self._frozen is None else self._frozen
            return to_numpy(pc.is_in(keys, value_set=whole))
        batch = KeyBatch.of(keys, self._hashes)
        return batch.in_first_order(self._seen.find(batch))

    def hides(self, add: Mapping[str, pa.Array]) -> Mask:
        """File by file, whether its key is in a frozen set.

        Args:
            add: The fields of `add` actions that are in keys, by name; others may be there.

        Raises:
            TemporaryFileError: It is in a temporary file that cannot be read.
        """
        rows = len(add["path"])
        paths = self.paths if len(self) and rows >= _MANY_FILES else None
        if paths is None:
            return self.contains(file_keys(add)) if len(self) else np.zeros(rows, dtype=np.bool_)
        # Most files have none of the paths, and need no key.
        hidden = to_numpy(pc.is_in(canonical_paths(add["path"]), value_set=paths)).copy()
        found = np.flatnonzero(hidden)
        if len(found):
            taken = from_numpy(found)
            parts = {name: add[name].take(taken) for name in ("path", "deletionVector") if name in add}
            hidden[found] = self.contains(file_keys(parts))
        return hidden

    def insert(self, keys: pa.BinaryArray) -> Mask:
        """Puts keys into the set.

        Returns:
            Key by key, whether it is new: it was not there, and did not come earlier in this very batch.

        Raises:
            TemporaryFileError: It does not fit into memory, and not into a temporary file.
        """
        few = self._room_for(keys)
        return self._insert(self._seen, keys) if few is None else few.insert(keys)

    def hold_back(self, keys: pa.BinaryArray) -> None:
        """Takes keys that are to come into the set later. Raises as `insert` does."""
        few = self._room_for(keys)
        if few is None:
            self._insert(self._later, keys)
        else:
            few.hold_back(keys)

    def release(self) -> None:
        """Puts the keys that were held back into the set. Raises as `insert` does."""
        if self._few is not None:
            self._few.release()
            return
        if not len(self._later):
            return
        if len(self._seen) < len(self._later):
            self._seen, self._later = self._later, self._seen
        for run in self._later.drained():
            self._seen.add(run.only(~self._seen.find(run)))
            self._keep_to_limit()

    def _room_for(self, keys: pa.BinaryArray) -> _FewKeys | None:
        """The few keys, where these can go to them; if they cannot, all become digests."""
        few, self._frozen, self._paths = self._few, None, None
        if few is None:
            return None
        if few.count + len(keys) <= _FEW_KEYS and few.nbytes + _weight(keys) <= self._limit // 3:
            return few
        self._few = None
        self._insert(self._seen, binaries(list(few.seen)))
        self._insert(self._later, binaries(list(few.later)))
        return None

    def _insert(self, layer: _Layer, keys: pa.BinaryArray) -> Mask:
        if not len(keys):
            return np.zeros(0, dtype=np.bool_)
        batch = KeyBatch.of(keys, self._hashes)
        fresh = batch.first_of_equals()
        fresh &= ~layer.find(batch)
        layer.add(batch.run(fresh))
        self._keep_to_limit()
        return batch.in_first_order(fresh)

    def _keep_to_limit(self) -> None:
        # Merging makes a copy.
        for layer in sorted((self._seen, self._later), key=lambda layer: layer.in_memory, reverse=True):
            if self._seen.in_memory + self._later.in_memory > self._limit // 2:
                layer.spill()


class _FewKeys:
    """Keys as they are, in plain sets."""

    def __init__(self) -> None:
        self.seen: set[bytes] = set()
        self.later: set[bytes] = set()
        self.nbytes = 0
        # As they came, some perhaps twice: sooner looked up by Arrow than an array that is made of a set.
        self._seen: list[pa.BinaryArray] = []
        self._later: list[pa.BinaryArray] = []

    @property
    def count(self) -> int:
        """Those held back included."""
        return len(self.seen) + len(self.later)

    def insert(self, keys: pa.BinaryArray) -> Mask:
        seen, new = self.seen, []
        for key in keys.to_pylist():
            new.append(key not in seen)
            seen.add(key)
        self._seen.append(keys)
        self.nbytes += _weight(keys)
        return np.array(new, dtype=np.bool_)

    def hold_back(self, keys: pa.BinaryArray) -> None:
        if len(keys):
            self.later.update(keys.to_pylist())
            self._later.append(keys)
            self.nbytes += _weight(keys)

    def release(self) -> None:
        self.seen |= self.later
        self._seen += self._later
        self.later.clear()
        self._later.clear()

    def array(self) -> pa.BinaryArray:
        """Those that are seen."""
        self._seen = [pa.concat_arrays(self._seen) if self._seen else pa.nulls(0, pa.binary())]
        return self._seen[0]


def _weight(keys: pa.BinaryArray) -> int:
    return 2 * int(keys.nbytes) + _KEY_BYTES * len(keys)


class _Layer:
    """Keys in runs that get smaller from one to the next: first those in files, then those in memory."""

    def __init__(self) -> None:
        self.spilled: list[SpilledRun] = []
        self.in_memory = 0
        self._count = 0
        self._runs: list[Run] = []

    def __len__(self) -> int:
        return self._count

    @property
    def nbytes(self) -> int:
        return self.in_memory + sum(run.nbytes for run in self.spilled)

    def find(self, keys: LookedUp) -> Mask:
        found = np.zeros(len(keys.fingerprints), dtype=np.bool_)
        runs: list[Run | SpilledRun] = [*self._runs, *self.spilled]
        for run in runs:
            found |= run.find(keys)
        return found

    def add(self, run: Run) -> None:
        """Adds keys that are not here yet."""
        if not len(run):
            return
        runs = self._runs
        runs.append(run)
        self._count += len(run)
        self.in_memory += run.nbytes
        while len(runs) > 1 and (len(runs) > _FEW_RUNS or len(runs[-2]) <= 2 * len(runs[-1])):
            self.merge(2)

    def merge(self, last: int | None = None) -> None:
        """Makes one run of the last ones in memory, or of all of them."""
        some = self._runs[-last:] if last is not None else self._runs
        if len(some) > 1:
            self._runs[-len(some) :] = [merged(some)]

    def spill(self) -> None:
        """Moves the runs in memory to a file, together with files that are not much larger."""
        if not self._runs:
            return
        count = sum(map(len, self._runs))
        streams = [run.blocks() for run in self._runs]
        keep = len(self.spilled)
        while keep and len(self.spilled[keep - 1]) <= 2 * count:
            keep -= 1
            count += len(self.spilled[keep])
            streams.append(self.spilled[keep].blocks())
        self.spilled[keep:] = [SpilledRun.of(streams)]
        self._runs.clear()
        self.in_memory = 0

    def drained(self) -> Iterator[Run]:
        """Gives all keys away, run by run."""
        while self._runs:
            run = self._runs.pop()
            self._count -= len(run)
            self.in_memory -= run.nbytes
            yield run
        while self.spilled:
            spilled = self.spilled.pop()
            self._count -= len(spilled)
            yield from spilled.blocks()


class KeyBatch(Struct, frozen=True):
    """A batch of keys, on its way into a seen-set or looked up in one."""

    keys: pa.BinaryArray  # the keys
    fingerprints: Fingerprints  # their fingerprints, in ascending order
    order: Rows  # which key each fingerprint is of; of equal ones the first comes first
    hashes: KeyHashes  # makes digests of keys

    @classmethod
    def of(cls, keys: pa.BinaryArray, hashes: KeyHashes) -> Self:
        """Sorts keys by their fingerprints."""
        fingerprints = hashes.fingerprints(keys)
        order = np.argsort(fingerprints, kind="stable")
        return cls(keys, fingerprints[order], order, hashes)

    def digests_at(self, rows: Rows) -> Digests:
        """The digests of some fingerprints' keys."""
        return self.hashes.digests(self.keys.take(from_numpy(self.order[rows])))

    def between(self, start: int, end: int) -> KeyBatch:
        """A stretch of them."""
        return KeyBatch(self.keys, self.fingerprints[start:end], self.order[start:end], self.hashes)

    def run(self, chosen: Mask) -> Run:
        """Makes a run of some of them."""
        rows = np.flatnonzero(chosen)
        return Run(self.fingerprints[rows], self.digests_at(rows))

    def first_of_equals(self) -> Mask:
        """Whether each fingerprint is of a key that did not come before in this batch."""
        first = np.ones(len(self.order), dtype=np.bool_)
        repeats = self.fingerprints[1:] == self.fingerprints[:-1]
        if not repeats.any():
            return first
        twins = np.zeros(len(self.order), dtype=np.bool_)
        twins[1:] |= repeats
        twins[:-1] |= repeats
        rows = np.flatnonzero(twins)
        met: set[bytes] = set()
        for row, key in zip(rows.tolist(), self.keys.take(from_numpy(self.order[rows])).to_pylist(), strict=True):
            first[row] = key not in met
            met.add(key)
        return first

    def in_first_order(self, mask: Mask) -> Mask:
        """Turns a mask of the fingerprints into one of the keys as they came."""
        out = np.empty_like(mask)
        out[self.order] = mask
        return out
