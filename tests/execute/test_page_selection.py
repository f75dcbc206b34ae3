"""Chosen rows of a row group, read page by page: the same as reading everything and choosing then."""

from __future__ import annotations

import tempfile
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any
from unittest import mock

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import CommitProperties, DeltaTable, WriterProperties, write_deltalake
from hypothesis import assume, event, given
from hypothesis import strategies as st
from tests.execute.checkpoint_like import COLUMNS, CheckpointLike, checkpoint_likes
from tests.execute.choosing import chosen
from tests.scan.effort import examples

from delta_sidecar.errors import StorageError
from delta_sidecar.execute.parquet import (
    file as parquet_file,
)
from delta_sidecar.execute.parquet import (
    footer,
)
from delta_sidecar.execute.parquet import (
    pages as page_headers,
)
from delta_sidecar.execute.parquet import (
    pages as page_selection,
)
from delta_sidecar.execute.parquet import (
    sparse as sparse_file,
)
from delta_sidecar.execute.parquet.file import BatchSize, ParquetRows
from delta_sidecar.execute.parquet.footer import read_footer
from delta_sidecar.store import open_store

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray


NAME = "rows.parquet"
# What the executor expects of a file that cannot be read; anything else would reach the user as it is.
# Whoever looks at a damaged text finds that it is not UTF-8.
EXPECTED_ERRORS = (pa.ArrowException, OSError, StorageError, UnicodeDecodeError)


@pytest.fixture(scope="module")
def pool() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(2) as threads:
        yield threads


@contextmanager
def reading(way: str) -> Iterator[None]:
    """Makes small files go the way of large ones."""
    patches = [mock.patch.object(parquet_file, "_LARGE", 0)]
    if way != "whole":
        patches.append(mock.patch.object(footer, "FOOTER_BYTES", 64))
        patches.append(mock.patch.object(sparse_file, "_SMALLEST_READ", 1))
        patches.append(mock.patch.object(page_selection, "_HEADER_BYTES", 8))
        patches.append(mock.patch.object(page_selection, "_AT_ONCE", 300))
    if way == "windows":
        patches.append(mock.patch.object(parquet_file, "HELD_BYTES", 1))
        patches.append(mock.patch.object(parquet_file, "_NARROWEST", 37))
    for patch in patches:
        patch.start()
    try:
        yield
    finally:
        for patch in patches:
            patch.stop()


@st.composite
def thrift_structs(draw: st.DrawFn) -> bytes:
    """Something that looks like a page header: fields with the right numbers, not always of the right types."""
    known = {1: 5, 2: 5, 3: 5, 5: 12, 7: 12, 8: 12}
    out = b""
    last = 0
    for number in sorted(draw(st.sets(st.sampled_from(sorted(known)), min_size=2))):
        kind = known[number] if draw(st.integers(0, 3)) else draw(st.integers(1, 12))
        out += bytes([number - last << 4 | kind])
        last = number
        if kind == 12:
            inner = draw(st.sampled_from([5, 5, 5, 1, 8, 12]))
            out += bytes([1 << 4 | inner]) + draw(st.sampled_from([b"\x02", b"\x00", b"\x01x"])) + b"\x00"
        else:
            out += draw(st.sampled_from([b"\x00", b"\x02", b"\x06", b"\x01"]))
    return out + b"\x00"


ways = st.sampled_from(["whole", "ranges", "windows"])
cuts = st.just([]) | st.lists(st.integers(1, 200), max_size=4)
shares = st.sampled_from([1.0, 1.0, 0.3])


def rows_of(folder: Path, pool: ThreadPoolExecutor, name: str = NAME) -> ParquetRows:
    store = open_store(folder)
    found = read_footer(store, name, (folder / name).stat().st_size, footer.FOOTER_BYTES)
    return ParquetRows(store, name, found, pool, BatchSize(11, fewest_rows=5))


