"""A base that fails in the middle: what it emitted stands, the next one goes on with the rest."""

from __future__ import annotations

from collections import Counter
from itertools import islice
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any
from unittest import mock

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace
from tests.builder import add, remove
from tests.replay.canned import CannedExecutor, follow, outline, pickled
from tests.replay.handmade import DIRECTIONS, answers, checkpoint_batch, live, snapshot_of
from tests.replay.plain_base import PlainBase, plain_answer, row_groups

from delta_sidecar.errors import CorruptCheckpointError, PageTokenExpiredError, UnreadableFileError
from delta_sidecar.log.identity import file_keys
from delta_sidecar.log.names import SIDECAR_FOLDER, manifest_name, sidecar_name
from delta_sidecar.plan import Consume, ReadFiles, ScanParquet, StateMachineIterator, StateMachinePhase, Terminus
from delta_sidecar.replay import scan as replays
from delta_sidecar.replay.bases.choice import BaseChoice, bases_of
from delta_sidecar.replay.request import ReplayProgress, ScanRequest
from delta_sidecar.replay.snapshot import scan

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from contextlib import AbstractContextManager

    from delta_sidecar.log.segment import ListedSidecar
    from delta_sidecar.plan import Plan
    from delta_sidecar.replay.request import Emitted
    from delta_sidecar.replay.snapshot import Scan, Snapshot

State = dict[str, int]
Break = tuple[int, int]
"""Version of a base, and which of its row groups cannot be read."""
History = list[list[tuple[str, bool]]]
"""Each commit says of some paths whether they are added or removed."""

Stop = tuple[pa.RecordBatch, "Snapshot", ScanRequest]
"""A batch, and the snapshot and the request of a scan that goes on there."""

HISTORIES = st.lists(
    st.dictionaries(st.sampled_from("abcdefgh"), st.booleans(), max_size=5).map(lambda said: sorted(said.items())),
    min_size=1,
    max_size=7,
)


@st.composite
def breaks(draw: st.DrawFn, commits: int) -> tuple[list[Break], int | None]:
    """Bases that fail, no more than two of a version, and maybe a checkpoint."""
    versions = st.integers(0, commits - 1)
    broken = st.lists(st.tuples(versions, st.integers(0, 4)), min_size=1, max_size=3)
    few = broken.filter(lambda drawn: max(Counter(version for version, _ in drawn).values()) < 3)
    return draw(few), draw(st.none() | versions)


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


class BrokenLog:
    """A log on bases that fail one after another, then on its checkpoint.

    The bases have names of metadata sidecars, whose place they take: a later scan finds them by those.
    """

    def __init__(self, history: History, broken: Sequence[Break], checkpoint: int | None) -> None:
        at = states(history)
        self.bases: dict[str, PlainBase] = {}
        self._groups: dict[str, list[Any]] = {}
        for version, torn in broken:
            name = sidecar_name(version) if manifest_name(version) in self.bases else manifest_name(version)
            assert name not in self.bases
            whole = row_groups(at[version])
            self.bases[name] = PlainBase(version, name, len(whole))
            bad = [UnreadableFileError("torn", f"{name}.{group}", group) for group in range(torn, len(whole))]
            self._groups[name] = [*whole[:torn], *bad]
        tail = {version: actions(version, said) for version, said in enumerate(history)}
        # In another order than those of the bases, so that what they emitted lies before and after any place.
        files = [] if checkpoint is None else sorted(at[checkpoint].items(), reverse=True)
        self._others = answers(tail, [checkpoint_batch(path, size=size) for path, size in files])
        self.executor = CannedExecutor(self._answer)
        listed = [SIDECAR_FOLDER + name for name in self.bases]
        snapshot = snapshot_of(range(len(history)), checkpoint, others=listed)
        segment = snapshot.choice.segment
        choice = BaseChoice(segment, (*self.bases.values(), *bases_of(segment, sidecars=False)))
        self.snapshot = replace(snapshot, choice=choice)

    def stops(self, request: ScanRequest, snapshot: Snapshot | None = None) -> Iterator[Stop]:
        """Scans; gives with each batch the snapshot and the request that go on there."""
        with self._in_place_of_sidecars():
            for batch in StateMachineIterator(scan(snapshot or self.snapshot, request), self.executor):
                place, progress = self.executor.progress.place, request.progress
                later = replace(request, start=place, emitted=pickled(progress.emitted), progress=ReplayProgress())
                yield batch, replace(self.snapshot, choice=self._down_from(progress)), later

    def _down_from(self, progress: ReplayProgress) -> BaseChoice:
        assert progress.base is not None
        choice = self.snapshot.choice
        found = choice.down_from(progress.base.name) if progress.base.name else choice.from_start()
        assert found is not None
        found = found.reaching(progress.base.reach) if progress.base.reach < found.base_version else found
        assert found is not None
        return found

    def _in_place_of_sidecars(self) -> AbstractContextManager[Any]:
        found = SimpleNamespace(of=self._of)
        return mock.patch.object(replays, "SidecarBase", found)

    def _of(self, _segment: object, listed: ListedSidecar) -> Any:  # noqa: ANN401
        return self.bases[listed.name]

    def _answer(self, plan: Plan) -> Any:  # noqa: ANN401
        first = plan.paths[0] if isinstance(plan, ReadFiles) else plan.files[0].path
        name = first.rpartition(".")[0]
        return (
            plain_answer(plan, self.bases[name].version, self._groups[name])
            if name in self.bases
            else self._others(plan)
        )


