"""Batches of rows stay small, however much a small file swells when it is decoded."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pytest
from tests.rows.tables import array_type, one_file, parquet

from delta_sidecar import DeltaTable

if TYPE_CHECKING:
    from pathlib import Path

TARGET = 8 << 20


def sizes(root: Path, rows: int) -> list[int]:
    """Reads a table, and gives the bytes of its batches."""
    found, total = [], 0
    for batch in DeltaTable(root).scan():
        found.append(batch.nbytes)
        total += batch.num_rows
    assert total == rows
    return found


@pytest.mark.parametrize("row_groups", [1, 3])
def test_a_long_text_that_is_stored_once(tmp_path: Path, row_groups: int) -> None:
    rows = 6_000
    texts = pa.DictionaryArray.from_arrays(pa.array(np.zeros(rows, np.int32)), pa.array(["x" * 20_000]))
    content = parquet(pa.table({"s": texts}), row_group_size=rows // row_groups)
    assert len(content) < 10_000
    one_file(tmp_path, {"s": "string"}, content)
    assert max(sizes(tmp_path, rows)) < 2 * TARGET


@pytest.mark.parametrize("nested", [False, True])
def test_a_long_text_that_comes_late(tmp_path: Path, *, nested: bool) -> None:
    """What the first rows come to says nothing of the others."""
    texts = pa.DictionaryArray.from_arrays(
        pa.array(np.repeat(np.int32([0, 1]), [1_000, 5_000])), pa.array(["a", "B" * 20_000])
    ).cast(pa.string())
    offsets = pa.array(range(len(texts) + 1), pa.int32())
    content = parquet(pa.table({"s": pa.ListArray.from_arrays(offsets, texts) if nested else texts}))
    assert len(content) < 10_000
    one_file(tmp_path, {"s": array_type("string") if nested else "string"}, content)
    found = sizes(tmp_path, 6_000)
    assert max(found) < 3 * TARGET
    # Not many small ones either.
    assert len(found) < 3 * sum(found) / TARGET


def test_texts_that_share_their_beginnings(tmp_path: Path) -> None:
    rows = 20_000
    texts = pa.table({"s": [f"{'v' * 3_000}{at % 10}" for at in range(rows)]})
    content = parquet(texts, use_dictionary=False, column_encoding={"s": "DELTA_BYTE_ARRAY"})
    assert len(content) < 200_000
    one_file(tmp_path, {"s": "string"}, content)
    assert max(sizes(tmp_path, rows)) < 2 * TARGET


def test_bytes_of_one_length_that_are_stored_once(tmp_path: Path) -> None:
    rows = 6_000
    held = pa.DictionaryArray.from_arrays(
        pa.array(np.zeros(rows, np.int32)), pa.array([b"x" * 20_000], pa.binary(20_000))
    )
    content = parquet(pa.table({"b": held}), store_schema=False)
    assert len(content) < 50_000
    one_file(tmp_path, {"b": "binary"}, content)
    assert max(sizes(tmp_path, rows)) < 3 * TARGET


def test_long_lists_of_equal_numbers(tmp_path: Path) -> None:
    rows, length = 2_000, 5_000
    numbers = pa.array(np.zeros(rows * length, np.int64))
    lists = pa.ListArray.from_arrays(pa.array(range(0, rows * length + 1, length), pa.int32()), numbers)
    content = parquet(pa.table({"l": lists}))
    assert len(content) < 20_000
    one_file(tmp_path, {"l": array_type("long")}, content)
    assert max(sizes(tmp_path, rows)) <= 3 * TARGET


def test_a_long_partition_value(tmp_path: Path) -> None:
    rows = 60_000
    long = "p" * 2_000
    one_file(tmp_path, {"id": "long", "p": "string"}, pa.table({"id": np.arange(rows)}), partition_values={"p": long})
    assert max(sizes(tmp_path, rows)) < 2 * TARGET


def test_rows_that_are_large_come_by_ones_and_twos(tmp_path: Path) -> None:
    texts = [chr(65 + at) * (4 << 20) for at in range(12)]
    one_file(tmp_path, {"s": "string"}, parquet(pa.table({"s": texts}), use_dictionary=False))
    assert max(sizes(tmp_path, 12)) <= 2 * TARGET


def test_ordinary_rows_come_in_batches_of_ordinary_size(tmp_path: Path) -> None:
    """A dictionary by itself is no reason to read row by row."""
    rows = 100_000
    table = pa.table({"device": [f"device-{at % 500:05}" for at in range(rows)], "value": np.arange(rows) * 0.5})
    one_file(tmp_path, {"device": "string", "value": "double"}, parquet(table))
    assert len(sizes(tmp_path, rows)) == 2
