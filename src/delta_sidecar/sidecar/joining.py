"""The combined footer of a data file, joined from the footers of its pieces."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa

from delta_sidecar.sidecar.footers import (
    CREATED_BY,
    FILE_GROUPS,
    FILE_KEYS,
    FILE_ORDERS,
    FILE_ROWS,
    FILE_SCHEMA,
    FILE_VERSION,
    FILE_WRITER,
    GROUP_COLUMNS,
    MAGIC,
    joined_group,
    joined_schema,
    key_value,
    moved,
    read_footer,
)
from delta_sidecar.sidecar.pieces import encode_piece, piece_footer
from delta_sidecar.sidecar.thrift import STRUCT, ThriftList, ThriftStruct
from delta_sidecar.sidecar.thrift_writing import field_head, list_head, write_struct

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from delta_sidecar.sidecar.schema import SidecarSchema

LARGEST_FOOTER = 2**31 - 1


@dataclass(frozen=True, slots=True)
class GroupFooters:
    """The footers of the two pieces of a row group, as `piece_footer` gives them, and where the pieces begin."""

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

    One row group is held at a time: where the statistics pieces stand is known only when all index pieces are, so the
    footers come out of wherever the caller has put them.

    A data file without row groups is the magic, followed by this.

    Args:
        schema: The columns.
        groups: The row groups in order.
        num_row_groups: How many there are.
        num_rows: How many rows they have together.
        key_values: Keys and values for the footer.

    Raises:
        ValueError: The row groups have other columns, or are not as many or not as long as was said, or the footer
            would be longer than Parquet allows.
    """
    expected, columns, orders = _template(schema)
    length = 0
    for block in _thrift(expected, columns, orders, groups, (num_row_groups, num_rows), key_values):
        length += len(block)
        if length > LARGEST_FOOTER:
            msg = "the footer would be longer than 2 GB: build the metadata sidecar in parts"
            raise ValueError(msg)
        yield block
    yield length.to_bytes(4, "little") + MAGIC


def _template(schema: SidecarSchema) -> tuple[tuple[object, object], ThriftList, ThriftList]:
    """What pieces without rows tell: both schemas, all columns under one root, and their orders."""
    trees = [
        read_footer(piece_footer(encode_piece(_empty(columns), chunk_digests=False)))
        for columns in (schema.index, schema.statistics_schema)
    ]
    elements = [element for tree in trees for element in tree[FILE_SCHEMA].items[1:]]
    orders = [order for tree in trees for order in tree[FILE_ORDERS].items]
    return (trees[0][FILE_SCHEMA], trees[1][FILE_SCHEMA]), joined_schema(elements), ThriftList(STRUCT, orders)


def _empty(schema: pa.Schema) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays([pa.nulls(0, field.type) for field in schema], schema=schema)


def _thrift(
    expected: tuple[object, object],
    columns: ThriftList,
    orders: ThriftList,
    groups: Iterable[GroupFooters],
    counts: tuple[int, int],
    key_values: Mapping[str, str],
) -> Iterator[bytes]:
    start: ThriftStruct = {FILE_VERSION: 2, FILE_SCHEMA: columns, FILE_ROWS: counts[1]}
    yield _open(write_struct(start)) + field_head(FILE_GROUPS, FILE_ROWS) + list_head(STRUCT, counts[0])
    seen = rows = 0
    for group in groups:
        joined, count = _joined(group, expected, seen)
        seen += 1
        rows += count
        yield joined
    if (seen, rows) != counts:
        msg = f"{seen} row groups with {rows} rows were joined where {counts[0]} with {counts[1]} were said"
        raise ValueError(msg)
    pairs = [key_value(key.encode(), value.encode()) for key, value in key_values.items()]
    end: ThriftStruct = {
        FILE_KEYS: ThriftList(STRUCT, pairs),
        FILE_WRITER: CREATED_BY,
        FILE_ORDERS: orders,
    }
    yield field_head(FILE_KEYS, FILE_GROUPS) + write_struct(end)[1:]


def _open(struct: bytes) -> bytes:
    """A struct without the byte that ends it."""
    return struct[:-1]


def _joined(group: GroupFooters, expected: tuple[object, object], ordinal: int) -> tuple[bytes, int]:
    index, statistics = read_footer(group.index), read_footer(group.statistics)
    if (index[FILE_SCHEMA], statistics[FILE_SCHEMA]) != expected or index[FILE_ROWS] != statistics[FILE_ROWS]:
        msg = f"the pieces of row group {ordinal} have other columns than the file, or not equally many rows"
        raise ValueError(msg)
    chunks = [
        moved(chunk, offset)
        for tree, offset in ((index, group.index_offset), (statistics, group.statistics_offset))
        for chunk in tree[FILE_GROUPS].items[0][GROUP_COLUMNS].items
    ]
    num_rows: int = index[FILE_ROWS]
    return write_struct(joined_group(chunks, num_rows, ordinal)), num_rows