def scanned(
    history: History, broken: Sequence[Break], checkpoint: int | None, *, forward: bool
) -> tuple[list[tuple[str, int]], Scan, list[str]]:
    """Scans such a log; gives (path, size) of files, the scan, and the plans in words."""
    log = BrokenLog(history, broken, checkpoint)
    batches, end = follow(live(log.snapshot, forward=forward), log.executor)
    return [(row["path"], row["size"]) for batch in batches for row in batch.to_pylist()], end, log.executor.outline


@given(forward=st.booleans(), history=HISTORIES, data=st.data())
def test_every_live_file_comes_once_whatever_fails_where(
    *, forward: bool, history: History, data: st.DataObject
) -> None:
    broken, checkpoint = data.draw(breaks(len(history)))
    found, _, _ = scanned(history, broken, checkpoint, forward=forward)
    assert sorted(found) == sorted(states(history)[-1].items())


@given(forward=st.booleans(), history=HISTORIES, data=st.data())
def test_a_scan_goes_on_anywhere_as_it_would_have_gone_on(
    *, forward: bool, history: History, data: st.DataObject
) -> None:
    """Another scan begins at the place of any batch, with what was emitted of the bases that failed before."""
    log = BrokenLog(history, *data.draw(breaks(len(history))))
    request = replace(ScanRequest.bind("t", log.snapshot.columns), forward=forward)
    whole = [batch for batch, _, _ in log.stops(request)]
    snapshot, found = log.snapshot, whole[:0]
    while True:
        stops = log.stops(request, snapshot)
        if found:
            assert next(stops)[0] == found[-1], "the files of the place itself come again"
        page = list(islice(stops, data.draw(st.integers(1, 4))))
        stops.close()
        if not page:
            break
        found += [batch for batch, _, _ in page]
        _, snapshot, request = page[-1]
    assert found == whole


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
    assert end.unusable == set(BrokenLog(HISTORY, broken, checkpoint).bases)
    assert end.base_version == (-1 if checkpoint is None else checkpoint)


@DIRECTIONS
@pytest.mark.parametrize("checkpoint", [1, 2, None])
@pytest.mark.parametrize("broken", BROKEN)
def test_a_later_scan_goes_on_at_every_place(broken: list[Break], checkpoint: int | None, *, forward: bool) -> None:
    log = BrokenLog(HISTORY, broken, checkpoint)
    whole = list(log.stops(replace(ScanRequest.bind("t", log.snapshot.columns), forward=forward)))
    batches = [batch for batch, _, _ in whole]
    for at, (_, snapshot, request) in enumerate(whole):
        assert [batch for batch, _, _ in log.stops(request, snapshot)] == batches[at:]


