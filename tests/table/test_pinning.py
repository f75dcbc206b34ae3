"""At which version a table is pinned when it is made, what that asks for, and how it stays there."""

from __future__ import annotations

import datetime as dt
import shutil
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import deltalake
import pyarrow as pa
import pytest
from tests.builder import TableBuilder, add, remove
from tests.own_threads import await_threads, forget
from tests.table.written import MORNING, committed_at, counting_table, numbers, write

from delta_sidecar import (
    DeltaTable,
    LogCorruptionError,
    MissingCommitError,
    OptionError,
    ScanClosedError,
    TableNotFoundError,
    VersionNotFoundError,
    write_deltalake,
)
from delta_sidecar.build import build_sidecar
from delta_sidecar.store import open_store
from delta_sidecar.store.testing import RecordingStore

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

FIRST_USES: dict[str, Callable[[DeltaTable], Any]] = {
    "version": lambda table: table.version(),
    "schema": lambda table: table.schema(),
    "metadata": lambda table: table.metadata(),
    "protocol": lambda table: table.protocol(),
    "history": lambda table: table.history(1),
    "snapshot": lambda table: table.snapshot(),
    "partitions": lambda table: table.partitions(),
    "file_uris": lambda table: table.file_uris(),
    "file_infos": lambda table: next(iter(table.file_infos())),
    "get_add_actions": lambda table: table.get_add_actions(),
    "get_stats_for_files": lambda table: next(iter(table.get_stats_for_files())),
    "count": lambda table: table.count(),
    "scan": lambda table: table.scan(),
    "a filtered scan": lambda table: table.scan(predicate=pa.compute.field("n") >= 0),
    "to_pyarrow_table": lambda table: table.to_pyarrow_table(),
    "__arrow_c_stream__": pa.RecordBatchReader.from_stream,
}


def rows_of(table: DeltaTable) -> list[int]:
    return sorted(pa.table(table.scan()).column("n").to_pylist())


HINT_AND_LISTING = [("get", "_delta_log/_last_checkpoint"), ("list", "_delta_log/")]


def asked(store: RecordingStore) -> list[tuple[str, str]]:
    return [(attempt.kind, attempt.path) for attempt in store.attempts]


@pytest.mark.parametrize("log", ["commits", "checkpoint", "sidecar"])
@pytest.mark.parametrize("version", [None, 2])
def test_a_table_that_is_made_has_asked_for_the_hint_and_the_listing(
    tmp_path: Path, log: str, version: int | None
) -> None:
    counting_table(tmp_path, 2)
    if log == "checkpoint":
        deltalake.DeltaTable(tmp_path).create_checkpoint()
    if log == "sidecar":
        build_sidecar(str(tmp_path))
    write(tmp_path, numbers(2))
    store = RecordingStore(open_store(tmp_path))
    with DeltaTable(tmp_path, version, store=store) as table:
        assert (table.version(), repr(table)) == (2, f"DeltaTable('file://{tmp_path}/', version=2)")
        for name in ("delete", "merge", "vacuum", "optimize", "alter", "create_checkpoint"):
            assert getattr(table, name) is not None
        assert callable(table.optimize.compact)
    assert asked(store) == HINT_AND_LISTING


@pytest.mark.parametrize("log", ["commits", "checkpoint", "sidecar"])
@pytest.mark.parametrize("version", [None, 3])
def test_the_first_read_goes_by_the_listing_that_pinned_the_version(
    tmp_path: Path, log: str, version: int | None
) -> None:
    counting_table(tmp_path, 2)
    if log == "checkpoint":
        deltalake.DeltaTable(tmp_path).create_checkpoint()
    if log == "sidecar":
        build_sidecar(str(tmp_path))
    write(tmp_path, numbers(2))
    write(tmp_path, numbers(3))
    store = RecordingStore(open_store(tmp_path))
    table = DeltaTable(tmp_path, version, store=store)
    write(tmp_path, numbers(4))
    assert rows_of(table) == [0, 1, 2, 3]
    assert asked(store)[:2] == HINT_AND_LISTING
    assert store.paths("list") == ["_delta_log/"]
    commits = [path for path in store.paths("get") if path.endswith(".json") and path.startswith("_delta_log/0")]
    tail = range(4) if log == "commits" else (2, 3)
    heads = [f"_delta_log/{1:020}.json"] if log == "sidecar" else []
    assert sorted(commits) == sorted([*heads, *(f"_delta_log/{number:020}.json" for number in tail)])


