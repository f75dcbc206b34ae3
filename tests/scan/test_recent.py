"""order="recent": newest commits first, then buckets downward, whatever the checkpoint's own order."""

from __future__ import annotations

import random
from itertools import chain, islice
from typing import TYPE_CHECKING

import pytest
from tests.builder import TableBuilder, add, deletion_vector, remove
from tests.scan.paged import pages
from tests.scan.reading import keys_of, scan, scanner

from delta_sidecar.replay import recent

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from delta_sidecar import DeltaFile


def table_of(
    root: Path, *, texts: Sequence[str | None], checkpoint: str = "v1", row_group_rows: int | None = None
) -> TableBuilder:
    """A checkpoint of files in random order, one for each bucket, and three commits after it."""
    table = TableBuilder(root, schema={"_event_hour": "string", "id": "long"}, partition_columns=["_event_hour"])
    actions = [add(f"{n:04}.parquet", partition_values={"_event_hour": text}) for n, text in enumerate(texts)]
    random.Random(7).shuffle(actions)  # noqa: S311 - a test's own dice
    table.commit(actions)
    table.checkpoint(checkpoint, row_group_rows=row_group_rows)
    for number in range(3):
        table.commit([add(f"new-{number}.parquet", partition_values={"_event_hour": texts[0]})])
    table.commit([remove("0003.parquet")])
    return table


HOURS = [f"20260210{hour:02}" for hour in range(24)] * 2


def buckets(files: list[DeltaFile]) -> list[str | None]:
    return [file.partition_values["_event_hour"] for file in files]


@pytest.fixture(params=["v1", "v1-multipart", "v2-json", "v2-parquet"])
def table(request: pytest.FixtureRequest, tmp_path: Path) -> TableBuilder:
    return table_of(tmp_path, texts=[*HOURS, None, None], checkpoint=request.param, row_group_rows=7)


def test_newest_commits_first_then_buckets_downward(table: TableBuilder) -> None:
    files = scan(table, order="recent")
    assert [file.path for file in files[:3]] == ["new-2.parquet", "new-1.parquet", "new-0.parquet"]
    found = buckets(files[3:])
    assert found[-2:] == [None, None]
    assert found[:-2] == sorted(found[:-2], reverse=True)
    assert keys_of(files) == keys_of(scan(table))


@pytest.mark.parametrize("limit", [1, 3, 4, 10, 50, 200])
def test_a_limit_means_recent(table: TableBuilder, limit: int) -> None:
    whole = scan(table, order="recent")
    assert scan(table, limit=limit) == whole[:limit]


def test_any_order_is_the_checkpoints_own(table: TableBuilder) -> None:
    files = scan(table, order="any", limit=30)
    assert buckets(files) != sorted(buckets(files), key=str, reverse=True)


def test_within_a_bucket_files_come_by_path(table: TableBuilder) -> None:
    files = [file for file in scan(table, order="recent")[3:] if file.partition_values["_event_hour"] == HOURS[5]]
    assert [file.path for file in files] == sorted(file.path for file in files)
    assert len(files) == 2


@pytest.mark.parametrize(
    ("kind", "texts", "expected"),
    [
        ("integer", ["9", "10", "-1", None], ["10", "9", "-1", None]),
        ("string", ["9", "10", "-1", None], ["9", "10", "-1", None]),
        ("date", ["2026-02-10", "1969-12-31", "2025-12-01"], ["2026-02-10", "2025-12-01", "1969-12-31"]),
        ("timestamp", ["2026-02-10T01:00:00.000000Z", "2026-02-10 00:30:00"], None),
        ("integer", ["5", "not a number", "7"], ["7", "5", "not a number"]),
        ("double", ["NaN", "1.5", None, "Infinity"], ["Infinity", "1.5", "NaN", None]),
        ("binary", [None, None], [None, None]),
    ],
    ids=str,
)
def test_buckets_are_compared_as_their_type(
    tmp_path: Path, kind: str, texts: list[str | None], expected: list[str | None] | None
) -> None:
    table = TableBuilder(tmp_path, schema={"_event_hour": kind, "id": "long"}, partition_columns=["_event_hour"])
    table.commit([add(f"{n}.parquet", partition_values={"_event_hour": text}) for n, text in enumerate(texts)])
    table.checkpoint()
    for limit in (1, 2, 9):
        assert buckets(scan(table, limit=limit)) == (expected or texts)[:limit]
        assert buckets(list(islice(paged(table, limit), 9))) == (expected or texts)


