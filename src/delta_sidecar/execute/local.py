"""Runs plans in this process: a few threads, bounded look-ahead, Arrow batches."""

from __future__ import annotations

import os
from collections import deque
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from delta_sidecar._arrow import binaries, int64s, strings
from delta_sidecar.errors import ObjectNotFoundError, ObjectTruncatedError, StorageError, UnreadableFileError
from delta_sidecar.execute.fetcher import FIRST_BYTES, Fetcher, Pending
from delta_sidecar.execute.json_lines import BLOCK_BYTES, line_blocks, parse_lines
from delta_sidecar.execute.lanes import in_lanes
from delta_sidecar.execute.parquet_file import Footer, ParquetRows, read_footer
from delta_sidecar.execute.row_selection import selected_batches
from delta_sidecar.plan import (
    Batches,
    FileRef,
    Filter,
    FilterOrdered,
    ListFiles,
    Plan,
    ReadFiles,
    ScanJson,
    ScanParquet,
)
from delta_sidecar.store import Store, TripClock, run_in

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from concurrent.futures import Future

    from numpy.typing import NDArray

    from delta_sidecar.store import Page

_AHEAD_BYTES = 32 << 20
_DECODED_BYTES = 16 << 20
_MOST_AHEAD = 256
_MOST_DECODERS = 4
_TIDY_BYTES = 4 << 20


@dataclass(slots=True)
class ExecutionCounts:
    """What running plans came to, beyond the requests.

    Attributes:
        files_read: Files of JSON lines that were fetched.
        row_groups_read: Row groups of which rows were decoded.
        row_groups_skipped: Row groups passed over: by their statistics, or since none of their rows passed a test.
        batches_decoded: Batches that came out of files.
    """

    files_read: int = 0
    row_groups_read: int = 0
    row_groups_skipped: int = 0
    batches_decoded: int = 0


