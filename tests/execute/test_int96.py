"""Parquet's oldest timestamps: as Spark and Arrow write them, in every place of a row, and as nobody does."""

from __future__ import annotations

import struct
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from tests.builder.int96 import arrow_bytes, spark_bytes
from tests.execute.choosing import chosen

from delta_sidecar.execute.parquet import file as parquet_file
from delta_sidecar.execute.parquet.file import ParquetRows
from delta_sidecar.execute.parquet.footer import read_footer
from delta_sidecar.execute.parquet.times import moments
from delta_sidecar.store import open_store

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

DAY = 86_400_000_000
EPOCH = 2_440_588
NAME = "rows.parquet"


def read(*values: bytes | None) -> list[int | None]:
    found = moments(pa.array(values, pa.binary(12)))
    assert found.type == pa.timestamp("us")
    return found.cast(pa.int64()).to_pylist()  # type: ignore[no-any-return]


@given(st.integers(-(2**63), 2**63 - 1))
@example(2**63 - 1)
@example(-(2**63))
@example(0)
@example(-1)
@example(2**63 - EPOCH * DAY)
@example(2**63 - 1 - EPOCH * DAY)
@example(-EPOCH * DAY)
@example(-EPOCH * DAY - 1)
def test_every_moment_comes_back_whoever_wrote_it(micros: int) -> None:
    assert read(arrow_bytes(micros), None, spark_bytes(micros)) == [micros, None, micros]


@pytest.mark.parametrize(
    ("day", "nanos"),
    [
        (EPOCH + 2**63 // DAY, DAY * 1000 - 1),
        (EPOCH + 2**63 // DAY + 1, 0),
        (-(2**63 // DAY) - 1, 0),
        (2**31 - 1, 0),
        (-(2**31), 0),
        (EPOCH, DAY * 1000),
        (EPOCH, -DAY * 1000),
        (EPOCH, 2**63 - 1),
        (EPOCH, -(2**63)),
    ],
)
def test_what_is_no_moment_of_64_bits_is_unknown(day: int, nanos: int) -> None:
    assert read(struct.pack("<qi", nanos, day), arrow_bytes(7)) == [None, 7]


def test_slices_and_nothing() -> None:
    values = pa.array([arrow_bytes(1), None, arrow_bytes(3), spark_bytes(2**63 - 1)], pa.binary(12))
    assert moments(values.slice(1, 2)).cast(pa.int64()).to_pylist() == [None, 3]
    assert moments(values.slice(3)).cast(pa.int64()).to_pylist() == [2**63 - 1]
    assert read() == []
    assert moments(pa.nulls(3, pa.binary(12))).null_count == 3


@pytest.fixture(scope="module")
def pool() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(2) as threads:
        yield threads


def written(
    folder: Path, pool: ThreadPoolExecutor, table: pa.Table, instead: dict[int, bytes] | None = None
) -> ParquetRows:
    """Writes a file, with other bytes for some moments."""
    path = folder / NAME
    pq.write_table(table, path, use_deprecated_int96_timestamps=True, compression="none", store_schema=False)
    content = path.read_bytes()
    for moment, given_bytes in (instead or {}).items():
        assert arrow_bytes(moment) in content
        content = content.replace(arrow_bytes(moment), given_bytes)
    path.write_bytes(content)
    store = open_store(folder)
    return ParquetRows(store, NAME, read_footer(store, NAME, len(content), pool), pool)


def test_only_what_is_int96_becomes_a_moment(tmp_path: Path, pool: ThreadPoolExecutor) -> None:
    """Names are told apart where a dot in one makes two look alike, and required values may be unknown."""
    far, odd = 9_020_000_000_000_000_000, 9_030_000_000_000_000_000
    fields = [("at", pa.timestamp("us"), False), ("raw", pa.binary(12), True), ("n", pa.int64(), True)]
    inner = pa.struct([pa.field(name, kind, nullable=nullable) for name, kind, nullable in fields])
    kind = pa.struct({"deep": inner, "deep.at": pa.string(), "size": pa.int32()})
    rows = [{"deep": {"at": at, "raw": b"r" * 12, "n": 1}, "deep.at": "dotted", "size": 5} for at in (far, odd)]
    table = pa.table({"add": pa.array([*rows, {**rows[0], "deep": None}, None], kind), "txn": pa.array([*"abc", None])})
    instead = {far: spark_bytes(far), odd: struct.pack("<qi", 0, 2**31 - 1)}
    (batch,) = written(tmp_path, pool, table, instead).batches(0, ["add", "txn"])
    batch.validate(full=True)
    found = batch.column("add")
    deep = found.flatten()[0]
    assert deep.is_null().to_pylist() == [False, False, True, True]
    assert deep.flatten()[0].type == pa.timestamp("us")
    assert deep.flatten()[0].cast(pa.int64()).to_pylist() == [far, None, None, None]
    assert deep.flatten()[1].to_pylist() == [b"r" * 12, b"r" * 12, None, None]
    assert found.flatten()[1].to_pylist() == ["dotted"] * 3 + [None]
    assert found.flatten()[2].to_pylist() == [5, 5, 5, None]
    assert batch.column("txn").to_pylist() == [*"abc", None]


def test_a_footer_is_made_for_them_where_they_are_wanted_only(
    tmp_path: Path, pool: ThreadPoolExecutor, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = []
    original = parquet_file.with_fixed_bytes
    monkeypatch.setattr(parquet_file, "with_fixed_bytes", lambda metadata: made.append(1) or original(metadata))
    column = pa.array(
        [{"at": number, "size": number} for number in range(6)],
        pa.struct({"at": pa.timestamp("us"), "size": pa.int64()}),
    )
    rows = written(tmp_path, pool, pa.table({"add": column}))
    assert list(rows.batches(0, ["add.size"]))
    assert not made
    for _ in range(2):
        (batch,) = rows.batches(0, ["add"])
        assert batch.column("add").to_pylist() == column.to_pylist()
    assert len(made) == 1


def test_few_rows_of_a_large_column(tmp_path: Path, pool: ThreadPoolExecutor) -> None:
    count, far = 60_000, 2**63 - 1
    numbers = np.arange(count, dtype=np.int64) * 1_000_003 - 62_135_596_800_000_000
    numbers[40_000] = far
    at = pa.array(numbers).cast(pa.timestamp("us"))
    table = pa.table({"add": pa.StructArray.from_arrays([at], names=["at"])})
    rows = written(tmp_path, pool, table, {far: spark_bytes(far)})
    mask = np.zeros(count, dtype=np.bool_)
    mask[[0, 5, 40_000, count - 1]] = True
    for sparse in (1.0, 0.0):
        found = pa.concat_arrays(
            [batch.column("add").field("at") for batch in chosen(rows, 0, ["add.at"], mask, sparse=sparse)]
        )
        assert found.cast(pa.int64()).to_pylist() == numbers[mask].tolist()
