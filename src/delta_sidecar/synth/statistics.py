"""The statistics of files: bounds and null counts, as JSON text and as native columns."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from delta_sidecar.synth.fixed_text import as_strings, decimals, digits, fill, timestamps
from delta_sidecar.synth.schema import STAT_TYPES

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from delta_sidecar.synth.files import FileBlock, FileSeries
    from delta_sidecar.synth.fixed_text import Text
    from delta_sidecar.synth.schema import StatColumn

    Numbers = NDArray[np.int64]

_HOUR_MS = 3_600_000


def bounds(block: FileBlock, column: StatColumn) -> tuple[Numbers, Numbers]:
    """Gives the least and greatest value of a column in each file, as whole numbers.

    Timestamps are milliseconds since the epoch, doubles hundredths, strings the number in a device's name.
    """
    low, high = block.below(column.stream, column.spread), block.below(column.stream + 1, column.spread)
    match column.delta_type:
        case "timestamp":
            hour = block.hours * _HOUR_MS
            return hour + np.maximum(0, block.latest - 1_000 - low), hour + block.latest
        case "long":
            first = 100_000_000_000_000 + np.mod(block.numbers, 1 << 32) * 100_000
            return first, first + block.rows - 1
        case "double":
            # A JSON writer leaves out a last digit of 0, and the text must keep its width.
            return column.low + low // 10 * 10 + low % 9 + 1, column.high + high // 10 * 10 + high % 9 + 1
        case _:
            return column.low + low, column.high + high


def null_counts(block: FileBlock, column: StatColumn) -> Numbers:
    """Gives how many values of a column are null in each file: at most 9."""
    if column.delta_type != "double":
        return np.zeros(len(block), dtype=np.int64)
    return block.below(column.stream + 2, 10)


def stat_slots(block: FileBlock) -> dict[str, Text]:
    """Writes every bound and null count as text, by the name that `stats_pattern` uses."""
    slots = {}
    for column in block.series.columns:
        for side, values in zip(("min", "max"), bounds(block, column), strict=True):
            slots[f"{side}.{column.name}"] = _text(column, values)
        slots[f"nulls.{column.name}"] = digits(null_counts(block, column), 1)
    return slots


def stats_pattern(series: FileSeries, *, tight: bool) -> str:
    """Gives the pattern of one file's statistics; with deletion vectors they say whether bounds are tight."""
    low, high, nulls = (
        ",".join(f'"{column.name}":{_slot(column, side)}' for column in series.columns)
        for side in ("min", "max", "nulls")
    )
    flag = f',"tightBounds":{"true" if tight else "false"}' if series.dv_share else ""
    return f'{{"numRecords":«rows»,"minValues":{{{low}}},"maxValues":{{{high}}},"nullCount":{{{nulls}}}{flag}}}'


def stats_struct(block: FileBlock) -> pa.StructArray:
    """Gives the statistics in the columns' own types, as `stats_parsed` holds them."""
    columns = block.series.columns
    children = {"numRecords": pa.array(block.rows)}
    if columns:
        names = [column.name for column in columns]
        for side, name in enumerate(("minValues", "maxValues")):
            values = [_typed(column, bounds(block, column)[side]) for column in columns]
            children[name] = pa.StructArray.from_arrays(values, names=names)
        nulls = [pa.array(null_counts(block, column)) for column in columns]
        children["nullCount"] = pa.StructArray.from_arrays(nulls, names=names)
    if block.series.dv_share:
        children["tightBounds"] = pa.array(~block.has_dv)
    return pa.StructArray.from_arrays(list(children.values()), names=list(children))


def _slot(column: StatColumn, side: str) -> str:
    slot = f"«{side}.{column.name}»"
    return f'"{slot}"' if side != "nulls" and column.delta_type in {"timestamp", "string"} else slot


def _text(column: StatColumn, values: Numbers) -> Text:
    match column.delta_type:
        case "timestamp":
            return timestamps(values)
        case "string":
            return fill("dev-«number»", {"number": digits(values, column.width)})
        case "double":
            return decimals(values, column.width)
        case _:
            return digits(values, column.width)


def _typed(column: StatColumn, values: Numbers) -> pa.Array:
    match column.delta_type:
        case "timestamp":
            return pa.array(values * 1_000).view(STAT_TYPES["timestamp"])
        case "string":
            return as_strings(_text(column, values))
        case "double":
            return pa.array(values / 100)
        case _:
            return pa.array(values)