def test_a_first_read_takes_one_trip_after_the_listing_to_open_the_table(tmp_path: Path) -> None:
    table = TableBuilder(tmp_path)
    appended(table, 4)
    table.checkpoint()
    build_sidecar(str(tmp_path))
    appended(table, 3)
    found = DeltaTable(tmp_path)
    run = found.snapshot().handle.scanner()
    assert len(list(run.scan_files())) == len(expected(table, 6))
    handle = DeltaTable(tmp_path)
    stream = handle.scan(limit=0)
    # The manifest, the head of its commit and the commits after it, all together.
    assert stream.metrics.discovery.requests.trips == 1
    assert list(stream) == []


@pytest.mark.parametrize("move", ["load_as_version", "update_incremental", "a time"])
def test_moving_asks_for_the_hint_and_the_listing(tmp_path: Path, move: str) -> None:
    counting_table(tmp_path)
    store = RecordingStore(open_store(tmp_path))
    table = DeltaTable(tmp_path, 0, store=store)
    forget(store)
    if move == "load_as_version":
        table.load_as_version(1)
    elif move == "update_incremental":
        table.update_incremental()
    else:
        table.load_as_version(dt.datetime.now(dt.UTC))
        # The time is searched among all commits first.
        store.attempts = store.attempts[-2:]
    assert asked(store) == HINT_AND_LISTING
    assert table.version() == (1 if move == "load_as_version" else 2)
    assert rows_of(table) == list(range(table.version() + 1))
    assert store.paths("list") == ["_delta_log/"]


def test_a_commit_is_followed_without_a_request(tmp_path: Path) -> None:
    store = RecordingStore(open_store(counting_table(tmp_path)))
    table = DeltaTable(tmp_path, store=store)
    forget(store)
    table.delete("n = 1")
    write_deltalake(table, numbers(7), mode="append")
    assert (table.version(), asked(store)) == (4, [])
    write(tmp_path, numbers(8))
    assert rows_of(table) == [0, 2, 7]


@pytest.mark.parametrize("use", FIRST_USES)
def test_what_is_committed_after_the_first_use_is_not_seen(tmp_path: Path, use: str) -> None:
    table = DeltaTable(counting_table(tmp_path))
    kept = FIRST_USES[use](table)
    write(tmp_path, numbers(3))
    assert table.version() == 2
    assert rows_of(table) == [0, 1, 2]
    assert len(table.file_uris()) == 3
    assert [entry["version"] for entry in table.history()] == [2, 1, 0]
    table.update_incremental()
    assert table.version() == 3
    assert rows_of(table) == [0, 1, 2, 3]
    assert table.count() == 4
    del kept


def test_what_is_committed_while_rows_are_read_is_not_among_them(tmp_path: Path) -> None:
    counting_table(tmp_path, 20)
    table = DeltaTable(tmp_path, options={"file_parallelism": 1})
    stream = table.scan()
    first = next(stream)
    deltalake.DeltaTable(tmp_path).delete("n < 10")
    write(tmp_path, numbers(100))
    rest = [value for batch in stream for value in batch.column("n").to_pylist()]
    assert sorted([*first.column("n").to_pylist(), *rest]) == list(range(20))


def test_a_scan_goes_on_at_its_version_when_the_table_is_pinned_anew(tmp_path: Path) -> None:
    table = DeltaTable(counting_table(tmp_path))
    stream, snapshot, files = table.scan(), table.snapshot(), table.file_infos()
    write(tmp_path, numbers(3))
    table.update_incremental()
    assert pa.table(stream).num_rows == 3
    assert len(list(files)) == 3
    assert (snapshot.version, len(list(snapshot.stream_active_files()))) == (2, 3)
    assert table.snapshot().version == 3


