"""JSON text out of Arrow columns, whole columns at a time.

Checkpoints may hold statistics and tags as structs and maps only; readers of a file list want the JSON that the
`add` action of a commit would have. Null fields are left out, as writers do, and so are timestamps of years that have
not four digits: no reader takes their texts for one.
"""

from __future__ import annotations

import json

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from delta_sidecar._arrow import int64s, numbers_of, scalar
from delta_sidecar.log.timestamps import in_four_digits
from delta_sidecar.log.value_text import ARROW, value_text

_EMPTY = scalar("", pa.string())


def struct_text(
    column: pa.StructArray, instants: frozenset[tuple[str, ...]] = frozenset(), path: tuple[str, ...] = ()
) -> pa.StringArray:
    """Each row of a struct column as a JSON object; null for a null row.

    Args:
        column: The structs.
        instants: Paths, without their first name, of timestamps that are in UTC even where their type does not say so:
            Parquet's oldest timestamps have no zone.
        path: Where the structs stand.
    """
    children = zip(column.type, column.flatten(), strict=True)
    pieces = [_member(field.name, child, instants, (*path, field.name)) for field, child in children]
    body = pc.binary_join_element_wise(*pieces, _EMPTY) if pieces else pa.nulls(len(column), pa.string())
    text = _wrap("{", pc.utf8_rtrim(pc.fill_null(body, _EMPTY), characters=","), "}")
    return pc.if_else(column.is_valid(), text, scalar(None, pa.string()))


def map_text(column: pa.MapArray) -> pa.StringArray:
    """Each row of a map from strings to strings as a JSON object; null for a null row."""
    offsets = numbers_of(column.offsets)
    first, last = int(offsets[0]), int(offsets[-1])
    keys, items = column.keys.slice(first, last - first), column.items.slice(first, last - first)
    value = pc.fill_null(value_text(items, ARROW), scalar("null", pa.string()))
    entries = pc.binary_join_element_wise(value_text(keys, ARROW), value, scalar(":", pa.string()))
    rows = pa.ListArray.from_arrays(int64s(offsets.astype(np.int64) - first).cast(pa.int32()), entries)
    text = _wrap("{", pc.binary_join(rows, scalar(",", pa.string())), "}")
    return pc.if_else(column.is_valid(), text, scalar(None, pa.string()))


def _member(name: str, column: pa.Array, instants: frozenset[tuple[str, ...]], path: tuple[str, ...]) -> pa.StringArray:
    if pa.types.is_struct(column.type):
        value = struct_text(column, instants, path)
    else:
        if pa.types.is_timestamp(column.type):
            column = in_four_digits(column)
            is_instant = column.type.tz is None and path[1:] in instants
            column = column.cast(pa.timestamp("us", "UTC")) if is_instant else column
        value = value_text(column, ARROW)
    return pc.fill_null(_wrap(json.dumps(name, ensure_ascii=False) + ":", value, ","), _EMPTY)


def _wrap(before: str, text: pa.StringArray, after: str) -> pa.StringArray:
    string = pa.string()
    return pc.binary_join_element_wise(scalar(before, string), text, scalar(after, string), _EMPTY)
