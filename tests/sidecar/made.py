"""Sidecars made by hand: batches of every type, data files put together from pieces, and manifests."""

from __future__ import annotations

import datetime as dt
import json
from dataclasses import dataclass
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from hypothesis import strategies as st

from delta_sidecar._arrow import xxh3_128
from delta_sidecar.sidecar.groups import RowGroup, StatsFooter, SummaryBounds
from delta_sidecar.sidecar.manifest import (
    NO_ROW_GROUPS,
    CommitMark,
    Manifest,
    SidecarFile,
    SortColumn,
    check_seal,
    with_row_groups,
)
from delta_sidecar.sidecar.pieces import GroupFooters, encode_piece, join_footers, piece_footer
from delta_sidecar.sidecar.schema import SidecarSchema

if TYPE_CHECKING:
    from collections.abc import Sequence

    from delta_sidecar.sidecar.groups import Segment

INSTANT = pa.timestamp("us", "UTC")
TIMES = st.datetimes(dt.datetime(1900, 1, 1), dt.datetime(2200, 1, 1))  # noqa: DTZ001 - the zone is the type's
TEXTS = st.text(st.characters(codec="utf-8"), max_size=12)
VALUES: dict[pa.DataType, st.SearchStrategy[Any]] = {
    pa.bool_(): st.booleans(),
    pa.int8(): st.integers(-(2**7), 2**7 - 1),
    pa.int16(): st.integers(-(2**15), 2**15 - 1),
    pa.int32(): st.integers(-(2**31), 2**31 - 1),
    pa.int64(): st.integers(-(2**63), 2**63 - 1),
    pa.float32(): st.floats(width=32, allow_nan=False),
    pa.float64(): st.floats(allow_nan=False),
    pa.decimal128(7, 2): st.decimals(-99999, 99999, places=2),
    pa.decimal128(38, 0): st.integers(-(10**38) + 1, 10**38 - 1).map(Decimal),
    pa.string(): TEXTS,
    pa.date32(): st.dates(dt.date(1900, 1, 1), dt.date(2200, 1, 1)),
    pa.timestamp("us"): TIMES,
    INSTANT: TIMES.map(lambda value: value.replace(tzinfo=dt.UTC)),
}
NAMES = st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=6) | st.sampled_from(
    ["a.b", "a`b", "`", "", "size", "min.x", "Ä", "a b"]
)
PATHS = st.lists(NAMES, min_size=1, max_size=3).map(tuple)


@st.composite
def schemas(draw: st.DrawFn) -> SidecarSchema:
    """Columns of any type, names and depth; engines must be able to tell their names apart in any case."""
    kinds = st.none() | st.sampled_from(list(VALUES))
    columns = draw(st.dictionaries(PATHS, kinds, max_size=5))
    columns = {tuple(part.lower() for part in path): kind for path, kind in columns.items()}
    timed = [path for path, kind in columns.items() if kind is not None and pa.types.is_timestamp(kind)]
    names = draw(st.lists(NAMES.map(str.lower).filter(bool), unique=True, max_size=3))
    bucket = names.pop() if names and draw(st.booleans()) else None
    return SidecarSchema(bucket, tuple(names), timed[0] if timed else None, columns)


@st.composite
def batches(draw: st.DrawFn, schema: pa.Schema, rows: int) -> pa.RecordBatch:
    """Rows with nulls."""
    columns = []
    for field in schema:
        values = st.lists(st.none() | VALUES[field.type], min_size=rows, max_size=rows)
        columns.append(pa.array(draw(values), field.type))
    return pa.RecordBatch.from_arrays(columns, schema=schema)


@dataclass(frozen=True)
class DataFile:
    """A data file, and where its pieces are."""

    data: bytes
    index: list[tuple[int, bytes]]
    statistics: list[tuple[int, bytes]]


