"""Parquet's oldest timestamps: right in every place of a row, or refused by name, or null where they are bounds."""

from __future__ import annotations

import struct
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from tests.builder.int96 import arrow_bytes, spark_bytes
from tests.execute.choosing import chosen

from delta_sidecar.execute.parquet import file as parquet_file
from delta_sidecar.execute.parquet.file import ParquetRows
from delta_sidecar.execute.parquet.footer import FOOTER_BYTES, Layout, read_footer
from delta_sidecar.store import open_store

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

DAY = 86_400_000_000
EPOCH = 2_440_588
NAME = "rows.parquet"
# Spark's Julian days are not negative from the first of these on, and do not overflow up to the second.
FIRST, LAST = -EPOCH * DAY, 2**63 - 1 - EPOCH * DAY
REFUSED = r"column add\.at has a timestamp that 64 bits of microseconds cannot tell, from .* below zero: leave"


@pytest.fixture(scope="module")
def pool() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(2) as threads:
        yield threads


def written(
    folder: Path,
    pool: ThreadPoolExecutor,
    table: pa.Table,
    instead: dict[int, bytes] | None = None,
    *,
    strict: bool = False,
    guess: int = FOOTER_BYTES,
    pairs: dict[str, str] | None = None,
    store_schema: bool = False,
) -> ParquetRows:
    """Writes a file, with other bytes for some moments."""
    path = folder / NAME
    options = {"use_deprecated_int96_timestamps": True, "compression": "none", "store_schema": store_schema}
    with pq.ParquetWriter(path, table.schema, **options) as writer:
        writer.write_table(table)
        writer.add_key_value_metadata(pairs or {})
    content = path.read_bytes()
    for moment, given_bytes in (instead or {}).items():
        assert arrow_bytes(moment) in content
        content = content.replace(arrow_bytes(moment), given_bytes)
    path.write_bytes(content)
    store = open_store(folder)
    footer = read_footer(store, NAME, len(content), guess)
    return ParquetRows(store, NAME, footer, pool, layout=Layout.of(footer.metadata, strict=strict))


def read(folder: Path, pool: ThreadPoolExecutor, *values: bytes, strict: bool) -> list[int | None]:
    """Reads timestamps that have these bytes."""
    first = 4_102_444_800_000_000
    column = pa.array(range(first, first + len(values)), pa.timestamp("us"))
    table = pa.table({"add": pa.StructArray.from_arrays([column], names=["at"])})
    rows = written(folder, pool, table, dict(enumerate(values, first)), strict=strict)
    (batch,) = rows.batches(0, ["add.at"])
    found = batch.column("add").field("at")
    assert found.type == pa.timestamp("us")
    return found.cast(pa.int64()).to_pylist()  # type: ignore[no-any-return]


@settings(max_examples=50, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.integers(FIRST + DAY, LAST) | st.integers(-(2**63), 2**63 - 1))
@example(2**63 - 1)
@example(-(2**63))
@example(-1)
@example(LAST)
@example(LAST + 1)
@example(FIRST + DAY)
@example(FIRST - DAY - 1)
def test_a_moment_is_right_or_refused(tmp_path: Path, pool: ThreadPoolExecutor, micros: int) -> None:
    is_known = FIRST + DAY <= micros <= LAST
    if is_known:
        assert read(tmp_path, pool, arrow_bytes(micros), spark_bytes(micros), strict=True) == [micros, micros]
    elif not FIRST - DAY <= micros < FIRST:
        with pytest.raises(pa.ArrowInvalid, match=REFUSED):
            read(tmp_path, pool, spark_bytes(micros), strict=True)
    expected = micros if is_known else None
    assert read(tmp_path, pool, spark_bytes(micros), arrow_bytes(7), strict=False) == [expected, 7]


