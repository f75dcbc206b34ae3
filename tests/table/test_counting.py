"""How many rows there are."""

from __future__ import annotations

from typing import TYPE_CHECKING

import deltalake
import pytest
from tests.builder import TableBuilder, add, deletion_vector, protocol, remove
from tests.own_threads import forget
from tests.table.written import counting_table, numbers, write

from delta_sidecar import DeltaTable, UnreadableFileError
from delta_sidecar.build import build_sidecar
from delta_sidecar.store import open_store
from delta_sidecar.store.testing import RecordingStore

if TYPE_CHECKING:
    from pathlib import Path


def test_deleted_rows_do_not_count(tmp_path: Path) -> None:
    table = TableBuilder(tmp_path, protocol=protocol(features=["deletionVectors"]))
    vector = deletion_vector("v", cardinality=7)
    table.commit([add("a", stats={"numRecords": 100}), add("b", stats={"numRecords": 10}, dv=vector)])
    table.commit([add("c", stats={"numRecords": 1000}), remove("a")])
    assert DeltaTable(tmp_path).count() == 1003
    assert DeltaTable(tmp_path, version=0).count() == 103


@pytest.mark.parametrize("kind", ["v1", "v1-multipart", "v2-json"])
@pytest.mark.parametrize("json_stats", [True, False])
def test_statistics_of_a_checkpoint_tell(tmp_path: Path, kind: str, *, json_stats: bool) -> None:
    table = TableBuilder(tmp_path)
    rows = [{"id": number, "value": "x"} for number in range(50)]
    table.commit([add(f"f{number}", rows=rows[:number]) for number in range(1, 40)])
    table.checkpoint(kind, struct_stats=not json_stats, json_stats=json_stats)
    table.clean_up(inclusive=True)
    table.commit([remove("f1"), add("g", rows=rows)])
    assert DeltaTable(tmp_path).count() == sum(range(2, 40)) + 50


def test_a_short_log_tells_by_itself(tmp_path: Path) -> None:
    table = TableBuilder(tmp_path)
    for number in range(5):
        table.commit([add(f"f{number}", stats={"numRecords": number})])
    store = RecordingStore(open_store(tmp_path))
    opened = DeltaTable(tmp_path, store=store)
    opened.snapshot()
    forget(store)
    assert opened.count() == 10
    assert sorted(path for path in store.paths("get") if path.endswith(".json")) == [
        f"_delta_log/{number:020}.json" for number in range(5)
    ]


def test_a_metadata_sidecar_tells(tmp_path: Path) -> None:
    table = TableBuilder(tmp_path)
    table.commit([add(f"f{number}", stats={"numRecords": number}) for number in range(500)])
    table.checkpoint()
    build_sidecar(str(tmp_path))
    table.commit([remove("f400"), add("g", stats={"numRecords": 1})])
    store = RecordingStore(open_store(tmp_path))
    assert DeltaTable(tmp_path, store=store).count() == sum(range(500)) - 399
    assert not [path for path in store.paths("get") if ".checkpoint." in path]


def test_a_file_without_statistics_is_asked_for_its_footer(tmp_path: Path) -> None:
    write(tmp_path, numbers(*range(1000)), configuration={"delta.dataSkippingNumIndexedCols": "0"})
    write(tmp_path, numbers(*range(10)))
    commit = tmp_path / "_delta_log" / f"{0:020}.json"
    commit.write_text("\n".join(_without_statistics(line) for line in commit.read_text().splitlines()))
    assert deltalake.DeltaTable(tmp_path).count() == 10
    store = RecordingStore(open_store(tmp_path))
    assert DeltaTable(tmp_path, store=store).count() == 1010
    opened = {path for path in store.paths("get") if path.endswith(".parquet")}
    assert len(opened) == 1


def test_a_file_without_statistics_that_is_gone_is_named(tmp_path: Path) -> None:
    table = TableBuilder(tmp_path)
    table.commit([add("there.parquet", stats={"numRecords": 5}), add("gone.parquet")])
    with pytest.raises(UnreadableFileError, match=r"gone\.parquet"):
        DeltaTable(tmp_path).count()


def test_an_empty_table_has_no_rows(tmp_path: Path) -> None:
    table = TableBuilder(tmp_path)
    table.commit()
    assert DeltaTable(tmp_path).count() == 0


def test_it_is_what_deltalake_counts_where_nothing_is_deleted(tmp_path: Path) -> None:
    counting_table(tmp_path)
    write(tmp_path, numbers(*range(100)))
    assert DeltaTable(tmp_path).count() == deltalake.DeltaTable(tmp_path).count() == 103


def _without_statistics(line: str) -> str:
    head, found, tail = line.partition('"stats":"')
    return line if not found else f'{head}"stats":null,{tail.split(chr(34) + ",", 1)[1]}'
