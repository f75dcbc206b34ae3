"""Builds, and whether what they made is right."""

from __future__ import annotations

import datetime as dt
from typing import TYPE_CHECKING, Any

from tests.build.reading_back import read_back, scanned_files
from tests.builder import TableBuilder, add

from delta_sidecar.build import BuildSummary, build_sidecar
from delta_sidecar.sidecar.schema import column_name

if TYPE_CHECKING:
    from pathlib import Path

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
