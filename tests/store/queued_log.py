"""A request log that tells when a request of its scan has begun to wait."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

from delta_sidecar.store import RequestLog

if TYPE_CHECKING:
    from collections.abc import Callable

PATIENCE = 60
"""Seconds after which a test that hangs fails instead."""


class QueuedLog(RequestLog):
    def __init__(self) -> None:
        super().__init__()
        self._queued = threading.Semaphore(0)

    def watch(self, wake: Callable[[], None]) -> None:
        super().watch(wake)
        self._queued.release()

    def await_queued(self) -> None:
        """Returns once one more request waits."""
        assert self._queued.acquire(timeout=PATIENCE)
