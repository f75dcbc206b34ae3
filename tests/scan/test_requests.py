"""What a scan asks of its store: how much, how deep, how often, and that it stops."""

from __future__ import annotations

import gc
import itertools
import threading
import time
import uuid
from collections import Counter
from typing import TYPE_CHECKING, Any

import pyarrow.parquet as pq
import pytest
from tests.builder import TableBuilder, add, metadata, protocol, remove
from tests.scan.reading import STRATEGIES, keys_of, scan, scanner, store_of

from delta_sidecar import DeltaFile, LazyDeltaScanner, LazyScanConfig, OptionError, TableNotFoundError
from delta_sidecar.log.names import checksum_path, commit_path
from delta_sidecar.store.wrappers import Attempt, FaultStore, Hide, RecordingStore

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

V2 = protocol(features=["v2Checkpoint"])
DAYS = [f"2026-02-{day:02}" for day in range(1, 11)]
FILES = 6_000
GROUP = 500
PATIENCE = 10
"""Seconds after which a test that hangs fails instead."""


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


@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory) -> TableBuilder:
    """A large checkpoint at version 0 and 30 commits of ten files after it, without a checksum file."""
    table = large_table(tmp_path_factory.mktemp("large"))
    append(table, 30, 10)
    return table


@pytest.fixture
def recording(large: TableBuilder) -> RecordingStore:
    return RecordingStore(store_of(large))


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


# --- how much --------------------------------------------------------------------------------------------------


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


def test_a_limit_asks_only_for_the_newest_commits(large: TableBuilder, recording: RecordingStore) -> None:
    found = scan(large, recording, limit=5, commit_read_parallelism=2)
    assert [file.path for file in found] == [f"tail-30-{number}.parquet" for number in range(5)]


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


# --- how deep --------------------------------------------------------------------------------------------------


def trips_to_the_first_file(table: TableBuilder, **config: object) -> int:
    reader = scanner(table, **config)
    files = reader.scan_files()
    next(files)
    trips = reader.metrics.requests.trips
    files.close()
    return trips


@pytest.mark.parametrize("tail", [1, 5, 10])
def test_two_trips_with_a_checksum_file_and_a_tail_within_the_speculation(tmp_path: Path, tail: int) -> None:
    table = large_table(tmp_path)
    table.checksum()
    append(table, tail)
    assert trips_to_the_first_file(table) == 2


@pytest.mark.parametrize("tail", [11, 25])
@pytest.mark.parametrize("every_checksum", [False, True])
def test_three_trips_with_a_checksum_file_and_a_longer_tail(tmp_path: Path, tail: int, *, every_checksum: bool) -> None:
    table = large_table(tmp_path)
    table.checksum()
    for _ in range(tail):
        append(table, 1)
        if every_checksum:
            table.checksum()
    assert trips_to_the_first_file(table) <= 3


def test_three_trips_without_the_hint_but_with_a_checksum_file(tmp_path: Path) -> None:
    table = large_table(tmp_path, last_checkpoint=False)
    append(table, 5)
    table.checksum()
    assert trips_to_the_first_file(table) <= 3


def test_three_trips_without_a_checkpoint(tmp_path: Path) -> None:
    table = TableBuilder(tmp_path)
    append(table, 8)
    assert trips_to_the_first_file(table) <= 3


@pytest.mark.parametrize("hint", [True, False])
@pytest.mark.parametrize("tail", [0, 5, 25])
def test_at_most_two_more_trips_for_the_checkpoint(tmp_path: Path, *, hint: bool, tail: int) -> None:
    table = large_table(tmp_path, last_checkpoint=hint)
    append(table, tail)
    assert trips_to_the_first_file(table) <= 3 + 2


def test_a_checkpoint_without_a_tail_takes_two_more_trips(tmp_path: Path) -> None:
    table = large_table(tmp_path)
    table.checksum()
    assert trips_to_the_first_file(table) <= 2 + 2


# --- how often -------------------------------------------------------------------------------------------------


def commit_requests(store: RecordingStore) -> Counter[str]:
    return Counter(path for path in store.paths("get") if path.endswith(".json") and ".checkpoint." not in path)


