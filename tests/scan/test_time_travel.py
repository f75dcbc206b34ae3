"""Scans of a table as of a time, on real folders."""

from __future__ import annotations

import datetime as dt
import json
import math
from typing import TYPE_CHECKING

import pytest
from deltalake import DeltaTable
from tests.builder import TableBuilder, add
from tests.scan.dated_tables import ENABLED, MINUTE, NOW, dated, enabling, moment, stamped, write
from tests.scan.reading import STRATEGIES, scan, scanner, store_of

from delta_sidecar import LazyScanConfig, LogCorruptionError, OptionError, TableNotFoundError, VersionNotFoundError
from delta_sidecar.log.names import commit_path
from delta_sidecar.replay.versions import BEGINNING
from delta_sidecar.store.testing import RecordingStore

if TYPE_CHECKING:
    from pathlib import Path


def version_at(table: TableBuilder, milliseconds: int) -> int:
    snapshot = scanner(table, timestamp=moment(milliseconds)).snapshot()
    return snapshot.version


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_a_scan_lists_the_files_that_were_live_at_a_time(tmp_path: Path, strategy: str) -> None:
    table = dated(tmp_path, [NOW, NOW + MINUTE, NOW + 2 * MINUTE])
    reader = scanner(table, timestamp=moment(NOW + MINUTE + 1), strategy=strategy)
    assert sorted(file.path for file in reader.scan_files()) == ["0.parquet", "1.parquet"]
    assert reader.metrics.version == 1


def test_part_of_a_millisecond_does_not_count(tmp_path: Path) -> None:
    table = dated(tmp_path, [NOW, NOW + 5])
    for microseconds, version in ((4_999, 0), (5_000, 1), (5_001, 1)):
        at = moment(NOW) + dt.timedelta(microseconds=microseconds)
        assert scanner(table, timestamp=at).snapshot().version == version


def test_a_time_is_given_in_any_zone_or_as_text(tmp_path: Path) -> None:
    table = dated(tmp_path, [NOW, NOW + MINUTE, NOW + 2 * MINUTE])
    east = moment(NOW + MINUTE).astimezone(dt.timezone(dt.timedelta(hours=9)))
    for given in (east, east.isoformat(), "2026-02-02T02:41:00Z", "2026-02-02 02:41:00"):
        assert scanner(table, timestamp=given).snapshot().version == 1


def test_times_out_of_order_grow_with_the_version(tmp_path: Path) -> None:
    table = dated(tmp_path, [NOW, NOW + 100, NOW + 50, NOW + 100, NOW + 1_000])
    assert [version_at(table, NOW + late) for late in (0, 99, 100, 101, 102, 999, 1_000)] == [0, 0, 1, 2, 3, 3, 4]


def test_other_readers_find_the_same_version(tmp_path: Path) -> None:
    table = dated(tmp_path, [NOW + number * MINUTE for number in range(9)])
    table.checkpoint()
    write(table, NOW + 9 * MINUTE)
    for late in (0, 1, MINUTE - 1, MINUTE, 7 * MINUTE + 500, 8 * MINUTE, 9 * MINUTE - 1, 9 * MINUTE, 99 * MINUTE):
        other = DeltaTable(tmp_path)
        other.load_as_version(moment(NOW + late))
        assert version_at(table, NOW + late) == other.version()


def test_a_time_before_the_log_that_is_left_is_refused(tmp_path: Path) -> None:
    table = dated(tmp_path, [NOW + number * MINUTE for number in range(5)])
    table.checkpoint()
    write(table, NOW + 5 * MINUTE)
    table.clean_up()
    assert version_at(table, NOW + 4 * MINUTE) == 4
    with pytest.raises(VersionNotFoundError, match=r"is 4, which was committed at 2026-02-02T02:44:00.000\+00:00"):
        scan(table, timestamp=moment(NOW + 4 * MINUTE - 1))


def test_no_table_has_no_versions(tmp_path: Path) -> None:
    with pytest.raises(TableNotFoundError):
        scan(TableBuilder(tmp_path), timestamp=moment(NOW))


def test_a_time_excludes_a_version_and_a_page_token(tmp_path: Path) -> None:
    with pytest.raises(OptionError, match="one of them"):
        LazyScanConfig(version=1, timestamp=moment(NOW))
    reader = scanner(dated(tmp_path, [NOW, NOW + 1]), limit=1)
    list(reader.scan_files())
    with pytest.raises(OptionError, match="leave version and timestamp out"):
        LazyScanConfig(page_token=reader.page_token, timestamp=moment(NOW))


def test_a_page_token_goes_on_in_the_version_of_a_time(tmp_path: Path) -> None:
    table = dated(tmp_path, [NOW, NOW + MINUTE, NOW + 2 * MINUTE])
    first = scanner(table, timestamp=moment(NOW + MINUTE), limit=1)
    files = list(first.scan_files())
    second = scanner(table, page_token=first.page_token)
    files += second.scan_files()
    assert sorted(file.path for file in files) == ["0.parquet", "1.parquet"]
    assert second.metrics.version == 1


