"""Nothing is lost between the tiers."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests import tiers
from tests.conformance.tables import FOLDER, covering, names
from tests.conformance.test_public_tables import CHECKS, QUICK, SAMPLED, checks

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


def test_the_first_tier_has_rooms_of_its_own_and_leaves_out_what_takes_long(item: Callable[..., pytest.Item]) -> None:
    made = [item("test_it"), *(item("test_it", later) for later in tiers.LATER)]
    for each in made:
        each.path = Path(tiers.__file__).parent / "log/test_it.py"
    elsewhere = item("test_it")
    tiers.mark([*made, elsewhere])
    assert [tiers.runs(each, "check", 0) for each in (*made, elsewhere)] == [True, *(False for _ in tiers.LATER), False]


def test_properties_are_not_in_the_first_tier(request: pytest.FixtureRequest) -> None:
    @given(st.integers())
    def test_it(number: int) -> None:
        assert isinstance(number, int)

    made = pytest.Function.from_parent(request.node.parent, name="test_it", callobj=test_it)
    made.path = Path(tiers.__file__).parent / "log/test_it.py"
    tiers.mark([made])
    assert not tiers.runs(made, "check", 0)
    assert tiers.runs(made, "test", 0)


def test_the_first_tier_finds_its_files_and_their_folders() -> None:
    folder = Path(tiers.__file__).parent
    looked_into = (folder, folder / "log", folder / "log/test_it.py", folder / "test_rooms.py")
    assert all(map(tiers.has_checks, looked_into))
    assert not any(map(tiers.has_checks, (folder / "spark", folder / "cli/test_log.py", folder / "test_demo.py")))
    assert all((folder / name).exists() for name in tiers.CHECKED)


with_tables = pytest.mark.skipif(not names(), reason=f"no conformance tables in {FOLDER}")


@with_tables
def test_in_eight_days_every_public_table_has_every_check(monkeypatch: pytest.MonkeyPatch) -> None:
    days = range(1000, 1000 + tiers.SHARE)
    for name in names():
        assert checks(name, "full") == list(CHECKS)
        assert checks(name, "check") == list(QUICK)
        found: list[str] = []
        for day in days:
            monkeypatch.setenv(tiers.DAY, str(day))
            found += checks(name, "test")
        for check in CHECKS:
            assert found.count(check) == (1 if check in SAMPLED and name not in covering() else tiers.SHARE), check


@with_tables
def test_every_engine_reads_a_sample_each_day() -> None:
    assert 10 < len(covering()) < len(names())
    assert {check for check in SAMPLED if check.startswith("rows by")} == {
        f"rows by {engine}" for engine in ("dataset", "duckdb", "datafusion", "polars")
    }
