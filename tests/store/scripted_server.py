"""A server that answers as it is told: what Azurite never does."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, ClassVar

from tests.loopback import Answer, LoopbackServer

if TYPE_CHECKING:
    from collections.abc import Callable
    from email.message import Message


class ScriptedServer(LoopbackServer):
    """Gives its answers in turn, the last one again and again.

    Args:
        answers: What it answers.
        hook: Is called with each request before it is answered.
    """

    credentials: ClassVar[dict[str, str]] = {"sas_token": "sv=2020&sig=c2VjcmV0LXNpZ25hdHVyZQ%3D%3D"}

    def __init__(self, *answers: Answer, hook: Callable[[], None] | None = None) -> None:
        super().__init__()
        self._hook = hook
        self.requests: list[tuple[str, str]] = []
        self.headers: list[dict[str, str]] = []
        self._answers = list(answers)
        self._lock = threading.Lock()

    def answer(self, method: str, path: str, headers: Message) -> Answer:
        """The next one."""
        with self._lock:
            self.requests.append((method, path))
            self.headers.append({name.lower(): value for name, value in headers.items()})
        if self._hook is not None:
            self._hook()
        with self._lock:
            return self._answers.pop(0) if len(self._answers) > 1 else self._answers[0]
