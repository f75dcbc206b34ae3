"""Where in a checkpoint a column lies, and which reads touched it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow.parquet as pq

if TYPE_CHECKING:
    from pathlib import Path

    from delta_sidecar.store.testing import Attempt, RecordingStore


def checkpoint_reads(store: RecordingStore) -> list[Attempt]:
    return [attempt for attempt in store.attempts if ".checkpoint." in attempt.path]


def chunk_ranges(path: Path, column: str, groups: list[int] | None = None) -> list[tuple[int, int]]:
    """Gives the byte ranges of a column, or of what is below it, in some row groups."""
    metadata = pq.ParquetFile(path).metadata
    ranges = []
    for group in range(metadata.num_row_groups) if groups is None else groups:
        row_group = metadata.row_group(group)
        for index in range(row_group.num_columns):
            chunk = row_group.column(index)
            name = chunk.path_in_schema
            if name == column or name.startswith(f"{column}."):
                start = chunk.data_page_offset
                if chunk.has_dictionary_page:
                    start = min(start, chunk.dictionary_page_offset)
                ranges.append((start, start + chunk.total_compressed_size))
    return ranges


def touches(attempts: list[Attempt], ranges: list[tuple[int, int]]) -> bool:
    return any(a.start < end and start < a.end for a in attempts for start, end in ranges)


def footer_start(path: Path) -> int:
    return path.stat().st_size - (256 << 10)
