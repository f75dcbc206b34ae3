"""An HTTP server on the loopback that answers as it is told: what Azurite never does."""

from __future__ import annotations

import threading
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Self

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import TracebackType


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


STANDARD = {"ETag": '"0x1"', "Last-Modified": "Sun, 15 Feb 2026 10:00:00 GMT"}


class ScriptedServer:
    """Gives its answers in turn, the last one again and again.

    Args:
        answers: What it answers.
        hook: Is called with each request before it is answered.
    """

    def __init__(self, *answers: Answer, hook: Callable[[], None] | None = None) -> None:
        self._hook = hook
        self.requests: list[tuple[str, str]] = []
        self._answers = list(answers)
        self._lock = threading.Lock()
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.01,))

    @property
    def options(self) -> dict[str, str]:
        """Storage options that reach it, and try again quickly."""
        return {
            "account_name": "acct",
            "sas_token": "sv=2020&sig=c2VjcmV0LXNpZ25hdHVyZQ%3D%3D",
            "endpoint": f"http://127.0.0.1:{self._server.server_port}/acct",
            "retry_max_retries": "3",
            "retry_init_backoff": "1ms",
            "retry_max_backoff": "2ms",
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

    def _next(self, method: str, path: str) -> Answer:
        with self._lock:
            self.requests.append((method, path))
        if self._hook is not None:
            self._hook()
        with self._lock:
            return self._answers.pop(0) if len(self._answers) > 1 else self._answers[0]

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        script = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                answer = script._next(self.command, self.path)
                self.send_response(answer.status)
                for name, value in answer.headers.items():
                    self.send_header(name, value)
                length = len(answer.body) if answer.announced is None else answer.announced
                self.send_header("Content-Length", str(length))
                self.send_header("Connection", "close")
                self.end_headers()
                self.wfile.write(answer.body)
                self.close_connection = True

            do_PUT = do_HEAD = do_GET  # noqa: N815

            def log_message(self, *_: object) -> None:
                """Keeps the output of tests clean."""

        return Handler
