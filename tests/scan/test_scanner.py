from __future__ import annotations

import json
import pickle
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest
from tests.builder import TableBuilder, add, deletion_vector, metadata, protocol, remove
from tests.scan.reading import STRATEGIES, agrees_with_model, scan, scanner

from delta_sidecar import (
    DeletionVector,
    DeltaFile,
    LazyDeltaScanner,
    LazyScanConfig,
    OptionError,
    PredicateError,
    ScanStrategy,
    VersionNotFoundError,
)
from delta_sidecar.events import Event, SnapshotOpened
from delta_sidecar.replay.files import FILE_SCHEMA

if TYPE_CHECKING:
    from pathlib import Path

FEATURES = protocol(features=["v2Checkpoint", "deletionVectors"])


@pytest.fixture
def table(tmp_path: Path) -> TableBuilder:
    """25 files over five commits, with a checkpoint in the middle."""
    table = TableBuilder(tmp_path, protocol=FEATURES)
    for version in range(5):
        table.commit([add(f"{version}-{number}.parquet", rows=[{"id": version}]) for number in range(5)])
        if version == 2:
            table.checkpoint()
    return table


@pytest.mark.parametrize("limit", [1, 4, 5, 6, 12, 24, 25, 26, 1_000])
@pytest.mark.parametrize("strategy", STRATEGIES)
def test_a_limit_gives_so_many_live_files(table: TableBuilder, limit: int, strategy: str) -> None:
    found = scan(table, limit=limit, strategy=strategy)
    assert len({file.path for file in found}) == len(found) == min(limit, 25)
    assert {file.path for file in found} <= {path for path, _ in table.model_files()}


@pytest.mark.parametrize("size", [1, 2, 3, 5, 8192])
def test_batches_have_at_most_so_many_rows(table: TableBuilder, size: int) -> None:
    reader = scanner(table, batch_size=size).scan_batches()
    assert reader.schema == FILE_SCHEMA
    batches = list(reader)
    assert sum(batch.num_rows for batch in batches) == 25
    assert all(0 < batch.num_rows <= size for batch in batches)
    limited = list(scanner(table, batch_size=size, limit=7).scan_batches())
    assert sum(batch.num_rows for batch in limited) == 7


@pytest.mark.parametrize("version", range(5))
def test_every_version(table: TableBuilder, version: int) -> None:
    agrees_with_model(table, version=version)
    assert scanner(table, version=version).snapshot().version == version


def test_a_version_that_is_not_there(table: TableBuilder) -> None:
    with pytest.raises(VersionNotFoundError, match="5"):
        scan(table, version=5)
    table.clean_up()
    with pytest.raises(VersionNotFoundError, match="version 1"):
        scan(table, version=1)
    agrees_with_model(table, version=2)


def test_a_file_with_everything(tmp_path: Path) -> None:
    schema = {"fields": [_mapped("Day", "date", "col-1", 1), _mapped("id", "long", "col-2", 2)], "type": "struct"}
    table = TableBuilder(
        tmp_path,
        partition_columns=["Day"],
        schema=schema,
        protocol=protocol(features=["columnMapping", "deletionVectors", "v2Checkpoint"]),
        configuration={"delta.columnMapping.mode": "name"},
    )
    vector = deletion_vector("x", cardinality=3)
    action = add(
        "a%20b/c%2520.parquet",
        partition_values={"col-1": "2026-02-10"},
        stats={"numRecords": 7, "minValues": {"col-2": 1}, "maxValues": {"col-2": 5}, "nullCount": {"col-2": 0}},
        dv=vector,
        tags={"ZCUBE": 'a "quoted" {tag}', "none": None, "tags": "{}"},
        size=2**40,
        modification_time=12,
        baseRowId=100,
        defaultRowCommitVersion=4,
        clusteringProvider="liquid",
    )
    expected = DeltaFile(
        path="a b/c%20.parquet",
        raw_path="a%20b/c%2520.parquet",
        size=2**40,
        modification_time=12,
        partition_values={"Day": "2026-02-10"},
        stats=action["add"]["stats"],
        deletion_vector=DeletionVector("u", vector["pathOrInlineDv"], 1, 36, 3),
        tags={"ZCUBE": 'a "quoted" {tag}', "none": None, "tags": "{}"},
        base_row_id=100,
        default_row_commit_version=4,
        clustering_provider="liquid",
    )
    table.commit([action])
    assert scan(table) == [expected]
    assert expected.num_records == 7
    for kind in ("v1", "v1-multipart", "v2-json", "v2-parquet"):
        for path in table.log.glob("*.checkpoint.*"):
            path.unlink()
        table.checkpoint(kind)
        for strategy in STRATEGIES:
            assert scan(table, strategy=strategy) == [expected], kind
            assert scan(table, strategy=strategy, predicate="Day = '2026-02-10' AND id = 3") == [expected]
            assert scan(table, strategy=strategy, predicate="id = 6") == []
    assert pickle.loads(pickle.dumps(expected)) == expected  # noqa: S301


def _mapped(name: str, kind: str, physical: str, number: int) -> dict[str, object]:
    mapping = {"delta.columnMapping.physicalName": physical, "delta.columnMapping.id": number}
    return {"name": name, "type": kind, "nullable": True, "metadata": mapping}


