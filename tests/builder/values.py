"""Values of a table's columns: Arrow types for Delta's, and the typed value of a statistic or partition string."""

from __future__ import annotations

import datetime as dt
import math
import re
from decimal import Context, Decimal
from typing import Any

import numpy as np
import pyarrow as pa

PRIMITIVES = {
    "string": pa.string(),
    "long": pa.int64(),
    "integer": pa.int32(),
    "short": pa.int16(),
    "byte": pa.int8(),
    "float": pa.float32(),
    "double": pa.float64(),
    "boolean": pa.bool_(),
    "binary": pa.binary(),
    "date": pa.date32(),
    "timestamp": pa.timestamp("us", tz="UTC"),
    "timestamp_ntz": pa.timestamp("us"),
}
_FAR = re.compile(r"[+-]\d{4,}-")
_DECIMAL = re.compile(r"decimal\((\d+),\s*(\d+)\)")
WITHOUT_BOUNDS = ("boolean", "binary")
_WIDE = Context(prec=76)


def arrow_type(delta_type: Any) -> pa.DataType:  # noqa: ANN401 - a name or a struct
    """Gives the Arrow type of a primitive or struct type."""
    if isinstance(delta_type, str):
        decimal = _DECIMAL.fullmatch(delta_type)
        return pa.decimal128(int(decimal[1]), int(decimal[2])) if decimal else PRIMITIVES[delta_type]
    return pa.struct([(physical_name(field), arrow_type(field["type"])) for field in delta_type["fields"]])


def bounds_type(struct: dict[str, Any]) -> pa.StructType:
    """Gives the type of `minValues` for a table's struct: columns without an order are not there."""
    fields: list[tuple[str, pa.DataType]] = []
    for field in struct["fields"]:
        if _is_struct(field):
            inner = bounds_type(field["type"])
            # Parquet has no struct without fields.
            fields += [(physical_name(field), inner)] if len(inner) else []
        elif isinstance(field["type"], str) and field["type"] not in WITHOUT_BOUNDS:
            fields.append((physical_name(field), arrow_type(field["type"])))
    return pa.struct(fields)


def null_count_type(struct: dict[str, Any]) -> pa.StructType:
    """Gives the type of `nullCount` for a table's struct."""
    return pa.struct(
        [
            (physical_name(field), null_count_type(field["type"]) if _is_struct(field) else pa.int64())
            for field in struct["fields"]
        ]
    )


def physical_name(field: dict[str, Any]) -> str:
    """Gives the name of a field in statistics and partition values."""
    return str(field.get("metadata", {}).get("delta.columnMapping.physicalName", field["name"]))


def typed(value: Any, kind: pa.DataType, zone: dt.timedelta = dt.timedelta()) -> Any:  # noqa: ANN401
    """Gives the Python value of a statistic in JSON or of a partition string.

    Args:
        value: The value as the log holds it.
        kind: The type of the column.
        zone: How far ahead of UTC the writer's clock was: partition timestamps without a zone are in its time.
    """
    if value is None:
        return None
    if pa.types.is_struct(kind):
        return {field.name: typed(value.get(field.name), field.type, zone) for field in kind}
    if pa.types.is_timestamp(kind):
        if _FAR.match(value):
            # Further away than Python's years go: microseconds.
            return int(np.datetime64(value.removesuffix("Z"), "us").astype(np.int64))
        moment = dt.datetime.fromisoformat(value)
        if kind.tz is None:
            return moment.replace(tzinfo=None)
        return moment if moment.tzinfo else moment.replace(tzinfo=dt.timezone(zone))
    if pa.types.is_decimal(kind):
        return Decimal(str(value)).quantize(Decimal(1).scaleb(-kind.scale), context=_WIDE)
    if pa.types.is_boolean(kind):
        return value if isinstance(value, bool) else value == "true"
    for belongs, read in _READERS:
        if belongs(kind):
            return read(value)
    return value


def short_float32(value: float) -> float:
    """Gives the number with the fewest digits that is rounded to this 32-bit float."""
    return float(str(np.float32(value)))


def nearest_float32(value: float) -> float:
    """Gives the 32-bit float nearest to a number, as a double."""
    return float(np.float32(value))


_READERS = (
    (pa.types.is_integer, int),
    (pa.types.is_date, dt.date.fromisoformat),
    (pa.types.is_binary, lambda text: text.encode("latin-1")),
    (pa.types.is_float32, lambda number: nearest_float32(float(number))),
    (pa.types.is_float64, float),
)


def partition_text(value: Any, zone: dt.timedelta = dt.timedelta(), *, plain: bool = True) -> str | None:  # noqa: ANN401
    """Writes a partition value as a log holds it.

    Args:
        value: The value.
        zone: How far ahead of UTC the writer's clock is.
        plain: Timestamps in the writer's own time, without a zone, and numbers without an exponent; else
            timestamps in ISO 8601 with a zone and numbers as Java writes them.
    """
    if value is None or isinstance(value, str):
        return value
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, bytes):
        return value.decode("latin-1")
    if isinstance(value, dt.datetime):
        if value.tzinfo is None:
            return value.isoformat(" ")
        if plain:
            return value.astimezone(dt.timezone(zone)).replace(tzinfo=None).isoformat(" ")
        return value.astimezone(dt.UTC).replace(tzinfo=None).isoformat() + "Z"
    if isinstance(value, float):
        return _float_text(value, plain=plain)
    if isinstance(value, Decimal):
        return format(value, "f") if plain else str(value)
    return value.isoformat() if isinstance(value, dt.date) else str(value)


def _float_text(value: float, *, plain: bool) -> str:
    if not math.isfinite(value):
        return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
    if plain:
        return repr(value)
    digits, exponent = f"{Decimal(repr(value)).normalize():E}".split("E")
    return f"{digits if '.' in digits else digits + '.0'}E{int(exponent)}"


def _is_struct(field: dict[str, Any]) -> bool:
    return isinstance(field["type"], dict) and field["type"]["type"] == "struct"
