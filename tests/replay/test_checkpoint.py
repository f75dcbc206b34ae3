"""Checkpoints as a base, with batches made by hand and no store."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from tests.builder import add
from tests.replay.canned import CannedExecutor, consumed, ended, follow, outline, pickled
from tests.replay.handmade import (
    METADATA,
    PROTOCOL,
    checkpoint_batch,
    checkpoint_path,
    commits,
    failing,
    json_batch,
    live,
    segment_of,
    snapshot_of,
    top_batch,
    unreadable,
)

from delta_sidecar.errors import CorruptCheckpointError, ObjectNotFoundError, StorageError, UnreadableFileError
from delta_sidecar.log.actions import TOP_SCHEMA, Metadata, Protocol
from delta_sidecar.log.names import LOG_FOLDER, commit_path
from delta_sidecar.plan import FileRef, ScanJson, ScanParquet, StateMachinePhase
from delta_sidecar.replay.bases.base import Torn
from delta_sidecar.replay.bases.choice import BaseChoice, bases_of
from delta_sidecar.replay.snapshot import Snapshot

if TYPE_CHECKING:
    from delta_sidecar.plan import Plan
    from delta_sidecar.replay.bases.base import Base

JSON_TOP = f"{LOG_FOLDER}{4:020}.checkpoint.80a083e8-7026-4e79-81be-64bd76c43a11.json"


def trusting(*entries: tuple[str, int], with_table: bool) -> StateMachinePhase[Base]:
    """Begins to trust the checkpoint of version 4, given its files."""
    (base,) = bases_of(segment_of([*commits(0, 4), *entries], 4))
    return StateMachinePhase(base.trust(with_table=with_table))


ONE_FILE = (checkpoint_path(4), 9)


def test_of_the_top_only_what_is_not_about_files_is_read() -> None:
    plan = consumed(trusting(ONE_FILE, with_table=True))
    assert isinstance(plan, ScanParquet)
    assert plan.files == (FileRef(checkpoint_path(4), 9),)
    assert plan.check
    assert {name.partition(".")[0] for name in plan.columns} == {"protocol", "metaData", "sidecar"}
    assert {name.partition(".")[0] for name in plan.non_null} == {"protocol", "metaData", "sidecar"}
    plan = consumed(trusting(ONE_FILE, with_table=False))
    assert {name.partition(".")[0] for name in plan.columns} == {"sidecar"}


def test_the_parts_of_a_v1_checkpoint_are_its_leaves() -> None:
    parts = [(checkpoint_path(4, f".{part:010}.0000000002"), part) for part in (1, 2)]
    meta = {"id": "x", "schemaString": "{}", "partitionColumns": ["p"], "configuration": [("k", "v")]}
    rows = [{"protocol": {"minReaderVersion": 1, "minWriterVersion": 2}}, {}, {"metaData": meta}]
    base = pickled(ended(trusting(*parts, with_table=True).next(iter([top_batch(rows)]))))
    assert base.leaves == tuple(FileRef(path, size) for path, size in parts)
    assert base.protocol == Protocol(1, 2)
    assert base.metadata == Metadata("x", "{}", ("p",), {"k": "v"})


def test_structs_without_values_are_passed_over() -> None:
    nothing = {"protocol": {"minReaderVersion": None, "minWriterVersion": None}}
    rows = [
        {"protocol": {"minReaderVersion": 1, "minWriterVersion": 2}},
        {"metaData": {"id": "x", "schemaString": "{}"}},
    ]
    base = ended(trusting(ONE_FILE, with_table=True).next(iter([top_batch(rows), top_batch([nothing])])))
    assert (base.protocol, base.metadata) == (Protocol(1, 2), Metadata("x", "{}"))


@pytest.mark.parametrize(("name", "missing"), [("protocol", "metaData"), ("metaData", "protocol")])
def test_a_checkpoint_without_protocol_or_metadata_is_torn(name: str, missing: str) -> None:
    rows = {"protocol": {"minReaderVersion": 1, "minWriterVersion": 2}, "metaData": {"id": "x", "schemaString": "{}"}}
    with pytest.raises(Torn, match=f"{4:020}.checkpoint.parquet: it has no {missing}") as torn:
        trusting(ONE_FILE, with_table=True).next(iter([top_batch([{name: rows[name]}])]))
    assert torn.value.emitted is None


@pytest.mark.parametrize("with_table", [True, False])
def test_a_json_checkpoint_with_nothing_in_it_is_torn(*, with_table: bool) -> None:
    with pytest.raises(Torn, match="it has no protocol"):
        trusting((JSON_TOP, 0), with_table=with_table).next(iter([]))


def test_the_footers_of_checkpoint_sidecars_are_read_after_the_top() -> None:
    listed = ("_delta_log/_sidecars/a b.parquet", 77)
    rows = [
        {"sidecar": {"path": "a%20b.parquet", "sizeInBytes": 5}},
        {},
        {"sidecar": {"path": "x/../y", "sizeInBytes": 6}},
    ]
    phase = trusting(ONE_FILE, listed, with_table=False).next(iter([top_batch(rows, ("sidecar",))]))
    expected = (FileRef("_delta_log/_sidecars/a b.parquet", 77), FileRef("_delta_log/_sidecars/y", 6))
    plan = consumed(phase)
    assert isinstance(plan, ScanParquet)
    assert (plan.files, plan.columns, plan.check) == (expected, (), True)
    base = ended(phase.next(iter([])))
    assert base.leaves == (FileRef(checkpoint_path(4), 9), *expected)


def test_the_top_of_a_json_checkpoint() -> None:
    phase = trusting((JSON_TOP, 9), with_table=True)
    plan = consumed(phase)
    assert isinstance(plan, ScanJson)
    assert (plan.files, plan.schema, plan.keep) == ((FileRef(JSON_TOP, 9),), TOP_SCHEMA, True)
    actions = [{"checkpointMetadata": {"version": 4}}, PROTOCOL, METADATA, {"sidecar": {"path": "s", "sizeInBytes": 1}}]
    phase = phase.next(iter([json_batch(0, actions, TOP_SCHEMA)]))
    assert consumed(phase).files == (FileRef("_delta_log/_sidecars/s", 1),)
    base = ended(phase.next(iter([])))
    assert base.protocol == Protocol(1, 2)
    assert base.metadata.partition_columns == ("day",)
    assert base.leaves == (FileRef(JSON_TOP, 9), FileRef("_delta_log/_sidecars/s", 1))


def at_top() -> StateMachinePhase[Base]:
    return trusting(ONE_FILE, with_table=False)


def at_footers() -> StateMachinePhase[Base]:
    row = {"sidecar": {"path": "s", "sizeInBytes": 1}}
    phase = at_top().next(iter([top_batch([row], ("sidecar",))]))
    assert outline(phase.get_plan()) == "footers of s"
    return phase


STEPS = pytest.mark.parametrize("step", [at_top, at_footers])


@STEPS
@pytest.mark.parametrize("late", [True, False])
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
def test_a_torn_checkpoint_is_no_base_and_one_out_of_reach_is_an_error(
    step: Any,  # noqa: ANN401
    cause: Exception | None,
    *,
    torn: bool,
    late: bool,
) -> None:
    error = unreadable(checkpoint_path(4), cause)

    def go_on() -> None:
        phase = step()
        phase.next(failing(error)) if late else phase.fail(error)

    if torn:
        with pytest.raises(Torn) as refusal:
            go_on()
        assert (refusal.value.reason, refusal.value.emitted) == (error, None)
    else:
        with pytest.raises(StorageError, match=checkpoint_path(4)):
            go_on()


@STEPS
def test_what_is_no_failure_to_read_stays_what_it_is(step: Any) -> None:  # noqa: ANN401
    with pytest.raises(ValueError, match="a bug"):
        step().fail(ValueError("a bug"))


@pytest.mark.parametrize(
    ("error", "raised", "match"),
    [
        (unreadable(checkpoint_path(2), pa.ArrowInvalid("page")), CorruptCheckpointError, "checkpoint.parquet is torn"),
        (unreadable(checkpoint_path(2), StorageError("500")), StorageError, "checkpoint.parquet: 500"),
        (ValueError("a bug"), ValueError, "a bug"),
    ],
)
def test_a_checkpoint_that_fails_after_its_first_row_fails_the_scan(
    error: Exception, raised: type[Exception], match: str
) -> None:
    phase = StateMachinePhase(live(snapshot_of(range(3), 2)))
    phase = phase.next(iter([]))
    assert outline(phase.get_plan()) == "rows of checkpoint 2"
    with pytest.raises(raised, match=match) as failure:
        phase.fail(error)
    if isinstance(error, UnreadableFileError):
        assert failure.value.__cause__ is error
        assert checkpoint_path(2) in str(failure.value)


def test_leaves_in_json_and_in_parquet_are_read_one_after_the_other() -> None:
    known = snapshot_of(range(5))
    segment = segment_of([*((commit_path(version), 1) for version in range(5)), (JSON_TOP, 9)], 4)
    snapshot = Snapshot("t", 4, known.protocol, known.metadata, known.columns, BaseChoice.of(segment))

    def answer(plan: Plan) -> Any:  # noqa: ANN401
        if isinstance(plan, ScanJson) and plan.schema == TOP_SCHEMA:
            actions = [PROTOCOL, METADATA, {"sidecar": {"path": "s.parquet", "sizeInBytes": 3}}]
            return [json_batch(0, actions, TOP_SCHEMA)]
        if isinstance(plan, ScanJson):
            return [json_batch(0, [add("in-json", partition_values={"day": "d"}, tags={"a": "b"})], plan.schema)]
        return [checkpoint_batch("in-sidecar")] if plan.columns else []

    executor = CannedExecutor(answer)
    batches, _ = follow(live(snapshot), executor)
    in_parts = ["adds of checkpoint 4", "rows of s.parquet"]
    assert executor.outline == ["top of checkpoint 4", "footers of s.parquet", *in_parts]
    assert [outline(plan) for plan in executor.parallel] == in_parts
    rows = [row for batch in batches for row in batch.to_pylist()]
    assert [(row["path"], row["tags"]) for row in rows] == [("in-json", '{"a": "b"}'), ("in-sidecar", None)]
