"""Parquet footers as Thrift trees: read, moved to another place, and put together from others."""

from __future__ import annotations

from typing import TYPE_CHECKING

from delta_sidecar._thrift import (
    BINARY,
    I16,
    I32,
    I64,
    LIST,
    STRUCT,
    ThriftList,
    ThriftStruct,
    field,
    read_struct,
)
from delta_sidecar.errors import SidecarError
from delta_sidecar.sidecar.schema import FORMAT_VERSION

if TYPE_CHECKING:
    from collections.abc import Sequence

MAGIC = b"PAR1"

CREATED_BY = f"delta-sidecar version {FORMAT_VERSION}".encode()
"""The writer that footers name: bytes do not depend on the release of the library that made the pages."""

FOOTER_END = 8
"""Bytes after the Thrift of a footer: its length, and the magic."""

# The fields of the structs of a footer.
FILE_VERSION, FILE_SCHEMA, FILE_ROWS = field(1, I32), field(2, LIST), field(3, I64)
FILE_GROUPS, FILE_KEYS, FILE_WRITER, FILE_ORDERS = field(4, LIST), field(5, LIST), field(6, BINARY), field(7, LIST)
ELEMENT_REPETITION, ELEMENT_NAME, ELEMENT_CHILDREN = field(3, I32), field(4, BINARY), field(5, I32)
KEY, VALUE = field(1, BINARY), field(2, BINARY)
GROUP_COLUMNS, GROUP_SIZE, GROUP_ROWS = field(1, LIST), field(2, I64), field(3, I64)
GROUP_OFFSET, GROUP_COMPRESSED, GROUP_ORDINAL = field(5, I64), field(6, I64), field(7, I16)
CHUNK_OFFSET, CHUNK_DATA = field(2, I64), field(3, STRUCT)
CHUNK_OFFSET_INDEX, CHUNK_COLUMN_INDEX = field(4, I64), field(6, I64)
DATA_PATH, DATA_UNCOMPRESSED, DATA_COMPRESSED = field(3, LIST), field(6, I64), field(7, I64)
DATA_PAGE, DATA_INDEX_PAGE, DATA_DICTIONARY = field(9, I64), field(10, I64), field(11, I64)
DATA_ENCODING_STATS, DATA_BLOOM_FILTER, DATA_SIZE_STATS = field(13, LIST), field(14, I64), field(16, STRUCT)

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
    """A footer's Thrift with its length and the magic."""
    return b"".join((thrift, len(thrift).to_bytes(4, "little"), MAGIC))


def key_value(key: bytes, value: bytes) -> ThriftStruct:
    """An entry of a footer's list of keys and values."""
    return {KEY: key, VALUE: value}


def moved(chunk: ThriftStruct, by: int) -> ThriftStruct:
    """A column chunk whose every offset into the file is further on by a number of bytes."""
    chunk = dict(chunk)
    for number in (CHUNK_OFFSET, CHUNK_OFFSET_INDEX, CHUNK_COLUMN_INDEX):
        _move(chunk, number, by)
    data = dict(chunk[CHUNK_DATA])
    for number in (DATA_PAGE, DATA_INDEX_PAGE, DATA_DICTIONARY, DATA_BLOOM_FILTER):
        _move(data, number, by)
    chunk[CHUNK_DATA] = data
    return chunk


def joined_schema(elements: Sequence[ThriftStruct]) -> ThriftList:
    """A schema whose top-level columns are these."""
    root: ThriftStruct = {
        ELEMENT_REPETITION: 0,
        ELEMENT_NAME: b"schema",
        ELEMENT_CHILDREN: len(elements),
    }
    return ThriftList(STRUCT, [root, *elements])


def joined_group(columns: Sequence[ThriftStruct], num_rows: int, ordinal: int) -> ThriftStruct:
    """A row group of column chunks."""
    uncompressed = sum(column[CHUNK_DATA][DATA_UNCOMPRESSED] for column in columns)
    compressed = sum(column[CHUNK_DATA][DATA_COMPRESSED] for column in columns)
    group: ThriftStruct = {
        GROUP_COLUMNS: ThriftList(STRUCT, list(columns)),
        GROUP_SIZE: uncompressed,
        GROUP_ROWS: num_rows,
    }
    if columns:
        group[GROUP_OFFSET] = chunk_start(columns[0])
    group[GROUP_COMPRESSED] = compressed
    if ordinal <= HIGHEST_ORDINAL:
        group[GROUP_ORDINAL] = ordinal
    return group


def chunk_start(chunk: ThriftStruct) -> int:
    """The place of the first page of a column chunk."""
    data = chunk[CHUNK_DATA]
    start: int = data[DATA_PAGE]
    return min(start, data[DATA_DICTIONARY]) if DATA_DICTIONARY in data else start


def _move(struct: ThriftStruct, offset: int, by: int) -> None:
    # Nothing of a column stands at 0, where the magic is: there it means that the writer leaves it out.
    if struct.get(offset):
        struct[offset] += by
