"""Parquet files that are whole and no checkpoint, in the place of one: another base is taken, or the file is named."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import deltalake
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.builder import TableBuilder, add, remove, txn
from tests.scan.reading import STRATEGIES, agrees_with_model, scan, store_of
from tests.scan.small_history import KINDS, V2, fails_without_seeming_complete

from delta_sidecar import CorruptCheckpointError, LazyDeltaScanner, LazyScanConfig
from delta_sidecar.store.testing import RecordingStore

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

FILES = 100


def with_checkpoint(root: Path, kind: str = "v1", **options: object) -> tuple[TableBuilder, list[Path]]:
    table = TableBuilder(root, schema={"id": "long"}, protocol=V2)
    table.commit([add(f"{number}.parquet") for number in range(FILES)])
    return table, table.checkpoint(kind, **options)


def data_file(path: Path) -> None:
    pq.write_table(pa.table({"id": [1, 2]}), path)


def empty_data_file(path: Path) -> None:
    pq.write_table(pa.table({"id": pa.array([], pa.int64())}), path)


def without_add(path: Path) -> None:
    pq.write_table(pq.read_table(path).drop_columns(["add"]), path)


def only_adds(path: Path) -> None:
    rows = pq.read_table(path)
    keep = pa.array([value is not None for value in rows["add"].to_pylist()])
    pq.write_table(rows.filter(keep).slice(0, 40), path)


def add_is_a_text(path: Path) -> None:
    rows = pq.read_table(path)
    texts = pa.array(["x"] * rows.num_rows)
    pq.write_table(rows.set_column(rows.schema.get_field_index("add"), "add", texts), path)


NOT_ONE = [data_file, empty_data_file, without_add, add_is_a_text]
CASES = [
    *[("v1", -1, change) for change in [*NOT_ONE, only_adds]],
    *[("v1-multipart", part, change) for part in (0, 1) for change in NOT_ONE],
    *[("v2-parquet", -1, change) for change in (data_file, empty_data_file)],
    *[("v2-classic", -1, change) for change in (data_file, empty_data_file)],
    *[(kind, 0, change) for kind in ("v2-json", "v2-parquet", "v2-classic") for change in NOT_ONE],
]


@pytest.mark.full
@pytest.mark.parametrize("checksum", [False, True])
@pytest.mark.parametrize(("kind", "victim", "change"), CASES)
def test_a_file_that_is_no_checkpoint_is_passed_over(
    tmp_path: Path, kind: str, victim: int, change: Callable[[Path], None], *, checksum: bool
) -> None:
    table, paths = with_checkpoint(tmp_path, kind)
    if checksum:
        table.checksum()
    change(paths[victim])
    agrees_with_model(table)
    table.commit([add("tail.parquet"), remove("7.parquet")])
    agrees_with_model(table)


@pytest.mark.full
@pytest.mark.parametrize("checksum", [False, True])
@pytest.mark.parametrize(("kind", "victim", "change"), CASES)
def test_a_file_that_is_no_checkpoint_is_named_where_nothing_is_before_it(
    tmp_path: Path, kind: str, victim: int, change: Callable[[Path], None], *, checksum: bool
) -> None:
    table, paths = with_checkpoint(tmp_path, kind)
    if checksum:
        table.checksum()
    table.clean_up(inclusive=True)
    change(paths[victim])
    for message in fails_without_seeming_complete(table, CorruptCheckpointError):
        assert paths[victim].name in message or paths[0].name in message
        assert str(tmp_path) in message


@pytest.mark.parametrize("checksum", [False, True])
@pytest.mark.parametrize("kind", ["v2-parquet", "v2-classic"])
def test_a_checkpoint_sidecar_is_no_checkpoint(tmp_path: Path, kind: str, *, checksum: bool) -> None:
    table, (sidecar, *_, top) = with_checkpoint(tmp_path, kind)
    if checksum:
        table.checksum()
    top.write_bytes(sidecar.read_bytes())
    agrees_with_model(table)


@pytest.mark.parametrize("sidecars", [0, 2])
@pytest.mark.parametrize("kind", ["v2-parquet", "v2-classic"])
def test_a_v2_checkpoint_with_its_files_inside_has_to_have_them(tmp_path: Path, kind: str, sidecars: int) -> None:
    table, (*_, top) = with_checkpoint(tmp_path, kind, sidecars=sidecars)
    table.checksum()
    without_add(top)
    agrees_with_model(table)
    store = RecordingStore(store_of(table))
    scan(table, store, sidecar_enabled=False)
    replayed = any(path.endswith(f"{0:020}.json") for path in store.paths("get"))
    assert replayed == (sidecars == 0), "with V2-checkpoint sidecars its top has no files to lose"


# --- right by the protocol ---


def reads_it(table: TableBuilder) -> None:
    """Asserts that the checkpoint is used: nothing else is left."""
    table.checksum()
    table.clean_up(inclusive=True)
    agrees_with_model(table)
    (table.log / f"{table.version:020}.crc").unlink()
    agrees_with_model(table)


@pytest.mark.parametrize("narrow", [False, True])
@pytest.mark.parametrize("kind", KINDS)
def test_a_table_without_files_has_a_checkpoint_too(tmp_path: Path, kind: str, *, narrow: bool) -> None:
    """A column that a checkpoint lacks is null, says the protocol."""
    table = TableBuilder(tmp_path, protocol=V2)
    table.commit([add("a"), txn("app", 1)])
    table.commit([remove("a")])
    paths = table.checkpoint(kind)
    for path in paths if narrow else ():
        if path.suffix == ".parquet":
            without_add(path)
    reads_it(table)


def test_a_part_may_hold_other_actions_alone(tmp_path: Path) -> None:
    table = TableBuilder(tmp_path)
    table.commit([add(f"{number}") for number in range(9)] + [txn("app", 1), txn("other", 2)])
    (path,) = table.checkpoint()
    rows = pq.read_table(path)
    path.unlink()
    kinds = [next(name for name, value in row.items() if value is not None) for row in rows.to_pylist()]
    groups = [["txn"], ["add"], ["protocol"], ["metaData"]]
    for number, names in enumerate(groups, start=1):
        keep = pa.array([kind in names for kind in kinds])
        part = table.log / f"{0:020}.checkpoint.{number:010}.{len(groups):010}.parquet"
        pq.write_table(rows.filter(keep).select(names), part)
    reads_it(table)


@pytest.mark.parametrize("statistics", [False, ["add.path"], ["metaData.id", "protocol.minReaderVersion"]])
@pytest.mark.parametrize("kind", ["v1", "v1-multipart", "v2-parquet", "v2-json"])
def test_statistics_may_be_missing(tmp_path: Path, kind: str, statistics: bool | list[str]) -> None:  # noqa: FBT001
    table, paths = with_checkpoint(tmp_path, kind)
    for path in paths:
        if path.suffix == ".parquet":
            pq.write_table(pq.read_table(path), path, write_statistics=statistics)
    reads_it(table)


@pytest.mark.parametrize("emptied", [False, True])
@pytest.mark.parametrize("partitioned", [False, True])
def test_checkpoints_of_another_writer(tmp_path: Path, *, emptied: bool, partitioned: bool) -> None:
    rows = pa.table({"day": ["a", "b", "a"], "id": [1, 2, 3]})
    deltalake.write_deltalake(tmp_path, rows, partition_by=["day"] if partitioned else None)
    if emptied:
        deltalake.DeltaTable(tmp_path).delete()
    table = deltalake.DeltaTable(tmp_path)
    table.create_checkpoint()
    expected = {file["path"] for file in pa.table(table.get_add_actions()).to_pylist()}
    assert bool(expected) != emptied
    version, log = table.version(), tmp_path / "_delta_log"
    lines = [json.loads(line) for line in (log / f"{0:020}.json").read_text().splitlines()]
    told = {name: line[name] for line in lines for name in ("protocol", "metaData") if name in line}
    checksum = {"protocol": told["protocol"], "metadata": told["metaData"]}
    for commit in log.glob("*.json"):
        commit.unlink()
    for text in (None, json.dumps(checksum)):
        if text is not None:
            (log / f"{version:020}.crc").write_text(text)
        for strategy in STRATEGIES:
            found = LazyDeltaScanner(tmp_path, LazyScanConfig(strategy=strategy)).scan_files()
            assert {file.path for file in found} == expected


@pytest.mark.parametrize("kind", KINDS)
def test_each_file_of_a_checkpoint_is_asked_for_once(tmp_path: Path, kind: str) -> None:
    table, paths = with_checkpoint(tmp_path, kind)
    table.checksum()
    store = RecordingStore(store_of(table))
    scan(table, store, sidecar_enabled=False)
    asked = [path for path in store.paths("get") if ".checkpoint." in path or "_sidecars" in path]
    assert sorted(path.rpartition("/")[2] for path in asked) == sorted(path.name for path in paths)
