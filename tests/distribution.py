"""Which of several processes runs which tests."""

from __future__ import annotations

from typing import TYPE_CHECKING

from xdist.scheduler import LoadScopeScheduling

if TYPE_CHECKING:
    import pytest
    from xdist.remote import Producer

SPARK = "on-spark"
"""Part of the name of every test that shares the Spark session: the scheduler knows tests by their names alone."""


class FilesTogether(LoadScopeScheduling):
    """Tests of a file stay together, since they share tables; so do all that share the one Spark session.

    Args:
        config: Of the run.
        log: Where xdist tells what it does.
    """

    def __init__(self, config: pytest.Config, log: Producer | None = None) -> None:
        super().__init__(config, log)
        # In the order of `long_ones_first`, not those with the most tests first.
        config.option.loadscopereorder = False

    def _split_scope(self, nodeid: str) -> str:
        return SPARK if SPARK in nodeid else nodeid.partition("::")[0]


def long_ones_first(items: list[pytest.Item]) -> None:
    """Puts tests on Spark first, then files with a test that takes long; the others stay in their order."""
    slow = {item.path for item in items if item.get_closest_marker("slow") or item.get_closest_marker("full")}
    items.sort(key=lambda item: (SPARK not in item.nodeid, item.path not in slow))
