"""Bases of any kind: the list of them, and the way down it, with batches made by hand and no store."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from msgspec.structs import replace
from tests.builder import add, remove
from tests.replay.canned import CannedExecutor, consumed, ended, follow, outline, pickled
from tests.replay.handmade import (
    DIRECTIONS,
    OPENING,
    answers,
    checkpoint_batch,
    checkpoint_path,
    commits,
    listing,
    live,
    paths_of,
    segment_of,
    snapshot_of,
    top_batch,
    unreadable,
)
from tests.replay.plain_base import PlainBase, plain_answer, row_groups

from delta_sidecar.errors import CorruptCheckpointError
from delta_sidecar.log.actions import Metadata
from delta_sidecar.log.names import commit_path
from delta_sidecar.plan import ListFiles, Place, ReadFiles, ScanJson, ScanParquet, StateMachinePhase
from delta_sidecar.predicate import parse
from delta_sidecar.replay.bases import choice as choices
from delta_sidecar.replay.bases.checkpoint import CheckpointBase
from delta_sidecar.replay.bases.choice import BaseChoice, bases_of
from delta_sidecar.replay.request import Emitted, EntryCounts, ScanRequest
from delta_sidecar.replay.seen.seen import SeenSet
from delta_sidecar.replay.snapshot import open_snapshot

if TYPE_CHECKING:
    from collections.abc import Callable

    from delta_sidecar.log.segment import LogSegment
    from delta_sidecar.plan import Plan
    from delta_sidecar.replay.bases.base import Base
    from delta_sidecar.replay.snapshot import Snapshot


def on_plain(version: int, checkpoint: int | None = None, first: int = 0) -> Snapshot:
    """Gives a snapshot at version 5 with a plain base before all others."""
    snapshot = snapshot_of(range(first, 6), checkpoint)
    segment = snapshot.choice.segment
    plain = PlainBase(version, "plain", len(row_groups(STATE[version])))
    return replace(snapshot, choice=BaseChoice(segment, (plain, *bases_of(segment))))


def answering(
    tail: dict[int, list[dict[str, Any]]],
    plain: int | None,
    groups: list[dict[str, int]],
    base: list[pa.RecordBatch] | None = None,
) -> Callable[[Plan], Any]:
    """Answers plans over commits, a plain base that says it is of a version, and a checkpoint."""
    others = answers(tail, base or [])

    def answer(plan: Plan) -> Any:  # noqa: ANN401
        is_plain = isinstance(plan, ReadFiles) or (
            isinstance(plan, ScanParquet) and plan.files[0].path.startswith("plain.")
        )
        return plain_answer(plan, plain, groups) if is_plain else others(plan)

    return answer


HISTORY = {
    0: [add("a"), add("b")],
    1: [add("c"), remove("a")],
    2: [add("d")],
    3: [add("e"), remove("d")],
    4: [add("b", size=7)],
    5: [add("f"), remove("c")],
}
LIVE = ["b", "e", "f"]
STATE = {version: dict.fromkeys(paths, 1) for version, paths in enumerate(["ab", "bc", "bcd", "bce", "bce", "bef"])}


@DIRECTIONS
@pytest.mark.parametrize("version", range(6))
def test_a_scan_ends_on_a_base_that_is_no_checkpoint(version: int, *, forward: bool) -> None:
    groups = row_groups(STATE[version])
    executor = CannedExecutor(answering(HISTORY, version, groups))
    batches, scan = follow(live(on_plain(version), forward=forward), executor)
    assert sorted(paths_of(batches)) == LIVE
    assert (scan.base_version, scan.unusable) == (version, frozenset())
    own = ["read plain.txt", " ".join(["rows of", *(f"plain.{group}" for group in range(len(groups)))])]
    tail = " ".join(str(commit) for commit in range(5, version, -1))
    keys, adds = ([f"{content} {tail}"] if tail else [] for content in ("keys of", "adds of"))
    assert executor.outline == ([*keys, *own, *adds] if forward else [*adds, *own])


@DIRECTIONS
@pytest.mark.parametrize("says", [None, 77])
@pytest.mark.parametrize("version", [1, 3, 4])
def test_a_base_that_is_distrusted_gives_way_to_the_next_whatever_its_version(
    version: int, says: int | None, *, forward: bool
) -> None:
    snapshot = on_plain(version, checkpoint=3)
    executor = CannedExecutor(answering(HISTORY, says, [], [checkpoint_batch(*STATE[3])]))
    batches, scan = follow(live(snapshot, forward=forward), executor)
    assert sorted(paths_of(batches)) == LIVE
    assert (scan.base_version, scan.unusable) == (3, {"plain"})
    assert not any("rows of plain" in each for each in executor.outline)
    assert [base.name for base in scan.snapshot.choice.bases] == [f"{3:020}.checkpoint.parquet"]


@DIRECTIONS
def test_every_base_may_be_distrusted_where_the_log_goes_back_to_its_start(*, forward: bool) -> None:
    torn = unreadable(checkpoint_path(2), pa.ArrowInvalid("torn"))

    def answer(plan: Plan) -> Any:  # noqa: ANN401
        return torn if isinstance(plan, ScanParquet) else answering(HISTORY, None, [])(plan)

    executor = CannedExecutor(answer)
    batches, scan = follow(live(on_plain(4, checkpoint=2), forward=forward), executor)
    assert sorted(paths_of(batches)) == LIVE
    assert (scan.base_version, scan.unusable) == (-1, {"plain", f"{2:020}.checkpoint.parquet"})
    tried = ["read plain.txt", "top of checkpoint 2"]
    assert [each for each in executor.outline if each in tried] == tried


@DIRECTIONS
def test_the_last_base_that_is_distrusted_is_named(*, forward: bool) -> None:
    with pytest.raises(CorruptCheckpointError, match=r"plain cannot be used \(it says \[\]\)"):
        follow(live(on_plain(3, first=4), forward=forward), CannedExecutor(answering(HISTORY, None, [])))


# --- protocol and metadata ---


def with_plain_base(monkeypatch: pytest.MonkeyPatch, version: int) -> None:
    """Lets every log offer a plain base before its checkpoints."""

    def offered(segment: LogSegment, *, sidecars: bool = True, manifests: bool = True) -> tuple[Base, ...]:
        return (PlainBase(version, "plain", 1), *bases_of(segment, sidecars=sidecars, manifests=manifests))

    monkeypatch.setattr(choices, "bases_of", offered)


@pytest.mark.parametrize("says", [4, None])
def test_a_snapshot_takes_the_table_of_the_first_base_that_is_trusted(
    monkeypatch: pytest.MonkeyPatch, says: int | None
) -> None:
    with_plain_base(monkeypatch, 4)
    row = {"protocol": {"minReaderVersion": 1, "minWriterVersion": 2}}
    row["metaData"] = {"id": "checkpoint", "schemaString": '{"type":"struct","fields":[]}'}

    def answer(plan: Plan) -> Any:  # noqa: ANN401
        if isinstance(plan, ListFiles):
            return listing([*commits(0, 5), (checkpoint_path(2), 9)])
        if isinstance(plan, ScanJson):
            return []
        if isinstance(plan, ScanParquet):
            return [top_batch([row])]
        return plain_answer(plan, says, []) if plan.paths == ("plain.txt",) else []

    executor = CannedExecutor(answer)
    _, snapshot = follow(open_snapshot(OPENING), executor)
    start = ["read _last_checkpoint", "list", "table in 5", "read plain.txt"]
    first = snapshot.choice.bases[0]
    assert first.metadata == snapshot.metadata
    if says is None:
        assert executor.outline == [*start, "table in 4 3", "top of checkpoint 2"], "no commit is looked through twice"
        assert (type(first), snapshot.choice.unusable) == (CheckpointBase, {"plain"})
    else:
        assert executor.outline == start
        assert (type(first), snapshot.choice.unusable, len(snapshot.choice.bases)) == (PlainBase, frozenset(), 2)
        executor = CannedExecutor(answering({5: [add("f")]}, None, [{"b": 1}]))
        batches, _ = follow(live(snapshot), executor)
        assert executor.outline == ["adds of 5", "rows of plain.0"], "what is trusted stays trusted"
        assert paths_of(batches) == ["f", "b"]


# --- the list ---


def test_a_log_offers_its_checkpoints_newest_first() -> None:
    entries = [*commits(2, 6), (checkpoint_path(1), 8), (checkpoint_path(4), 9), (checkpoint_path(2), 7)]
    bases = bases_of(segment_of(entries, 6))
    assert [(type(base), base.version, base.name) for base in bases] == [
        (CheckpointBase, version, f"{version:020}.checkpoint.parquet") for version in (4, 2, 1)
    ]


def test_a_choice_counts_the_tail_from_its_first_base() -> None:
    offered = BaseChoice.of(segment_of([*commits(0, 6), (checkpoint_path(4), 9), (checkpoint_path(2), 7)], 6))
    newest, older = offered.bases
    assert (offered.base_version, [ref.label for ref in next(offered.tail().windows())]) == (4, [6, 5])
    left = offered.without(newest)
    assert (left.bases, left.base_version, left.unusable) == ((older,), 2, {newest.name})
    assert [ref.label for ref in next(left.tail(up_to=4).windows())] == [4, 3]
    none = left.without(older)
    assert (none.bases, none.base_version, none.is_open) == ((), -1, True)
    assert [ref.label for ref in next(none.tail(up_to=1).windows())] == [1, 0]


def test_a_choice_is_closed_without_a_base_and_without_the_start() -> None:
    offered = BaseChoice.of(segment_of([*commits(3, 6), (checkpoint_path(2), 7)], 6))
    assert offered.is_open
    assert not offered.without(offered.bases[0]).is_open


def test_another_listing_does_not_bring_back_what_proved_unusable() -> None:
    few = BaseChoice.of(segment_of([*commits(5, 6), (checkpoint_path(4), 7)], 6))
    left = few.without(few.bases[0])
    again = left.listed(segment_of([*commits(0, 6), (checkpoint_path(4), 7), (checkpoint_path(2), 7)], 6))
    assert ([base.version for base in again.bases], again.unusable) == ([2], left.unusable)


def test_a_checkpoint_is_read_once_and_again_only_for_its_table() -> None:
    (base,) = bases_of(segment_of([(checkpoint_path(4), 9)], 4))
    phase = StateMachinePhase(base.trust(with_table=False))
    assert outline(consumed(phase)) == "top of checkpoint 4"
    trusted = ended(phase.next(iter([])))
    assert ended(StateMachinePhase(trusted.trust(with_table=False))) is trusted
    assert outline(consumed(StateMachinePhase(trusted.trust(with_table=True)))) == "top of checkpoint 4"
    request = ScanRequest.bind("t", snapshot_of(range(1)).columns)
    with pytest.raises(RuntimeError, match="not trusted yet"):
        next(base.emit(request, SeenSet()))


def test_a_base_shows_nothing_of_the_table_and_pickles() -> None:
    (base,) = bases_of(segment_of([(checkpoint_path(4), 9)], 4))
    known = dataclasses.replace(base, metadata=Metadata("x", "{}", (), {"key": "a secret"}))
    assert repr(known) == f"CheckpointBase(version=4, name='{4:020}.checkpoint.parquet')"
    assert pickled(known) == known


def test_a_request_pickles() -> None:
    snapshot = on_plain(3)
    failed = Emitted("plain", 3, "plain", 1, reach=3)
    request = ScanRequest.bind("t", snapshot.columns, parse("day = 'd' AND id > 3"), ("size",))
    request = replace(request, start=Place(commit_path(4)), emitted=(failed,), limit=7, forward=True)
    request.progress.add(commit_adds=3)
    copy = pickled(request)
    assert replace(copy, progress=request.progress) == request
    assert copy.progress.counts() == EntryCounts(), "what was counted belongs to a process"
