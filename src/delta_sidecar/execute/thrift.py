"""Just enough of Thrift's compact form to look through what Parquet has in it, and to write a footer."""

from __future__ import annotations

from typing import Any

TRUE, FALSE, I8, I16, I32, I64, DOUBLE, BINARY, LIST, SET, MAP, STRUCT = range(1, 13)

_DEEPEST = 16
_LONG_LIST = 0x0F


class TruncatedThriftError(ValueError):
    """The bytes end before the struct does."""


class ThriftReader:
    """Reads bytes from the first one on. Of lists nothing is kept, but they can be gone through item by item.

    Its methods raise `TruncatedThriftError` where there are too few bytes, and `ValueError` where they are none of
    Thrift's.

    Attributes:
        position: Where the next byte is.
    """

    def __init__(self, data: bytes) -> None:
        self._data = data
        self.position = 0

    def struct(self, depth: int) -> dict[int, Any]:
        """Reads a struct that stands so deep in others: its fields by their numbers."""
        if depth > _DEEPEST:
            msg = "nested too deeply"
            raise ValueError(msg)
        fields: dict[int, Any] = {}
        number = 0
        while True:
            number, kind = self.field(number)
            if kind == number == 0:
                return fields
            if number in fields:
                # Which of the two counts depends on the reader.
                msg = "a field is there twice"
                raise ValueError(msg)
            fields[number] = self.value(kind, depth)

    def field(self, last: int) -> tuple[int, int]:
        """Reads the number and the type of the field after that with a number; zeros at the end of the struct."""
        head = self._byte()
        if head == 0:
            return 0, 0
        return last + (head >> 4) if head >> 4 else self._signed(), head & 0x0F

    def value(self, kind: int, depth: int) -> Any:  # noqa: ANN401 - a value of any Thrift type
        """Reads a value in a struct that stands so deep."""
        if kind in (TRUE, FALSE):
            return kind == TRUE
        if kind == I8:
            return self._byte()
        if kind in (I16, I32, I64):
            return self._signed()
        if kind == DOUBLE:
            return self._take(8)
        if kind == BINARY:
            return self._take(self._unsigned())
        if kind in (LIST, SET):
            item, count = self.list_head()
            for _ in range(count):
                self._item(item, depth)
            return None
        if kind == STRUCT:
            return self.struct(depth + 1)
        msg = f"an unknown type: {kind}"
        raise ValueError(msg)

    def list_head(self) -> tuple[int, int]:
        """Reads what a list begins with: the type of its items, and how many there are."""
        head = self._byte()
        return head & 0x0F, head >> 4 if head >> 4 != _LONG_LIST else self._unsigned()

    def _item(self, kind: int, depth: int) -> None:
        # In a list a boolean takes a byte of its own.
        if kind in (TRUE, FALSE):
            self._byte()
        else:
            self.value(kind, depth + 1)

    def _byte(self) -> int:
        if self.position >= len(self._data):
            raise TruncatedThriftError
        self.position += 1
        return self._data[self.position - 1]

    def _take(self, count: int) -> bytes:
        start = self.position
        if start + count > len(self._data):
            raise TruncatedThriftError
        self.position += count
        return self._data[start : self.position]

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


def struct_of(*fields: tuple[int, int, Any]) -> bytes:
    """Writes a struct: number, type and value of its fields, in order; a list or struct among them is written."""
    out = bytearray()
    last = 0
    for number, kind, value in fields:
        out.append(number - last << 4 | kind)
        last = number
        out += number_of(value) if kind in (I32, I64) else binary_of(value) if kind == BINARY else value
    out.append(0)
    return bytes(out)


def list_of(kind: int, items: list[bytes]) -> bytes:
    """Writes a list of items that are written."""
    head = bytes([len(items) << 4 | kind]) if len(items) < _LONG_LIST else bytes([0xF0 | kind]) + _varint(len(items))
    return head + b"".join(items)


def number_of(value: int) -> bytes:
    """Writes a whole number."""
    return _varint(value << 1 if value >= 0 else (-value << 1) - 1)


def binary_of(value: bytes) -> bytes:
    """Writes a text."""
    return _varint(len(value)) + value


def _varint(value: int) -> bytes:
    out = bytearray()
    while value > 0x7F:  # noqa: PLR2004 - seven bits a byte
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)