@st.composite
def masks(draw: st.DrawFn, rows: int) -> NDArray[np.bool_]:
    """Rows to choose: one, a run, a few, the ends, or all."""
    mask = np.zeros(rows, dtype=np.bool_)
    match draw(st.sampled_from(["one", "run", "few", "ends", "all"])):
        case "one":
            mask[draw(st.integers(0, rows - 1))] = True
        case "run":
            start = draw(st.integers(0, rows - 1))
            mask[start : start + draw(st.integers(1, 20))] = True
        case "few":
            mask[draw(st.lists(st.integers(0, rows - 1), min_size=1, max_size=12))] = True
        case "ends":
            mask[[0, -1]] = True
        case _:
            mask[:] = True
    return mask


@pytest.mark.full
@examples(150)
@given(file=checkpoint_likes(int96=True), way=ways, data=st.data())
def test_chosen_rows_are_those_of_the_whole_row_group(
    pool: ThreadPoolExecutor, file: CheckpointLike, way: str, data: st.DataObject
) -> None:
    with tempfile.TemporaryDirectory() as folder, reading(way):
        metadata = file.write(Path(folder) / NAME)
        rows = rows_of(Path(folder), pool)
        group = data.draw(st.integers(0, metadata.num_row_groups - 1))
        columns = data.draw(st.lists(st.sampled_from([*COLUMNS, "txn"]), min_size=1, unique=True))
        mask = data.draw(masks(metadata.row_group(group).num_rows))
        with counted() as pages:
            found = chosen(rows, group, columns, mask, cuts=data.draw(cuts), sparse=data.draw(shares))
        assert values(*found) == values(plain(Path(folder) / NAME, group, columns, mask))
        event("by page" if pages.call_count else "in the ordinary way")


@pytest.mark.full
@examples(200)
@given(file=checkpoint_likes(most_rows=120), way=ways, data=st.data())
def test_garbage_is_never_taken_for_something_else(
    pool: ThreadPoolExecutor, file: CheckpointLike, way: str, data: st.DataObject
) -> None:
    """Of damaged pages comes an error, or what reading the whole row group gives, or what was there before."""
    with tempfile.TemporaryDirectory() as folder, reading(way):
        path = Path(folder) / NAME
        metadata = file.write(path)
        group = data.draw(st.integers(0, metadata.num_row_groups - 1))
        leaf = data.draw(st.integers(0, metadata.num_columns - 1))
        column = metadata.row_group(group).column(leaf)
        mask = data.draw(masks(metadata.row_group(group).num_rows))
        name = column.path_in_schema
        before = values(plain(path, group, [name], mask))
        damage(path, parquet_file._chunk_range(column), data)
        rows = rows_of(Path(folder), pool)
        try:
            found = values(*chosen(rows, group, [name], mask, cuts=data.draw(cuts), sparse=data.draw(shares)))
        except EXPECTED_ERRORS as error:
            event(type(error).__name__)
            return
        try:
            after = values(plain(path, group, [name], mask))
        except EXPECTED_ERRORS:
            after = None
        assert found in (before, after)
        event("unchanged" if found == before else "changed, as for everyone")


@examples(100)
@given(file=checkpoint_likes(most_rows=120), data=st.data())
def test_garbage_never_makes_rows_disappear(
    pool: ThreadPoolExecutor, file: CheckpointLike, data: st.DataObject
) -> None:
    with tempfile.TemporaryDirectory() as folder, reading("ranges"):
        path = Path(folder) / NAME
        metadata = file.write(path)
        group = data.draw(st.integers(0, metadata.num_row_groups - 1))
        column = metadata.row_group(group).column(data.draw(st.integers(0, metadata.num_columns - 1)))
        damage(path, parquet_file._chunk_range(column), data)
        rows = rows_of(Path(folder), pool)
        try:
            found = sum(batch.num_rows for batch in rows.batches(group, [column.path_in_schema]))
        except EXPECTED_ERRORS:
            return
        assert found == rows.num_rows(group)


@examples(300)
@given(garbage=st.binary(max_size=60) | thrift_structs())
def test_bytes_that_are_no_page_header_are_refused(garbage: bytes) -> None:
    try:
        header = page_headers.read_page_header(garbage)
    except ValueError:
        return
    assert 0 < header.length <= len(garbage)
    assert min(header.compressed, header.uncompressed, header.values) >= 0


