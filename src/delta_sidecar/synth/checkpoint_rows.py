"""The rows of a checkpoint: actions as Arrow columns, all but one of them null in each row."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from delta_sidecar.synth.fixed_text import as_strings
from delta_sidecar.synth.schema import BUCKET_COLUMN, remove_type
from delta_sidecar.synth.statistics import stats_struct

if TYPE_CHECKING:
    from delta_sidecar.synth.files import FileBlock


def add_column(block: FileBlock, kind: pa.StructType) -> pa.StructArray:
    """Gives files as add actions, with the fields that the type has."""
    rows = len(block)
    values = {
        "path": block.paths,
        "partitionValues": _partition_values(block),
        "size": pa.array(block.sizes),
        "modificationTime": pa.array(block.modified),
        "dataChange": pa.array(np.zeros(rows, dtype=np.bool_)),
        "deletionVector": block.deletion_vectors(),
    }
    if kind.get_field_index("stats") >= 0:
        values["stats"] = block.stats()
    if kind.get_field_index("stats_parsed") >= 0:
        hours = as_strings(block.hour_text)
        values["partitionValues_parsed"] = pa.StructArray.from_arrays([hours], names=[BUCKET_COLUMN])
        values["stats_parsed"] = stats_struct(block)
    return _struct(kind, values, rows)


def remove_column(block: FileBlock, deleted_at: int) -> pa.StructArray:
    """Gives files as the tombstones that a checkpoint keeps."""
    rows = len(block)
    values = {
        "path": block.paths,
        "deletionTimestamp": pa.array(np.full(rows, deleted_at, dtype=np.int64)),
        "dataChange": pa.array(np.ones(rows, dtype=np.bool_)),
        "extendedFileMetadata": pa.array(np.ones(rows, dtype=np.bool_)),
        "partitionValues": _partition_values(block),
        "size": pa.array(block.sizes),
        "deletionVector": block.deletion_vectors(),
    }
    return _struct(remove_type(), values, rows)


def file_table(schema: pa.Schema, action: str, column: pa.StructArray) -> pa.Table:
    """Makes checkpoint rows of one action column; the others are null."""
    columns = [column if field.name == action else pa.nulls(len(column), field.type) for field in schema]
    return pa.Table.from_arrays(columns, schema=schema)


def top_table(actions: list[dict[str, Any]], schema: pa.Schema) -> pa.Table:
    """Makes checkpoint rows of a few actions of any kind."""
    return pa.Table.from_pylist(actions, schema=schema)


def _struct(kind: pa.StructType, values: dict[str, pa.Array], rows: int) -> pa.StructArray:
    children = [values[field.name] if field.name in values else pa.nulls(rows, field.type) for field in kind]
    return pa.StructArray.from_arrays(children, fields=list(kind))


def _partition_values(block: FileBlock) -> pa.MapArray:
    offsets = pa.array(np.arange(len(block) + 1, dtype=np.int32))
    return pa.MapArray.from_arrays(offsets, pa.repeat(BUCKET_COLUMN, len(block)), as_strings(block.hour_text))
