from __future__ import annotations

import io
import json
import random
import uuid
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.execute.choosing import chosen

from delta_sidecar._thrift import TruncatedThriftError
from delta_sidecar.errors import StorageError
from delta_sidecar.execute.parquet import file as parquet_file
from delta_sidecar.execute.parquet.file import ParquetRows
from delta_sidecar.execute.parquet.footer import FOOTER_BYTES, read_footer
from delta_sidecar.execute.parquet.pages import PageHeader, read_page_header
from delta_sidecar.execute.parquet.select import SelectedRows
from delta_sidecar.plan import FileRef, ScanParquet, Substitute
from delta_sidecar.store import open_store
from delta_sidecar.store.testing import RecordingStore

if TYPE_CHECKING:
    from collections.abc import Iterator

ADD = pa.struct(
    [
        pa.field("path", pa.string()),
        pa.field("size", pa.int64()),
        pa.field("score", pa.float64()),
        pa.field("flag", pa.bool_()),
        pa.field("small", pa.int32()),
        pa.field("stats", pa.string()),
        pa.field("partitionValues", pa.map_(pa.string(), pa.string())),
        pa.field("deletionVector", pa.struct([("storageType", pa.string()), ("offset", pa.int32())])),
        pa.field("stats_parsed", pa.struct([("numRecords", pa.int64())])),
    ]
)
SCHEMA = pa.schema([("txn", pa.struct([("appId", pa.string())])), ("add", ADD)])
COLUMNS = (
    "add.path",
    "add.size",
    "add.score",
    "add.flag",
    "add.small",
    "add.stats",
    "add.partitionValues",
    "add.deletionVector",
)


@pytest.fixture(scope="module")
def pool() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(2) as threads:
        yield threads


def rows_of(count: int, seed: int = 1, nulls: float = 0.2) -> pa.Table:
    chance = random.Random(seed)  # noqa: S311 - repeatable, not secret

    def maybe(value: object) -> Any:  # noqa: ANN401
        return None if chance.random() < nulls else value

    rows = []
    for number in range(count):
        add = {
            "path": f"{chance.getrandbits(64):x}.parquet",
            "size": maybe(number),
            "score": maybe(chance.random()),
            "flag": maybe(chance.random() < 0.5),
            "small": maybe(chance.randrange(5)),
            "stats": maybe(json.dumps({"numRecords": number, "x": "y" * chance.randrange(30)})),
            "partitionValues": [("day", maybe(str(number % 7)))],
            "deletionVector": {"storageType": "u", "offset": number} if chance.random() < 0.1 else None,
            "stats_parsed": {"numRecords": number},
        }
        rows.append(
            {"txn": {"appId": "a"} if number % 50 == 0 else None, "add": None if chance.random() < nulls / 4 else add}
        )
    return pa.Table.from_pylist(rows, schema=SCHEMA)


def opened(table: pa.Table, pool: ThreadPoolExecutor, **options: object) -> tuple[ParquetRows, RecordingStore]:
    sink = io.BytesIO()
    pq.write_table(table, sink, store_schema=False, **options)
    inner = open_store(f"memory://{uuid.uuid4().hex}")
    inner.put("f", sink.getvalue())
    store = RecordingStore(inner)
    footer = read_footer(store, "f", len(sink.getvalue()))
    return ParquetRows(store, "f", footer, pool), store


def fields(batches: list[pa.RecordBatch], name: str = "add") -> list[Any]:
    return [value for batch in batches for value in batch.column(name).to_pylist()]


def picked(rows: list[Any], names: tuple[str, ...] = COLUMNS) -> list[Any]:
    wanted = {name.partition(".")[2] for name in names}
    return [None if row is None else {key: value for key, value in row.items() if key in wanted} for row in rows]