def asks_once(table: TableBuilder, **config: object) -> None:
    for strategy in STRATEGIES:
        store = RecordingStore(store_of(table))
        assert keys_of(scan(table, store, strategy=strategy, **config)) == sorted(table.model_files(), key=repr)
        repeated = {path: count for path, count in commit_requests(store).items() if count > 1}
        assert repeated == {}, strategy


@pytest.mark.parametrize("parallelism", [1, 3, 10])
@pytest.mark.parametrize("checksum", [False, True])
@pytest.mark.parametrize("hint", [False, True])
def test_no_commit_is_asked_for_twice(tmp_path: Path, parallelism: int, *, checksum: bool, hint: bool) -> None:
    table = TableBuilder(tmp_path)
    append(table, 3)
    table.checkpoint(last_checkpoint=hint)
    if checksum:
        table.checksum()
    append(table, 25)
    asks_once(table, commit_read_parallelism=parallelism)


@pytest.mark.parametrize("place", [0, 5, 12, 19, 20])
@pytest.mark.parametrize("parallelism", [1, 10])
def test_no_commit_is_asked_for_twice_where_the_table_is_found_early(
    tmp_path: Path, place: int, parallelism: int
) -> None:
    table = TableBuilder(tmp_path)
    for version in range(21):
        changed = [protocol(1, 2), metadata({"id": "long"}, table_id="x")] if version == place else []
        table.commit([*changed, add(f"{version}.parquet")])
    asks_once(table, commit_read_parallelism=parallelism)


def test_no_commit_is_asked_for_twice_where_checksums_lie_in_the_tail(tmp_path: Path) -> None:
    table = TableBuilder(tmp_path)
    for _ in range(15):
        append(table, 1)
        table.checksum()
    append(table, 3)
    asks_once(table)


def test_a_commit_found_by_name_is_not_asked_for_again(tmp_path: Path) -> None:
    table = TableBuilder(tmp_path)
    append(table, 5)
    for strategy in STRATEGIES:
        store = RecordingStore(FaultStore(store_of(table), Hide(f"*{2:020}.json")))
        assert len(scan(table, store, strategy=strategy)) == 5
        assert commit_requests(store)[commit_path(2)] == 1


@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize("megabytes", [6, 10, 20])
def test_no_byte_of_a_large_commit_is_asked_for_twice(tmp_path: Path, strategy: str, megabytes: int) -> None:
    table = TableBuilder(tmp_path)
    append(table, 1)
    table.checkpoint()
    table.commit([add(f"{number}.parquet", stats={"x": "y" * (1 << 20)}) for number in range(megabytes)])
    append(table, 1)
    store = RecordingStore(store_of(table))
    assert len(scan(table, store, strategy=strategy)) == megabytes + 2
    size = table.commit_path(1).stat().st_size
    reads = [attempt for attempt in store.attempts if attempt.path == commit_path(1)]
    spans = sorted((attempt.start, min(attempt.end, size)) for attempt in reads)
    assert spans[0][0] == 0
    assert spans[-1][1] == size
    assert all(before[1] == after[0] for before, after in itertools.pairwise(spans)), spans


def test_a_json_checkpoint_is_asked_for_once(tmp_path: Path) -> None:
    table = TableBuilder(tmp_path, protocol=V2)
    append(table, 5)
    table.checkpoint("v2-json", sidecars=0)
    append(table, 2)
    for strategy in STRATEGIES:
        store = RecordingStore(store_of(table))
        assert len(scan(table, store, strategy=strategy)) == 7
        assert len(checkpoint_reads(store)) == 1


def test_requests_do_not_depend_on_the_size_of_the_checkpoint(tmp_path: Path) -> None:
    counts = []
    for size in (10, 3_000):
        table = TableBuilder(tmp_path / str(size))
        table.commit([add(f"{number}.parquet") for number in range(size)])
        table.checkpoint()
        table.checksum()
        append(table, 8, 20)
        reader = scanner(table, limit=100)
        assert len(list(reader.scan_files())) == 100
        counts.append(reader.metrics.requests)
    assert counts[0].requests == counts[1].requests
    assert counts[0].trips == counts[1].trips == 2


