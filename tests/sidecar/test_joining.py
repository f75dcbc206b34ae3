from __future__ import annotations

import io
from typing import TYPE_CHECKING

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.sidecar.made import INSTANT, VALUES, DataFile, batches, data_file, schemas

from delta_sidecar.sidecar.pieces import (
    CHUNK_COLUMN_INDEX,
    CHUNK_DATA,
    CHUNK_OFFSET,
    CHUNK_OFFSET_INDEX,
    DATA_BLOOM_FILTER,
    DATA_DICTIONARY,
    DATA_INDEX_PAGE,
    DATA_PAGE,
    FILE_GROUPS,
    GROUP_COLUMNS,
    GroupFooters,
    encode_piece,
    join_footers,
    joined_group,
    moved,
    piece_footer,
    read_footer,
)
from delta_sidecar.sidecar.schema import SidecarSchema

if TYPE_CHECKING:
    from pathlib import Path

PATIENTLY = settings(deadline=None, max_examples=40)
EVERY_TYPE = SidecarSchema(
    "_event_hour",
    ("region", "a.b"),
    ("event_time",),
    {("event_time",): INSTANT, ("payload",): None}
    | {("nested", f"c.{number}", "`"): kind for number, kind in enumerate(VALUES)},
)
Groups = list[tuple[pa.RecordBatch, pa.RecordBatch]]


@st.composite
def row_groups(draw: st.DrawFn, schema: SidecarSchema, most: int = 4) -> Groups:
    sizes = draw(st.lists(st.integers(1, 6), max_size=most))
    return [(draw(batches(schema.index, rows)), draw(batches(schema.statistics_schema, rows))) for rows in sizes]


def rows_of(groups: Groups) -> list[dict[str, object]]:
    return [
        left | right
        for index, statistics in groups
        for left, right in zip(index.to_pylist(), statistics.to_pylist(), strict=True)
    ]


@PATIENTLY
@given(st.data(), schemas())
def test_the_combined_file_has_the_rows_of_its_pieces(data: st.DataObject, schema: SidecarSchema) -> None:
    groups = data.draw(row_groups(schema))
    made = data_file(schema, groups)
    file = pq.ParquetFile(io.BytesIO(made.data), page_checksum_verification=True)
    table = file.read()
    assert table.schema == pa.schema([*schema.index, *schema.statistics_schema])
    assert table.to_pylist() == rows_of(groups)
    assert file.metadata.num_row_groups == len(groups)
    assert [file.metadata.row_group(place).num_rows for place in range(len(groups))] == [
        len(left) for left, _ in groups
    ]


@settings(deadline=None, max_examples=10)
@given(st.data())
def test_each_range_alone_is_a_parquet_file(data: st.DataObject) -> None:
    groups = data.draw(row_groups(EVERY_TYPE))
    made = data_file(EVERY_TYPE, groups)
    for place, (left, right) in enumerate(groups):
        for (offset, piece), batch in ((made.index[place], left), (made.statistics[place], right)):
            alone = made.data[offset : offset + len(piece)]
            assert alone[:4] == alone[-4:] == b"PAR1"
            assert pq.read_table(io.BytesIO(alone)).to_pylist() == batch.to_pylist()


@settings(deadline=None, max_examples=8)
@given(st.data())
def test_duckdb_reads_the_same(tmp_path_factory: pytest.TempPathFactory, data: st.DataObject) -> None:
    groups = data.draw(row_groups(EVERY_TYPE))
    made = data_file(EVERY_TYPE, groups)
    path = tmp_path_factory.mktemp("duckdb") / "v1.parquet"
    path.write_bytes(made.data)
    with duckdb.connect() as connection:
        connection.execute("SET TimeZone = 'UTC'")
        table = connection.sql(f"SELECT * FROM '{path}'").to_arrow_table()  # noqa: S608 - a path of ours
    assert table.to_pylist() == rows_of(groups)


def hourly(hours: list[str | None]) -> DataFile:
    schema = SidecarSchema("_event_hour")
    groups = []
    for hour in hours:
        index = [
            pa.array([hour] * 10) if field.name == "_event_hour" else pa.nulls(10, field.type) for field in schema.index
        ]
        statistics = [pa.nulls(10, field.type) for field in schema.statistics_schema]
        groups.append(
            (
                pa.RecordBatch.from_arrays(index, schema=schema.index),
                pa.RecordBatch.from_arrays(statistics, schema=schema.statistics_schema),
            )
        )
    return data_file(schema, groups, {"delta-sidecar": "document", "other": "ü"})


def test_engines_can_skip_row_groups(tmp_path: Path) -> None:
    path = tmp_path / "v1.parquet"
    path.write_bytes(hourly(["2025010100", "2025010101", "2025010102"]).data)
    bounds = duckdb.sql(
        f"SELECT stats_min_value, stats_max_value FROM parquet_metadata('{path}') "  # noqa: S608 - a path of ours
        "WHERE path_in_schema = '_event_hour' ORDER BY row_group_id"
    ).fetchall()
    assert bounds == [(hour, hour) for hour in ("2025010100", "2025010101", "2025010102")]
    found = pq.read_table(path, filters=[("_event_hour", "=", "2025010101")])
    assert found.num_rows == 10


