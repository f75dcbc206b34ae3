"""Tables for tests of pages, and the pages of a query."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.builder import TableBuilder, add
from tests.scan.reading import scanner

if TYPE_CHECKING:
    from collections.abc import Iterator

    from delta_sidecar import DeltaFile

HOUR = {"_event_hour": "string", "id": "long"}


def pages(table: TableBuilder, limit: int, **config: object) -> Iterator[list[DeltaFile]]:
    """Gives the pages of a query, each by a scanner of its own that knows nothing but the token."""
    token = None
    while True:
        if token is not None:
            config = {name: value for name, value in config.items() if name not in ("version", "timestamp")}
        reader = scanner(table, limit=limit, page_token=token, **config)
        yield list(reader.scan_files())
        token = reader.page_token
        if token is None:
            return


def hours(table: TableBuilder, *, commits: int = 6, files: int = 5) -> TableBuilder:
    """Commits of files in hours, the later ones in the tail."""
    for number in range(commits):
        actions = [
            add(f"{number}-{file}.parquet", partition_values={"_event_hour": f"20260210{(7 * number + file) % 24:02}"})
            for file in range(files)
        ]
        table.commit(actions)
        if number == commits // 2:
            table.checkpoint(row_group_rows=3)
    return table
