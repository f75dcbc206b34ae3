"""Checkpoints that are torn, broken or out of reach: another base is taken, or the file is named."""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.builder import TableBuilder, add, remove
from tests.scan.reading import STRATEGIES, agrees_with_model, keys_of, scan, scanner, store_of
from tests.scan.small_history import KINDS, V2, fails_without_seeming_complete, history

from delta_sidecar import CorruptCheckpointError, DeltaSidecarError
from delta_sidecar.log.names import commit_path
from delta_sidecar.store.testing import Fail, FaultStore, RecordingStore

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from delta_sidecar import DeltaFile


def zero(path: Path) -> None:
    path.write_bytes(b"")


def missing(path: Path) -> None:
    path.unlink()


def halved(path: Path) -> None:
    TableBuilder.tear(path, path.stat().st_size // 2)


def without_its_end(path: Path) -> None:
    TableBuilder.tear(path, -1)


def garbage(path: Path) -> None:
    path.write_bytes(os.urandom(path.stat().st_size))


def garbage_footer(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[-40:-8] = b"\xff" * 32
    path.write_bytes(data)


def huge_footer_length(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[-8:-4] = b"\xff\xff\xff\x7f"
    path.write_bytes(data)


DAMAGES = [zero, missing, halved, without_its_end, garbage, garbage_footer, huge_footer_length]


def damaged(tmp_path: Path, kind: str, victim: int, damage: Callable[[Path], None], **options: object) -> TableBuilder:
    table = history(tmp_path, kind, **options)
    paths = table.checkpoint(kind)
    damage(paths[victim])
    return table


def applies(kind: str, victim: int, damage: Callable[[Path], None]) -> bool:
    is_json = kind == "v2-json" and victim == -1
    return not (is_json and damage in (without_its_end, garbage_footer, huge_footer_length))


TORN = [
    pytest.param(kind, victim, damage, id=f"{kind}-{'top' if victim else 'leaf'}-{damage.__name__}")
    for kind in KINDS
    for victim in ((-1,) if kind == "v1" else (0, -1))
    for damage in DAMAGES
    if applies(kind, victim, damage)
]


@pytest.mark.full
@pytest.mark.parametrize(("kind", "victim", "damage"), TORN)
def test_a_torn_checkpoint_is_passed_over(
    tmp_path: Path, kind: str, victim: int, damage: Callable[[Path], None]
) -> None:
    table = damaged(tmp_path, kind, victim, damage)
    table.commit([add("newest.parquet"), remove("tail-4.parquet")])
    agrees_with_model(table)
    # With a checksum file the checkpoint is opened only once the tail has been given out.
    table.checksum()
    agrees_with_model(table)


@pytest.mark.parametrize(
    ("kind", "victim", "damage"), [case for case in TORN if case.values[2] in (zero, missing, halved)]
)
def test_a_torn_checkpoint_with_nothing_before_it_is_named(
    tmp_path: Path, kind: str, victim: int, damage: Callable[[Path], None]
) -> None:
    table = history(tmp_path, kind)
    for name in table.log.glob("*.checkpoint.*"):
        name.unlink()
    paths = table.checkpoint(kind)
    table.clean_up()
    table.commit([add("newest.parquet")])
    damage(paths[victim])
    listed = not (damage is missing and (kind == "v1" or victim == -1 or kind == "v1-multipart"))
    messages = fails_without_seeming_complete(table, CorruptCheckpointError if listed else DeltaSidecarError)
    if listed:
        for message in messages:
            assert paths[victim].name in message or paths[-1].name in message


@pytest.mark.parametrize("hint", [True, False])
def test_the_log_before_a_torn_checkpoint_may_be_gone_whatever_the_hint_says(tmp_path: Path, *, hint: bool) -> None:
    table = TableBuilder(tmp_path)
    table.commit([add("a.parquet")])
    table.commit([add("b.parquet")])
    (path,) = table.checkpoint(last_checkpoint=hint)
    table.clean_up()
    table.commit([add("c.parquet")])
    halved(path)
    for message in fails_without_seeming_complete(table, CorruptCheckpointError):
        assert path.name in message


def test_the_second_of_two_checkpoints_of_one_version_is_used_where_the_first_is_torn(tmp_path: Path) -> None:
    table = history(tmp_path)
    (classic,) = table.checkpoint("v1")
    table.checkpoint("v2-parquet")
    table.clean_up()
    for name in table.log.glob(f"{3:020}.checkpoint.*"):
        name.unlink()
    halved(classic)
    agrees_with_model(table)


def test_every_checkpoint_torn_leaves_the_commits(tmp_path: Path) -> None:
    table = history(tmp_path)
    table.checkpoint("v1-multipart")
    table.commit([add("newest.parquet")])
    table.checkpoint("v2-json")
    for path in [*table.log.glob("*.checkpoint.*"), *table.log.glob("_sidecars/*")]:
        halved(path)
    agrees_with_model(table)


@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize("kind", ["v1", "v1-multipart", "v2-parquet"])
def test_a_checkpoint_that_breaks_in_the_middle_fails_and_is_named(tmp_path: Path, kind: str, strategy: str) -> None:
    table = TableBuilder(tmp_path, protocol=V2)
    rows = [{"id": 1, "value": "x"}]
    table.commit([add(f"{number:05}.parquet", rows=rows) for number in range(200)])
    paths = table.checkpoint(kind, row_group_rows=50)
    table.commit([add("tail.parquet")])
    victim = paths[0]
    _break_last_page(victim, "add.path")
    found: list[DeltaFile] = []
    with pytest.raises(CorruptCheckpointError, match=victim.name):
        found.extend(scanner(table, strategy=strategy).scan_files())
    assert set(keys_of(found)) < set(table.model_files())


@pytest.mark.parametrize("kind", KINDS)
def test_a_checkpoint_out_of_reach_is_no_torn_one(tmp_path: Path, kind: str) -> None:
    table = history(tmp_path, kind)
    recording = RecordingStore(FaultStore(store_of(table), Fail("*.checkpoint.*", "get")))
    for strategy in STRATEGIES:
        with pytest.raises(DeltaSidecarError, match=r"checkpoint.*injected: 500"):
            scan(table, recording, strategy=strategy)
    assert commit_path(0) not in recording.paths("get")


@pytest.mark.parametrize(
    "named", ["../../x", "..%2F..%2Fx", "/etc/passwd", "file:///etc/passwd", "..", "", "a/../../b"]
)
@pytest.mark.parametrize("kind", ["v2-json", "v2-parquet"])
def test_a_checkpoint_sidecar_outside_of_its_folder_is_not_read(tmp_path: Path, kind: str, named: str) -> None:
    table = history(tmp_path, kind)
    top = next(table.log.glob("*.checkpoint.*"))
    first = next((table.log / "_sidecars").iterdir())
    first.rename(tmp_path / "x")
    _rename_sidecar(top, first.name, named)
    store = RecordingStore(store_of(table))
    for strategy in STRATEGIES:
        try:
            found = scan(table, store, strategy=strategy)
        except DeltaSidecarError:
            continue
        assert keys_of(found) == sorted(table.model_files(), key=repr)
    assert all(path.startswith("_delta_log/") and ".." not in path.split("/")[:-1] for path in store.paths("get"))


def _break_last_page(path: Path, column: str) -> None:
    """Writes over the data of the last row group's chunk of a column: its footer stays whole."""
    metadata = pq.ParquetFile(path).metadata
    group = metadata.row_group(metadata.num_row_groups - 1)
    chunk = next(group.column(i) for i in range(group.num_columns) if group.column(i).path_in_schema == column)
    start = chunk.data_page_offset
    data = bytearray(path.read_bytes())
    data[start : start + chunk.total_compressed_size // 2] = b"\xff" * (chunk.total_compressed_size // 2)
    path.write_bytes(data)


def _rename_sidecar(top: Path, name: str, new: str) -> None:
    if top.suffix == ".json":
        top.write_text(top.read_text().replace(json.dumps(name), json.dumps(new)))
        return
    schema = pq.read_schema(top)
    rows = pq.read_table(top).to_pylist()
    for row in rows:
        if row["sidecar"] and row["sidecar"]["path"] == name:
            row["sidecar"]["path"] = new
    pq.write_table(pa.Table.from_pylist(rows, schema=schema), top)
