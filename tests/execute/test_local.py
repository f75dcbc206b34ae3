from __future__ import annotations

import io
import itertools
import json
import uuid
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from delta_sidecar.errors import ObjectNotFoundError, StorageError, UnreadableFileError
from delta_sidecar.execute import LocalExecutor
from delta_sidecar.execute import fetch as fetcher
from delta_sidecar.execute import json as json_lines
from delta_sidecar.execute import json as json_scan
from delta_sidecar.plan import (
    FILE_LABEL,
    LINE,
    NOTHING_AHEAD,
    Ahead,
    ExecutionCounts,
    FileRef,
    Filter,
    FilterOrdered,
    ListFiles,
    Place,
    Progress,
    ReadFiles,
    ScanJson,
    ScanParquet,
)
from delta_sidecar.store import RequestLog, open_store
from delta_sidecar.store.testing import Fail, FaultStore, RecordingStore

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from delta_sidecar.plan import Plan
    from delta_sidecar.store import Store

SCHEMA = pa.schema([("n", pa.int64()), ("s", pa.string())])


@pytest.fixture
def inner() -> Store:
    return open_store(f"memory://{uuid.uuid4().hex}")


@pytest.fixture
def store(inner: Store) -> RecordingStore:
    return RecordingStore(inner)


@pytest.fixture
def run(store: RecordingStore) -> Iterator[Callable[..., list[pa.RecordBatch]]]:
    executor = LocalExecutor(store, file_parallelism=3)
    yield lambda plan, ahead=NOTHING_AHEAD: list(executor.execute(plan, ahead))
    executor.close()


def put_lines(store: Store, path: str, rows: list[dict[str, Any]]) -> FileRef:
    data = "".join(json.dumps(row) + "\n" for row in rows).encode()
    store.put(path, data)
    return FileRef(path, len(data), int(path.strip("j")))


def put_parquet(store: Store, path: str, table: pa.Table, **options: object) -> FileRef:
    sink = io.BytesIO()
    pq.write_table(table, sink, **options)
    store.put(path, sink.getvalue())
    return FileRef(path, len(sink.getvalue()))


def test_listing(inner: Store, run: Callable[..., list[pa.RecordBatch]], store: RecordingStore) -> None:
    for name in ("l/a", "l/b.x", "l/c.x", "m"):
        inner.put(name, name.encode())
    batches = run(ListFiles("l/", after="l/a"), Ahead((FileRef("l/c.x"), FileRef("nope"))))
    rows = sorted((row for batch in batches for row in batch.to_pylist()), key=str)
    known = [inner.head(name) for name in ("l/b.x", "l/c.x")]
    assert rows == [
        {"path": file.path, "size": 5, "last_modified": file.last_modified, "e_tag": file.e_tag} for file in known
    ]
    assert sorted(store.paths("get")) in (["l/c.x", "nope"], ["l/c.x"], ["nope"], [])


def test_reading_small_files(inner: Store, run: Callable[[Plan], list[pa.RecordBatch]]) -> None:
    inner.put("a", b"hello")
    inner.put("b", b"x" * 100)
    inner.put("c", b"")
    rows = [row for batch in run(ReadFiles(("a", "nope", "b", "c"), max_bytes=50)) for row in batch.to_pylist()]
    assert rows == [
        {"path": "a", "size": 5, "data": b"hello"},
        {"path": "b", "size": 100, "data": None},
        {"path": "c", "size": 0, "data": b""},
    ]


def test_reading_beginnings_fetches_no_more(
    inner: Store, store: RecordingStore, run: Callable[[Plan], list[pa.RecordBatch]]
) -> None:
    inner.put("a", b"hello")
    inner.put("b", b"x" * 100)
    beginnings = ReadFiles(("a", "nope", "b"), max_bytes=50, beginning=True)
    assert [row for batch in run(beginnings) for row in batch.to_pylist()] == [
        {"path": "a", "size": 5, "data": b"hello"},
        {"path": "b", "size": 100, "data": b"x" * 50},
    ]
    assert {attempt.end for attempt in store.attempts} == {50}
    whole = run(ReadFiles(("b",)))
    assert whole[0].column("data")[0].as_py() == b"x" * 100


def test_json_files_come_in_order_with_their_labels(inner: Store, run: Callable[[Plan], list[pa.RecordBatch]]) -> None:
    refs = tuple(put_lines(inner, f"j{number}", [{"n": number}, {"s": "x"}]) for number in (7, 3, 9, 1, 5, 2))
    batches = run(ScanJson(refs, SCHEMA))
    assert [batch.column(FILE_LABEL)[0].as_py() for batch in batches] == [7, 3, 9, 1, 5, 2]
    assert [batch.column("n")[0].as_py() for batch in batches] == [7, 3, 9, 1, 5, 2]
    assert all(batch.column(LINE).null_count == batch.num_rows for batch in batches)


