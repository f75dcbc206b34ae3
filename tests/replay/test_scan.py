"""The chains of a scan, with batches made by hand and no store."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from tests.builder import add, remove
from tests.replay.canned import CannedExecutor, consumed, follow, pickled, source
from tests.replay.handmade import (
    TAIL,
    answers,
    checkpoint_batch,
    checkpoint_path,
    json_batch,
    listing,
    paths,
    snapshot_of,
)

from delta_sidecar.errors import CorruptCheckpointError, ObjectNotFoundError, UnreadableFileError
from delta_sidecar.log.actions import KEYS_SCHEMA
from delta_sidecar.log.identity import file_keys
from delta_sidecar.log.names import commit_path
from delta_sidecar.plan import ListFiles, PartialResult, ReadFiles, ScanJson, ScanParquet
from delta_sidecar.predicate import parse
from delta_sidecar.replay.bases.checkpoint import CheckpointReplayPhase, CheckpointTopPhase
from delta_sidecar.replay.scan import (
    CommitReplayPhase,
    TailKeysPhase,
    forward_scan,
    reverse_scan,
)

if TYPE_CHECKING:
    from delta_sidecar.plan import Plan


def test_commit_replay_phase_reads_the_tail_newest_first_and_in_order() -> None:
    step = reverse_scan(snapshot_of(range(6), 2), None)
    assert isinstance(step, PartialResult)
    assert isinstance(step.phase, CommitReplayPhase)
    assert not step.phase.is_parallelizable()
    plan = source(step.phase.plan())
    assert isinstance(plan, ScanJson)
    assert [ref.label for ref in plan.files] == [5, 4, 3]
    names = plan.schema.field("add").type.field("partitionValues").type
    assert [field.name for field in names] == ["day"]


def test_tail_keys_phase_remembers_every_key_and_goes_to_the_base() -> None:
    step = forward_scan(snapshot_of(range(6), 2), None)
    phase = consumed(step, TailKeysPhase)
    plan = phase.plan()
    assert (plan.schema, plan.keep) == (KEYS_SCHEMA, True)
    assert [ref.label for ref in plan.files] == [5, 4, 3]
    after = phase.next(
        iter([json_batch(5, [add("a"), remove("b")], KEYS_SCHEMA), json_batch(4, [add("a")], KEYS_SCHEMA)])
    )
    top = consumed(after, CheckpointTopPhase)
    replay = pickled(top.next(iter([])))
    assert isinstance(replay, PartialResult)
    assert isinstance(replay.phase, CheckpointReplayPhase)
    assert replay.phase.is_parallelizable()
    keys = file_keys({"path": pa.array(["a", "b", "c"])})
    assert replay.phase.reading.seen.contains(keys).tolist() == [True, True, False]


@pytest.mark.parametrize("chain", [reverse_scan, forward_scan])
def test_a_whole_scan_runs_without_a_store_and_pickles_at_every_step(chain: object) -> None:
    snapshot = snapshot_of(range(6), 2)
    base = [checkpoint_batch("b1", None, "b2"), checkpoint_batch("b3", "gone")]
    executor = CannedExecutor(answers(TAIL, base))
    names, batches, scan = follow(chain(snapshot, None), executor)
    found = [(row["path"], row["size"], row["partition_values"]) for batch in batches for row in batch.to_pylist()]
    tail = [
        ("new", 1000, [("day", "e")]),
        ("gone", 1000, [("day", "d")]),
        ("b2", 9, [("day", "d")]),
        ("x", 1000, [("day", "d")]),
    ]
    rows = [("b3", 1, [("day", "d")])]
    forward = chain is forward_scan
    assert found == (rows + tail if forward else tail + rows)
    middle = ["CheckpointTopPhase", "CheckpointReplayPhase"]
    assert names == (["TailKeysPhase", *middle, "CommitReplayPhase"] if forward else ["CommitReplayPhase", *middle])
    assert (scan.base_version, scan.snapshot.version, scan.unusable) == (2, 5, frozenset())


@pytest.mark.parametrize("chain", [reverse_scan, forward_scan])
def test_a_predicate_prunes_the_tail_and_the_base_but_no_key(chain: object) -> None:
    snapshot = snapshot_of(range(6), 2)
    base = [checkpoint_batch("new", "b1", "b2", "b3", day="d"), checkpoint_batch("b4", day="e")]
    executor = CannedExecutor(answers(TAIL, base))
    _, batches, scan = follow(chain(snapshot, parse("day = 'd'")), executor)
    found = sorted(path for batch in batches for path in batch.column("path").to_pylist())
    assert found == ["b2", "b3", "gone", "x"], "`new` is pruned in the tail and must not come back from the base"
    assert str(scan.predicate) == "day = 'd'"
    parquet = next(plan for plan in map(source, executor.plans) if isinstance(plan, ScanParquet) and plan.test)
    assert parquet.early == ("add.partitionValues",)


@pytest.mark.parametrize("chain", [reverse_scan, forward_scan])
@pytest.mark.parametrize("complete", [True, False])
def test_a_torn_base_gives_way_to_the_next_older_one(chain: object, *, complete: bool) -> None:
    history = {version: [add(f"v{version}")] for version in range(6)}
    snapshot = snapshot_of(range(6) if complete else range(3, 6), 2, complete=complete)

    def answer(plan: Plan) -> Any:  # noqa: ANN401
        if isinstance(plan, ListFiles):
            assert plan.after is None
            return listing([*((commit_path(version), 1) for version in range(7)), (checkpoint_path(2), 9)])
        if isinstance(plan, ScanParquet):
            error = UnreadableFileError("x", checkpoint_path(2))
            error.__cause__ = pa.ArrowInvalid("torn")
            return error
        return answers(history, [])(plan)

    names, batches, scan = follow(chain(snapshot, None), CannedExecutor(answer))
    assert sorted(path for batch in batches for path in paths(batch)) == [f"v{version}" for version in range(6)]
    assert (scan.base_version, scan.unusable) == (-1, {f"{2:020}.checkpoint.parquet"})
    assert ("FileListingPhase" in names) is not complete


@pytest.mark.parametrize("complete", [True, False])
def test_a_torn_base_with_nothing_older_is_named(*, complete: bool) -> None:
    snapshot = snapshot_of(range(3, 6), 2, complete=complete)

    def answer(plan: Plan) -> Any:  # noqa: ANN401
        if isinstance(plan, ListFiles):
            return listing([*((commit_path(version), 1) for version in range(3, 6)), (checkpoint_path(2), 9)])
        if isinstance(plan, ReadFiles):
            return []
        if isinstance(plan, ScanParquet):
            error = UnreadableFileError("x", checkpoint_path(2))
            error.__cause__ = ObjectNotFoundError("gone")
            return error
        return answers(TAIL, [])(plan)

    for chain in (reverse_scan, forward_scan):
        with pytest.raises(CorruptCheckpointError, match=f"{2:020}.checkpoint.parquet"):
            follow(chain(snapshot, None), CannedExecutor(answer))
