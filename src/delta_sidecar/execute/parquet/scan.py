"""Runs `ScanParquet`: row groups side by side, their batches in order."""

from __future__ import annotations

import threading
from collections import deque
from contextlib import closing
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec
import numpy as np
import pyarrow as pa

from delta_sidecar._arrow import from_numpy, release_soon, strings
from delta_sidecar.errors import StorageError
from delta_sidecar.execute.fetch import Asked, Work, decoders, unreadable
from delta_sidecar.execute.lanes import in_lanes
from delta_sidecar.execute.parquet.file import ParquetRows
from delta_sidecar.execute.parquet.footer import FOOTER_BYTES, Footer, leaf_paths, read_footer_within
from delta_sidecar.execute.parquet.select import SelectedRows
from delta_sidecar.plan import FileSummary, Place

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    import pyarrow.parquet as pq

    from delta_sidecar.execute.parquet.sparse import SparseFile
    from delta_sidecar.plan import Batches, FileRef, ReadFooters, ScanParquet

    Functions = tuple[Callable[[pa.RecordBatch], pa.RecordBatch | None], ...]


T = TypeVar("T")
_Placed = tuple[Place, pa.RecordBatch]

_DECODED_BYTES = 4 << 20
_FETCHED_BYTES = 8 << 20
_MOST_FOOTERS = 64
_FOOTERS_BYTES = 8 << 20
_SMALLEST_FOOTER = 32 << 10


