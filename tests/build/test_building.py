"""Sidecars of every kind of table hold every live file, whole and in order."""

from __future__ import annotations

import datetime as dt
import json
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import deltalake
import pyarrow as pa
import pytest
from tests.build.reading_back import read_back, scanned_files
from tests.builder import TableBuilder, add, deletion_vector, protocol, remove

from delta_sidecar.build import BuildProgress, BuildSummary, build_sidecar
from delta_sidecar.build.publishing import Levels
from delta_sidecar.errors import OptionError, TableNotFoundError, VersionNotFoundError
from delta_sidecar.events import BuildEnded, Event
from delta_sidecar.sidecar.names import column_name
from delta_sidecar.store import open_store
from delta_sidecar.synth import TelemetryLog

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from tests.azurite import Azurite
    from tests.build.reading_back import ReadBack

TIMES = {"id": "long", "at": "timestamp", "_event_hour": "string"}


def build(root: Path, **options: Any) -> BuildSummary:  # noqa: ANN401 - any option
    return build_sidecar(root, **{"threads": 1, **options})


def is_right(root: Path, summary: BuildSummary) -> ReadBack:
    """Asserts that a sidecar holds what a scan finds, in order, and that its manifest tells the truth."""
    found = read_back(root, summary.version)
    files = found.files()
    assert files == scanned_files(root, summary.version)
    keys = found.keys()
    assert keys == sorted(keys)
    assert len(set(keys)) == len(keys) == summary.files == found.manifest.num_files
    assert summary.row_groups == len(found.groups)
    for group, batch in zip(found.groups, found.batches, strict=True):
        told = [tuple(group.first_key), tuple(group.last_key)]
        assert [key[-2:] for key in told] == [
            (batch.column("path")[row].as_py(), told[place][-1]) for place, row in ((0, 0), (1, batch.num_rows - 1))
        ]
        flags = {key[0] for key in told}
        assert len(flags) == 1
        for path in found.manifest.summaries:
            name = column_name(path)
            assert (name in group.columns) == (flags == {1})
            assert flags == {0} or batch.column(f"min.{name}").null_count == 0
    return found


def hours(root: Path, count: int = 25, **options: Any) -> TableBuilder:  # noqa: ANN401
    """A table with a time bucket and files in no particular order."""
    table = TableBuilder(root, schema=TIMES, partition_columns=["_event_hour"], **options)
    for number in range(count):
        hour = number * 7 % 10
        row = {
            "id": number,
            "at": dt.datetime(2026, 2, 10, hour, 30, tzinfo=dt.UTC),
            "_event_hour": f"20260210{hour:02}",
        }
        values = {"_event_hour": row["_event_hour"]}
        table.commit([add(f"_event_hour=20260210{hour:02}/{number}.parquet", partition_values=values, rows=[row])])
    return table


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
    assert found.groups[1].columns["at"] == ("2026-01-01T00:00:00.000Z", "2026-01-01T00:00:00.000Z")
    kept = dict(zip(found.rows.column("path").to_pylist(), found.rows.column("stats_json").to_pylist(), strict=True))
    assert {name for name, text in kept.items() if text is None} == {"full", "none", "count", "nan"}


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


def mapped(*fields: tuple[str, str, Any]) -> dict[str, Any]:
    """A schema with column mapping, of logical names, physical names and types."""
    listed = []
    for number, (logical, physical, kind) in enumerate(fields):
        names = {"delta.columnMapping.id": number + 1, "delta.columnMapping.physicalName": physical}
        listed.append({"name": logical, "type": kind, "nullable": True, "metadata": names})
    return {"type": "struct", "fields": listed}


