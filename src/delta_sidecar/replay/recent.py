"""The order of files by time bucket, newest first.

    bucket downward (nulls last), then path, then deletion vector

It depends on nothing but the files themselves, so that two scans of one version agree on it. A base that is not kept in
this order is gone through for the newest files, as many as are wanted; for those after them it is gone through again.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from delta_sidecar._arrow import bits_of, booleans, scalar, strings, valid_mask
from delta_sidecar.log.partition_values import lookup
from delta_sidecar.replay.files import partition_texts
from delta_sidecar.replay.sort_values import typed, vector_ids

if TYPE_CHECKING:
    from collections.abc import Iterable

    from numpy.typing import NDArray

MOST_FILES = 65_536
MOST_BYTES = 32 << 20


@dataclass(frozen=True, slots=True)
class FileKey:
    """Where a file stands in the order.

    Attributes:
        bucket: Its bucket, as the log writes it.
        raw_path: Its path, as the log writes it.
        deletion_vector: What tells its deletion vector from others; empty without one.
    """

    bucket: str | None
    raw_path: str
    deletion_vector: str


@dataclass(frozen=True, slots=True)
class Recent:
    """What is wanted of a base in this order.

    Attributes:
        column: Logical name of the partition column that holds the bucket.
        physical: Its physical name.
        kind: Its type.
        wanted: How many files, at most; None for all.
        after: Only files after this one.
    """

    column: str
    physical: str
    kind: pa.DataType
    wanted: int | None = None
    after: FileKey | None = None

    def buckets(self, batch: pa.RecordBatch) -> pa.Array:
        """The buckets of files, for comparing."""
        return typed(lookup(batch.column("partition_values"), self.column).texts, self.kind)

    def typed(self, buckets: Iterable[str | None]) -> pa.Array:
        """Buckets as the log writes them, for comparing."""
        return typed(strings(buckets), self.kind)

    def is_after(self, batch: pa.RecordBatch, after: FileKey) -> NDArray[np.bool_]:
        """Which files come after one."""
        buckets, bucket = self.buckets(batch), self.typed([after.bucket])[0]
        paths, path = batch.column("raw_path"), scalar(after.raw_path, pa.string())
        vectors, vector = vector_ids(batch.column("deletion_vector")), scalar(after.deletion_vector, pa.string())
        later = bits_of(pc.greater(paths, path))
        later |= bits_of(pc.equal(paths, path)) & bits_of(pc.greater(vectors, vector))
        is_null = ~valid_mask(buckets)
        if not bucket.is_valid:
            return is_null & later
        return bits_of(pc.less(buckets, bucket)) | is_null | (bits_of(pc.equal(buckets, bucket)) & later)

    def key(self, batch: pa.RecordBatch, row: int) -> FileKey:
        """Where a file of a batch stands."""
        bucket = lookup(batch.column("partition_values").slice(row, 1), self.column).texts[0].as_py()
        vector = vector_ids(batch.column("deletion_vector").slice(row, 1))[0].as_py()
        return FileKey(bucket, batch.column("raw_path")[row].as_py(), vector)


@dataclass(slots=True)
class NewestFiles:
    """Keeps the first files of the order, of all that it is shown.

    Attributes:
        recent: The order.
        most: How many are kept at most.
        is_cut: Whether there are files after those that are kept.
    """

    recent: Recent
    most: int = MOST_FILES
    is_cut: bool = False
    _room: int = field(default=0)
    _kept: list[pa.RecordBatch] = field(default_factory=list)
    _rows: int = 0
    _bytes: int = 0
    _lowest: pa.Scalar | None = None

    def __post_init__(self) -> None:
        wanted = self.recent.wanted
        self._room = self.most if wanted is None else max(1, min(wanted, self.most))

    def may_be_kept(self, add: dict[str, pa.Array], rows: int) -> NDArray[np.bool_]:
        """Which `add` actions are worth decoding, by their partition values alone. From any thread."""
        lowest, after = self._lowest, self.recent.after
        keep = np.ones(rows, dtype=np.bool_)
        if lowest is None and (after is None or after.bucket is None):
            return keep
        texts = partition_texts(add, self.recent.physical, rows)
        buckets = typed(texts.texts, self.recent.kind)
        if lowest is not None:
            keep &= bits_of(pc.greater_equal(buckets, lowest))
        if after is not None and after.bucket is not None:
            keep &= bits_of(pc.less_equal(buckets, self.recent.typed([after.bucket])[0])) | ~valid_mask(buckets)
        return keep | ~texts.told

    def add(self, batch: pa.RecordBatch) -> None:
        """Takes files."""
        if self.recent.after is not None:
            batch = batch.filter(booleans(self.recent.is_after(batch, self.recent.after)))
        if not batch.num_rows:
            return
        self._kept.append(batch)
        self._rows += batch.num_rows
        self._bytes += batch.get_total_buffer_size()
        if self._rows > 2 * self._room or self._bytes > MOST_BYTES:
            self._cut()

    def take(self) -> pa.RecordBatch | None:
        """The files that are kept, in order; None where there are none."""
        self._cut()
        return self._kept[0] if self._kept else None

    def last(self) -> FileKey | None:
        """The last of the files that are kept, which others must come before to be kept; None while there is room."""
        if self._rows < self._room:
            return None
        self._cut()
        return self.recent.key(self._kept[0], self._rows - 1)

    @property
    def room(self) -> int:
        """How many files are kept at most."""
        return self._room

    def _cut(self) -> None:
        if not self._kept:
            return
        files = pa.Table.from_batches(self._kept).combine_chunks().to_batches()[0]
        buckets = self.recent.buckets(files)
        keys = pa.Table.from_arrays(
            [buckets, files.column("raw_path"), vector_ids(files.column("deletion_vector"))],
            names=["bucket", "path", "vector"],
        )
        # Arrow puts nulls last, whatever the direction.
        order = pc.sort_indices(
            keys, sort_keys=[("bucket", "descending"), ("path", "ascending"), ("vector", "ascending")]
        )
        if files.get_total_buffer_size() > MOST_BYTES:
            self._room = max(1, min(self._room, len(order) // 2))
        self.is_cut |= len(order) > self._room
        order = order.slice(0, self._room)
        # Taking copies, so that nothing keeps the batches alive that the files came in.
        self._kept = [files.take(order)]
        self._rows, self._bytes = len(order), self._kept[0].get_total_buffer_size()
        last = buckets[order[-1].as_py()]
        self._lowest = last if self.is_cut and last.is_valid else None
