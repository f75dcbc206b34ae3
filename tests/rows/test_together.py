"""Rows of small files come together, and no file is opened ahead for that."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa
import pytest
from tests.builder import TableBuilder
from tests.rows.tables import put
from tests.rows.watching import FILES, ROWS, watched

from delta_sidecar import DeltaTable, UnreadableFileError

if TYPE_CHECKING:
    from pathlib import Path


def test_of_a_near_store_only_those_are_opened_whose_rows_are_taken(root: Path) -> None:
    with DeltaTable(root).scan() as stream:
        assert next(stream).num_rows == ROWS
        assert stream.metrics.files_opened == 1
        for batch in stream:
            metrics = stream.metrics
            assert metrics.files_opened == metrics.requests.requests == metrics.rows // ROWS
            # Who stops has had no more files opened for the last batch than for half of those before it.
            before = metrics.rows - batch.num_rows
            assert batch.num_rows <= ROWS + before / 2
    assert metrics.rows == FILES * ROWS
    assert metrics.batches < FILES / 10
    assert metrics.requests.trips == 1


def test_rows_per_batch_is_kept(root: Path) -> None:
    sizes = [batch.num_rows for batch in DeltaTable(root, options={"rows_per_batch": 50}).scan()]
    assert sum(sizes) == FILES * ROWS
    assert max(sizes) == 2 * ROWS


@pytest.mark.parametrize("is_near", [True, False])
def test_the_rows_that_are_held_come_before_an_error(tmp_path: Path, *, is_near: bool) -> None:
    built = TableBuilder(tmp_path, schema={"id": "long"})
    names = [f"{number:02}" for number in range(30)]
    adds = [put(built, name, pa.table({"id": [int(name)]})) for name in names]
    built.commit(adds)
    (tmp_path / "20").unlink()
    table = DeltaTable(tmp_path) if is_near else watched(tmp_path)[0]
    found: list[int] = []
    with pytest.raises(UnreadableFileError, match="data file 20 of the table"):
        found.extend(value for batch in table.scan() for value in batch.column("id").to_pylist())
    assert len(found) in (20, 9)


def test_files_of_several_kinds_come_in_their_order(tmp_path: Path) -> None:
    built = TableBuilder(tmp_path, schema={"id": "long", "text": "string"})
    adds = []
    for number in range(24):
        rows = pa.table({"id": [number], "text": ["x" * (200_000 if number % 5 == 4 else 1)]})
        if number % 3 == 2:
            rows = rows.cast(pa.schema({"id": pa.int32(), "text": pa.large_string()}))
        adds.append(put(built, f"{number:02}.parquet", rows if number % 7 else rows.select(["id"])))
    built.commit(adds)
    for table in (DeltaTable(tmp_path), watched(tmp_path)[0]):
        found = table.scan(predicate="id != 3").reader().read_all().to_pydict()
        assert sorted(found["id"]) == [number for number in range(24) if number != 3]
        assert found["id"] in (sorted(found["id"]), sorted(found["id"], reverse=True))
        widths = dict(zip(found["id"], [len(text or "") for text in found["text"]], strict=True))
        assert widths == {
            number: (200_000 if number % 5 == 4 else 1) if number % 7 else 0 for number in range(24) if number != 3
        }
