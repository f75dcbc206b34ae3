"""A base that fails in the middle: what it emitted stands, the next one goes on with the rest."""

from __future__ import annotations

from dataclasses import replace
from itertools import islice
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.builder import add, remove
from tests.replay.canned import CannedExecutor, follow, outline, pickled
from tests.replay.handmade import DIRECTIONS, answers, checkpoint_batch, live, snapshot_of
from tests.replay.plain_base import PlainBase, plain_answer, row_groups

from delta_sidecar.errors import CorruptCheckpointError, UnreadableFileError
from delta_sidecar.log.identity import file_keys
from delta_sidecar.plan import Consume, ReadFiles, ScanParquet, StateMachineIterator, StateMachinePhase, Terminus
from delta_sidecar.replay.request import ReplayProgress, ScanRequest
from delta_sidecar.replay.scan import scan
from delta_sidecar.replay.snapshot import BaseChoice, bases_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from delta_sidecar.plan import Plan
    from delta_sidecar.replay.scan import Scan
    from delta_sidecar.replay.snapshot import Snapshot

State = dict[str, int]
Break = tuple[int, int]
"""Version of a base, and which of its row groups cannot be read."""
History = list[list[tuple[str, bool]]]
"""Each commit says of some paths whether they are added or removed."""

HISTORIES = st.lists(
    st.dictionaries(st.sampled_from("abcdefgh"), st.booleans(), max_size=5).map(lambda said: sorted(said.items())),
    min_size=1,
    max_size=7,
)


def actions(version: int, said: Sequence[tuple[str, bool]]) -> list[dict[str, Any]]:
    """Gives the actions of a commit; a file's size is the version that added it."""
    return [add(path, size=version) if is_add else remove(path) for path, is_add in said]


def states(history: History) -> list[State]:
    """Gives the live files at every version."""
    found: list[State] = []
    for version, said in enumerate(history):
        state = dict(found[-1]) if found else {}
        state.update({path: version for path, is_add in said if is_add})
        found.append({path: size for path, size in state.items() if (path, False) not in said})
    return found


def broken_log(history: History, broken: Sequence[Break], checkpoint: int | None) -> tuple[Snapshot, CannedExecutor]:
    """Makes a log on bases that fail one after another, then on its checkpoint."""
    at = states(history)
    groups: dict[str, list[Any]] = {}
    bases = {}
    for number, (version, torn) in enumerate(broken):
        name = f"plain{number}"
        whole = row_groups(at[version])
        bases[name] = PlainBase(version, name, len(whole))
        bad = [UnreadableFileError("torn", f"{name}.{group}", group) for group in range(torn, len(whole))]
        groups[name] = [*whole[:torn], *bad]
    tail = {version: actions(version, said) for version, said in enumerate(history)}
    rows = [] if checkpoint is None else [checkpoint_batch(path, size=size) for path, size in at[checkpoint].items()]
    others = answers(tail, rows)

    def answer(plan: Plan) -> Any:  # noqa: ANN401
        if isinstance(plan, ReadFiles):
            name = plan.paths[0].removesuffix(".txt")
            return plain_answer(plan, bases[name].version, groups[name])
        if isinstance(plan, ScanParquet) and plan.files[0].path.startswith("plain"):
            return plain_answer(plan, None, groups[plan.files[0].path.partition(".")[0]])
        return others(plan)

    snapshot = snapshot_of(range(len(history)), checkpoint)
    segment = snapshot.choice.segment
    choice = BaseChoice(segment, (*bases.values(), *bases_of(segment)))
    return replace(snapshot, choice=choice), CannedExecutor(answer)


def scanned(
    history: History, broken: Sequence[Break], checkpoint: int | None, *, forward: bool
) -> tuple[list[tuple[str, int]], Scan, list[str]]:
    """Scans such a log; gives (path, size) of files, the scan, and the plans in words."""
    snapshot, executor = broken_log(history, broken, checkpoint)
    batches, end = follow(live(snapshot, forward=forward), executor)
    return [(row["path"], row["size"]) for batch in batches for row in batch.to_pylist()], end, executor.outline


