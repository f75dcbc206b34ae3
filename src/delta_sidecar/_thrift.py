"""Thrift's compact form without a schema: every field is kept, with its type and in its place.

What is read can be changed and written back. What was not changed comes back byte for byte, because only the one
shortest form of everything is taken: a longer one (such as a number in more bytes than it needs) is refused.

A struct is a dict from `field(number, type)` to the value, in the order of the bytes. A value is a bool, an int, bytes
(also for the eight bytes of a double), a `ThriftList` (also for a set) or again a dict. Parquet has no maps.

pyarrow reads and writes whole footers, but cannot move column chunks, join row groups or read a page header.
"""

from __future__ import annotations

from typing import Any, NamedTuple, NoReturn

TRUE, FALSE, I8, I16, I32, I64, DOUBLE, BINARY, LIST, SET, _MAP, STRUCT = range(1, 13)

DEEPEST = 32
"""The deepest nesting of structs and lists that is read. A Parquet footer needs eight."""

ThriftStruct = dict[int, Any]


class ThriftList(NamedTuple):
    """A list or set: the type of its items, and the items."""

    kind: int
    items: list[Any]


class TruncatedThriftError(ValueError):
    """The bytes end before the value does."""


def field(number: int, kind: int) -> int:
    """The key of a field in a struct.

    Number and type are one int: a footer has a hundred thousand fields, and as many tuples are slow to make.
    """
    return number << 4 | kind


def read_struct(data: bytes) -> ThriftStruct:
    """Reads bytes that are one struct from the first to the last.

    Raises:
        TruncatedThriftError: They end before the struct does.
        ValueError: They are no struct, or not in the shortest form, or nested too deeply.
    """
    value, end = read_struct_at(data, 0)
    if end != len(data):
        msg = "there are bytes after the struct"
        raise ValueError(msg)
    return value


def read_struct_at(data: bytes, at: int) -> tuple[ThriftStruct, int]:
    """Reads the struct at a place, such as a page header; returns it and the place after it.

    Raises:
        TruncatedThriftError: The bytes end before the struct does.
        ValueError: They are no struct, or not in the shortest form, or nested too deeply.
    """
    try:
        return _struct(data, at, 0)
    except IndexError:
        msg = "the bytes end before the struct does"
        raise TruncatedThriftError(msg) from None


def write_struct(struct: ThriftStruct) -> bytes:
    """Writes a struct.

    Raises:
        ValueError: Its fields are not in the order of their numbers, or a value does not fit its type.
    """
    out = bytearray()
    _put_struct(out, struct)
    return bytes(out)


def list_head(kind: int, count: int) -> bytes:
    """Writes the bytes before the items of a list."""
    out = bytearray()
    _put_list_head(out, kind, count)
    return bytes(out)


def field_head(key: int, before: int) -> bytes:
    """Writes the bytes before the value of a field; `before` is the key of the field before it, or 0."""
    out = bytearray()
    _put_field_head(out, key, before >> 4)
    return bytes(out)


_LONG = 0x0F
_LAST = 0x80
_VARINT_BYTES = 10
_LIMITS = {I16: 1 << 16, I32: 1 << 32, I64: 1 << 64}


def _refuse(what: str) -> NoReturn:
    msg = f"not Thrift's compact form: {what}"
    raise ValueError(msg)


def _truncated(what: str) -> NoReturn:
    msg = f"not Thrift's compact form: {what}"
    raise TruncatedThriftError(msg)


def _struct(data: bytes, at: int, depth: int) -> tuple[ThriftStruct, int]:
    if depth > DEEPEST:
        _refuse("nested too deeply")
    fields: ThriftStruct = {}
    number = 0
    while True:
        head = data[at]
        at += 1
        if head == 0:
            return fields, at
        kind, step = head & _LONG, head >> 4
        if step:
            number += step
        else:
            before = number
            number, at = _signed(data, at, I16)
            if number - before <= _LONG:
                _refuse("a long field head where a short one would do, or fields out of order")
        value: Any
        # Most of a footer is small numbers: those are read here and not in a function of their own.
        if I16 <= kind <= I64 and (raw := data[at]) < _LAST:
            at += 1
            value = (raw >> 1) ^ -(raw & 1)
        elif kind == BINARY:
            value, at = _binary(data, at)
        elif TRUE <= kind <= FALSE:
            value = kind == TRUE
        else:
            value, at = _value(data, at, kind, depth)
        fields[number << 4 | kind] = value