def test_mapped_and_nested_columns(tmp_path: Path) -> None:
    inner = mapped(("when", "p.w", "timestamp"), ("n", "p`n", "integer"))
    table = TableBuilder(
        tmp_path,
        schema=mapped(("day", "col-d", "date"), ("s", "col-s", inner), ("list", "col-l", _array("long"))),
        partition_columns=["day"],
        configuration={"delta.columnMapping.mode": "name"},
        protocol=protocol(reader=2, writer=5),
    )
    for number in range(3):
        low = {"col-s": {"p.w": f"2026-02-1{number}T00:00:00.000Z", "p`n": number}}
        counts = {"col-s": {"p.w": 0, "p`n": 0}, "col-l": 0}
        stats = {"numRecords": 2, "minValues": low, "maxValues": low, "nullCount": counts}
        table.commit([add(f"{number}", partition_values={"col-d": f"2026-01-0{3 - number}"}, stats=stats)])
    summary = build(tmp_path, sort="s.when", summaries=["S.N"])
    found = is_right(tmp_path, summary)
    assert summary.sorted_by == "partition values day"
    assert summary.time_column == "s.`when`"
    assert summary.kept_texts == 0
    assert found.rows.column("path").to_pylist() == ["2", "1", "0"]
    assert found.manifest.summaries == (("col-s", "p.w"), ("col-s", "p`n"))
    assert found.groups[0].columns["col-s.`p``n`"] == (0, 2)
    assert found.groups[0].first_key == (1, "2026-01-01", "2", "")


def _array(kind: str) -> dict[str, Any]:
    return {"type": "array", "elementType": kind, "containsNull": True}


@pytest.mark.parametrize(
    ("kind", "texts"),
    [
        ("integer", ["nonsense", None, "-5", "3", "20"]),
        ("date", [None, "2025-12-31", "2026-01-01"]),
        ("timestamp", [None, "2026-01-01 00:00:00", "2026-01-01T02:00:00+01:00", "2026-01-01T03:00:00.000000Z"]),
        ("decimal(10,2)", [None, "-1.50", "2.25", "10.00"]),
        ("double", ["NaN", None, "-1.5", "0.0", "1E10"]),
        ("string", [None, "", "10", "9", "a", "é", "\U0001f600"]),
        ("boolean", [None, "false", "true"]),
        ("binary", ["b", None, "a"]),
    ],
)
def test_partition_values_are_sorted_as_what_they_are(tmp_path: Path, kind: str, texts: Sequence[str | None]) -> None:
    table = TableBuilder(tmp_path, schema={"p": kind, "id": "long"}, partition_columns=["p"])
    # Those that count as null are sorted by their path.
    table.commit([add(f"{number}", partition_values={"p": text}) for number, text in reversed(list(enumerate(texts)))])
    found = is_right(tmp_path, build(tmp_path))
    assert found.rows.column("path").to_pylist() == [f"{number}" for number in range(len(texts))]


@pytest.mark.parametrize("kind", ["integer", "timestamp", "string"])
def test_buckets_of_any_type(tmp_path: Path, kind: str) -> None:
    texts = {"integer": "{}", "timestamp": "2026-01-{:02} 00:00:00", "string": "h{:02}"}[kind]
    table = TableBuilder(tmp_path, schema={"Hour": kind, "id": "long"}, partition_columns=["Hour"])
    values = [texts.format(number) for number in (10, 9, 2)]
    table.commit([add(text, partition_values={"Hour": text}) for text in values])
    table.commit([add("null", partition_values={"Hour": None}), add("empty", partition_values={"Hour": ""})])
    table.commit([add("odd", partition_values={"Hour": "odd"})])
    found = is_right(tmp_path, build(tmp_path, bucket_column="hour"))
    (group,) = found.groups
    highest = "odd" if kind == "string" else values[0]
    assert (group.event_hour_min, group.event_hour_max) == (values[2], highest)
    assert (group.null_buckets, group.odd_buckets) == (2, 0 if kind == "string" else 1)


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
    is_right(tmp_path, build(tmp_path))


