"""How deep a scan's requests are: how many follow one another before the first file is there."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from tests.builder import TableBuilder
from tests.scan.large_tables import append, large_table
from tests.scan.reading import scanner, store_of

from delta_sidecar.store.testing import RecordingStore

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> TableBuilder:
    return large_table(tmp_path_factory.mktemp("trips"))


@pytest.fixture
def table(template: TableBuilder, tmp_path: Path) -> TableBuilder:
    return template.copy(tmp_path)


def trips_to_the_first_file(table: TableBuilder, **config: object) -> int:
    reader = scanner(table, **{"strategy": "reverse", **config})
    files = reader.scan_files()
    next(files)
    trips = reader.metrics.requests.trips
    files.close()
    return trips


def more_trips(tail: int) -> int:
    """Trips of a long tail: ten commits come with the listing, and 14 requests are made side by side."""
    return max(0, tail - 10) // 14


@pytest.mark.parametrize(("parallelism", "waves"), [(2, 17), (10, 8), (100, 1)])
@pytest.mark.parametrize("strategy", ["reverse", "forward"])
def test_requests_that_no_thread_is_left_for_are_another_trip(
    tmp_path: Path, strategy: str, parallelism: int, waves: int
) -> None:
    table = TableBuilder(tmp_path)
    append(table, 100)
    reader = scanner(table, strategy=strategy, commit_read_parallelism=parallelism)
    assert sum(1 for _ in reader.scan_files()) == 100
    # The hint and the listing; then all commits are read, four more at once than that.
    assert reader.metrics.requests.trips == 2 + waves


@pytest.mark.parametrize("tail", [1, 5, 10])
def test_two_trips_with_a_checksum_file_and_a_tail_within_the_speculation(table: TableBuilder, tail: int) -> None:
    table.checksum()
    append(table, tail)
    assert trips_to_the_first_file(table) == 2


@pytest.mark.parametrize("tail", [11, 25])
@pytest.mark.parametrize("every_checksum", [False, True])
def test_three_trips_with_a_checksum_file_and_a_longer_tail(
    table: TableBuilder, tail: int, *, every_checksum: bool
) -> None:
    table.checksum()
    for _ in range(tail):
        append(table, 1)
        if every_checksum:
            table.checksum()
    # A checksum file of the newest version makes the older commits needless before the first file.
    assert trips_to_the_first_file(table) <= 3 + (0 if every_checksum else more_trips(tail))


def test_three_trips_without_the_hint_but_with_a_checksum_file(table: TableBuilder) -> None:
    table.last_checkpoint(None)
    append(table, 5)
    table.checksum()
    assert trips_to_the_first_file(table) <= 3


def test_three_trips_without_a_checkpoint(tmp_path: Path) -> None:
    table = TableBuilder(tmp_path)
    append(table, 8)
    assert trips_to_the_first_file(table) <= 3


@pytest.mark.parametrize("hint", [True, False])
@pytest.mark.parametrize("tail", [0, 5, 25])
def test_at_most_two_more_trips_for_the_checkpoint(table: TableBuilder, *, hint: bool, tail: int) -> None:
    if not hint:
        table.last_checkpoint(None)
    append(table, tail)
    assert trips_to_the_first_file(table) <= 3 + 2 + more_trips(tail)


def test_a_checkpoint_without_a_tail_takes_two_more_trips(table: TableBuilder) -> None:
    table.checksum()
    assert trips_to_the_first_file(table) <= 2 + 2


@pytest.mark.parametrize("checksum", [True, False])
@pytest.mark.parametrize("hint", [True, False])
@pytest.mark.parametrize("tail", [0, 5, 25])
@pytest.mark.parametrize("strategy", ["auto", "forward"])
def test_all_files_with_the_base_first(
    table: TableBuilder, strategy: str, tail: int, *, hint: bool, checksum: bool
) -> None:
    if not hint:
        table.last_checkpoint(None)
    append(table, tail)
    if checksum:
        table.checksum()
    assert trips_to_the_first_file(table, strategy=strategy) <= (4 if checksum else 5) + more_trips(tail)


def test_the_footer_of_the_base_is_asked_for_beside_the_tail(table: TableBuilder) -> None:
    append(table, 25)
    table.checksum()
    # Hint, listing with ten commits, checksum file with the other commits and the footer in two trips, row group.
    assert trips_to_the_first_file(table, strategy="forward") == 5


def test_a_snapshot_asks_for_no_footer(table: TableBuilder) -> None:
    append(table, 25)
    table.checksum()
    store = RecordingStore(store_of(table))
    scanner(table, store).snapshot()
    assert not [attempt for attempt in store.attempts if "checkpoint.parquet" in str(attempt)]


@pytest.mark.parametrize("hint", [True, False])
@pytest.mark.parametrize("tail", [0, 5, 25])
def test_without_a_checksum_file_and_a_match_in_the_tail(table: TableBuilder, *, hint: bool, tail: int) -> None:
    """Protocol and metadata and the first match are both in the checkpoint, in row groups of their own."""
    if not hint:
        table.last_checkpoint(None)
    append(table, tail)
    reader = scanner(table, predicate="day = '2026-02-01'", strategy="reverse")
    next(reader.scan_files())
    assert reader.metrics.trips_to_first_file is not None
    assert reader.metrics.trips_to_first_file <= 3 + 2 + more_trips(tail)