def _value(data: bytes, at: int, kind: int, depth: int) -> tuple[Any, int]:
    """One value, as it stands in a list (where a boolean takes a byte of its own)."""
    if kind == STRUCT:
        return _struct(data, at, depth + 1)
    if kind in (LIST, SET):
        return _list(data, at, depth + 1)
    if I16 <= kind <= I64:
        return _signed(data, at, kind)
    if kind == BINARY:
        return _binary(data, at)
    if kind == I8:
        byte = data[at]
        return byte - 256 if byte >= _LAST else byte, at + 1
    if kind == DOUBLE:
        return _take(data, at, 8)
    if kind in (TRUE, FALSE):
        if data[at] not in (TRUE, FALSE):
            _refuse("a boolean that is neither true nor false")
        return data[at] == TRUE, at + 1
    _refuse(f"type {kind}")


def _list(data: bytes, at: int, depth: int) -> tuple[ThriftList, int]:
    if depth > DEEPEST:
        _refuse("nested too deeply")
    head = data[at]
    at += 1
    kind, count = head & _LONG, head >> 4
    if count == _LONG:
        count, at = _varint(data, at)
        if count < _LONG:
            _refuse("a long list head where a short one would do")
    # Every item takes at least one byte.
    if count > len(data) - at:
        _truncated("more items than bytes")
    if not TRUE <= kind <= STRUCT or kind == _MAP:
        _refuse(f"type {kind}")
    items = []
    for _ in range(count):
        value, at = _value(data, at, kind, depth)
        items.append(value)
    return ThriftList(kind, items), at


def _binary(data: bytes, at: int) -> tuple[bytes, int]:
    length = data[at]
    if length < _LAST:
        return _take(data, at + 1, length)
    length, at = _varint(data, at)
    return _take(data, at, length)


def _take(data: bytes, at: int, length: int) -> tuple[bytes, int]:
    if length > len(data) - at:
        _truncated("a text longer than the bytes")
    return data[at : at + length], at + length


def _varint(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    for _ in range(_VARINT_BYTES):
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < _LAST:
            if not byte and shift:
                _refuse("a number in more bytes than it needs")
            return value, at
        shift += 7
    _refuse("a number without an end")


def _signed(data: bytes, at: int, kind: int) -> tuple[int, int]:
    raw, at = _varint(data, at)
    if raw >= _LIMITS[kind]:
        _refuse("a number out of range")
    return (raw >> 1) ^ -(raw & 1), at


def _put_varint(out: bytearray, value: int) -> None:
    while value >= _LAST:
        out.append(value & 0x7F | _LAST)
        value >>= 7
    out.append(value)


def _put_signed(out: bytearray, value: int, kind: int) -> None:
    raw = value << 1 if value >= 0 else ~value << 1 | 1
    if raw >= _LIMITS[kind]:
        msg = f"a number out of range: {value}"
        raise ValueError(msg)
    _put_varint(out, raw)


def _put_struct(out: bytearray, struct: ThriftStruct) -> None:
    before = 0
    for key, value in struct.items():
        step, kind = (key >> 4) - before, key & _LONG
        before += step
        if 0 < step <= _LONG and kind > FALSE:
            out.append(step << 4 | kind)
        else:
            _put_field_head(out, key if kind > FALSE else key & ~_LONG | (TRUE if value else FALSE), before - step)
        if I16 <= kind <= I64 and 0 <= value < _LAST >> 1:
            out.append(value << 1)
        elif kind > FALSE:
            _put_item(out, kind, value)
    out.append(0)


def _put_field_head(out: bytearray, key: int, before: int) -> None:
    number, kind = key >> 4, key & _LONG
    if number <= before:
        msg = f"field {number} after field {before}"
        raise ValueError(msg)
    if number - before <= _LONG:
        out.append((number - before) << 4 | kind)
    else:
        out.append(kind)
        _put_signed(out, number, I16)


def _put_list_head(out: bytearray, kind: int, count: int) -> None:
    if count < _LONG:
        out.append(count << 4 | kind)
    else:
        out.append(_LONG << 4 | kind)
        _put_varint(out, count)


def _put_item(out: bytearray, kind: int, value: Any) -> None:  # noqa: ANN401 - a value of any Thrift type
    if kind == STRUCT:
        _put_struct(out, value)
    elif I16 <= kind <= I64:
        _put_signed(out, value, kind)
    elif kind == BINARY:
        _put_varint(out, len(value))
        out += value
    elif kind in (LIST, SET):
        _put_list_head(out, value.kind, len(value.items))
        for item in value.items:
            _put_item(out, value.kind, item)
    elif kind in (TRUE, FALSE):
        out.append(TRUE if value else FALSE)
    elif kind == I8:
        out.append(value & 0xFF)
    elif kind == DOUBLE:
        out += value
    else:
        msg = f"not a type of Thrift: {kind}"
        raise ValueError(msg)
