"""The shuffled order is a permutation, block by block, and depends on the seed alone."""

from __future__ import annotations

import uuid

import numpy as np
import pytest

from delta_sidecar.synth.randomness import hashed, random_uuid, shuffled


@pytest.mark.parametrize("size", [1, 2, 3, 7, 64, 65, 1_000, 4_097])
def test_shuffled_is_a_permutation(size: int) -> None:
    assert sorted(shuffled(0, size, size, seed=7).tolist()) == list(range(size))


def test_blocks_of_one_order_fit_together() -> None:
    whole = shuffled(0, 1_000, 1_000, seed=7)
    blocks = np.concatenate([shuffled(at, at + 250, 1_000, seed=7) for at in range(0, 1_000, 250)])

    assert whole.tolist() == blocks.tolist()
    assert whole.tolist() != shuffled(0, 1_000, 1_000, seed=8).tolist()


def test_streams_are_independent() -> None:
    numbers = np.arange(10_000, dtype=np.int64)
    one, two = (hashed(numbers, 7, stream).astype(np.float64) for stream in (1, 2))

    assert abs(np.corrcoef(one, two)[0, 1]) < 0.05
    assert len(np.unique(one)) == 10_000


def test_uuids_are_of_version_4() -> None:
    assert uuid.UUID(random_uuid(7, 1)).version == 4
    assert random_uuid(7, 1) == random_uuid(7, 1) != random_uuid(7, 1, number=1)
