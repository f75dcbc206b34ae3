"""Three tiers of tests: `make check` while working, `make test` for every change, `make test-full` for everything.

Tests that take long are marked `full`. In the middle tier an eighth of them runs, another one each day, so that a week
of runs has had all of them; `TEST_DAY=739570` runs the eighth of another day again. A test of many cases is marked as
a whole and taken case by case.
"""

from __future__ import annotations

import os
import zlib
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterable

TIERS = ("check", "test", "full")
DAY = "TEST_DAY"
SHARE = 8
LATER = ("full", "slow", "spark", "azurite")

# Rooms without a table, a store or an engine under test, what holds the house together, and the files of public tables.
# Property tests of these rooms come in the next tier.
CHECKED = (
    "conformance",
    "log",
    "plan",
    "predicate",
    "replay",
    "sidecar",
    "test_errors.py",
    "test_options.py",
    "test_rooms.py",
)


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
        if not any(map(item.get_closest_marker, LATER)) and not _is_property(item) and has_checks(item.path):
            item.add_marker(pytest.mark.check)


def has_checks(path: Path) -> bool:
    """Whether a file or folder is one that has tests of the first tier, or a folder of such."""
    parts = path.relative_to(Path(__file__).parent).parts
    return not parts or parts[0] in CHECKED


def _is_property(item: pytest.Item) -> bool:
    return getattr(getattr(item, "obj", None), "is_hypothesis_test", False)


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
