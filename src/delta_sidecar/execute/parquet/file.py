"""The rows of one Parquet file of a store, by bounded batches."""

from __future__ import annotations

import threading
from dataclasses import dataclass
from functools import cached_property, partial
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from delta_sidecar.execute.parquet.footer import Footer, Layout, plain_batch
from delta_sidecar.execute.parquet.pages import (
    DATA_PAGE,
    DATA_PAGE_V2,
    DICTIONARY_PAGE,
    PageReader,
    excerpt_of,
    first_headers,
)
from delta_sidecar.execute.parquet.sparse import Range, SparseFile, Window
from delta_sidecar.execute.parquet.times import with_fixed_bytes

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
    from concurrent.futures import ThreadPoolExecutor

    from delta_sidecar.execute.parquet.pages import PageHeader
    from delta_sidecar.store import Store

    Longest = Callable[[Sequence[int]], Sequence[int]]
    Pages = Callable[[int], Sequence[PageHeader]]


BATCH_BYTES = 1 << 20
HELD_BYTES = 8 << 20
MOST_PAGE_BYTES = 256 << 20
"""A larger page of a checkpoint is not decoded; writers make pages of a megabyte or so."""

_MOST_ROWS = 16_384
_FEWEST_ROWS = 1_024


@dataclass(frozen=True, slots=True)
class BatchSize:
    """How large a decoded batch may be.

    Attributes:
        most_rows: At most so many rows.
        bytes: About so many bytes, by the row group's own word on its size.
        fewest_rows: So many rows at least, however large they are.
    """

    most_rows: int = _MOST_ROWS
    bytes: int = BATCH_BYTES
    fewest_rows: int = _FEWEST_ROWS


