"""order="recent": newest commits first, then a metadata sidecar from its newest end, or a checkpoint as it lies."""

from __future__ import annotations

import datetime as dt
import json
import random
from itertools import chain, islice
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from tests.builder import TableBuilder, add, deletion_vector, remove
from tests.scan.paged import pages
from tests.scan.reading import keys_of, scan, scanner
from tests.scan.sidecar_tables import with_sidecar, without_sidecars

from delta_sidecar.build.publish import Levels
from delta_sidecar.sidecar.schema import is_time_partition

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from pathlib import Path

    from delta_sidecar import DeltaFile


def table_of(
    root: Path, *, texts: Sequence[str | None], checkpoint: str = "v1", rows_per_group: int = 7
) -> TableBuilder:
    """A checkpoint of files in random order, one for each bucket, a sidecar of it, and three commits after them."""
    table = TableBuilder(root, schema={"_event_hour": "string", "id": "long"}, partition_columns=["_event_hour"])
    actions = [add(f"{n:04}.parquet", partition_values={"_event_hour": text}) for n, text in enumerate(texts)]
    random.Random(7).shuffle(actions)  # noqa: S311 - a test's own dice
    table.commit(actions)
    table.checkpoint(checkpoint, row_group_rows=rows_per_group)
    with_sidecar(table, rows_per_group=rows_per_group)
    for number in range(3):
        table.commit([add(f"new-{number}.parquet", partition_values={"_event_hour": texts[0]})])
    table.commit([remove("0003.parquet")])
    return table


HOURS = [f"20260210{hour:02}" for hour in range(24)] * 2


def buckets(files: list[DeltaFile]) -> list[str | None]:
    return [file.partition_values["_event_hour"] for file in files]


@pytest.fixture(params=[3, 64])
def table(request: pytest.FixtureRequest, tmp_path: Path) -> TableBuilder:
    return table_of(tmp_path, texts=[*HOURS, None, None], rows_per_group=request.param)


def test_newest_commits_first_then_buckets_downward(table: TableBuilder) -> None:
    files = scan(table, order="recent")
    assert [file.path for file in files[:3]] == ["new-2.parquet", "new-1.parquet", "new-0.parquet"]
    found = buckets(files[3:])
    assert found[-2:] == [None, None]
    assert found[:-2] == sorted(found[:-2], reverse=True)
    assert keys_of(files) == keys_of(scan(table))


@pytest.mark.full
@pytest.mark.parametrize("limit", [1, 3, 4, 10, 50, 200])
def test_a_limit_means_recent(table: TableBuilder, limit: int) -> None:
    whole = scan(table, order="recent")
    assert scan(table, limit=limit) == whole[:limit]


@pytest.mark.full
@pytest.mark.parametrize("kind", ["v1", "v1-multipart", "v2-json", "v2-parquet"])
def test_a_checkpoint_comes_as_it_lies_after_the_newest_commits(tmp_path: Path, kind: str) -> None:
    table = table_of(tmp_path, texts=[*HOURS, None, None], checkpoint=kind)
    in_its_order = [file for file in without_sidecars(table, strategy="forward") if file.path[:3] != "new"]
    assert buckets(in_its_order) != sorted(buckets(in_its_order), key=str, reverse=True)
    files = without_sidecars(table, order="recent")
    assert [file.path for file in files[:3]] == ["new-2.parquet", "new-1.parquet", "new-0.parquet"]
    assert files[3:] == in_its_order
    for limit in (1, 3, 20, 200):
        assert without_sidecars(table, limit=limit) == files[:limit]
    assert list(paged(table, 4, sidecar_enabled=False)) == files


