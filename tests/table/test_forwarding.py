"""Writing and maintenance, which deltalake does, and what a table shows afterwards."""

from __future__ import annotations

import datetime as dt
import functools
import subprocess
import sys
import textwrap
from typing import TYPE_CHECKING, Any
from unittest import mock

import deltalake
import pyarrow as pa
import pyarrow.dataset as pads
import pyarrow.fs as pafs
import pytest
from tests.table.written import counting_table, numbers, write

from delta_sidecar import DeltaTable, UnsupportedFeatureError, write_deltalake
from delta_sidecar.store import open_store
from delta_sidecar.table.pinned import TableHandle

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


def values(table: DeltaTable) -> list[int]:
    return sorted(pa.table(table.scan()).column("n").to_pylist())


def merged(table: DeltaTable) -> object:
    source = pa.table({"n": pa.array([2, 7], pa.int64())})
    builder = table.merge(source, "t.n = s.n", source_alias="s", target_alias="t")
    return builder.when_matched_delete().when_not_matched_insert_all().execute()


WRITES: dict[str, tuple[Callable[[DeltaTable], Any], list[int]]] = {
    "delete": (lambda table: table.delete("n = 1"), [0, 2]),
    "update": (lambda table: table.update({"n": "n + 10"}, predicate="n > 0"), [0, 11, 12]),
    "merge": (merged, [0, 1, 7]),
    "optimize": (lambda table: table.optimize.compact(), [0, 1, 2]),
    "z_order": (lambda table: table.optimize.z_order(["n"]), [0, 1, 2]),
    "restore": (lambda table: table.restore(0), [0]),
    "alter": (lambda table: table.alter.add_columns([deltalake.Field("more", "string")]), [0, 1, 2]),
    "properties": (lambda table: table.alter.set_table_properties({"delta.appendOnly": "false"}), [0, 1, 2]),
    "write_deltalake": (lambda table: write_deltalake(table, numbers(5), mode="append"), [0, 1, 2, 5]),
    "overwrite": (lambda table: write_deltalake(table, numbers(5), mode="overwrite"), [5]),
}


@pytest.mark.parametrize("name", WRITES)
def test_a_table_shows_what_it_has_written(tmp_path: Path, name: str) -> None:
    act, after = WRITES[name]
    table = DeltaTable(counting_table(tmp_path))
    act(table)
    assert values(table) == after
    assert table.version() == deltalake.DeltaTable(tmp_path).version() == 3
    assert table.count() == len(after)
    assert table.get_add_actions().read_all().num_rows == len(deltalake.DeltaTable(tmp_path).file_uris())
    assert len(list(table.get_stats_for_files())) == len(table.file_uris())


def test_a_write_is_followed_and_others_are_not(tmp_path: Path) -> None:
    table = DeltaTable(counting_table(tmp_path))
    table.delete("n = 1")
    write(tmp_path, numbers(9))
    assert (table.version(), values(table)) == (3, [0, 2])
    table.delete("n = 0")
    assert (table.version(), values(table)) == (5, [2, 9])


def test_a_merge_commits_when_it_is_executed(tmp_path: Path) -> None:
    table = DeltaTable(counting_table(tmp_path))
    builder = table.merge(numbers(2), "t.n = s.n", source_alias="s", target_alias="t").when_matched_delete()
    assert (table.version(), values(table)) == (2, [0, 1, 2])
    assert builder.execute()["num_target_rows_deleted"] == 1
    assert (table.version(), values(table)) == (3, [0, 1])


def test_maintenance_goes_through_with_its_results(tmp_path: Path) -> None:
    table = DeltaTable(counting_table(tmp_path))
    assert table.delete("n = 1")["num_deleted_rows"] == 1
    assert len(table.vacuum(retention_hours=0, enforce_retention_duration=False)) == 1
    table.create_checkpoint()
    assert (tmp_path / "_delta_log" / f"{3:020}.checkpoint.parquet").exists()
    assert table.version() == 3
    removed = table.vacuum(retention_hours=0, enforce_retention_duration=False, dry_run=False)
    assert len(removed) == 1
    assert table.version() == deltalake.DeltaTable(tmp_path).version()
    assert values(table) == [0, 2]
    table.cleanup_metadata()
    assert table.repair(dry_run=True)["dry_run"]
    assert table.transaction_version("nobody") is None
    assert pa.table(table.deletion_vectors()).num_rows == 0


def test_names_are_taken_of_the_class_as_well(tmp_path: Path) -> None:
    class Mine(DeltaTable):
        def delete(self, predicate: str | None = None) -> int:
            return int(super().delete(predicate)["num_deleted_rows"])

    table = Mine(counting_table(tmp_path))
    assert table.delete("n = 0") == 1
    assert DeltaTable.delete(table, "n = 1")["num_deleted_rows"] == 1
    assert functools.partial(DeltaTable.update, table)({"n": "7"})["num_updated_rows"] == 1
    assert (values(table), type(Mine.create(tmp_path / "made", pa.schema([("n", pa.int64())])))) == ([7], Mine)
    with mock.patch.object(DeltaTable, "vacuum", autospec=True) as replaced:
        table.vacuum(retention_hours=1)
        with pytest.raises(TypeError):
            table.vacuum(nothing=1)
    replaced.assert_called_once_with(table, retention_hours=1)
    assert table.vacuum() == []


