"""A table of some hundred small files whose store tells, and may hold up, what is asked of it."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

from tests.own_threads import PATIENCE
from tests.small_files import FILES_AN_HOUR, small_files

from delta_sidecar import DeltaTable
from delta_sidecar.store import open_store
from delta_sidecar.store.testing import RecordingStore

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path
    from typing import Any

    from delta_sidecar.store.testing import Attempt

FILES, ROWS = 30 * FILES_AN_HOUR, 20


def write(root: Path) -> None:
    """Writes 600 files in 30 commits, all but the last five of them in a checkpoint."""
    small_files(root, FILES, ROWS)


def watched(
    root: Path,
    hook: Callable[[Attempt], None] | None = None,
    **options: Any,  # noqa: ANN401
) -> tuple[DeltaTable, RecordingStore]:
    """Gives a table, and the store that it is read through."""
    store = RecordingStore(open_store(root), hook)
    return DeltaTable(root, options=options, store=store), store


def data_files(store: RecordingStore) -> set[str]:
    """The data files of which anything was asked."""
    return {attempt.path for attempt in store.attempts if "_delta_log" not in attempt.path}


class Blocking:
    """A hook that holds up some requests until it is told to let them go."""

    def __init__(self, is_held: Callable[[Attempt], bool]) -> None:
        self.reached = threading.Event()
        self.released = threading.Event()
        self._is_held = is_held

    def __call__(self, attempt: Attempt) -> None:
        if self._is_held(attempt):
            self.reached.set()
            assert self.released.wait(PATIENCE)
