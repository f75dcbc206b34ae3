"""Whatever columns and files are asked for, a metadata sidecar gives what the log gives, and stays the base."""

from __future__ import annotations

from itertools import chain, combinations, cycle
from typing import TYPE_CHECKING, Any

import pytest
from tests.builder import TableBuilder, add, deletion_vector, metadata, protocol, remove
from tests.scan.sidecar_tables import heard, manifest_of, manifest_path, spoil_piece, with_sidecar

from delta_sidecar import DeltaTable, LazyDeltaScanner, LazyScanConfig
from delta_sidecar.events import BasePassedOver, Event, ScanEnded
from delta_sidecar.replay.files import FILE_SCHEMA, REQUIRED_COLUMNS

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    import pyarrow as pa

SCHEMA = {"id": "long", "at": "timestamp", "blob": "binary", "gone": "string", "changed": "string"}
LATER = {"id": "long", "at": "timestamp", "blob": "binary", "changed": "long", "more": "double"}
PARTITIONS = {"_event_hour": "string", "region": "string"}
PREDICATES = (
    None,
    "_event_hour >= '2026021004'",
    "region = 'eu' AND id < 7",
    "at > timestamp '2026-02-10 03:00:00' OR id = 1",
    "blob IS NULL",
    "blob IS NOT NULL AND id > 2",
    "changed = 5 OR more IS NULL",
    "id IS NULL",
)
BUILDS: dict[str, dict[str, Any]] = {"bucket": {}, "no bucket": {"bucket_column": "none", "summaries": ["id"]}}


def file(number: int, **fields: Any) -> dict[str, Any]:  # noqa: ANN401 - fields of the action
    rows = [{"id": number, "at": f"2026-02-10T0{number}:00:00.000Z", "blob": b"x" if number % 2 else None, "gone": "g"}]
    values = {"_event_hour": f"20260210{number:02}", "region": "eu" if number % 3 else None}
    given = {"rows": rows, "partition_values": values, "tags": {"n": f"{number}"}} | fields
    return add(f"f{number}.parquet", **given)


def table_of(root: Path) -> TableBuilder:
    features = protocol(features=["deletionVectors", "typeWidening"])
    table = TableBuilder(root, protocol=features, schema=SCHEMA | PARTITIONS, partition_columns=list(PARTITIONS))
    table.commit([file(number) for number in range(7)])
    table.commit([file(7, stats=None), file(8, dv=deletion_vector("one")), remove("f1.parquet")])
    return table


def changed(table: TableBuilder) -> None:
    """Commits after the sidecar: other columns under the same names, and files that come and go."""
    table.commit([metadata(LATER | PARTITIONS, list(PARTITIONS)), remove("f2.parquet"), add("new.parquet", stats=None)])