def test_a_column_that_ends_too_early_is_an_error(tmp_path: Path, pool: ThreadPoolExecutor) -> None:
    """Arrow reads no row of this file, and says nothing: its map column ends with an empty page."""
    maps = pa.array([[("p", "v")]], pa.map_(pa.string(), pa.string()))
    add = pa.StructArray.from_arrays([maps], names=["partitionValues"])
    pq.write_table(pa.table({"add": add}), tmp_path / NAME, data_page_size=1)
    with pytest.raises(pa.ArrowInvalid):
        list(rows_of(tmp_path, pool).batches(0, ["add"]))


def test_large_columns_are_read_through_windows(tmp_path: Path, pool: ThreadPoolExecutor) -> None:
    """Nothing is made smaller here but the memory: chunks of more than the smallest window."""
    rows = 30_000
    dice = np.random.default_rng(0)
    texts = [f"{number:x}" * 4 for number in dice.integers(0, 2**60, rows)]
    add = pa.StructArray.from_arrays([pa.array(texts), pa.array(np.arange(rows))], names=["path", "size"])
    pq.write_table(pa.table({"add": add}), tmp_path / NAME, data_page_size=20_000, compression="NONE")
    mask = np.zeros(rows, dtype=np.bool_)
    mask[[0, 1, 9_999, 15_000, 15_001, rows - 1]] = True
    with mock.patch.object(parquet_file, "HELD_BYTES", 1 << 10), counted() as pages:
        found = chosen(rows_of(tmp_path, pool), 0, ["add"], mask)
    assert pages.call_count == 2
    assert values(*found) == values(plain(tmp_path / NAME, 0, ["add"], mask))


def test_pages_without_a_chosen_row_are_not_decoded(tmp_path: Path, pool: ThreadPoolExecutor) -> None:
    rows = 10_000
    add = pa.StructArray.from_arrays([pa.array([f"{number:050}" for number in range(rows)])], names=["path"])
    pq.write_table(pa.table({"add": add}), tmp_path / NAME, data_page_size=2_000, write_batch_size=10)
    mask = np.zeros(rows, dtype=np.bool_)
    mask[5_000] = True
    with (
        mock.patch.object(parquet_file, "_LARGE", 0),
        mock.patch.object(
            page_selection.ColumnExcerpt, "file", autospec=True, side_effect=page_selection.ColumnExcerpt.file
        ) as made,
    ):
        found = chosen(rows_of(tmp_path, pool), 0, ["add.path"], mask)
    assert values(*found) == {"add.path": [repr(b"%050d" % 5_000)]}
    (_, _, pages, decoded, _), _ = made.call_args
    assert len(pages) == 1
    assert decoded < rows / 10


# --- another writer --------------------------------------------------------------------------------------------


@examples(40)
@given(
    seed=st.integers(0, 999),
    codec=st.sampled_from(["UNCOMPRESSED", "SNAPPY", "ZSTD", "GZIP", "LZ4_RAW"]),
    page_rows=st.sampled_from([1, 13, 1000]),
    dictionary=st.booleans(),
    way=ways,
    data=st.data(),
)
def test_files_of_another_writer(
    pool: ThreadPoolExecutor,
    *,
    seed: int,
    codec: str,
    page_rows: int,
    dictionary: bool,
    way: str,
    data: st.DataObject,
) -> None:
    dice = np.random.default_rng(seed)
    rows = int(dice.integers(1, 400))
    texts = pa.array([None if dice.random() < 0.2 else "é" * int(dice.integers(0, 40)) for _ in range(rows)])
    numbers = pa.array(dice.integers(0, 5, rows), mask=dice.random(rows) < 0.2)
    struct = pa.StructArray.from_arrays(
        [texts, numbers], names=["path", "size"], mask=pa.array(dice.random(rows) < 0.2)
    )
    properties = WriterProperties(
        compression=codec,
        data_page_row_count_limit=page_rows,
        data_page_size_limit=300,
        dictionary_page_size_limit=200 if dictionary else 1,
        write_batch_size=page_rows,
        max_row_group_size=150,
    )
    with tempfile.TemporaryDirectory() as folder, reading(way):
        write_deltalake(folder, pa.table({"add": struct}), writer_properties=properties)
        names = [path.name for path in Path(folder).glob("*.parquet")]
        same_rows(Path(folder), names, ["add"], pool, data)


