"""Other values in the place of some, wherever they are: in columns, and inside structs, lists and maps of any depth."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

import pyarrow as pa

Wanted: TypeAlias = Callable[[pa.Field], bool]
"""Whether values of a field are to be replaced; asked of fields that hold no others."""

Replace: TypeAlias = Callable[[pa.Array, str], pa.Array]
"""Makes the values that are to stand there, of as many rows; the column's name is for messages."""


def replaced(batch: pa.RecordBatch, is_wanted: Wanted, replace: Replace) -> pa.RecordBatch:
    """The same rows with other values.

    Args:
        batch: The rows.
        is_wanted: Which values are replaced.
        replace: By what.
    """
    fields = list(batch.schema)
    arrays = [
        _values(column, field, is_wanted, replace, field.name)
        for field, column in zip(fields, batch.columns, strict=True)
    ]
    return pa.RecordBatch.from_arrays(arrays, schema=pa.schema(map(_changed, fields, arrays)))


def is_held(field: pa.Field, is_wanted: Wanted) -> bool:
    """Whether a field is wanted, or holds one that is."""
    kind = field.type
    if not pa.types.is_nested(kind):
        return is_wanted(field)
    # A column that is nothing but repeated has its id at the list.
    return is_wanted(field) or any(is_held(kind.field(number), is_wanted) for number in range(kind.num_fields))


def relisted(column: pa.Array, kind: pa.DataType, values: pa.Array) -> pa.Array:
    """The same lists, or maps, over other values.

    Args:
        column: The lists.
        kind: Their type then.
        values: What they are made of then.
    """
    valid, offsets = column.buffers()[:2]
    return pa.Array.from_buffers(
        kind, len(column), [valid, offsets], null_count=column.null_count, offset=column.offset, children=[values]
    )


def _values(column: pa.Array, field: pa.Field, is_wanted: Wanted, replace: Replace, name: str) -> pa.Array:
    kind = column.type
    if not is_held(field, is_wanted):
        return column
    if not pa.types.is_nested(kind):
        return replace(column, name)
    if pa.types.is_struct(kind):
        children = [
            _values(column.field(number), child, is_wanted, replace, f"{name}.{child.name}")
            for number, child in enumerate(kind)
        ]
        mask = column.is_null() if column.null_count else None
        return pa.StructArray.from_arrays(children, fields=list(map(_changed, kind, children)), mask=mask)
    if pa.types.is_map(kind):
        keys = _values(column.keys, kind.key_field, is_wanted, replace, f"{name}.key")
        items = _values(column.items, kind.item_field, is_wanted, replace, f"{name}.value")
        key, item = _changed(kind.key_field, keys).with_nullable(nullable=False), _changed(kind.item_field, items)
        return relisted(column, pa.map_(key, item), pa.StructArray.from_arrays([keys, items], fields=[key, item]))
    if not pa.types.is_list(kind) and not pa.types.is_large_list(kind):
        return column
    element = kind.value_field
    looked_at = element if is_held(element, is_wanted) else element.with_metadata(field.metadata)
    values = _values(column.values, looked_at, is_wanted, replace, f"{name}.element")
    made = pa.large_list if pa.types.is_large_list(kind) else pa.list_
    return relisted(column, made(_changed(element, values)), values)


def _changed(before: pa.Field, column: pa.Array) -> pa.Field:
    """The field of a column that may have changed, in which any value may be null."""
    return pa.field(before.name, column.type)
