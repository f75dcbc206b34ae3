"""Headers of Parquet pages, and footers for a few pages taken out of a column.

A page header says how large its page is and how many values it holds, so that pages without a wanted row can be passed
over unread.
"""

from __future__ import annotations

from dataclasses import dataclass

from delta_sidecar.execute.thrift import (
    BINARY,
    I32,
    I64,
    LIST,
    STRUCT,
    ThriftReader,
    binary_of,
    list_of,
    number_of,
    struct_of,
)

DATA_PAGE, INDEX_PAGE, DICTIONARY_PAGE, DATA_PAGE_V2 = 0, 1, 2, 3

_INNER = {DATA_PAGE: 5, DICTIONARY_PAGE: 7, DATA_PAGE_V2: 8}
_SIZES = 4


@dataclass(frozen=True, slots=True)
class PageHeader:
    """A page header.

    Attributes:
        kind: Which kind of page follows.
        length: Bytes of the header itself.
        compressed: Bytes of the page after it.
        uncompressed: Bytes of the page once it is decompressed.
        values: How many values it holds, nulls included.
    """

    kind: int
    length: int
    compressed: int
    uncompressed: int
    values: int


def read_page_header(data: bytes) -> PageHeader:
    """Reads the header that the bytes start with.

    Raises:
        TruncatedThriftError: There are too few bytes.
        ValueError: They are no page header.
    """
    reader = ThriftReader(data)
    fields = reader.struct(0)
    kind, uncompressed, compressed = fields.get(1), fields.get(2), fields.get(3)
    inner = fields.get(_INNER.get(kind, 0) if isinstance(kind, int) else 0, {1: 0})
    values = inner.get(1) if isinstance(inner, dict) else None
    sizes = [size for size in (kind, compressed, uncompressed, values) if isinstance(size, int) and size >= 0]
    if len(sizes) < _SIZES:
        msg = "not a page header"
        raise ValueError(msg)
    return PageHeader(sizes[0], reader.position, *sizes[1:])


@dataclass(frozen=True, slots=True)
class ColumnExcerpt:
    """Pages of one column, to be read as a file of their own.

    Attributes:
        path: Names from the top of the schema down to the column.
        optional: How many of these may be null, from the top.
        physical_type: Number of the Parquet type.
        converted_type: Number of the converted type; None for none.
        codec: Number of the compression codec.
    """

    path: tuple[str, ...]
    optional: int
    physical_type: int
    converted_type: int | None
    codec: int

    def file(self, dictionary: bytes, pages: list[bytes], values: int, uncompressed: int) -> bytes:
        """Makes a complete Parquet file of whole pages, each with its header."""
        body = b"PAR1" + dictionary + b"".join(pages)
        footer = self._footer(len(dictionary), len(body) - 4, values, uncompressed)
        return b"".join((body, footer, len(footer).to_bytes(4, "little"), b"PAR1"))

    def _footer(self, dictionary: int, size: int, values: int, uncompressed: int) -> bytes:
        schema = [struct_of((4, BINARY, b"schema"), (5, I32, 1))]
        for depth, name in enumerate(self.path, start=1):
            repetition = (3, I32, 1 if depth <= self.optional else 0)
            if depth < len(self.path):
                schema.append(struct_of(repetition, (4, BINARY, name.encode()), (5, I32, 1)))
                continue
            leaf = [(1, I32, self.physical_type), repetition, (4, BINARY, name.encode())]
            if self.converted_type is not None:
                leaf.append((6, I32, self.converted_type))
            schema.append(struct_of(*leaf))
        column = [
            (1, I32, self.physical_type),
            (2, LIST, list_of(I32, [number_of(0)])),
            (3, LIST, list_of(BINARY, [binary_of(name.encode()) for name in self.path])),
            (4, I32, self.codec),
            (5, I64, values),
            (6, I64, uncompressed),
            (7, I64, size),
            (9, I64, 4 + dictionary),
        ]
        if dictionary:
            column.append((11, I64, 4))
        chunk = struct_of((2, I64, 4), (3, STRUCT, struct_of(*column)))
        group = struct_of((1, LIST, list_of(STRUCT, [chunk])), (2, I64, uncompressed), (3, I64, values))
        return struct_of(
            (1, I32, 1), (2, LIST, list_of(STRUCT, schema)), (3, I64, values), (4, LIST, list_of(STRUCT, [group]))
        )
