from __future__ import annotations

import pickle
from copy import deepcopy
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from delta_sidecar.log.identity import file_keys
from delta_sidecar.replay.seen.runs import KeyHashes
from delta_sidecar.replay.seen.seen import SeenSet

if TYPE_CHECKING:
    from collections.abc import Callable

PATIENTLY = settings(deadline=None)
KEYS = st.one_of(st.binary(max_size=3), st.binary(max_size=40), st.sampled_from([b"", b"\0", b"\0\0", b"a" * 33_000]))
BATCHES = st.lists(st.lists(KEYS, max_size=12), max_size=14)
LIMITS = st.sampled_from([0, 60, 300, 2_000, 1 << 20])


def binary(keys: list[bytes]) -> pa.BinaryArray:
    return pa.array(keys, pa.binary())


def numbered(numbers: range, length: int = 50) -> pa.BinaryArray:
    return binary([b"%d".ljust(length, b"x") % number for number in numbers])


def check_against_a_set(seen: SeenSet, batches: list[list[bytes]], probes: list[bytes]) -> None:
    model: set[bytes] = set()
    for batch in batches:
        expected = []
        for key in batch:
            expected.append(key not in model)
            model.add(key)
        assert seen.insert(binary(batch)).tolist() == expected
        assert len(seen) == len(model)
    asked = [*model, *probes]
    assert seen.contains(binary(asked)).tolist() == [key in model for key in asked]
    assert seen.freeze().contains(binary(probes)).tolist() == [key in model for key in probes]


@PATIENTLY
@given(BATCHES, st.lists(KEYS, max_size=6), LIMITS)
def test_it_is_a_set(batches: list[list[bytes]], probes: list[bytes], limit: int) -> None:
    check_against_a_set(SeenSet(limit), batches, probes)


