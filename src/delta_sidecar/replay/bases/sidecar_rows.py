"""The rows of a metadata sidecar: which of its files are live and may match."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa
from msgspec import Struct, field

from delta_sidecar._arrow import from_numpy
from delta_sidecar.replay.request import ReplayProgress
from delta_sidecar.sidecar.rows import other_fields, partition_values, row_keys, statistics_in

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from delta_sidecar.replay.files import FileColumns, Pruning
    from delta_sidecar.replay.seen.seen import SeenSet
    from delta_sidecar.sidecar.order import NewestRows
    from delta_sidecar.sidecar.schema import SidecarSchema


class SidecarRows(Struct, frozen=True):
    """Keeps the files of a metadata sidecar that may match and that a frozen seen-set does not hide."""

    seen: SeenSet  # keys that newer commits have
    columns: FileColumns  # makes the batches that are emitted
    pruning: Pruning | None  # tests which files may match; None: all may
    schema: SidecarSchema  # the sidecar's columns
    stats_format: str  # the layout of its statistics as text
    newest: NewestRows | None = None  # the order in which files are emitted; None for the sidecar's own
    most: int | None = None  # no more files of a row group are emitted; None for all
    progress: ReplayProgress = field(default_factory=ReplayProgress)  # counts what is met

    def __call__(self, batch: pa.RecordBatch) -> pa.RecordBatch | None:
        """Takes a row group; gives its live files that may match."""
        met = batch.num_rows
        if batch.column("path").null_count:
            msg = "it has a file without a path"
            raise pa.ArrowInvalid(msg)
        if self.pruning is not None:
            kinds = self.pruning.statistics
            known = statistics_in(batch, self.schema, kinds) if kinds else None
            keep = self.pruning.by_values(partition_values(batch, self.schema), met, known)
            batch = _chosen(batch, keep)
        pruned = met - batch.num_rows
        if batch.num_rows and len(self.seen):
            batch = _chosen(batch, ~self.seen.hides(row_keys(batch)))
        hidden = met - pruned - batch.num_rows
        self.progress.add(base_adds=met, base_pruned_early=pruned, base_hidden=hidden)
        if not batch.num_rows:
            return None
        # Everything else takes longer: it is done for those files only that are wanted.
        if self.newest is not None:
            batch = self.newest.first(batch, self.most)
        elif self.most is not None:
            batch = batch.slice(0, min(self.most, batch.num_rows))
        stats_format = self.stats_format if "stats" in self.columns.columns else None
        add = row_keys(batch) | other_fields(batch, self.schema, stats_format)
        return self.columns.batch(add, batch.num_rows)


def _chosen(batch: pa.RecordBatch, rows: NDArray[np.bool_]) -> pa.RecordBatch:
    return batch if rows.all() else batch.filter(from_numpy(rows))
