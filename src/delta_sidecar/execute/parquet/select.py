"""The rows of a row group that pass a test on a few columns, with the other columns decoded for them only.

A row group goes through in strips: the test's columns of a strip first, then the others for the rows that passed. So
the first rows of even a very large row group come soon, and no strip waits in memory for the next.
"""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from delta_sidecar._arrow import from_numpy
from delta_sidecar.execute.parquet.pages import UnusualPagesError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray

    from delta_sidecar.execute.parquet.file import ParquetRows
    from delta_sidecar.execute.parquet.sparse import SparseFile
    from delta_sidecar.plan import ScanParquet

_STRIP_ROWS = 131_072
_FIRST_ROWS = 16_384
_SPARSE = 0.1


class SelectedRows:
    """A row group's columns: for all rows, or for those that pass a plan's test."""

    def __init__(self, rows: ParquetRows, group: int, plan: ScanParquet, *, is_first: bool = False) -> None:
        """Looks at the footer only. For the first rows of a scan all columns are fetched together, before the test."""
        substitutes = [
            substitute.column
            for substitute in plan.substitutes
            if rows.has_fewer_values(group, substitute.missing, substitute.beside)
        ]
        self._rows = rows
        self.group = group
        self._test = plan.test
        self._is_first = is_first
        self._columns = [column for column in (*plan.columns, *substitutes) if rows.has_values(group, column)]
        early = plan.early if plan.test is not None else ()
        self._early = [column for column in early if rows.has_values(group, column)]

    @property
    def held_bytes(self) -> int:
        """About how many bytes `fetch` holds."""
        return self._rows.held_bytes(self.group, self._early or self._columns)

    def fetch(self) -> SparseFile:
        """Fetches what is read first, in one round trip."""
        if self._is_first:
            return self._rows.fetch(self.group, [*self._early, *self._columns], _FIRST_ROWS, self._early)
        return self._rows.fetch(self.group, self._early or self._columns)

    def batches(self, fetched: SparseFile) -> Iterator[pa.RecordBatch]:
        """Reads the rows out of what `fetch` gave."""
        if self._test is None or not self._early:
            yield from self._rows.batches(self.group, self._columns, fetched)
            return
        everything = fetched if self._is_first else None
        with closing(ChosenRows(self._rows, self.group, self._columns, everything)) as late:
            tested = map(self._test, self._rows.batches(self.group, self._early, fetched, distinct=True))
            for start, keep in _strips(tested, 1 if self._is_first else _STRIP_ROWS):
                if keep.any():
                    yield from late.take(start, keep)
            late.finish()


def _strips(tested: Iterator[NDArray[np.bool_]], shortest: int) -> Iterator[tuple[int, NDArray[np.bool_]]]:
    """Joins the test's results to strips, with the first row of each; only the first may be shorter than the others."""
    start = 0
    parts: list[NDArray[np.bool_]] = []
    for part in tested:
        parts.append(part)
        if sum(map(len, parts)) >= shortest:
            keep = np.concatenate(parts)
            parts.clear()
            yield start, keep
            start += len(keep)
            shortest = _STRIP_ROWS
    if parts:
        yield start, np.concatenate(parts)


