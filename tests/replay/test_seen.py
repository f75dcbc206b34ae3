from __future__ import annotations

import pickle

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from delta_sidecar.replay import seen as module
from delta_sidecar.replay.seen import SeenSet

PATIENTLY = settings(deadline=None)
KEYS = st.one_of(st.binary(max_size=3), st.binary(max_size=40), st.sampled_from([b"", b"\0", b"\0\0", b"a" * 33_000]))
BATCHES = st.lists(st.lists(KEYS, max_size=12), max_size=14)
LIMITS = st.sampled_from([0, 60, 1 << 20])


def binary(keys: list[bytes]) -> pa.BinaryArray:
    return pa.array(keys, pa.binary())


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
        patch.setattr(module, "_fingerprints", lambda keys, _: np.full(len(keys), 7, dtype=np.uint64))
        check_against_a_set(SeenSet(limit), batches, probes)


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
        seen = SeenSet(10_000)
        seen.insert(binary([b"%d".ljust(length, b"x") % number for number in range(20_000)]))
        seen.freeze()
        sizes.append(seen.nbytes)
    assert sizes[0] == sizes[1] <= 20_000 * 36


@pytest.mark.parametrize("limit", [0, 1 << 20])
def test_it_pickles(limit: int) -> None:
    seen = SeenSet(limit)
    seen.insert(binary([b"a", b"b"]))
    copy = pickle.loads(pickle.dumps(seen))  # noqa: S301
    assert copy.contains(binary([b"a", b"b", b"c"])).tolist() == [True, True, False]
    assert copy.insert(binary([b"b", b"c"])).tolist() == [False, True]
    assert not seen.contains(binary([b"c"])).any()


def test_nothing_is_in_an_empty_set() -> None:
    seen = SeenSet()
    assert seen.contains(binary([b"", b"a"])).tolist() == [False, False]
    assert seen.insert(binary([])).tolist() == []
    assert seen.contains(binary([])).tolist() == []
    assert len(seen) == 0