@given(forward=st.booleans(), history=HISTORIES, data=st.data())
def test_every_live_file_comes_once_whatever_fails_where(
    *, forward: bool, history: History, data: st.DataObject
) -> None:
    versions = st.integers(0, len(history) - 1)
    broken = data.draw(st.lists(st.tuples(versions, st.integers(0, 4)), min_size=1, max_size=3))
    checkpoint = data.draw(st.none() | versions)
    found, _, _ = scanned(history, broken, checkpoint, forward=forward)
    assert sorted(found) == sorted(states(history)[-1].items())


def stops(
    machine: StateMachineIterator[Scan], executor: CannedExecutor, request: ScanRequest
) -> Iterator[tuple[pa.RecordBatch, BaseChoice, ScanRequest]]:
    """Gives with each batch what it takes to go on there."""
    for batch in machine:
        progress = request.progress
        assert progress.choice is not None
        start, emitted = executor.progress.place, pickled(progress.emitted)
        later = replace(request, start=start, emitted=emitted, progress=ReplayProgress())
        yield batch, pickled(progress.choice), later


@given(forward=st.booleans(), history=HISTORIES, data=st.data())
def test_a_scan_goes_on_anywhere_as_it_would_have_gone_on(
    *, forward: bool, history: History, data: st.DataObject
) -> None:
    """Another scan begins at the place of any batch, with what was emitted of the bases that failed before."""
    versions = st.integers(0, len(history) - 1)
    broken = data.draw(st.lists(st.tuples(versions, st.integers(0, 4)), max_size=3))
    snapshot, executor = broken_log(history, broken, data.draw(st.none() | versions))
    whole, end = follow(live(snapshot, forward=forward), executor)
    found: list[pa.RecordBatch] = []
    request = replace(ScanRequest.bind("t", snapshot.columns), forward=forward)
    while True:
        machine = StateMachineIterator(scan(snapshot, request), executor)
        if found:
            assert next(machine) == found[-1], "the files of the place itself come again"
        page = list(islice(stops(machine, executor, request), data.draw(st.integers(1, 4))))
        if not page:
            break
        machine.close()
        found += (batch for batch, _, _ in page)
        _, choice, request = page[-1]
        snapshot = replace(snapshot, choice=choice)
    assert found == whole
    assert machine.into_terminal().base_version == end.base_version


HISTORY = [
    [("a", True), ("b", True), ("c", True), ("d", True), ("e", True)],
    [("a", False), ("f", True)],
    [("b", True), ("c", False)],
    [("a", True), ("g", True)],
]
BROKEN = [[(2, 1)], [(1, 1)], [(1, 2), (2, 1)], [(2, 1), (1, 0)], [(2, 1), (2, 0), (0, 1)]]


@DIRECTIONS
@pytest.mark.parametrize("checkpoint", [1, 2, None])
@pytest.mark.parametrize("broken", BROKEN)
def test_the_next_base_goes_on_where_one_failed(broken: list[Break], checkpoint: int | None, *, forward: bool) -> None:
    found, end, _ = scanned(HISTORY, broken, checkpoint, forward=forward)
    assert sorted(found) == [("a", 3), ("b", 2), ("d", 0), ("e", 0), ("f", 1), ("g", 3)]
    assert end.unusable == {f"plain{number}" for number in range(len(broken))}
    assert end.base_version == (-1 if checkpoint is None else checkpoint)


@DIRECTIONS
@pytest.mark.parametrize("checkpoint", [1, 2, None])
@pytest.mark.parametrize("broken", BROKEN)
def test_a_later_scan_goes_on_at_every_place(broken: list[Break], checkpoint: int | None, *, forward: bool) -> None:
    snapshot, executor = broken_log(HISTORY, broken, checkpoint)
    request = replace(ScanRequest.bind("t", snapshot.columns), forward=forward)
    whole = list(stops(StateMachineIterator(scan(snapshot, request), executor), executor, request))
    for at, (_, choice, later) in enumerate(whole):
        batches, end = follow(scan(replace(snapshot, choice=choice), later), executor)
        assert batches == [batch for batch, _, _ in whole[at:]]
        assert end.base_version == (-1 if checkpoint is None else checkpoint)