def test_the_checksum_file_is_asked_for_once(tmp_path: Path) -> None:
    table = TableBuilder(tmp_path)
    append(table, 2)
    table.checkpoint()
    table.checksum()
    append(table, 2)
    store = RecordingStore(store_of(table))
    scan(table, store)
    assert Counter(store.paths("get"))[checksum_path(1)] == 1


# --- slow consumers and those that stop --------------------------------------------------------------------------


def settled(count: Callable[[], int], quiet: float = 0.15) -> int:
    """Waits until a count has not changed for a while."""
    deadline = time.monotonic() + PATIENCE
    last, since = count(), time.monotonic()
    while time.monotonic() - since < quiet:
        assert time.monotonic() < deadline, "requests go on and on"
        time.sleep(0.005)
        if (now := count()) != last:
            last, since = now, time.monotonic()
    return last


def own_threads() -> set[threading.Thread]:
    return {thread for thread in threading.enumerate() if thread.name.startswith("delta-sidecar")}


def await_threads(before: set[threading.Thread]) -> None:
    for thread in own_threads() - before:
        thread.join(PATIENCE)
        assert not thread.is_alive()


@pytest.fixture(scope="module")
def long_tail(tmp_path_factory: pytest.TempPathFactory) -> TableBuilder:
    table = TableBuilder(tmp_path_factory.mktemp("long"))
    append(table, 1)
    table.checksum()
    append(table, 120)
    table.checksum()
    return table


@pytest.fixture(scope="module")
def many_groups(tmp_path_factory: pytest.TempPathFactory) -> TableBuilder:
    """A checkpoint of many row groups, of which each takes a request of its own."""
    root = tmp_path_factory.mktemp("groups")
    table = TableBuilder(root, schema={"id": "long", "value": "string"})
    table.commit([add(f"{number:06}.parquet", stats=wide_stats(number)) for number in range(FILES)])
    table.checkpoint(row_group_rows=100)
    table.checksum()
    return table


def test_a_slow_consumer_of_commits_stops_the_requests(long_tail: TableBuilder) -> None:
    store = RecordingStore(store_of(long_tail))
    files = scanner(long_tail, store, commit_read_parallelism=4).scan_files()
    next(files)
    first = settled(lambda: len(store.attempts))
    assert first < 40, "bounded look-ahead"
    for _ in range(50):
        next(files)
    second = settled(lambda: len(store.attempts))
    assert first + 40 < second < first + 60
    assert len(list(files)) == 121 - 51


def test_a_slow_consumer_of_a_checkpoint_stops_the_requests(many_groups: TableBuilder) -> None:
    store = RecordingStore(store_of(many_groups))
    reader = scanner(many_groups, store, checkpoint_row_groups_per_batch=3).scan_batches()
    reader.read_next_batch()
    first = settled(lambda: len(store.attempts))
    assert first < 40, "bounded look-ahead"
    for _ in range(20):
        reader.read_next_batch()
    second = settled(lambda: len(store.attempts))
    assert first + 10 < second < first + 240
    assert sum(batch.num_rows for batch in reader) + 2_100 >= FILES - 100


def break_off(files: Iterator[DeltaFile]) -> None:
    for _ in files:
        break
    del files


def close(files: Iterator[DeltaFile]) -> None:
    next(files)
    files.close()


def drop(files: Iterator[DeltaFile]) -> None:
    next(files)
    del files
    gc.collect()


@pytest.mark.parametrize("stop", [break_off, close, drop])
@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize("table", ["long_tail", "many_groups"])
def test_an_iterator_that_ends_early_stops_all_requests(
    request: pytest.FixtureRequest, table: str, strategy: str, stop: Callable[[Iterator[DeltaFile]], None]
) -> None:
    built = request.getfixturevalue(table)
    before = own_threads()
    reader = LazyDeltaScanner(built.root, LazyScanConfig(strategy=strategy, commit_read_parallelism=3))
    stop(reader.scan_files())
    await_threads(before)
    count = reader.metrics.requests.requests
    assert settled(lambda: reader.metrics.requests.requests, 0.05) == count
    assert count < 130
    assert not reader.metrics.is_complete