@pytest.fixture(scope="module", params=[*BUILDS, "footer"])
def table(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[TableBuilder, int]:
    """A table, and the tier of its metadata sidecar."""
    found = with_sidecar(table_of(tmp_path_factory.mktemp("table") / "t"), **BUILDS.get(request.param, {}))
    changed(found)
    if request.param == "footer":
        manifest_path(found, 1).unlink()
    return found, 2 if request.param == "footer" else 1


def choices() -> Iterator[tuple[str, ...]]:
    """Every choice of columns; those that are kept and read in the same way come together."""
    together = [("size",), ("modification_time",), ("stats",), ("tags",), ("base_row_id", "clustering_provider")]
    for chosen in chain.from_iterable(combinations(together, count) for count in range(len(together) + 1)):
        yield ("raw_path", "deletion_vector", *chain.from_iterable(chosen))


def scanned(root: Path, columns: tuple[str, ...], **config: Any) -> tuple[list[Any], list[Event]]:  # noqa: ANN401
    events: list[Event] = []
    scanner = LazyDeltaScanner(root, LazyScanConfig(**config), listeners=[events.append])
    return in_order(scanner.scan_batches(list(columns)).read_all()), events


def in_order(found: pa.Table) -> list[Any]:
    return sorted(found.to_pylist(), key=repr)


@pytest.mark.full
@pytest.mark.parametrize("predicate", PREDICATES, ids=str)
def test_every_choice_of_columns_has_the_same_answer_on_the_same_tier(
    table: tuple[TableBuilder, int], predicate: str | None
) -> None:
    built, tier = table
    every = tuple(dict.fromkeys(chain.from_iterable(choices())))
    assert set(every) >= set(FILE_SCHEMA.names) - REQUIRED_COLUMNS - {"default_row_commit_version"}
    whole, _ = scanned(built.root, every, predicate=predicate, sidecar_enabled=False)
    ways = cycle([{"strategy": "forward"}, {"strategy": "reverse"}, {"order": "recent"}])
    for columns, way in zip(choices(), ways, strict=False):
        found, events = scanned(built.root, columns, predicate=predicate, **way)
        assert found == sorted(({name: row[name] for name in columns} for row in whole), key=repr), columns
        assert [event for event in events if isinstance(event, BasePassedOver)] == [], columns
        assert [event.sidecar_tier for event in events if isinstance(event, ScanEnded)] == [tier]


@pytest.mark.parametrize("limit", [None, 2])
def test_statistics_of_files_come_out_of_the_sidecar(tmp_path: Path, limit: int | None) -> None:
    built = with_sidecar(table_of(tmp_path / "t"))
    events: list[Event] = []
    found = list(DeltaTable(built.root, listeners=[events.append]).get_stats_for_files(limit=limit))
    assert len(found) == (8 if limit is None else limit)
    assert [event for event in events if isinstance(event, BasePassedOver)] == []
    assert [event.sidecar_tier for event in events if isinstance(event, ScanEnded)] == [1]


# --- a sidecar that is damaged ---------------------------------------------------------------------------------------


@pytest.fixture
def hours(tmp_path: Path) -> TableBuilder:
    """A file an hour, a commit each, a checkpoint in the middle and a sidecar of the newest version."""
    table = TableBuilder(tmp_path, schema=SCHEMA | PARTITIONS, partition_columns=list(PARTITIONS))
    for number in range(8):
        table.commit([file(number)])
        if number == 3:
            table.checkpoint()
    return with_sidecar(table)


def test_a_limit_that_is_reached_after_a_sidecar_was_passed_over_tells_so(hours: TableBuilder) -> None:
    """The file comes from a commit below it: no base was read."""
    for group in manifest_of(hours, 7).row_groups:
        spoil_piece(hours, 7, group, "index")
    for order in ("recent", "any"):
        one = heard(hours, limit=1, order=order)
        assert (len(one.files), one.told) == (1, (None, "damaged"))
    assert heard(hours).told == (3, "damaged")


def test_a_sidecar_that_breaks_off_after_files_of_it_came_is_told_as_what_was_read(hours: TableBuilder) -> None:
    spoil_piece(hours, 7, manifest_of(hours, 7).row_groups[1], "index")
    assert heard(hours, order="recent", limit=4).told == (1, None)
    assert heard(hours, order="recent", limit=5).told == (3, "damaged")


@pytest.mark.parametrize("strategy", ["forward", "reverse"])
def test_entries_of_a_sidecar_that_was_thrown_away_do_not_count(hours: TableBuilder, strategy: str) -> None:
    groups = manifest_of(hours, 7).row_groups
    spoil_piece(hours, 7, groups[0 if strategy == "forward" else -1], "index")
    for enabled in (True, False):
        scanner = LazyDeltaScanner(hours.root, LazyScanConfig(strategy=strategy, sidecar_enabled=enabled))
        assert len(list(scanner.scan_files())) == 8
        entries = scanner.metrics.entries
        assert (entries.base_adds, entries.commit_adds) == (4, 4)
