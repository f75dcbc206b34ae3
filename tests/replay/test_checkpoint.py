"""Checkpoints as a base, phase by phase, with batches made by hand and no store."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from tests.builder import add
from tests.replay.canned import CannedExecutor, consumed, ended, follow, pickled
from tests.replay.handmade import (
    ENDS,
    METADATA,
    PROTOCOL,
    checkpoint_batch,
    checkpoint_path,
    commits,
    json_batch,
    segment_of,
    snapshot_of,
    top_batch,
)

from delta_sidecar.errors import CorruptCheckpointError, ObjectNotFoundError, StorageError, UnreadableFileError
from delta_sidecar.log.actions import TOP_SCHEMA, Metadata, Protocol
from delta_sidecar.log.names import LOG_FOLDER, commit_path
from delta_sidecar.plan import FileRef, ScanJson, ScanParquet
from delta_sidecar.replay.bases.checkpoint import CheckpointLeavesPhase, CheckpointTopPhase
from delta_sidecar.replay.scan import reverse_scan
from delta_sidecar.replay.snapshot import BaseChoice, Snapshot, bases_of

if TYPE_CHECKING:
    from delta_sidecar.plan import Plan


def top_phase(entries: list[tuple[str, int]], version: int, *, with_table: bool) -> CheckpointTopPhase[Any]:
    step = bases_of(segment_of(entries, version))[0].trust(ENDS, with_table=with_table)
    return consumed(step, CheckpointTopPhase)


def test_checkpoint_top_phase_reads_only_what_is_not_about_files() -> None:
    entries = [*commits(0, 4), (checkpoint_path(4), 9)]
    plan = top_phase(entries, 4, with_table=True).plan()
    assert isinstance(plan, ScanParquet)
    assert plan.files == (FileRef(checkpoint_path(4), 9),)
    assert plan.check
    assert {name.partition(".")[0] for name in plan.columns} == {"protocol", "metaData", "sidecar"}
    assert {name.partition(".")[0] for name in plan.non_null} == {"protocol", "metaData", "sidecar"}
    plan = top_phase(entries, 4, with_table=False).plan()
    assert {name.partition(".")[0] for name in plan.columns} == {"sidecar"}


def test_checkpoint_top_phase_of_a_v1_checkpoint_gives_its_parts_as_leaves() -> None:
    parts = [(checkpoint_path(4, f".{part:010}.0000000002"), part) for part in (1, 2)]
    phase = top_phase([*commits(0, 4), *parts], 4, with_table=True)
    meta = {"id": "x", "schemaString": "{}", "partitionColumns": ["p"], "configuration": [("k", "v")]}
    rows = [{"protocol": {"minReaderVersion": 1, "minWriterVersion": 2}}, {}, {"metaData": meta}]
    said, base = ended(pickled(phase.next(iter([top_batch(rows)]))))
    assert said == "trusted"
    assert base.leaves == tuple(FileRef(path, size) for path, size in parts)
    assert base.protocol == Protocol(1, 2)
    assert base.metadata == Metadata("x", "{}", ("p",), {"k": "v"})


def test_checkpoint_top_phase_passes_over_structs_without_values() -> None:
    phase = top_phase([*commits(0, 4), (checkpoint_path(4), 9)], 4, with_table=True)
    nothing = {"protocol": {"minReaderVersion": None, "minWriterVersion": None}}
    rows = [
        {"protocol": {"minReaderVersion": 1, "minWriterVersion": 2}},
        {"metaData": {"id": "x", "schemaString": "{}"}},
    ]
    _, base = ended(phase.next(iter([top_batch(rows), top_batch([nothing])])))
    assert (base.protocol, base.metadata) == (Protocol(1, 2), Metadata("x", "{}"))


@pytest.mark.parametrize("name", ["protocol", "metaData"])
def test_a_checkpoint_without_protocol_or_metadata_is_torn(name: str) -> None:
    phase = top_phase([*commits(0, 4), (checkpoint_path(4), 9)], 4, with_table=True)
    rows = {"protocol": {"minReaderVersion": 1, "minWriterVersion": 2}, "metaData": {"id": "x", "schemaString": "{}"}}
    said, file, _ = ended(phase.next(iter([top_batch([{name: rows[name]}])])))
    assert (said, file) == ("distrusted", f"{4:020}.checkpoint.parquet")


@pytest.mark.parametrize("with_table", [True, False])
def test_a_json_checkpoint_with_nothing_in_it_is_torn(*, with_table: bool) -> None:
    path = f"{LOG_FOLDER}{4:020}.checkpoint.80a083e8-7026-4e79-81be-64bd76c43a11.json"
    phase = top_phase([*commits(0, 4), (path, 0)], 4, with_table=with_table)
    assert ended(phase.next(iter([])))[0] == "distrusted"


def test_checkpoint_top_phase_goes_on_to_the_checkpoint_sidecars() -> None:
    listed = ("_delta_log/_sidecars/a b.parquet", 77)
    phase = top_phase([*commits(0, 4), (checkpoint_path(4), 9), listed], 4, with_table=False)
    rows = [
        {"sidecar": {"path": "a%20b.parquet", "sizeInBytes": 5}},
        {},
        {"sidecar": {"path": "x/../y", "sizeInBytes": 6}},
    ]
    leaves = consumed(phase.next(iter([top_batch(rows, ("sidecar",))])), CheckpointLeavesPhase)
    expected = (FileRef("_delta_log/_sidecars/a b.parquet", 77), FileRef("_delta_log/_sidecars/y", 6))
    assert leaves.sidecars == expected
    plan = leaves.plan()
    assert isinstance(plan, ScanParquet)
    assert (plan.files, plan.columns, plan.check) == (expected, (), True)
    said, base = ended(leaves.next(iter([])))
    assert (said, base.leaves) == ("trusted", (FileRef(checkpoint_path(4), 9), *expected))


def test_checkpoint_top_phase_of_a_json_checkpoint() -> None:
    path = f"{LOG_FOLDER}{4:020}.checkpoint.80a083e8-7026-4e79-81be-64bd76c43a11.json"
    phase = top_phase([*commits(0, 4), (path, 9)], 4, with_table=True)
    plan = phase.plan()
    assert isinstance(plan, ScanJson)
    assert (plan.files, plan.schema, plan.keep) == ((FileRef(path, 9),), TOP_SCHEMA, True)
    actions = [{"checkpointMetadata": {"version": 4}}, PROTOCOL, METADATA, {"sidecar": {"path": "s", "sizeInBytes": 1}}]
    leaves = consumed(phase.next(iter([json_batch(0, actions, TOP_SCHEMA)])), CheckpointLeavesPhase)
    assert leaves.base.protocol == Protocol(1, 2)
    assert leaves.base.metadata.partition_columns == ("day",)
    assert leaves.sidecars == (FileRef("_delta_log/_sidecars/s", 1),)


@pytest.mark.parametrize(
    ("cause", "torn"),
    [
        (ObjectNotFoundError("gone"), True),
        (pa.ArrowInvalid("no footer"), True),
        (OSError("page"), True),
        (None, True),
        (StorageError("500"), False),
    ],
)
def test_a_torn_checkpoint_is_no_base_and_one_out_of_reach_is_an_error(cause: Exception | None, *, torn: bool) -> None:
    error = UnreadableFileError("x", checkpoint_path(4))
    error.__cause__ = cause
    entries = [*commits(0, 4), (checkpoint_path(4), 9)]
    top = top_phase(entries, 4, with_table=True)
    leaves = CheckpointLeavesPhase(top.base, (), ENDS)
    expected = ("distrusted", f"{4:020}.checkpoint.parquet", UnreadableFileError)
    for phase in (top, leaves):
        if torn:
            assert ended(phase.recover(error)) == expected
        else:
            with pytest.raises(StorageError, match=checkpoint_path(4)):
                phase.recover(error)
    assert top.recover(ValueError("a bug")) is None


def test_checkpoint_replay_phase_names_the_file_that_fails() -> None:
    step = reverse_scan(snapshot_of(range(3), 2), None)
    replay = consumed(step, CheckpointTopPhase).next(iter([])).phase
    error = UnreadableFileError("x", checkpoint_path(2))
    error.__cause__ = pa.ArrowInvalid("page")
    with pytest.raises(CorruptCheckpointError, match=r"checkpoint.parquet"):
        replay.recover(error)
    error.__cause__ = StorageError("500")
    with pytest.raises(StorageError, match=r"checkpoint.parquet"):
        replay.recover(error)
    assert replay.recover(ValueError("a bug")) is None, "what is no failure to read stays what it is"


def test_checkpoint_replay_phase_reads_json_and_parquet_leaves_one_after_the_other() -> None:
    path = f"{LOG_FOLDER}{2:020}.checkpoint.80a083e8-7026-4e79-81be-64bd76c43a11.json"
    base = snapshot_of(range(3))
    segment = segment_of([*((commit_path(version), 1) for version in range(3)), (path, 9)], 2)
    snapshot = Snapshot("t", 2, base.protocol, base.metadata, base.columns, BaseChoice.of(segment))

    def answer(plan: Plan) -> Any:  # noqa: ANN401
        if isinstance(plan, ScanJson) and plan.schema == TOP_SCHEMA:
            actions = [PROTOCOL, METADATA, {"sidecar": {"path": "s.parquet", "sizeInBytes": 3}}]
            return [json_batch(0, actions, TOP_SCHEMA)]
        if isinstance(plan, ScanJson):
            return [json_batch(0, [add("in-json", partition_values={"day": "d"}, tags={"a": "b"})], plan.schema)]
        return [checkpoint_batch("in-sidecar")] if plan.columns else []

    names, batches, _ = follow(reverse_scan(snapshot, None), CannedExecutor(answer))
    assert names == ["CheckpointTopPhase", "CheckpointLeavesPhase", "CheckpointReplayPhase", "CheckpointReplayPhase"]
    rows = [row for batch in batches for row in batch.to_pylist()]
    assert [(row["path"], row["tags"]) for row in rows] == [("in-json", '{"a": "b"}'), ("in-sidecar", None)]
