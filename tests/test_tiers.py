"""Nothing is lost between the tiers."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from tests import tiers

if TYPE_CHECKING:
    from collections.abc import Callable


@pytest.fixture
def item(request: pytest.FixtureRequest) -> Callable[..., pytest.Item]:
    def make(name: str, *marks: str) -> pytest.Item:
        made = pytest.Function.from_parent(request.node.parent, name=name, callobj=lambda: None)
        for mark in marks:
            made.add_marker(mark)
        return made

    return make


def test_in_eight_days_every_test_runs_once(item: Callable[..., pytest.Item]) -> None:
    for number in range(100):
        made = item(f"test_{number}", "full")
        assert sum(tiers.runs(made, "test", day) for day in range(1000, 1000 + tiers.SHARE)) == 1


def test_every_day_has_its_share(item: Callable[..., pytest.Item]) -> None:
    made = [item(f"test_{number}", "full") for number in range(800)]
    for day in range(tiers.SHARE):
        assert 50 < sum(tiers.runs(one, "test", day) for one in made) < 150


def test_what_is_not_marked_runs_every_day(item: Callable[..., pytest.Item]) -> None:
    assert all(tiers.runs(item("test_it"), "test", day) for day in range(tiers.SHARE))


def test_the_last_tier_leaves_nothing_out(item: Callable[..., pytest.Item]) -> None:
    assert all(tiers.runs(item("test_it", *marks), "full", 0) for marks in ((), ("full",), ("spark",), ("check",)))


def test_the_first_tier_has_what_is_marked_for_it(item: Callable[..., pytest.Item]) -> None:
    assert tiers.runs(item("test_it", "check"), "check", 0)
    assert not tiers.runs(item("test_it"), "check", 0)