@pytest.mark.parametrize("day", [EPOCH + 2**63 // DAY + 1, -(2**63 // DAY) - 1, 2**31 - 1, -(2**31), -1])
@pytest.mark.parametrize("nanos", [0, DAY * 1000 - 1])
def test_a_day_that_no_64_bits_of_microseconds_reach(
    tmp_path: Path, pool: ThreadPoolExecutor, day: int, nanos: int
) -> None:
    held = struct.pack("<qi", nanos, day)
    assert read(tmp_path, pool, held, arrow_bytes(7), strict=False) == [None, 7]
    with pytest.raises(pa.ArrowInvalid, match=REFUSED):
        read(tmp_path, pool, arrow_bytes(7), held, strict=True)


@pytest.mark.parametrize("nanos", [0, 1, DAY * 1000 - 1])
def test_the_day_0_is_not_the_epoch(tmp_path: Path, pool: ThreadPoolExecutor, nanos: int) -> None:
    """Arrow reads it, in the year -4713, as 1970-01-01."""
    held = struct.pack("<qi", nanos, 0)
    assert read(tmp_path, pool, arrow_bytes(0), arrow_bytes(1), strict=True) == [0, 1]
    assert read(tmp_path, pool, arrow_bytes(0), held, strict=False) == [0, None]
    with pytest.raises(pa.ArrowInvalid, match=REFUSED):
        read(tmp_path, pool, arrow_bytes(7), held, strict=True)


@pytest.mark.parametrize("nanos", [-1, -1000, -DAY * 1000, -(2**63)])
@pytest.mark.parametrize("day", [EPOCH + 20_000, EPOCH, EPOCH - 1, 1])
def test_nanoseconds_below_zero(tmp_path: Path, pool: ThreadPoolExecutor, day: int, nanos: int) -> None:
    """Arrow reads them 584 years late."""
    held = struct.pack("<qi", nanos, day)
    assert read(tmp_path, pool, held, arrow_bytes(7), strict=False) == [None, 7]
    with pytest.raises(pa.ArrowInvalid, match=REFUSED):
        read(tmp_path, pool, arrow_bytes(7), held, strict=True)


@pytest.mark.parametrize("days", [1, 3])
def test_nanoseconds_beyond_a_day_count_on(tmp_path: Path, pool: ThreadPoolExecutor, days: int) -> None:
    held = struct.pack("<qi", days * DAY * 1000 + 5000, EPOCH + 20_000)
    assert read(tmp_path, pool, held, strict=True) == [(20_000 + days) * DAY + 5]
    last = struct.pack("<qi", days * DAY * 1000, EPOCH + 2**63 // DAY)
    with pytest.raises(pa.ArrowInvalid, match=REFUSED):
        read(tmp_path, pool, last, strict=True)


def test_a_far_moment_inside_of_a_list(tmp_path: Path, pool: ThreadPoolExecutor) -> None:
    far = 9_020_000_000_000_000_000
    table = pa.table({"l": pa.array([[1, 2], [far]], pa.list_(pa.timestamp("us"))), "n": [1, 2]})
    with pytest.raises(pa.ArrowInvalid, match=r"column l\.element has a timestamp that 64 bits"):
        list(written(tmp_path, pool, table, {far: spark_bytes(far)}, strict=True).batches(0, ["l", "n"]))
    (batch,) = written(tmp_path, pool, table, {far: spark_bytes(far)}).batches(0, ["l", "n"])
    assert batch.to_pydict() == {"l": [None, None], "n": [1, 2]}


@pytest.mark.parametrize("store_schema", [False, True])
def test_nulls_and_empty_lists_beside_a_far_moment(
    tmp_path: Path, pool: ThreadPoolExecutor, *, store_schema: bool
) -> None:
    far, kind = 9_020_000_000_000_000_000, pa.large_list(pa.timestamp("us"))
    lists = {"l": pa.array([[], None, [1, None]], kind), "e": pa.array([[], [], None], kind)}
    table = pa.table(
        {**lists, "n": pa.array([None] * 3, pa.timestamp("us")), "at": pa.array([far, 1, None], kind.value_type)}
    )
    rows = written(tmp_path, pool, table, {far: spark_bytes(far)}, store_schema=store_schema)
    (batch,) = rows.batches(0, ["l", "e", "n", "at"])
    found = {name: column.cast(pa.int64()).to_pylist() for name, column in zip("na", batch.columns[2:], strict=True)}
    assert found == {"n": [None] * 3, "a": [None, 1, None]}
    assert [column.to_pylist() for column in batch.columns[:2]] == [column.to_pylist() for column in lists.values()]


def test_files_that_are_read_through_windows(
    tmp_path: Path, pool: ThreadPoolExecutor, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(parquet_file, "HELD_BYTES", 1 << 10)
    count, far = 60_000, 9_020_000_000_000_000_000
    numbers = np.arange(count, dtype=np.int64) * 1_000_003 - 62_135_596_800_000_000
    numbers[50_000] = far
    table = pa.table({"at": pa.array(numbers).cast(pa.timestamp("us")), "n": numbers})
    rows = written(tmp_path, pool, table, {far: spark_bytes(far)}, guess=64)
    found = pa.Table.from_batches(rows.batches(0, ["at", "n"]))
    expected = numbers.tolist()
    assert found.column("n").to_pylist() == expected
    expected[50_000] = None
    assert found.column("at").cast(pa.int64()).to_pylist() == expected


def test_only_what_is_int96_becomes_a_moment(tmp_path: Path, pool: ThreadPoolExecutor) -> None:
    """Names are told apart where a dot in one makes two look alike, and required values may be unknown."""
    near, odd = 8_900_000_000_000_000_000, 9_030_000_000_000_000_000
    fields = [("at", pa.timestamp("us"), False), ("raw", pa.binary(12), True), ("n", pa.int64(), True)]
    inner = pa.struct([pa.field(name, kind, nullable=nullable) for name, kind, nullable in fields])
    kind = pa.struct({"deep": inner, "deep.at": pa.string(), "size": pa.int32()})
    rows = [{"deep": {"at": at, "raw": b"r" * 12, "n": 1}, "deep.at": "dotted", "size": 5} for at in (near, odd)]
    table = pa.table({"add": pa.array([*rows, {**rows[0], "deep": None}, None], kind), "txn": pa.array([*"abc", None])})
    instead = {near: spark_bytes(near), odd: struct.pack("<qi", 0, 2**31 - 1)}
    (batch,) = written(tmp_path, pool, table, instead).batches(0, ["add", "txn"])
    batch.validate(full=True)
    found = batch.column("add")
    deep = found.flatten()[0]
    assert deep.is_null().to_pylist() == [False, False, True, True]
    assert deep.flatten()[0].type == pa.timestamp("us")
    assert deep.flatten()[0].cast(pa.int64()).to_pylist() == [near, None, None, None]
    assert deep.flatten()[1].to_pylist() == [b"r" * 12, b"r" * 12, None, None]
    assert found.flatten()[1].to_pylist() == ["dotted"] * 3 + [None]
    assert found.flatten()[2].to_pylist() == [5, 5, 5, None]
    assert batch.column("txn").to_pylist() == [*"abc", None]


def test_few_rows_of_a_large_column(tmp_path: Path, pool: ThreadPoolExecutor) -> None:
    count, far = 60_000, 8_900_000_000_000_000_000
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


def test_a_moment_of_the_legacy_calendar(tmp_path: Path, pool: ThreadPoolExecutor) -> None:
    first = -2_208_988_800_000_000
    pairs = {"org.apache.spark.version": "3.5.1", "org.apache.spark.legacyINT96": ""}
    right, wrong = (pa.table({"at": pa.array([at, None, 7], pa.timestamp("us"))}) for at in (first, first - 1))
    (batch,) = written(tmp_path, pool, right, strict=True, pairs=pairs).batches(0, ["at"])
    assert batch.column("at").to_pylist() == right.column("at").to_pylist()
    with pytest.raises(pa.ArrowInvalid, match="column at has a timestamp from before 1900-01-01 in the legacy"):
        list(written(tmp_path, pool, wrong, strict=True, pairs=pairs).batches(0, ["at"]))
    (batch,) = written(tmp_path, pool, wrong, pairs=pairs).batches(0, ["at"])
    assert batch.column("at").cast(pa.int64()).to_pylist() == [None, None, 7]