def data_file(
    schema: SidecarSchema,
    groups: list[tuple[pa.RecordBatch, pa.RecordBatch]],
    key_values: dict[str, str] | None = None,
) -> DataFile:
    """Puts a data file together."""
    skippable = [] if schema.bucket_column is None else [schema.bucket_column]
    pieces = [encode_piece(index, chunk_digests=False, skippable=skippable) for index, _ in groups]
    pieces += [encode_piece(statistics, chunk_digests=True) for _, statistics in groups]
    placed, position = [], 0
    for piece in pieces:
        placed.append((position, piece))
        position += len(piece)
    index, statistics = placed[: len(groups)], placed[len(groups) :]
    footers = [
        GroupFooters(piece_footer(left), left_at, piece_footer(right), right_at)
        for (left_at, left), (right_at, right) in zip(index, statistics, strict=True)
    ]
    rows = sum(batch.num_rows for batch, _ in groups)
    footer = join_footers(schema, footers, num_row_groups=len(groups), num_rows=rows, key_values=key_values or {})
    return DataFile(b"".join([*(pieces or [b"PAR1"]), *footer]), index, statistics)


def row_group(number: int, **changes: Any) -> RowGroup:  # noqa: ANN401 - any field
    """A row group with pieces of 100 bytes each."""
    hour = f"20250101{number % 24:02}"
    values: dict[str, Any] = {
        "index": number,
        "byte_offset": number * 200,
        "byte_length": 100,
        "num_rows": 10,
        "digest": xxh3_128(b"i%d" % number),
        "stats_offset": number * 200 + 100,
        "stats_length": 100,
        "stats_digest": xxh3_128(b"s%d" % number),
        "stats_footer": StatsFooter(60, xxh3_128(b"f%d" % number)),
        "first_key": (1, hour, f"_event_hour={hour}/a.parquet", ""),
        "last_key": (1, hour, f"_event_hour={hour}/ü.parquet", "u1"),
        "event_hour_min": hour,
        "event_hour_max": hour,
        "null_buckets": 0,
        "odd_buckets": 0,
        "columns": {"event_time": SummaryBounds(f"2025-01-01T{number % 24:02}:00:00.000Z", "2025-01-02T00:00:00.000Z")},
    }
    return RowGroup(**(values | changes))


def document_of(data: bytes) -> dict[str, Any]:
    """A sealed manifest without its digest, as plain JSON."""
    check_seal(data)
    document: dict[str, Any] = json.loads(data, parse_float=Decimal)
    del document["digest"]
    return document


def manifest(
    groups: int = 3,
    *,
    files: Sequence[SidecarFile] = (),
    row_groups: Sequence[RowGroup] | None = None,
    segments: Sequence[Segment] = (),
    **changes: Any,  # noqa: ANN401 - any field
) -> Manifest:
    """A manifest of so many row groups, in a file in which every piece has 100 bytes."""
    first, *others = files or [SidecarFile("v12.parquet", groups * 200 + 50)]
    values: dict[str, Any] = {
        "format_version": 1,
        "version": 12,
        "sidecar_file": first.name,
        "sidecar_size_bytes": first.size,
        "other_files": tuple(others),
        "num_files": groups * 10,
        "num_row_groups": groups,
        "schema_hash": xxh3_128(b"schema"),
        "commit": CommitMark(1234, xxh3_128(b"commit")),
        "protocol": {"minReaderVersion": 1, "minWriterVersion": 2},
        "metadata": {
            "id": "af23",
            "schemaString": '{"type":"struct","fields":[]}',
            "partitionColumns": ["_event_hour"],
            "configuration": {"deltaSidecar.bucketColumn": "_event_hour"},
            "format": {"provider": "parquet", "options": {}},
            "createdTime": 1735689600000,
        },
        "bucket_column": "_event_hour",
        "time_column": ("event_time",),
        "sort": (SortColumn("bucket", ("_event_hour",), "string"),),
        "summaries": (("event_time",),),
        "statistics": (("event_time",), ("payload", "a.b")),
        "stats_format": "spark",
        "listed_row_groups": NO_ROW_GROUPS,
    }
    listed = map(row_group, range(groups)) if row_groups is None else row_groups
    return with_row_groups(Manifest(**(values | changes)), tuple(listed), tuple(segments))
