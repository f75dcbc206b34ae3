"""A server that hands out tokens and checks them: the endpoints of identities, and an object for who shows a token."""

from __future__ import annotations

import json
import threading
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar
from urllib.parse import parse_qs, urlsplit

from tests.loopback import Answer, LoopbackServer

if TYPE_CHECKING:
    from email.message import Message

TOKEN = "the-token-of-the-tests"  # noqa: S105 - the fake's own


@dataclass(frozen=True)
class Asked:
    """One request.

    Attributes:
        path: Its path, without the query.
        fields: What its query or its form says.
        headers: Its headers, by names in lower case.
    """

    path: str
    fields: dict[str, str]
    headers: dict[str, str]


class IdentityServer(LoopbackServer):
    """Gives `TOKEN` to who asks anywhere below `/tokens` or `/tenant`, and objects to who shows it.

    Args:
        refusal: What it answers to who asks for a token, instead of one.
        fixed: What it answers to who asks for an object, whatever they show.
    """

    credentials: ClassVar[dict[str, str]] = {}
    retries: ClassVar[int] = 0

    def __init__(self, refusal: Answer | None = None, fixed: Answer | None = None) -> None:
        super().__init__()
        self.asked: list[Asked] = []
        self._refusal = refusal
        self._fixed = fixed
        self._lock = threading.Lock()

    @property
    def tokens(self) -> list[Asked]:
        """The requests for tokens."""
        return [asked for asked in self.asked if not asked.path.startswith("/acct/")]

    @property
    def objects(self) -> list[Asked]:
        """The requests for objects."""
        return [asked for asked in self.asked if asked.path.startswith("/acct/")]

    def answer(self, method: str, path: str, headers: Message) -> Answer:
        """Answers a request without a body."""
        return self.respond(method, path, headers, b"")

    def respond(self, method: str, path: str, headers: Message, body: bytes) -> Answer:
        """Answers a request."""
        del method
        parts = urlsplit(path)
        said = {**parse_qs(parts.query), **parse_qs(body.decode())}
        fields = {name: values[0] for name, values in said.items()}
        with self._lock:
            self.asked.append(Asked(parts.path, fields, {name.lower(): value for name, value in headers.items()}))
        if parts.path.startswith(("/tokens", "/tenant")):
            return self._refusal or _token()
        if self._fixed is not None:
            return self._fixed
        if headers.get("Authorization") != f"Bearer {TOKEN}":
            return Answer(403, b"<Error><Code>AuthenticationFailed</Code><Message>no access</Message></Error>")
        return Answer.whole(b"hello")


def _token() -> Answer:
    named = {"access_token": TOKEN, "expires_in": 3600, "expires_on": str(int(time.time()) + 3600)}
    text = json.dumps({**named, "token_type": "Bearer", "resource": "https://storage.azure.com", "not_before": "1"})
    return Answer(200, text.encode(), {"Content-Type": "application/json"})