def test_the_footer_of_the_file() -> None:
    made = hourly(["2025010100", None])
    metadata = pq.read_metadata(io.BytesIO(made.data))
    assert metadata.created_by == "delta-sidecar version 1"
    assert metadata.metadata == {b"delta-sidecar": b"document", b"other": "ü".encode()}
    for place in range(2):
        group = metadata.row_group(place)
        columns = [group.column(column) for column in range(group.num_columns)]
        assert group.total_byte_size == sum(column.total_uncompressed_size for column in columns)
        ranges = [
            (column.data_page_offset, column.data_page_offset + column.total_compressed_size) for column in columns
        ]
        index, statistics = made.index[place], made.statistics[place]
        inside = [index] * len(SidecarSchema("_event_hour").index) + [statistics] * 5
        for (start, end), (offset, piece) in zip(ranges, inside, strict=True):
            assert offset + 4 <= start < end < offset + len(piece)


def test_a_file_without_row_groups() -> None:
    table = pq.read_table(io.BytesIO(data_file(EVERY_TYPE, []).data))
    assert table.num_rows == 0
    assert table.schema == pa.schema([*EVERY_TYPE.index, *EVERY_TYPE.statistics_schema])


def test_row_groups_are_joined_one_at_a_time() -> None:
    made = hourly(["2025010100"] * 3)
    taken = []

    def footers() -> object:
        for place in range(3):
            taken.append(place)
            (left_at, left), (right_at, right) = made.index[place], made.statistics[place]
            yield GroupFooters(piece_footer(left), left_at, piece_footer(right), right_at)

    schema = SidecarSchema("_event_hour")
    blocks = join_footers(
        schema, footers(), num_row_groups=3, num_rows=30, key_values={"delta-sidecar": "document", "other": "ü"}
    )  # type: ignore[arg-type]
    seen = []
    pieces = []
    for block in blocks:
        pieces.append(block)
        seen.append(len(taken))
    assert seen == [0, 1, 2, 3, 3, 3]
    assert made.data.endswith(b"".join(pieces))


@pytest.mark.parametrize(("groups", "rows"), [(2, 30), (4, 30), (3, 29)])
def test_wrong_counts_are_found(groups: int, rows: int) -> None:
    made = hourly(["2025010100"] * 3)
    footers = [
        GroupFooters(piece_footer(left), left_at, piece_footer(right), right_at)
        for (left_at, left), (right_at, right) in zip(made.index, made.statistics, strict=True)
    ]
    with pytest.raises(ValueError, match="3 row groups with 30 rows"):
        list(join_footers(SidecarSchema("_event_hour"), footers, num_row_groups=groups, num_rows=rows, key_values={}))


@pytest.mark.parametrize("schema", [SidecarSchema("_event_day"), SidecarSchema(None), EVERY_TYPE])
def test_other_columns_are_found(schema: SidecarSchema) -> None:
    made = hourly(["2025010100"])
    footers = [GroupFooters(piece_footer(made.index[0][1]), 0, piece_footer(made.statistics[0][1]), 9)]
    with pytest.raises(ValueError, match="row group 0 have other columns"):
        list(join_footers(schema, footers, num_row_groups=1, num_rows=10, key_values={}))


def test_pieces_of_different_lengths_are_found() -> None:
    made = hourly(["2025010100"])
    schema = SidecarSchema("_event_hour").statistics_schema
    short = encode_piece(
        pa.RecordBatch.from_arrays([pa.nulls(9, field.type) for field in schema], schema=schema), chunk_digests=True
    )
    footers = [GroupFooters(piece_footer(made.index[0][1]), 0, piece_footer(short), 9)]
    with pytest.raises(ValueError, match="equally many rows"):
        list(join_footers(SidecarSchema("_event_hour"), footers, num_row_groups=1, num_rows=10, key_values={}))


def test_every_offset_moves() -> None:
    data = {DATA_PAGE: 100, DATA_INDEX_PAGE: 200, DATA_DICTIONARY: 50, DATA_BLOOM_FILTER: 300}
    chunk = {CHUNK_OFFSET: 400, CHUNK_DATA: data, CHUNK_OFFSET_INDEX: 500, CHUNK_COLUMN_INDEX: 600}
    assert moved(chunk, 1_000) == {
        CHUNK_OFFSET: 1_400,
        CHUNK_DATA: {DATA_PAGE: 1_100, DATA_INDEX_PAGE: 1_200, DATA_DICTIONARY: 1_050, DATA_BLOOM_FILTER: 1_300},
        CHUNK_OFFSET_INDEX: 1_500,
        CHUNK_COLUMN_INDEX: 1_600,
    }
    assert chunk[CHUNK_OFFSET] == 400
    assert moved({CHUNK_OFFSET: 0, CHUNK_DATA: {DATA_PAGE: 4}}, 10) == {CHUNK_OFFSET: 0, CHUNK_DATA: {DATA_PAGE: 14}}


def test_very_many_row_groups_have_no_ordinals() -> None:
    tree = read_footer(piece_footer(hourly(["2025010100"]).index[0][1]))
    columns = tree[FILE_GROUPS].items[0][GROUP_COLUMNS].items
    assert len(joined_group(columns, 10, 2**15 - 1)) == len(joined_group(columns, 10, 2**15)) + 1
