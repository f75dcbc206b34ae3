"""A table whose checkpoint is much larger than a footer read, for tests of what a scan asks of its store."""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING, Any

from tests.builder import TableBuilder, add, protocol

if TYPE_CHECKING:
    from pathlib import Path

V2 = protocol(features=["v2Checkpoint"])
DAYS = [f"2026-02-{day:02}" for day in range(1, 11)]
FILES = 6_000
GROUP = 500


def wide_stats(number: int) -> dict[str, Any]:
    noise = f"{uuid.uuid4().hex}{uuid.uuid4().hex}{uuid.uuid4().hex}"
    bounds = {"id": number, "value": noise}
    return {"numRecords": 1, "minValues": bounds, "maxValues": bounds, "nullCount": {"id": 0, "value": 0}}


def large_table(root: Path, **options: object) -> TableBuilder:
    """Gives a table whose checkpoint is much larger than a footer read, sorted by day."""
    table = TableBuilder(
        root, partition_columns=["day"], schema={"id": "long", "value": "string", "day": "date"}, protocol=V2
    )
    day_of = [DAYS[number * len(DAYS) // FILES] for number in range(FILES)]
    table.commit(
        [
            add(f"day={day}/{number:06}.parquet", partition_values={"day": day}, stats=wide_stats(number))
            for number, day in enumerate(day_of)
        ]
    )
    table.checkpoint(row_group_rows=GROUP, **options)
    return table


def append(table: TableBuilder, commits: int, files: int = 1) -> None:
    for _ in range(commits):
        version = table.version + 1
        table.commit(
            [
                add(f"tail-{version}-{number}.parquet", partition_values={"day": "2026-03-01"}, rows=[{"id": version}])
                for number in range(files)
            ]
        )
