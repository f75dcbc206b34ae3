"""Logs as some writers make them, right by the protocol or nearly so."""

from __future__ import annotations

import datetime as dt
import json
from decimal import Decimal
from typing import TYPE_CHECKING

import deltalake
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.builder import TableBuilder, add, metadata, protocol

from delta_sidecar import CorruptCommitError, LazyDeltaScanner, LazyScanConfig, UnsupportedFeatureError

if TYPE_CHECKING:
    from pathlib import Path


def found(path: Path, **config: object) -> set[str]:
    answers = [
        {file.path for file in LazyDeltaScanner(path, LazyScanConfig(strategy=strategy, **config)).scan_files()}
        for strategy in ("reverse", "forward")
    ]
    assert answers[0] == answers[1]
    return answers[0]


def first_part(log: Path, version: int) -> Path:
    return log / f"{version:020}.checkpoint.parquet"


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        (pa.decimal128(20, 0), Decimal(9007199254740993)),
        (pa.decimal128(18, 2), Decimal("1234567890123456.79")),
        (pa.decimal128(38, 10), Decimal("-1234567890123456789.0123456789")),
        (pa.decimal128(38, 0), Decimal(10**38 - 1)),
    ],
)
def test_decimals_that_a_writer_sent_through_a_double_are_found(
    tmp_path: Path, kind: pa.DataType, value: Decimal
) -> None:
    deltalake.write_deltalake(tmp_path, pa.table({"d": pa.array([value], kind)}))
    for operator in ("=", ">=", "<="):
        assert len(found(tmp_path, predicate=f"d {operator} {value:f}")) == 1


def test_decimals_still_prune(tmp_path: Path) -> None:
    deltalake.write_deltalake(tmp_path, pa.table({"d": pa.array([Decimal("100.00")], pa.decimal128(38, 2))}))
    assert found(tmp_path, predicate="d > 101") == set()
    assert found(tmp_path, predicate="d < 99") == set()


def test_timestamps_of_the_oldest_kind_in_struct_statistics(tmp_path: Path) -> None:
    table = TableBuilder(tmp_path, schema={"at": "timestamp"})
    table.commit([add("a.parquet", stats=json.dumps({"numRecords": 1}))])
    table.checkpoint("v1")
    part = first_part(table.log, table.version)
    moments = [dt.datetime(2026, 2, 10, 22, tzinfo=dt.UTC), dt.datetime(9999, 12, 31, tzinfo=dt.UTC)]
    rows = pq.read_table(part).to_pylist()
    kind = pa.struct({"at": pa.timestamp("us")})
    stats = pa.struct({"numRecords": pa.int64(), "minValues": kind, "maxValues": kind})
    for row in rows:
        if row["add"] is not None:
            row["add"]["stats"] = None
            lower, upper = ({"at": moment.replace(tzinfo=None)} for moment in moments)
            row["add"]["stats_parsed"] = {"numRecords": 1, "minValues": lower, "maxValues": upper}
    schema = pq.read_schema(part).remove_metadata()
    add_field = pa.field("add", pa.struct([*schema.field("add").type, pa.field("stats_parsed", stats)]))
    schema = schema.set(schema.get_field_index("add"), add_field)
    written = pa.Table.from_pylist(rows, schema=schema)
    pq.write_table(written, part, use_deprecated_int96_timestamps=True)
    table.last_checkpoint(None)
    (file,) = LazyDeltaScanner(tmp_path).scan_files()
    texts = json.loads(file.stats or "{}")
    assert dt.datetime.fromisoformat(texts["minValues"]["at"]) == moments[0]
    assert dt.datetime.fromisoformat(texts["maxValues"]["at"]) == moments[1]
    assert found(tmp_path, predicate="at < '2026-02-10T21:00:00Z'") == set()
    assert found(tmp_path, predicate="at > '9999-01-01T00:00:00Z'") == {"a.parquet"}


