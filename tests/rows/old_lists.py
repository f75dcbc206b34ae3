"""Parquet files with the lists of older writers: the same pages under another schema.

    optional group l (LIST) { repeated group list { required int32 element } }      as Arrow writes it
    optional group l (LIST) { repeated int32 array }                                `two_levels`
    repeated int32 l                                                                `repeated`, where `l` is required

Levels of repetition and definition are the same in either, so nothing but the footer is written anew.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from delta_sidecar.execute.parquet.pages import BINARY, I32, LIST, STRUCT, ThriftReader, list_of, struct_of

if TYPE_CHECKING:
    from collections.abc import Callable

_SCHEMA = 2
_TYPE, _LENGTH, _REPETITION, _NAME, _CHILDREN, _CONVERTED = range(1, 7)
_KINDS = {_NAME: BINARY}
_REPEATED = 2

Element = dict[int, Any]


def two_levels(content: bytes) -> bytes:
    """Gives a file whose lists have no group in between."""

    def change(elements: list[Element]) -> list[Element]:
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

    def change(elements: list[Element]) -> list[Element]:
        found: list[Element] = []
        for number, element in enumerate(elements):
            if element.get(_NAME) == b"list" and element.get(_REPETITION) == _REPEATED:
                inner = elements[number + 1]
                inner[_REPETITION], inner[_NAME] = _REPEATED, found.pop()[_NAME]
            else:
                found.append(element)
        return found

    return _changed(content, change)


def _changed(content: bytes, change: Callable[[list[Element]], list[Element]]) -> bytes:
    length = int.from_bytes(content[-8:-4], "little")
    footer = content[-8 - length : -8]
    reader = ThriftReader(footer)
    number = kind = 0
    while (number, kind) != (_SCHEMA, LIST):
        if number:
            reader.value(kind, 0)
        number, kind = reader.field(number)
    start = reader.position
    elements = change([reader.struct(1) for _ in range(reader.list_head()[1])])
    made = footer[:start] + list_of(STRUCT, [_written(element) for element in elements]) + footer[reader.position :]
    return content[: -8 - length] + made + len(made).to_bytes(4, "little") + content[-4:]


def _written(element: Element) -> bytes:
    """Writes an element, without its newer annotations: the older ones say the same."""
    kept = sorted(number for number in element if number <= _CONVERTED)
    return struct_of(*((number, _KINDS.get(number, I32), element[number]) for number in kept))
