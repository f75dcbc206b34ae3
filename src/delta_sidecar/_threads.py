"""The threads of this process. One that has nothing to do waits for the next work, so that a scan seldom starts any."""

from __future__ import annotations

import atexit
import os
import threading
import time
from collections import deque
from concurrent.futures import Future, wait
from functools import partial
from queue import SimpleQueue
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable

T = TypeVar("T")

IDLE = "delta-sidecar-idle"
"""Name of a thread that has nothing to do."""

_MOST_IDLE = 32
_PATIENCE = 30.0


def in_thread(work: Callable[[], None], name: str) -> None:
    """Has a thread do some work. It does not keep the process alive, which waits for it a while at its end."""
    try:
        thread = _idle.pop()
    except IndexError:
        thread = _Thread()
        thread.start()
    thread.work.put((work, name))


class ThreadPool:
    """Makes calls in threads, no more than some at once, in the order in which they were submitted."""

    def __init__(self, size: int, name: str) -> None:
        self.size = size
        self._name = name
        self._lock = threading.Lock()
        self._waiting: deque[tuple[Future[object], Callable[[], object]]] = deque()
        self._under_way: set[Future[object]] = set()
        self._workers = 0

    def submit(self, function: Callable[..., T], *arguments: object) -> Future[T]:
        """Calls a function as soon as a thread is free."""
        future: Future[T] = Future()
        with self._lock:
            self._waiting.append((future, partial(function, *arguments)))  # type: ignore[arg-type]
            if self._workers >= self.size:
                return future
            self._workers += 1
        in_thread(self._work, self._name)
        return future

    def close(self, *, wait_for_calls: bool = False) -> None:
        """Drops the calls that have not begun. Those under way go on, and are waited for only where that is asked."""
        with self._lock:
            dropped = list(self._waiting)
            self._waiting.clear()
            under_way = set(self._under_way)
        for future, _ in dropped:
            future.cancel()
        if wait_for_calls:
            wait(under_way)

    def _work(self) -> None:
        while True:
            with self._lock:
                if not self._waiting or self._workers > self.size:
                    self._workers -= 1
                    return
                future, call = self._waiting.popleft()
                self._under_way.add(future)
            try:
                _answer(future, call)
            finally:
                with self._lock:
                    self._under_way.discard(future)
            # Nothing of the last call lives on while the next one is made.
            del future, call


def _answer(future: Future[object], call: Callable[[], object]) -> None:
    if not future.set_running_or_notify_cancel():
        return
    try:
        found = call()
    except BaseException as error:  # noqa: BLE001 - handed to who asked
        future.set_exception(error)
    else:
        future.set_result(found)


class _Thread(threading.Thread):
    """A thread that does one piece of work after another, and goes by its name meanwhile."""

    def __init__(self) -> None:
        super().__init__(name=IDLE, daemon=True)
        self.work: SimpleQueue[tuple[Callable[[], None], str] | None] = SimpleQueue()

    def run(self) -> None:
        while (found := self.work.get()) is not None:
            work, self.name = found
            try:
                work()
            finally:
                del work, found
                self.name = IDLE
            if len(_idle) >= _MOST_IDLE:
                return
            _idle.append(self)


_idle: list[_Thread] = []

if hasattr(os, "register_at_fork"):
    # A child has none of its parent's threads.
    os.register_at_fork(after_in_child=_idle.clear)


def stop_threads() -> None:
    """Waits for work that is under way: a thread that is cut off inside of Arrow would abort the process."""
    deadline = time.monotonic() + _PATIENCE
    while _idle:
        _idle.pop().work.put(None)
    for thread in threading.enumerate():
        if isinstance(thread, _Thread) and thread.name != IDLE:
            thread.work.put(None)
            thread.join(max(0.0, deadline - time.monotonic()))


atexit.register(stop_threads)
