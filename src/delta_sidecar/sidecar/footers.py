"""Parquet footers as Thrift trees: read, moved to another place, and put together from others."""

from __future__ import annotations

from typing import TYPE_CHECKING

from delta_sidecar.errors import SidecarError
from delta_sidecar.sidecar.thrift import BINARY, I16, I32, I64, LIST, STRUCT, ThriftList, ThriftStruct, read_struct

if TYPE_CHECKING:
    from collections.abc import Sequence

MAGIC = b"PAR1"

FOOTER_END = 8
"""Bytes after the Thrift of a footer: its length, and the magic."""

# Numbers of the fields in the structs of a footer.
FILE_VERSION, FILE_SCHEMA, FILE_ROWS, FILE_GROUPS, FILE_KEYS, FILE_WRITER, FILE_ORDERS = range(1, 8)
ELEMENT_REPETITION, ELEMENT_NAME, ELEMENT_CHILDREN = 3, 4, 5
GROUP_COLUMNS, GROUP_SIZE, GROUP_ROWS = 1, 2, 3
GROUP_OFFSET, GROUP_COMPRESSED, GROUP_ORDINAL = 5, 6, 7
CHUNK_OFFSET, CHUNK_DATA, CHUNK_OFFSET_INDEX, CHUNK_COLUMN_INDEX = 2, 3, 4, 6
DATA_PATH, DATA_UNCOMPRESSED, DATA_COMPRESSED = 3, 6, 7
DATA_PAGE, DATA_INDEX_PAGE, DATA_DICTIONARY, DATA_BLOOM_FILTER = 9, 10, 11, 14

HIGHEST_ORDINAL = 2**15 - 1


def read_footer(footer: bytes) -> ThriftStruct:
    """Reads the Thrift of a footer that comes with its length and the magic.

    Raises:
        SidecarError: It is no footer.
    """
    length = int.from_bytes(footer[-FOOTER_END : -len(MAGIC)], "little")
    if footer[-len(MAGIC) :] != MAGIC or length + FOOTER_END != len(footer):
        msg = "the footer of a piece has not the length that it tells"
        raise SidecarError(msg)
    try:
        return read_struct(footer[:-FOOTER_END])
    except ValueError as error:
        msg = f"the footer of a piece cannot be read: {error}"
        raise SidecarError(msg) from error


def sealed(thrift: bytes) -> bytes:
    """A footer's Thrift with what follows it: its length, and the magic."""
    return b"".join((thrift, len(thrift).to_bytes(4, "little"), MAGIC))


def key_value(key: bytes, value: bytes) -> ThriftStruct:
    """An entry of a footer's list of keys and values."""
    return {1: (BINARY, key), 2: (BINARY, value)}


def moved(chunk: ThriftStruct, by: int) -> ThriftStruct:
    """A column chunk whose every offset into the file is further on by a number of bytes."""
    chunk = dict(chunk)
    for number in (CHUNK_OFFSET, CHUNK_OFFSET_INDEX, CHUNK_COLUMN_INDEX):
        _move(chunk, number, by)
    data = dict(chunk[CHUNK_DATA][1])
    for number in (DATA_PAGE, DATA_INDEX_PAGE, DATA_DICTIONARY, DATA_BLOOM_FILTER):
        _move(data, number, by)
    chunk[CHUNK_DATA] = (STRUCT, data)
    return chunk


def joined_schema(elements: Sequence[ThriftStruct]) -> ThriftList:
    """A schema whose top-level columns are these."""
    root: ThriftStruct = {
        ELEMENT_REPETITION: (I32, 0),
        ELEMENT_NAME: (BINARY, b"schema"),
        ELEMENT_CHILDREN: (I32, len(elements)),
    }
    return ThriftList(STRUCT, [root, *elements])


def joined_group(columns: Sequence[ThriftStruct], num_rows: int, ordinal: int) -> ThriftStruct:
    """A row group of column chunks."""
    uncompressed = sum(column[CHUNK_DATA][1][DATA_UNCOMPRESSED][1] for column in columns)
    compressed = sum(column[CHUNK_DATA][1][DATA_COMPRESSED][1] for column in columns)
    group: ThriftStruct = {
        GROUP_COLUMNS: (LIST, ThriftList(STRUCT, list(columns))),
        GROUP_SIZE: (I64, uncompressed),
        GROUP_ROWS: (I64, num_rows),
    }
    if columns:
        group[GROUP_OFFSET] = (I64, chunk_start(columns[0]))
    group[GROUP_COMPRESSED] = (I64, compressed)
    if ordinal <= HIGHEST_ORDINAL:
        group[GROUP_ORDINAL] = (I16, ordinal)
    return group


def chunk_start(chunk: ThriftStruct) -> int:
    """Where the first page of a column chunk stands."""
    data = chunk[CHUNK_DATA][1]
    start: int = data[DATA_PAGE][1]
    return min(start, data[DATA_DICTIONARY][1]) if DATA_DICTIONARY in data else start


def _move(struct: ThriftStruct, number: int, by: int) -> None:
    # Nothing of a column stands at 0, where the magic is: there it means that the writer does not tell.
    if number in struct and struct[number][1]:
        kind, value = struct[number]
        struct[number] = (kind, value + by)
