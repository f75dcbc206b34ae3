"""What the files of a sidecar are sorted by, and what its row groups say of them."""

from __future__ import annotations

import datetime as dt
from typing import TYPE_CHECKING, Any

import pytest
from tests.build.checked import build, hours, is_right
from tests.builder import TableBuilder, add, protocol

from delta_sidecar.build.publish import Levels
from delta_sidecar.sidecar.groups import SummaryBounds

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path


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
    assert found.groups[0].columns["col-s.`p``n`"] == SummaryBounds(0, 2)
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


def test_a_manifest_with_segments(tmp_path: Path) -> None:
    table = hours(tmp_path)
    table.commit([add(f"none{number}", partition_values={"_event_hour": "2026021099"}) for number in range(3)])
    summary = build(tmp_path, rows_per_group=2, levels=Levels(3, 4, 2))
    found = is_right(tmp_path, summary)
    assert [segment.num_row_groups for segment in found.manifest.segments] == [2, 4, 4, 3]
    assert list(found.manifest.row_groups) == found.groups[-2:]
    first, second = found.manifest.segments[:2]
    assert [group.first_key[0] for group in found.groups] == [0, 0, *[1] * 13], "files without statistics are apart"
    assert first.columns == {}
    run = found.groups[2:6]
    assert (second.event_hour_min, second.event_hour_max) == (run[0].event_hour_min, run[-1].event_hour_max)
    assert second.columns["at"] == SummaryBounds(run[0].columns["at"].min, run[-1].columns["at"].max)
    assert build(tmp_path, rows_per_group=2, levels=Levels(3, 4, 2)).already_there


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
