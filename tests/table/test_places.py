"""A table is where it was when it was made, wherever the process goes and whatever becomes of links."""

from __future__ import annotations

from typing import TYPE_CHECKING

import deltalake
import pyarrow as pa
import pytest
from tests.table.written import numbers, write

from delta_sidecar import DeltaTable, LazyDeltaScanner, write_deltalake
from delta_sidecar.connect.duckdb import register

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def two(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[Path, Path]:
    """Two folders, each with a table `t` of three and of five rows; the first one is the current folder."""
    one, other = tmp_path / "one", tmp_path / "other"
    write(one / "t", numbers(0, 1, 2))
    write(other / "t", numbers(0, 1, 2, 3, 4))
    monkeypatch.chdir(one)
    return one, other


def rows_in(*roots: Path) -> list[int]:
    return [deltalake.DeltaTable(root / "t").to_pyarrow_table().num_rows for root in roots]


@pytest.mark.parametrize("address", ["t", "./t", "../one/t"])
@pytest.mark.parametrize("is_used", [True, False])
def test_a_table_by_a_relative_path_stays_the_same(
    two: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch, address: str, *, is_used: bool
) -> None:
    table = DeltaTable(address)
    if is_used:
        assert table.count() == 3
    monkeypatch.chdir(two[1])
    assert table.delete("n < 2")["num_deleted_rows"] == 2
    assert rows_in(*two) == [1, 5]
    write_deltalake(table, numbers(7), mode="append")
    assert rows_in(*two) == [2, 5]
    assert (table.count(), table.table_uri) == (2, f"file://{two[0]}/t/")


def test_a_table_that_is_created_by_a_relative_path_stays_the_same(
    two: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    table = DeltaTable.create("t", pa.schema([("n", pa.int64())]), mode="overwrite")
    monkeypatch.chdir(two[1])
    write_deltalake(table, numbers(7), mode="append")
    assert (rows_in(*two), table.count()) == ([1, 5], 1)


def test_a_table_behind_a_link_stays_the_same_when_the_link_is_changed(two: tuple[Path, Path]) -> None:
    link = two[0] / "link"
    link.symlink_to(two[0] / "t", target_is_directory=True)
    table = DeltaTable(link)
    link.unlink()
    link.symlink_to(two[1] / "t", target_is_directory=True)
    assert table.delete("n < 2")["num_deleted_rows"] == 2
    assert (rows_in(*two), table.count()) == ([1, 5], 1)


def test_files_that_the_log_names_by_a_link_are_read(two: tuple[Path, Path]) -> None:
    link = two[0] / "link"
    link.symlink_to(two[0] / "t", target_is_directory=True)
    commit = two[0] / "t" / "_delta_log" / f"{0:020}.json"
    commit.write_text(commit.read_text().replace('"path":"', f'"path":"{link}/'))
    assert DeltaTable(link).to_pyarrow_table().num_rows == 3


def test_a_scanner_and_a_view_stay_where_they_were_made(
    two: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    duckdb = pytest.importorskip("duckdb")
    link = two[0] / "link"
    link.symlink_to(two[0] / "t", target_is_directory=True)
    scanner = LazyDeltaScanner("t")
    with duckdb.connect() as con:
        register(con, "t", "t")
        register(con, "linked", "link")
        monkeypatch.chdir(two[1])
        link.unlink()
        link.symlink_to(two[1] / "t", target_is_directory=True)
        assert con.sql("SELECT count(*) FROM linked").fetchall() == [(3,)]
        assert [file.num_records for file in scanner.scan_files()] == [3]
        assert con.sql("SELECT count(*) FROM t").fetchall() == [(3,)]
