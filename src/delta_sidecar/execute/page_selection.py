"""Chosen rows of one flat column, decoding only the pages that hold them."""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from delta_sidecar._arrow import int64s
from delta_sidecar.execute.page_headers import (
    DATA_PAGE,
    DATA_PAGE_V2,
    DICTIONARY_PAGE,
    ColumnExcerpt,
    PageHeader,
    read_page_header,
)
from delta_sidecar.execute.thrift import TruncatedThriftError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from delta_sidecar.execute.sparse_file import Range, SparseFile

_HEADER_BYTES = 512
_LONGEST_HEADER = 1 << 20
_AT_ONCE = 2 << 20

# Not INT96: `int96` reads it.
_PHYSICAL_TYPES = {"BOOLEAN": 0, "INT32": 1, "INT64": 2, "FLOAT": 4, "DOUBLE": 5, "BYTE_ARRAY": 6}
_CODECS = {"UNCOMPRESSED": 0, "SNAPPY": 1, "GZIP": 2, "BROTLI": 4, "ZSTD": 6, "LZ4_RAW": 7}
_CONVERTED_TYPES = {"UTF8": 0}
_PLAIN = ("NONE", "UTF8")


class UnusualPagesError(ValueError):
    """The pages of a column are not laid out as expected; the column is to be read in the ordinary way."""


def excerpt_of(column: pq.ColumnSchema, chunk: pq.ColumnChunkMetaData) -> ColumnExcerpt | None:
    """How to read pages of a column by themselves; None where it cannot be done."""
    kind, codec = _PHYSICAL_TYPES.get(chunk.physical_type), _CODECS.get(chunk.compression)
    if column.max_repetition_level or kind is None or codec is None or column.converted_type not in _PLAIN:
        return None
    path = tuple(column.path.split("."))
    converted = _CONVERTED_TYPES.get(column.converted_type)
    return ColumnExcerpt(path, column.max_definition_level, kind, converted, codec)


class PageReader:
    """Reads rows of one column chunk that are asked for in ascending order, and goes through its pages once."""

    def __init__(self, sparse: SparseFile, place: Range, excerpt: ColumnExcerpt, total: int) -> None:
        """Makes a reader; nothing is read yet.

        Args:
            sparse: The file.
            place: Where the chunk is.
            excerpt: How its pages are read.
            total: How many rows the chunk has.
        """
        self._sparse = sparse
        self._excerpt = excerpt
        self._total = total
        self._pages = _pages(sparse, place)
        self._page: tuple[PageHeader, int] | None = None
        self._first = 0
        self._dictionary = b""

    def take(self, rows: NDArray[np.int64]) -> pa.Array:
        """Reads rows, none of them before one that was asked for earlier.

        Raises:
            UnusualPagesError: The pages do not add up; nothing is known then.
        """
        found: list[pa.Array] = []
        held: list[bytes] = []
        spans: list[tuple[int, int]] = []
        uncompressed = 0
        while self._first <= rows[-1]:
            header, at = self._next_page()
            span = self._first, self._first + header.values
            low, high = np.searchsorted(rows, span)
            if low < high:
                held.append(self._sparse.read_at(at, at + header.length + header.compressed))
                spans.append(span)
                uncompressed += header.uncompressed
            if uncompressed > _AT_ONCE:
                found.append(_decode(self._excerpt, self._dictionary, held, spans, uncompressed, rows))
                held, spans, uncompressed = [], [], 0
            if span[1] > rows[-1]:
                break
            self._page, self._first = None, span[1]
        if held:
            found.append(_decode(self._excerpt, self._dictionary, held, spans, uncompressed, rows))
        return found[0] if len(found) == 1 else pa.concat_arrays(found)

    def finish(self) -> None:
        """Goes through the pages that are left.

        Raises:
            UnusualPagesError: They do not add up to the rows of the chunk.
        """
        while self._first < self._total:
            header, _ = self._next_page()
            self._page, self._first = None, self._first + header.values
        if self._first != self._total or next(self._pages, None) is not None:
            msg = f"pages with {self._first} values or more in a chunk with {self._total}"
            raise UnusualPagesError(msg)

    def _next_page(self) -> tuple[PageHeader, int]:
        """The data page that is under way, or the next one."""
        while self._page is None:
            header, at = next(self._pages, (None, 0))
            if header is None:
                msg = f"pages with {self._first} values in a chunk with {self._total}"
                raise UnusualPagesError(msg)
            if header.kind == DICTIONARY_PAGE:
                self._dictionary = self._sparse.read_at(at, at + header.length + header.compressed)
            elif header.kind in (DATA_PAGE, DATA_PAGE_V2):
                self._page = header, at
        return self._page


def first_headers(sparse: SparseFile, place: Range, most: int | None) -> list[PageHeader]:
    """Headers of the pages of a column chunk, up to the first that is cut off.

    Args:
        sparse: The file.
        place: Where the chunk is.
        most: So many at most; None for all.

    Raises:
        pa.ArrowInvalid: There is something else than a page.
    """
    found: list[PageHeader] = []
    try:
        found.extend(header for header, _ in islice(_pages(sparse, place), most))
    except UnusualPagesError as error:
        if error.__cause__ is not None and not isinstance(error.__cause__, TruncatedThriftError):
            raise pa.ArrowInvalid(str(error)) from error
    return found


def _pages(sparse: SparseFile, place: Range) -> Iterator[tuple[PageHeader, int]]:
    position, end = place
    while position < end:
        header = _header(sparse, position, end)
        yield header, position
        position += header.length + header.compressed
    if position != end:
        msg = "a page runs over the end of its chunk"
        raise UnusualPagesError(msg)


def _header(sparse: SparseFile, position: int, end: int) -> PageHeader:
    length = _HEADER_BYTES
    while True:
        data = sparse.read_at(position, min(position + length, end))
        try:
            return read_page_header(data)
        except TruncatedThriftError as error:
            if len(data) < length or length >= _LONGEST_HEADER:
                raise UnusualPagesError(str(error)) from error
            length *= 4
        except ValueError as error:
            raise UnusualPagesError(str(error)) from error


def _decode(
    excerpt: ColumnExcerpt,
    dictionary: bytes,
    pages: list[bytes],
    spans: list[tuple[int, int]],
    uncompressed: int,
    rows: NDArray[np.int64],
) -> pa.Array:
    """The chosen rows of some pages."""
    values = sum(end - start for start, end in spans)
    data = excerpt.file(dictionary, pages, values, uncompressed)
    column = pq.ParquetFile(pa.BufferReader(data)).read(use_threads=False).column(0).combine_chunks()
    for name in excerpt.path[1:]:
        column = column.flatten()[column.type.get_field_index(name)]
    if len(column) != values:
        msg = f"{len(column)} rows in pages that announce {values}"
        raise UnusualPagesError(msg)
    places = []
    before = 0
    for start, end in spans:
        low, high = np.searchsorted(rows, (start, end))
        places.append(rows[low:high] - start + before)
        before += end - start
    return column.take(int64s(np.concatenate(places)))
