"""The flows of a scan, with batches made by hand and no store."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from tests.builder import add, remove
from tests.replay.canned import CannedExecutor, consumed, follow, outline, pickled, source
from tests.replay.handmade import (
    DIRECTIONS,
    TAIL,
    answers,
    checkpoint_batch,
    checkpoint_path,
    json_batch,
    listing,
    live,
    paths_of,
    snapshot_of,
    unreadable,
)

from delta_sidecar.errors import CorruptCheckpointError, ObjectNotFoundError
from delta_sidecar.log.actions import KEYS_SCHEMA
from delta_sidecar.log.identity import file_keys
from delta_sidecar.log.names import commit_path
from delta_sidecar.plan import (
    FilterOrdered,
    ListFiles,
    PartialResult,
    ReadFiles,
    ScanJson,
    ScanParquet,
    StateMachinePhase,
)
from delta_sidecar.predicate import parse

if TYPE_CHECKING:
    from delta_sidecar.plan import Plan


def test_reverse_reads_the_tail_newest_first_and_in_order() -> None:
    phase = StateMachinePhase(live(snapshot_of(range(6), 2)))
    assert isinstance(phase.step, PartialResult)
    assert isinstance(phase.step.plan, FilterOrdered)
    assert not phase.is_parallelizable()
    plan = source(phase.get_plan())
    assert isinstance(plan, ScanJson)
    assert [ref.label for ref in plan.files] == [5, 4, 3]
    names = plan.schema.field("add").type.field("partitionValues").type
    assert [field.name for field in names] == ["day"]


def test_forward_remembers_every_key_and_goes_to_the_base() -> None:
    phase = StateMachinePhase(live(snapshot_of(range(6), 2), forward=True))
    plan = consumed(phase)
    assert (plan.schema, plan.keep) == (KEYS_SCHEMA, True)
    assert [ref.label for ref in plan.files] == [5, 4, 3]
    blocks = [json_batch(5, [add("a"), remove("b")], KEYS_SCHEMA), json_batch(4, [add("a")], KEYS_SCHEMA)]
    phase = phase.next(iter(blocks))
    assert outline(consumed(phase)) == "top of checkpoint 2"
    phase = phase.next(iter([]))
    assert isinstance(phase.step, PartialResult)
    assert phase.is_parallelizable()
    rows = pickled(phase.get_plan())
    assert outline(rows) == "rows of checkpoint 2"
    keys = file_keys({"path": pa.array(["a", "b", "c"])})
    assert rows.function.seen.contains(keys).tolist() == [True, True, False]


@DIRECTIONS
def test_a_whole_scan_runs_without_a_store(*, forward: bool) -> None:
    base = [checkpoint_batch("b1", None, "b2"), checkpoint_batch("b3", "gone")]
    executor = CannedExecutor(answers(TAIL, base))
    batches, scan = follow(live(snapshot_of(range(6), 2), forward=forward), executor)
    found = [(row["path"], row["size"], row["partition_values"]) for batch in batches for row in batch.to_pylist()]
    tail = [
        ("new", 1000, [("day", "e")]),
        ("gone", 1000, [("day", "d")]),
        ("b2", 9, [("day", "d")]),
        ("x", 1000, [("day", "d")]),
    ]
    rows = [("b3", 1, [("day", "d")])]
    assert found == (rows + tail if forward else tail + rows)
    of_base = ["top of checkpoint 2", "rows of checkpoint 2"]
    adds = "adds of 5 4 3"
    assert executor.outline == (["keys of 5 4 3", *of_base, adds] if forward else [adds, *of_base])
    assert [outline(plan) for plan in executor.parallel] == of_base[1:]
    assert (scan.base_version, scan.snapshot.version, scan.unusable) == (2, 5, frozenset())


@DIRECTIONS
def test_a_predicate_prunes_the_tail_and_the_base_but_no_key(*, forward: bool) -> None:
    base = [checkpoint_batch("new", "b1", "b2", "b3", day="d"), checkpoint_batch("b4", day="e")]
    executor = CannedExecutor(answers(TAIL, base))
    batches, scan = follow(live(snapshot_of(range(6), 2), parse("day = 'd'"), forward=forward), executor)
    found = sorted(path for batch in batches for path in batch.column("path").to_pylist())
    assert found == ["b2", "b3", "gone", "x"], "`new` is pruned in the tail and must not come back from the base"
    assert str(scan.predicate) == "day = 'd'"
    parquet = next(plan for plan in map(source, executor.plans) if isinstance(plan, ScanParquet) and plan.test)
    assert parquet.early == ("add.partitionValues",)


@DIRECTIONS
@pytest.mark.parametrize("complete", [True, False])
def test_a_torn_base_gives_way_to_the_next_older_one(*, forward: bool, complete: bool) -> None:
    history = {version: [add(f"v{version}")] for version in range(6)}
    snapshot = snapshot_of(range(6) if complete else range(3, 6), 2, complete=complete)

    def answer(plan: Plan) -> Any:  # noqa: ANN401
        if isinstance(plan, ListFiles):
            return listing([*((commit_path(version), 1) for version in range(7)), (checkpoint_path(2), 9)])
        if isinstance(plan, ScanParquet):
            return unreadable(checkpoint_path(2), pa.ArrowInvalid("torn"))
        return answers(history, [])(plan)

    executor = CannedExecutor(answer)
    batches, scan = follow(live(snapshot, forward=forward), executor)
    assert sorted(paths_of(batches)) == [f"v{version}" for version in range(6)]
    assert (scan.base_version, scan.unusable) == (-1, {f"{2:020}.checkpoint.parquet"})
    listed = [] if complete else ["list"]
    if forward:
        again = ["keys of 5 4 3 2 1 0", "adds of 5 4 3 2 1 0"]
        assert executor.outline == ["keys of 5 4 3", "top of checkpoint 2", *listed, *again]
    else:
        assert executor.outline == ["adds of 5 4 3", "top of checkpoint 2", *listed, "adds of 2 1 0"]


@DIRECTIONS
@pytest.mark.parametrize("complete", [True, False])
def test_a_torn_base_with_nothing_older_is_named(*, forward: bool, complete: bool) -> None:
    snapshot = snapshot_of(range(3, 6), 2, complete=complete)

    def answer(plan: Plan) -> Any:  # noqa: ANN401
        if isinstance(plan, ListFiles):
            return listing([*((commit_path(version), 1) for version in range(3, 6)), (checkpoint_path(2), 9)])
        if isinstance(plan, ReadFiles):
            return []
        if isinstance(plan, ScanParquet):
            return unreadable(checkpoint_path(2), ObjectNotFoundError("gone"))
        return answers(TAIL, [])(plan)

    executor = CannedExecutor(answer)
    with pytest.raises(CorruptCheckpointError, match=f"{2:020}.checkpoint.parquet"):
        follow(live(snapshot, forward=forward), executor)
    assert ("list" in executor.outline) is not complete
