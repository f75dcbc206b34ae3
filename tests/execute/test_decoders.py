"""How many threads decode at once."""

from __future__ import annotations

import os

import pytest

from delta_sidecar.execute.fetch import decoders


@pytest.mark.parametrize(("allowed", "expected"), [({5}, 1), ({0, 3}, 2), (set(range(64)), 4)])
def test_a_thread_for_each_core_that_is_allowed(
    monkeypatch: pytest.MonkeyPatch, allowed: set[int], expected: int
) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: allowed, raising=False)
    monkeypatch.setattr(os, "cpu_count", lambda: 64)
    assert decoders() == expected


@pytest.mark.parametrize(("there", "expected"), [(None, 1), (1, 1), (3, 3), (64, 4)])
def test_or_for_each_that_there_is(monkeypatch: pytest.MonkeyPatch, there: int | None, expected: int) -> None:
    """Not every system tells which are allowed, or even how many there are."""
    monkeypatch.delattr(os, "sched_getaffinity", raising=False)
    monkeypatch.setattr(os, "cpu_count", lambda: there)
    assert decoders() == expected
