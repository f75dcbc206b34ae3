"""The order of a sidecar's rows."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from delta_sidecar.log.actions import DELETION_VECTOR
from delta_sidecar.sidecar.manifest import SortColumn
from delta_sidecar.sidecar.order import SidecarOrder, typed, vector_ids
from delta_sidecar.sidecar.schema import SidecarSchema

AT = ("at",)
TIME = pa.timestamp("us", "UTC")


@pytest.mark.parametrize(
    ("kind", "texts", "values"),
    [
        (pa.int32(), ["7", "-1", "", None, "x", "7.5", "3000000000"], [7, -1, None, None, None, None, None]),
        (pa.string(), ["b", "", None, "é"], ["b", None, None, "é"]),
        (pa.float64(), ["1.5", "NaN", "-Infinity", "x"], [1.5, None, float("-inf"), None]),
        (pa.date32(), ["2026-02-10", "never"], [dt.date(2026, 2, 10), None]),
        (pa.decimal128(4, 2), ["1.50", "1.505"], [Decimal("1.50"), None]),
        (pa.bool_(), ["true", "false", "maybe"], [True, False, None]),
        (
            TIME,
            ["2026-02-10 22:00:00", "2026-02-10T22:00:00+01:00", "x"],
            [dt.datetime(2026, 2, 10, 22, tzinfo=dt.UTC), dt.datetime(2026, 2, 10, 21, tzinfo=dt.UTC), None],
        ),
        (pa.binary(), ["a", None], [None, None]),
    ],
)
def test_partition_values_for_comparing(kind: pa.DataType, texts: list[str | None], values: list[Any]) -> None:
    assert typed(pa.array(texts, pa.string()), kind).to_pylist() == values
    # One by one as well: what a text counts as does not depend on the others.
    assert [typed(pa.array([text], pa.string()), kind)[0].as_py() for text in texts] == values


def rows(**columns: pa.Array) -> pa.RecordBatch:
    count = len(next(iter(columns.values())))
    vector = {f"dv.{part.name}": pa.nulls(count, part.type) for part in DELETION_VECTOR}
    paths = pa.array([f"{number}" for number in range(count)])
    return pa.RecordBatch.from_pydict({"path": paths} | vector | columns)


def test_a_row_is_complete_with_both_bounds_of_every_summary() -> None:
    order = SidecarOrder((SortColumn("lower_bound", AT, "timestamp"),), {AT: TIME, ("v",): pa.float64()})
    moment = dt.datetime(2026, 1, 1, tzinfo=dt.UTC)
    bounds = {
        "min.at": pa.array([moment, moment, moment, None, None], TIME),
        "max.at": pa.array([moment, moment, moment, moment, None], TIME),
        "min.v": pa.array([1, 1, float("nan"), 1, None], pa.float64()),
        "max.v": pa.array([2, None, 2, 2, None], pa.float64()),
    }
    schema = SidecarSchema(None, (), AT, {AT: TIME, ("v",): pa.float64()})
    complete, lower, paths, vectors = order.of_rows(rows(**bounds), schema)
    assert complete.to_pylist() == [1, 0, 0, 0, 0]
    assert lower.is_valid().to_pylist() == [True, True, True, False, False]
    assert paths.to_pylist() == [str(number) for number in range(5)]
    assert vectors.to_pylist() == [""] * 5


def test_without_summaries_every_row_is_complete() -> None:
    order = SidecarOrder((SortColumn("bucket", ("col-h",), "long"),), {})
    texts = pa.array(["7", None, "x", ""], pa.string())
    complete, bucket, *_ = order.of_rows(rows(**{"col-h": texts}), SidecarSchema("col-h"))
    assert complete.to_pylist() == [1, 1, 1, 1]
    assert bucket.to_pylist() == [7, None, None, None]


def test_deletion_vectors_are_told_apart() -> None:
    vectors = [
        None,
        {"storageType": "u", "pathOrInlineDv": "ab", "offset": 4, "sizeInBytes": 1, "cardinality": 1},
        {"storageType": "i", "pathOrInlineDv": "ab", "offset": None, "sizeInBytes": 1, "cardinality": 1},
    ]
    assert vector_ids(pa.array(vectors, DELETION_VECTOR)).to_pylist() == ["", "uab@4", "iab"]
    assert vector_ids(pa.nulls(2, DELETION_VECTOR)).to_pylist() == ["", ""]