def test_a_table_without_the_bucket_keeps_its_own_order(tmp_path: Path) -> None:
    table = TableBuilder(tmp_path)
    table.commit([add(f"{name}.parquet") for name in "cab"])
    table.checkpoint()
    assert [file.path for file in scan(table, limit=9)] == ["c.parquet", "a.parquet", "b.parquet"]


def test_another_column_may_be_the_bucket(tmp_path: Path) -> None:
    table = TableBuilder(tmp_path, schema={"month": "string", "id": "long"}, partition_columns=["month"])
    table.commit([add(f"{m}.parquet", partition_values={"month": m}) for m in ("202601", "202603", "202602")])
    table.checkpoint()
    for name in ("month", "Month"):
        files = scan(table, limit=9, bucket_column=name)
        assert [file.path for file in files] == ["202603.parquet", "202602.parquet", "202601.parquet"]


def test_versions_of_one_file_with_deletion_vectors_are_told_apart(tmp_path: Path) -> None:
    table = TableBuilder(tmp_path, schema={"_event_hour": "string", "id": "long"}, partition_columns=["_event_hour"])
    hour = {"_event_hour": "2026021001"}
    vectors = [deletion_vector("v", offset=offset) for offset in (1, 9, 17)]
    table.commit([add("same.parquet", partition_values=hour, dv=vector) for vector in vectors])
    table.checkpoint()
    found = []
    token = None
    for _ in range(3):
        reader = scanner(table, limit=1, page_token=token)
        found += list(reader.scan_files())
        token = reader.page_token
    assert len({file.deletion_vector for file in found}) == 3


@pytest.mark.parametrize("limit", [1, 2, 3])
def test_a_file_without_a_deletion_vector_comes_once_among_those_with_one(tmp_path: Path, limit: int) -> None:
    table = TableBuilder(tmp_path, schema={"_event_hour": "string", "id": "long"}, partition_columns=["_event_hour"])
    hour = {"_event_hour": "2026021001"}
    vector = deletion_vector("v")
    named = [("a", None), ("b", vector), ("c", None), ("c", vector)]
    table.commit([add(f"{name}.parquet", partition_values=hour, dv=dv) for name, dv in named])
    table.checkpoint()
    found = list(islice(paged(table, limit), 9))
    assert [(file.path[0], file.deletion_vector is not None) for file in found] == [
        (name, dv is not None) for name, dv in named
    ]


@pytest.mark.parametrize("size", [3, 64])
def test_however_few_fit_at_once_all_come_in_order(
    monkeypatch: pytest.MonkeyPatch, table: TableBuilder, size: int
) -> None:
    whole = scan(table, order="recent")
    monkeypatch.setattr(recent, "MOST_FILES", size)
    assert scan(table, order="recent") == whole
    assert scan(table, limit=40) == whole[:40]


@pytest.mark.parametrize("nbytes", [3_000])
def test_however_few_bytes_are_allowed_all_come_in_order(
    monkeypatch: pytest.MonkeyPatch, table: TableBuilder, nbytes: int
) -> None:
    whole = scan(table, order="recent")
    monkeypatch.setattr(recent, "MOST_BYTES", nbytes)
    assert scan(table, order="recent") == whole


def paged(table: TableBuilder, limit: int, **config: object) -> Iterator[DeltaFile]:
    return chain.from_iterable(pages(table, limit, **config))


@pytest.mark.parametrize("limit", [4, 30])
@pytest.mark.parametrize("predicate", [None, "_event_hour >= '2026021013'"])
def test_pages_keep_the_order(table: TableBuilder, limit: int, predicate: str | None) -> None:
    assert list(paged(table, limit, predicate=predicate)) == scan(table, order="recent", predicate=predicate)


def test_pages_of_one_file_keep_the_order(tmp_path: Path) -> None:
    table = table_of(tmp_path, texts=[*HOURS[:12], None, None], row_group_rows=7)
    assert list(paged(table, 1)) == scan(table, order="recent")


def test_older_buckets_are_not_decoded(tmp_path: Path) -> None:
    texts = [f"20{year}010100" for year in range(10, 60)] * 40
    table = table_of(tmp_path, texts=texts, row_group_rows=100)
    reader = scanner(table, limit=6, checkpoint_row_groups_per_batch=1)
    found = list(reader.scan_files())
    assert buckets(found[3:]) == [texts[49]] * 3
    entries = reader.metrics.entries
    assert entries.base_pruned_early > 1_000, "most rows were given up by their bucket alone"
