"""A store that remembers what it was asked."""

from __future__ import annotations

import threading
from dataclasses import dataclass
from typing import TYPE_CHECKING

from delta_sidecar.store.wrappers.wrapper import StoreWrapper

if TYPE_CHECKING:
    from collections.abc import Callable

    from delta_sidecar.store.interface import Store
    from delta_sidecar.store.requests import RequestKind


@dataclass(frozen=True, slots=True)
class Attempt:
    """A request as it was asked for, whatever became of it."""

    kind: RequestKind
    path: str
    start: int | None = None
    end: int | None = None


class RecordingStore(StoreWrapper):
    """A store that remembers every request, over all its bound views.

    Args:
        inner: The store that answers.
        hook: Is called before each request, in the thread that makes it; it may wait, or raise.
    """

    def __init__(self, inner: Store, hook: Callable[[Attempt], None] | None = None) -> None:
        super().__init__(inner)
        self.attempts: list[Attempt] = []
        self._hook = hook
        self._lock = threading.Lock()

    def before(self, kind: RequestKind, path: str, start: int | None = None, end: int | None = None) -> None:
        """Remembers the request and calls the hook."""
        attempt = Attempt(kind, path, start, end)
        with self._lock:
            self.attempts.append(attempt)
        if self._hook is not None:
            self._hook(attempt)

    def paths(self, kind: RequestKind) -> list[str]:
        """Gives the paths that were asked for by one kind of request, in order."""
        with self._lock:
            return [attempt.path for attempt in self.attempts if attempt.kind == kind]