@pytest.mark.parametrize(
    ("kind", "texts", "expected"),
    [
        ("integer", ["9", "10", "-1", None], ["10", "9", "-1", None]),
        ("string", ["9", "10", "-1", None], ["9", "10", "-1", None]),
        ("date", ["2026-02-10", "1969-12-31", "2025-12-01"], ["2026-02-10", "2025-12-01", "1969-12-31"]),
        ("timestamp", ["2026-02-10T01:00:00.000000Z", "2026-02-10 00:30:00"], None),
        ("integer", ["5", "not a number", "7"], ["7", "5", "not a number"]),
        ("double", ["NaN", "1.5", "Infinity"], ["Infinity", "1.5", "NaN"]),
        ("binary", [None, None], [None, None]),
    ],
    ids=str,
)
def test_buckets_are_compared_as_their_type(
    tmp_path: Path, kind: str, texts: list[str | None], expected: list[str | None] | None
) -> None:
    table = TableBuilder(tmp_path, schema={"_event_hour": kind, "id": "long"}, partition_columns=["_event_hour"])
    table.commit([add(f"{n}.parquet", partition_values={"_event_hour": text}) for n, text in enumerate(texts)])
    with_sidecar(table)
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
    with_sidecar(table, bucket_column="month")
    files = scan(table, limit=9)
    assert [file.path for file in files] == ["202603.parquet", "202602.parquet", "202601.parquet"]


def test_versions_of_one_file_with_deletion_vectors_are_told_apart(tmp_path: Path) -> None:
    table = TableBuilder(tmp_path, schema={"_event_hour": "string", "id": "long"}, partition_columns=["_event_hour"])
    hour = {"_event_hour": "2026021001"}
    vectors = [deletion_vector("v", offset=offset) for offset in (1, 9, 17)]
    table.commit([add("same.parquet", partition_values=hour, dv=vector) for vector in vectors])
    with_sidecar(table)
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
    with_sidecar(table)
    found = list(islice(paged(table, limit), 9))
    assert sorted((file.path[0], file.deletion_vector is not None) for file in found) == [
        (name, dv is not None) for name, dv in named
    ]
    assert found == scan(table, order="recent")


def paged(table: TableBuilder, limit: int, **config: object) -> Iterator[DeltaFile]:
    return chain.from_iterable(pages(table, limit, **config))


@pytest.mark.parametrize("limit", [4, 30])
@pytest.mark.parametrize("predicate", [None, "_event_hour >= '2026021013'"])
def test_pages_keep_the_order(table: TableBuilder, limit: int, predicate: str | None) -> None:
    assert list(paged(table, limit, predicate=predicate)) == scan(table, order="recent", predicate=predicate)


def test_pages_of_one_file_keep_the_order(tmp_path: Path) -> None:
    table = table_of(tmp_path, texts=[*HOURS[:12], None, None])
    assert list(paged(table, 1)) == scan(table, order="recent")


# --- every way in which a sidecar is in order of time ----------------------------------------------------------------

TIMED = {"at": "timestamp", "id": "long"}
START = dt.datetime(2026, 2, 10, tzinfo=dt.UTC)
ORDERS: dict[str, tuple[dict[str, str], dict[str, Any]]] = {
    "bucket": ({"_event_hour": "string"}, {}),
    "declared bucket": ({"region": "string", "part": "string"}, {"bucket_column": "part"}),
    "hours": ({"event_hour": "string"}, {}),
    "days": ({"day": "date"}, {}),
    "moments": ({"moment": "timestamp"}, {}),
    "years, months, days": ({"year": "integer", "month": "integer", "day": "integer"}, {}),
    "days and regions": ({"event_date": "string", "region": "string"}, {}),
    "time column": ({}, {}),
}


def partition_value(name: str, kind: str, at: dt.datetime) -> str:
    if name == "region":
        return "us" if at.hour % 2 else "eu"
    if kind == "integer":
        return str(getattr(at, name))
    forms = {"date": "%Y-%m-%d", "timestamp": "%Y-%m-%d %H:00:00"}
    return at.strftime(forms.get(kind, "%Y-%m-%d" if name == "event_date" else "%Y%m%d%H"))


def timed_table(root: Path, order: str, **options: Any) -> TableBuilder:  # noqa: ANN401 - of the build
    """A file an hour over three days, in random order, under names that tell nothing of it."""
    columns, given = ORDERS[order]
    table = TableBuilder(root, schema=TIMED | columns, partition_columns=list(columns))
    dice = random.Random(5)  # noqa: S311 - a test's own dice
    actions = []
    for hour in range(72):
        at = START + dt.timedelta(hours=hour, minutes=3)
        values = {name: partition_value(name, kind, at) for name, kind in columns.items()}
        actions.append(add(f"{dice.random()}.parquet", rows=[{"at": at, "id": hour}], partition_values=values))
    dice.shuffle(actions)
    for first in range(0, 72, 9):
        table.commit(actions[first : first + 9])
    return with_sidecar(table, **given, **options)


