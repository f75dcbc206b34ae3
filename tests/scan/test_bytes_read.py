"""How much a scan asks of its store: no byte that its answer does not need."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pyarrow.parquet as pq
import pytest
from tests.builder import TableBuilder, add, metadata, protocol
from tests.scan.byte_ranges import checkpoint_reads, chunk_ranges, footer_start, touches
from tests.scan.large_tables import DAYS, FILES, GROUP, append, large_table
from tests.scan.reading import scan, scanner, store_of

from delta_sidecar import LazyDeltaScanner, LazyScanConfig, OptionError, TableNotFoundError
from delta_sidecar.store.testing import RecordingStore

if TYPE_CHECKING:
    from pathlib import Path


def names_of(recording: RecordingStore) -> list[str]:
    return [attempt.path.rpartition("/")[2] for attempt in recording.attempts]


def test_a_limit_that_the_tail_fills_reads_no_file_rows_of_the_checkpoint(
    large: TableBuilder, recording: RecordingStore
) -> None:
    assert len(scan(large, recording, limit=100)) == 100
    path = next(large.log.glob("*.checkpoint.parquet"))
    reads = checkpoint_reads(recording)
    rows = [attempt for attempt in reads if attempt.start < footer_start(path)]
    assert len(reads) > len(rows) > 0, "protocol and metadata are in the first row group"
    assert not touches(rows, chunk_ranges(path, "add"))
    assert sum(attempt.end - attempt.start for attempt in rows) < 20_000


def test_a_limit_that_the_tail_fills_reads_no_byte_of_the_checkpoint_with_a_checksum_file(tmp_path: Path) -> None:
    table = large_table(tmp_path)
    table.checksum()
    append(table, 30, 10)
    recording = RecordingStore(store_of(table))
    assert len(scan(table, recording, limit=100)) == 100
    assert checkpoint_reads(recording) == []


def test_a_limit_that_the_tail_fills_reads_no_byte_of_the_checkpoint_with_the_table_in_the_tail(
    tmp_path: Path,
) -> None:
    table = TableBuilder(tmp_path)
    table.commit([add("old.parquet")])
    table.checkpoint()
    table.commit([protocol(1, 2), metadata({"id": "long"}, table_id="new")])
    append(table, 10, 10)
    recording = RecordingStore(store_of(table))
    assert len(scan(table, recording, limit=100)) == 100
    assert checkpoint_reads(recording) == []


def test_a_limit_asks_only_for_the_newest_commits(tmp_path: Path) -> None:
    table = large_table(tmp_path)
    append(table, 30, 10)
    # It tells protocol and metadata, so that no commit has to be searched for them.
    table.checksum()
    recording = RecordingStore(store_of(table))
    found = scan(table, recording, limit=5, commit_read_parallelism=2)
    assert [file.path for file in found] == [f"tail-30-{number}.parquet" for number in range(5)]
    asked = {int(name[:20]) for name in names_of(recording) if re.fullmatch("[0-9]{20}.json", name)}
    # The first ones after the checkpoint, and the head of its own, go along with the listing, on speculation.
    assert {30} <= asked <= {0, 1, 2, 29, 30}


@pytest.mark.parametrize("config", [{}, {"order": "recent"}, {"order": "any"}, {"predicate": "day >= '2026-01-01'"}])
def test_a_limit_reads_only_the_row_groups_that_fill_it(tmp_path: Path, config: dict[str, str]) -> None:
    table = large_table(tmp_path)
    append(table, 3, 10)
    path = next(table.log.glob("*.checkpoint.parquet"))
    groups = pq.ParquetFile(path).metadata.num_row_groups
    # The files of the tail count, and the two rows of the first row group that are none do not.
    for limit, needed in ((1, 0), (30, 0), (31, 1), (30 + GROUP - 2, 1), (30 + GROUP - 1, 2), (30 + 3 * GROUP, 4)):
        recording = RecordingStore(store_of(table))
        reader = scanner(table, recording, limit=limit, bucket_column="day", **config)
        assert len(list(reader.scan_files())) == limit
        rows = [read for read in checkpoint_reads(recording) if read.start < footer_start(path)]
        spans = chunk_ranges(path, "add", list(range(needed, groups)))
        assert not touches(rows, [span for span in spans if span[1] < footer_start(path)]), (limit, config)


def test_a_limit_that_the_first_row_groups_do_not_fill_goes_on(large: TableBuilder, recording: RecordingStore) -> None:
    reader = scanner(large, recording, limit=3, predicate="id IN (432, 4321, 5432)")
    assert [file.path[-14:] for file in reader.scan_files()] == ["000432.parquet", "004321.parquet", "005432.parquet"]


def test_row_groups_without_a_survivor_keep_their_statistics(large: TableBuilder, recording: RecordingStore) -> None:
    reader = scanner(large, recording, predicate="day = '2026-02-03'")
    found = list(reader.scan_files())
    assert len(found) == FILES // len(DAYS)
    assert {file.partition_values["day"] for file in found} == {"2026-02-03"}
    path = next(large.log.glob("*.checkpoint.parquet"))
    metadata = pq.ParquetFile(path).metadata
    rows = [attempt for attempt in checkpoint_reads(recording) if attempt.start < footer_start(path)]
    place, survivors = -2, set()
    for group in range(metadata.num_row_groups):
        numbers = range(max(place, 0), place + metadata.row_group(group).num_rows)
        survivors |= {group for number in numbers if number // (FILES // len(DAYS)) == 2}
        place += metadata.row_group(group).num_rows
    # The first row group is fetched whole at once, for somebody waits for the first file.
    others = sorted(set(range(1, metadata.num_row_groups)) - survivors)
    outside = [span for span in chunk_ranges(path, "add.stats", others) if span[1] < footer_start(path)]
    assert outside
    assert not touches(rows, outside)
    assert touches(rows, chunk_ranges(path, "add.stats", sorted(survivors)))
    assert reader.metrics.row_groups_skipped >= len(others)


def test_a_limit_of_nothing_reads_the_table_but_no_files(large: TableBuilder, recording: RecordingStore) -> None:
    assert scan(large, recording, limit=0) == []
    path = next(large.log.glob("*.checkpoint.parquet"))
    everything = range(pq.ParquetFile(path).metadata.num_row_groups)
    spans = [span for span in chunk_ranges(path, "add.path", everything) if span[1] < footer_start(path)]
    assert not touches(checkpoint_reads(recording), spans)


def test_a_limit_of_nothing_still_names_what_is_no_table(tmp_path: Path) -> None:
    with pytest.raises(TableNotFoundError):
        list(LazyDeltaScanner(tmp_path, LazyScanConfig(limit=0)).scan_files())


def test_making_a_scanner_asks_for_nothing(large: TableBuilder, recording: RecordingStore) -> None:
    reader = scanner(large, recording)
    reader.scan_files()
    reader.scan_batches()
    assert recording.attempts == []
    with pytest.raises(OptionError):
        LazyScanConfig(limit=-1)
