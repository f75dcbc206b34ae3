from __future__ import annotations

import io

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from delta_sidecar.execute.parquet.scan import summary_of
from delta_sidecar.plan import FileSummary

ROWS = pa.table({"a": [{"x": 1, "y": None}, None, {"x": None, "y": None}, {"x": 2, "y": "t"}], "b": [1, 2, 3, None]})


def footer(table: pa.Table, **options: object) -> pq.FileMetaData:
    sink = io.BytesIO()
    pq.write_table(table, sink, **options)
    return pq.ParquetFile(pa.BufferReader(sink.getvalue())).metadata


@pytest.mark.parametrize("row_group_size", [1, 3, 9])
def test_values_are_counted_over_all_row_groups(row_group_size: int) -> None:
    found = summary_of("f", footer(ROWS, row_group_size=row_group_size), ("a.x", "a.y", "b", "a.z", "a"))
    assert found == FileSummary("f", 4, {"a.x": 2, "a.y": 1, "b": 3}), "only leaf columns that are there"


def test_what_statistics_do_not_tell_is_unknown() -> None:
    found = summary_of("f", footer(ROWS, write_statistics=["b"], row_group_size=2), ("a.x", "b"))
    assert found == FileSummary("f", 4, {"a.x": None, "b": 3})


def test_a_file_without_rows_has_no_values() -> None:
    assert summary_of("f", footer(ROWS.slice(0, 0)), ("a.x", "b")) == FileSummary("f", 0, {"a.x": 0, "b": 0})
