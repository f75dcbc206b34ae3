"""The rows of one Parquet file of a store, by bounded batches."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property, partial
from itertools import repeat
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from delta_sidecar.execute.parquet.footer import Footer, Layout, plain_batch
from delta_sidecar.execute.parquet.pages import DICTIONARY_PAGE, PageReader, excerpt_of, first_header
from delta_sidecar.execute.parquet.sparse import Range, SparseFile, Window
from delta_sidecar.execute.parquet.times import with_raw_int96

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from delta_sidecar._threads import ThreadPool
    from delta_sidecar.store import Store

    Source = Callable[[], pa.NativeFile]


HELD_BYTES = 8 << 20
MOST_PAGE_BYTES = 256 << 20
"""A larger page of a checkpoint is not decoded; writers make pages of a megabyte or so."""

_LARGE = 256 << 10
_NARROWEST = 32 << 10
_SLICE_BYTES = 256 << 10
_TOGETHER = 16 << 20
_TOGETHER_WHOLE = 32 << 20
_PAGE = 1 << 20
_NESTED = 2
_WIDTH = 8
# Each of these texts may begin with all of the text before it.
_SHARING, _SHARING_ROWS = "DELTA_BYTE_ARRAY", 128


@dataclass(frozen=True, slots=True)
class BatchSize:
    """The size of decoded batches."""

    most_rows: int = 16_384
    bytes: int = 1 << 20  # about so many, by the row group's own word on its size
    fewest_rows: int = 1_024  # so many at least, however large they are by that word
    most_bytes: int = 32 << 20  # fewer rows are decoded at once where they may come to more than this


class ParquetRows:
    """Reads chosen columns of a file, row group by row group."""

    def __init__(
        self,
        store: Store,
        path: str,
        footer: Footer,
        pool: ThreadPool,
        size: BatchSize | None = None,
        layout: Layout | None = None,
    ) -> None:
        self._size = size or BatchSize()
        self._store = store
        self._path = path
        self._footer = footer
        self._pool = pool
        self._layout = layout or Layout.of(footer.metadata)
        self.names = self._layout.leaves  # of the leaf columns, dotted

    def leaves(self, columns: Sequence[str]) -> list[int]:
        """Numbers of the file's leaf columns that are these columns or below them."""
        return sorted({leaf for name in columns for leaf in self._below.get(name, ())})

    @cached_property
    def _below(self) -> dict[str, list[int]]:
        """The leaf columns by their names and by those of all that they are in; a dot may be part of a name."""
        found: dict[str, list[int]] = {}
        for number, leaf in enumerate(self.names):
            end = len(leaf)
            while end >= 0:
                found.setdefault(leaf[:end], []).append(number)
                end = leaf.rfind(".", 0, end)
        return found

    def row_groups(self, non_null: Sequence[str]) -> list[int]:
        """The row groups where one of some columns may have a value, by their statistics; all, without columns."""
        leaves = self.leaves(non_null)
        if non_null and not leaves:
            return []
        return [
            group
            for group in range(self._footer.metadata.num_row_groups)
            if self.num_rows(group) and (not leaves or any(_values(self._group(group), leaf) for leaf in leaves))
        ]

    def has_values(self, group: int, column: str) -> bool:
        """Whether a column, or one below it, may have a value in a row group, by its statistics."""
        return any(_values(self._group(group), leaf) for leaf in self.leaves([column]))

    def most_values(self, group: int, columns: Sequence[str]) -> int:
        """The most rows of a row group that have a value in one of some columns; without columns, all."""
        counts = [_values(self._group(group), leaf) for leaf in self.leaves(columns)]
        return min(sum(counts), self.num_rows(group)) if counts else self.num_rows(group)

    def has_fewer_values(self, group: int, column: str, beside: str) -> bool:
        """Whether a column has more nulls than another in a row group, or statistics do not say."""
        counts = []
        for name in (column, beside):
            leaf = self.names.index(name) if name in self.names else None
            statistics = None if leaf is None else self._group(group).column(leaf).statistics
            if statistics is None or not statistics.has_null_count:
                return True
            counts.append(statistics.null_count)
        return bool(counts[0] > counts[1])

    def num_rows(self, group: int) -> int:
        """The number of rows of a row group."""
        return int(self._group(group).num_rows)

    def batch_rows(self, group: int, columns: Sequence[str]) -> int:
        """The number of rows of a batch, by the footer."""
        row_group = self._group(group)
        if row_group.total_byte_size <= self._size.bytes:
            return self._size.most_rows
        size = sum(row_group.column(leaf).total_uncompressed_size for leaf in self.leaves(columns))
        a_row = size / max(1, row_group.num_rows)
        return min(self._size.most_rows, max(self._size.fewest_rows, int(self._size.bytes / max(1.0, a_row))))

    def held_bytes(self, group: int, columns: Sequence[str]) -> int:
        """About how many bytes `fetch` holds of chosen columns."""
        row_group = self._group(group)
        return int(min(HELD_BYTES, sum(row_group.column(leaf).total_compressed_size for leaf in self.leaves(columns))))

    def fetch(self, group: int, columns: Sequence[str], first_rows: int = 0, whole: Sequence[str] = ()) -> SparseFile:
        """Fetches chosen columns of a row group, in one round trip; of large ones the beginning.

        Args:
            group: The row group.
            columns: Dotted names.
            first_rows: So many rows at least are fetched, as far as memory allows, and all if they aren't many more.
            whole: Columns to be held whole, however many rows there are, as far as memory allows.
        """
        sparse = SparseFile(self._store, self._path, self._footer.size, self._pool)
        if self._footer.whole is not None:
            sparse.keep(0, self._footer.whole)
        else:
            sparse.load(*self._places(group, self.leaves(columns), first_rows, self.leaves(whole)))
        return sparse

    def batches(
        self, group: int, columns: Sequence[str], fetched: SparseFile | None = None
    ) -> Iterator[pa.RecordBatch]:
        """Reads chosen columns of a row group, out of what `fetch` gave for them or of what is fetched now."""
        leaves = self.leaves(columns)
        rows = self.batch_rows(group, columns)
        whole = self._footer.whole if fetched is None else None
        own = self.fetch(group, columns) if fetched is None and whole is None else None
        sparse = fetched or own
        source = partial(pa.BufferReader, whole) if sparse is None else partial(pa.PythonFile, sparse, mode="r")
        # Another reader would move the windows of the first one.
        int96 = [self.names[leaf] for leaf in leaves if leaf in self._layout.int96]
        again = self.fetch(group, int96) if int96 and sparse is not None and sparse.has_windows else None
        second = source if again is None else partial(pa.PythonFile, again, mode="r")
        try:
            step = self._step(group, leaves, rows, source, fetched)
            decoded = self._decoded(group, leaves, step, source, second)
            yield from decoded if step == rows else _joined(decoded, rows, self._size.bytes)
        finally:
            for made in (own, again):
                if made is not None:
                    made.close()
            self._release(group)

    def may_be_large(self, group: int, columns: Sequence[str], fetched: SparseFile) -> bool:
        """Whether the rows of a batch may take far more memory than the footer says."""
        rows = self.batch_rows(group, columns)
        return self._step(group, self.leaves(columns), rows, partial(pa.PythonFile, fetched, mode="r"), fetched) < rows

    def pages(self, group: int, leaf: int, fetched: SparseFile) -> PageReader | None:
        """A reader of the pages of a large flat column; None where decoding it in order is as good."""
        chunk = self._group(group).column(leaf)
        excerpt = excerpt_of(self._footer.metadata.schema.column(leaf), chunk)
        if excerpt is None or len(excerpt.path) != _NESTED or chunk.total_uncompressed_size < _LARGE:
            return None
        return PageReader(fetched, _chunk_range(chunk), excerpt, self.num_rows(group))

    def _decoded(
        self, group: int, leaves: Sequence[int], rows: int, source: Source, second: Source
    ) -> Iterator[pa.RecordBatch]:
        int96 = [leaf for leaf in leaves if leaf in self._layout.int96]
        checks: Iterable[pa.RecordBatch | None] = repeat(None)
        if int96:
            checks = self._iterated(second(), group, int96, rows, metadata=self._with_raw_int96)
        batches = self._iterated(source(), group, leaves, rows, coerce_int96_timestamp_unit="us")
        found = 0
        for batch, check in zip(batches, checks, strict=False):
            found += batch.num_rows
            right = self._layout.times.check(batch, check)
            del batch, check
            self._release(group)
            yield right if self._layout.is_plain else plain_batch(right)
            del right
            self._release(group)
        if found != self.num_rows(group):
            # A damaged page may end a column early without an error.
            msg = f"row group {group} ends after {found} of {self.num_rows(group)} rows"
            raise pa.ArrowInvalid(msg)

    def _iterated(
        self, file: pa.NativeFile, group: int, leaves: Sequence[int], rows: int, **options: object
    ) -> Iterator[pa.RecordBatch]:
        names = [self.names[leaf] for leaf in leaves]
        buffer_size = max(_NARROWEST, min(_SLICE_BYTES, HELD_BYTES // (2 * len(leaves) or 1)))
        options = {"metadata": self._footer.metadata, "pre_buffer": False, "buffer_size": buffer_size, **options}
        return pq.ParquetFile(file, **options).iter_batches(rows, row_groups=[group], columns=names, use_threads=False)  # type: ignore[no-any-return]

    @cached_property
    def _with_raw_int96(self) -> pq.FileMetaData:
        return with_raw_int96(self._footer.metadata)

    def _step(self, group: int, leaves: Sequence[int], rows: int, source: Source, fetched: SparseFile | None) -> int:
        """The number of rows that are decoded at once: `rows`, or fewer where they may take too much memory.

        A text that is stored once, in a dictionary, may stand in every row; a list of a million equal numbers takes a
        few bytes. So the longest text of a dictionary and the mean length of lists count, not the size of the file.
        """
        row_group = self._group(group)
        most = self._size.most_bytes
        is_small = row_group.num_rows * (row_group.total_byte_size + _WIDTH * len(leaves)) <= most
        if fetched is None and is_small and self._layout.is_flat:
            return rows
        step = min(rows, max(1, row_group.num_rows))
        a_row = 0.0
        doubtful = {}
        for leaf in leaves:
            chunk = row_group.column(leaf)
            values = max(1.0, chunk.num_values / max(1, row_group.num_rows))
            a_row += values * max(self._footer.metadata.schema.column(leaf).length, _WIDTH)
            size, is_shared = chunk.total_uncompressed_size, chunk.has_dictionary_page
            # The footer of a checkpoint is not believed: its first pages have the last word.
            page = None if fetched is None else first_header(fetched, _chunk_range(chunk))
            if page is not None and page.uncompressed > MOST_PAGE_BYTES:
                msg = (
                    f"column {self.names[leaf]} has a page of {page.uncompressed:,} bytes; at most "
                    f"{MOST_PAGE_BYTES:,} are read"
                )
                raise pa.ArrowMemoryError(msg)
            if chunk.physical_type != "BYTE_ARRAY":
                continue
            if page is not None and page.kind == DICTIONARY_PAGE:
                size, is_shared = page.uncompressed, True
            elif page is not None:
                a_row += values * page.uncompressed / max(1, page.values)
            if is_shared and step * values * size > most:
                doubtful[leaf] = values
            elif _SHARING in chunk.encodings:
                step = min(step, _SHARING_ROWS)
        if doubtful:
            longest = self._longest_texts(group, list(doubtful), source)
            a_row += sum(length * values for length, values in zip(longest, doubtful.values(), strict=True))
        step = max(1, min(step, int(most / max(1.0, a_row))))
        return rows if step >= row_group.num_rows else step

    def _longest_texts(self, group: int, leaves: list[int], source: Source) -> list[int]:
        """The lengths of the longest texts in the dictionaries of some columns, by decoding their first row."""
        names = [self.names[leaf] for leaf in leaves]
        first = next(self._iterated(source(), group, leaves, 1, read_dictionary=names), None)
        return [0] * len(leaves) if first is None else [length for column in first for length in _longest(column)]

    def _group(self, group: int) -> pq.RowGroupMetaData:
        return self._footer.metadata.row_group(group)

    def _release(self, group: int) -> None:
        # Arrow's allocator keeps what a thread frees, in decoding and after it; over a long file that adds up.
        if self._group(group).total_byte_size > _LARGE:
            pa.default_memory_pool().release_unused()

    def _places(
        self, group: int, leaves: Sequence[int], first_rows: int, whole: Sequence[int]
    ) -> tuple[list[Range], list[Window]]:
        """The ranges of some columns that are held whole, and those that are read through windows."""
        chunks = {leaf: self._group(group).column(leaf) for leaf in leaves}
        sizes = {leaf: chunk.total_compressed_size for leaf, chunk in chunks.items()}
        if sum(sizes.values()) <= (_TOGETHER if first_rows else HELD_BYTES):
            return [_chunk_range(chunk) for chunk in chunks.values()], []
        held = frozenset(whole) if sum(sizes[leaf] for leaf in whole) <= _TOGETHER_WHOLE else frozenset()
        large = [leaf for leaf in leaves if leaf not in held and sizes[leaf] > HELD_BYTES // (2 * len(leaves))]
        width = max(_NARROWEST, HELD_BYTES // (4 * max(1, len(large))))
        first = dict.fromkeys(large, width)
        if first_rows:
            first = _beginnings({leaf: chunks[leaf] for leaf in large}, first_rows / self.num_rows(group))
        windows = []
        for leaf in large:
            start, end = _chunk_range(chunks[leaf])
            windows.append(Window(start, end, min(max(width, first[leaf]), end - start), width))
        return [_chunk_range(chunk) for leaf, chunk in chunks.items() if leaf not in first], windows


def _beginnings(chunks: Mapping[int, pq.ColumnChunkMetaData], share: float) -> dict[int, int]:
    """The first bytes of large columns that hold a share of their rows: their dictionaries, and some pages."""
    needed = {}
    for leaf, chunk in chunks.items():
        start, end = _chunk_range(chunk)
        needed[leaf] = chunk.data_page_offset - start + int((end - chunk.data_page_offset) * share)
    total = sum(needed.values())
    # The last of the rows may be the first one of a page.
    page = min(_PAGE, max(0, _TOGETHER - total) // max(1, len(chunks)))
    scale = min(1.0, _TOGETHER / max(1, total))
    return {leaf: int(size * scale) + page for leaf, size in needed.items()}


def _values(row_group: pq.RowGroupMetaData, leaf: int) -> int:
    """The most values that a column may have."""
    statistics = row_group.column(leaf).statistics
    nulls = statistics.null_count if statistics is not None and statistics.has_null_count else 0
    return int(row_group.num_rows - nulls)


def _chunk_range(chunk: pq.ColumnChunkMetaData) -> Range:
    start = chunk.data_page_offset
    if chunk.has_dictionary_page and chunk.dictionary_page_offset is not None:
        start = min(start, chunk.dictionary_page_offset)
    return start, start + chunk.total_compressed_size


def _joined(batches: Iterable[pa.RecordBatch], rows: int, size: int) -> Iterator[pa.RecordBatch]:
    """Joins batches up to a number of rows, or until they have so many bytes."""
    held: list[pa.RecordBatch] = []
    held_rows = held_bytes = 0
    for batch in batches:
        if held and held_rows + batch.num_rows > rows:
            yield pa.concat_batches(held)
            held, held_rows, held_bytes = [], 0, 0
        held.append(batch)
        held_rows += batch.num_rows
        held_bytes += batch.nbytes
        if held_bytes >= size:
            # Nothing of them is held while the next are decoded.
            del batch
            yield held.pop() if len(held) == 1 else pa.concat_batches(held)
            held, held_rows, held_bytes = [], 0, 0
    if held:
        yield pa.concat_batches(held)


def _longest(column: pa.Array) -> Iterator[int]:
    """The lengths of the longest texts in the dictionaries of a column, one for each of its leaves."""
    kind = column.type
    if pa.types.is_dictionary(kind):
        yield pc.max(pc.binary_length(column.dictionary)).as_py() or 0
    elif pa.types.is_struct(kind):
        for at in range(kind.num_fields):
            yield from _longest(column.field(at))
    elif pa.types.is_nested(kind):
        yield from _longest(column.values)
    elif isinstance(column, pa.ExtensionArray):
        yield from _longest(column.storage)
    else:
        yield column.nbytes
