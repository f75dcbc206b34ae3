"""The builder writes tables that an independent reader reads as the builder's model says."""

from __future__ import annotations

import json
from itertools import product
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable
from tests.builder import TableBuilder, add, canonical_path, deletion_vector, metadata, protocol, remove, txn

if TYPE_CHECKING:
    from pathlib import Path

V2 = protocol(features=["v2Checkpoint", "deletionVectors"])
KINDS = ["v1", "v1-multipart", "v2-json", "v2-parquet", "v2-classic"]


def independent_files(table: TableBuilder, version: int | None = None) -> set[str]:
    found = pa.table(DeltaTable(table.root, version=version).get_add_actions())
    return {canonical_path(path) for path in found["path"].to_pylist()}


def model_paths(table: TableBuilder, version: int | None = None) -> set[str]:
    return {path for path, _ in table.model_files(version)}


def sample(root: Path, protocol: dict[str, Any] | None = None) -> TableBuilder:
    table = TableBuilder(
        root, partition_columns=["day"], schema={"id": "long", "name": "string", "day": "date"}, protocol=protocol
    )
    for number, day in enumerate(["2026-02-10", None, "2026-02-11"]):
        rows = [{"id": number * 10 + place, "name": "x" * 40} for place in range(3)]
        table.commit([add(f"a%20b-{number}.parquet", rows=rows, partition_values={"day": day})])
    table.commit([remove("a%20b-0.parquet"), add("new.parquet", partition_values={"day": "2026-02-12"})])
    table.commit([txn("stream", 4)])
    return table


def test_commits_without_a_checkpoint_are_read_alike(tmp_path: Path) -> None:
    table = sample(tmp_path)

    assert model_paths(table) == {"a b-1.parquet", "a b-2.parquet", "new.parquet"}
    for version in table.readable_versions():
        assert independent_files(table, version) == model_paths(table, version)


@pytest.mark.parametrize("kind", KINDS)
def test_checkpoints_are_read_alike_without_the_commits_before(
    tmp_path: Path, kind: str, subtests: pytest.Subtests
) -> None:
    for number, values in enumerate(product([False, True], repeat=3)):
        form = dict(zip(("struct_stats", "json_stats", "last_checkpoint"), values, strict=True))
        with subtests.test(str(form)):
            table = sample(tmp_path / str(number), protocol=V2 if kind.startswith("v2") else None)
            table.checkpoint(kind, row_group_rows=2, **form)
            table.clean_up()
            table.commit([add("tail.parquet", partition_values={"day": "2026-02-13"}), remove("a%20b-1.parquet")])

            assert table.readable_versions() == [4, 5]
            assert independent_files(table) == {"a b-2.parquet", "new.parquet", "tail.parquet"} == model_paths(table)


@pytest.mark.parametrize("kind", ["v2-json", "v2-parquet", "v2-classic"])
def test_v2_checkpoints_may_hold_the_files_themselves(tmp_path: Path, kind: str) -> None:
    table = sample(tmp_path, protocol=V2)
    table.checkpoint(kind, sidecars=0, top_last=True)
    table.clean_up()

    assert not (table.log / "_sidecars").exists()
    assert independent_files(table) == model_paths(table)


def test_struct_statistics_are_those_of_the_json(tmp_path: Path) -> None:
    table = sample(tmp_path)
    (path,) = table.checkpoint(struct_stats=True, json_stats=False)
    rows = [row["add"] for row in pq.read_table(path).to_pylist() if row["add"]]

    parsed = next(row for row in rows if row["path"] == "a%20b-2.parquet")
    stats = json.loads(table.model_files()["a b-2.parquet", None]["stats"])
    assert "stats" not in parsed
    assert parsed["stats_parsed"]["minValues"] == stats["minValues"] == {"id": 20, "name": "x" * 32}
    assert parsed["stats_parsed"]["maxValues"] == stats["maxValues"]
    assert parsed["partitionValues_parsed"]["day"].isoformat() == "2026-02-11"


def test_tombstones_are_in_the_checkpoint_only_when_asked_for(tmp_path: Path) -> None:
    table = sample(tmp_path)

    def removed(*, tombstones: bool) -> list[str]:
        (path,) = table.checkpoint(tombstones=tombstones)
        return [row["remove"]["path"] for row in pq.read_table(path).to_pylist() if row["remove"]]

    assert removed(tombstones=True) == ["a%20b-0.parquet"]
    assert removed(tombstones=False) == []


def test_the_newest_action_for_a_key_wins_and_an_add_outlives_a_remove_beside_it(tmp_path: Path) -> None:
    table = TableBuilder(tmp_path)
    table.commit([add("a.parquet", size=1), add("/abs/b.parquet")])
    table.commit([add("a.parquet", size=2), remove("a.parquet")])
    table.commit([remove("file:///abs/b.parquet")])

    assert {key: action["size"] for key, action in table.model_files().items()} == {("a.parquet", None): 2}
    assert ("/abs/b.parquet", None) in table.model_files(1)


def test_a_deletion_vector_makes_another_logical_file(tmp_path: Path) -> None:
    table = TableBuilder(tmp_path, protocol=V2)
    rows = [{"id": number} for number in range(3)]
    vector = deletion_vector("one")
    table.commit([add("a.parquet", rows=rows)])
    table.commit([remove("a.parquet"), add("a.parquet", rows=rows, deleted=[1], dv=vector)])
    ((key, action),) = table.model_files().items()

    assert key == ("a.parquet", f"u{vector['pathOrInlineDv']}@1")
    assert action.rows == ({"id": 0}, {"id": 2})
    assert independent_files(table) == {"a.parquet"}


@pytest.mark.parametrize(
    ("raw", "canonical"),
    [
        ("a%20b+c.parquet", "a b+c.parquet"),
        ("x%2520y", "x%20y"),
        ("/p", "/p"),
        ("file:/p", "/p"),
        ("file:///p%20q", "/p q"),
        ("s3://bucket/p", "s3://bucket/p"),
    ],
)
def test_canonical_paths(raw: str, canonical: str) -> None:
    assert canonical_path(raw) == canonical


def test_checksum_says_what_the_model_says(tmp_path: Path) -> None:
    table = sample(tmp_path)
    table.commit([metadata({"id": "long"}, table_id="second")])
    checksum = json.loads(table.checksum().read_text())

    assert checksum["numFiles"] == 3
    assert checksum["metadata"]["id"] == "second"
    assert checksum["protocol"] == {"minReaderVersion": 1, "minWriterVersion": 2}


def test_faults_are_made_on_disk_only(tmp_path: Path) -> None:
    table = sample(tmp_path)
    before = model_paths(table)
    table.tear(table.commit_path(4), 10)
    table.delete_commit(2)
    table.last_checkpoint("{not json")

    assert table.commit_path(4).stat().st_size == 10
    assert not table.commit_path(2).exists()
    assert table.readable_versions() == [0, 1]
    assert model_paths(table) == before
