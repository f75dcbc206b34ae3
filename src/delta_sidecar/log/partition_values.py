"""Partition values: strings in the log, values of the column's type for everyone else."""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from delta_sidecar._arrow import scalar
from delta_sidecar.log.timestamps import parse_timestamps


@dataclass(frozen=True, slots=True)
class PartitionColumn:
    """Typed values of one partition column.

    Attributes:
        values: One value a file; null is the value null.
        zoneless: For a timestamp, which values were written without a zone, in whatever zone the writer was.
    """

    values: pa.Array
    zoneless: pa.BooleanArray | None = None


def read_partition_column(text: pa.StringArray, type: pa.DataType) -> PartitionColumn | None:  # noqa: A002
    """Reads the strings of one partition column; an empty string is null.

    Returns:
        None where a text is no value of the type, or the type's texts are not for comparing.
    """
    empty = pc.equal(text, scalar("", pa.string()))
    text = pc.if_else(empty, scalar(None, pa.string()), text)
    try:
        if pa.types.is_timestamp(type):
            values, zoneless = parse_timestamps(text)
            if type.tz is None:
                return PartitionColumn(values.cast(type))
            return PartitionColumn(values.cast(pa.timestamp("us", type.tz)), zoneless)
        if pa.types.is_binary(type) or pa.types.is_null(type):
            return None
        return PartitionColumn(text.cast(type))
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        return None


def lookup(values: pa.MapArray, name: str) -> pa.StringArray:
    """The value under a name in each row's map of partition values; null where it is not there."""
    found = pc.map_lookup(values, query_key=scalar(name, pa.string()), occurrence="first")
    return found.cast(pa.string())
