"""Parts of a sidecar: attempts at one part, both kinds of files, and what the driver makes of the records."""

from __future__ import annotations

import datetime as dt
import pickle
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest
from msgspec.structs import replace
from tests.build.reading_back import read_back
from tests.builder import TableBuilder, add

from delta_sidecar.build import build_sidecar as build_locally
from delta_sidecar.build.builder import manifest_facts
from delta_sidecar.build.live_rows import RowMaker
from delta_sidecar.errors import BuildError, StorageError
from delta_sidecar.execute import LocalExecutor
from delta_sidecar.log.actions import ADD_SCHEMA
from delta_sidecar.log.names import SIDECAR_FOLDER, parse_sidecar_name
from delta_sidecar.plan import StateMachineIterator
from delta_sidecar.replay.bases.sidecar import VersionProof
from delta_sidecar.replay.open import Opening
from delta_sidecar.replay.snapshot import open_snapshot
from delta_sidecar.sidecar.layout import lay_out
from delta_sidecar.spark.build import PartWriter, actions_of, joined_records
from delta_sidecar.spark.spark_errors import build_failure, build_failures
from delta_sidecar.store import open_store

if TYPE_CHECKING:
    from pathlib import Path

    from delta_sidecar.sidecar.manifest import Manifest
    from delta_sidecar.spark.build import PartRecord

CALL = "An error occurred while calling o1.x.\n"
PYTHON = "It was thrown.\nTraceback (most recent call last):\n  File x, line 1\n    f()\n"
OURS = "delta_sidecar.errors"
MOMENT = dt.datetime(2026, 1, 1, tzinfo=dt.UTC)


def written(root: Path, count: int = 10) -> tuple[PartWriter, Manifest, pa.RecordBatch]:
    """A table, a writer of its parts, and its files in order, every third one without statistics."""
    table = TableBuilder(root, schema={"at": "timestamp", "hour": "string"}, partition_columns=["hour"])
    actions = [
        add(
            f"{number:03}",
            partition_values={"hour": f"{number // 2:02}"},
            rows=[{"at": MOMENT, "hour": "x"}] if number % 3 else [],
            tags={"n": str(number)},
        )
        for number in range(count)
    ]
    table.commit(actions)
    store = open_store(root)
    opening = Opening(store.url, None, whole_tail=True, whole_base=True, sidecars=False)
    snapshot = StateMachineIterator(open_snapshot(opening), LocalExecutor(store)).run_to_terminal()
    layout = lay_out(snapshot.columns, snapshot.metadata.configuration, bucket="hour")
    maker = RowMaker(layout, snapshot.columns.instants, "spark")
    rows = [{**each["add"], "partitionValues": list(each["add"]["partitionValues"].items())} for each in actions]
    rows = [{**row, "tags": list(row["tags"].items())} for row in rows]
    writer = PartWriter(store, maker, 0, "abc", rows_per_group=2)
    return writer, manifest_facts(snapshot, layout, VersionProof(None)), pa.RecordBatch.from_pylist(rows, ADD_SCHEMA)


def record(writer: PartWriter, batch: pa.RecordBatch, part: int = 0, attempt: int = 0) -> PartRecord:
    found = writer.write([batch], part, attempt)
    assert found is not None
    return found


def test_a_part_has_the_pieces_that_the_local_build_makes(tmp_path: Path) -> None:
    writer, facts, batch = written(tmp_path)
    made = record(writer, batch, 3, 17)
    assert made.file.name == "v0.abc.00003-17.parquet"
    parts = joined_records([made], facts)
    assert build_locally(tmp_path, rows_per_group=2, bucket_column="hour").files == parts.num_files == 10
    local = read_back(tmp_path, 0)
    assert [replace(group, file=0) for group in parts.row_groups] == local.groups
    # Both have the same pieces; only what the footer says of the whole differs.
    end = sum(group.byte_length + group.stats_length for group in parts.row_groups)
    part = (tmp_path / SIDECAR_FOLDER / made.file.name).read_bytes()
    assert part[:end] == (tmp_path / SIDECAR_FOLDER / "v0.parquet").read_bytes()[:end]


def test_files_of_one_kind_only(tmp_path: Path) -> None:
    writer, facts, batch = written(tmp_path)
    complete = batch.filter(pa.array([bool(number % 3) for number in range(10)]))
    others = batch.filter(pa.array([not number % 3 for number in range(10)]))
    for number, kind in enumerate((complete, others)):
        parts = joined_records([record(writer, kind, number)], facts)
        assert {group.first_key[0] for group in parts.row_groups} == {1 - number}
        assert parts.num_files == kind.num_rows