@PATIENTLY
@given(BATCHES, st.lists(KEYS, max_size=6), LIMITS)
def test_it_is_exact_where_fingerprints_collide(batches: list[list[bytes]], probes: list[bytes], limit: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(KeyHashes, "fingerprints", lambda _, keys: np.full(len(keys), 7, dtype=np.uint64))
        check_against_a_set(SeenSet(limit), batches, probes)


@PATIENTLY
@given(st.lists(st.tuples(st.booleans(), st.lists(KEYS, max_size=12)), max_size=14), LIMITS)
def test_keys_that_are_held_back_come_in_together(batches: list[tuple[bool, list[bytes]]], limit: int) -> None:
    seen = SeenSet(limit)
    model: set[bytes] = set()
    later: set[bytes] = set()
    for now, batch in batches:
        if now:
            expected = [key not in model and key not in batch[:place] for place, key in enumerate(batch)]
            assert seen.insert(binary(batch)).tolist() == expected
            model.update(batch)
        else:
            seen.hold_back(binary(batch))
            later.update(batch)
        asked = [*model, *later]
        assert seen.contains(binary(asked)).tolist() == [key in model for key in asked]
    seen.release()
    asked = [*model, *later, b"neither"]
    assert len(seen) == len(model | later)
    assert seen.contains(binary(asked)).tolist() == [key in model | later for key in asked]
    seen.release()
    assert len(seen) == len(model | later)


@PATIENTLY
@given(st.lists(KEYS, min_size=1, max_size=10), st.data(), LIMITS)
def test_slices_of_arrays_are_what_they_show(keys: list[bytes], data: st.DataObject, limit: int) -> None:
    start = data.draw(st.integers(0, len(keys) - 1))
    length = data.draw(st.integers(0, len(keys) - start))
    seen = SeenSet(limit)
    seen.insert(binary(keys).slice(start, length))
    inside = set(keys[start : start + length])
    assert seen.contains(binary(keys)).tolist() == [key in inside for key in keys]
    assert seen.contains(binary(keys).slice(start)).tolist() == [key in inside for key in keys[start:]]


@pytest.mark.parametrize("limit", [0, 1 << 30])
def test_many_batches(limit: int) -> None:
    seen = SeenSet(limit)
    for start in range(0, 20_000, 500):
        batch = [b"part/%d.parquet" % number for number in range(start, start + 1_000)]
        fresh = seen.insert(binary(batch))
        assert fresh.sum() == (500 if start else 1_000)
    assert len(seen) == 20_500
    assert seen.contains(binary([b"part/%d.parquet" % number for number in range(20_500)])).all()
    assert not seen.contains(binary([b"part/%d.parque" % number for number in range(20_500)])).any()


def test_memory_of_a_large_set_does_not_grow_with_the_keys() -> None:
    sizes = []
    for length in (50, 500):
        seen = SeenSet(1_000_000)
        seen.insert(numbered(range(20_000), length))
        seen.freeze()
        assert seen.tier == "digests"
        sizes.append(seen.nbytes)
    assert sizes[0] == sizes[1] == 20_000 * 24


def test_keys_become_digests_and_digests_go_to_disk() -> None:
    seen = SeenSet(300_000)
    tiers, sizes = [], []
    for start in range(0, 20_000, 200):
        seen.insert(numbered(range(start, start + 200)))
        tiers.append(seen.tier)
        sizes.append(seen.nbytes)
    assert tiers == sorted(tiers, key=["keys", "digests", "disk"].index)
    assert len(set(tiers)) == 3
    assert max(sizes) <= 300_000 / 2
    assert len(seen) == 20_000


def test_what_is_held_back_counts_for_the_limit() -> None:
    seen = SeenSet(300_000)
    for start in range(0, 40_000, 1_000):
        seen.insert(numbered(range(start, start + 500)))
        seen.hold_back(numbered(range(start + 500, start + 1_000)))
        assert seen.nbytes <= 300_000 / 2
    assert (len(seen), seen.tier) == (20_000, "disk")
    seen.release()
    assert len(seen) == 40_000
    assert seen.nbytes <= 300_000 / 2
    assert seen.contains(numbered(range(-100, 40_100))).tolist() == [False] * 100 + [True] * 40_000 + [False] * 100


@pytest.mark.parametrize("limit", [0, 300, 1 << 20])
@pytest.mark.parametrize("copied", [lambda seen: pickle.loads(pickle.dumps(seen)), deepcopy])  # noqa: S301
def test_a_copy_stands_by_itself(limit: int, copied: Callable[[SeenSet], SeenSet]) -> None:
    seen = SeenSet(limit)
    seen.insert(binary([b"a", b"b"]))
    seen.hold_back(binary([b"later"]))
    copy = copied(seen)
    assert copy.tier == seen.tier
    assert copy.contains(binary([b"a", b"b", b"c"])).tolist() == [True, True, False]
    assert copy.insert(binary([b"b", b"c"])).tolist() == [False, True]
    copy.release()
    assert copy.contains(binary([b"later", b"c"])).all()
    assert not seen.contains(binary([b"c", b"later"])).any()
    seen.release()
    assert seen.contains(binary([b"a", b"b", b"later"])).all()


def test_nothing_is_in_an_empty_set() -> None:
    seen = SeenSet()
    assert seen.contains(binary([b"", b"a"])).tolist() == [False, False]
    assert seen.insert(binary([])).tolist() == []
    assert seen.contains(binary([])).tolist() == []
    assert len(seen) == 0


def test_files_that_a_set_hides_are_those_whose_keys_are_in_it() -> None:
    vector = pa.struct([("storageType", pa.string()), ("pathOrInlineDv", pa.string()), ("offset", pa.int32())])
    other = {"storageType": "u", "pathOrInlineDv": "ab^-aqEH.-t@S}K{vb[*k^", "offset": 4}

    def added(paths: list[str], vectors: list[object]) -> dict[str, pa.Array]:
        return {
            "path": pa.array(paths),
            "deletionVector": pa.array(vectors, vector),
            "size": pa.array([1] * len(paths)),
        }

    tail = added(["file:/a", "b%20c", "d", "e"], [None, None, other, None])
    seen = SeenSet()
    seen.insert(file_keys(tail))
    seen.freeze()
    for many in (0, 5_000):
        names = [f"x{number}" for number in range(many)]
        # `d` and `e` are there with another deletion vector than in the tail.
        add = added(["/a", "b c", "d", "d", "e", "f", *names], [None, None, None, other, other, None, *[None] * many])
        hidden = seen.hides(add)
        assert hidden.tolist() == seen.contains(file_keys(add)).tolist()
        assert np.flatnonzero(hidden).tolist() == [0, 1, 3]
    assert not SeenSet().freeze().hides(tail).any()
