"""From live files to the pieces of a data file: read, sorted, cut and encoded, all as one stream."""

from __future__ import annotations

import shutil
from contextlib import closing
from dataclasses import dataclass
from typing import TYPE_CHECKING

from delta_sidecar.build.packed_rows import PackedRows, WaitingTexts
from delta_sidecar.build.reading import live_rows, partition_columns
from delta_sidecar.build.row_groups import cut
from delta_sidecar.build.rows import RowMaker
from delta_sidecar.build.sorting import SortMemoryError, SortSettings, sort_threads, sorted_rows
from delta_sidecar.build.summary import BuildProgress
from delta_sidecar.build.writing import write_pieces

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from delta_sidecar.build.layout import PlannedLayout
    from delta_sidecar.build.sampling import Sample
    from delta_sidecar.build.settings import BuildOptions
    from delta_sidecar.build.summary import ProgressListener
    from delta_sidecar.build.writing import Pieces
    from delta_sidecar.events import Events
    from delta_sidecar.plan import Batches
    from delta_sidecar.plan.machine import Executor
    from delta_sidecar.replay.snapshot import Snapshot

_MANY_CELLS = 8 << 20


@dataclass(frozen=True, slots=True)
class Assembly:
    """What it takes to make the pieces of a table's sidecar.

    Attributes:
        snapshot: The table.
        layout: The layout of the sidecar.
        options: How it is built.
        executor: Reads the log.
        total: How many live files there are; None where that is not known.
        progress: Is told how far it is.
        events: Is told what happens.
        abandon: Is called at once after an interrupt.
    """

    snapshot: Snapshot
    layout: PlannedLayout
    options: BuildOptions
    executor: Executor
    total: int | None
    progress: ProgressListener
    events: Events
    abandon: Callable[[], None]

    def pieces(self, sample: Sample, folder: Path) -> Pieces:
        """Makes the pieces, in a file in a folder.

        Rows that prove too large to be sorted are read again, and sorted without their statistics.
        """
        options = self.options
        maker = RowMaker(self.layout, self.snapshot.columns.instants(), sample.stats_format)
        threads = sort_threads(sample.row_bytes, len(maker.schema), options.memory, options.threads)
        if threads:
            try:
                return self._write(maker, _subfolder(folder, "whole"), threads)
            except SortMemoryError:
                shutil.rmtree(folder / "whole", ignore_errors=True)
        inside = _subfolder(folder, "packed")
        with WaitingTexts(inside / "texts") as texts:
            return self._write(PackedRows(maker, partition_columns(self.snapshot), texts), inside, 1)

    def _write(self, maker: RowMaker | PackedRows, folder: Path, threads: int) -> Pieces:
        options, layout = self.options, self.layout
        rows_per_group = options.group_rows(layout)
        columns = len(layout.schema.index) + len(layout.schema.statistics_schema)
        settings = SortSettings(options.memory, str(_subfolder(folder, "sort")), threads, rows_per_group)
        counted = _Counted(self.progress, self.total)
        live = counted(live_rows(self.snapshot, maker, self.executor, self.events, options.threads))
        keys = ["#complete", *(f"#{number}" for number in range(len(layout.order.sort))), "path", "#vector"]
        with sorted_rows(maker.schema, live, keys, settings, self.abandon) as found:
            return write_pieces(
                cut(found, rows_per_group),
                maker,
                layout,
                folder,
                threads=1 if rows_per_group * columns > _MANY_CELLS else options.threads,
                written=lambda done: self.progress(BuildProgress("writing", done, counted.files)),
            )


class _Counted:
    """Counts files on their way into the sort."""

    def __init__(self, progress: ProgressListener, total: int | None) -> None:
        self.files = 0
        self._progress = progress
        self._total = total

    def __call__(self, batches: Batches) -> Batches:
        self._progress(BuildProgress("reading", 0, self._total))
        with closing(batches):
            for batch in batches:
                self.files += batch.num_rows
                self._progress(BuildProgress("reading", self.files, self._total))
                yield batch
        self._progress(BuildProgress("sorting", self.files, self.files))


def _subfolder(folder: Path, name: str) -> Path:
    inside = folder / name
    inside.mkdir()
    return inside