def test_forward_gives_the_rest_before_the_tail() -> None:
    found, _, _ = scanned(HISTORY, [(2, 1)], 1, forward=True)
    assert found == [("b", 2), ("d", 0), ("e", 0), ("f", 1), ("a", 3), ("g", 3)]


@DIRECTIONS
def test_only_what_was_emitted_is_read_again(*, forward: bool) -> None:
    _, _, read = scanned(HISTORY, [(2, 1)], 1, forward=forward)
    failed = ["read plain0.txt", "rows of plain0.0 plain0.1"]
    of_checkpoint = ["top of checkpoint 1", "rows of checkpoint 1"]
    if forward:
        again = ["keys of 3 2", "keys of plain0.0", *of_checkpoint]
        # Its files hide those of the commits up to it, and none of those after it.
        assert read == ["keys of 3", *failed, *again, "adds of 3", "keys of plain0.0", "adds of 2"]
    else:
        assert read == ["adds of 3", *failed, "keys of plain0.0", "adds of 2", *of_checkpoint]


@DIRECTIONS
def test_nothing_is_read_again_where_nothing_was_emitted(*, forward: bool) -> None:
    _, _, read = scanned(HISTORY, [(2, 0)], 1, forward=forward)
    assert "rows of plain0.0 plain0.1" in read
    assert not any("keys of plain0" in each for each in read)


@DIRECTIONS
def test_the_scan_fails_where_what_was_emitted_cannot_be_read_again(*, forward: bool) -> None:
    snapshot, executor = broken_log(HISTORY, [(2, 1)], 1)
    good = executor.answer
    executor.answer = lambda plan: (
        UnreadableFileError("gone", "plain0") if outline(plan) == "keys of plain0.0" else good(plan)
    )
    machine = StateMachineIterator(live(snapshot, forward=forward), executor)
    with pytest.raises(UnreadableFileError, match="gone"):
        list(machine)
    assert not any("checkpoint" in each for each in executor.outline), "no other base could know what is left"


@DIRECTIONS
def test_the_keys_that_a_base_was_given_do_not_change_when_it_fails(*, forward: bool) -> None:
    """Lookups may still be under way in other threads."""
    snapshot, executor = broken_log(HISTORY, [(2, 1)], 1)
    phase = StateMachinePhase(live(snapshot, forward=forward))
    looked_up = {}
    while not isinstance(phase.step, Terminus):
        batches = executor.execute(phase.get_plan())
        if isinstance(phase.step, Consume):
            phase = phase.next(batches)
            continue
        if outline(phase.get_plan()) == "rows of plain0.0 plain0.1":
            looked_up["seen"] = phase.get_plan().function.seen
        try:
            list(batches)
        except UnreadableFileError as error:
            phase = phase.fail(error)
        else:
            phase = phase.next()
    keys = file_keys({"path": pa.array(list("abcdefg"))})
    assert looked_up["seen"].contains(keys).tolist() == [path in "ag" for path in "abcdefg"]


@DIRECTIONS
def test_the_scan_fails_where_no_base_is_left(*, forward: bool) -> None:
    snapshot = snapshot_of(range(2, 4))
    base = PlainBase(1, "plain", 1, is_trusted=True)
    snapshot = replace(snapshot, choice=BaseChoice(snapshot.choice.segment, (base,)))

    def answer(plan: Plan) -> Any:  # noqa: ANN401
        others = answers({2: [add("x")], 3: [add("y")]}, [])
        return UnreadableFileError("torn", "plain.0", 0) if isinstance(plan, ScanParquet) else others(plan)

    with pytest.raises(CorruptCheckpointError, match=r"plain cannot be used \(torn\)"):
        follow(live(snapshot, forward=forward), CannedExecutor(answer))
