"""The flows of a scan, with batches made by hand and no store."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from msgspec.structs import replace
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

from delta_sidecar.errors import (
    CorruptCheckpointError,
    ObjectNotFoundError,
    PageTokenExpiredError,
    StrictModeError,
)
from delta_sidecar.log.actions import KEYS_SCHEMA
from delta_sidecar.log.identity import file_keys
from delta_sidecar.log.names import commit_path
from delta_sidecar.plan import (
    Filter,
    FilterOrdered,
    ListFiles,
    PartialResult,
    Place,
    ReadFiles,
    ScanJson,
    ScanParquet,
    StateMachinePhase,
)
from delta_sidecar.predicate import parse
from delta_sidecar.replay import tail
from delta_sidecar.replay.request import ScanRequest
from delta_sidecar.replay.snapshot import scan

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
    batches, end = follow(live(snapshot_of(range(6), 2), forward=forward), executor)
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
    assert (end.base_version, end.snapshot.version, end.unusable) == (2, 5, frozenset())


@DIRECTIONS
def test_a_predicate_prunes_the_tail_and_the_base_but_no_key(*, forward: bool) -> None:
    base = [checkpoint_batch("new", "b1", "b2", "b3", day="d"), checkpoint_batch("b4", day="e")]
    executor = CannedExecutor(answers(TAIL, base))
    batches, end = follow(live(snapshot_of(range(6), 2), parse("day = 'd'"), forward=forward), executor)
    found = sorted(path for batch in batches for path in batch.column("path").to_pylist())
    assert found == ["b2", "b3", "gone", "x"], "`new` is pruned in the tail and must not come back from the base"
    assert str(end.predicate) == "day = 'd'"
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
    batches, end = follow(live(snapshot, forward=forward), executor)
    assert sorted(paths_of(batches)) == [f"v{version}" for version in range(6)]
    assert (end.base_version, end.unusable) == (-1, {f"{2:020}.checkpoint.parquet"})
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


# --- a scan that goes on where another one stopped ---


def going_on(place: Place, *, forward: bool) -> tuple[CannedExecutor, list[str]]:
    """Goes on at a place; gives the executor and the paths of files."""
    snapshot = snapshot_of(range(6), 2)
    request = replace(ScanRequest.bind("t", snapshot.columns), forward=forward, start=place)
    executor = CannedExecutor(answers(TAIL, [checkpoint_batch("b1", "b2"), checkpoint_batch("b3", "gone")]))
    batches, _ = follow(scan(snapshot, request), executor)
    return executor, paths_of(batches)


@DIRECTIONS
def test_of_the_commits_before_a_place_only_keys_are_read(*, forward: bool) -> None:
    executor, found = going_on(Place(commit_path(4)), forward=forward)
    of_base = [] if forward else ["top of checkpoint 2", "rows of checkpoint 2"]
    assert executor.outline == ["keys of 5", "adds of 4 3", *of_base]
    assert found == ["gone", "b2", "x", *([] if forward else ["b3"])]


@DIRECTIONS
def test_of_a_base_only_what_is_after_a_place_is_read(*, forward: bool) -> None:
    executor, found = going_on(Place(checkpoint_path(2), 1), forward=forward)
    of_base = ["top of checkpoint 2", "rows of checkpoint 2"]
    assert executor.outline == ["keys of 5 4 3", *of_base, *(["adds of 5 4 3"] if forward else [])]
    (rows,) = (source(plan) for plan in executor.plans if outline(plan) == of_base[1])
    assert isinstance(rows, ScanParquet)
    assert rows.start == 1
    assert found == ["b3", *(["new", "gone", "b2", "x"] if forward else [])]


@DIRECTIONS
def test_no_other_base_stands_in_for_the_one_of_a_place(*, forward: bool) -> None:
    snapshot = snapshot_of(range(6), 2)
    request = replace(ScanRequest.bind("t", snapshot.columns), forward=forward, start=Place(checkpoint_path(2), 1))
    torn = unreadable(checkpoint_path(2), ObjectNotFoundError("gone"))
    executor = CannedExecutor(lambda plan: torn if isinstance(plan, ScanParquet) else answers(TAIL, [])(plan))
    with pytest.raises(PageTokenExpiredError, match=f"{2:020}.checkpoint.parquet, which the page token is a place in"):
        follow(scan(snapshot, request), executor)
    gone = replace(request, start=Place(checkpoint_path(1)))
    with pytest.raises(PageTokenExpiredError, match="no part of the checkpoint any more"):
        follow(scan(snapshot, gone), CannedExecutor(answers(TAIL, [])))


# --- how it is read ---


@DIRECTIONS
def test_a_request_says_how_much_is_read_at_once(*, forward: bool) -> None:
    snapshot = snapshot_of(range(6), 2)
    request = ScanRequest.bind("t", snapshot.columns)
    request = replace(request, forward=forward, files_at_once=3, row_groups_at_once=4, limit=7)
    executor = CannedExecutor(answers(TAIL, [checkpoint_batch("b3")]))
    follow(scan(snapshot, request), executor)
    plans = [source(plan) for plan in executor.plans]
    assert {plan.at_once for plan in plans if isinstance(plan, ScanJson)} == {3}
    (rows,) = (plan for plan in plans if outline(plan) == "rows of checkpoint 2")
    assert isinstance(rows, ScanParquet)
    assert (rows.at_once, rows.enough) == (4, 7 if forward else 3), "in reverse, four files came from the tail"


@DIRECTIONS
def test_a_long_tail_is_read_in_windows(*, forward: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tail, "WINDOW", 2)
    history = {version: [add("same", size=version), add(f"v{version}")] for version in range(5)}
    executor = CannedExecutor(answers(history, []))
    batches, end = follow(live(snapshot_of(range(5)), forward=forward), executor)
    windows = ["4 3", "2 1", "0"]
    adds = [f"adds of {window}" for window in windows]
    assert executor.outline == ([f"keys of {window}" for window in windows] + adds if forward else adds)
    assert paths_of(batches) == ["same", "v4", "v3", "v2", "v1", "v0"]
    assert (end.base_version, end.seen_keys) == (-1, 6)


TRIPPING = TAIL | {4: [*TAIL[4], {"txn": {"appId": "a", "version": 1}}]}


@DIRECTIONS
def test_strict_mode_goes_on_unwatched_where_it_trips(*, forward: bool) -> None:
    snapshot = snapshot_of(range(6), 2)
    request = replace(ScanRequest.bind("t", snapshot.columns), forward=forward, strict=True)
    executor = CannedExecutor(answers(TRIPPING, [checkpoint_batch("b1", "b2", "b3")]))
    batches, _ = follow(scan(snapshot, request), executor)
    assert sorted(paths_of(batches)) == ["b2", "b3", "gone", "new", "x"]
    watched = [isinstance(plan, Filter) or isinstance(getattr(plan, "source", None), Filter) for plan in executor.plans]
    # Watched and unwatched plans of commits, and those of the base.
    commits = [
        (is_watched, outline(plan).partition(" of ")[2])
        for is_watched, plan in zip(watched, executor.plans, strict=True)
        if isinstance(source(plan), ScanJson)
    ]
    again = [(False, "5 4 3"), (False, "5 4 3")] if forward else [(False, "4 3")]
    assert commits == [(True, "5 4 3"), *again]


@DIRECTIONS
def test_strict_mode_without_a_fallback_fails(*, forward: bool) -> None:
    snapshot = snapshot_of(range(6), 2)
    request = replace(ScanRequest.bind("t", snapshot.columns), forward=forward, strict=True, fallback=False)
    with pytest.raises(StrictModeError, match=r"t: commit 4 has txn.* or with enable_fallback") as tripped:
        follow(scan(snapshot, request), CannedExecutor(answers(TRIPPING, [])))
    assert (tripped.value.action, tripped.value.version) == ("txn", 4)