class ParquetScan:
    """Reads Parquet files; some footers that were checked are kept for the plan that reads the rows."""

    def __init__(self, work: Work, row_groups_ahead: int) -> None:
        self._work = work
        self._row_groups_ahead = row_groups_ahead
        self._footers: dict[str, Footer] = {}
        self._ahead: dict[str, Asked[Footer]] = {}

    def ahead(self, files: Sequence[FileRef]) -> None:
        """Asks for footers that are needed soon."""
        for ref in files:
            if ref.path not in self._footers and ref.path not in self._ahead:
                self._ahead[ref.path] = self._ask(ref)

    def run(self, plan: ScanParquet, functions: Functions = ()) -> Batches:
        """Reads files, and applies filters without state where the batches are made.

        Raises:
            UnreadableFileError: One cannot be fetched, or is not what it should be.
        """
        if plan.check:
            plan = msgspec.structs.replace(plan, files=self._checked(plan))
        if plan.columns:
            waves = _Waves(plan.enough)
            decoded = in_lanes(
                decoders(),
                self._work.clock,
                self._tasks(plan, functions, waves),
                ahead=lambda: (plan.at_once or self._row_groups_ahead) if waves.is_open else 1,
                budget=_DECODED_BYTES,
                weigh=_weight,
            )
            with closing(decoded):
                for place, batch in decoded:
                    self._work.place = place
                    nbytes = batch.nbytes
                    yield batch
                    del batch
                    release_soon(nbytes)

    def footers(self, plan: ReadFooters) -> Batches:
        """Reads facts out of footers. Those that were kept cost nothing, and others are kept from now on.

        Raises:
            UnreadableFileError: One cannot be fetched, or is none.
        """
        unknown = [ref for ref in plan.files if ref.path not in self._footers]
        if plan.most_requests is not None and len(unknown) > plan.most_requests:
            unknown = []
        allowed = None if plan.most_requests is None else 1 + plan.most_requests - len(unknown)
        # What is left over is for the first: where there are two, they have one request each.
        asked = {
            ref.path: self._ask(ref, most=allowed if number == 0 or allowed is None else 1)
            for number, ref in enumerate(unknown)
        }
        for ref in plan.files:
            footer = self._footers.get(ref.path)
            if footer is None and ref.path in asked:
                footer = self._take(ref, asked[ref.path])
            if footer is not None:
                if len(self._footers) < _MOST_FOOTERS:
                    self._footers[ref.path] = footer
                yield footer_facts(ref.path, footer.metadata, plan.columns)

    def close(self) -> None:
        """Forgets the footers."""
        self._footers.clear()
        self._ahead.clear()

    def _checked(self, plan: ScanParquet) -> tuple[FileRef, ...]:
        """Reads all footers together, and keeps some of them; returns the files that have rows to read."""
        guess = min(FOOTER_BYTES, max(_SMALLEST_FOOTER, _FOOTERS_BYTES // max(1, len(plan.files))))
        looks = [partial(self._look, plan, ref, keep=number < _MOST_FOOTERS) for number, ref in enumerate(plan.files)]
        asked: list[Asked[Any]] = [
            self._ahead.pop(ref.path) if ref.path in self._ahead else self._ask(ref, guess, look)
            for ref, look in zip(plan.files, looks, strict=True)
        ]
        summaries = []
        try:
            for ref, look, waiting in zip(plan.files, looks, asked, strict=True):
                found: Footer | tuple[Footer | None, FileSummary] = self._take(ref, waiting)
                footer, summary = look(found) if isinstance(found, Footer) else found
                summaries.append(summary)
                if footer is not None:
                    self._footers[ref.path] = footer
        finally:
            for waiting in asked:
                waiting.cancel()
        if plan.content is not None:
            plan.content(summaries)
        return tuple(ref for ref in plan.files if ref.path in self._footers)

    def _look(
        self, plan: ScanParquet, ref: FileRef, footer: Footer, *, keep: bool
    ) -> tuple[Footer | None, FileSummary]:
        """Sums a footer up, and returns it where it is kept: the first ones, and those of files with rows to read."""
        columns = plan.content.columns if plan.content is not None else ()
        summary = summary_of(ref.path, footer.metadata, columns)
        is_kept = keep or (plan.columns and self._rows(ref, footer).row_groups(plan.non_null))
        return footer if is_kept else None, summary

    def _tasks(
        self, plan: ScanParquet, functions: Functions, waves: _Waves
    ) -> Iterator[Callable[[], Iterator[_Placed]]]:
        room = _Room(_FETCHED_BYTES)
        is_first = True
        for ref, footer in self._read_footers(plan.files, keep=plan.check):
            rows = self._rows(ref, footer)
            groups = rows.row_groups(plan.non_null)
            if ref is plan.files[0]:
                groups = [group for group in groups if group >= plan.start]
            if not plan.check:
                self._work.count(skipped=footer.metadata.num_row_groups - len(groups))
            for group in groups:
                waves.take(rows.most_values(group, plan.non_null))
                selected = SelectedRows(rows, group, plan, is_first=is_first)
                yield partial(self._decoded, plan, ref, selected, functions, self._fetch(selected, room))
                is_first = False

    def _fetch(self, selected: SelectedRows, room: _Room) -> Callable[[], SparseFile]:
        """Fetches the first columns of a row group now, if there is room: decoders are few, and a store is far away."""
        size = selected.held_bytes
        if not room.take(size):
            return selected.fetch
        asked = self._work.submit(selected.fetch)

        def take() -> SparseFile:
            fetched = asked.result()
            fetched.hand_over()
            # It is this decoder's now; the next row group may be fetched.
            room.give_back(size)
            return fetched

        return take

    def _decoded(
        self,
        plan: ScanParquet,
        ref: FileRef,
        selected: SelectedRows,
        functions: Functions,
        fetch: Callable[[], SparseFile],
    ) -> Iterator[_Placed]:
        """Reads one row group and applies the filters that have no state, all in one thread."""
        found = False
        place = Place(ref.path, selected.group)
        fetched = None
        try:
            fetched = fetch()
            for batch in selected.batches(fetched):
                found = True
                self._work.count(batches=1)
                kept: pa.RecordBatch | None = batch
                del batch
                for function in functions:
                    kept = function(kept) if kept is not None and kept.num_rows else None
                if kept is not None and kept.num_rows:
                    release_soon(kept.nbytes)
                    yield place, kept
                del kept
        except (pa.ArrowException, MemoryError, StorageError, OSError) as error:
            raise unreadable(ref, error) from error
        finally:
            if fetched is not None:
                fetched.close()
        if not plan.check:
            self._work.count(read=found, skipped=not found)

    def _read_footers(self, files: Sequence[FileRef], *, keep: bool) -> Iterator[tuple[FileRef, Footer]]:
        """Footers in order, those of the next files already asked for; a kept one is forgotten when it is returned."""
        waiting: deque[tuple[FileRef, Footer | Asked[Footer]]] = deque()
        remaining = iter(files)
        while True:
            while len(waiting) < self._work.file_parallelism and (ref := next(remaining, None)) is not None:
                known = self._footers.get(ref.path) if keep else self._footers.pop(ref.path, None)
                found = known or self._ahead.pop(ref.path, None)
                waiting.append((ref, found or self._ask(ref)))
            if not waiting:
                return
            ref, found = waiting.popleft()
            yield ref, found if isinstance(found, Footer) else self._take(ref, found)

    def _ask(
        self, ref: FileRef, guess: int | None = None, look: Callable[[Any], Any] | None = None, most: int | None = None
    ) -> Asked[Any]:
        """Asks for a footer, to be looked at in a thread of the pool; None where it takes more requests than `most`."""
        work = self._work

        def read() -> Any:  # noqa: ANN401 - what `look` makes of it
            size = work.store.head(ref.path).size if ref.size is None else ref.size
            left = None if most is None else most - (ref.size is None)
            footer = read_footer_within(work.store, ref.path, size, left, guess)
            return footer if look is None else look(footer)

        return work.submit(read)

    def _take(self, ref: FileRef, asked: Asked[T]) -> T:
        try:
            return self._work.take(asked)
        except (pa.ArrowException, MemoryError, StorageError, OSError) as error:
            raise unreadable(ref, error) from error

    def _rows(self, ref: FileRef, footer: Footer) -> ParquetRows:
        return ParquetRows(self._work.store, ref.path, footer, self._work.pool)


def _weight(placed: _Placed) -> int:
    return placed[1].get_total_buffer_size()  # type: ignore[no-any-return]


class _Waves:
    """Row groups that are fetched together, where few are likely to be enough.

    First as many as hold enough rows; each time that this proves too few, twice as many as before.
    """

    def __init__(self, enough: int | None) -> None:
        self._rows = enough
        self._groups = self._taken = 0

    @property
    def is_open(self) -> bool:
        """Whether another row group is fetched before the last ones are emitted."""
        return self._rows is None or self._rows > 0 or self._groups > 0

    def take(self, rows: int) -> None:
        """Counts another row group, with so many rows."""
        if self._rows is None:
            return
        if not self.is_open:
            self._groups = 2 * self._taken
        self._taken += 1
        self._rows, self._groups = max(0, self._rows - rows), max(0, self._groups - 1)


class _Room:
    """The bytes that may be fetched before a decoder takes them."""

    def __init__(self, size: int) -> None:
        self._left = size
        self._lock = threading.Lock()

    def take(self, size: int) -> bool:
        with self._lock:
            if size > self._left:
                return False
            self._left -= size
            return True

    def give_back(self, size: int) -> None:
        with self._lock:
            self._left += size


# Facts about chosen columns, out of the footer of a Parquet file.


_FACTS = ("path", "group", "rows", "column", "values", "lower", "upper")


def summary_of(path: str, metadata: pq.FileMetaData, columns: Sequence[str]) -> FileSummary:
    """Sums up a footer: the rows of the file, and how many of them have a value in flat columns."""
    names = {name: leaf for leaf, name in enumerate(leaf_paths(metadata))}
    groups = [group for number in range(metadata.num_row_groups) if (group := metadata.row_group(number)).num_rows]
    values = {name: _values(groups, names[name]) for name in columns if name in names}
    return FileSummary(path, metadata.num_rows, values)


def footer_facts(path: str, metadata: pq.FileMetaData, columns: Sequence[str]) -> pa.RecordBatch:
    """The facts of `ReadFooters`: a row for the file, then one for each row group and column."""
    names = {name: leaf for leaf, name in enumerate(leaf_paths(metadata))}
    rows: list[_Fact] = [(metadata.num_row_groups, metadata.num_rows, None, None, None, None)]
    for number in range(metadata.num_row_groups):
        group = metadata.row_group(number)
        for name in columns:
            if name in names:
                count = _values([group], names[name])
                rows.append((number, group.num_rows, name, count, *_bounds(group, names[name])))
    groups, counts, labels, values, lower, upper = zip(*rows, strict=True)
    known = np.array([value is not None for value in values], dtype=np.bool_)
    arrays = [
        strings([path] * len(rows)),
        from_numpy(np.array(groups, dtype=np.int64)),
        from_numpy(np.array(counts, dtype=np.int64)),
        strings(labels),
        from_numpy(np.array([value or 0 for value in values], dtype=np.int64), known),
        strings(lower),
        strings(upper),
    ]
    return pa.RecordBatch.from_arrays(arrays, names=list(_FACTS))


_Fact = tuple[int, int, str | None, int | None, str | None, str | None]


def _values(groups: Sequence[pq.RowGroupMetaData], leaf: int) -> int | None:
    total = 0
    for group in groups:
        if not group.num_rows:
            continue
        statistics = group.column(leaf).statistics
        if statistics is None or not statistics.has_null_count:
            return None
        # In a list or a map a row may have several values.
        total += group.column(leaf).num_values - statistics.null_count
    return total


def _bounds(group: pq.RowGroupMetaData, leaf: int) -> tuple[str | None, str | None]:
    statistics = group.column(leaf).statistics if group.num_rows else None
    if statistics is None or not statistics.has_min_max:
        return None, None
    try:
        bounds = statistics.min, statistics.max
    except (ValueError, pa.ArrowException):
        # A text may be cut in the middle of a letter.
        return None, None
    lower, upper = (str(value) if type(value) in (int, str) else None for value in bounds)
    return lower, upper
