"""The order of a sidecar's rows: the same values for rows of a sidecar and for files of a log."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from delta_sidecar.log.actions import DELETION_VECTOR
from delta_sidecar.replay.files import FILE_SCHEMA
from delta_sidecar.sidecar.order import SidecarOrder, SortValue, typed, vector_ids

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


def files(**columns: list[Any]) -> pa.RecordBatch:
    rows = len(next(iter(columns.values())))
    empty: dict[str, list[Any]] = {name: [None] * rows for name in FILE_SCHEMA.names}
    empty |= {"raw_path": [f"{number}" for number in range(rows)], "partition_values": [[]] * rows}
    return pa.RecordBatch.from_pydict(empty | columns, schema=FILE_SCHEMA)


def test_a_file_is_complete_with_both_bounds_of_every_summary() -> None:
    order = SidecarOrder((SortValue("lower_bound", AT, TIME),), {AT: TIME, ("v",): pa.float64()})
    both = '"at":"2026-01-01T00:00:00.000Z"'
    texts = [
        f'{{"minValues":{{{both},"v":1}},"maxValues":{{{both},"v":2}}}}',
        f'{{"minValues":{{{both},"v":1}},"maxValues":{{{both}}}}}',
        f'{{"minValues":{{{both},"v":"NaN"}},"maxValues":{{{both},"v":2}}}}',
        f'{{"maxValues":{{{both},"v":2}}}}',
        "{torn",
        None,
    ]
    complete, lower, paths, vectors = order.of_files(files(stats=texts), {})
    assert complete.to_pylist() == [1, 0, 0, 0, 0, 0]
    assert [value is not None for value in lower.to_pylist()] == [True, True, True, False, False, False]
    assert paths.to_pylist() == [str(number) for number in range(6)]
    assert vectors.to_pylist() == [""] * 6


def test_without_summaries_every_file_is_complete() -> None:
    order = SidecarOrder((SortValue("bucket", ("col-h",), pa.int64()),), {})
    values = [[("hour", "7")], [("hour", None)], [], [("other", "1")]]
    complete, bucket, *_ = order.of_files(files(partition_values=values), {"col-h": "hour"})
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
