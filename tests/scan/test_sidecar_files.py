"""A metadata sidecar is ordinary Parquet to everybody else, as a whole and piece by piece."""

from __future__ import annotations

import json
from itertools import pairwise
from typing import TYPE_CHECKING

import duckdb
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from tests.builder import TableBuilder, add, metadata
from tests.scan.reading import scan
from tests.scan.sidecar_layouts import LAYOUTS, SIDECAR, laid_out
from tests.scan.sidecar_tables import heard, manifest_of, sidecar_path, with_sidecar, without_sidecars

from delta_sidecar._arrow import xxh3_128
from delta_sidecar.build.publish import Levels
from delta_sidecar.sidecar.schema import column_name

if TYPE_CHECKING:
    from pathlib import Path

TYPES = {
    "long": "long",
    "text": "string",
    "at": "timestamp",
    "clock": "timestamp_ntz",
    "day": "date",
    "real": "double",
    "small": "float",
    "flag": "boolean",
    "amount": "decimal(10,2)",
    "byte": "byte",
    "a.b": "short",
    "raw": "binary",
}
STATS = {
    "numRecords": 2,
    "minValues": {
        "long": -(2**63),
        "text": "a",
        "at": "2026-02-10T10:00:00.000Z",
        "clock": "2026-02-10T10:00:00.000",
        "day": "2026-02-10",
        "real": 0.1,
        "small": 0.5,
        "amount": -1.5,
        "byte": -128,
        "a.b": 5,
    },
    "maxValues": {
        "long": 2**63 - 1,
        "text": "b\U0010ffff",
        "at": "2026-02-10T11:00:00.000Z",
        "clock": "2026-02-10T11:00:00.000",
        "day": "9999-12-31",
        "real": 1e300,
        "small": 3.0,
        "amount": 99999999.99,
        "byte": 127,
        "a.b": 6,
    },
    "nullCount": dict.fromkeys(TYPES, 1),
}


@pytest.fixture(params=LAYOUTS)
def table(request: pytest.FixtureRequest, tmp_path: Path) -> TableBuilder:
    return laid_out(tmp_path, LAYOUTS[request.param], rows_per_group=3)


@pytest.fixture
def typed(tmp_path: Path) -> TableBuilder:
    """A column of every type with bounds, in a table of two files, one of them without statistics."""
    built = TableBuilder(tmp_path)
    built.commit([metadata(TYPES), add("a.parquet", stats=STATS, tags={"k": "v"}, baseRowId=5), add("b.parquet")])
    return with_sidecar(built)


@pytest.mark.full
def test_pyarrow_and_duckdb_find_the_same_rows(table: TableBuilder) -> None:
    path = sidecar_path(table, SIDECAR)
    rows = pq.read_table(path)
    expected = without_sidecars(table, version=SIDECAR)
    assert sorted(rows["path"].to_pylist()) == sorted(file.raw_path for file in expected)
    assert sum(rows["size"].to_pylist()) == sum(file.size for file in expected)
    assert same_in_duckdb(path, rows)


def test_every_type_comes_back(typed: TableBuilder) -> None:
    path = sidecar_path(typed, 0)
    rows = pq.read_table(path)
    assert same_in_duckdb(path, rows)
    (found,) = (row for row in rows.to_pylist() if row["path"] == "a.parquet")
    row = {name: value for name, value in found.items() if value is not None}
    for side in ("min", "max"):
        for name in STATS[f"{side}Values"]:
            assert f"{side}.{column_name((name,))}" in row
    assert row["min.long"] == -(2**63)
    assert str(row["max.amount"]) == "99999999.99"
    assert [json.loads(file.stats) for file in scan(typed, predicate="long > 5") if file.stats] == [STATS]


def same_in_duckdb(path: Path, rows: pa.Table) -> bool:
    with duckdb.connect() as connection:
        connection.execute("SET TimeZone = 'UTC'")
        names = ", ".join(f'"{name}"' for name in rows.column_names)
        found = connection.sql(f"SELECT {names} FROM read_parquet('{path}')").to_arrow_table()  # noqa: S608
        (skipped,) = connection.execute(f"SELECT count(*) FROM '{path}' WHERE path >= 'f1'").fetchone() or (0,)  # noqa: S608
    assert skipped == sum(pc.greater_equal(rows["path"], "f1").to_pylist())
    return [list(map(repr, row.values())) for row in found.to_pylist()] == [
        list(map(repr, row.values())) for row in rows.to_pylist()
    ]