def test_a_version_that_is_named_is_read(tmp_path: Path) -> None:
    table = DeltaTable(counting_table(tmp_path), version=1)
    assert (table.version(), rows_of(table)) == (1, [0, 1])
    table.load_as_version(0)
    assert (table.version(), rows_of(table)) == (0, [0])
    table.update_incremental()
    assert table.version() == 2


def test_a_version_that_is_not_there_leaves_the_table_as_it_was(tmp_path: Path) -> None:
    table = DeltaTable(counting_table(tmp_path), version=1)
    with pytest.raises(VersionNotFoundError):
        table.load_as_version(7)
    with pytest.raises(OptionError):
        table.load_as_version("yesterday")
    with pytest.raises(OptionError):
        table.load_as_version(1.5)  # type: ignore[arg-type]
    with pytest.raises(VersionNotFoundError):
        table.load_as_version("1999-01-01T00:00:00Z")
    assert (table.version(), rows_of(table)) == (1, [0, 1])


@pytest.mark.parametrize(
    ("time", "version"),
    [
        (MORNING + dt.timedelta(hours=1), 1),
        (MORNING.replace(tzinfo=None) + dt.timedelta(hours=1, minutes=30), 1),
        (MORNING.astimezone(dt.timezone(dt.timedelta(hours=5, minutes=30))) + dt.timedelta(hours=2), 2),
        ("2026-02-10T06:30:00Z", 0),
        ("2026-02-10T12:30:00+05:30", 1),
        ("2026-02-10T07:00:00.000+00:00", 1),
    ],
)
def test_a_time_reads_the_same_version_as_in_deltalake(tmp_path: Path, time: dt.datetime | str, version: int) -> None:
    counting_table(tmp_path)
    committed_at(tmp_path, [MORNING + dt.timedelta(hours=hours) for hours in range(3)])
    ours, theirs = DeltaTable(tmp_path), deltalake.DeltaTable(tmp_path)
    ours.load_as_version(time)
    theirs.load_as_version(time)
    assert ours.version() == theirs.version() == version


@pytest.mark.parametrize(
    "time",
    [
        *("2026-02-10T07:59:00", "2026-02-10 07:59", "2026-02-10", "2026-02-10T07:59Z", "20260210T075900Z"),
        *("2026-02-10T07:59:00z", "2026-02-10t07:59:00+05:30", "2026-02-10 07:59:00.123456789Z", "yesterday", ""),
    ],
)
def test_a_text_is_a_time_where_it_is_one_in_deltalake(tmp_path: Path, time: str) -> None:
    counting_table(tmp_path)
    committed_at(tmp_path, [MORNING + dt.timedelta(hours=hours - 6) for hours in range(3)])
    ours, theirs = DeltaTable(tmp_path), deltalake.DeltaTable(tmp_path)
    try:
        theirs.load_as_version(time)
    except ValueError:
        with pytest.raises(ValueError, match="Failed to parse datetime string"):
            ours.load_as_version(time)
    else:
        ours.load_as_version(time)
    assert ours.version() == theirs.version()


def test_an_address_without_a_table_is_refused_when_it_is_made(tmp_path: Path) -> None:
    assert not DeltaTable.is_deltatable(tmp_path / "nothing")
    with pytest.raises(TableNotFoundError, match="nothing"):
        DeltaTable(tmp_path / "nothing")
    counting_table(tmp_path / "nothing")
    assert DeltaTable.is_deltatable(tmp_path / "nothing")
    assert DeltaTable(tmp_path / "nothing").version() == 2


@pytest.mark.parametrize("version", [0, 9])
def test_a_version_that_is_not_there_is_refused_when_it_is_made(tmp_path: Path, version: int) -> None:
    counting_table(tmp_path)
    deltalake.DeltaTable(tmp_path).create_checkpoint()
    for cleaned in range(2):
        (tmp_path / "_delta_log" / f"{cleaned:020}.json").unlink()
    with pytest.raises(VersionNotFoundError):
        DeltaTable(tmp_path, version)


def test_a_table_that_is_made_anew_is_not_taken_for_the_one_that_was_pinned(tmp_path: Path) -> None:
    root = tmp_path / "t"
    table = DeltaTable(counting_table(root))
    shutil.rmtree(root)
    counting_table(root)
    deltalake.DeltaTable(root).create_checkpoint()
    (root / "_delta_log" / f"{0:020}.json").unlink()
    with pytest.raises(LogCorruptionError):
        table.scan()


