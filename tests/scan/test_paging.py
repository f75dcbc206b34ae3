"""Pages of one query: together they are the whole answer, each file once, whatever happens in between."""

from __future__ import annotations

import asyncio
import json
import random
import subprocess
import sys
import threading
from itertools import islice
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.builder import TableBuilder, add, remove
from tests.builder.strategies import History, histories, predicates
from tests.scan.effort import examples
from tests.scan.expected import built
from tests.scan.paged import HOUR, hours, pages
from tests.scan.reading import STRATEGIES, key_of, keys_of, scan, scanner, store_of
from tests.scan.sizes import SIZES

from delta_sidecar import LazyScanConfig, OptionError, PageTokenError, PageTokenExpiredError
from delta_sidecar.plan import Place
from delta_sidecar.scan import scanner as scanner_module
from delta_sidecar.scan.stream import Cursor, Position
from delta_sidecar.store.testing import RecordingStore

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path
    from types import FrameType

    import pyarrow as pa

    from delta_sidecar.store.interface import Buffer

PATIENCE = 60


@pytest.fixture
def table(tmp_path: Path) -> TableBuilder:
    return hours(TableBuilder(tmp_path, schema=HOUR, partition_columns=["_event_hour"]))


@pytest.mark.full
@examples(40)
@given(history=histories(), data=st.data())
def test_the_pages_are_the_answer(history: History, data: st.DataObject) -> None:
    with built(history) as table:
        version = data.draw(st.sampled_from(table.readable_versions()))
        condition = data.draw(st.none() | predicates(table.model_columns(version)))
        predicate = None if condition is None else condition.sql
        strategy = data.draw(st.sampled_from([*STRATEGIES, "auto"]))
        order = data.draw(st.sampled_from(["any", None]))
        bucket = data.draw(st.sampled_from([None, *table.model_action("metaData", version)["partitionColumns"]]))
        config = {"strategy": strategy, "order": order, "predicate": predicate, "bucket_column": bucket}
        strict = data.draw(st.booleans())
        whole = keys_of(scan(table, version=version, predicate=predicate))
        limit = data.draw(st.integers(1, len(whole) + 1))
        with data.draw(st.sampled_from(SIZES))():
            found = [*pages(table, limit, version=version, strict=strict, **config)]
        assert [len(page) for page in found[:-1]] == [limit] * (len(found) - 1)
        assert keys_of(file for page in found for file in page) == whole


@examples(30)
@given(history=histories(), data=st.data())
def test_a_scan_that_is_killed_anywhere_goes_on_there(history: History, data: st.DataObject) -> None:
    """Whoever is killed has taken some files, and kept the token of one of them; the next one goes on from that."""
    with built(history) as table:
        chance = random.Random(data.draw(st.integers(0, 2**32)))  # noqa: S311 - a test's own dice
        config = {"strategy": data.draw(st.sampled_from(STRATEGIES)), "batch_size": data.draw(st.integers(1, 4))}
        whole = [key_of(file) for file in scan(table, **config)]
        kept: list[Any] = []
        token: str | None = None
        for _ in range(len(whole) + 3):
            reader = scanner(table, page_token=token, **config)
            files = reader.scan_files()
            taken = list(kept)
            for _ in range(chance.randint(0, 4)):
                file = next(files, None)
                if file is None:
                    break
                taken.append(key_of(file))
                if chance.random() < 0.7:
                    kept, token = list(taken), reader.page_token
            files.close()
        rest = [key_of(file) for file in scan(table, page_token=token, **config)]
        assert kept + rest == whole


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_a_token_serves_another_process(table: TableBuilder, strategy: str) -> None:
    reader = scanner(table, limit=11, strategy=strategy)
    first = [file.path for file in reader.scan_files()]
    code = """
import json, sys
from delta_sidecar import LazyDeltaScanner, LazyScanConfig
scanner = LazyDeltaScanner(sys.argv[1], LazyScanConfig(page_token=sys.argv[2]))
json.dump([file.path for file in scanner.scan_files()], sys.stdout)
"""
    answer = subprocess.run(
        [sys.executable, "-c", code, str(table.root), str(reader.page_token)], check=True, capture_output=True
    )
    assert first + json.loads(answer.stdout) == [file.path for file in scan(table, strategy=strategy, limit=99)]


WORKER = """
import sys
from delta_sidecar import LazyDeltaScanner, LazyScanConfig
table, strategy, token = sys.argv[1:]
config = LazyScanConfig(strategy=strategy) if not token else LazyScanConfig(page_token=token)
scanner = LazyDeltaScanner(table, config)
for file in scanner.scan_files():
    print(file.path, scanner.page_token, flush=True)
"""