def test_what_deltalake_writes_of_one_column_is_rebuilt(tmp_path: Path) -> None:
    for values in ([1.5, 1e-7, 1e16], [100.0, 1e15], [1e-5, 1e10], [-2.5e-9, 1.5e21], [-0.0]):
        column = pa.array(values, pa.float64())
        deltalake.write_deltalake(tmp_path, pa.table({"v": column}), mode="append")
    summary = build(tmp_path)
    assert (summary.stats_format, summary.kept_texts) == ("deltalake", 0)
    is_right(tmp_path, summary)


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


def test_statistics_only_of_named_columns(tmp_path: Path) -> None:
    table = TableBuilder(
        tmp_path,
        schema={"a": "long", "b": "long", "c": "timestamp"},
        configuration={"delta.dataSkippingStatsColumns": "b"},
    )
    table.commit([add("f", rows=[{"a": 1, "b": 2, "c": dt.datetime(2026, 1, 1, tzinfo=dt.UTC)}])])
    summary = build(tmp_path)
    found = is_right(tmp_path, summary)
    assert (found.manifest.statistics, summary.time_column, summary.kept_texts) == ((("b",),), None, 1)


def test_a_manifest_of_two_levels(tmp_path: Path) -> None:
    table = hours(tmp_path)
    table.commit([add(f"none{number}", partition_values={"_event_hour": "2026021099"}) for number in range(3)])
    summary = build(tmp_path, rows_per_group=2, levels=Levels(most_row_groups=3, groups_per_segment=4))
    found = is_right(tmp_path, summary)
    assert found.manifest.segments_file is not None
    assert [segment.num_row_groups for segment in found.manifest.segments] == [4, 4, 4, 3]
    first = found.manifest.segments[0]
    assert (first.event_hour_min, first.event_hour_max) == ("2026021000", "2026021099")
    assert first.columns == {}
    second = found.manifest.segments[1]
    run = found.groups[4:8]
    assert second.columns["at"] == (run[0].columns["at"].min, run[-1].columns["at"].max)
    assert build(tmp_path, rows_per_group=2, levels=Levels(3, 4)).already_there


def test_an_older_version_and_a_commit_that_is_gone(tmp_path: Path) -> None:
    table = hours(tmp_path, 6)
    table.checkpoint()
    table.commit([add("late", partition_values={"_event_hour": "2026021023"})])
    assert build(tmp_path, version=3).files == 4
    table.clean_up(inclusive=True)
    found = is_right(tmp_path, build(tmp_path, version=5))
    assert found.manifest.commit is None
    assert is_right(tmp_path, build(tmp_path)).manifest.commit is not None


def test_a_telemetry_table_is_rebuilt_to_the_letter(tmp_path: Path) -> None:
    TelemetryLog(files=20_000, files_per_hour=500, tail_commits=3, adds_per_commit=10, deletion_vectors=0.1).write(
        tmp_path
    )
    told: list[BuildProgress] = []
    summary = build(tmp_path, rows_per_group=5_000, progress=told.append, threads=2)
    assert (summary.files, summary.kept_texts, summary.stats_format) == (20_030, 0, "spark")
    is_right(tmp_path, summary)
    stages = list(dict.fromkeys(progress.stage for progress in told))
    assert stages == ["opening", "reading", "sorting", "writing", "publishing"]
    assert told[-1] == BuildProgress("publishing", 20_030, 20_030)
    assert next(progress.total for progress in told if progress.stage == "reading") == 20_030