def test_threads_that_use_it_first_open_it_once(tmp_path: Path) -> None:
    counting_table(tmp_path)
    store = RecordingStore(open_store(tmp_path))
    table = DeltaTable(tmp_path, store=store)
    write(tmp_path, numbers(3))
    uses = [FIRST_USES[name] for name in ("version", "scan", "file_infos", "schema")] * 4
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda use: use(table), uses))
        versions = set(pool.map(lambda _: table.version(), range(8)))
    assert versions == {2}
    assert store.paths("get").count("_delta_log/_last_checkpoint") == 1


def test_closing_stops_every_scan(tmp_path: Path) -> None:
    counting_table(tmp_path, 30)
    table = DeltaTable(tmp_path, options={"file_parallelism": 1})
    rows, files, actions = table.scan(), table.file_infos(), table.get_add_actions()
    next(rows)
    with ThreadPoolExecutor(1) as pool:
        pool.submit(table.close).result()
    for stream in (rows, files, actions):
        with pytest.raises(ScanClosedError):
            list(stream)
    assert table.version() == 29


# --- a log that is cleaned up after the table was opened --------------------------------------------------------------


def appended(table: TableBuilder, commits: int) -> None:
    for _ in range(commits):
        number = table.version + 1
        actions = [add(f"f{number}.parquet", stats={"numRecords": number})]
        if number % 3 == 2:
            actions.append(remove(f"f{number - 1}.parquet"))
        table.commit(actions)


def expected(table: TableBuilder, version: int) -> list[str]:
    return sorted(path for path, _ in table.model_files(version))


def opened(table: TableBuilder, **options: object) -> tuple[DeltaTable, RecordingStore]:
    store = RecordingStore(open_store(table.root))
    return DeltaTable(table.root, store=store, options=options), store


@pytest.fixture
def checkpointed(tmp_path: Path) -> TableBuilder:
    table = TableBuilder(tmp_path)
    appended(table, 4)
    table.checkpoint()
    appended(table, 6)
    return table


@pytest.mark.parametrize("is_used", [True, False])
@pytest.mark.parametrize("strategy", ["forward", "reverse"])
def test_a_version_that_a_newer_checkpoint_still_covers_is_read_after_a_clean_up(
    checkpointed: TableBuilder, strategy: str, *, is_used: bool
) -> None:
    table, store = opened(checkpointed, strategy=strategy)
    if is_used:
        table.schema()
    checkpointed.checkpoint()
    checkpointed.clean_up()
    (checkpointed.log / f"{3:020}.checkpoint.parquet").unlink()
    appended(checkpointed, 2)
    forget(store)
    if is_used and strategy == "reverse":
        # Files of commit 9 are out before commit 8 is missed.
        with pytest.raises(MissingCommitError):
            list(table.file_infos())
        return
    assert sorted(file.path for file in table.file_infos()) == expected(checkpointed, 9)
    assert "_delta_log/_last_checkpoint" in store.paths("get")
    assert table.version() == 9
    assert table.count() == sum(number for number in range(10) if f"f{number}.parquet" in expected(checkpointed, 9))
    assert table.get_add_actions().read_all().num_rows == len(expected(checkpointed, 9))


@pytest.mark.parametrize("strategy", ["forward", "reverse"])
def test_the_same_version_of_a_restored_table_is_another_one(checkpointed: TableBuilder, strategy: str) -> None:
    """The id is the same; version 9 has other files now, and the old one cannot be read any more."""
    table, _ = opened(checkpointed, strategy=strategy)
    checkpointed.commit_path(9).unlink()
    checkpointed.commits.pop()
    checkpointed.commit([add("another.parquet", rows=[{"id": 1}]), add("one more.parquet", rows=[{"id": 2}])])
    checkpointed.checkpoint()
    for version in range(4, 9):
        checkpointed.delete_commit(version)
    with pytest.raises(LogCorruptionError):
        list(table.file_infos())


