"""HTTP servers on the loopback that stand in for a cloud's services."""

from __future__ import annotations

import sys
import threading
from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any, ClassVar, Self

if TYPE_CHECKING:
    from email.message import Message
    from types import TracebackType

STANDARD = {"ETag": '"0x1"', "Last-Modified": "Sun, 15 Feb 2026 10:00:00 GMT"}


@dataclass(frozen=True)
class Answer:
    """One answer: a status, headers and a body, which may be shorter than `announced`."""

    status: int
    body: bytes = b""
    headers: dict[str, str] = field(default_factory=dict)
    announced: int | None = None

    @classmethod
    def part(cls, whole: bytes, start: int, end: int) -> Answer:
        """The right answer to a request for a range."""
        headers = {"Content-Range": f"bytes {start}-{end - 1}/{len(whole)}", **STANDARD}
        return cls(206, whole[start:end], headers)

    @classmethod
    def whole(cls, body: bytes) -> Answer:
        """The right answer to a request for an object."""
        return cls(200, body, dict(STANDARD))


class LoopbackServer(ABC):
    """Answers from when it is entered until it is left.

    Attributes:
        credentials: Storage options that it is reached with.
        retries: How often a request to it is tried again.
    """

    credentials: ClassVar[dict[str, str]] = {"skip_signature": "true"}
    retries: ClassVar[int] = 3

    def __init__(self) -> None:
        self._server = _Server(("127.0.0.1", 0), self._handler())
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.01,))

    @abstractmethod
    def answer(self, method: str, path: str, headers: Message) -> Answer:
        """Answers a request."""

    def respond(self, method: str, path: str, headers: Message, body: bytes) -> Answer:
        """Answers a request that may have a body."""
        del body
        return self.answer(method, path, headers)

    @property
    def address(self) -> str:
        """Where it listens."""
        return f"http://127.0.0.1:{self._server.server_port}"

    @property
    def impatience(self) -> dict[str, str]:
        """Storage options that try again quickly."""
        return {
            "retry_max_retries": str(self.retries),
            "retry_init_backoff": "1ms",
            "retry_max_backoff": "2ms",
        }

    @property
    def options(self) -> dict[str, str]:
        """Storage options that reach it as an Azure Blob service."""
        return {
            "account_name": "acct",
            "endpoint": f"{self.address}/acct",
            **self.impatience,
            **self.credentials,
        }

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        service = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
                answer = service.respond(self.command, self.path, self.headers, body)
                self.send_response(answer.status)
                for name, value in answer.headers.items():
                    self.send_header(name, value)
                length = len(answer.body) if answer.announced is None else answer.announced
                self.send_header("Content-Length", str(length))
                self.send_header("Connection", "close")
                self.end_headers()
                if self.command != "HEAD":
                    self.wfile.write(answer.body)
                self.close_connection = True

            do_DELETE = do_HEAD = do_POST = do_PUT = do_GET  # noqa: N815

            def log_message(self, *_: object) -> None:
                """Keeps the output of tests clean."""

        return Handler


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    # A connection that finds the queue full is tried again by the system only a second later.
    request_queue_size = 128

    def handle_error(self, request: Any, client_address: Any) -> None:  # noqa: ANN401 - as the base class has it
        """Says nothing of a client that went away: it would be said in the middle of another test."""
        if not isinstance(sys.exception(), ConnectionError):
            super().handle_error(request, client_address)
