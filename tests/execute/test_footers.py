"""`ReadFooters` and `ScanJson(kept_only=True)`: what is told, and that no request too many is made."""

from __future__ import annotations

import io
import json
import uuid
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from delta_sidecar.errors import ObjectNotFoundError, UnreadableFileError
from delta_sidecar.execute import LocalExecutor
from delta_sidecar.execute import fetch as fetcher
from delta_sidecar.execute.parquet import footer
from delta_sidecar.plan import (
    FILE_LABEL,
    Ahead,
    FileRef,
    ReadFiles,
    ReadFooters,
    ScanJson,
    ScanParquet,
)
from delta_sidecar.store import open_store
from delta_sidecar.store.testing import RecordingStore

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from delta_sidecar.plan import Plan

    Run = Callable[[Plan], list[dict[str, Any]]]

ROWS = pa.table(
    {"a": [{"n": 3, "s": "x"}, None, {"n": 1, "s": None}, {"n": 2, "s": "ü"}], "b": [True, None, False, True]}
)
LINES = pa.schema([("n", pa.int64())])


@pytest.fixture
def store() -> RecordingStore:
    return RecordingStore(open_store(f"memory://{uuid.uuid4().hex}"))


@pytest.fixture
def run(store: RecordingStore) -> Iterator[Run]:
    executor = LocalExecutor(store, file_parallelism=3)

    def rows(plan: Plan) -> list[dict[str, Any]]:
        store.attempts.clear()
        return [row for batch in executor.execute(plan) for row in batch.to_pylist()]

    yield rows
    executor.close()


def put(store: RecordingStore, path: str, table: pa.Table = ROWS, **options: object) -> FileRef:
    sink = io.BytesIO()
    pq.write_table(table, sink, **options)
    store.put(path, sink.getvalue())
    return FileRef(path, len(sink.getvalue()))


def test_what_footers_tell(store: RecordingStore, run: Run) -> None:
    ref = put(store, "f", row_group_size=3)
    facts = run(ReadFooters((ref,), ("a.n", "a.s", "b", "a", "never")))
    assert [tuple(row.values()) for row in facts] == [
        ("f", 2, 4, None, None, None, None),
        ("f", 0, 3, "a.n", 2, "1", "3"),
        ("f", 0, 3, "a.s", 1, "x", "x"),
        ("f", 0, 3, "b", 2, None, None),
        ("f", 1, 1, "a.n", 1, "2", "2"),
        ("f", 1, 1, "a.s", 1, "ü", "ü"),
        ("f", 1, 1, "b", 1, None, None),
    ]


def test_what_they_do_not_tell_is_null(store: RecordingStore, run: Run) -> None:
    ref = put(store, "f", write_statistics=False)
    assert [tuple(row.values())[3:] for row in run(ReadFooters((ref,), ("a.n",)))] == [
        (None, None, None, None),
        ("a.n", None, None, None),
    ]


def test_a_file_without_rows_is_there(store: RecordingStore, run: Run) -> None:
    ref = put(store, "f", ROWS.slice(0, 0))
    (first, *_) = run(ReadFooters((ref,), ("a.n",)))
    assert (first["rows"], first["column"]) == (0, None)


@pytest.mark.parametrize(
    ("files", "most", "found"), [(1, 0, 0), (1, 1, 1), (2, 1, 0), (2, 2, 2), (3, 2, 0), (3, None, 3)]
)
def test_no_more_requests_than_allowed(
    store: RecordingStore, run: Run, files: int, most: int | None, found: int
) -> None:
    refs = tuple(put(store, f"f{number}") for number in range(files))
    facts = run(ReadFooters(refs, (), most))
    assert [row["path"] for row in facts] == [ref.path for ref in refs[:found]]
    assert len(store.attempts) == found


@pytest.mark.parametrize(("files", "most", "found"), [(1, 1, 0), (1, 2, 1), (2, 2, 0), (2, 3, 1), (2, None, 2)])
def test_large_footers_take_two(
    store: RecordingStore, run: Run, monkeypatch: pytest.MonkeyPatch, files: int, most: int | None, found: int
) -> None:
    monkeypatch.setattr(footer, "FOOTER_BYTES", 64)
    refs = tuple(put(store, f"f{number}") for number in range(files))
    assert len(run(ReadFooters(refs, (), most))) == found
    assert most is None or len(store.attempts) <= most


def test_a_size_that_is_not_known_takes_one(store: RecordingStore, run: Run) -> None:
    put(store, "f")
    assert run(ReadFooters((FileRef("f"),), (), 1)) == []
    assert len(run(ReadFooters((FileRef("f"),), (), 2))) == 1
    assert len(store.attempts) == 2


def test_footers_that_were_checked_cost_nothing(store: RecordingStore, run: Run) -> None:
    refs = tuple(put(store, f"f{number}") for number in range(3))
    run(ScanParquet(refs, (), check=True))
    assert len(run(ReadFooters(refs, ("b",), 0))) == 6
    assert store.attempts == []


def test_footers_that_were_asked_for_along_with_a_plan_are_not_asked_for_again(store: RecordingStore) -> None:
    refs = tuple(put(store, f"f{number}") for number in range(3))
    store.attempts.clear()
    executor = LocalExecutor(store)
    for plan in (ReadFiles(("x",)), ScanParquet(refs, (), check=True), ReadFooters(refs, ("b",), 0)):
        found = list(executor.execute(plan, Ahead(footers=refs)))
    assert [batch.num_rows for batch in found] == [2, 2, 2]
    assert sorted(attempt.path for attempt in store.attempts) == ["f0", "f1", "f2", "x"]
    executor.close()


def test_a_footer_that_was_read_is_kept(store: RecordingStore, run: Run) -> None:
    ref = put(store, "f")
    run(ReadFooters((ref,), ()))
    assert run(ScanParquet((ref,), ("b",)))
    assert [attempt.kind for attempt in store.attempts] == [], "a small file came whole"


@pytest.mark.parametrize("content", [b"", b"PAR1", b"PAR1" * 10, b"\xff" * 30])
def test_what_is_no_parquet_file(store: RecordingStore, run: Run, content: bytes) -> None:
    store.put("f", content)
    with pytest.raises(UnreadableFileError) as failure:
        run(ReadFooters((FileRef("f", len(content)),), (), 2))
    assert isinstance(failure.value.__cause__, pa.ArrowException)
    assert len(store.attempts) <= 1


def test_a_file_that_is_gone(run: Run) -> None:
    with pytest.raises(UnreadableFileError) as failure:
        run(ReadFooters((FileRef("f", 1_000),), ()))
    assert isinstance(failure.value.__cause__, ObjectNotFoundError)


def test_only_what_was_kept_is_read(store: RecordingStore, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    refs = tuple(put_lines(store, number) for number in range(5))
    run(ScanJson((refs[0], refs[1], refs[3]), LINES, keep=True))
    kept = ScanJson(refs, LINES, keep=True, kept_only=True)
    for _ in range(2):
        assert [row[FILE_LABEL] for row in run(kept)] == [0, 1], "up to the first that is missing"
        assert store.attempts == []
    run(ScanJson((refs[0],), LINES))
    assert run(kept) == [], "who reads without keeping has the last of it"
    monkeypatch.setattr(fetcher, "KEPT_BYTES", 1)
    run(ScanJson((refs[4],), LINES, keep=True))
    assert run(ScanJson((refs[4],), LINES, kept_only=True)) == []


def put_lines(store: RecordingStore, number: int) -> FileRef:
    data = json.dumps({"n": number}).encode()
    store.put(f"j{number}", data)
    return FileRef(f"j{number}", len(data), number)
