"""A credential object that remembers how often it was asked."""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass
from typing import Any

from tests import azurite


@dataclass(frozen=True)
class AccessToken:
    """What a credential gives."""

    token: str
    expires_on: int


class Credential:
    """Gives tokens that an emulator by https accepts.

    Args:
        seconds: For how long each of them holds.
        audience: For which service they are.
        says: What the credential says about how long they hold, if it is not the truth.
    """

    def __init__(
        self, seconds: float = 3600, audience: str = "https://storage.azure.com", says: float | None = None
    ) -> None:
        self.seconds = seconds
        self.audience = audience
        self.says = seconds if says is None else says
        self.asked: list[tuple[tuple[str, ...], dict[str, Any]]] = []
        self.tokens: list[str] = []
        self._lock = threading.Lock()

    def __reduce__(self) -> tuple[Any, ...]:
        return Credential, (self.seconds, self.audience, self.says)

    def get_token(self, *scopes: str, **named: Any) -> AccessToken:  # noqa: ANN401 - as azure-identity has it
        """Gives a new token."""
        token = azurite.token(seconds=self.seconds, audience=self.audience)
        with self._lock:
            self.asked.append((scopes, named))
            self.tokens.append(token)
        return AccessToken(token, int(time.time() + self.says))