def hours_of(files: Iterable[DeltaFile]) -> list[int]:
    return [json.loads(file.stats or "")["minValues"]["id"] for file in files]


@pytest.mark.full
@pytest.mark.parametrize("options", [{"rows_per_group": 100}, {"rows_per_group": 24}], ids=str)
@pytest.mark.parametrize("order", ORDERS)
def test_a_sidecar_in_order_of_time_gives_its_newest_files_first(
    tmp_path: Path, order: str, options: dict[str, Any]
) -> None:
    table = timed_table(tmp_path, order, **options)
    downward = list(range(71, -1, -1))
    assert hours_of(scan(table, order="recent")) == downward
    assert hours_of(scan(table, limit=5)) == downward[:5]
    assert hours_of(paged(table, 7)) == downward
    below = "at < timestamp '2026-02-11 06:00:00'"
    assert hours_of(paged(table, 4, predicate=below)) == downward[-30:]


@pytest.mark.full
@pytest.mark.parametrize("levels", [Levels(), Levels(2, 3, 2)], ids=["row groups", "segments"])
@pytest.mark.parametrize("order", ORDERS)
def test_in_small_row_groups_the_partitions_go_downward(tmp_path: Path, order: str, levels: Levels) -> None:
    """Inside of one, a row group comes after another as the sidecar has them."""
    table = timed_table(tmp_path, order, rows_per_group=5, levels=levels)
    files = scan(table, order="recent")
    assert keys_of(files) == sorted(table.model_files(), key=repr)
    days = [hour // 24 for hour in hours_of(files)]
    if order in ("bucket", "declared bucket", "hours", "moments", "time column"):
        assert hours_of(files) == list(range(71, -1, -1))
    assert days == sorted(days, reverse=True)
    assert list(paged(table, 7)) == files


@pytest.mark.full
@pytest.mark.parametrize("order", ORDERS)
def test_files_without_statistics_come_with_their_partition(tmp_path: Path, order: str) -> None:
    """They are apart in the sidecar. Without a partition nothing is known of their time, and they come last."""
    columns, given = ORDERS[order]
    table = TableBuilder(tmp_path, schema=TIMED | columns, partition_columns=list(columns))
    for hour in range(48):
        at = START + dt.timedelta(hours=hour)
        values = {name: partition_value(name, kind, at) for name, kind in columns.items()}
        rows = {"stats": None} if hour % 3 else {"rows": [{"at": at, "id": hour}]}
        table.commit([add(f"{hour:02}.parquet", partition_values=values, **rows)])
    with_sidecar(table, rows_per_group=4, **given)
    files = scan(table, order="recent")
    assert list(paged(table, 5)) == files
    days = [int(file.path[:2]) // 24 for file in files]
    if columns:
        assert days == sorted(days, reverse=True)
    else:
        assert [file.stats is None for file in files] == [False] * 16 + [True] * 32


@pytest.mark.parametrize(
    ("name", "kind", "expected"),
    [
        ("day", pa.date32(), True),
        ("x", pa.timestamp("us", "UTC"), True),
        ("_event_hour", pa.string(), True),
        ("event_hour", pa.string(), True),
        ("EventDate", pa.string(), True),
        ("ingest_dt", pa.string(), True),
        ("ds", pa.string(), True),
        ("year", pa.int32(), True),
        ("YEAR", pa.int32(), True),
        ("region", pa.string(), False),
        ("update", pa.string(), False),
        ("day_of_week", pa.int32(), False),
        ("candidate", pa.string(), False),
        ("date_kind", pa.string(), False),
        ("is_day", pa.bool_(), False),
        ("", pa.string(), False),
    ],
)
def test_which_partition_columns_tell_a_time(name: str, kind: pa.DataType, expected: bool) -> None:  # noqa: FBT001
    assert is_time_partition(name, kind) is expected
