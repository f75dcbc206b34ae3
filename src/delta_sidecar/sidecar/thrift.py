"""Thrift's compact form without a schema: every field is kept, with its type and in its place.

What is read can be changed and written back. What was not changed comes back byte for byte, because only the one
shortest form of everything is taken: a longer one (such as a number in more bytes than it needs) is refused.

A struct is a dict from `field(number, type)` to the value, in the order of the bytes. A value is a bool, an int, bytes
(also for the eight bytes of a double), a `ThriftList` (also for a set), a `ThriftMap` or again a dict.
"""

from __future__ import annotations

from typing import Any, NamedTuple, NoReturn

TRUE, FALSE, I8, I16, I32, I64, DOUBLE, BINARY, LIST, SET, MAP, STRUCT = range(1, 13)

DEEPEST = 32
"""How deep structs, lists and maps may stand in one another. A Parquet footer needs eight."""

ThriftStruct = dict[int, Any]


class ThriftList(NamedTuple):
    """A list or set: the type of its items, and the items."""

    kind: int
    items: list[Any]


class ThriftMap(NamedTuple):
    """A map: the types of its keys and values, and the entries. One without entries tells no types (zeros)."""

    key_kind: int
    value_kind: int
    items: list[tuple[Any, Any]]


def field(number: int, kind: int) -> int:
    """What a field with this number and of this type is found under in a struct.

    Number and type are one int: a footer has a hundred thousand fields, and as many tuples are slow to make.
    """
    return number << 4 | kind


def read_struct(data: bytes) -> ThriftStruct:
    """Reads bytes that are one struct from the first to the last.

    Raises:
        ValueError: They are not, or not in the shortest form, or nested too deeply.
    """
    try:
        value, end = _struct(data, 0, 0)
    except IndexError:
        msg = "the bytes end before the struct does"
        raise ValueError(msg) from None
    if end != len(data):
        msg = "there are bytes after the struct"
        raise ValueError(msg)
    return value


def read_binary(data: bytes, at: int) -> tuple[bytes, int]:
    """Reads the text that stands at a place, and tells the place after it.

    Raises:
        ValueError: The bytes end before it does.
    """
    try:
        length, at = _varint(data, at)
    except IndexError:
        _refuse("a number without an end")
    return _take(data, at, length)


LONG = 0x0F
LAST = 0x80
_VARINT_BYTES = 10
_BITS = {I16: 16, I32: 32, I64: 64}
LIMITS = {kind: 1 << bits for kind, bits in _BITS.items()}


def _refuse(what: str) -> NoReturn:
    msg = f"not Thrift's compact form: {what}"
    raise ValueError(msg)


def _struct(data: bytes, at: int, depth: int) -> tuple[ThriftStruct, int]:  # noqa: C901, PLR0912 - the hot loop
    if depth > DEEPEST:
        _refuse("nested too deeply")
    fields: ThriftStruct = {}
    number = 0
    while True:
        head = data[at]
        at += 1
        if head == 0:
            return fields, at
        kind, step = head & LONG, head >> 4
        if step:
            number += step
        else:
            before = number
            number, at = _signed(data, at, I16)
            if number - before <= LONG:
                _refuse("a long field head where a short one would do, or fields out of order")
        # Most of a footer is small numbers: those are read here and not in a function of their own.
        if I16 <= kind <= I64:
            raw = data[at]
            if raw < LAST:
                at += 1
                value: Any = (raw >> 1) ^ -(raw & 1)
            else:
                value, at = _signed(data, at, kind)
        elif kind == BINARY:
            length = data[at]
            at += 1
            if length >= LAST:
                length, at = _varint(data, at - 1)
            end = at + length
            value = data[at:end]
            if len(value) != length:
                _refuse("a text longer than the bytes")
            at = end
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
        length, at = _varint(data, at)
        return _take(data, at, length)
    if kind == I8:
        byte = data[at]
        return byte - 256 if byte >= LAST else byte, at + 1
    if kind == DOUBLE:
        return _take(data, at, 8)
    if kind in (TRUE, FALSE):
        if data[at] not in (TRUE, FALSE):
            _refuse("a boolean that is neither true nor false")
        return data[at] == TRUE, at + 1
    if kind == MAP:
        return _map(data, at, depth + 1)
    _refuse(f"type {kind}")


def _take(data: bytes, at: int, length: int) -> tuple[bytes, int]:
    if length > len(data) - at:
        _refuse("a text longer than the bytes")
    return data[at : at + length], at + length