@pytest.mark.parametrize("kind", ["v1", "v2-json", "v2-parquet"])
@pytest.mark.parametrize("json_stats", [True, False])
def test_tags_statistics_and_vectors_come_alike_out_of_a_checkpoint(
    tmp_path: Path, kind: str, *, json_stats: bool
) -> None:
    table = TableBuilder(tmp_path, protocol=FEATURES)
    rows = [{"id": 1, "value": 'a "q" \\ \n'}, {"id": None, "value": None}]
    table.commit([add("a", rows=rows, tags={"k": "v\n"}), add("b", rows=rows, dv=deletion_vector("b")), add("c")])
    before = sorted(scan(table), key=lambda file: file.path)
    table.checkpoint(kind, struct_stats=True, json_stats=json_stats)
    table.clean_up(inclusive=True)
    after = sorted(scan(table), key=lambda file: file.path)
    assert [file.tags for file in after] == [{"k": "v\n"}, None, None]
    assert [file.deletion_vector for file in after] == [file.deletion_vector for file in before]
    if json_stats or kind != "v2-json" or (table.log / "_sidecars").exists():
        statistics = [[None if f.stats is None else json.loads(f.stats) for f in files] for files in (after, before)]
        assert statistics[0] == statistics[1]


@pytest.mark.parametrize("stats", [None, "", "{", "[]", '{"numRecords":"7"}', '{"numRecords":7.5}', "null"])
def test_the_number_of_records_may_be_unknown(stats: str | None) -> None:
    assert DeltaFile("a", "a", 1, 1, {}, stats).num_records is None


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("limit", -1),
        ("limit", 1.5),
        ("limit", True),
        ("version", -1),
        ("version", "1"),
        ("batch_size", 0),
        ("commit_read_parallelism", 0),
        ("checkpoint_row_groups_per_batch", 0),
        ("strategy", "sideways"),
        ("strategy", 7),
        ("order", "newest"),
        ("remove_set_memory_limit", "much"),
        ("remove_set_memory_limit", -1),
        ("remove_set_memory_limit", "17GB"),
        ("strict", "perhaps"),
        ("bucket_column", ""),
        ("retention_guard", "maybe"),
        ("timestamp", "yesterday"),
        ("timestamp", 5),
    ],
)
def test_values_that_make_no_sense_are_refused(name: str, value: object) -> None:
    with pytest.raises(OptionError, match=name):
        LazyScanConfig(**{name: value})


def test_a_configuration() -> None:
    assert LazyScanConfig(strategy="FORWARD").strategy is ScanStrategy.FORWARD
    config = LazyScanConfig(predicate=[("a", "=", 1)], limit=0)
    assert pickle.loads(pickle.dumps(config)) == config  # noqa: S301
    assert str(config.parsed_predicate) == "a = 1"
    with pytest.raises(PredicateError):
        LazyScanConfig(predicate="a = = 1")


def test_a_scanner_shows_its_table_and_no_secret() -> None:
    options = {"account_name": "acc", "account_key": "c2VjcmV0LXNlY3JldC1zZWNyZXQ="}
    made = LazyDeltaScanner("az://container/table", storage_options=options)
    assert "container/table" in repr(made)
    assert options["account_key"] not in repr(made)


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_a_column_that_is_not_there_is_an_error_before_any_file(table: TableBuilder, strategy: str) -> None:
    with pytest.raises(PredicateError, match="ide"):
        next(scanner(table, predicate="ide = 5", strategy=strategy).scan_files())


def test_a_snapshot_shows_the_table(tmp_path: Path) -> None:
    table = TableBuilder(tmp_path, partition_columns=["day"], schema={"id": "long", "day": "date"})
    table.commit()
    snapshot = scanner(table).snapshot()
    assert (snapshot.version, snapshot.partition_columns) == (0, ("day",))
    assert snapshot.schema == pa.schema([("id", pa.int64()), ("day", pa.date32())])
    assert snapshot.protocol.min_reader_version == 1
    assert snapshot.metadata.partition_columns == ("day",)
    assert pickle.loads(pickle.dumps(snapshot)) == snapshot  # noqa: S301


def test_a_table_may_be_empty(tmp_path: Path) -> None:
    table = TableBuilder(tmp_path, protocol=FEATURES)
    table.commit()
    agrees_with_model(table)
    for kind in ("v1", "v2-json", "v2-parquet"):
        table.checkpoint(kind)
        agrees_with_model(table)
    assert scanner(table).scan_batches().read_all().num_rows == 0


def test_a_table_that_is_replaced_has_only_its_new_files(table: TableBuilder) -> None:
    removed = [remove(path) for path, _ in table.model_files()]
    table.commit([metadata({"other": "string"}, table_id="new"), *removed, add("new.parquet", rows=[{"other": "x"}])])
    agrees_with_model(table)
    assert [file.path for file in scan(table, predicate="other = 'x'")] == ["new.parquet"]
    assert scan(table, predicate="other = 'y'") == []


def test_metrics_tell_what_a_scan_did(table: TableBuilder) -> None:
    made = scanner(table)
    assert made.metrics.requests.requests == 0
    assert not made.metrics.is_complete
    files = made.scan_files()
    next(files)
    assert made.metrics.version == 4
    assert not made.metrics.is_complete
    assert sum(1 for _ in files) == 24
    metrics = made.metrics
    assert (metrics.files_emitted, metrics.commits_read, metrics.base_version) == (25, 2, 2)
    assert (metrics.row_groups_read, metrics.is_complete) == (1, True)
    assert metrics.requests.gets > 0
    assert metrics.requests.lists >= 1


def test_a_listener_finds_the_version_in_the_metrics_as_soon_as_it_is_told(table: TableBuilder) -> None:
    known: list[int | None] = []

    def listen(event: Event) -> None:
        if isinstance(event, SnapshotOpened):
            known.append(reader.metrics.version)

    reader = LazyDeltaScanner(table.root, listeners=[listen])
    assert reader.snapshot().version == table.version
    assert list(reader.scan_files())
    assert known == [table.version] * 2
