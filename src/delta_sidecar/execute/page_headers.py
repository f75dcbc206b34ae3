"""Headers of Parquet pages, and footers for a few pages taken out of a column: just enough of Thrift's compact form.

A page header says how large its page is and how many values it holds, so that pages without a wanted row can be passed
over unread.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

DATA_PAGE, INDEX_PAGE, DICTIONARY_PAGE, DATA_PAGE_V2 = 0, 1, 2, 3

_TRUE, _FALSE, _I8, _I16, _I32, _I64, _DOUBLE, _BINARY, _LIST, _SET, _MAP, _STRUCT = range(1, 13)
_INNER = {DATA_PAGE: 5, DICTIONARY_PAGE: 7, DATA_PAGE_V2: 8}
_SIZES = 4
_DEEPEST = 16
_LONG_LIST = 0x0F


class TruncatedHeaderError(ValueError):
    """The bytes end before the header does."""


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
        TruncatedHeaderError: There are too few bytes.
        ValueError: They are no page header.
    """
    reader = _Reader(data)
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
        schema = [_struct((4, _BINARY, b"schema"), (5, _I32, 1))]
        for depth, name in enumerate(self.path, start=1):
            repetition = (3, _I32, 1 if depth <= self.optional else 0)
            if depth < len(self.path):
                schema.append(_struct(repetition, (4, _BINARY, name.encode()), (5, _I32, 1)))
                continue
            leaf = [(1, _I32, self.physical_type), repetition, (4, _BINARY, name.encode())]
            if self.converted_type is not None:
                leaf.append((6, _I32, self.converted_type))
            schema.append(_struct(*leaf))
        column = [
            (1, _I32, self.physical_type),
            (2, _LIST, _list(_I32, [_zigzag(0)])),
            (3, _LIST, _list(_BINARY, [_binary(name.encode()) for name in self.path])),
            (4, _I32, self.codec),
            (5, _I64, values),
            (6, _I64, uncompressed),
            (7, _I64, size),
            (9, _I64, 4 + dictionary),
        ]
        if dictionary:
            column.append((11, _I64, 4))
        chunk = _struct((2, _I64, 4), (3, _STRUCT, _struct(*column)))
        group = _struct((1, _LIST, _list(_STRUCT, [chunk])), (2, _I64, uncompressed), (3, _I64, values))
        return _struct(
            (1, _I32, 1), (2, _LIST, _list(_STRUCT, schema)), (3, _I64, values), (4, _LIST, _list(_STRUCT, [group]))
        )


class _Reader:
    def __init__(self, data: bytes) -> None:
        self._data = data
        self.position = 0

    def struct(self, depth: int) -> dict[int, Any]:
        if depth > _DEEPEST:
            msg = "nested too deeply"
            raise ValueError(msg)
        fields: dict[int, Any] = {}
        number = 0
        while True:
            head = self._byte()
            if head == 0:
                return fields
            kind = head & 0x0F
            number = number + (head >> 4) if head >> 4 else self._signed()
            fields[number] = self._value(kind, depth)

    def _value(self, kind: int, depth: int) -> Any:  # noqa: ANN401 - a value of any Thrift type
        if kind in (_TRUE, _FALSE):
            return kind == _TRUE
        if kind == _I8:
            return self._byte()
        if kind in (_I16, _I32, _I64):
            return self._signed()
        if kind == _DOUBLE:
            return self._skip(8)
        if kind == _BINARY:
            return self._skip(self._unsigned())
        if kind in (_LIST, _SET):
            head = self._byte()
            count = head >> 4 if head >> 4 != _LONG_LIST else self._unsigned()
            for _ in range(count):
                self._element(head & 0x0F, depth)
            return None
        if kind == _STRUCT:
            return self.struct(depth + 1)
        msg = f"an unknown type: {kind}"
        raise ValueError(msg)

    def _element(self, kind: int, depth: int) -> None:
        # In a list a boolean takes a byte of its own.
        if kind in (_TRUE, _FALSE):
            self._byte()
        else:
            self._value(kind, depth + 1)

    def _byte(self) -> int:
        if self.position >= len(self._data):
            raise TruncatedHeaderError
        self.position += 1
        return self._data[self.position - 1]

    def _skip(self, count: int) -> None:
        if self.position + count > len(self._data):
            raise TruncatedHeaderError
        self.position += count

    def _unsigned(self) -> int:
        value = shift = 0
        while True:
            byte = self._byte()
            value |= (byte & 0x7F) << shift
            if byte < 0x80:  # noqa: PLR2004 - the last byte of a varint
                return value
            shift += 7

    def _signed(self) -> int:
        value = self._unsigned()
        return (value >> 1) ^ -(value & 1)


def _varint(value: int) -> bytes:
    out = bytearray()
    while value > 0x7F:  # noqa: PLR2004 - seven bits a byte
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def _zigzag(value: int) -> bytes:
    return _varint(value << 1 if value >= 0 else (-value << 1) - 1)


def _binary(value: bytes) -> bytes:
    return _varint(len(value)) + value


def _list(kind: int, items: list[bytes]) -> bytes:
    head = bytes([len(items) << 4 | kind]) if len(items) < _LONG_LIST else bytes([0xF0 | kind]) + _varint(len(items))
    return head + b"".join(items)


def _struct(*fields: tuple[int, int, Any]) -> bytes:
    out = bytearray()
    last = 0
    for number, kind, value in fields:
        out.append(number - last << 4 | kind)
        last = number
        out += _zigzag(value) if kind in (_I32, _I64) else _binary(value) if kind == _BINARY else value
    out.append(0)
    return bytes(out)
