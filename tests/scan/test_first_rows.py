"""The first file of a checkpoint comes after two trips more, whatever its row groups and the predicate.

Where it is made of many files, or the tail is long, not all requests can be made side by side.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from tests.builder import TableBuilder, add, remove

from delta_sidecar import LazyDeltaScanner, LazyScanConfig
from delta_sidecar.synth import TelemetryLog

if TYPE_CHECKING:
    from pathlib import Path

ROW_GROUP, FOOTER_AND_ROW_GROUP, CHECKSUM_AND_FOOTER = 1, 2, 2
SPECULATION, THREADS = 10, 14
EARLY_HOUR = "2025010103"
PREDICATES = {
    "none": None,
    "by partition": f"_event_hour = '{EARLY_HOUR}'",
    "by statistics": "event_ts < timestamp '2025-01-01 04:00:00'",
    "by both": f"_event_hour = '{EARLY_HOUR}' AND event_ts < timestamp '2025-01-01 04:00:00'",
}
LAYOUTS: dict[str, dict[str, Any]] = {
    "as Spark writes them": {},
    "small": {"row_group_rows": 5_000},
    "one single": {"row_group_rows": "single"},
    "with struct statistics": {"row_group_rows": "single", "struct_stats": True},
    "many parts": {"checkpoint": "v1-multipart", "parts": 100},
    "V2": {"checkpoint": "v2-parquet", "parts": 70},
}


@pytest.fixture(scope="module", params=LAYOUTS)
def layout(request: pytest.FixtureRequest) -> dict[str, Any]:
    return {"files": 150_000, "tail_commits": 0, **LAYOUTS[request.param]}


@pytest.fixture(scope="module")
def table(layout: dict[str, Any], tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("telemetry")
    TelemetryLog(**layout).write(path)
    return path


@pytest.mark.full
@pytest.mark.parametrize("predicate", PREDICATES.values(), ids=PREDICATES)
def test_two_trips_for_the_checkpoint(table: Path, layout: dict[str, Any], predicate: str | None) -> None:
    # The files of a V2 checkpoint are known once its top file is read, whose own rows are asked for with their footers.
    top = 1 if layout.get("checkpoint") == "v2-parquet" else 0
    footers = trips_of(layout.get("parts", 1) + top)
    assert trips(table, predicate=predicate) == 2 + top + footers + ROW_GROUP


@pytest.mark.parametrize("tail", [5, 10, 25, 100])
def test_a_tail_without_a_match_costs_no_further_trip(tmp_path: Path, tail: int) -> None:
    built = TableBuilder(tmp_path, partition_columns=["day"], schema={"id": "long", "day": "string"})
    built.commit([add("old.parquet", partition_values={"day": "old"})])
    built.checkpoint()
    built.checksum()
    for number in range(tail):
        built.commit([add(f"{number}.parquet", partition_values={"day": "new"})])
        built.checksum()
    # The footer is all of this checkpoint; it comes right after the listing, beside what is left of the tail.
    assert trips(tmp_path, predicate="day = 'old'") == 2 + trips_of(max(0, tail - SPECULATION) + CHECKSUM_AND_FOOTER)


@pytest.mark.parametrize("tail", [100, 600])
def test_a_tail_without_a_file_costs_few_more_trips_than_it_has_to(tmp_path: Path, tail: int) -> None:
    built = TableBuilder(tmp_path)
    built.commit([add(f"{number}.parquet") for number in range(tail + 1)])
    built.checkpoint()
    for number in range(tail):
        built.commit([remove(f"{number}.parquet")])
    built.checksum()
    least = 2 + trips_of(tail - SPECULATION + CHECKSUM_AND_FOOTER)
    assert trips(tmp_path, strategy="forward") == least
    # Nobody knows that the tail has no file, so that it is not fetched at once; but the look-ahead grows.
    assert trips(tmp_path, strategy="reverse") <= least + FOOTER_AND_ROW_GROUP


def trips_of(requests: int) -> int:
    """Trips that requests take which do not wait for each other, but for threads."""
    return -(-requests // THREADS)


def trips(table: Path, **config: object) -> int | None:
    with LazyDeltaScanner(table, LazyScanConfig(**config)) as scanner:
        next(scanner.scan_files())
        return scanner.metrics.trips_to_first_file