@pytest.mark.parametrize("way", ["close", "with", "drop"])
@pytest.mark.parametrize("table", ["long_tail", "many_groups"])
def test_a_reader_that_ends_early_stops_all_requests(request: pytest.FixtureRequest, table: str, way: str) -> None:
    built = request.getfixturevalue(table)
    before = own_threads()
    scanning = LazyDeltaScanner(built.root, LazyScanConfig(commit_read_parallelism=3))
    reader = scanning.scan_batches()
    reader.read_next_batch()
    if way == "close":
        reader.close()
    elif way == "with":
        with reader:
            pass
    # Arrow's own close does not reach the scan: it comes to rest since nobody takes from it, and ends when dropped.
    at_rest = settled(lambda: scanning.metrics.requests.requests)
    assert at_rest < 130
    del reader
    gc.collect()
    await_threads(before)
    assert settled(lambda: scanning.metrics.requests.requests, 0.05) == at_rest
    assert not scanning.metrics.is_complete


def test_a_limit_stops_all_requests(long_tail: TableBuilder) -> None:
    before = own_threads()
    reader = scanner(long_tail, limit=3, commit_read_parallelism=3)
    files = reader.scan_files()
    assert len([next(files), next(files), next(files)]) == 3
    with pytest.raises(StopIteration):
        next(files)
    await_threads(before)
    assert reader.metrics.requests.requests < 20


def test_closing_while_requests_are_under_way_lets_no_others_follow(long_tail: TableBuilder) -> None:
    gate = threading.Event()
    waiting = threading.Semaphore(0)

    def hold(attempt: Attempt) -> None:
        if attempt.path.endswith(".json") and attempt.path < commit_path(119):
            waiting.release()
            assert gate.wait(PATIENCE)

    before = own_threads()
    store = RecordingStore(store_of(long_tail), hold)
    reader = scanner(long_tail, store, commit_read_parallelism=3)
    files = reader.scan_files()
    next(files)
    assert waiting.acquire(timeout=PATIENCE)
    files.close()
    answered = reader.metrics.requests.requests
    gate.set()
    await_threads(before)
    assert reader.metrics.requests.requests == answered


def test_a_failed_scan_leaves_no_threads(tmp_path: Path) -> None:
    table = TableBuilder(tmp_path)
    append(table, 30)
    table.tear(table.commit_path(20), -5)
    before = own_threads()
    with pytest.raises(Exception, match="commit 20"):
        scan(table)
    gc.collect()
    await_threads(before)


def test_a_snapshot_leaves_no_threads_and_reads_no_files(large: TableBuilder, recording: RecordingStore) -> None:
    before = own_threads()
    snapshot = scanner(large, recording).snapshot()
    await_threads(before)
    assert snapshot.version == 30
    assert snapshot.partition_columns == ("day",)
    path = next(large.log.glob("*.checkpoint.parquet"))
    rows = [attempt for attempt in checkpoint_reads(recording) if attempt.start < footer_start(path)]
    assert not touches(rows, chunk_ranges(path, "add"))


def test_two_scans_of_one_scanner_stand_by_themselves(long_tail: TableBuilder) -> None:
    reader = scanner(long_tail)
    first, second = reader.scan_files(), reader.scan_files()
    assert next(first) == next(second)
    first.close()
    assert len(list(second)) == 120


def test_removes_of_the_tail_are_counted_as_keys(tmp_path: Path) -> None:
    table = TableBuilder(tmp_path)
    table.commit([add("a"), add("b")])
    table.checkpoint()
    table.commit([remove("a"), add("c")])
    for strategy in STRATEGIES:
        reader = scanner(table, strategy=strategy)
        assert {file.path for file in reader.scan_files()} == {"b", "c"}
        metrics = reader.metrics
        assert (metrics.files_emitted, metrics.version, metrics.base_version, metrics.is_complete) == (2, 1, 0, True)
        assert metrics.seen_keys is not None
