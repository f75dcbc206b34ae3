"""The order of a metadata sidecar in Spark: columns that Spark sorts as the local build does.

    sort values (nulls first), path, id of the deletion vector

Whether a file is complete comes first in the order of a sidecar and is not among them: each part keeps both kinds of
files apart, and the manifest names the row groups of incomplete files first.

Texts are sorted by Spark itself, which compares their bytes. Values of other types come from our own code, in the
executors' Python, as numbers: what a text counts as must not depend on who reads it.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyspark.sql import functions as F  # noqa: N812 - as everywhere

from delta_sidecar.log.stats import parse_statistics
from delta_sidecar.replay.sort_values import typed, without_nan
from delta_sidecar.spark.delta_log import vector_id

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from delta_sidecar.replay.sidecar_order import SidecarOrder, SortValue


def with_keys(files: DataFrame, order: SidecarOrder) -> tuple[DataFrame, list[str]]:
    """Adds the columns that files are sorted by.

    Args:
        files: The files, with the fields of their `add` actions.
        order: The order of the sidecar.

    Returns:
        The files with more columns, and the names of the columns to sort by.
    """
    keys = {}
    for number, value in enumerate(order.sort):
        # What has no order counts as null in every row.
        if not pa.types.is_binary(value.type):
            keys[f"#{number}"] = _sort_key(value)
    keys["#vector"] = vector_id(F.col("deletionVector"))
    names = [name for name in keys if name != "#vector"]
    return files.withColumns(keys), [*names, "path", "#vector"]


def _sort_key(value: SortValue) -> Any:  # noqa: ANN401 - a column, but functions of Spark's are untyped
    if value.kind == "lower_bound":
        return _function(_LowerBounds(value), value.type)(F.col("stats"))
    text = F.col("partitionValues")[value.path[0]]
    if pa.types.is_string(value.type):
        return F.nullif(text, F.lit(""))
    return _function(_TypedTexts(value), value.type)(text)


@dataclass(frozen=True, slots=True)
class _TypedTexts:
    """Raw partition values as values that Spark sorts."""

    value: SortValue

    def __call__(self, texts: pa.Array) -> pa.Array:
        return _sortable(typed(texts.cast(pa.string()), self.value.type))


@dataclass(frozen=True, slots=True)
class _LowerBounds:
    """Lower bounds in texts of statistics as values that Spark sorts."""

    value: SortValue

    def __call__(self, texts: pa.Array) -> pa.Array:
        path, kind = self.value.path, self.value.type
        texts = texts.cast(pa.string())
        lower = None
        if texts.null_count < len(texts):
            lower = parse_statistics(texts, {path: kind}).columns[path].lower
        return _sortable(pa.nulls(len(texts), kind) if lower is None else without_nan(lower))


def _function(call: _TypedTexts | _LowerBounds, kind: pa.DataType) -> Any:  # noqa: ANN401 - a function of Spark's
    def values(texts: pa.Array) -> pa.Array:
        return call(texts)

    with warnings.catch_warnings():
        # Spark looks whether pandas is there, and finds it too new.
        warnings.simplefilter("ignore", FutureWarning)
        arrow_udf: Any = F.arrow_udf  # type: ignore[attr-defined]
        return arrow_udf(values, _spark_type(kind))


def _sortable(values: pa.Array) -> pa.Array:
    """Values without anything that Spark has an opinion on: times are numbers."""
    kind = values.type
    if pa.types.is_timestamp(kind):
        return values.view(pa.int64())
    if pa.types.is_date32(kind):
        return values.view(pa.int32()).cast(pa.int64())
    if pa.types.is_integer(kind):
        return values.cast(pa.int64())
    return values.cast(pa.float64()) if pa.types.is_floating(kind) else values


def _spark_type(kind: pa.DataType) -> str:
    if pa.types.is_string(kind) or pa.types.is_boolean(kind):
        return str(kind) if pa.types.is_string(kind) else "boolean"
    if pa.types.is_decimal(kind):
        return f"decimal({kind.precision},{kind.scale})"
    return "double" if pa.types.is_floating(kind) else "bigint"
