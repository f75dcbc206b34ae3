"""Tables at addresses that only deltalake knows."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import deltalake
import pyarrow as pa
import pytest

from delta_sidecar import DeltaTable, LazyDeltaScanner, OptionError, TableNotFoundError, write_deltalake
from delta_sidecar.store import open_store
from delta_sidecar.store.address import is_for_deltalake

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


@pytest.fixture(params=["fs://localhost/t", "opendal+fs://localhost/t"])
def address(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def options(address: str, tmp_path: Path) -> dict[str, str]:
    options = {"opendal.root": str(tmp_path)}
    write_deltalake(address, pa.table({"n": [0, 1]}), storage_options=options)
    return options


def test_what_goes_through_to_deltalake_works(address: str, options: dict[str, str]) -> None:
    table = DeltaTable(address, storage_options=options)
    assert (table.version(), table.table_uri) == (0, f"{address}/")
    assert table.delete("n = 1")["num_deleted_rows"] == 1
    write_deltalake(table, pa.table({"n": [2]}), mode="append")
    assert table.version() == deltalake.DeltaTable(address, storage_options=options).version() == 2
    assert sorted(pa.table(table.as_deltalake().to_pyarrow_table())["n"].to_pylist()) == [0, 2]
    assert table.optimize.compact()["numFilesAdded"] == 1
    table.load_as_version(0)
    assert (table.version(), DeltaTable(address, 1, options).version()) == (0, 1)
    table.update_incremental()
    assert table.version() == 3
    assert DeltaTable.is_deltatable(address, options)
    assert not DeltaTable.is_deltatable(f"{address}/no", options)


READS: dict[str, Callable[[DeltaTable], Any]] = {
    "rows": lambda table: table.to_pyarrow_table(),
    "scan": lambda table: table.scan(),
    "dataset": lambda table: table.to_pyarrow_dataset(),
    "files": lambda table: table.file_uris(),
    "actions": lambda table: table.get_add_actions(),
    "schema": lambda table: table.schema(),
    "history": lambda table: table.history(),
    "count": lambda table: table.count(),
}


@pytest.mark.parametrize("read", READS)
def test_what_reads_here_says_which_calls_work(address: str, options: dict[str, str], read: str) -> None:
    table = DeltaTable(address, storage_options=options)
    with pytest.raises(OptionError, match=r"t can be reached by deltalake alone.* delete, .*as_deltalake\(\)"):
        READS[read](table)


def test_others_say_who_knows_the_address(address: str, options: dict[str, str]) -> None:
    with pytest.raises(OptionError, match="is known to deltalake alone, which a DeltaTable goes through"):
        LazyDeltaScanner(address, storage_options=options)
    with pytest.raises(deltalake.exceptions.TableNotFoundError):
        DeltaTable(f"{address}/no", storage_options=options)
    with pytest.raises(OptionError, match="the scheme 'gopher' is not supported"):
        DeltaTable("gopher://host/t")


@pytest.mark.parametrize(
    "address", ["lakefs://r/main/t", "hdfs://h/t", "hf://datasets/a/b", "UC://a.b.c", "opendal+s3://b"]
)
def test_schemes_of_deltalake(address: str) -> None:
    assert is_for_deltalake(address)


def test_addresses_of_our_own(tmp_path: Path) -> None:
    assert not any(map(is_for_deltalake, (tmp_path, "hdfs", "file:///t", "s3://b/t", "memory://x/t", "az://c/t")))
    with pytest.raises(TableNotFoundError):
        DeltaTable(tmp_path)


@pytest.mark.parametrize("address", ["hdfs://host/t", "lakefs://repo/main/t", "https://store.example/bucket/t"])
def test_beside_a_store_any_address_will_do(address: str, tmp_path: Path) -> None:
    write_deltalake(tmp_path, pa.table({"n": [0, 1]}))
    table = DeltaTable(address, store=open_store(tmp_path))
    assert (table.version(), table.count()) == (0, 2)
