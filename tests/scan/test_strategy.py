"""AUTO: which end of the log a scan begins with, and why."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from tests.builder import TableBuilder, add
from tests.scan.reading import keys_of, scan, scanner

from delta_sidecar import LazyDeltaScanner, LazyScanConfig, OptionError
from delta_sidecar.build import build_sidecar
from delta_sidecar.events import Event, StrategyChosen
from delta_sidecar.predicate import bind, parse
from delta_sidecar.scan.request import bounds_from_below, time_columns
from delta_sidecar.synth import TelemetryLog

if TYPE_CHECKING:
    from pathlib import Path

SCHEMA = {"_event_hour": "string", "day": "date", "at": "timestamp", "local": "timestamp_ntz", "id": "long"}


def table_with(root: Path, *, base: int, tail: int, files: int = 1) -> TableBuilder:
    """A base of so many files, and so many commits of some files after it."""
    table = TableBuilder(root, schema=SCHEMA, partition_columns=["_event_hour"])
    hour = {"_event_hour": "2026021022"}
    table.commit([add(f"base-{number}.parquet", partition_values=hour) for number in range(base)])
    table.checkpoint()
    for commit in range(tail):
        table.commit([add(f"{commit}-{number}.parquet", partition_values=hour) for number in range(files)])
    return table


def chosen(table: TableBuilder, **config: object) -> StrategyChosen:
    events: list[Event] = []
    reader = LazyDeltaScanner(table.root, LazyScanConfig(**config), listeners=[events.append])
    list(reader.scan_files())
    (event,) = (event for event in events if isinstance(event, StrategyChosen))
    return event


@pytest.fixture(scope="module")
def large_base(tmp_path_factory: pytest.TempPathFactory) -> TableBuilder:
    return table_with(tmp_path_factory.mktemp("large"), base=2_000, tail=2)


@pytest.mark.parametrize(
    ("config", "strategy", "reason"),
    [
        ({}, "forward", "most are in the base"),
        ({"limit": 1}, "reverse", "a limit"),
        ({"limit": 10_000}, "reverse", "a limit"),
        ({"order": "recent"}, "reverse", "newest files"),
        ({"predicate": "_event_hour >= '2026021000'"}, "reverse", "times from some value on"),
        ({"predicate": "at > '2026-02-10'"}, "reverse", "times from some value on"),
        ({"predicate": "day = '2026-02-10'"}, "reverse", "times from some value on"),
        ({"predicate": "local BETWEEN '2026-02-10' AND '2026-02-11'"}, "reverse", "times from some value on"),
        ({"predicate": "_event_hour IN ('2026021000', '2026021001')"}, "reverse", "times from some value on"),
        ({"predicate": "_event_hour < '2026021000'"}, "forward", "most are in the base"),
        ({"predicate": "id >= 5"}, "forward", "most are in the base"),
        ({"predicate": "id >= 5", "bucket_column": "id"}, "reverse", "times from some value on"),
        ({"strategy": "reverse"}, "reverse", "it was asked for"),
        ({"strategy": "forward", "limit": 3}, "forward", "it was asked for"),
    ],
    ids=str,
)
def test_the_rules(large_base: TableBuilder, config: dict[str, Any], strategy: str, reason: str) -> None:
    event = chosen(large_base, **config)
    assert event.strategy == strategy
    assert reason in event.reason


BASES: dict[str, dict[str, Any]] = {
    "footer": {"checksum": False},
    "footers": {"checksum": False, "checkpoint": "v1-multipart", "parts": 3},
    "checksum": {"checksum": True, "tail_commits": 10},
    "checksum of a later version": {"checksum": True},
    "V2 with a checksum": {"checksum": True, "checkpoint": "v2-json", "tail_commits": 10},
    "V2 of a later version": {"checksum": True, "checkpoint": "v2-json"},
    "V2": {"checksum": False, "checkpoint": "v2-parquet"},
    "typed statistics": {"checksum": False, "struct_stats": True, "codec": "zstd"},
    "manifest": {"checksum": False},
}


# Where neither the base's size nor its number of files is known, files without statistics are taken for fewer.
CASES = [
    (kind, statistics) for kind in BASES for statistics in (0, 6, 20) if statistics or not kind.startswith("V2 of")
]


@pytest.mark.full
@pytest.mark.parametrize(("kind", "statistics"), CASES)
def test_a_tail_of_more_than_half_the_files_of_the_base_comes_first(tmp_path: Path, kind: str, statistics: int) -> None:
    for share, strategy in ((0.2, "forward"), (1.2, "reverse")):
        root = tmp_path / strategy
        options = {"tail_commits": 20, **BASES[kind]}
        adds = int(2_000 * share) // options["tail_commits"]
        summary = TelemetryLog(files=2_000, adds_per_commit=adds, stats_columns=statistics, **options).write(root)
        if kind == "manifest":
            build_sidecar(root, version=summary.checkpoint_version)
        events: list[Event] = []
        with LazyDeltaScanner(root, listeners=[events.append]) as reader:
            assert sum(1 for _ in reader.scan_files()) == 2_000 + 2_000 * share
        (event,) = (event for event in events if isinstance(event, StrategyChosen))
        assert (event.strategy, event.order) == (strategy, "any"), event.reason
        # Of the table of a later version, a checksum file tells how many files are in both.
        assert "(2,000 files)" in event.reason or kind.endswith("later version")


def test_the_number_of_commits_does_not_matter(tmp_path: Path) -> None:
    events = []
    for commits, files in ((101, 1), (1, 101)):
        events.append(chosen(table_with(tmp_path / str(commits), base=4_000, tail=commits, files=files)))
    assert {(event.strategy, event.reason) for event in events} == {
        ("forward", "files of any age are wanted, and most are in the base (4,000 files)")
    }


def test_no_base_at_all_means_the_tail(tmp_path: Path) -> None:
    table = TableBuilder(tmp_path)
    table.commit([add("a.parquet")])
    assert chosen(table).strategy == "reverse"


@pytest.mark.parametrize(
    ("predicate", "expected"),
    [
        ("_event_hour >= '1' AND id = 5", True),
        ("_event_hour >= '1' OR id = 5", False),
        ("_event_hour >= '1' OR at > '2026-01-01'", True),
        ("NOT (_event_hour < '1')", True),
        ("NOT (_event_hour >= '1')", False),
        ("NOT (_event_hour < '1' OR id = 5)", True),
        ("NOT (_event_hour < '1' AND id = 5)", False),
        ("NOT (NOT (_event_hour > '1'))", True),
        ("_event_hour = '1'", True),
        ("_event_hour != '1'", False),
        ("_event_hour IS NOT NULL", False),
        ("_event_hour LIKE '2026%'", False),
        ("_event_hour NOT IN ('1')", False),
        ("TRUE", False),
    ],
)
def test_what_bounds_a_time_from_below(large_base: TableBuilder, predicate: str, *, expected: bool) -> None:
    snapshot = scanner(large_base).snapshot()
    bound = bind(parse(predicate), snapshot.schema)
    assert bounds_from_below(bound, time_columns(snapshot, "_event_hour")) is expected


def test_all_strategies_give_the_same_files(large_base: TableBuilder) -> None:
    answers = [keys_of(scan(large_base, strategy=strategy)) for strategy in ("auto", "reverse", "forward")]
    assert answers[0] == answers[1] == answers[2]
    assert len(answers[0]) == 2_002


def test_recent_order_and_forward_contradict_each_other() -> None:
    with pytest.raises(OptionError, match="leave one out"):
        LazyScanConfig(order="recent", strategy="forward")


def test_the_table_may_say_which_strategy_it_wants(tmp_path: Path) -> None:
    table = TableBuilder(tmp_path, configuration={"deltaSidecar.scan.strategy": "forward"})
    table.commit([add("a.parquet")])
    assert chosen(table).strategy == "forward"
    assert chosen(table, strategy="reverse").strategy == "reverse"


def test_forward_outdoes_an_order_that_the_environment_asks_for(
    large_base: TableBuilder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DELTA_SCAN_ORDER", "recent")
    event = chosen(large_base, strategy="forward")
    assert (event.strategy, event.order) == ("forward", "any")
    assert chosen(large_base).strategy == "reverse"


def test_a_predicate_does_not_mean_that_all_files_are_wanted(large_base: TableBuilder) -> None:
    event = chosen(large_base, predicate="id > 3")
    assert event.strategy == "forward"
    assert "all files" not in event.reason


@pytest.mark.parametrize("size", [0, 1, 11])
@pytest.mark.parametrize("has_checksum", [False, True])
def test_a_torn_checkpoint_does_not_keep_the_choice_from_being_made(
    tmp_path: Path, size: int, *, has_checksum: bool
) -> None:
    table = TableBuilder(tmp_path)
    for number in range(4):
        table.commit([add(f"{number}.parquet")])
    (table.log / f"{2:020}.checkpoint.parquet").write_bytes(b"P" * size)
    if has_checksum:
        table.checksum()
    assert len(keys_of(scan(table))) == 4
