"""Sidecars of every kind of table hold every live file, whole and in order."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import deltalake
import pyarrow as pa
import pytest
from tests.build.checked import build, hours, is_right
from tests.builder import TableBuilder, add, deletion_vector, protocol, remove

from delta_sidecar.sidecar.groups import SummaryBounds

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.parametrize(
    "checkpoint",
    [
        None,
        {"kind": "v1"},
        {"kind": "v1-multipart"},
        {"kind": "v1", "struct_stats": True, "json_stats": False},
        {"kind": "v2-json"},
        {"kind": "v2-parquet", "sidecars": 3},
        {"kind": "v2-classic", "sidecars": 0},
    ],
    ids=lambda form: "none" if form is None else "-".join(map(str, form.values())),
)
def test_tables_with_every_kind_of_checkpoint(tmp_path: Path, checkpoint: dict[str, Any] | None) -> None:
    features = ["v2Checkpoint"] if checkpoint and checkpoint["kind"].startswith("v2") else []
    table = hours(tmp_path, protocol=protocol(features=features) if features else None)
    if checkpoint is not None:
        table.checkpoint(**checkpoint)
    table.commit([remove("_event_hour=2026021000/0.parquet"), add("_event_hour=2026021009/z.parquet")])
    summary = build(tmp_path, rows_per_group=4)
    found = is_right(tmp_path, summary)
    assert summary.sorted_by == "time bucket _event_hour"
    assert summary.time_column == "at"
    # One file has neither a bucket nor bounds: it is in a row group of its own.
    assert [group.num_rows for group in found.groups] == [1, 4, 4, 4, 4, 4, 4]
    first = found.groups[0]
    assert (first.event_hour_min, first.event_hour_max, first.null_buckets, first.odd_buckets) == (None, None, 1, 0)
    assert first.columns == {}
    lows = [group.event_hour_min for group in found.groups[1:]]
    assert lows == sorted(lows)
    assert all(group.columns["at"].min <= group.columns["at"].max for group in found.groups[1:])


def test_partition_values_that_a_checkpoint_does_not_tell(tmp_path: Path) -> None:
    table = TableBuilder(
        tmp_path, schema={"_event_hour": "string", "day": "date"}, partition_columns=["day", "_event_hour"]
    )
    table.commit([add("a", partition_values={}), add("b", partition_values={"day": "2026-01-01"})])
    table.commit([add("c", partition_values={"day": None, "_event_hour": None})])
    table.checkpoint()
    found = is_right(tmp_path, build(tmp_path))
    assert found.rows.column("untold").to_pylist() == ['["_event_hour","day"]', '["_event_hour"]', None]
    (group,) = found.groups
    assert (group.null_buckets, group.odd_buckets) == (1, 2)


def test_a_table_without_files(tmp_path: Path) -> None:
    TableBuilder(tmp_path).commit([])
    summary = build(tmp_path)
    assert (summary.files, summary.row_groups) == (0, 0)
    assert is_right(tmp_path, summary).rows.num_rows == 0


def test_a_table_without_columns_or_statistics(tmp_path: Path) -> None:
    table = TableBuilder(tmp_path, schema={})
    table.commit([add(name, stats=None) for name in ("b", "a", "é", "Z", "a%20b")])
    summary = build(tmp_path)
    assert summary.sorted_by == "path"
    assert is_right(tmp_path, summary).rows.column("path").to_pylist() == ["Z", "a", "a%20b", "b", "é"]


def test_files_with_and_without_statistics(tmp_path: Path) -> None:
    table = TableBuilder(tmp_path, schema={"at": "timestamp", "v": "double"})
    moment = dt.datetime(2026, 1, 1, tzinfo=dt.UTC)
    bounds = {"at": "2026-01-01T00:00:00.000Z"}
    table.commit(
        [
            add("full", rows=[{"at": moment, "v": 1.5}]),
            add("none", stats=None),
            add("empty", stats="{}"),
            add("count", stats='{"numRecords":3}'),
            add("torn", stats='{"numRecords":3'),
            add("half", stats={"numRecords": 1, "minValues": bounds, "maxValues": {}, "nullCount": {"at": 0, "v": 1}}),
            add("nan", stats={"numRecords": 1, "minValues": bounds | {"v": "NaN"}, "maxValues": bounds | {"v": "NaN"}}),
        ]
    )
    found = is_right(tmp_path, build(tmp_path))
    assert [group.num_rows for group in found.groups] == [5, 2]
    assert found.groups[1].columns["at"] == SummaryBounds("2026-01-01T00:00:00.000Z", "2026-01-01T00:00:00.000Z")
    kept = dict(zip(found.rows.column("path").to_pylist(), found.rows.column("stats_json").to_pylist(), strict=True))
    assert {name for name, text in kept.items() if text is None} == {"full", "none", "count", "half", "nan"}


def test_statistics_that_nest_without_end_are_kept(tmp_path: Path) -> None:
    table = TableBuilder(tmp_path)
    values = {"list": "[" * 100_000 + "]" * 100_000, "object": '{"a":' * 100_000 + "1" + "}" * 100_000}
    texts = {name: f'{{"numRecords":1,"x":{value}}}' for name, value in values.items()}
    table.commit([add("ordinary"), *(add(name, stats=text) for name, text in texts.items())])
    rows = is_right(tmp_path, build(tmp_path)).rows
    kept = dict(zip(rows.column("path").to_pylist(), rows.column("stats_json").to_pylist(), strict=True))
    assert kept == texts | {"ordinary": None}


def test_deletion_vectors_tags_and_row_ids(tmp_path: Path) -> None:
    table = TableBuilder(tmp_path, protocol=protocol(features=["deletionVectors"]))
    everything: dict[str, Any] = {"tags": {"zone": "eu", "odd": None, "é": '"'}, "baseRowId": 7}
    everything |= {"defaultRowCommitVersion": 3, "clusteringProvider": "liquid"}
    table.commit(
        [
            add("a", dv=deletion_vector("x", cardinality=3)),
            add("a", dv=deletion_vector("y", offset=5)),
            add("a", stats={"numRecords": 4, "tightBounds": False}),
            add("b", **everything),
        ]
    )
    table.checkpoint()
    table.commit([remove("a"), add("c", **everything)])
    found = is_right(tmp_path, build(tmp_path))
    assert found.rows.column("path").to_pylist() == ["a", "a", "b", "c"]


def test_tables_that_deltalake_writes(tmp_path: Path) -> None:
    rows = pa.table(
        {
            "at": pa.array([dt.datetime(2026, 1, 1, tzinfo=dt.UTC)], pa.timestamp("us", "UTC")),
            "price": pa.array([Decimal("1.50")], pa.decimal128(10, 2)),
            "s": pa.array([{"x": 1, "y": "z"}]),
            "p": pa.array(["a"]),
        }
    )
    for _ in range(3):
        deltalake.write_deltalake(tmp_path, rows, mode="append", partition_by=["p"])
    deltalake.DeltaTable(tmp_path).create_checkpoint()
    summary = build(tmp_path)
    assert (summary.stats_format, summary.kept_texts) == ("deltalake", 0)
    is_right(tmp_path, summary)


@pytest.mark.parametrize("checkpoint", [False, True])
def test_no_text_of_an_ordinary_table_of_deltalake_is_kept(tmp_path: Path, *, checkpoint: bool) -> None:
    """Its members come in any order."""
    for number in range(8):
        moments = [dt.datetime(2026, 1, 1, number, 0, 0, 123456 * (number % 2), dt.UTC)] * 3
        values: dict[str, Any] = {
            "i": pa.array([number, 2, None], pa.int64()),
            "small": pa.array([number, -1, 0], pa.int8()),
            "f": pa.array([1.0, 2.5e-7 * number, 3e30]),
            "f32": pa.array([0.1, 1e20, -0.0], pa.float32()),
            "s": pa.array(["a", 'q"\\é\n', None]),
            "day": pa.array([moment.date() for moment in moments]),
            "at": pa.array(moments, pa.timestamp("us", "UTC")),
            "clock": pa.array([moment.replace(tzinfo=None) for moment in moments], pa.timestamp("us")),
            "price": pa.array([Decimal("1.50"), Decimal("-99999999.99"), None], pa.decimal128(10, 2)),
            "flag": pa.array([True, False, None]),
            "n": pa.array([{"x": 1, "y": "q"}, {"x": number, "y": None}, None]),
            "list": pa.array([[1], [], None], pa.list_(pa.int64())),
            "bytes": pa.array([b"a", b"b", None]),
        }
        deltalake.write_deltalake(tmp_path, pa.table(values), mode="append")
    if checkpoint:
        deltalake.DeltaTable(tmp_path).create_checkpoint()
    summary = build(tmp_path)
    assert (summary.stats_format, summary.kept_texts) == ("deltalake", 0)
    is_right(tmp_path, summary)


def test_what_deltalake_writes_of_one_column_is_rebuilt(tmp_path: Path) -> None:
    for values in ([1.5, 1e-7, 1e16], [100.0, 1e15], [1e-5, 1e10], [-2.5e-9, 1.5e21], [-0.0]):
        column = pa.array(values, pa.float64())
        deltalake.write_deltalake(tmp_path, pa.table({"v": column}), mode="append")
    summary = build(tmp_path)
    assert (summary.stats_format, summary.kept_texts) == ("deltalake", 0)
    is_right(tmp_path, summary)


@pytest.mark.full
def test_a_wide_table(tmp_path: Path) -> None:
    names = [f"c{number:04}" for number in range(1_200)]
    table = TableBuilder(
        tmp_path,
        schema=dict.fromkeys(names, "double") | {"at": "timestamp"},
        configuration={"delta.dataSkippingNumIndexedCols": "-1"},
    )
    row: dict[str, Any] = {name: number + 0.5 for number, name in enumerate(names)}
    row["at"] = dt.datetime(2026, 1, 1, tzinfo=dt.UTC)
    table.commit([add(f"{number}", rows=[row]) for number in range(20)])
    table.commit([add(f"none{number}", stats=None) for number in range(20)])
    table.checkpoint()
    summary = build(tmp_path, rows_per_group=15)
    assert (summary.stats_columns, summary.kept_texts) == (1_201, 0)
    assert [group.num_rows for group in is_right(tmp_path, summary).groups] == [15, 5, 15, 5]
