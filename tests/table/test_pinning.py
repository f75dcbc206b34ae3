"""When a table is opened, and at which version it then stays."""

from __future__ import annotations

import datetime as dt
import shutil
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import deltalake
import pyarrow as pa
import pytest
from tests.builder import TableBuilder, add, remove
from tests.own_threads import forget
from tests.table.written import MORNING, committed_at, counting_table, numbers, write

from delta_sidecar import (
    DeltaTable,
    LogCorruptionError,
    OptionError,
    ScanClosedError,
    TableNotFoundError,
    VersionNotFoundError,
)
from delta_sidecar.build import build_sidecar
from delta_sidecar.store import open_store
from delta_sidecar.store.wrappers import RecordingStore

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


def test_a_table_that_is_made_has_asked_for_nothing(tmp_path: Path) -> None:
    store = RecordingStore(open_store(counting_table(tmp_path)))
    with DeltaTable(tmp_path, store=store) as table:
        assert str(tmp_path) in table.table_uri
        assert "version" not in repr(table)
        for name in ("delete", "merge", "vacuum", "optimize", "alter", "create_checkpoint"):
            assert getattr(table, name) is not None
        assert callable(table.optimize.compact)
    assert store.attempts == []
    assert table.version() == 2
    assert store.attempts != []


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
        table.load_as_version("1999-01-01")
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


@pytest.mark.parametrize(("time", "version"), [("2026-02-10 07:59", 1), ("2026-02-10", None), ("2026-02-11", 2)])
def test_a_text_without_a_zone_is_in_utc(tmp_path: Path, time: str, version: int | None) -> None:
    counting_table(tmp_path)
    committed_at(tmp_path, [MORNING + dt.timedelta(hours=hours) for hours in range(3)])
    table = DeltaTable(tmp_path)
    if version is None:
        with pytest.raises(VersionNotFoundError):
            table.load_as_version(time)
    else:
        table.load_as_version(time)
        assert table.version() == version


def test_an_address_without_a_table_is_told_at_the_first_use(tmp_path: Path) -> None:
    table = DeltaTable(tmp_path / "nothing")
    assert not DeltaTable.is_deltatable(tmp_path / "nothing")
    for use in FIRST_USES.values():
        with pytest.raises(TableNotFoundError, match="nothing"):
            use(table)
    counting_table(tmp_path / "nothing")
    assert DeltaTable.is_deltatable(tmp_path / "nothing")
    assert table.version() == 2


def test_a_version_that_was_never_there_is_told_at_the_first_use(tmp_path: Path) -> None:
    table = DeltaTable(counting_table(tmp_path), version=9)
    with pytest.raises(VersionNotFoundError):
        table.version()
    with pytest.raises(VersionNotFoundError):
        table.scan()


def test_threads_that_use_it_first_open_it_once(tmp_path: Path) -> None:
    counting_table(tmp_path)
    started = threading.Event()

    def commit_once(_: object) -> None:
        # The first request lets another commit in: whoever opened the table anew would see it.
        if not started.is_set():
            started.set()
            write(tmp_path, numbers(3))

    store = RecordingStore(open_store(tmp_path), commit_once)
    table = DeltaTable(tmp_path, store=store)
    uses = [FIRST_USES[name] for name in ("version", "scan", "file_infos", "schema")] * 4
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda use: use(table), uses))
        versions = set(pool.map(lambda _: table.version(), range(8)))
    assert len(versions) == 1
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
    found = DeltaTable(table.root, store=store, options=options)
    found.version()
    return found, store


@pytest.fixture
def checkpointed(tmp_path: Path) -> TableBuilder:
    table = TableBuilder(tmp_path)
    appended(table, 4)
    table.checkpoint()
    appended(table, 6)
    return table


@pytest.mark.parametrize("strategy", ["forward", "reverse"])
def test_a_version_that_a_newer_checkpoint_still_covers_is_read_after_a_clean_up(
    checkpointed: TableBuilder, strategy: str
) -> None:
    table, store = opened(checkpointed, strategy=strategy)
    checkpointed.checkpoint()
    checkpointed.clean_up(inclusive=True)
    (checkpointed.log / f"{3:020}.checkpoint.parquet").unlink()
    appended(checkpointed, 2)
    forget(store)
    assert sorted(file.path for file in table.file_infos()) == expected(checkpointed, 9)
    assert "_delta_log/_last_checkpoint" in store.paths("get")
    assert table.version() == 9
    assert table.count() == sum(number for number in range(10) if f"f{number}.parquet" in expected(checkpointed, 9))
    assert table.get_add_actions().read_all().num_rows == len(expected(checkpointed, 9))


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
    table = DeltaTable(tmp_path)
    table.version()
    deltalake.DeltaTable(tmp_path).create_checkpoint()
    for version in range(4):
        (tmp_path / "_delta_log" / f"{version:020}.json").unlink()
    assert rows_of(table) == [0, 1, 2, 3]
    assert table.to_pyarrow_table(filters=[("n", ">", 1)]).num_rows == 2
    assert table.count() == 4
