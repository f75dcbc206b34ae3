"""Pieces: the index columns, or the statistics columns, of one row group, each a complete Parquet file of its own.

A data file is all index pieces, then all statistics pieces, then one combined footer whose row groups point into both:

    PAR1 .. index of row group 0 .. PAR1 | PAR1 .. index of row group 1 .. PAR1 | ...
    PAR1 .. statistics of row group 0 .. PAR1 | ...
    combined footer, its length, PAR1

So one range of the file is the index of 10,000 files, and the file is still ordinary Parquet.

A piece is one row group, and each of its columns one page. The footer of a statistics piece may carry the digest of
every column, so that single columns can be fetched and trusted.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import pyarrow as pa
from msgspec import Struct

from delta_sidecar._arrow import DIGEST_LENGTH, xxh3_128
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
    field_head,
    list_head,
    read_struct,
    write_struct,
)
from delta_sidecar.errors import SidecarError
from delta_sidecar.sidecar.schema import FORMAT_VERSION

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

    from delta_sidecar.sidecar.schema import SidecarSchema

MAGIC = b"PAR1"

CREATED_BY = f"delta-sidecar version {FORMAT_VERSION}".encode()
"""The writer that footers name: bytes do not depend on the release of the library that made the pages."""

FOOTER_END = 8
"""Bytes after the Thrift of a footer: its length, and the magic."""

CHUNKS_KEY = b"delta-sidecar.chunks"
"""Key in the footer of a piece: the digests of its columns, in order, with commas between."""

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


class ChunkRange(NamedTuple):
    """The range of one column in a piece."""

    start: int
    end: int
    digest: str | None  # of these bytes; None where the footer has none


def encode_piece(batch: pa.RecordBatch, *, chunk_digests: bool, skippable: Collection[str] = ()) -> bytes:
    """Makes a piece. Equal batches give equal bytes.

    Args:
        batch: The rows.
        chunk_digests: Whether the footer gets the digests of the columns.
        skippable: Names of columns whose lowest and highest value the footer gets, so that engines that read the
            whole file as Parquet can skip row groups.
    """
    # Every engine must be able to decode it: Spark has no BYTE_STREAM_SPLIT, which would make floats 7% smaller.
    # Paths are PLAIN: most of one is random, and DELTA_BYTE_ARRAY is no smaller after ZSTD but slower to decode, as
    # are dictionaries, of which nothing here is in need: ZSTD finds what repeats. DELTA_BINARY_PACKED makes numbers
    # 10-30% smaller and twice as fast to decode. ZSTD's first level is no larger than its third here, and faster.
    import pyarrow.parquet as pq

    encodings = {each.name: "DELTA_BINARY_PACKED" for each in batch.schema if _is_whole_number(each.type)}
    sink = pa.BufferOutputStream()
    with pq.ParquetWriter(
        sink,
        batch.schema,
        compression="zstd",
        compression_level=1,
        use_dictionary=False,
        column_encoding=encodings,
        write_statistics=[name for name in batch.schema.names if name in skippable] or False,
        write_page_checksum=True,
        store_schema=False,
        version="2.6",
        data_page_version="1.0",
        data_page_size=_ONE_PAGE,
        max_rows_per_page=_ONE_PAGE,
    ) as writer:
        if batch.num_rows:
            writer.write_batch(batch, row_group_size=batch.num_rows)
    return _finished(sink.getvalue().to_pybytes(), chunk_digests=chunk_digests)


def piece_footer(piece: bytes) -> bytes:
    """The footer of a piece: its Thrift, four bytes of length, and the magic.

    Raises:
        SidecarError: The bytes are no Parquet file.
    """
    length = int.from_bytes(piece[-FOOTER_END : -len(MAGIC)], "little") + FOOTER_END
    if piece[: len(MAGIC)] != MAGIC or piece[-len(MAGIC) :] != MAGIC or length + len(MAGIC) > len(piece):
        msg = "a piece is no Parquet file"
        raise SidecarError(msg)
    return piece[-length:]


class PieceFooter(Struct, frozen=True):
    """The footer of a piece, taken apart."""

    ranges: dict[str, ChunkRange]  # by the columns' names, in order
    num_rows: int
    tree: ThriftStruct

    def excerpt(self, chunks: Mapping[str, bytes]) -> bytes:
        """Makes a complete Parquet file of some columns of the piece, whose digests are the caller's to check.

        Raises:
            SidecarError: A column is not in the piece, or its bytes are too many or too few.
        """
        unknown = [name for name in chunks if name not in self.ranges]
        if unknown:
            msg = f"a piece has no column {unknown[0]!r}"
            raise SidecarError(msg)
        tree = self.tree
        columns, parts, places = [], [MAGIC], []
        position = len(MAGIC)
        for place, (name, found) in enumerate(self.ranges.items()):
            if name not in chunks:
                continue
            if len(chunks[name]) != found.end - found.start:
                msg = f"column {name!r} of a piece has not its length"
                raise SidecarError(msg)
            columns.append(moved(tree[FILE_GROUPS].items[0][GROUP_COLUMNS].items[place], position - found.start))
            places.append(place)
            parts.append(chunks[name])
            position += len(chunks[name])
        elements, small = tree[FILE_SCHEMA].items[1:], dict(tree)
        small[FILE_SCHEMA] = joined_schema([elements[place] for place in places])
        small[FILE_GROUPS] = ThriftList(STRUCT, [joined_group(columns, self.num_rows, 0)])
        small.pop(FILE_KEYS, None)
        if FILE_ORDERS in tree:
            small[FILE_ORDERS] = ThriftList(STRUCT, [tree[FILE_ORDERS].items[place] for place in places])
        return b"".join((*parts, sealed(write_struct(small))))


def read_piece_footer(footer: bytes) -> PieceFooter:
    """Reads the footer of a piece: its Thrift, four bytes of length, and the magic.

    Raises:
        SidecarError: The footer is not that of a piece.
    """
    tree = read_footer(footer)
    try:
        group = _only_group(tree)
        columns = group[GROUP_COLUMNS].items if group else []
        names = [element[ELEMENT_NAME].decode() for element in tree[FILE_SCHEMA].items[1:]]
        digests = _digests(tree, len(columns))
        ranges: dict[str, ChunkRange] = {}
        last = len(MAGIC)
        for name, chunk, digest in zip(names, columns, digests, strict=True) if group else ():
            data = chunk[CHUNK_DATA]
            start = chunk_start(chunk)
            end = start + data[DATA_COMPRESSED]
            if data[DATA_PATH].items != [name.encode()] or start < last or end < start or name in ranges:
                raise ValueError  # noqa: TRY301 - one reason for all that is out of form
            ranges[name] = ChunkRange(start, end, digest)
            last = end
        return PieceFooter(ranges, tree[FILE_ROWS], tree)
    except (KeyError, TypeError, AttributeError, IndexError, ValueError) as error:
        msg = "the footer of a piece is out of form"
        raise SidecarError(msg) from error


_ONE_PAGE = 1 << 30


def _is_whole_number(kind: pa.DataType) -> bool:
    return bool(pa.types.is_integer(kind) or pa.types.is_timestamp(kind) or pa.types.is_date32(kind))


def _finished(piece: bytes, *, chunk_digests: bool) -> bytes:
    """A piece whose footer has the digests of its columns, and nothing that its readers do not need."""
    footer = piece_footer(piece)
    read = read_piece_footer(footer)
    group = _only_group(read.tree)
    for chunk in group[GROUP_COLUMNS].items if group else ():
        for needless in (DATA_ENCODING_STATS, DATA_SIZE_STATS):
            chunk[CHUNK_DATA].pop(needless, None)
    tree = {**read.tree, FILE_WRITER: CREATED_BY}
    if chunk_digests:
        view = memoryview(piece)
        text = ",".join(xxh3_128(view[found.start : found.end]) for found in read.ranges.values()).encode()
        tree[FILE_KEYS] = ThriftList(STRUCT, [{KEY: CHUNKS_KEY, VALUE: text}])
    return piece[: -len(footer)] + sealed(write_struct(dict(sorted(tree.items()))))


def _only_group(tree: ThriftStruct) -> ThriftStruct | None:
    groups: list[ThriftStruct] = tree[FILE_GROUPS].items
    if not groups and tree[FILE_ROWS] == 0:
        return None
    (group,) = groups
    if group[GROUP_ROWS] != tree[FILE_ROWS]:
        raise ValueError
    return group


def _digests(tree: ThriftStruct, count: int) -> list[str] | list[None]:
    entries = tree[FILE_KEYS].items if FILE_KEYS in tree else []
    found = [entry[VALUE] for entry in entries if entry[KEY] == CHUNKS_KEY]
    if not found:
        return [None] * count
    digests: list[str] = found[0].decode("ascii").split(",") if found[0] else []
    if len(digests) != count or any(len(digest) != DIGEST_LENGTH for digest in digests):
        raise ValueError
    return digests


# The combined footer of a data file, joined from the footers of its pieces.


LARGEST_FOOTER = 2**31 - 1


class GroupFooters(Struct, frozen=True):
    """The footers of the two pieces of a row group, from `piece_footer`, and the places of the pieces."""

    index: bytes
    index_offset: int
    statistics: bytes
    statistics_offset: int


def join_footers(
    schema: SidecarSchema,
    groups: Iterable[GroupFooters],
    *,
    num_row_groups: int,
    num_rows: int,
    key_values: Mapping[str, str],
) -> Iterator[bytes]:
    """Makes the combined footer of a data file: Thrift, its length and the magic, in several blocks of bytes.

    One row group is held at a time. A data file without row groups is the magic, followed by this.

    Raises:
        ValueError: The row groups have other columns, or there are not so many or with so many rows, or the footer
            would be longer than Parquet allows.
    """
    length = 0
    for block in _thrift(schema, groups, (num_row_groups, num_rows), key_values):
        length += len(block)
        if length > LARGEST_FOOTER:
            msg = "the footer would be longer than 2 GB: build the metadata sidecar in parts"
            raise ValueError(msg)
        yield block
    yield length.to_bytes(4, "little") + MAGIC


def _thrift(
    schema: SidecarSchema, groups: Iterable[GroupFooters], counts: tuple[int, int], key_values: Mapping[str, str]
) -> Iterator[bytes]:
    # Pieces without rows have both schemas, and the orders of their columns.
    trees = []
    for columns in (schema.index, schema.statistics_schema):
        empty = pa.RecordBatch.from_arrays([pa.nulls(0, column.type) for column in columns], schema=columns)
        trees.append(read_footer(piece_footer(encode_piece(empty, chunk_digests=False))))
    elements = [element for tree in trees for element in tree[FILE_SCHEMA].items[1:]]
    orders = [order for tree in trees for order in tree[FILE_ORDERS].items]
    start: ThriftStruct = {FILE_VERSION: 2, FILE_SCHEMA: joined_schema(elements), FILE_ROWS: counts[1]}
    # Without the byte that ends the struct: more fields follow.
    yield write_struct(start)[:-1] + field_head(FILE_GROUPS, FILE_ROWS) + list_head(STRUCT, counts[0])
    seen = rows = 0
    for group in groups:
        joined, count = _joined(group, [tree[FILE_SCHEMA] for tree in trees], seen)
        seen += 1
        rows += count
        yield joined
    if (seen, rows) != counts:
        msg = f"{seen} row groups with {rows} rows were joined where {counts[0]} with {counts[1]} were said"
        raise ValueError(msg)
    pairs: list[ThriftStruct] = [{KEY: key.encode(), VALUE: value.encode()} for key, value in key_values.items()]
    end = {FILE_KEYS: ThriftList(STRUCT, pairs), FILE_WRITER: CREATED_BY, FILE_ORDERS: ThriftList(STRUCT, orders)}
    yield field_head(FILE_KEYS, FILE_GROUPS) + write_struct(end)[1:]


def _joined(group: GroupFooters, schemas: list[object], ordinal: int) -> tuple[bytes, int]:
    index, statistics = read_footer(group.index), read_footer(group.statistics)
    if [index[FILE_SCHEMA], statistics[FILE_SCHEMA]] != schemas or index[FILE_ROWS] != statistics[FILE_ROWS]:
        msg = f"the pieces of row group {ordinal} have other columns than the file, or not equally many rows"
        raise ValueError(msg)
    chunks = [
        moved(chunk, offset)
        for tree, offset in ((index, group.index_offset), (statistics, group.statistics_offset))
        for chunk in tree[FILE_GROUPS].items[0][GROUP_COLUMNS].items
    ]
    num_rows: int = index[FILE_ROWS]
    return write_struct(joined_group(chunks, num_rows, ordinal)), num_rows


# Footers as Thrift trees: read, moved to another place, and put together from others.


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
    root: ThriftStruct = {ELEMENT_REPETITION: 0, ELEMENT_NAME: b"schema", ELEMENT_CHILDREN: len(elements)}
    return ThriftList(STRUCT, [root, *elements])


def joined_group(columns: Sequence[ThriftStruct], num_rows: int, ordinal: int) -> ThriftStruct:
    """A row group of column chunks."""
    data = [column[CHUNK_DATA] for column in columns]
    group: ThriftStruct = {
        GROUP_COLUMNS: ThriftList(STRUCT, list(columns)),
        GROUP_SIZE: sum(each[DATA_UNCOMPRESSED] for each in data),
        GROUP_ROWS: num_rows,
    }
    if columns:
        group[GROUP_OFFSET] = chunk_start(columns[0])
    group[GROUP_COMPRESSED] = sum(each[DATA_COMPRESSED] for each in data)
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