class ChosenRows:
    """Columns of a row group for chosen rows, in ascending order.

    Where few are chosen, only the pages of large flat columns that hold one are decoded.
    """

    def __init__(
        self, rows: ParquetRows, group: int, columns: Sequence[str], fetched: SparseFile | None = None
    ) -> None:
        self._rows = rows
        self.group = group
        self._columns = columns
        self._files = [fetched] if fetched is not None else []
        self._dense: _InOrder | None = None
        self._sparse: _ByPage | None = None
        self._may_be_large = False

    def take(self, start: int, keep: NDArray[np.bool_]) -> Iterator[pa.RecordBatch]:
        """Reads the chosen ones of the rows from `start` on."""
        if keep.sum() <= len(keep) * _SPARSE and (sparse := self._by_page()) is not None:
            yield sparse.take(start, keep)
        else:
            self._dense = self._dense or _InOrder(self._rows.batches(self.group, self._columns, self._file()))
            yield from self._dense.take(start, keep)

    def _by_page(self) -> _ByPage | None:
        """Reads by page; None where rows may take much memory, for by page those of a strip come in one batch."""
        if self._sparse is None and not self._may_be_large:
            file = self._file()
            self._may_be_large = self._rows.may_be_large(self.group, self._columns, file)
            if not self._may_be_large:
                self._sparse = _ByPage(self._rows, self.group, self._columns, file)
        return self._sparse

    def finish(self) -> None:
        """Checks what was read by page.

        Raises:
            pa.ArrowInvalid: The pages do not add up to the rows of the row group.
        """
        if self._sparse is not None:
            self._sparse.finish()

    def close(self) -> None:
        """Forgets what was fetched."""
        for file in self._files:
            file.close()

    def _file(self) -> SparseFile:
        """The file with the columns fetched. Two readers do not share windows, for each moves them."""
        is_shared = self._dense is None and self._sparse is None
        if not self._files or (self._files[-1].has_windows and not is_shared):
            self._files.append(self._rows.fetch(self.group, self._columns))
        return self._files[-1]


class _InOrder:
    """Chosen rows of a stream of batches."""

    def __init__(self, batches: Iterator[pa.RecordBatch]) -> None:
        self._batches = batches
        self._batch: pa.RecordBatch | None = None
        self._first = 0

    def take(self, start: int, keep: NDArray[np.bool_]) -> Iterator[pa.RecordBatch]:
        end = start + len(keep)
        while self._first < end:
            if self._batch is None:
                self._batch = next(self._batches)
            last = self._first + self._batch.num_rows
            low, high = max(start, self._first), min(end, last)
            if low < high:
                mask = keep[low - start : high - start]
                part = self._batch.slice(low - self._first, high - low)
                if mask.all():
                    yield part
                elif mask.any():
                    yield part.filter(from_numpy(mask))
            if last > end:
                return
            self._batch, self._first = None, last


class _ByPage:
    """Chosen rows of columns, the large flat ones by page, the others in order."""

    def __init__(self, rows: ParquetRows, group: int, columns: Sequence[str], file: SparseFile) -> None:
        self._rows = rows
        self.group = group
        self._file = file
        self._leaves = rows.leaves(columns)
        self._readers = {leaf: found for leaf in self._leaves if (found := rows.pages(group, leaf, file)) is not None}
        self._others: _InOrder | None = None
        self._begun = False

    def take(self, start: int, keep: NDArray[np.bool_]) -> pa.RecordBatch:
        chosen = np.flatnonzero(keep) + start
        parts: dict[str, dict[str, pa.Array]] = {}
        for leaf, reader in list(self._readers.items()):
            parent, _, name = self._rows.names[leaf].partition(".")
            try:
                parts.setdefault(parent, {})[name] = reader.take(chosen)
            except UnusualPagesError as error:
                if self._begun:
                    raise pa.ArrowInvalid(str(error)) from error
                del self._readers[leaf]
        self._begun = True
        return _joined(self._in_order(start, keep), {parent: fields for parent, fields in parts.items() if fields})

    def finish(self) -> None:
        try:
            for reader in self._readers.values():
                reader.finish()
        except UnusualPagesError as error:
            raise pa.ArrowInvalid(str(error)) from error

    def _in_order(self, start: int, keep: NDArray[np.bool_]) -> pa.Table:
        names = [self._rows.names[leaf] for leaf in self._leaves if leaf not in self._readers]
        if not names:
            return pa.table({})
        self._others = self._others or _InOrder(self._rows.batches(self.group, names, self._file))
        return pa.Table.from_batches(list(self._others.take(start, keep)))


def _joined(table: pa.Table, parts: dict[str, dict[str, pa.Array]]) -> pa.RecordBatch:
    """Puts columns that were read by themselves back into the structs that they belong to."""
    columns = {name: table.column(name).combine_chunks() for name in table.column_names}
    for name, fields in parts.items():
        if name in columns:
            struct = columns[name]
            fields |= dict(zip((field.name for field in struct.type), struct.flatten(), strict=True))
        columns[name] = pa.StructArray.from_arrays(list(fields.values()), names=list(fields))
    return pa.RecordBatch.from_arrays(list(columns.values()), names=list(columns))
