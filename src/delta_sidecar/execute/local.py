"""Runs plans in this process: a few threads, bounded look-ahead, Arrow batches."""

from __future__ import annotations

from collections import deque
from contextlib import closing
from functools import partial
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from delta_sidecar._arrow import binaries, from_numpy, strings, to_numpy
from delta_sidecar.errors import ObjectNotFoundError, ObjectTruncatedError, StorageError
from delta_sidecar.execute.fetch import FIRST_BYTES, Fetcher, Work, unreadable
from delta_sidecar.execute.json import AHEAD_BYTES, scan_json, within
from delta_sidecar.execute.pieces import PieceScan
from delta_sidecar.plan import (
    FILE_LABEL,
    HEAD_BYTES,
    NOTHING_AHEAD,
    TAIL_BYTES,
    Ahead,
    Batches,
    Filter,
    FilterOrdered,
    ListFiles,
    Place,
    Plan,
    Progress,
    ReadFiles,
    ReadFooters,
    ReadKeyValue,
    ReadRanges,
    ScanJson,
    ScanParquet,
    ScanPieces,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from delta_sidecar.execute.parquet.scan import ParquetScan
    from delta_sidecar.plan import Executor, FileRef
    from delta_sidecar.store import Fetched, Page, Store


def open_executor(store: Store, *, file_parallelism: int = 10, row_groups_ahead: int = 10) -> Executor:
    """Opens the executor that runs the plans of one scan, build or inspection; `close` ends it."""
    return LocalExecutor(store, file_parallelism=file_parallelism, row_groups_ahead=row_groups_ahead)


class LocalExecutor:
    """Runs plans against a store with threads of this process.

    Threads start with the first plan and end with `close`. Every iterator that `execute` gives reads only as far
    ahead as said here, and stops reading when it is closed or dropped.
    """

    def __init__(self, store: Store, *, file_parallelism: int = 10, row_groups_ahead: int = 10) -> None:
        """Makes an executor; nothing is read yet.

        Args:
            store: The table's store, bound to the account of one scan.
            file_parallelism: How many small files are fetched at once, unless a plan says otherwise.
            row_groups_ahead: How many row groups may be under way at once, likewise.
        """
        self._file_parallelism = file_parallelism
        self._row_groups_ahead = row_groups_ahead
        self._work = Work(store, file_parallelism)
        self._fetcher = Fetcher(self._work)
        self._pieces: PieceScan | None = None
        self._parquet: ParquetScan | None = None

    @property
    def progress(self) -> Progress:
        """Its progress."""
        return Progress(self._work.places, self._work.clock.depth, self._work.counts)

    def execute(self, plan: Plan, ahead: Ahead = NOTHING_AHEAD) -> Batches:
        """Runs a plan; batches come in the plan's order."""
        source = plan
        while isinstance(source, Filter):
            source = source.source
        # Where pieces are decoded, what a filter cannot take of one counts as its own failure.
        return self.execute_parallel(plan) if isinstance(source, ScanPieces) else self._run(plan, ahead)

    def execute_parallel(self, plan: Plan) -> Batches:
        """Runs a plan whose filters have no state: they run where the batches are made."""
        functions: deque[Callable[[pa.RecordBatch], pa.RecordBatch | None]] = deque()
        source = plan
        while isinstance(source, Filter):
            functions.appendleft(source.function)
            source = source.source
        if isinstance(source, ScanPieces):
            return self._piece_scan().run(source, tuple(functions))
        if not isinstance(source, ScanParquet):
            return self._run(plan)
        return self._parquet_scan().run(source, tuple(functions))

    def close(self) -> None:
        """Ends the threads. What is still under way is not waited for."""
        self._fetcher.drop_ahead()
        if self._parquet is not None:
            self._parquet.close()
        if self._pieces is not None:
            self._pieces.close()
        self._work.close()

    def _run(self, plan: Plan, ahead: Ahead = NOTHING_AHEAD) -> Batches:
        match plan:
            case Filter() | FilterOrdered():
                return self._filtered(plan)
            case ListFiles():
                return self._list_files(plan, ahead)
            case ReadFiles():
                return self._read_files(plan, ahead)
            case ScanJson():
                return self._scan_json(plan, ahead)
            case ScanParquet():
                return self._parquet_scan().run(plan)
            case ScanPieces():
                return self._piece_scan().run(plan)
            case ReadFooters():
                return self._parquet_scan().footers(plan)
            case ReadKeyValue():
                return self._read_key_value(plan)
            case ReadRanges():
                return self._read_ranges(plan)

    def _parquet_scan(self) -> ParquetScan:
        if self._parquet is None:
            # Much of a table can be read without a Parquet file.
            from delta_sidecar.execute.parquet.scan import ParquetScan

            self._parquet = ParquetScan(self._work, self._row_groups_ahead)
        return self._parquet

    def _piece_scan(self) -> PieceScan:
        self._pieces = self._pieces or PieceScan(self._work)
        return self._pieces

    def _scan_json(self, plan: ScanJson, ahead: Ahead) -> Batches:
        self._ask_ahead(ahead)
        at_once = plan.at_once or self._file_parallelism
        if at_once != self._work.file_parallelism:
            self._work.resize(at_once)
        with closing(scan_json(self._work, self._fetcher, plan)) as batches:
            yield from batches

    def _ask_ahead(self, ahead: Ahead) -> None:
        if ahead.footers:
            self._parquet_scan().ahead(ahead.footers)
        if ahead.row_groups is not None:
            self._piece_scan().ahead(ahead.row_groups)
        for ref in within(ahead.files, AHEAD_BYTES):
            self._fetcher.ahead(ref.path)
        for path in ahead.heads:
            self._fetcher.ahead(path, head=True)

    def _filtered(self, plan: Filter | FilterOrdered) -> Batches:
        with closing(self.execute(plan.source)) as batches:
            for batch in batches:
                kept = plan.function(batch)
                if kept is None or not kept.num_rows:
                    self._work.dry += 1
                    continue
                self._work.dry = 0
                yield self._placed(kept) if isinstance(plan, FilterOrdered) else kept

    def _placed(self, kept: pa.RecordBatch) -> pa.RecordBatch:
        """Takes the labels out of what a filter kept, where it kept them, for the places of its rows."""
        if kept.schema.names[-1] != FILE_LABEL:
            return kept
        labels = to_numpy(kept.column(FILE_LABEL))
        starts = np.flatnonzero(np.diff(labels, prepend=-1)).tolist()
        self._work.places = tuple((start, Place(self._work.paths[int(labels[start])])) for start in starts)
        return kept.remove_column(kept.num_columns - 1)

    def _list_files(self, plan: ListFiles, ahead: Ahead) -> Batches:
        def listed() -> Iterator[Page]:
            yield from self._work.store.list(plan.prefix, after=plan.after)

        pages = listed()
        # In a thread where the store is far: an interrupt cannot reach a thread that waits for it.
        asked = self._work.ask(lambda: next(pages, None))
        self._ask_ahead(ahead)
        while (page := self._work.take(asked)) is not None:
            paths, tags = [found.path for found in page], [found.e_tag for found in page]
            numbers = np.array([(found.size, found.last_modified) for found in page], dtype=np.int64).reshape(-1, 2)
            columns = [strings(paths), *map(from_numpy, numbers.T), strings(tags)]
            yield pa.RecordBatch.from_arrays(columns, names=["path", "size", "last_modified", "e_tag"])
            asked = self._work.ask(lambda: next(pages, None))

    def _read_files(self, plan: ReadFiles, ahead: Ahead) -> Batches:
        first_bytes = min(plan.max_bytes, FIRST_BYTES) if plan.beginning else FIRST_BYTES
        started = [self._fetcher.start(path, first_bytes) for path in plan.paths]
        started += [self._fetcher.start(path, HEAD_BYTES, head=True) for path in plan.heads]
        tails = [(ref, self._work.ask(partial(_tail, self._work.store, ref))) for ref in plan.tails]
        self._ask_ahead(ahead)
        for number, pending in enumerate(started):
            # A mere beginning is not kept: who asks for the file next may want all of it.
            most = HEAD_BYTES if number >= len(plan.paths) else plan.max_bytes if plan.beginning else None
            try:
                keep = (plan.keep and most is None) or pending.kept is not None
                fetched = self._fetcher.take(pending, keep=keep)
            except ObjectNotFoundError:
                continue
            data = self._whole(pending.path, fetched, plan) if most is None else bytes(fetched.data[:most])
            yield _file(pending.path, fetched.size, data)
        for ref, asked in tails:
            try:
                yield _file(ref.path, ref.size or 0, self._work.take(asked))
            except (ObjectNotFoundError, ObjectTruncatedError):
                continue

    def _whole(self, path: str, first: Fetched, plan: ReadFiles) -> bytes | None:
        """All of a file, of which the first bytes are there; None where that is too much."""
        start = len(first.data)
        if first.size > plan.max_bytes:
            return None
        if start >= first.size:
            return bytes(first.data)
        store = self._work.store
        rest = self._work.take(self._work.ask(lambda: store.get_range(path, start, first.size)))
        return bytes(first.data) + bytes(rest)

    def _read_ranges(self, plan: ReadRanges) -> Batches:
        store, ref = self._work.store, plan.file
        try:
            found = self._work.take(self._work.ask(lambda: store.get_ranges(ref.path, plan.ranges)))
        except (MemoryError, StorageError, OSError) as error:
            raise unreadable(ref, error) from error
        for number, data in enumerate(found):
            columns = [from_numpy(np.array([number], dtype=np.int64)), binaries([bytes(data)])]
            yield pa.RecordBatch.from_arrays(columns, names=["number", "data"])

    def _read_key_value(self, plan: ReadKeyValue) -> Batches:
        work, ref = self._work, plan.file

        from delta_sidecar.execute.parquet.footer import read_footer

        def read() -> bytes | None:
            size = work.store.head(ref.path).size if ref.size is None else ref.size
            pairs = read_footer(work.store, ref.path, size).metadata.metadata
            return None if pairs is None else pairs.get(plan.key.encode())

        try:
            value = work.take(work.ask(read))
        except (pa.ArrowException, MemoryError, StorageError, OSError) as error:
            raise unreadable(ref, error) from error
        yield pa.RecordBatch.from_arrays([binaries([value])], names=["value"])


def _tail(store: Store, ref: FileRef) -> bytes:
    size = ref.size or 0
    return bytes(store.get_range(ref.path, max(0, size - TAIL_BYTES), size))


def _file(path: str, size: int, data: bytes | None) -> pa.RecordBatch:
    columns = [strings([path]), from_numpy(np.array([size], dtype=np.int64)), binaries([data])]
    return pa.RecordBatch.from_arrays(columns, names=["path", "size", "data"])
