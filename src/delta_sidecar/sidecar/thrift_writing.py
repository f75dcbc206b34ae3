"""Thrift's compact form, written: the other way of `thrift`, whole structs or piece by piece."""

from __future__ import annotations

from typing import Any

from delta_sidecar.sidecar.thrift import (
    BINARY,
    DOUBLE,
    FALSE,
    I8,
    I16,
    I64,
    LAST,
    LIMITS,
    LIST,
    LONG,
    MAP,
    SET,
    STRUCT,
    TRUE,
    ThriftMap,
    ThriftStruct,
)


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
