"""The rows of a metadata sidecar: which of its files are live and may match."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from msgspec import Struct, field

from delta_sidecar._arrow import from_numpy, to_numpy
from delta_sidecar.log.identity import canonical_paths, file_keys
from delta_sidecar.replay.request import ReplayProgress
from delta_sidecar.sidecar.rows import other_fields, partition_values, row_keys, statistics_in

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from delta_sidecar.replay.files import FileColumns, Pruning
    from delta_sidecar.replay.seen.seen import SeenSet
    from delta_sidecar.sidecar.order import NewestRows
    from delta_sidecar.sidecar.schema import SidecarSchema


_MANY = 5_000
"""For fewer files their keys are made sooner than the paths of a seen-set."""


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
            batch = _chosen(batch, self._live(row_keys(batch)))
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

    def _live(self, add: Mapping[str, pa.Array]) -> NDArray[np.bool_]:
        paths = self.seen.paths if len(add["path"]) >= _MANY else None
        if paths is None:
            return ~self.seen.contains(file_keys(add))
        # Most files have none of the paths, and need no key.
        live = np.ones(len(add["path"]), dtype=np.bool_)
        rows = np.flatnonzero(to_numpy(pc.is_in(canonical_paths(add["path"]), value_set=paths)))
        if len(rows):
            taken = from_numpy(rows)
            live[rows] = ~self.seen.contains(file_keys({name: column.take(taken) for name, column in add.items()}))
        return live


def _chosen(batch: pa.RecordBatch, rows: NDArray[np.bool_]) -> pa.RecordBatch:
    return batch if rows.all() else batch.filter(from_numpy(rows))