@pytest.mark.parametrize("content", [b"", b"PAR1", b"PAR1PAR1", b"x" * 500, b"PAR1" + b"\xff" * 100 + b"PAR1"])
def test_what_is_no_parquet_is_refused(content: bytes) -> None:
    store = open_store(f"memory://{uuid.uuid4().hex}")
    store.put("f", content)
    with pytest.raises((pa.ArrowInvalid, OSError)):
        read_footer(store, "f", len(content))


def test_a_size_that_is_too_large_is_an_error_of_the_store() -> None:
    store = open_store(f"memory://{uuid.uuid4().hex}")
    store.put("f", b"x" * 100)
    with pytest.raises(StorageError):
        read_footer(store, "f", 200)


def test_a_footer_takes_one_request_and_a_small_file_no_other(pool: ThreadPoolExecutor) -> None:
    table = rows_of(200)
    rows, store = opened(table, pool, row_group_size=64)
    assert len(store.attempts) == 1
    groups = rows.row_groups(())
    found = fields([batch for group in groups for batch in rows.batches(group, COLUMNS)])
    assert found == picked(table.column("add").to_pylist())
    assert len(store.attempts) == 1


def test_a_footer_larger_than_the_first_request(pool: ThreadPoolExecutor) -> None:
    table = pa.table({f"column-{number}-{'x' * 200}": [number] for number in range(1_500)})
    rows, store = opened(table, pool)
    assert len(store.attempts) > 1
    assert sum(batch.num_rows for batch in rows.batches(0, (table.column_names[7],))) == 1


def test_row_groups_without_a_value_are_passed_over(pool: ThreadPoolExecutor) -> None:
    nothing = {"txn": None, "add": None}
    some = rows_of(10, nulls=0).to_pylist()
    table = pa.Table.from_pylist([*[nothing] * 10, *some, *[nothing] * 10], schema=SCHEMA)
    rows, _ = opened(table, pool, row_group_size=10)
    assert rows.row_groups(()) == [0, 1, 2]
    assert rows.row_groups(("add.path",)) == [1]
    assert rows.row_groups(("add",)) == [1]
    assert rows.row_groups(("remove.path",)) == []
    assert rows.row_groups(("remove.path", "txn.appId")) == [1]
    unknown, _ = opened(table, pool, row_group_size=10, write_statistics=False)
    assert unknown.row_groups(("add.path",)) == [0, 1, 2]


def test_a_substitute_is_read_only_where_values_are_missing(pool: ThreadPoolExecutor) -> None:
    content = rows_of(40, nulls=0).to_pylist()
    for row in content[20:]:
        row["add"]["stats"] = None
    rows, _ = opened(pa.Table.from_pylist(content, schema=SCHEMA), pool, row_group_size=20)
    assert [rows.has_fewer_values(group, "add.stats", "add.path") for group in (0, 1)] == [False, True]
    assert rows.has_fewer_values(0, "add.absent", "add.path")
    substitute = Substitute("add.stats_parsed", "add.stats", "add.path")
    plan = ScanParquet((FileRef("f"),), ("add.path", "add.stats"), substitutes=(substitute,))
    names = [[field.name for field in next(selected_batches(rows, group, plan)).column("add").type] for group in (0, 1)]
    assert names == [["path", "stats"], ["path", "stats_parsed"]], "a column without a value is not read"


def test_columns_are_found_by_their_whole_name(pool: ThreadPoolExecutor) -> None:
    table = pa.table({"a": [{"b": 1, "bc": 2, "b.c": 3}], "a.b": [4]})
    rows, _ = opened(table, pool)
    assert len(rows.leaves(("a",))) == 3 + 1, "a dotted name cannot be told from a nested one"
    assert len(rows.leaves(("a.b",))) == 3
    assert rows.leaves(("x",)) == []
    assert rows.leaves(()) == []


