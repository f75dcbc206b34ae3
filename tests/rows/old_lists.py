"""Parquet files with the lists of older writers: the same pages under another schema.

    optional group l (LIST) { repeated group list { required int32 element } }      as Arrow writes it
    optional group l (LIST) { repeated int32 array }                                `two_levels`
    repeated int32 l                                                                `repeated`, where `l` is required

Levels of repetition and definition are the same in either, so nothing but the footer is written anew.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from delta_sidecar._thrift import BINARY, I32, LIST, STRUCT, ThriftList, ThriftStruct, field, read_struct, write_struct

if TYPE_CHECKING:
    from collections.abc import Callable

_SCHEMA = field(2, LIST)
_REPETITION, _NAME, _CONVERTED = field(3, I32), field(4, BINARY), field(6, I32)
_REPEATED = 2


def two_levels(content: bytes) -> bytes:
    """Gives a file whose lists have no group in between."""

    def change(elements: list[ThriftStruct]) -> list[ThriftStruct]:
        found = []
        for number, element in enumerate(elements):
            if element.get(_NAME) == b"list" and element.get(_REPETITION) == _REPEATED:
                inner = elements[number + 1]
                inner[_REPETITION], inner[_NAME] = _REPEATED, b"array"
            else:
                found.append(element)
        return found

    return _changed(content, change)


def repeated(content: bytes) -> bytes:
    """Gives a file whose lists are nothing but repeated."""

    def change(elements: list[ThriftStruct]) -> list[ThriftStruct]:
        found: list[ThriftStruct] = []
        for number, element in enumerate(elements):
            if element.get(_NAME) == b"list" and element.get(_REPETITION) == _REPEATED:
                inner = elements[number + 1]
                inner[_REPETITION], inner[_NAME] = _REPEATED, found.pop()[_NAME]
            else:
                found.append(element)
        return found

    return _changed(content, change)


def _changed(content: bytes, change: Callable[[list[ThriftStruct]], list[ThriftStruct]]) -> bytes:
    length = int.from_bytes(content[-8:-4], "little")
    footer = content[-8 - length : -8]
    fields = read_struct(footer)
    # Without newer annotations: the older ones say the same.
    elements = [
        {key: part for key, part in element.items() if key <= _CONVERTED} for element in change(fields[_SCHEMA].items)
    ]
    made = write_struct(fields | {_SCHEMA: ThriftList(STRUCT, elements)})
    return content[: -8 - length] + made + len(made).to_bytes(4, "little") + content[-4:]