class ParquetRows:
    """Reads chosen columns of a file, row group by row group."""

    def __init__(
        self,
        store: Store,
        path: str,
        footer: Footer,
        pool: ThreadPoolExecutor,
        size: BatchSize | None = None,
        layout: Layout | None = None,
    ) -> None:
        self._size = size or BatchSize()
        self._store = store
        self._path = path
        self._footer = footer
        self._pool = pool
        self._layout = layout or Layout.of(footer.metadata)
        self._leaves = self._layout.leaves
        self._fixed_bytes: pq.FileMetaData | None = None
        self._lock = threading.Lock()
        self._steps: dict[tuple[int, tuple[int, ...]], int] = {}

    def leaves(self, columns: Sequence[str]) -> list[int]:
        """Indices of the file's leaf columns that are these columns or below them."""
        return sorted({leaf for name in columns for leaf in self._below.get(name, ())})

    @cached_property
    def _below(self) -> dict[str, list[int]]:
        """The leaf columns by their names and by those of all that they are in; where a name has dots is not known."""
        found: dict[str, list[int]] = {}
        for number, leaf in enumerate(self._leaves):
            end = len(leaf)
            while end >= 0:
                found.setdefault(leaf[:end], []).append(number)
                end = leaf.rfind(".", 0, end)
        return found

    def row_groups(self, non_null: Sequence[str]) -> list[int]:
        """The row groups where one of some columns has a value, as far as statistics tell."""
        metadata = self._footer.metadata
        wanted = self.leaves(non_null)
        if non_null and not wanted:
            return []
        return [
            group
            for group in range(metadata.num_row_groups)
            if metadata.row_group(group).num_rows
            and (not wanted or any(_has_values(metadata.row_group(group), leaf) for leaf in wanted))
        ]

    def has_values(self, group: int, column: str) -> bool:
        """Whether a column, or one below it, has a value in a row group, as far as statistics tell."""
        row_group = self._footer.metadata.row_group(group)
        return any(_has_values(row_group, leaf) for leaf in self.leaves([column]))

    def most_values(self, group: int, columns: Sequence[str]) -> int:
        """How many rows of a row group have a value in one of some columns, at most; without columns, all."""
        row_group = self._footer.metadata.row_group(group)
        counts = [_values(row_group, leaf) for leaf in self.leaves(columns)]
        return min(sum(counts), self.num_rows(group)) if counts else self.num_rows(group)

    def has_fewer_values(self, group: int, column: str, beside: str) -> bool:
        """Whether a column has more nulls than another in a row group, or it cannot be told."""
        row_group = self._footer.metadata.row_group(group)
        counts = []
        for name in (column, beside):
            leaf = self._leaves.index(name) if name in self._leaves else None
            statistics = None if leaf is None else row_group.column(leaf).statistics
            if statistics is None or not statistics.has_null_count:
                return True
            counts.append(statistics.null_count)
        return bool(counts[0] > counts[1])

    def uncompressed_bytes(self, group: int, columns: Sequence[str]) -> int:
        """The size of chosen columns of a row group once they are decompressed."""
        row_group = self._footer.metadata.row_group(group)
        return sum(row_group.column(leaf).total_uncompressed_size for leaf in self.leaves(columns))

    def num_rows(self, group: int) -> int:
        """How many rows a row group has."""
        return int(self._footer.metadata.row_group(group).num_rows)

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
            ranges, windows = self._places(group, self.leaves(columns), first_rows, self.leaves(whole))
            sparse.load(ranges, windows)
        return sparse

    def held_bytes(self, group: int, columns: Sequence[str]) -> int:
        """About how much `fetch` holds of chosen columns."""
        row_group = self._footer.metadata.row_group(group)
        return int(min(HELD_BYTES, sum(row_group.column(leaf).total_compressed_size for leaf in self.leaves(columns))))

    def batches(
        self, group: int, columns: Sequence[str], fetched: SparseFile | None = None
    ) -> Iterator[pa.RecordBatch]:
        """Reads chosen columns of a row group.

        Args:
            group: The row group.
            columns: Dotted names.
            fetched: The file with these columns fetched; by default they are fetched now.
        """
        leaves = self.leaves(columns)
        is_large = self._footer.metadata.row_group(group).total_byte_size > _LARGE
        whole = self._footer.whole if fetched is None else None
        sparse = None if whole is not None else fetched or self.fetch(group, columns)
        source = partial(pa.BufferReader, whole) if sparse is None else partial(pa.PythonFile, sparse, mode="r")
        try:
            rows = self.batch_rows(group, columns)
            step = self._step(source, group, leaves, rows) if fetched is None else self._step_of(group, leaves, fetched)
            decoded = self._decoded(source, group, leaves, step)
            yield from decoded if step == rows else put_together(decoded, rows, self._size.bytes)
        finally:
            if fetched is None and sparse is not None:
                sparse.close()
            if is_large:
                pa.default_memory_pool().release_unused()

    def swells(self, group: int, columns: Sequence[str], fetched: SparseFile) -> bool:
        """Whether the rows of a batch may take far more room than the footer says.

        Args:
            group: The row group.
            columns: Dotted names.
            fetched: The file with these columns fetched.
        """
        return self._step_of(group, self.leaves(columns), fetched) < self.batch_rows(group, columns)

    def _decoded(
        self, source: Callable[[], pa.NativeFile], group: int, leaves: Sequence[int], rows: int
    ) -> Iterator[pa.RecordBatch]:
        with_int96 = not self._layout.int96.isdisjoint(leaves)
        is_large = self._footer.metadata.row_group(group).total_byte_size > _LARGE
        file = pq.ParquetFile(
            source(),
            metadata=self._for_int96() if with_int96 else self._footer.metadata,
            pre_buffer=False,
            buffer_size=self._buffer_size(leaves),
        )
        found = 0
        for batch in file.iter_batches(rows, row_groups=[group], columns=self._paths(leaves), use_threads=False):
            found += batch.num_rows
            understood = self._layout.times.understood(batch, with_int96=with_int96)
            del batch
            # Arrow's allocator keeps what a thread frees; over a long file that adds up. Much is freed by decoding, and
            # much by who takes the batch.
            if is_large:
                pa.default_memory_pool().release_unused()
            yield understood if self._layout.is_plain else plain_batch(understood)
            del understood
            if is_large:
                pa.default_memory_pool().release_unused()
        if found != self.num_rows(group):
            # A damaged page may end a column early without an error.
            msg = f"row group {group} ends after {found} of {self.num_rows(group)} rows"
            raise pa.ArrowInvalid(msg)

    def _step(self, source: Callable[[], pa.NativeFile], group: int, leaves: Sequence[int], rows: int) -> int:
        """How many rows of a row group are decoded at once, of those that make a batch."""
        row_group = self._footer.metadata.row_group(group)
        most = 2 * self._size.bytes
        if self._layout.is_flat and row_group.num_rows * (row_group.total_byte_size + 8 * len(leaves)) <= most:
            return rows
        longest = self._longest(source, group)
        return rows_of_a_step(self._footer.metadata, group, leaves, rows, most, longest)

    def _step_of(self, group: int, leaves: Sequence[int], fetched: SparseFile) -> int:
        """The same for columns that were fetched before: what a footer says of their size is not relied on."""
        key = group, tuple(leaves)
        step = self._steps.get(key)
        if step is None:
            longest = self._longest(partial(pa.PythonFile, fetched, mode="r"), group)
            pages = partial(self._pages, group, fetched)
            rows = self.batch_rows(group, self._paths(leaves))
            expected = rows * self.uncompressed_bytes(group, self._paths(leaves)) // max(1, self.num_rows(group))
            most = min(MOST_PAGE_BYTES, max(_DECODED_BYTES, 2 * expected))
            step = rows_of_a_step(self._footer.metadata, group, leaves, rows, most, longest, pages)
            # A row group with fewer rows than a batch takes one step.
            step = self._steps[key] = rows if step >= self.num_rows(group) else step
        return step

    def _pages(self, group: int, fetched: SparseFile, leaf: int) -> list[PageHeader]:
        """Headers of the pages of a column: all where they may decompress to much, else the first.

        Raises:
            pa.ArrowMemoryError: A page is too large.
        """
        chunk = self._footer.metadata.row_group(group).column(leaf)
        place = _chunk_range(chunk)
        most = _MOST_TIMES.get(chunk.compression, _ANY_TIMES) * chunk.total_compressed_size
        # A window that was moved on would be fetched again.
        some = None if most > _DECODED_BYTES and not fetched.has_windows else 1
        headers = first_headers(fetched, place, some)
        largest = max((header.uncompressed for header in headers), default=0)
        if largest > MOST_PAGE_BYTES:
            msg = f"column {self._leaves[leaf]} has a page of {largest:,} bytes; at most {MOST_PAGE_BYTES:,} are read"
            raise pa.ArrowMemoryError(msg)
        return headers

    def _longest(self, source: Callable[[], pa.NativeFile], group: int) -> Callable[[Sequence[int]], list[int]]:
        """Tells how long the longest texts in the dictionaries of some columns are."""

        def longest(doubtful: Sequence[int]) -> list[int]:
            paths = self._paths(doubtful)
            file = pq.ParquetFile(
                source(),
                metadata=self._footer.metadata,
                pre_buffer=False,
                buffer_size=self._buffer_size(doubtful),
                read_dictionary=paths,
            )
            first = next(file.iter_batches(1, row_groups=[group], columns=paths, use_threads=False), None)
            return [0] * len(paths) if first is None else longest_texts(first)

        return longest

    def _paths(self, leaves: Sequence[int]) -> list[str]:
        return [self._leaves[leaf] for leaf in leaves]

    def _buffer_size(self, leaves: Sequence[int]) -> int:
        return max(_NARROWEST, min(_SLICE_BYTES, HELD_BYTES // (2 * len(leaves) or 1)))

    def pages(self, group: int, leaf: int, fetched: SparseFile) -> PageReader | None:
        """A reader of the pages of a large flat column; None where the ordinary way is as good."""
        chunk = self._footer.metadata.row_group(group).column(leaf)
        excerpt = excerpt_of(self._footer.metadata.schema.column(leaf), chunk)
        if excerpt is None or len(excerpt.path) != _NESTED or chunk.total_uncompressed_size < _LARGE:
            return None
        return PageReader(fetched, _chunk_range(chunk), excerpt, self.num_rows(group))

    def name(self, leaf: int) -> str:
        """The dotted name of a leaf column."""
        return str(self._leaves[leaf])

    def batch_rows(self, group: int, columns: Sequence[str]) -> int:
        """How many rows of a row group decode to a few megabytes."""
        if self._footer.metadata.row_group(group).total_byte_size <= self._size.bytes:
            return self._size.most_rows
        a_row = self.uncompressed_bytes(group, columns) / max(1, self.num_rows(group))
        return min(self._size.most_rows, max(self._size.fewest_rows, int(self._size.bytes / max(1.0, a_row))))

    def _for_int96(self) -> pq.FileMetaData:
        """The footer by which INT96 columns are read; it is made once."""
        with self._lock:
            if self._fixed_bytes is None:
                self._fixed_bytes = with_fixed_bytes(self._footer.metadata)
            return self._fixed_bytes

    def _places(
        self, group: int, leaves: Sequence[int], first_rows: int, whole: Sequence[int]
    ) -> tuple[list[Range], list[Window]]:
        """What of some columns is held whole, and what is read through windows."""
        chunks = {leaf: self._footer.metadata.row_group(group).column(leaf) for leaf in leaves}
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


# Decompression makes so many times as much of some bytes, at most; of others there is no telling.
_MOST_TIMES = {"UNCOMPRESSED": 1, "SNAPPY": 22}
_ANY_TIMES = 1 << 40
_DECODED_BYTES = 32 << 20
_LARGE = 256 << 10
_NARROWEST = 32 << 10
_SLICE_BYTES = 256 << 10
_TOGETHER = 16 << 20
_TOGETHER_WHOLE = 32 << 20
_PAGE = 1 << 20
_NESTED = 2


def _beginnings(chunks: Mapping[int, pq.ColumnChunkMetaData], share: float) -> dict[int, int]:
    """How much of large columns is fetched for a share of their rows: their dictionaries, and some pages."""
    needed = {}
    for leaf, chunk in chunks.items():
        start, end = _chunk_range(chunk)
        needed[leaf] = chunk.data_page_offset - start + int((end - chunk.data_page_offset) * share)
    total = sum(needed.values())
    # The last of the rows may be the first one of a page.
    page = min(_PAGE, max(0, _TOGETHER - total) // max(1, len(chunks)))
    scale = min(1.0, _TOGETHER / max(1, total))
    return {leaf: int(size * scale) + page for leaf, size in needed.items()}


def _has_values(row_group: pq.RowGroupMetaData, leaf: int) -> bool:
    return _values(row_group, leaf) > 0


def _values(row_group: pq.RowGroupMetaData, leaf: int) -> int:
    """How many values a column has, at most."""
    statistics = row_group.column(leaf).statistics
    nulls = statistics.null_count if statistics is not None and statistics.has_null_count else 0
    return int(row_group.num_rows - nulls)


def _chunk_range(chunk: pq.ColumnChunkMetaData) -> Range:
    start = chunk.data_page_offset
    if chunk.has_dictionary_page and chunk.dictionary_page_offset is not None:
        start = min(start, chunk.dictionary_page_offset)
    return start, start + chunk.total_compressed_size


# Rows that take far more room in memory than in their file: how many of them to decode at once.
#
# A text that is stored once, in a dictionary, may stand in every row; a list of a million equal numbers takes a few
# bytes. So the size of a row group says little of what comes out of it. What a footer and its dictionaries say is the
# most that a row can come to: so many rows are decoded in a step that even the longest texts fit, and steps are put
# together again as long as they are small.


_WIDTHS = {"BOOLEAN": 1, "INT32": 4, "FLOAT": 4}
_WIDTH = 8
# Each of these texts may begin with all of the text before it.
_SHARING, _SHARING_ROWS = "DELTA_BYTE_ARRAY", 128


def rows_of_a_step(
    metadata: pq.FileMetaData,
    group: int,
    leaves: Sequence[int],
    rows: int,
    most_bytes: int,
    longest: Longest,
    pages: Pages | None = None,
) -> int:
    """How many rows can be decoded at once, so that they take no more than some bytes.

    Args:
        metadata: The file's footer.
        group: The row group.
        leaves: Numbers of the columns that are decoded.
        rows: So many at most.
        most_bytes: So many bytes, roughly; a single row may take more.
        longest: Tells how long the longest texts in the dictionaries of some columns are.
        pages: Gives headers of the pages of a column; None where the footer is believed.
    """
    row_group = metadata.row_group(group)
    rows = min(rows, max(1, row_group.num_rows))
    of_a_row, doubtful = 0.0, []
    for leaf in leaves:
        chunk = row_group.column(leaf)
        values = max(1.0, chunk.num_values / max(1, row_group.num_rows))
        is_text = chunk.physical_type == "BYTE_ARRAY"
        of_a_row += values * max(metadata.schema.column(leaf).length, _WIDTHS.get(chunk.physical_type, _WIDTH))
        size, is_shared = chunk.total_uncompressed_size, chunk.has_dictionary_page
        of_a_value = 0.0
        for page in pages(leaf) if pages is not None else ():
            if page.kind == DICTIONARY_PAGE:
                size, is_shared = page.uncompressed, True
            elif is_text and page.kind in (DATA_PAGE, DATA_PAGE_V2):
                of_a_value = max(of_a_value, page.uncompressed / max(1, page.values))
        of_a_row += values * of_a_value
        if is_text and is_shared and rows * values * size > most_bytes:
            doubtful.append((leaf, values))
        elif is_text and _SHARING in chunk.encodings:
            rows = min(rows, _SHARING_ROWS)
    if doubtful:
        found = longest([leaf for leaf, _ in doubtful])
        of_a_row += sum(length * values for length, (_, values) in zip(found, doubtful, strict=True))
    return max(1, min(rows, int(most_bytes / max(1.0, of_a_row))))


def longest_texts(batch: pa.RecordBatch) -> list[int]:
    """How long the longest text of each leaf is, of columns that were read as dictionaries as far as they can be."""
    return [length for column in batch.columns for length in _longest(column)]


def put_together(batches: Iterable[pa.RecordBatch], rows: int, size: int) -> Iterator[pa.RecordBatch]:
    """Puts batches together that come one after another.

    Args:
        batches: The batches.
        rows: At most so many rows in one, unless they come so.
        size: It is given out as soon as it has so many bytes.
    """
    held: list[pa.RecordBatch] = []
    held_rows = held_bytes = 0
    for batch in batches:
        if held and held_rows + batch.num_rows > rows:
            yield _one(held)
            held, held_rows, held_bytes = [], 0, 0
        held.append(batch)
        held_rows += batch.num_rows
        held_bytes += batch.nbytes
        if held_bytes >= size:
            yield _one(held)
            held, held_rows, held_bytes = [], 0, 0
    if held:
        yield _one(held)


def _one(batches: list[pa.RecordBatch]) -> pa.RecordBatch:
    return batches[0] if len(batches) == 1 else pa.concat_batches(batches)


def _longest(column: pa.Array) -> Iterator[int]:
    kind = column.type
    if pa.types.is_dictionary(kind):
        yield pc.max(pc.binary_length(column.dictionary)).as_py() or 0
    elif pa.types.is_struct(kind):
        for at in range(kind.num_fields):
            yield from _longest(column.field(at))
    elif pa.types.is_map(kind):
        yield from _longest(column.keys)
        yield from _longest(column.items)
    elif pa.types.is_nested(kind):
        yield from _longest(column.values)
    elif isinstance(column, pa.ExtensionArray):
        yield from _longest(column.storage)
    else:
        yield column.nbytes
