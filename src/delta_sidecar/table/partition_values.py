"""Partition values of a batch of files, in the types of their columns."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from delta_sidecar._arrow import booleans, scalar
from delta_sidecar.data.partition_columns import in_zone
from delta_sidecar.errors import LogCorruptionError
from delta_sidecar.log.partition_values import lookup, read_known_values, read_partition_column

if TYPE_CHECKING:
    from delta_sidecar.log.partition_values import PartitionTexts
    from delta_sidecar.log.schema import TableSchema


def typed_partition_values(values: pa.MapArray, table: TableSchema, zone: str) -> dict[str, pa.Array]:
    """The values of each partition column, by its logical name: one a file.

    Args:
        values: Texts by logical name, as a batch of files has them.
        table: The table's columns.
        zone: The time zone of timestamps that were written without one, as in the rows of their files.

    Raises:
        LogCorruptionError: A text is no value of its column's type.
    """
    return {
        name: _typed(name, lookup(values, name), table.logical.field(name).type, zone)
        for name in table.partition_columns
    }


def _typed(name: str, told: PartitionTexts, kind: pa.DataType, zone: str) -> pa.Array:
    texts = told.texts
    if pa.types.is_null(kind):
        return pa.nulls(len(texts), kind)
    if pa.types.is_binary(kind):
        empty = pc.equal(texts, scalar("", pa.string()))
        return pc.if_else(empty, scalar(None, pa.string()), texts).cast(kind)
    column = read_partition_column(texts, kind)
    if column is not None:
        return in_zone(column, zone)
    known, _ = read_known_values(told, kind)
    odd = texts.filter(booleans(told.told & ~known.told))
    msg = f"the log has {odd[0].as_py()!r} as a value of partition column {name}, which is no {kind}"
    raise LogCorruptionError(msg)
