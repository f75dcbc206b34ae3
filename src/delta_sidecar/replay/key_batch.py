"""A batch of keys, on its way into a seen-set or looked up in one."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from delta_sidecar._arrow import int64s
from delta_sidecar.replay.sorted_runs import DigestRun, KeyRun

if TYPE_CHECKING:
    from typing import Self

    import pyarrow as pa

    from delta_sidecar.replay.key_hashes import Fingerprints, KeyHashes
    from delta_sidecar.replay.sorted_runs import Mask, Rows


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