class LocalExecutor:
    """Runs plans against a store with threads of this process.

    Threads start with the first plan and end with `close`. Every iterator that `execute` gives reads only as far
    ahead as said here, and stops reading when it is closed or dropped.
    """

    def __init__(self, store: Store, *, file_parallelism: int = 10, row_groups_ahead: int = 10) -> None:
        """Makes an executor; nothing is read yet.

        Args:
            store: The table's store, bound to the account of one scan.
            file_parallelism: How many small files are fetched at once.
            row_groups_ahead: How many row groups may be under way at once.
        """
        self.counts = ExecutionCounts()
        self._store = store
        self._clock = TripClock()
        self._file_parallelism = file_parallelism
        self._row_groups_ahead = row_groups_ahead
        # Besides the commits, a listing and a checksum file are asked for at the same time.
        self._requests = ThreadPoolExecutor(file_parallelism + 2, thread_name_prefix="delta-sidecar-io")
        self._fetcher = Fetcher(store, self._requests, self._clock)
        self._footers: dict[str, Footer] = {}

    def execute(self, plan: Plan) -> Batches:
        """Runs a plan; batches come in the plan's order."""
        return self._run(plan)

    def execute_parallel(self, plan: Plan) -> Batches:
        """Runs a plan whose filters have no state: they run where the batches are made."""
        functions: deque[Callable[[pa.RecordBatch], pa.RecordBatch | None]] = deque()
        source = plan
        while isinstance(source, Filter):
            functions.appendleft(source.function)
            source = source.source
        if not isinstance(source, ScanParquet):
            return self._run(plan)
        return self._scan_parquet(source, tuple(functions))

    def close(self) -> None:
        """Ends the threads. What is still under way is not waited for."""
        self._fetcher.drop_ahead()
        self._footers.clear()
        self._requests.shutdown(wait=False, cancel_futures=True)

    def _run(self, plan: Plan) -> Batches:
        if isinstance(plan, Filter | FilterOrdered):
            return self._filtered(plan)
        if isinstance(plan, ScanJson):
            return self._scan_json(plan)
        if isinstance(plan, ScanParquet):
            return self._scan_parquet(plan, ())
        if isinstance(plan, ReadFiles):
            return self._read_files(plan)
        return self._list_files(plan)

    def _filtered(self, plan: Filter | FilterOrdered) -> Batches:
        with closing(self._run(plan.source)) as batches:
            for batch in batches:
                kept = plan.function(batch)
                if kept is not None and kept.num_rows:
                    yield kept

    def _list_files(self, plan: ListFiles) -> Batches:
        pages = self._store.list(plan.prefix, after=plan.after)

        # In a thread of the pool, for an interrupt cannot reach a thread that waits for a store.
        def ask() -> tuple[TripClock, Future[Page | None]]:
            clock = self._clock.fork()
            return clock, self._requests.submit(run_in, clock, lambda: next(pages, None))

        clock, asked = ask()
        for path in plan.ahead:
            self._fetcher.ahead(path)
        while (page := asked.result()) is not None:
            self._clock.join(clock)
            sizes = int64s(_integers([found.size for found in page]))
            yield _batch(path=strings(found.path for found in page), size=sizes)
            clock, asked = ask()

    def _read_files(self, plan: ReadFiles) -> Batches:
        started = [self._fetcher.start(path) for path in plan.paths]
        for ref in _within(plan.ahead, _AHEAD_BYTES):
            self._fetcher.ahead(ref.path)
        for pending in started:
            try:
                fetched = self._fetcher.take(pending, keep=True)
            except ObjectNotFoundError:
                continue
            data = bytes(fetched.data) if fetched.size <= min(plan.max_bytes, len(fetched.data)) else None
            yield _batch(path=strings([pending.path]), size=int64s(_integers([fetched.size])), data=binaries([data]))

    def _scan_json(self, plan: ScanJson) -> Batches:
        most = _MOST_AHEAD if plan.all_needed else self._file_parallelism
        for ref, pending in self._started(plan.files, most):
            self.counts.files_read += not pending.was_kept
            is_empty = True
            try:
                for block in line_blocks(self._chunks(ref, pending, keep=plan.keep)):
                    lines = any(text in block for text in plan.lines_with)
                    batch = parse_lines(block, plan.schema, ref.label, lines=lines)
                    if batch is not None:
                        is_empty = False
                        self.counts.batches_decoded += 1
                        yield batch
                    if len(block) >= _TIDY_BYTES:
                        # Arrow's allocator keeps what a thread frees; over a long commit that adds up.
                        pa.default_memory_pool().release_unused()
                if is_empty:
                    msg = "there is no JSON object in it"
                    raise pa.ArrowInvalid(msg)
            except (pa.ArrowException, StorageError) as error:
                raise _unreadable(ref, error) from error

    def _started(self, files: Sequence[FileRef], most: int) -> Iterator[tuple[FileRef, Pending]]:
        """Files in order, the next ones already asked for, as far as their sizes allow.

        What was asked for and not taken stays for a later plan.
        """
        waiting: deque[tuple[FileRef, Pending]] = deque()
        held = 0
        position = 0
        try:
            while position < len(files) or waiting:
                while position < len(files) and len(waiting) < most:
                    size = min(files[position].size or FIRST_BYTES, FIRST_BYTES)
                    if waiting and held + size > _AHEAD_BYTES:
                        break
                    waiting.append((files[position], self._fetcher.start(files[position].path)))
                    held += size
                    position += 1
                ref, pending = waiting.popleft()
                held -= min(ref.size or FIRST_BYTES, FIRST_BYTES)
                yield ref, pending
        finally:
            for _, pending in waiting:
                self._fetcher.put_back(pending)

    def _chunks(self, ref: FileRef, pending: Pending, *, keep: bool) -> Iterator[bytes | memoryview]:
        more = self._fetcher.kept_after_first(ref.path)
        first = self._fetcher.take(pending, keep=keep)
        if ref.size is not None and first.size != ref.size:
            msg = f"the listing says {ref.size} bytes, the file has {first.size}"
            raise ObjectTruncatedError(msg)
        start, size = len(first.data), first.size
        yield first.data
        del first, pending
        for piece in more:
            yield piece
            start += len(piece)
        ahead: tuple[TripClock, Any] | None = None
        while start < size:
            clock, future = ahead or self._range(ref.path, start, size)
            here, start = start, min(start + BLOCK_BYTES, size)
            ahead = self._range(ref.path, start, size) if start < size else None
            data = future.result()
            self._clock.join(clock)
            if keep:
                self._fetcher.keep_more(ref.path, here, data)
            yield data

    def _range(self, path: str, start: int, size: int) -> tuple[TripClock, Any]:
        clock = self._clock.fork()
        end = min(start + BLOCK_BYTES, size)
        return clock, self._requests.submit(run_in, clock, lambda: self._store.get_range(path, start, end))

    def _scan_parquet(
        self, plan: ScanParquet, functions: tuple[Callable[[pa.RecordBatch], pa.RecordBatch | None], ...]
    ) -> Batches:
        if plan.check:
            self._footers |= {ref.path: footer for ref, footer in self._read_footers(plan.files)}
        if plan.columns:
            tasks = self._row_group_tasks(plan, functions)
            yield from in_lanes(
                min(_MOST_DECODERS, os.cpu_count() or 1),
                self._clock,
                tasks,
                ahead=self._row_groups_ahead,
                budget=_DECODED_BYTES,
                weigh=pa.RecordBatch.get_total_buffer_size,
            )

    def _row_group_tasks(
        self, plan: ScanParquet, functions: tuple[Callable[[pa.RecordBatch], pa.RecordBatch | None], ...]
    ) -> Iterator[Callable[[], Iterator[pa.RecordBatch]]]:
        is_first = True
        for ref, footer in self._read_footers(plan.files):
            rows = ParquetRows(self._store, ref.path, footer, self._requests)
            groups = rows.row_groups(plan.non_null)
            if not plan.check:
                self.counts.row_groups_skipped += footer.metadata.num_row_groups - len(groups)
            for group in groups:
                yield _RowGroupTask(self.counts, ref, rows, group, plan, functions, is_first)
                is_first = False

    def _read_footers(self, files: Sequence[FileRef]) -> Iterator[tuple[FileRef, Footer]]:
        """Footers in order, those of the next files already asked for."""
        waiting: deque[tuple[FileRef, TripClock, Any]] = deque()
        remaining = iter(files)
        while True:
            while len(waiting) < self._file_parallelism and (ref := next(remaining, None)) is not None:
                clock = self._clock.fork()
                known = self._footers.get(ref.path)
                waiting.append((ref, clock, known or self._requests.submit(run_in, clock, _footer(self, ref))))
            if not waiting:
                return
            ref, clock, found = waiting.popleft()
            try:
                footer = found if isinstance(found, Footer) else found.result()
            except (pa.ArrowException, StorageError, OSError) as error:
                raise _unreadable(ref, error) from error
            self._clock.join(clock)
            yield ref, footer