def test_libraries_that_take_a_table_of_deltalake_take_it_at_its_version(tmp_path: Path) -> None:
    table = DeltaTable(counting_table(tmp_path), version=1)
    query = "select count(*) as n from t"
    assert deltalake.QueryBuilder().register("t", table).execute(query).read_all()["n"].to_pylist() == [2]
    ctx = pytest.importorskip("datafusion").SessionContext()
    ctx.register_table("t", table)
    assert ctx.sql(query).to_pydict() == {"n": [2]}
    with pytest.warns(DeprecationWarning, match="table_config|DeltaTableConfig"):
        assert table.table_config.without_files is False


def test_what_is_not_read_lazily_is_read_by_deltalake(tmp_path: Path) -> None:
    write(tmp_path, pa.table({"n": [1, 2], "s": ["x", "y"]}))
    table = DeltaTable(tmp_path)
    assert table.to_pyarrow_dataset(as_large_types=True).to_table().schema.field("s").type == pa.large_string()
    narrow = pa.schema([("n", pa.int64())])
    assert table.to_pyarrow_dataset(schema=narrow).to_table().column_names == ["n"]
    as_words = pads.ParquetReadOptions(dictionary_columns={"s"})
    read = table.to_pyarrow_dataset(parquet_read_options=as_words).to_table()
    assert read.schema.field("s").type == pa.dictionary(pa.int32(), pa.string())
    files = pafs.SubTreeFileSystem(str(tmp_path), pafs.LocalFileSystem())
    assert table.to_pyarrow_table(filesystem=files, columns=["n"]).num_rows == 2
    assert len(table.to_pandas(filesystem=files)) == 2


def test_an_older_version_is_handed_over_as_it_is(tmp_path: Path) -> None:
    table = DeltaTable(counting_table(tmp_path), version=1)
    assert table.as_deltalake().version() == 1
    assert table.as_deltalake() is table.as_deltalake()
    table.update_incremental()
    assert table.as_deltalake().version() == 2
    table.load_as_version(0)
    assert table.as_deltalake().version() == 0


def test_what_deltalake_commits_by_itself_is_followed_too(tmp_path: Path) -> None:
    table = DeltaTable(counting_table(tmp_path))
    table.as_deltalake().delete("n = 0")
    assert values(table) == [1, 2]


NANOS = [deltalake.TableFeatures.TimestampWithoutTimezone, deltalake.TableFeatures.TimestampNanos]
REFUSED: dict[str, Callable[[DeltaTable], Any]] = {
    "vacuum": lambda table: table.vacuum(0, dry_run=False, enforce_retention_duration=False),
    "delete": lambda table: table.delete("n = 1"),
    "update": lambda table: table.update({"n": "n + 1"}),
    "compact": lambda table: table.optimize.compact(),
    "add_columns": lambda table: table.alter.add_columns([deltalake.Field("more", "string")]),
    "properties": lambda table: table.alter.set_table_properties({"delta.appendOnly": "false"}),
    "create_checkpoint": lambda table: table.create_checkpoint(),
    "restore": lambda table: table.restore(0),
    "transaction_version": lambda table: table.transaction_version("job"),
    "write_deltalake": lambda table: write_deltalake(table, numbers(7), mode="append", schema_mode="merge"),
    "history": lambda table: table.history(),
    "load_as_version": lambda table: table.load_as_version(1),
    "a time": lambda table: table.load_as_version(dt.datetime.now(dt.UTC)),
    "update_incremental": lambda table: table.update_incremental(),
}


def needs_another_reader(root: Path) -> Path:
    """Gives a table a reader feature that nobody knows here and that deltalake knows."""
    deltalake.DeltaTable(root).alter.add_feature(NANOS, allow_protocol_versions_increase=True)
    return root


@pytest.mark.parametrize("name", REFUSED)
def test_a_table_that_is_not_read_here_is_written_and_kept_in_order(tmp_path: Path, name: str) -> None:
    table = DeltaTable(needs_another_reader(counting_table(tmp_path)))
    assert table.version() == 3
    REFUSED[name](table)
    assert table.version() == (1 if name == "load_as_version" else deltalake.DeltaTable(tmp_path).version())
    if name == "load_as_version":
        assert values(table) == [0, 1]
        return
    with pytest.raises(UnsupportedFeatureError, match="timestampNanos"):
        table.scan()