def _list(data: bytes, at: int, depth: int) -> tuple[ThriftList, int]:
    if depth > DEEPEST:
        _refuse("nested too deeply")
    head = data[at]
    at += 1
    kind, count = head & LONG, head >> 4
    if count == LONG:
        count, at = _varint(data, at)
        if count < LONG:
            _refuse("a long list head where a short one would do")
    _check_count(data, at, count)
    items = []
    if kind == STRUCT:
        for _ in range(count):
            item, at = _struct(data, at, depth + 1)
            items.append(item)
    else:
        for _ in range(count):
            value, at = _value(data, at, kind, depth)
            items.append(value)
    if not count and not TRUE <= kind <= STRUCT:
        _refuse(f"type {kind}")
    return ThriftList(kind, items), at


def _map(data: bytes, at: int, depth: int) -> tuple[ThriftMap, int]:
    if depth > DEEPEST:
        _refuse("nested too deeply")
    count, at = _varint(data, at)
    if not count:
        return ThriftMap(0, 0, []), at
    _check_count(data, at, count)
    kinds = data[at]
    at += 1
    items = []
    for _ in range(count):
        key, at = _value(data, at, kinds >> 4, depth)
        value, at = _value(data, at, kinds & LONG, depth)
        items.append((key, value))
    return ThriftMap(kinds >> 4, kinds & LONG, items), at


def _check_count(data: bytes, at: int, count: int) -> None:
    # Every item takes at least one byte.
    if count > len(data) - at:
        _refuse("more items than bytes")


def _varint(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    for _ in range(_VARINT_BYTES):
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < LAST:
            if not byte and shift:
                _refuse("a number in more bytes than it needs")
            return value, at
        shift += 7
    _refuse("a number without an end")


def _signed(data: bytes, at: int, kind: int) -> tuple[int, int]:
    raw, at = _varint(data, at)
    if raw >= LIMITS[kind]:
        _refuse("a number out of range")
    return (raw >> 1) ^ -(raw & 1), at


# Thrift's compact form, written: the other way of `thrift`, whole structs or piece by piece.


def write_struct(struct: ThriftStruct) -> bytes:
    """Writes a struct."""
    out = bytearray()
    _put_struct(out, struct)
    return bytes(out)


def write_value(kind: int, value: object) -> bytes:
    """Writes one value as it stands in a list: for a footer that is written piece by piece."""
    out = bytearray()
    _put_item(out, kind, value)
    return bytes(out)


def list_head(kind: int, count: int) -> bytes:
    """What stands before the items of a list."""
    out = bytearray()
    _put_list_head(out, kind, count)
    return bytes(out)


def field_head(key: int, before: int) -> bytes:
    """What stands before the value of a field, given the field before it."""
    out = bytearray()
    _put_field_head(out, key, before >> 4)
    return bytes(out)


def _put_varint(out: bytearray, value: int) -> None:
    while value >= LAST:
        out.append(value & 0x7F | LAST)
        value >>= 7
    out.append(value)


def _put_signed(out: bytearray, value: int, kind: int) -> None:
    raw = value << 1 if value >= 0 else ~value << 1 | 1
    if raw >= LIMITS[kind]:
        msg = f"a number out of range: {value}"
        raise ValueError(msg)
    _put_varint(out, raw)


def _put_struct(out: bytearray, struct: ThriftStruct) -> None:
    before = 0
    for key, value in struct.items():
        step, kind = (key >> 4) - before, key & LONG
        before += step
        if 0 < step <= LONG and kind > FALSE:
            out.append(step << 4 | kind)
        else:
            _put_field_head(out, key if kind > FALSE else key & ~LONG | (TRUE if value else FALSE), before - step)
        if I16 <= kind <= I64 and 0 <= value < LAST >> 1:
            out.append(value << 1)
        elif kind > FALSE:
            _put_item(out, kind, value)
    out.append(0)


def _put_field_head(out: bytearray, key: int, before: int) -> None:
    number, kind = key >> 4, key & LONG
    if number <= before:
        msg = f"field {number} after field {before}"
        raise ValueError(msg)
    if number - before <= LONG:
        out.append((number - before) << 4 | kind)
    else:
        out.append(kind)
        _put_signed(out, number, I16)


def _put_list_head(out: bytearray, kind: int, count: int) -> None:
    if count < LONG:
        out.append(count << 4 | kind)
    else:
        out.append(LONG << 4 | kind)
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
    elif kind == MAP:
        _put_map(out, value)
    else:
        msg = f"not a type of Thrift: {kind}"
        raise ValueError(msg)


def _put_map(out: bytearray, value: ThriftMap) -> None:
    _put_varint(out, len(value.items))
    if value.items:
        out.append(value.key_kind << 4 | value.value_kind)
    for key, item in value.items:
        _put_item(out, value.key_kind, key)
        _put_item(out, value.value_kind, item)