@pytest.mark.full
@pytest.mark.parametrize("strategy", STRATEGIES)
def test_workers_that_are_killed_leave_no_gap(table: TableBuilder, strategy: str) -> None:
    chance = random.Random(strategy)  # noqa: S311 - a test's own dice
    found: list[str] = []
    token = ""
    for _ in range(40):
        command = [sys.executable, "-c", WORKER, str(table.root), strategy, token]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as worker:
            assert worker.stdout is not None
            for line in islice(worker.stdout, chance.randint(1, 9)):
                path, token = line.split()
                found.append(path)
            worker.kill()
        if len(found) == 30:
            break
    assert found == [file.path for file in scan(table, strategy=strategy)]


def test_the_version_stays_pinned(table: TableBuilder) -> None:
    before = keys_of(scan(table))
    reader = scanner(table, limit=7)
    first = list(reader.scan_files())
    table.commit([add("new.parquet", partition_values={"_event_hour": "2026021023"}), remove("0-0.parquet")])
    table.checkpoint()
    table.commit([add("newer.parquet", partition_values={"_event_hour": "2026021023"})])
    again = scanner(table, page_token=reader.page_token)
    rest = list(again.scan_files())
    assert keys_of([*first, *rest]) == before
    assert again.metrics.version == reader.metrics.version


def test_a_new_checkpoint_of_the_same_version_is_not_mistaken_for_the_base(table: TableBuilder) -> None:
    before = keys_of(scan(table))
    for limit in range(1, len(before)):
        reader = scanner(table, limit=limit, order="any")
        first = list(reader.scan_files())
        table.checkpoint()
        assert keys_of([*first, *scan(table, page_token=reader.page_token)]) == before
        for path in (table.root / "_delta_log").glob(f"{table.version:020}.checkpoint*"):
            path.unlink()
        (table.root / "_delta_log" / "_last_checkpoint").unlink(missing_ok=True)


@pytest.mark.parametrize("order", ["any", "recent"])
def test_a_base_that_is_gone_or_replaced_is_never_guessed_at(table: TableBuilder, order: str) -> None:
    reader = scanner(table, limit=28, order=order)
    assert len(list(reader.scan_files())) == 28
    (checkpoint,) = (table.root / "_delta_log").glob("*.checkpoint.parquet")
    content = checkpoint.read_bytes()
    checkpoint.unlink()
    with pytest.raises(PageTokenExpiredError, match="is gone or was replaced: begin at the first page"):
        scan(table, page_token=reader.page_token)
    checkpoint.write_bytes(content + b"x")
    with pytest.raises(PageTokenExpiredError, match="is gone or was replaced"):
        scan(table, page_token=reader.page_token)


def test_a_base_that_is_torn_in_between_is_no_place_to_go_on(table: TableBuilder) -> None:
    table.checksum()
    reader = scanner(table, limit=28, order="any")
    list(reader.scan_files())

    class Torn(RecordingStore):
        def get_range(self, path: str, start: int, end: int) -> Buffer:
            data = super().get_range(path, start, end)
            return b"\0" * len(data) if path.endswith(".checkpoint.parquet") else data

        def get_ranges(self, path: str, ranges: Sequence[tuple[int, int]]) -> list[Buffer]:
            return [self.get_range(path, start, end) for start, end in ranges]

    with pytest.raises(PageTokenExpiredError, match="cannot be used"):
        scan(table, Torn(store_of(table)), page_token=reader.page_token)


def test_a_torn_base_does_not_end_the_paging_before_it_is_reached(table: TableBuilder) -> None:
    whole = keys_of(scan(table))
    (checkpoint,) = (table.root / "_delta_log").glob("*.checkpoint.parquet")
    checkpoint.write_bytes(b"PAR1 torn PAR1")
    found = [file for page in pages(table, 3, order="any") for file in page]
    assert keys_of(found) == whole


def test_a_version_that_is_cleaned_up_is_gone(table: TableBuilder) -> None:
    reader = scanner(table, limit=3)
    list(reader.scan_files())
    table.commit([add("new.parquet", partition_values={"_event_hour": "2026021023"})])
    table.checkpoint()
    for version in range(table.version):
        for path in (table.root / "_delta_log").glob(f"{version:020}.*"):
            path.unlink()
    with pytest.raises(PageTokenExpiredError, match="is gone"):
        scan(table, page_token=reader.page_token)


def test_a_table_that_was_made_anew_is_another_one(table: TableBuilder) -> None:
    reader = scanner(table, limit=3)
    list(reader.scan_files())
    for path in (table.root / "_delta_log").iterdir():
        path.unlink()
    other = hours(TableBuilder(table.root, schema=HOUR, partition_columns=["_event_hour"]))
    assert other.version == 5
    with pytest.raises(PageTokenExpiredError, match="was replaced"):
        scan(other, page_token=reader.page_token)


def test_another_query_is_refused(table: TableBuilder) -> None:
    reader = scanner(table, limit=3, predicate="_event_hour >= '2026021000'")
    list(reader.scan_files())
    with pytest.raises(PageTokenError, match="another predicate"):
        scan(table, page_token=reader.page_token)
    # The same condition in another notation is the same query.
    token = reader.page_token
    assert scan(table, limit=1, page_token=token, predicate=[("_event_hour", ">=", "2026021000")])


