"""A base that breaks off in the middle: what it gave out stands, the next one goes on with the rest."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.builder import add, remove
from tests.replay.canned import CannedExecutor, follow, source
from tests.replay.handmade import answers, checkpoint_batch, snapshot_of
from tests.replay.plain_base import plain_answer, plain_base, row_groups

from delta_sidecar.errors import CorruptCheckpointError, UnreadableFileError
from delta_sidecar.plan import ReadFiles, ScanParquet
from delta_sidecar.replay.scan import forward_scan, reverse_scan
from delta_sidecar.replay.snapshot import BaseChoice, bases_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from delta_sidecar.plan import Plan

State = dict[str, int]
Break = tuple[int, int]
"""Version of a base, and which of its row groups cannot be read."""

COMMITS = st.lists(
    st.dictionaries(st.sampled_from("abcdefgh"), st.booleans(), max_size=5).map(lambda said: sorted(said.items())),
    min_size=1,
    max_size=7,
)
"""Each commit says of some paths whether they are added or removed."""


def actions(version: int, said: Sequence[tuple[str, bool]]) -> list[dict[str, Any]]:
    """Gives the actions of a commit; a file's size is the version that added it."""
    return [add(path, size=version) if is_add else remove(path) for path, is_add in said]


def states(history: Sequence[Sequence[tuple[str, bool]]]) -> list[State]:
    """Gives the live files at every version."""
    found: list[State] = []
    for version, said in enumerate(history):
        state = dict(found[-1]) if found else {}
        state.update({path: version for path, is_add in said if is_add})
        found.append({path: size for path, size in state.items() if (path, False) not in said})
    return found


def scanned(
    chain: Any,  # noqa: ANN401
    history: Sequence[Sequence[tuple[str, bool]]],
    broken: Sequence[Break],
    checkpoint: int | None,
) -> tuple[list[tuple[str, int]], Any]:
    """Scans a log on bases that break off and then on its checkpoint; gives (path, size) of files, and the scan."""
    at = states(history)
    groups: dict[str, list[Any]] = {}
    bases = []
    for number, (version, torn) in enumerate(broken):
        name = f"plain{number}"
        whole = row_groups(at[version])
        bases.append(plain_base(version, whole, name))
        groups[name] = [*whole[:torn], *[UnreadableFileError("torn", name)] * len(whole[torn:])]
    tail = {version: actions(version, said) for version, said in enumerate(history)}
    rows = [] if checkpoint is None else [checkpoint_batch(path, size=size) for path, size in at[checkpoint].items()]
    others = answers(tail, rows)

    def answer(plan: Plan) -> Any:  # noqa: ANN401
        plan = source(plan)
        if isinstance(plan, ReadFiles):
            name = plan.paths[0].removesuffix(".txt")
            return plain_answer(plan, next(base.version for base in bases if base.name == name), groups[name])
        if isinstance(plan, ScanParquet) and plan.files[0].path.endswith(".rows"):
            return plain_answer(plan, None, groups[plan.files[0].path.removesuffix(".rows")])
        return others(plan)

    snapshot = snapshot_of(range(len(history)), checkpoint)
    segment = snapshot.choice.segment
    snapshot = replace(snapshot, choice=BaseChoice(segment, (*bases, *bases_of(segment))))
    _, batches, scan = follow(chain(snapshot, None), CannedExecutor(answer))
    return [(row["path"], row["size"]) for batch in batches for row in batch.to_pylist()], scan


@given(
    chain=st.sampled_from([reverse_scan, forward_scan]),
    history=COMMITS,
    data=st.data(),
)
def test_every_live_file_comes_once_whatever_breaks_off_where(
    chain: Any,  # noqa: ANN401
    history: list[list[tuple[str, bool]]],
    data: st.DataObject,
) -> None:
    versions = st.integers(0, len(history) - 1)
    broken = data.draw(st.lists(st.tuples(versions, st.integers(0, 4)), min_size=1, max_size=3))
    checkpoint = data.draw(st.none() | versions)
    found, _ = scanned(chain, history, broken, checkpoint)
    assert sorted(found) == sorted(states(history)[-1].items())


HISTORY = [
    [("a", True), ("b", True), ("c", True), ("d", True), ("e", True)],
    [("a", False), ("f", True)],
    [("b", True), ("c", False)],
    [("a", True), ("g", True)],
]


@pytest.mark.parametrize("chain", [reverse_scan, forward_scan])
@pytest.mark.parametrize("checkpoint", [1, 2, None])
@pytest.mark.parametrize("broken", [[(2, 1)], [(1, 1)], [(1, 2), (2, 1)], [(2, 1), (1, 0)], [(2, 1), (2, 0), (0, 1)]])
def test_the_next_base_goes_on_where_one_broke_off(
    chain: Any,  # noqa: ANN401
    broken: list[Break],
    checkpoint: int | None,
) -> None:
    found, scan = scanned(chain, HISTORY, broken, checkpoint)
    assert sorted(found) == [("a", 3), ("b", 2), ("d", 0), ("e", 0), ("f", 1), ("g", 3)]
    assert scan.unusable == {f"plain{number}" for number in range(len(broken))}
    assert scan.base_version == (-1 if checkpoint is None else checkpoint)


def test_forward_gives_the_rest_before_the_tail() -> None:
    found, _ = scanned(forward_scan, HISTORY, [(2, 1)], 1)
    assert found == [("b", 2), ("d", 0), ("e", 0), ("f", 1), ("a", 3), ("g", 3)]


@pytest.mark.parametrize("chain", [reverse_scan, forward_scan])
def test_the_scan_fails_where_no_base_is_left(chain: Any) -> None:  # noqa: ANN401
    snapshot = snapshot_of(range(2, 4))
    base = replace(plain_base(1, [{"a": 0}]), is_trusted=True)
    snapshot = replace(snapshot, choice=BaseChoice(snapshot.choice.segment, (base,)))

    def answer(plan: Plan) -> Any:  # noqa: ANN401
        others = answers({2: [add("x")], 3: [add("y")]}, [])
        return UnreadableFileError("torn", "plain.rows") if isinstance(plan, ScanParquet) else others(plan)

    with pytest.raises(CorruptCheckpointError, match=r"plain cannot be used \(torn\)"):
        follow(chain(snapshot, None), CannedExecutor(answer))