def test_only_the_ranges_of_the_columns_are_asked_for(pool: ThreadPoolExecutor) -> None:
    table = rows_of(20_000)
    rows, store = opened(table, pool, row_group_size=5_000, compression="NONE", use_dictionary=False)
    size = store.inner.head("f").size
    assert size > 4 * FOOTER_BYTES
    before = len(store.attempts)
    found = fields(list(rows.batches(1, ("add.size",))))
    assert found == picked(table.column("add").to_pylist()[5_000:10_000], ("add.size",))
    asked = store.attempts[before:]
    assert sum(attempt.end - attempt.start for attempt in asked) < 60_000


@pytest.mark.parametrize("held", [1, 10_000])
def test_columns_too_large_to_hold_are_read_through_windows(
    pool: ThreadPoolExecutor, monkeypatch: pytest.MonkeyPatch, held: int
) -> None:
    table = rows_of(20_000)
    monkeypatch.setattr(parquet_file, "HELD_BYTES", held)
    rows, _ = opened(table, pool, compression="NONE", use_dictionary=False, data_page_size=8_000)
    found = fields(list(rows.batches(0, COLUMNS)))
    assert found == picked(table.column("add").to_pylist())


@settings(deadline=None, max_examples=40, suppress_health_check=list(HealthCheck))
@given(
    count=st.integers(1, 400),
    seed=st.integers(0, 5),
    nulls=st.sampled_from([0.0, 0.3, 1.0]),
    options=st.fixed_dictionaries(
        {
            "compression": st.sampled_from(["NONE", "SNAPPY", "GZIP", "ZSTD", "LZ4", "BROTLI"]),
            "use_dictionary": st.booleans(),
            "data_page_size": st.sampled_from([64, 1_000, 1 << 20]),
            "data_page_version": st.sampled_from(["1.0", "2.0"]),
            "write_page_checksum": st.booleans(),
            "write_statistics": st.booleans(),
            "row_group_size": st.sampled_from([37, 100, 1_000]),
        }
    ),
    share=st.sampled_from([0.01, 0.1, 0.5]),
)
def test_chosen_rows_are_those_of_the_whole(
    pool: ThreadPoolExecutor, count: int, seed: int, nulls: float, options: dict[str, Any], share: float
) -> None:
    table = rows_of(count, seed, nulls)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(parquet_file, "_LARGE", 0)
        rows, _ = opened(table, pool, **options)
        expected = table.column("add").to_pylist()
        start = 0
        for group in rows.row_groups(()):
            inside = expected[start : start + rows.num_rows(group)]
            start += rows.num_rows(group)
            chance = random.Random(seed)  # noqa: S311 - repeatable, not secret
            # A test never passes a row without the action.
            mask = np.array([value is not None and chance.random() < share for value in inside])
            if not mask.any():
                continue
            found = chosen(rows, group, COLUMNS, mask)
            wanted = [value for value, keep in zip(inside, mask, strict=True) if keep]
            assert [_plain(value) for batch in found for value in batch.column("add").to_pylist()] == [
                _plain(value) for value in picked(wanted)
            ]


def _plain(value: dict[str, Any]) -> dict[str, Any]:
    return dict(sorted(value.items()))


def selected_batches(
    rows: ParquetRows, group: int, plan: ScanParquet, *, is_first: bool = False
) -> Iterator[pa.RecordBatch]:
    selected = SelectedRows(rows, group, plan, is_first=is_first)
    return selected.batches(selected.fetch())


class Evens:
    """A test that remembers which columns it was shown."""

    def __init__(self) -> None:
        self.shown: list[list[str]] = []

    def __call__(self, batch: pa.RecordBatch) -> Any:  # noqa: ANN401
        actions = batch.column("add")
        self.shown.append([field.name for field in actions.type])
        return np.array([value is not None and (value["size"] or 0) % 40 == 0 for value in actions.to_pylist()])


