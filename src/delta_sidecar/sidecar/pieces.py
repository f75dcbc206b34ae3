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

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq

from delta_sidecar._digest import DIGEST_LENGTH, xxh3_128
from delta_sidecar.errors import SidecarError
from delta_sidecar.sidecar.footers import (
    CHUNK_DATA,
    CREATED_BY,
    DATA_COMPRESSED,
    DATA_ENCODING_STATS,
    DATA_PATH,
    DATA_SIZE_STATS,
    ELEMENT_NAME,
    FILE_GROUPS,
    FILE_KEYS,
    FILE_ORDERS,
    FILE_ROWS,
    FILE_SCHEMA,
    FILE_WRITER,
    FOOTER_END,
    GROUP_COLUMNS,
    GROUP_ROWS,
    KEY,
    MAGIC,
    VALUE,
    chunk_start,
    joined_group,
    joined_schema,
    key_value,
    moved,
    read_footer,
    sealed,
)
from delta_sidecar.sidecar.thrift import STRUCT, ThriftList, ThriftStruct
from delta_sidecar.sidecar.thrift_writing import write_struct

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

CHUNKS_KEY = b"delta-sidecar.chunks"
"""Key in the footer of a piece: the digests of its columns, in order, with commas between."""

SMALLEST_PIECE = len(MAGIC) + FOOTER_END


class ChunkRange(NamedTuple):
    """Where one column of a piece stands.

    Attributes:
        start: Its first byte, from the piece's start on.
        end: The byte after its last.
        digest: The digest of these bytes; None where the footer tells none.
    """

    start: int
    end: int
    digest: str | None


def encode_piece(batch: pa.RecordBatch, *, chunk_digests: bool, skippable: Collection[str] = ()) -> bytes:
    """Makes a piece. Equal batches give equal bytes.

    Args:
        batch: The rows.
        chunk_digests: Whether the footer gets the digests of the columns.
        skippable: Names of columns whose lowest and highest value the footer tells, so that engines that read the
            whole file as Parquet can pass over row groups.
    """
    # What other engines cannot decode is no choice: Spark has no BYTE_STREAM_SPLIT, which would make floats 7% smaller.
    # Paths are PLAIN: most of one is random, and DELTA_BYTE_ARRAY is no smaller after ZSTD but slower to decode, as
    # are dictionaries, of which nothing here is in need: ZSTD finds what repeats. DELTA_BINARY_PACKED makes numbers
    # 10-30% smaller and twice as fast to decode. ZSTD's first level is no larger than its third here, and faster.
    encodings = {field.name: "DELTA_BINARY_PACKED" for field in batch.schema if _is_whole_number(field.type)}
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


def chunk_ranges(footer: bytes) -> dict[str, ChunkRange]:
    """Where each column of a piece stands, by its name, from the piece's footer alone.

    Raises:
        SidecarError: The footer is not that of a piece.
    """
    return read_piece_footer(footer).ranges


@dataclass(frozen=True, slots=True)
class PieceFooter:
    """The footer of a piece, taken apart.

    Attributes:
        ranges: Where each column stands, by its name, in order.
        num_rows: How many rows the piece has.
        tree: The Thrift of the footer.
    """

    ranges: dict[str, ChunkRange]
    num_rows: int
    tree: ThriftStruct

    def excerpt(self, chunks: Mapping[str, bytes]) -> bytes:
        """Makes a complete Parquet file of some of the piece's columns.

        Args:
            chunks: The bytes of each column, by its name. Their digests are the caller's to check.

        Raises:
            SidecarError: A column is not in the piece, or its bytes are too many or too few.
        """
        return _excerpt(self, chunks)


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
        tree[FILE_KEYS] = ThriftList(STRUCT, [key_value(CHUNKS_KEY, text)])
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


def _excerpt(footer: PieceFooter, chunks: Mapping[str, bytes]) -> bytes:
    unknown = [name for name in chunks if name not in footer.ranges]
    if unknown:
        msg = f"a piece has no column {unknown[0]!r}"
        raise SidecarError(msg)
    tree = footer.tree
    elements = tree[FILE_SCHEMA].items[1:]
    orders = tree[FILE_ORDERS].items if FILE_ORDERS in tree else []
    columns, parts, places = [], [MAGIC], []
    position = len(MAGIC)
    for place, (name, found) in enumerate(footer.ranges.items()):
        if name not in chunks:
            continue
        if len(chunks[name]) != found.end - found.start:
            msg = f"column {name!r} of a piece has not its length"
            raise SidecarError(msg)
        columns.append(moved(tree[FILE_GROUPS].items[0][GROUP_COLUMNS].items[place], position - found.start))
        places.append(place)
        parts.append(chunks[name])
        position += len(chunks[name])
    small = dict(tree)
    small[FILE_SCHEMA] = joined_schema([elements[place] for place in places])
    small[FILE_GROUPS] = ThriftList(STRUCT, [joined_group(columns, footer.num_rows, 0)])
    small.pop(FILE_KEYS, None)
    if orders:
        small[FILE_ORDERS] = ThriftList(STRUCT, [orders[place] for place in places])
    return b"".join((*parts, sealed(write_struct(small))))