@pytest.mark.parametrize(
    ("config", "text"),
    [
        ({"version": 1}, "is for version 5"),
        ({"timestamp": "2026-01-01"}, "is for version 5"),
        ({"strategy": "forward"}, "is for strategy 'reverse'"),
        ({"order": "any"}, "is for order 'recent'"),
    ],
)
def test_what_contradicts_the_token_is_refused(table: TableBuilder, config: dict[str, Any], text: str) -> None:
    reader = scanner(table, limit=3)
    list(reader.scan_files())
    with pytest.raises(OptionError, match=text):
        LazyScanConfig(page_token=reader.page_token, **config)


def test_there_is_no_token_before_the_first_file_and_after_the_last(table: TableBuilder) -> None:
    reader = scanner(table)
    assert reader.page_token is None
    files = reader.scan_files()
    assert reader.page_token is None
    next(files)
    assert reader.page_token is not None
    list(files)
    assert reader.page_token is None


def test_a_token_counts_batches_that_were_given(table: TableBuilder) -> None:
    reader = scanner(table, batch_size=4, strategy="reverse")
    batches = reader.scan_batches(["path"])
    first = [path for _ in range(3) for path in batches.read_next_batch()["path"].to_pylist()]
    rest = scanner(table, page_token=reader.page_token).scan_batches(["path"]).read_all()["path"].to_pylist()
    whole = scanner(table, strategy="reverse").scan_batches(["path"]).read_all()["path"].to_pylist()
    assert first + rest == whole


def test_a_batch_that_a_cancelled_task_waited_for_was_not_given(
    table: TableBuilder, monkeypatch: pytest.MonkeyPatch
) -> None:
    produced, released = threading.Event(), threading.Event()

    def second_is_held_back(batch: pa.RecordBatch) -> list[pa.RecordBatch]:
        if first:
            produced.set()
            released.wait(PATIENCE)
        return [batch]

    async def take() -> None:
        batches = reader.scan_batches_async(["path"])
        first.extend((await anext(batches))["path"].to_pylist())
        waiting = asyncio.ensure_future(anext(batches))
        await asyncio.to_thread(produced.wait, PATIENCE)
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        released.set()

    first: list[str] = []
    monkeypatch.setattr(scanner_module, "_whole", second_is_held_back)
    reader = scanner(table, batch_size=4, strategy="reverse")
    asyncio.run(take())
    rest = [file.path for file in scan(table, page_token=reader.page_token)]
    assert first + rest == [file.path for file in scan(table, strategy="reverse")]


def test_whoever_asks_in_between_finds_the_place_before() -> None:
    """Another thread may ask at any line of what follows a scan."""
    batches: list[tuple[tuple[int, Place], ...]] = [((0, Place(name)),) for name in "aab"]
    cursor = Cursor(None)
    usual = sys.gettrace()
    asked: list[Position | None] = []

    def ask(frame: FrameType, event: str, _: object) -> Callable[..., object] | None:
        if frame.f_code is not Cursor.give.__code__:
            return None
        if event == "line":
            sys.settrace(usual)
            asked.append(cursor.position())
            sys.settrace(ask)
        return ask

    for places in batches:
        before = cursor.position()
        sys.settrace(ask)
        cursor.give(places, 5, 0)
        sys.settrace(usual)
        assert set(asked) == {before}
        assert cursor.position() == before
        asked.clear()
        cursor.take(5)
    assert cursor.position() == Position(Place("b"), 5)


def test_the_places_of_one_batch() -> None:
    a, b, c = map(Place, "abc")
    cursor = Cursor(Position(a, 2))
    # Of the first batch two files were emitted by an earlier scan, and the user takes it in stretches of two.
    batch = ((0, a), (3, b))
    found = []
    cursor.give(batch, 6, 0)
    for start in (2, 4):
        cursor.give(batch, 6, start)
        for _ in range(2):
            found.append(cursor.position())
            cursor.take(1)
    cursor.give(((0, b), (1, c)), 2, 0)
    for _ in range(2):
        found.append(cursor.position())
        cursor.take(1)
    expected = [(a, 2), (a, 3), (b, 1), (b, 2), (b, 3), (b, 4), (c, 1)]
    assert [(at.place, at.rows) for at in [*found, cursor.position()] if at is not None] == expected


def test_a_later_page_does_not_read_the_earlier_ones_again(tmp_path: Path) -> None:
    table = TableBuilder(tmp_path)
    table.commit([add(f"{number:05}.parquet") for number in range(4_000)])
    table.checkpoint(row_group_rows=100)
    table.checksum()
    reader = scanner(table, limit=3_900, order="any")
    assert len(list(reader.scan_files())) == 3_900
    last = scanner(table, page_token=reader.page_token)
    assert len(list(last.scan_files())) == 100
    assert reader.metrics.row_groups_read >= 38
    assert last.metrics.row_groups_read == 2
    assert last.metrics.requests.gets < reader.metrics.requests.gets / 4
