"""How often a scan asks: nothing twice, and no more for a larger checkpoint."""

from __future__ import annotations

import itertools
from collections import Counter
from typing import TYPE_CHECKING

import pytest
from tests.builder import TableBuilder, add, metadata, protocol
from tests.scan.byte_ranges import checkpoint_reads
from tests.scan.large_tables import V2, append
from tests.scan.reading import STRATEGIES, keys_of, scan, scanner, store_of

from delta_sidecar.log.names import checksum_path, commit_path
from delta_sidecar.store.testing import FaultStore, Hide, RecordingStore

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.usefixtures("answered_ahead")


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