def test_a_commit_that_makes_a_table_unreadable_here_is_no_error(tmp_path: Path) -> None:
    table = DeltaTable(counting_table(tmp_path))
    assert values(table) == [0, 1, 2]
    table.alter.add_feature(NANOS, allow_protocol_versions_increase=True)
    assert table.version() == 3
    with pytest.raises(UnsupportedFeatureError, match="timestampNanos"):
        values(table)


def test_an_error_of_deltalake_comes_through(tmp_path: Path) -> None:
    table = DeltaTable(counting_table(tmp_path))
    with pytest.raises(deltalake.exceptions.DeltaError):
        table.delete("nothing = 1")
    assert table.version() == 2
    with pytest.raises(AttributeError):
        _ = table.optimize.nothing


def test_a_table_is_made(tmp_path: Path) -> None:
    schema = pa.schema([pa.field("n", pa.int64(), nullable=False), pa.field("p", pa.string())])
    table = DeltaTable.create(
        tmp_path / "a", schema, "error", ["p"], name="made", configuration={"delta.appendOnly": "true"}
    )
    assert isinstance(table, DeltaTable)
    assert (table.version(), table.metadata().name, table.metadata().partition_columns) == (0, "made", ["p"])
    again = DeltaTable.create(str(tmp_path / "b"), table.schema())
    assert again.schema() == table.schema()
    write_deltalake(again, pa.table({"n": [1], "p": ["x"]}, schema=schema), mode="append")
    assert (again.version(), values(again)) == (1, [1])
    write_deltalake(str(tmp_path / "c"), numbers(3))
    assert values(DeltaTable(tmp_path / "c")) == [3]


def test_storage_options_are_never_shown(tmp_path: Path) -> None:
    table = DeltaTable(counting_table(tmp_path), storage_options={"account_key": "c2VjcmV0LXZhbHVl"})
    table.version()
    shown = f"{table!r} {table} {table.snapshot()!r} {table.optimize!r} {table.scan()!r} {table.metadata()!r}"
    assert "c2VjcmV0LXZhbHVl" not in shown
    assert "c2VjcmV0LXZhbHVl" not in repr(vars(table.snapshot().handle))
    address = "https://account.blob.core.windows.net/lake/table?sv=2020&sig=c2VjcmV0LXZhbHVl"
    remote = DeltaTable(address, store=open_store(tmp_path))
    assert "c2VjcmV0LXZhbHVl" not in f"{remote!r} {remote.table_uri} {TableHandle(address).store!r}"


def test_without_deltalake_a_table_is_read_and_who_writes_is_told_what_to_install(tmp_path: Path) -> None:
    counting_table(tmp_path)
    program = f"""
        import sys

        class Blocked:
            def find_spec(self, name, path=None, target=None):
                if name.partition(".")[0] == "deltalake":
                    raise ModuleNotFoundError("No module named 'deltalake'", name="deltalake")

        sys.meta_path.insert(0, Blocked())
        from delta_sidecar import DeltaTable, write_deltalake

        table = DeltaTable({str(tmp_path)!r})
        assert table.version() == 2 and table.count() == 3 and len(table.file_uris()) == 3
        assert table.get_add_actions().read_all().num_rows == 3 and len(table.history()) == 3
        assert list(table.get_stats_for_files()) and table.partitions() == []
        assert "pandas" not in sys.modules, "what reads does without pandas"
        assert hasattr(table, "delete") and table.schema().fields[0].type.type == "long"
        for write in (
            table.delete,
            lambda: DeltaTable.delete(table),
            lambda: table.optimize.compact,
            lambda: table.alter,
            table.as_deltalake,
            lambda: DeltaTable.create({str(tmp_path / "new")!r}, table.schema()),
            lambda: write_deltalake(table, None),
            lambda: write_deltalake({str(tmp_path / "new")!r}, None),
        ):
            try:
                write()
            except ImportError as error:
                assert "pip install '.[deltalake]' in a clone of delta-sidecar" in str(error), error
            else:
                raise AssertionError(write)
        print("read")
    """
    ran = subprocess.run([sys.executable, "-c", textwrap.dedent(program)], capture_output=True, text=True, check=False)
    assert (ran.stdout, ran.stderr) == ("read\n", "")


def test_without_pandas_who_wants_a_frame_is_told_what_to_install_before_a_row_is_read(tmp_path: Path) -> None:
    counting_table(tmp_path)
    program = f"""
        import sys

        sys.modules["pandas"] = None
        from delta_sidecar import DeltaTable, events

        told = []
        table = DeltaTable({str(tmp_path)!r}, listeners=[told.append])
        try:
            table.to_pandas()
        except ImportError as error:
            print(error)
        assert not [event for event in told if isinstance(event, events.RowScanEnded)]
    """
    ran = subprocess.run([sys.executable, "-c", textwrap.dedent(program)], capture_output=True, text=True, check=False)
    says = "a DataFrame needs the package pandas: pip install '.[pandas]' in a clone of delta-sidecar\n"
    assert (ran.stdout, ran.stderr) == (says, "")
