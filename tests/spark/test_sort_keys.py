"""Spark puts files in the order that the local build has, whatever their partition values and statistics are."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest
from tests.build.reading_back import comparable

from delta_sidecar.log.stats import parse_statistics
from delta_sidecar.sidecar.manifest import SortColumn
from delta_sidecar.sidecar.order import SidecarOrder, typed, without_nan
from delta_sidecar.sidecar.schema import type_name
from delta_sidecar.spark.build import with_keys

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

KINDS: dict[str, tuple[pa.DataType, list[str | None]]] = {
    "integer": (pa.int32(), ["10", "9", "-3", "x", "2147483648", "-2147483648"]),
    "long": (pa.int64(), ["9223372036854775807", "-9223372036854775808", "9007199254740993", "9007199254740992"]),
    "date": (pa.date32(), ["2026-01-01", "1969-12-31", "0001-01-01", "9999-12-31", "no day"]),
    "timestamp": (
        pa.timestamp("us", "UTC"),
        ["2026-01-01 00:00:00", "2026-01-01T00:00:00.5Z", "1969-12-31 23:59:59.999999", "0001-01-01 00:00:00", "never"],
    ),
    "timestamp_ntz": (pa.timestamp("us"), ["2026-01-01 00:00:00", "1969-12-31 23:59:59.999999"]),
    "decimal": (pa.decimal128(38, 2), ["10.00", "9.5", "-3.25", "123456789012345678901234567890123456.78", "1e3"]),
    "double": (pa.float64(), ["10.5", "-0.5", "0.0", "NaN", "-Infinity", "Infinity", "1e300", "4.9e-324"]),
    "float": (pa.float32(), ["0.1", "0.10000001", "-0.1"]),
    "boolean": (pa.bool_(), ["true", "false", "maybe"]),
    "string": (pa.string(), ["a b", "é", "ÿ", "\U0001f600", "\uffff", "Z", "z", "a", "aa", "\t", "\x7f", "\x80"]),
    "binary": (pa.binary(), ["a", "b"]),
}
VECTORS = [None, ("u", "b", 1), ("u", "b", 10), ("u", "b", None), ("i", "a", None)]
FILES = (
    "path string, partitionValues map<string, string>, stats string, "
    "deletionVector struct<storageType: string, pathOrInlineDv: string, offset: int>"
)


def in_order(files: DataFrame, order: SidecarOrder) -> list[tuple[str, str]]:
    """Paths and vectors as Spark sorts them, range by range."""
    keyed, keys = with_keys(files, order)
    ranged = keyed.repartitionByRange(3, *keys).sortWithinPartitions(*keys)
    return [(row["path"], row["#vector"]) for row in ranged.collect()]


@pytest.mark.full
@pytest.mark.parametrize("name", KINDS)
def test_partition_values(spark: SparkSession, name: str) -> None:
    kind, texts = KINDS[name]
    rows = [
        (f"{path}{place % 3}", {"p": text} if text != "untold" else {}, None, vector)
        for place, text in enumerate([*texts, None, "", "untold"])
        for path in ("é", "z", "Z")
        for vector in VECTORS[: 1 + place % len(VECTORS)]
    ]
    order = SidecarOrder((SortColumn("partition", ("p",), type_name(kind)),), {})
    found = in_order(spark.createDataFrame(rows, FILES), order)
    ids = ["" if vector is None else "".join(map(str, vector[:2])) + _place(vector[2]) for *_, vector in rows]
    values = typed(pa.array([values.get("p") for _, values, *_ in rows], pa.string()), kind)
    keys = comparable([values, pa.array([row[0] for row in rows]), pa.array(ids)])
    paths = [row[0] for row in rows]
    expected = [each for _, *each in sorted(zip(keys, paths, ids, strict=True), key=lambda each: each[0])]
    assert [list(each) for each in found] == expected


def test_lower_bounds(spark: SparkSession) -> None:
    moments = ["2026-01-01T00:00:00.000Z", "1969-12-31T23:59:59.999999Z", "no time", None, "2026-01-01T05:30:00+05:30"]
    texts = [json.dumps({"numRecords": 1, "minValues": {"a": {"b": moment}}}) for moment in moments]
    rows = [(f"{place}", {}, text, None) for place, text in enumerate([*texts, None, "", "{}", '{"minValues":{}}'])]
    kind = pa.timestamp("us", "UTC")
    order = SidecarOrder((SortColumn("lower_bound", ("a", "b"), type_name(kind)),), {})
    found = in_order(spark.createDataFrame(rows, FILES), order)
    stats = pa.array([row[2] for row in rows], pa.string())
    lower = without_nan(parse_statistics(stats, {("a", "b"): kind}).columns["a", "b"].lower)
    keys = comparable([lower, pa.array([row[0] for row in rows])])
    assert [path for path, _ in found] == [path for _, path in sorted(zip(keys, [row[0] for row in rows], strict=True))]


def _place(offset: int | None) -> str:
    return "" if offset is None else f"@{offset}"
