"""Three tiers of tests: `make check` while working, `make test` for every change, `make test-full` for everything.

Tests that take long are marked `full`. In the middle tier an eighth of them runs, another one each day, so that a week
of runs has had all of them; `TEST_DAY=739570` runs the eighth of another day again. A test of many cases is marked as
a whole and taken case by case.
"""

from __future__ import annotations

import os
import zlib
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterable

TIERS = ("check", "test", "full")
DAY = "TEST_DAY"
SHARE = 8

# Rooms without a table, a store or an engine under test, and what holds the house together.
CHECKED = ("log", "plan", "predicate", "replay", "sidecar", "test_errors.py", "test_options.py", "test_rooms.py")
# Of the others, these alone.
CHECKED_TOO = ("test_a_public_table",)


def today() -> int:
    """The day whose eighth runs: every process of a run has the same, also past midnight."""
    return int(os.environ.setdefault(DAY, str(datetime.now(UTC).toordinal())))


def mark(items: Iterable[pytest.Item]) -> None:
    """Marks tests by what they need, and those of the first tier."""
    for item in items:
        fixtures = getattr(item, "fixturenames", ())
        if "spark" in fixtures:
            item.add_marker(pytest.mark.spark)
        if {"azurite", "secure_azurite"} & set(fixtures):
            item.add_marker(pytest.mark.azurite)
        if item.get_closest_marker("full") or item.get_closest_marker("spark") or item.get_closest_marker("azurite"):
            continue
        parts = item.nodeid.partition("::")[0].split("/")
        name = item.nodeid.partition("::")[2].partition("[")[0]
        if parts[1] in CHECKED or name in CHECKED_TOO:
            item.add_marker(pytest.mark.check)


def runs(item: pytest.Item, tier: str, day: int) -> bool:
    """Whether a test runs in a tier."""
    if tier == "full":
        return True
    if tier == "check":
        return item.get_closest_marker("check") is not None
    return item.get_closest_marker("full") is None or has_its_day(item.nodeid, day)


def has_its_day(key: str, day: int) -> bool:
    """Whether something belongs to the eighth of a day."""
    return (zlib.crc32(key.encode()) + day) % SHARE == 0