@pytest.mark.parametrize("is_used", [True, False])
@pytest.mark.parametrize("is_restored", [True, False])
@pytest.mark.parametrize("strategy", ["forward", "reverse"])
def test_a_version_of_which_nothing_is_left_that_was_pinned_is_not_read(
    checkpointed: TableBuilder, strategy: str, *, is_restored: bool, is_used: bool
) -> None:
    """Only a new checkpoint of the version is there: it may be of another history."""
    table, _ = opened(checkpointed, strategy=strategy)
    if is_used:
        table.schema()
    if is_restored:
        checkpointed.commits.pop()
        checkpointed.commit_path(9).unlink()
        checkpointed.commit([add("another.parquet", rows=[{"id": 1}])])
    checkpointed.checkpoint()
    checkpointed.clean_up(inclusive=True)
    (checkpointed.log / f"{3:020}.checkpoint.parquet").unlink()
    with pytest.raises(LogCorruptionError) as failure:
        list(table.file_infos())
    await_threads()
    # The scan that failed is held by its error until here.
    assert "_delta_log/" in str(failure.value)
    table.update_incremental()
    assert sorted(file.path for file in table.file_infos()) == expected(checkpointed, 9)


@pytest.mark.parametrize("strategy", ["forward", "reverse"])
@pytest.mark.parametrize("lost", ["checkpoint", "commits", "both"])
def test_a_version_that_is_gone_is_said_to_be(checkpointed: TableBuilder, strategy: str, lost: str) -> None:
    table, _ = opened(checkpointed, strategy=strategy)
    appended(checkpointed, 3)
    checkpointed.checkpoint()
    if lost in ("commits", "both"):
        checkpointed.clean_up()
    if lost in ("checkpoint", "both"):
        (checkpointed.log / f"{3:020}.checkpoint.parquet").unlink()
        for version in range(4):
            checkpointed.commit_path(version).unlink(missing_ok=True)
    # Newest first, files of the tail are out before the checkpoint is missed.
    gone = VersionNotFoundError if strategy == "forward" else (VersionNotFoundError, LogCorruptionError)
    streams = (table.file_infos, table.get_stats_for_files, table.get_add_actions)
    for use in (table.file_uris, table.count, *(lambda stream=stream: list(stream()) for stream in streams)):
        with pytest.raises(gone):
            use()
    table.update_incremental()
    assert sorted(file.path for file in table.file_infos()) == expected(checkpointed, 12)


def test_a_clean_up_that_leaves_what_is_needed_changes_nothing(checkpointed: TableBuilder) -> None:
    table, store = opened(checkpointed)
    for version in range(3):
        checkpointed.commit_path(version).unlink()
    forget(store)
    assert sorted(file.path for file in table.file_infos()) == expected(checkpointed, 9)
    assert store.paths("list") == []


def test_a_scan_that_has_begun_fails_rather_than_leave_files_out(checkpointed: TableBuilder) -> None:
    table, _ = opened(checkpointed, strategy="reverse", commit_read_parallelism=1)
    files = table.file_infos()
    next(files)
    appended(checkpointed, 3)
    checkpointed.checkpoint()
    checkpointed.clean_up()
    (checkpointed.log / f"{3:020}.checkpoint.parquet").unlink()
    with pytest.raises(LogCorruptionError):
        list(files)


@pytest.mark.parametrize("strategy", ["forward", "reverse"])
def test_a_sidecar_that_is_gone_since_is_done_without(checkpointed: TableBuilder, strategy: str) -> None:
    build_sidecar(str(checkpointed.root))
    table, _ = opened(checkpointed, strategy=strategy)
    shutil.rmtree(checkpointed.log / "_sidecars")
    assert sorted(file.path for file in table.file_infos()) == expected(checkpointed, 9)


def test_rows_are_read_after_a_clean_up(tmp_path: Path) -> None:
    counting_table(tmp_path, 4)
    table = DeltaTable(tmp_path, options={"strategy": "forward"})
    table.schema()
    deltalake.DeltaTable(tmp_path).create_checkpoint()
    for version in range(3):
        (tmp_path / "_delta_log" / f"{version:020}.json").unlink()
    assert rows_of(table) == [0, 1, 2, 3]
    assert table.to_pyarrow_table(filters=[("n", ">", 1)]).num_rows == 2
    assert table.count() == 4