@DIRECTIONS
def test_a_later_scan_does_not_guess_what_a_base_emitted_that_is_not_there_any_more(*, forward: bool) -> None:
    log = BrokenLog(HISTORY, [(2, 1)], 1)
    *_, (_, snapshot, request) = log.stops(replace(ScanRequest.bind("t", log.snapshot.columns), forward=forward))
    (emitted,) = request.emitted

    def refuses(emitted: Emitted, reason: str) -> None:
        with pytest.raises(PageTokenExpiredError, match=rf"{emitted.base}, which files of earlier .*\({reason}\)"):
            list(log.stops(replace(request, emitted=(emitted,)), snapshot))

    refuses(replace(emitted, base="v9.manifest.json", version=9), "it is gone")
    refuses(replace(emitted, base="other"), "it is gone")
    refuses(replace(emitted, identity="another"), "it was replaced")
    log.executor.answer = answer_without(log, f"{emitted.base}.txt")
    refuses(emitted, r"it says \[\]")


def answer_without(log: BrokenLog, path: str) -> Callable[[Plan], Any]:
    """Answers as before, but for a small file that is gone."""
    answer = log.executor.answer
    return lambda plan: [] if isinstance(plan, ReadFiles) and plan.paths == (path,) else answer(plan)


def test_forward_gives_the_rest_before_the_tail() -> None:
    found, _, _ = scanned(HISTORY, [(2, 1)], 1, forward=True)
    assert found == [("b", 2), ("d", 0), ("f", 1), ("e", 0), ("a", 3), ("g", 3)]


@DIRECTIONS
def test_only_what_was_emitted_is_read_again(*, forward: bool) -> None:
    _, _, read = scanned(HISTORY, [(2, 1)], 1, forward=forward)
    failed = ["read v2.manifest.json.txt", "rows of v2.manifest.json.0 v2.manifest.json.1"]
    of_checkpoint = ["top of checkpoint 1", "rows of checkpoint 1"]
    if forward:
        again = ["keys of 3 2", "keys of v2.manifest.json.0", *of_checkpoint]
        # Its files hide those of the commits up to it, and none of those after it.
        assert read == ["keys of 3", *failed, *again, "adds of 3", "keys of v2.manifest.json.0", "adds of 2"]
    else:
        assert read == ["adds of 3", *failed, "keys of v2.manifest.json.0", "adds of 2", *of_checkpoint]


@DIRECTIONS
def test_nothing_is_read_again_where_nothing_was_emitted(*, forward: bool) -> None:
    _, _, read = scanned(HISTORY, [(2, 0)], 1, forward=forward)
    assert "rows of v2.manifest.json.0 v2.manifest.json.1" in read
    assert not any("keys of v2.manifest.json" in each for each in read)


@DIRECTIONS
def test_the_scan_fails_where_what_was_emitted_cannot_be_read_again(*, forward: bool) -> None:
    log = BrokenLog(HISTORY, [(2, 1)], 1)
    good = log.executor.answer
    log.executor.answer = lambda plan: (
        UnreadableFileError("gone", "v2.manifest.json") if outline(plan) == "keys of v2.manifest.json.0" else good(plan)
    )
    with pytest.raises(UnreadableFileError, match="gone"):
        follow(live(log.snapshot, forward=forward), log.executor)
    assert not any("checkpoint" in each for each in log.executor.outline), "no other base could know what is left"


@DIRECTIONS
def test_the_keys_that_a_base_was_given_do_not_change_when_it_fails(*, forward: bool) -> None:
    """Lookups may still be under way in other threads."""
    log = BrokenLog(HISTORY, [(2, 1)], 1)
    phase = StateMachinePhase(live(log.snapshot, forward=forward))
    looked_up = {}
    while not isinstance(phase.step, Terminus):
        batches = log.executor.execute(phase.get_plan())
        if isinstance(phase.step, Consume):
            phase = phase.next(batches)
            continue
        if outline(phase.get_plan()) == "rows of v2.manifest.json.0 v2.manifest.json.1":
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