def _footer(executor: LocalExecutor, ref: FileRef) -> Callable[[], Footer]:
    def read() -> Footer:
        size = ref.size
        if size is None:
            size = executor._store.head(ref.path).size  # noqa: SLF001
        return read_footer(executor._store, ref.path, size, executor._requests)  # noqa: SLF001

    return read


@dataclass(frozen=True, slots=True)
class _RowGroupTask:
    """Reads one row group and applies the filters that have no state, all in one thread."""

    counts: ExecutionCounts
    ref: FileRef
    rows: ParquetRows
    group: int
    plan: ScanParquet
    functions: tuple[Callable[[pa.RecordBatch], pa.RecordBatch | None], ...]
    is_first: bool

    def __call__(self) -> Iterator[pa.RecordBatch]:
        found = False
        try:
            for batch in selected_batches(self.rows, self.group, self.plan, is_first=self.is_first):
                found = True
                self.counts.batches_decoded += 1
                kept: pa.RecordBatch | None = batch
                for function in self.functions:
                    kept = function(kept) if kept is not None and kept.num_rows else None
                if kept is not None and kept.num_rows:
                    yield kept
        except (pa.ArrowException, StorageError, OSError) as error:
            raise _unreadable(self.ref, error) from error
        if self.plan.check:
            return
        if found:
            self.counts.row_groups_read += 1
        else:
            self.counts.row_groups_skipped += 1


def _within(files: Sequence[FileRef], budget: int) -> Iterator[FileRef]:
    """The first files that together stay within a number of bytes and of files."""
    for ref in files[:_MOST_AHEAD]:
        budget -= min(ref.size or FIRST_BYTES, FIRST_BYTES)
        if budget < 0:
            return
        yield ref


def _unreadable(ref: FileRef, error: Exception) -> UnreadableFileError:
    return UnreadableFileError(f"{ref.path}: {error}", ref.path, ref.label)


def _batch(**columns: pa.Array) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays(list(columns.values()), names=list(columns))


def _integers(values: list[int]) -> NDArray[np.int64]:
    return np.array(values, dtype=np.int64)
