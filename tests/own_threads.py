"""The threads of this library: which there are, whether they rest, and when they have ended."""

from __future__ import annotations

import sys
import threading
import time
from pathlib import PurePath
from typing import TYPE_CHECKING

from delta_sidecar._threads import IDLE

if TYPE_CHECKING:
    from collections.abc import Callable

    from delta_sidecar.store.testing import RecordingStore

PATIENCE = 60
"""Seconds after which a test that hangs fails instead."""

_RESTING = {("threading.py", "wait"), ("_threads.py", "run")}
"""Where a thread waits for others: the file and function that it is in."""


_of_earlier_tests: set[threading.Thread] = set()


def own_threads() -> set[threading.Thread]:
    """Those that work for the test, or for a fixture that was made for it; not those that are kept for the next."""
    names = {thread: thread.name for thread in threading.enumerate()}
    busy = {thread for thread, name in names.items() if name.startswith("delta-sidecar") and name != IDLE}
    return busy - _of_earlier_tests


def leave_out_running_threads() -> None:
    """Before a test: what an engine, or an error not collected yet, holds of the tests before is not its own."""
    _of_earlier_tests.intersection_update(threading.enumerate())
    _of_earlier_tests.update(own_threads())


def await_threads(before: set[threading.Thread] | frozenset[threading.Thread] = frozenset()) -> None:
    """Waits until there are no others than before."""
    deadline = time.monotonic() + PATIENCE
    while left := own_threads() - before:
        assert time.monotonic() < deadline, f"{[thread.name for thread in left]} are left over"
        time.sleep(0.001)


def forget(store: RecordingStore) -> None:
    """Forgets what was asked of a store, once nobody asks any more: opening a table asks ahead."""
    await_threads()
    store.attempts.clear()


def are_at_rest() -> bool:
    """Whether each waits for another one, for a gate or for work: on a busy machine, one that does not may be slow."""
    frames = sys._current_frames()
    at = [frames[thread.ident].f_code for thread in own_threads() if thread.ident in frames]
    return all((PurePath(code.co_filename).name, code.co_name) in _RESTING for code in at)


def settled(count: Callable[[], int], quiet: float = 0.15, *, at_least: int = 0) -> int:
    """Waits until a count is as high as it must become, and has not changed for a while in which all was at rest."""
    deadline = time.monotonic() + PATIENCE
    last, since = count(), time.monotonic()
    while time.monotonic() - since < quiet:
        assert time.monotonic() < deadline, "it goes on and on"
        time.sleep(0.005)
        now = count()
        if now != last or now < at_least or not are_at_rest():
            last, since = now, time.monotonic()
    return last