def test_partition_values_that_a_checkpoint_has_only_as_columns(tmp_path: Path) -> None:
    table = TableBuilder(tmp_path, partition_columns=["day"], schema={"id": "long", "day": "date"})
    table.commit([add(f"{day}.parquet", partition_values={"day": day}) for day in ("2026-02-08", "2026-02-09")])
    table.checkpoint("v1")
    part = first_part(table.log, table.version)
    rows = pq.read_table(part).to_pylist()
    schema = pq.read_schema(part).remove_metadata()
    fields = [field for field in schema.field("add").type if field.name != "partitionValues"]
    fields.append(pa.field("partitionValues_parsed", pa.struct({"day": pa.date32()})))
    for row in rows:
        if row["add"] is not None:
            (_, day), *_ = row["add"].pop("partitionValues")
            row["add"]["partitionValues_parsed"] = {"day": dt.date.fromisoformat(day)}
    schema = schema.set(schema.get_field_index("add"), pa.field("add", pa.struct(fields)))
    pq.write_table(pa.Table.from_pylist(rows, schema=schema), part)
    table.last_checkpoint(None)
    assert found(tmp_path, predicate="day = '2026-02-09'") == {"2026-02-09.parquet"}
    values = {file.path: dict(file.partition_values) for file in LazyDeltaScanner(tmp_path).scan_files()}
    assert values["2026-02-08.parquet"] == {"day": "2026-02-08"}


def test_a_partition_column_in_another_case_than_the_schema(tmp_path: Path) -> None:
    table = TableBuilder(tmp_path, schema={"id": "long", "day": "string"})
    changed = metadata({"id": "long", "day": "string"}, partition_columns=["Day"])
    table.commit([changed, add("x.parquet", partition_values={"Day": "x"})])
    assert found(tmp_path, predicate="day = 'x'") == {"x.parquet"}
    assert found(tmp_path, predicate="day = 'y'") == set()


def test_a_checkpoint_whose_every_row_has_all_structs(tmp_path: Path) -> None:
    table = TableBuilder(tmp_path)
    table.commit([add("a.parquet"), add("b.parquet")])
    table.checkpoint("v1")
    part = first_part(table.log, table.version)
    schema = pq.read_schema(part).remove_metadata()
    empty = {field.name: {child.name: None for child in field.type} for field in schema}
    read = pq.read_table(part).to_pylist()
    rows = [{name: empty[name] if value is None else value for name, value in row.items()} for row in read]
    pq.write_table(pa.Table.from_pylist(rows, schema=schema), part)
    table.delete_commit(0)
    assert found(tmp_path) == {"a.parquet", "b.parquet"}


@pytest.mark.parametrize("content", [b"", b"\n", b"  \n\n"])
def test_a_commit_without_an_action_is_torn(tmp_path: Path, content: bytes) -> None:
    table = TableBuilder(tmp_path)
    table.commit([add("a.parquet")])
    (table.log / f"{1:020}.json").write_bytes(content)
    with pytest.raises(CorruptCommitError, match="commit 1 "):
        found(tmp_path)


def test_a_protocol_under_an_escaped_name_is_seen(tmp_path: Path) -> None:
    table = TableBuilder(tmp_path)
    table.commit([add("a.parquet")])
    line = json.dumps(protocol(features=["catalogManaged"]))
    (table.log / f"{1:020}.json").write_text(line.replace('"protocol"', '"\\u0070rotocol"') + "\n")
    with pytest.raises(UnsupportedFeatureError, match="catalogManaged"):
        found(tmp_path)


def test_a_checksum_file_with_a_broken_schema_is_passed_over(tmp_path: Path) -> None:
    table = TableBuilder(tmp_path, partition_columns=["day"], schema={"id": "long", "day": "string"})
    table.commit([add("x.parquet", partition_values={"day": "x"})])
    path = table.checksum()
    content = json.loads(path.read_text())
    content["metadata"]["schemaString"] = "{"
    path.write_text(json.dumps(content))
    assert found(tmp_path, predicate="day = 'x'") == {"x.parquet"}
