"""A table of 10,000 small files whose store tells what is asked of it."""

from __future__ import annotations

import threading
from functools import cache
from typing import TYPE_CHECKING

from tests.own_threads import PATIENCE, forget
from tests.small_files import FILES_AN_HOUR, hour_name, small_files

from delta_sidecar import DeltaTable
from delta_sidecar.store import open_store
from delta_sidecar.store.testing import RecordingStore

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    import pytest

    from delta_sidecar.events import Event
    from delta_sidecar.store.testing import Attempt

FILES = 10_000
ROWS = 20
HOURS = FILES // FILES_AN_HOUR
A_HANDFUL = 12


def many_small_files(factory: pytest.TempPathFactory) -> Path:
    """The table, made once for all tests of a process, which only read it."""
    return _made(factory.getbasetemp())


@cache
def _made(folder: Path) -> Path:
    root = folder / "many-small-files"
    small_files(root, FILES, ROWS)
    return root


class Watched:
    """A table, and what is asked of its store."""

    def __init__(self, root: Path, hook: Callable[[Attempt], None] | None = None) -> None:
        self.events: list[Event] = []
        self.store = RecordingStore(open_store(root), hook)
        self.table = DeltaTable(root, store=self.store, listeners=[self.events.append])

    @property
    def opened(self) -> set[str]:
        """The data files of which something was asked."""
        return {attempt.path for attempt in list(self.store.attempts) if is_data(attempt)}

    def forget(self) -> None:
        forget(self.store)


class Barrier:
    """Has whoever goes on to the checkpoint wait until it is taken away, once it is put up."""

    def __init__(self) -> None:
        self._is_away = threading.Event()
        self._is_away.set()
        self.waited = False

    def __call__(self, attempt: Attempt) -> None:
        if "checkpoint.parquet" in attempt.path and not self._is_away.is_set():
            self.waited = True
            assert self._is_away.wait(PATIENCE), "the checkpoint is read before the first rows are given"

    def put_up(self) -> None:
        self._is_away.clear()

    def take_away(self) -> None:
        self._is_away.set()


def is_data(attempt: Attempt) -> bool:
    return attempt.path.endswith(".parquet") and not attempt.path.startswith("_delta_log")


def files_of(*hours: int) -> set[str]:
    """The data files of some hours."""
    return {
        f"_event_hour={hour_name(hour)}/part-{number:05}.parquet"
        for hour in hours
        for number in range(hour * FILES_AN_HOUR, (hour + 1) * FILES_AN_HOUR)
    }