def test_only_the_folder_of_sidecars_is_written_to(tmp_path: Path) -> None:
    hours(tmp_path).checkpoint()
    before = {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*") if path.is_file()}
    build(tmp_path)
    after = {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*") if path.is_file()}
    assert {path.name for path in after.keys() - before.keys()} == {"v24.parquet", "v24.manifest.json"}
    assert {path: after[path] for path in before} == before


def test_a_table_property_names_the_bucket(tmp_path: Path) -> None:
    table = TableBuilder(
        tmp_path,
        schema={"hour": "integer", "day": "date", "id": "long"},
        partition_columns=["day", "hour"],
        configuration={"deltaSidecar.bucket.column": "hour"},
    )
    table.commit([add(f"{number}", partition_values={"hour": f"{-number}", "day": None}) for number in range(3)])
    summary = build(tmp_path)
    assert summary.sorted_by == "time bucket hour"
    assert is_right(tmp_path, summary).rows.column("path").to_pylist() == ["2", "1", "0"]


def test_the_end_of_a_build_is_told(tmp_path: Path) -> None:
    hours(tmp_path, 3)
    told: list[Event] = []
    build(tmp_path, listeners=[told.append])
    build(tmp_path, listeners=[told.append])
    with pytest.raises(VersionNotFoundError):
        build(tmp_path, version=9, listeners=[told.append])
    ends = [event for event in told if isinstance(event, BuildEnded)]
    assert [(end.outcome, end.error, end.version, end.files) for end in ends] == [
        ("complete", None, 2, 3),
        ("already_there", None, 2, 3),
        ("failed", "VersionNotFoundError", None, 0),
    ]
    assert ends[0].requests > 0


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"rows_per_group": 0}, "rows_per_group must be a whole number from 1"),
        ({"version": -1}, "version must be a whole number from 0"),
        ({"memory_limit": "lots"}, "memory_limit must be a size"),
        ({"memory_limit": 1}, "memory_limit must be at least"),
        ({"summaries": "at"}, "summaries must be a list"),
        ({"threads": 0}, "threads must be"),
        ({"sort": "nothing"}, "sort: the table has no column 'nothing'; columns with bounds: id, at"),
        ({"sort": "_event_hour"}, "sort: '_event_hour' is a partition column"),
        ({"summaries": ["at", "nothing"]}, "summaries: the table has no column 'nothing'"),
    ],
)
def test_options_that_make_no_sense(tmp_path: Path, options: dict[str, Any], message: str) -> None:
    hours(tmp_path, 1)
    with pytest.raises(OptionError, match=message):
        build(tmp_path, **options)
    assert not (tmp_path / "_delta_log" / "_sidecars").exists()


def test_no_table(tmp_path: Path) -> None:
    with pytest.raises(TableNotFoundError):
        build(tmp_path)


def test_the_manifest_holds_protocol_and_metadata_as_the_log_does(tmp_path: Path) -> None:
    table = hours(tmp_path, 2)
    build(tmp_path)
    manifest = read_back(tmp_path, 1).manifest
    metadata = table.model_action("metaData")
    assert json.loads(manifest.metadata["schemaString"]) == json.loads(metadata["schemaString"])
    assert {name: manifest.metadata[name] for name in metadata if name != "schemaString"} == {
        name: value for name, value in metadata.items() if name != "schemaString"
    }
    assert manifest.protocol == table.model_action("protocol")
    commit = table.commit_path(1).read_bytes()
    assert manifest.commit.size == len(commit)


@pytest.mark.azurite
def test_a_table_on_azure(tmp_path: Path, azurite: Azurite) -> None:
    local = hours(tmp_path)
    local.checkpoint()
    address = f"az://{azurite.create_container()}/table"
    store = open_store(address, azurite.options)
    for path in sorted(tmp_path.rglob("*")):
        if path.is_file():
            store.put(str(path.relative_to(tmp_path)), path.read_bytes())
    there = build_sidecar(address, storage_options=azurite.options)
    here = build(tmp_path, threads=2)
    assert (there.bytes, there.file, there.manifest_bytes) == (here.bytes, here.file, here.manifest_bytes)
    for name in (there.file, there.manifest):
        path = f"_delta_log/_sidecars/{name}"
        assert bytes(store.get(path).data) == (tmp_path / path).read_bytes()
    assert build_sidecar(address, storage_options=azurite.options).already_there