def test_checkpoints_of_another_writer(tmp_path: Path, pool: ThreadPoolExecutor) -> None:
    numbers = pa.table({"id": pa.array(range(5)), "text": pa.array(["a", None, "c", "d" * 100, "é"])})
    properties = CommitProperties(custom_metadata={"note": "x"})
    for _ in range(30):
        write_deltalake(tmp_path, numbers, mode="append", commit_properties=properties)
    DeltaTable(tmp_path).create_checkpoint()
    (name,) = [path.name for path in (tmp_path / "_delta_log").glob("*.parquet")]
    path = tmp_path / "_delta_log" / name
    columns = ["add.path", "add.stats", "add.size", "add.modificationTime", "add.partitionValues"]
    for way in ("whole", "ranges", "windows"):
        with reading(way), counted() as pages:
            rows = rows_of(path.parent, pool, name)
            for row in range(rows.num_rows(0)):
                mask = np.arange(rows.num_rows(0)) == row
                assert values(*chosen(rows, 0, columns, mask)) == values(plain(path, 0, columns, mask))
            assert pages.call_count


def same_rows(
    folder: Path, names: list[str], columns: list[str], pool: ThreadPoolExecutor, data: st.DataObject
) -> None:
    for name in names:
        rows = rows_of(folder, pool, name)
        for group in range(rows._footer.metadata.num_row_groups):
            mask = data.draw(masks(rows.num_rows(group)))
            assert values(*chosen(rows, group, columns, mask)) == values(plain(folder / name, group, columns, mask))


# --- what is expected ------------------------------------------------------------------------------------------


def plain(path: Path, group: int, columns: Sequence[str], mask: NDArray[np.bool_]) -> pa.Table:
    """The ordinary way: reads the row group and chooses then."""
    names = [leaf for leaf in leaf_names(path) if any(leaf == name or leaf.startswith(f"{name}.") for name in columns)]
    with pq.ParquetFile(path, coerce_int96_timestamp_unit="us") as file:
        return file.read_row_group(group, columns=names, use_threads=False).filter(pa.array(mask))


def leaf_names(path: Path) -> list[str]:
    schema = pq.read_metadata(path).schema
    return [schema.column(index).path for index in range(len(schema))]


def values(*batches: pa.Table | pa.RecordBatch) -> dict[str, list[Any]]:
    """The values of all fields that are no structs. A null in a struct's place is a null in all its fields."""
    found: dict[str, list[Any]] = {}

    def walk(name: str, column: pa.Array) -> None:
        if pa.types.is_struct(column.type):
            for field, child in zip(column.type, column.flatten(), strict=True):
                walk(f"{name}.{field.name}", child)
        else:
            found.setdefault(name, []).extend(repr(value) for value in column.cast(storage(column.type)).to_pylist())

    for batch in batches:
        for name in batch.schema.names:
            column = batch.column(name)
            walk(name, column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column)
    return found


def storage(kind: pa.DataType) -> pa.DataType:
    """The plain type that a value is stored as: what the type is called on top makes no difference here."""
    if pa.types.is_date32(kind):
        return pa.int32()
    if pa.types.is_string(kind):
        return pa.binary()
    if pa.types.is_map(kind):
        return pa.map_(storage(kind.key_type), storage(kind.item_type))
    return pa.int64() if pa.types.is_timestamp(kind) else kind


@contextmanager
def counted() -> Iterator[mock.Mock]:
    with mock.patch.object(parquet_file, "PageReader", wraps=parquet_file.PageReader) as pages:
        yield pages


def damage(path: Path, place: tuple[int, int], data: st.DataObject) -> None:
    """Spoils some bytes inside of a chunk, where no footer tells of it; most often those of a page header."""
    start, end = place
    content = bytearray(path.read_bytes())
    at = start + data.draw(st.integers(0, end - start - 1) | st.integers(0, min(24, end - start - 1)))
    garbage = data.draw(st.binary(min_size=1, max_size=4) | st.sampled_from([b"\x00" * 16, b"\xff" * 16]))[: end - at]
    assume(bytes(content[at : at + len(garbage)]) != garbage)
    content[at : at + len(garbage)] = garbage
    path.write_bytes(content)
