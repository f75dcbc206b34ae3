"""Row groups of a metadata sidecar in the order of the newest file that each may hold.

Buckets go downward, files of one bucket by path. A row group within one bucket has no file before its first path; of
one over several buckets it is only known that a file of its highest bucket may come first.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Generic, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from delta_sidecar._arrow import bits_of, int64s, strings, valid_mask
from delta_sidecar.sidecar.schema import arrow_type

if TYPE_CHECKING:
    from collections.abc import Sequence

    from delta_sidecar.replay.recent import NewestFiles, Recent
    from delta_sidecar.sidecar.groups import RowGroup, Segment
    from delta_sidecar.sidecar.manifest import Manifest

G = TypeVar("G", "RowGroup", "Segment")


@dataclass(frozen=True, slots=True)
class NewestGroups(Generic[G]):
    """Row groups, or segments, the most promising first.

    Attributes:
        recent: The order that files are wanted in.
        groups: The row groups.
        buckets: The highest bucket of each, typed; None where nothing is known of buckets.
        paths: A path that no file of that bucket comes before, for each.
    """

    recent: Recent
    groups: tuple[G, ...] = field(repr=False)
    buckets: pa.Array | None = field(repr=False)
    paths: tuple[str, ...] = field(repr=False)

    @classmethod
    def of(cls, groups: Sequence[G], manifest: Manifest, recent: Recent) -> NewestGroups[G]:
        """Puts row groups in order, without those whose files all come up to `recent.after`."""
        first = manifest.sort[0] if manifest.sort else None
        is_known = first is not None and first.kind == "bucket" and first.column == (recent.physical,)
        if first is None or not is_known or arrow_type(first.type) != recent.kind:
            return cls(recent, tuple(groups), None, ("",) * len(groups))
        highest = recent.typed(group.event_hour_max for group in groups)
        lowest = recent.typed(group.event_hour_min for group in groups)
        paths = [_first_path(group) for group in groups]
        keys = pa.Table.from_arrays([highest, strings(paths)], names=["bucket", "path"])
        # Arrow puts nulls last, whatever the direction.
        order = pc.sort_indices(keys, sort_keys=[("bucket", "descending"), ("path", "ascending")])
        left = np.ones(len(groups), dtype=np.bool_)
        if recent.after is not None:
            left = ~_is_before(groups, lowest, recent.typed([recent.after.bucket])[0])
        places = [at for at in order.to_pylist() if left[at]]
        taken = highest.take(int64s(np.array(places, dtype=np.int64)))
        return cls(recent, tuple(groups[at] for at in places), taken, tuple(paths[at] for at in places))

    def rest(self, count: int = 1) -> NewestGroups[G]:
        """Those after the first ones."""
        buckets = None if self.buckets is None else self.buckets.slice(count)
        return NewestGroups(self.recent, self.groups[count:], buckets, self.paths[count:])

    def may_improve(self, newest: NewestFiles) -> bool:
        """Whether the first one, and so any, may hold a file that comes before the last one that is kept."""
        if not self.groups:
            return False
        last = newest.last()
        if last is None or self.buckets is None:
            return True
        best, worst = self.buckets[0], self.recent.typed([last.bucket])[0]
        if not best.is_valid or not worst.is_valid:
            return best.is_valid or (not worst.is_valid and self.paths[0] <= last.raw_path)
        if pc.equal(best, worst).as_py():
            return self.paths[0] <= last.raw_path
        return bool(pc.greater(best, worst).as_py())


def _first_path(group: RowGroup | Segment) -> str:
    """A path that no file of the highest bucket comes before."""
    is_one_bucket = group.event_hour_min == group.event_hour_max and not group.odd_buckets
    is_all_null = group.event_hour_max is None or not group.null_buckets
    in_order = group.first_key[0] == group.last_key[0]
    return str(group.first_key[-2]) if is_one_bucket and is_all_null and in_order else ""


def _is_before(
    groups: Sequence[RowGroup | Segment], lowest: pa.Array, bucket: pa.Scalar
) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
    """Which row groups hold nothing but files of higher buckets."""
    whole = np.array([not group.null_buckets and not group.odd_buckets for group in groups], dtype=np.bool_)
    if not bucket.is_valid:
        return whole & valid_mask(lowest)
    return whole & valid_mask(lowest) & bits_of(pc.greater(lowest, bucket))
