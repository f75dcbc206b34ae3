"""Values of a table's columns: Arrow types for Delta's, and the typed value of a statistic or partition string."""

from __future__ import annotations

import datetime as dt
import re
from decimal import Decimal
from typing import Any

import pyarrow as pa

_PRIMITIVES = {
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
_DECIMAL = re.compile(r"decimal\((\d+),\s*(\d+)\)")
_WITHOUT_BOUNDS = ("boolean", "binary")


def arrow_type(delta_type: Any) -> pa.DataType:  # noqa: ANN401 - a name or a struct
    """Gives the Arrow type of a primitive or struct type."""
    if isinstance(delta_type, str):
        decimal = _DECIMAL.fullmatch(delta_type)
        return pa.decimal128(int(decimal[1]), int(decimal[2])) if decimal else _PRIMITIVES[delta_type]
    return pa.struct([(physical_name(field), arrow_type(field["type"])) for field in delta_type["fields"]])


def bounds_type(struct: dict[str, Any]) -> pa.StructType:
    """Gives the type of `minValues` for a table's struct: columns without an order are not there."""
    return pa.struct(
        [
            (physical_name(field), bounds_type(field["type"]) if _is_struct(field) else arrow_type(field["type"]))
            for field in struct["fields"]
            if field["type"] not in _WITHOUT_BOUNDS and (isinstance(field["type"], str) or _is_struct(field))
        ]
    )


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
        moment = dt.datetime.fromisoformat(value)
        if kind.tz is None:
            return moment.replace(tzinfo=None)
        return moment if moment.tzinfo else moment.replace(tzinfo=dt.timezone(zone))
    if pa.types.is_date(kind):
        return dt.date.fromisoformat(value)
    if pa.types.is_decimal(kind):
        return Decimal(str(value)).quantize(Decimal(1).scaleb(-kind.scale))
    if pa.types.is_boolean(kind):
        return value if isinstance(value, bool) else value == "true"
    if pa.types.is_integer(kind):
        return int(value)
    return float(value) if pa.types.is_floating(kind) else value


def partition_text(value: Any, zone: dt.timedelta = dt.timedelta()) -> str | None:  # noqa: ANN401
    """Writes a partition value as a log holds it; timestamps in the writer's own time, without a zone."""
    if value is None:
        return None
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, dt.datetime):
        local = value.astimezone(dt.timezone(zone)) if value.tzinfo else value
        return local.replace(tzinfo=None).isoformat(" ")
    return value.isoformat() if isinstance(value, dt.date) else str(value)


def _is_struct(field: dict[str, Any]) -> bool:
    return isinstance(field["type"], dict) and field["type"]["type"] == "struct"
