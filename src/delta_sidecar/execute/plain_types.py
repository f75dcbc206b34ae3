"""Arrow's plain types in the place of its variants.

A Parquet file may say which Arrow types it was made of, and large, view and dictionary types come back as such. Who
reads a log wants one type for one thing.
"""

from __future__ import annotations

import pyarrow as pa


def plain_batch(batch: pa.RecordBatch) -> pa.RecordBatch:
    """The same rows in plain types."""
    schema = pa.schema([plain_field(field) for field in batch.schema])
    return batch if schema.equals(batch.schema.remove_metadata()) else batch.cast(schema)


def plain_field(field: pa.Field) -> pa.Field:
    """The same field with a plain type, and without metadata."""
    return pa.field(field.name, plain_type(field.type), nullable=field.nullable)


def plain_type(kind: pa.DataType) -> pa.DataType:
    """The plain type of the same values."""
    if pa.types.is_large_string(kind) or pa.types.is_string_view(kind):
        return pa.string()
    if pa.types.is_large_binary(kind) or pa.types.is_binary_view(kind):
        return pa.binary()
    if pa.types.is_dictionary(kind):
        return plain_type(kind.value_type)
    if pa.types.is_struct(kind):
        return pa.struct([plain_field(child) for child in kind])
    if pa.types.is_map(kind):
        return pa.map_(plain_type(kind.key_type), plain_field(kind.item_field))
    if pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_list_view(kind):
        return pa.list_(plain_field(kind.value_field))
    return kind