def test_commits_with_timestamps_are_not_judged_by_their_files(tmp_path: Path) -> None:
    own = [NOW + number * MINUTE for number in range(6)]
    table = stamped(tmp_path, own, times=[NOW * 2, 7, 9, 8, 7, 1])
    assert [version_at(table, NOW + late * MINUTE) for late in range(7)] == [0, 1, 2, 3, 4, 5, 5]
    assert version_at(table, NOW + 3 * MINUTE - 1) == 2
    with pytest.raises(VersionNotFoundError, match=r"is 0, which was committed at 2026-02-02T02:40:00.000\+00:00"):
        version_at(table, NOW - 1)


def test_timestamps_that_were_enabled_later(tmp_path: Path) -> None:
    table = dated(tmp_path, [NOW, NOW + MINUTE, NOW + MINUTE])
    since = {"delta.inCommitTimestampEnablementVersion": "3"}
    since["delta.inCommitTimestampEnablementTimestamp"] = str(NOW + 3 * MINUTE)
    write(table, 5, NOW + 3 * MINUTE, enabling(ENABLED | since))
    write(table, 4, NOW + 4 * MINUTE)
    write(table, NOW * 2, NOW + 5 * MINUTE)
    expected = {0: 0, MINUTE - 1: 0, MINUTE: 1, MINUTE + 1: 2, 3 * MINUTE - 1: 2, 3 * MINUTE: 3}
    expected |= {4 * MINUTE: 4, 5 * MINUTE - 1: 4, 5 * MINUTE: 5}
    assert {late: version_at(table, NOW + late) for late in expected} == expected


def test_a_long_log_is_searched_in_few_trips_and_bytes(tmp_path: Path) -> None:
    versions = 300
    table = stamped(tmp_path, range(NOW, NOW + versions), [7] * versions)
    table.checksum()
    store = RecordingStore(store_of(table))
    assert scanner(table, store, timestamp=moment(NOW + 123)).snapshot().version == 123
    probed = [attempt for attempt in store.attempts if attempt.end == BEGINNING]
    assert 0 < len(probed) <= 8 * math.log2(versions)
    trips = scanner(table, timestamp=moment(NOW + 123))
    trips.snapshot()
    direct = scanner(table, version=123)
    direct.snapshot()
    # The listing, the checksum file and the search come before.
    assert trips.metrics.requests.trips <= direct.metrics.requests.trips + 2 + math.log2(versions) / 2


def test_of_large_commits_only_the_beginning_is_read(tmp_path: Path) -> None:
    table = stamped(tmp_path, [NOW], [7])
    for number in range(1, 9):
        adds = [add(f"{number}-{place}.parquet", tags={"note": "x" * 5_000}) for place in range(100)]
        write(table, 7, NOW + number, adds)
    table.checksum()
    reader = scanner(table, timestamp=moment(NOW))
    assert reader.snapshot().version == 0
    assert table.commit_path(5).stat().st_size > 5 * BEGINNING
    assert reader.metrics.requests.bytes < 10 * BEGINNING


@pytest.mark.parametrize("place", ["second", "long", "last"])
def test_a_timestamp_is_found_wherever_it_is(tmp_path: Path, place: str) -> None:
    table = stamped(tmp_path, [NOW, NOW + 10, NOW + 20], [7, 7, 7])
    note = "x" * (3 * BEGINNING)
    stamp = {"commitInfo": {"operation": note if place == "long" else "WRITE", "inCommitTimestamp": NOW + 10}}
    others = [add("1.parquet"), add("2.parquet", tags={"note": note})]
    actions = {"second": [others[0], stamp, others[1]], "long": [stamp, *others], "last": [*others, stamp]}[place]
    table.commit_path(1).write_text("\n".join(map(json.dumps, actions)))
    assert [version_at(table, NOW + late) for late in (9, 10, 19, 20)] == [0, 1, 1, 2]


def test_a_commit_without_the_timestamp_that_it_must_have_is_refused(tmp_path: Path) -> None:
    table = stamped(tmp_path, [NOW, NOW + 10], [7, 7])
    write(table, 7)
    with pytest.raises(LogCorruptionError, match=rf"commit 2 \({commit_path(2)}\) has no commitInfo"):
        version_at(table, NOW + 10)
    assert scanner(table, version=2).snapshot().version == 2


def test_a_torn_commit_is_refused_by_name(tmp_path: Path) -> None:
    table = stamped(tmp_path, [NOW, NOW + 10, NOW + 20], [7, 7, 7])
    table.checksum()
    table.commit_path(1).write_text(json.dumps({"commitInfo": {"note": "x" * 2 * BEGINNING}})[:-5])
    with pytest.raises(LogCorruptionError, match="commit 1 "):
        version_at(table, NOW + 10)