def test_every_range_is_a_file_of_its_own(table: TableBuilder) -> None:
    """Index and statistics of each row group, cut out by what the manifest says."""
    path = sidecar_path(table, SIDECAR)
    content, whole = path.read_bytes(), pq.ParquetFile(path)
    manifest = manifest_of(table, SIDECAR)
    assert whole.metadata.num_row_groups == manifest.num_row_groups == len(manifest.row_groups)
    assert whole.metadata.num_rows == manifest.num_files
    for group in manifest.row_groups:
        expected = whole.read_row_group(group.index)
        found: dict[str, pa.ChunkedArray] = {}
        for start, length, digest in (
            (group.byte_offset, group.byte_length, group.digest),
            (group.stats_offset, group.stats_length, group.stats_digest),
        ):
            piece = content[start : start + length]
            assert xxh3_128(piece) == digest
            assert piece[:4] == piece[-4:] == b"PAR1"
            rows = pq.read_table(pa.BufferReader(piece))
            assert rows.num_rows == group.num_rows
            found |= dict(zip(rows.column_names, rows.columns, strict=True))
        assert pa.table(found).equals(expected.replace_schema_metadata(None))
    ends = sorted(
        span
        for group in manifest.row_groups
        for span in (
            (group.byte_offset, group.byte_offset + group.byte_length),
            (group.stats_offset, group.stats_offset + group.stats_length),
        )
    )
    assert ends[0][0] == 0
    assert all(one[1] == other[0] for one, other in pairwise(ends)), "no byte is nobody's"


def test_rows_are_in_the_order_of_their_keys(table: TableBuilder) -> None:
    manifest = manifest_of(table, SIDECAR)
    rows = pq.read_table(sidecar_path(table, SIDECAR))
    at = 0
    for group in manifest.row_groups:
        paths = rows["path"].slice(at, group.num_rows).to_pylist()
        assert (group.first_key[-2], group.last_key[-2]) == (paths[0], paths[-1])
        at += group.num_rows
    if manifest.bucket_column is None and not manifest.sort:
        assert rows["path"].to_pylist() == sorted(rows["path"].to_pylist())


def test_page_checksums_find_a_damaged_page(table: TableBuilder) -> None:
    """Others have no digests, but they can have these."""
    path = sidecar_path(table, SIDECAR)
    group = manifest_of(table, SIDECAR).row_groups[0]
    chunk = pq.ParquetFile(path).metadata.row_group(0).column(0)
    content = bytearray(path.read_bytes())
    content[chunk.data_page_offset + chunk.total_compressed_size - 3] ^= 4
    assert group.byte_offset <= chunk.data_page_offset < group.byte_offset + group.byte_length
    with pytest.raises(OSError, match=r"checksum|CRC|[Cc]orrupt"):
        pq.ParquetFile(pa.BufferReader(bytes(content)), page_checksum_verification=True).read()


def test_an_empty_table_has_a_file_without_rows(tmp_path: Path) -> None:
    table = TableBuilder(tmp_path)
    table.commit()
    with_sidecar(table)
    rows = pq.read_table(sidecar_path(table, 0))
    assert rows.num_rows == 0
    assert same_in_duckdb(sidecar_path(table, 0), rows)
    one = heard(table)
    assert (one.files, one.bases, one.told) == ([], [(0, 1)], (1, None))


def test_two_levels_are_one_file_to_others(tmp_path: Path) -> None:
    table = laid_out(tmp_path, LAYOUTS["bucket"], levels=Levels(2, 3, 2))
    manifest = manifest_of(table, SIDECAR)
    assert manifest.segments
    rows = pq.read_table(sidecar_path(table, SIDECAR))
    assert rows.num_rows == manifest.num_files
    assert same_in_duckdb(sidecar_path(table, SIDECAR), rows)
    found = heard(table)
    assert found.told == (1, None)