def test_a_task_without_files_writes_nothing(tmp_path: Path) -> None:
    writer, _, batch = written(tmp_path)
    assert writer.write([], 0, 0) is None
    assert writer.write([batch.slice(0, 0)], 0, 0) is None
    assert not (tmp_path / SIDECAR_FOLDER).exists()


def test_two_attempts_write_two_files(tmp_path: Path) -> None:
    writer, facts, batch = written(tmp_path)
    first, second = record(writer, batch, 0, 4), record(writer, batch, 0, 5_000_000_017)
    names = sorted(path.name for path in (tmp_path / SIDECAR_FOLDER).iterdir())
    assert names == ["v0.abc.00000-17.parquet", "v0.abc.00000-4.parquet"]
    assert all(parse_sidecar_name(name) for name in names)
    assert joined_records([first], facts).row_groups == joined_records([second], facts).row_groups
    with pytest.raises(StorageError):
        writer.write([batch], 0, 4)


def test_parts_come_in_any_order_and_incomplete_files_first(tmp_path: Path) -> None:
    writer, facts, batch = written(tmp_path)
    records = [record(writer, batch.slice(start, 4), start // 4) for start in (0, 4, 8)]
    parts = joined_records(records[::-1], facts)
    assert [each.name for each in parts.files] == [each.file.name for each in records]
    assert [group.index for group in parts.row_groups] == list(range(len(parts.row_groups)))
    keys = [key for group in parts.row_groups for key in (group.first_key, group.last_key)]
    assert keys == sorted(keys)
    assert [group.file for group in parts.row_groups] == [0, 1, 2, 0, 1, 1, 2][: len(parts.row_groups)]


def test_parts_out_of_order_are_refused(tmp_path: Path) -> None:
    writer, facts, batch = written(tmp_path)
    ahead, behind = record(writer, batch.slice(5), 0), record(writer, batch.slice(0, 5), 1)
    with pytest.raises(BuildError, match="out of order"):
        joined_records([ahead, behind], facts)
    twice = record(writer, batch.slice(0, 5), 2)
    with pytest.raises(BuildError, match="out of order"):
        joined_records([behind, twice], facts)


def test_a_writer_travels(tmp_path: Path) -> None:
    writer, facts, batch = written(tmp_path)
    travelled = pickle.loads(pickle.dumps(writer))  # noqa: S301 - our own
    assert joined_records([record(travelled, batch)], facts).num_files == 10


def test_types_that_spark_may_choose(tmp_path: Path) -> None:
    _, _, batch = written(tmp_path)
    large = pa.map_(pa.large_string(), pa.large_string())
    columns = {
        "path": batch.column("path").cast(pa.large_string()),
        "partitionValues": batch.column("partitionValues").cast(large),
        "stats": batch.column("stats").cast(pa.large_string()),
    }
    names = batch.schema.names
    other = pa.RecordBatch.from_arrays([columns.get(name, batch.column(name)) for name in names], names=names)
    assert actions_of(other).equals(batch)


@pytest.mark.parametrize(
    ("text", "kind", "said"),
    [
        (f"[UDF_ERROR] thrown:\nTraceback\n{OURS}.StorageError: put sig=abc%3D failed\n", StorageError, "put sig="),
        (f"{CALL}: java.lang.Error: a\nCaused by: java.io.IOException: disk full\n\tat", BuildError, "disk full"),
        (f"{PYTHON}ModuleNotFoundError: No module named 'delta_sidecar'\n", BuildError, "on the executors"),
        (f"{CALL}: x.PythonException: {PYTHON}MemoryError\n\n\tat x.y(z)\nCaused by: q", BuildError, "MemoryError."),
        ("[DELTA_LOG_GONE] it is gone. SQLSTATE: 1", BuildError, "DELTA_LOG_GONE"),
        ("delta_sidecar.errors.Nonsense: x", BuildError, "Nothing was published"),
    ],
)
def test_failures_in_our_words(text: str, kind: type, said: str) -> None:
    found = build_failure(RuntimeError(text), "table")
    assert type(found) is kind
    assert said in str(found)
    assert "abc%3D" not in str(found)


def test_a_jvm_that_is_gone() -> None:
    with pytest.raises(BuildError, match="JVM of Spark is gone"), build_failures("table"):
        raise ConnectionRefusedError
