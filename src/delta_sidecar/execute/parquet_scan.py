"""Runs `ScanParquet`: row groups side by side, their batches in order."""

from __future__ import annotations

import os
from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa

from delta_sidecar.errors import StorageError
from delta_sidecar.execute.lanes import in_lanes
from delta_sidecar.execute.parquet_file import Footer, ParquetRows, read_footer
from delta_sidecar.execute.row_selection import selected_batches
from delta_sidecar.execute.work import Asked, Work, unreadable

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from delta_sidecar.plan import Batches, FileRef, ScanParquet

    Functions = tuple[Callable[[pa.RecordBatch], pa.RecordBatch | None], ...]

_DECODED_BYTES = 16 << 20
_MOST_DECODERS = 4


class ParquetScan:
    """Reads Parquet files; the footers that were checked are kept for the plan that reads the rows."""

    def __init__(self, work: Work, row_groups_ahead: int) -> None:
        self._work = work
        self._row_groups_ahead = row_groups_ahead
        self._footers: dict[str, Footer] = {}

    def run(self, plan: ScanParquet, functions: Functions = ()) -> Batches:
        """Reads files.

        Args:
            plan: What of them.
            functions: Filters without state, applied where the batches are made.

        Raises:
            UnreadableFileError: One cannot be fetched, or is not what it should be.
        """
        if plan.check:
            self._footers |= {ref.path: footer for ref, footer in self._read_footers(plan.files)}
        if plan.columns:
            yield from in_lanes(
                min(_MOST_DECODERS, os.cpu_count() or 1),
                self._work.clock,
                self._tasks(plan, functions),
                ahead=self._row_groups_ahead,
                budget=_DECODED_BYTES,
                weigh=pa.RecordBatch.get_total_buffer_size,
            )

    def close(self) -> None:
        """Forgets the footers."""
        self._footers.clear()

    def _tasks(self, plan: ScanParquet, functions: Functions) -> Iterator[Callable[[], Iterator[pa.RecordBatch]]]:
        is_first = True
        for ref, footer in self._read_footers(plan.files):
            rows = ParquetRows(self._work.store, ref.path, footer, self._work.pool)
            groups = rows.row_groups(plan.non_null)
            if not plan.check:
                self._work.counts.add(skipped=footer.metadata.num_row_groups - len(groups))
            for group in groups:
                yield _RowGroupTask(self._work, ref, rows, group, plan, functions, is_first)
                is_first = False

    def _read_footers(self, files: Sequence[FileRef]) -> Iterator[tuple[FileRef, Footer]]:
        """Footers in order, those of the next files already asked for."""
        waiting: deque[tuple[FileRef, Footer | Asked[Footer]]] = deque()
        remaining = iter(files)
        while True:
            while len(waiting) < self._work.file_parallelism and (ref := next(remaining, None)) is not None:
                waiting.append((ref, self._footers.get(ref.path) or self._ask(ref)))
            if not waiting:
                return
            ref, found = waiting.popleft()
            try:
                footer = found if isinstance(found, Footer) else self._work.take(found)
            except (pa.ArrowException, StorageError, OSError) as error:
                raise unreadable(ref, error) from error
            yield ref, footer

    def _ask(self, ref: FileRef) -> Asked[Footer]:
        store = self._work.store

        def read() -> Footer:
            size = store.head(ref.path).size if ref.size is None else ref.size
            return read_footer(store, ref.path, size, self._work.pool)

        return self._work.submit(read)


@dataclass(frozen=True, slots=True)
class _RowGroupTask:
    """Reads one row group and applies the filters that have no state, all in one thread."""

    work: Work
    ref: FileRef
    rows: ParquetRows
    group: int
    plan: ScanParquet
    functions: Functions
    is_first: bool

    def __call__(self) -> Iterator[pa.RecordBatch]:
        found = False
        try:
            for batch in selected_batches(self.rows, self.group, self.plan, is_first=self.is_first):
                found = True
                self.work.counts.add(batches=1)
                kept: pa.RecordBatch | None = batch
                for function in self.functions:
                    kept = function(kept) if kept is not None and kept.num_rows else None
                if kept is not None and kept.num_rows:
                    yield kept
        except (pa.ArrowException, StorageError, OSError) as error:
            raise unreadable(self.ref, error) from error
        if not self.plan.check:
            self.work.counts.add(read=found, skipped=not found)