@pytest.mark.parametrize("large", [0, 1 << 30])
def test_a_test_decides_which_rows_are_decoded(
    pool: ThreadPoolExecutor, monkeypatch: pytest.MonkeyPatch, large: int
) -> None:
    monkeypatch.setattr(parquet_file, "_LARGE", large)
    table = rows_of(3_000)
    rows, _ = opened(table, pool, row_group_size=1_000, data_page_size=500)
    test = Evens()
    plan = ScanParquet((FileRef("f"),), COLUMNS, early=("add.size",), test=test)
    found = fields([batch for group in range(3) for batch in selected_batches(rows, group, plan)])
    wanted = [value for value in picked(table.column("add").to_pylist()) if value and (value["size"] or 0) % 40 == 0]
    assert [_plain(value) for value in found] == [_plain(value) for value in wanted]
    assert test.shown
    assert all(names == ["size"] for names in test.shown)


def test_a_row_group_without_a_survivor_is_not_read_further(pool: ThreadPoolExecutor) -> None:
    table = rows_of(20_000)
    rows, store = opened(table, pool, compression="NONE", use_dictionary=False)
    plan = ScanParquet(
        (FileRef("f"),), COLUMNS, early=("add.flag",), test=lambda batch: np.zeros(batch.num_rows, dtype=np.bool_)
    )
    before = sum(attempt.end - attempt.start for attempt in store.attempts)
    assert list(selected_batches(rows, 0, plan)) == []
    assert sum(attempt.end - attempt.start for attempt in store.attempts) - before < 20_000


# --- page headers ----------------------------------------------------------------------------------------------


def headers_of(**options: object) -> list[PageHeader]:
    sink = io.BytesIO()
    table = pa.table({"x": [f"value {number % 97}" for number in range(2_000)]})
    pq.write_table(table, sink, data_page_size=500, **options)
    data = sink.getvalue()
    chunk = pq.ParquetFile(sink).metadata.row_group(0).column(0)
    position = chunk.dictionary_page_offset if chunk.has_dictionary_page else chunk.data_page_offset
    end = position + chunk.total_compressed_size
    headers = []
    while position < end:
        headers.append(read_page_header(data[position:end]))
        position += headers[-1].length + headers[-1].compressed
    assert position == end
    return headers


@pytest.mark.parametrize("version", ["1.0", "2.0"])
@pytest.mark.parametrize("checksum", [False, True])
@pytest.mark.parametrize("dictionary", [False, True])
def test_page_headers_follow_each_other_to_the_end(version: str, *, checksum: bool, dictionary: bool) -> None:
    headers = headers_of(data_page_version=version, write_page_checksum=checksum, use_dictionary=dictionary)
    data = [header for header in headers if header.kind in (0, 3)]
    assert len(data) > 1
    assert {header.kind for header in headers} == ({2} if dictionary else set()) | {0 if version == "1.0" else 3}
    assert sum(header.values for header in data) == 2_000


@settings(deadline=None)
@given(st.binary(max_size=60))
def test_any_bytes_are_a_header_or_refused(data: bytes) -> None:
    try:
        header = read_page_header(data)
    except ValueError:
        return
    assert header.length <= len(data)
    assert min(header.compressed, header.uncompressed, header.values) >= 0


def test_a_header_that_is_cut_off_is_told_from_one_that_is_wrong() -> None:
    sink = io.BytesIO()
    pq.write_table(pa.table({"x": [1, 2, 3]}), sink, use_dictionary=False)
    data = sink.getvalue()[4:]
    length = read_page_header(data).length
    for cut in range(length):
        with pytest.raises(TruncatedThriftError):
            read_page_header(data[:cut])


@pytest.mark.parametrize("kind", ["05", "06"])
def test_a_header_with_a_field_twice_is_refused(kind: str) -> None:
    sink = io.BytesIO()
    pq.write_table(pa.table({"x": [1, 2, 3]}), sink, use_dictionary=False)
    data = sink.getvalue()[4:]
    header = data[: read_page_header(data).length]
    # Its second field, the size, once more as an i32 or an i64; Arrow passes over the latter.
    twice = header[:-1] + bytes.fromhex(f"{kind} 04 02 00")
    with pytest.raises(ValueError, match="out of order"):
        read_page_header(twice)