def test_texts_come_only_with_blocks_that_hold_a_word(
    inner: Store, run: Callable[[Plan], list[pa.RecordBatch]]
) -> None:
    refs = (put_lines(inner, "j1", [{"s": "word"}, {"n": 1}]), put_lines(inner, "j2", [{"n": 2}]))
    with_text, without = run(ScanJson(refs, SCHEMA, lines_with=(b"none", b"word")))
    assert with_text.column(LINE).to_pylist() == ['{"s": "word"}', '{"n": 1}']
    assert without.column(LINE).to_pylist() == [None]


@pytest.mark.parametrize("first", [1, 50, 10_000])
@pytest.mark.parametrize("block", [1, 64, 500])
def test_a_large_json_file_comes_in_blocks(
    inner: Store,
    store: RecordingStore,
    run: Callable[[Plan], list[pa.RecordBatch]],
    monkeypatch: pytest.MonkeyPatch,
    first: int,
    block: int,
) -> None:
    monkeypatch.setattr(json_scan, "BLOCK_BYTES", block)
    monkeypatch.setattr(json_lines, "PARSED_BYTES", block)
    for module in (fetcher, json_scan):
        monkeypatch.setattr(module, "FIRST_BYTES", first)
    rows = [{"n": number, "s": "x" * (number % 30)} for number in range(60)]
    ref = put_lines(inner, "j1", rows)
    batches = run(ScanJson((ref,), SCHEMA))
    assert [row["n"] for batch in batches for row in batch.to_pylist()] == list(range(60))
    spans = sorted((attempt.start, min(attempt.end, ref.size)) for attempt in store.attempts)
    assert spans[0][0] == 0
    assert spans[-1][1] == ref.size
    assert all(before[1] == after[0] for before, after in itertools.pairwise(spans)), "each byte once"
    assert len(spans) == 1 + -(-max(0, ref.size - first) // block)
    assert len(batches) > 1


@pytest.mark.parametrize(
    ("rule", "cause"),
    [
        (Fail("j2", error=ObjectNotFoundError("gone")), ObjectNotFoundError),
        (Fail("j2", error=StorageError("500")), StorageError),
    ],
)
def test_a_file_that_fails_is_named_in_its_place(inner: Store, rule: Fail, cause: type[Exception]) -> None:
    refs = tuple(put_lines(inner, f"j{number}", [{"n": number}]) for number in (1, 2, 3))
    executor = LocalExecutor(FaultStore(inner, rule))
    batches = executor.execute(ScanJson(refs, SCHEMA))
    assert next(batches).column("n").to_pylist() == [1]
    with pytest.raises(UnreadableFileError, match="j2") as failure:
        next(batches)
    assert (failure.value.path, failure.value.label) == ("j2", 2)
    assert type(failure.value.__cause__) is cause
    executor.close()


def test_a_file_of_another_size_than_listed_is_an_error(
    inner: Store, run: Callable[[Plan], list[pa.RecordBatch]]
) -> None:
    ref = put_lines(inner, "j1", [{"n": 1}, {"n": 2}])
    assert ref.size is not None
    for size in (ref.size - 1, ref.size + 1, ref.size // 2):
        with pytest.raises(UnreadableFileError, match="j1") as failure:
            run(ScanJson((FileRef("j1", size),), SCHEMA))
        assert isinstance(failure.value.__cause__, StorageError)


def test_filters_are_applied_in_turn_and_may_drop_a_batch(
    inner: Store, run: Callable[[Plan], list[pa.RecordBatch]]
) -> None:
    refs = tuple(put_lines(inner, f"j{number}", [{"n": number}]) for number in range(6))
    order: list[int] = []

    def odd(batch: pa.RecordBatch) -> pa.RecordBatch | None:
        return batch if batch.column("n")[0].as_py() % 2 else None

    def note(batch: pa.RecordBatch) -> pa.RecordBatch:
        order.append(batch.column("n")[0].as_py())
        return batch.slice(0, 0) if order[-1] == 3 else batch

    batches = run(FilterOrdered(Filter(ScanJson(refs, SCHEMA), odd), note))
    assert order == [1, 3, 5]
    assert [batch.column("n")[0].as_py() for batch in batches] == [1, 5]


def table_of(start: int, count: int) -> pa.Table:
    return pa.table({"a": [{"x": number, "y": str(number)} for number in range(start, start + count)]})


@pytest.mark.parametrize("parallel", [False, True])
@pytest.mark.parametrize(("ahead", "at_once"), [(1, None), (10, None), (10, 1)])
def test_parquet_rows_of_all_files_come_through_filters(
    inner: Store, ahead: int, at_once: int | None, *, parallel: bool
) -> None:
    refs = tuple(
        put_parquet(inner, f"p{number}", table_of(number * 100, 100), row_group_size=30) for number in range(4)
    )
    executor = LocalExecutor(inner, row_groups_ahead=ahead)

    def even(batch: pa.RecordBatch) -> pa.RecordBatch:
        return batch.filter(pa.array([value["x"] % 2 == 0 for value in batch.column("a").to_pylist()]))

    run = executor.execute_parallel if parallel else executor.execute
    batches = list(run(Filter(ScanParquet(refs, ("a.x",), at_once=at_once), even)))
    assert [value for batch in batches for value in batch.column("a").to_pylist()] == [
        {"x": number} for number in range(0, 400, 2)
    ]
    assert executor.progress.counts.row_groups_read == 16
    executor.close()


def test_parquet_files_without_the_column_have_no_rows(inner: Store) -> None:
    refs = (put_parquet(inner, "p0", pa.table({"b": [1]})), put_parquet(inner, "p1", table_of(0, 2)))
    executor = LocalExecutor(inner)
    batches = list(executor.execute(ScanParquet(refs, ("a.x",), non_null=("a.x",))))
    assert [batch.num_rows for batch in batches] == [2]
    executor.close()


def test_a_check_reads_every_footer_before_the_first_row(inner: Store) -> None:
    refs = [put_parquet(inner, f"p{number}", table_of(0, 10)) for number in range(3)]
    inner.put("torn", b"PAR1 and no more")
    store = RecordingStore(inner)
    executor = LocalExecutor(store)
    plan = ScanParquet((*refs, FileRef("torn", 16)), ("a.x",), check=True)
    with pytest.raises(UnreadableFileError, match="torn"):
        next(executor.execute(plan))
    assert sorted(store.paths("get")) == ["p0", "p1", "p2", "torn"]
    executor.close()


def test_footers_that_were_checked_are_not_read_again(inner: Store) -> None:
    refs = tuple(put_parquet(inner, f"p{number}", table_of(0, 10)) for number in range(3))
    store = RecordingStore(inner)
    executor = LocalExecutor(store)
    assert list(executor.execute(ScanParquet(refs, (), check=True))) == []
    assert len(store.attempts) == 3
    assert sum(batch.num_rows for batch in executor.execute(ScanParquet(refs, ("a.x",)))) == 30
    assert len(store.attempts) == 3, "files smaller than a footer's read are here already"
    executor.close()


def test_a_file_of_unknown_size_is_asked_for_it(inner: Store) -> None:
    put_parquet(inner, "p0", table_of(0, 10))
    store = RecordingStore(inner)
    executor = LocalExecutor(store)
    assert sum(batch.num_rows for batch in executor.execute(ScanParquet((FileRef("p0"),), ("a.x",)))) == 10
    assert store.paths("head") == ["p0"]
    with pytest.raises(UnreadableFileError, match="nope") as failure:
        list(executor.execute(ScanParquet((FileRef("nope"),), ("a.x",))))
    assert isinstance(failure.value.__cause__, ObjectNotFoundError)
    executor.close()


def test_nothing_is_read_before_it_is_asked_for(inner: Store) -> None:
    store = RecordingStore(inner)
    executor = LocalExecutor(store)
    for plan in (
        ListFiles("l/"),
        ReadFiles(("a",)),
        ScanJson((FileRef("a"),), SCHEMA),
        ScanParquet((FileRef("a"),), ("x",)),
    ):
        executor.execute(plan)
        executor.execute_parallel(plan)
    assert store.attempts == []
    executor.close()


def test_files_that_are_fetched_together_are_one_trip(inner: Store) -> None:
    refs = tuple(put_lines(inner, f"j{number}", [{"n": number}]) for number in range(8))
    log = RequestLog()
    executor = LocalExecutor(inner.bind(log), file_parallelism=8)
    assert len(list(executor.execute(ScanJson(refs, SCHEMA)))) == 8
    assert log.snapshot().trips == 1, "none of these requests needs the answer of another"
    executor.close()


def test_a_stream_that_stops_early_leaves_what_was_fetched_for_the_next(inner: Store) -> None:
    refs = tuple(put_lines(inner, f"j{number}", [{"n": number}]) for number in range(6))
    store = RecordingStore(inner)
    executor = LocalExecutor(store, file_parallelism=4)
    first = executor.execute(ScanJson(refs, SCHEMA, keep=True))
    next(first)
    first.close()
    assert len(list(executor.execute(ScanJson(refs, SCHEMA)))) == 6
    assert sorted(store.paths("get")) == sorted(ref.path for ref in refs)
    executor.close()


# --- hints ---


BESIDE = pytest.mark.parametrize(
    "plan",
    [ListFiles("l/"), ReadFiles(("j1",)), ScanJson((FileRef("j1", 9, 1),), SCHEMA)],
    ids=lambda plan: type(plan).__name__,
)


@BESIDE
def test_what_was_asked_for_along_with_a_plan_is_not_asked_for_again(inner: Store, plan: Plan) -> None:
    assert put_lines(inner, "j1", [{"n": 1}]).size == 9
    inner.put("a", b"whole")
    inner.put("h", b"head")
    footer = put_parquet(inner, "p", table_of(0, 3))
    store = RecordingStore(inner)
    executor = LocalExecutor(store)
    list(executor.execute(plan, Ahead((FileRef("a"), FileRef("nope")), ("h",), (footer,))))
    assert executor.progress.trips == 1
    found = list(executor.execute(ReadFiles(("a",), heads=("h",))))
    assert [batch.column("data")[0].as_py() for batch in found] == [b"whole", b"head"]
    assert sum(batch.num_rows for batch in executor.execute(ScanParquet((footer,), ("a.x",), check=True))) == 3
    assert executor.progress.trips == 1, "all of it came with the first plan"
    asked = [path for path in store.paths("get") if path not in ("nope", "j1")]
    assert sorted(asked) == ["a", "h", "p"]
    executor.close()


@BESIDE
def test_hints_may_be_absent(inner: Store, plan: Plan) -> None:
    put_lines(inner, "j1", [{"n": 1}])
    inner.put("l/a", b"x")
    executor = LocalExecutor(inner)
    absent = FileRef("nope", 9)
    assert len(list(executor.execute(plan, Ahead((absent,), ("nope",), (absent,))))) == 1
    assert list(executor.execute(ReadFiles(("nope",), heads=("nope",)))) == []
    with pytest.raises(UnreadableFileError, match="nope"):
        list(executor.execute(ScanParquet((absent,), (), check=True)))
    executor.close()


@pytest.mark.parametrize("plan", [ListFiles("l/"), ReadFiles(("a",))], ids=lambda plan: type(plan).__name__)
def test_hints_are_asked_for_when_the_plan_begins(inner: Store, plan: Plan) -> None:
    inner.put("b", b"x")
    store = RecordingStore(inner)
    executor = LocalExecutor(store)
    batches = executor.execute(plan, Ahead((FileRef("b"),), ("b",)))
    assert store.attempts == []
    list(batches)
    list(executor.execute(ReadFiles(("b",))))
    assert "b" in store.paths("get")
    executor.close()


# --- how much at once, and how far ---


@pytest.mark.parametrize(("own", "at_once", "trips"), [(1, None, 8), (8, None, 1), (1, 8, 1), (8, 1, 8)])
def test_a_plan_may_say_how_many_files_are_fetched_at_once(
    inner: Store, own: int, at_once: int | None, trips: int
) -> None:
    refs = tuple(put_lines(inner, f"j{number}", [{"n": number}]) for number in range(8))
    executor = LocalExecutor(inner, file_parallelism=own)
    batches = list(executor.execute(ScanJson(refs, SCHEMA, at_once=at_once)))
    assert [batch.column("n")[0].as_py() for batch in batches] == list(range(8))
    assert executor.progress.trips == trips
    executor.close()


def test_what_was_kept_stays_when_another_number_is_fetched_at_once(inner: Store) -> None:
    refs = tuple(put_lines(inner, f"j{number}", [{"n": number}]) for number in range(8))
    store = RecordingStore(inner)
    executor = LocalExecutor(store, file_parallelism=2)
    first = executor.execute(ScanJson(refs, SCHEMA, keep=True), Ahead(refs[4:]))
    assert [next(first).column("n")[0].as_py() for _ in range(3)] == [0, 1, 2]
    first.close()
    assert len(list(executor.execute(ScanJson(refs, SCHEMA, at_once=5)))) == 8
    assert sorted(store.paths("get")) == [ref.path for ref in refs]
    executor.close()


def test_an_executor_says_how_far_it_is(inner: Store) -> None:
    refs = tuple(put_lines(inner, f"j{number}", [{"n": number}]) for number in range(3))
    groups = put_parquet(inner, "p", table_of(0, 5), row_group_size=2)
    executor = LocalExecutor(inner)
    assert executor.progress == Progress(((0, None),), 0, ExecutionCounts())
    lines = executor.execute(ScanJson(refs, SCHEMA))
    for ref in refs:
        next(lines)
        assert executor.progress.place == Place(ref.path)
    assert list(lines) == []
    assert executor.progress.counts == ExecutionCounts(files_read=3, batches_decoded=3)
    before = executor.progress
    rows = executor.execute(ScanParquet((groups,), ("a.x",)))
    for part in range(3):
        next(rows)
        assert executor.progress.place == Place("p", part)
    assert list(rows) == []
    assert (executor.progress.trips, executor.progress.counts.row_groups_read) == (2, 3)
    assert (before.trips, before.counts.row_groups_read) == (1, 0), "it is a value"
    executor.close()
