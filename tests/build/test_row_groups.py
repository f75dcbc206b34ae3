"""Sorted rows, cut into row groups; bounds as the manifest has them."""

from __future__ import annotations

import datetime as dt
import math
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from delta_sidecar.build.live_rows import gathered
from delta_sidecar.build.write import cut, json_value
from delta_sidecar.sidecar.order import bound_scalar

if TYPE_CHECKING:
    from collections.abc import Iterator

FLAGS = pa.schema([("#complete", pa.int8()), ("number", pa.int64())])


def flagged(incomplete: int, complete: int) -> pa.RecordBatch:
    flags = [0] * incomplete + [1] * complete
    columns = [pa.array(flags, pa.int8()), pa.array(range(len(flags)), pa.int64())]
    return pa.RecordBatch.from_arrays(columns, schema=FLAGS)


@given(
    incomplete=st.integers(0, 12),
    complete=st.integers(0, 12),
    rows_per_group=st.integers(1, 7),
    sizes=st.lists(st.integers(1, 9), min_size=1),
)
def test_groups_are_full_and_of_one_kind(incomplete: int, complete: int, rows_per_group: int, sizes: list[int]) -> None:
    whole = flagged(incomplete, complete)

    def batches() -> Iterator[pa.RecordBatch]:
        start, turn = 0, 0
        while start < whole.num_rows:
            yield whole.slice(start, sizes[turn % len(sizes)])
            start += sizes[turn % len(sizes)]
            turn += 1

    groups = list(cut(batches(), rows_per_group))
    numbers = [number for group in groups for number in group.column("number").to_pylist()]
    assert numbers == list(range(whole.num_rows))
    expected = []
    for count in (incomplete, complete):
        expected += [rows_per_group] * (count // rows_per_group) + [count % rows_per_group] * (
            count % rows_per_group > 0
        )
    assert [group.num_rows for group in groups] == expected
    assert all(len(set(group.column("#complete").to_pylist())) == 1 for group in groups)


def test_groups_are_cut_as_they_are_asked_for() -> None:
    taken = []

    def batches() -> Iterator[pa.RecordBatch]:
        for number in range(10):
            taken.append(number)
            yield flagged(0, 4)

    groups = cut(batches(), 6)
    next(groups)
    assert len(taken) == 2
    next(groups)
    assert len(taken) == 3


def test_small_batches_are_gathered_and_large_ones_cut() -> None:
    other = pa.RecordBatch.from_pydict({"other": [1, 2, 3]})
    source = [flagged(0, 2), flagged(0, 2), flagged(0, 3), other, flagged(0, 9)]
    found = list(gathered(source, 4))
    assert [batch.num_rows for batch in found] == [4, 3, 3, 4, 4, 1]
    assert [batch.num_rows for batch in gathered(source[:3], 100, most_bytes=40)] == [4, 3]


@pytest.mark.parametrize(
    ("value", "kind", "expected"),
    [
        (5, pa.int8(), 5),
        (2**63 - 1, pa.int64(), 2**63 - 1),
        (True, pa.bool_(), True),
        ("é", pa.string(), "é"),
        (1.5, pa.float64(), Decimal("1.5")),
        (math.inf, pa.float64(), "Infinity"),
        (-math.inf, pa.float32(), "-Infinity"),
        (Decimal("1.50"), pa.decimal128(10, 2), Decimal("1.50")),
        (dt.date(2026, 2, 10), pa.date32(), "2026-02-10"),
        (dt.datetime(2026, 2, 10, 22, tzinfo=dt.UTC), pa.timestamp("us", "UTC"), "2026-02-10T22:00:00.000Z"),
        (dt.datetime(2026, 2, 10, 22, 0, 0, 123456), pa.timestamp("us"), "2026-02-10T22:00:00.123456"),  # noqa: DTZ001
        (None, pa.int64(), None),
    ],
)
def test_bounds_are_written_to_the_last_digit(value: Any, kind: pa.DataType, expected: Any) -> None:  # noqa: ANN401
    written = json_value(pa.array([value], kind)[0])
    assert (written, type(written)) == (expected, type(expected))


@given(value=st.floats(allow_nan=False, width=32))
def test_small_floats_come_back_the_same(value: float) -> None:
    bound = pa.array([value], pa.float32())[0]
    assert bound_scalar(json_value(bound), pa.float32()).as_py() == bound.as_py()


@given(value=st.integers(-62135596800000000, 253402300799999999))
def test_moments_come_back_the_same(value: int) -> None:
    for kind in (pa.timestamp("us"), pa.timestamp("us", "UTC")):
        bound = pa.array([value], pa.int64()).view(kind)[0]
        assert bound_scalar(json_value(bound), kind).value == value
