"""A proxy in front of the Azure Blob emulator: it remembers what would change the store, in order, and can cut it off.

Spark's connector and our own store talk through it alike. Requests are passed on as they came: signatures cover the
path and some headers, not the host.
"""

from __future__ import annotations

import http.client
import threading
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Literal, Self
from urllib.parse import parse_qs, unquote, urlsplit

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import TracebackType

Cut = Literal["never sent", "answer lost"]

_READS = frozenset({"GET", "HEAD", "OPTIONS"})
# Of one exchange of messages only, never of the request itself.
_HOP_BY_HOP = frozenset({"connection", "keep-alive", "expect", "transfer-encoding"})


@dataclass(frozen=True)
class Mutation:
    """A request that would change the store.

    Attributes:
        kind: What it does: `put`, `block`, `blocklist`, `copy`, `delete`, `batch`, or the `comp` of the request.
        path: The blob's path, with its container, decoded; of a batch only the container.
        reached: Whether it came to the store.
    """

    kind: str
    path: str
    reached: bool = True

    @property
    def name(self) -> str:
        """The last part of the path."""
        return self.path.rpartition("/")[2]


@dataclass
class _Recording:
    mutations: list[Mutation] = field(default_factory=list)
    cut_at: int | None = None
    cut: Cut = "never sent"


class RecordingProxy:
    """Passes requests on from when it is entered until it is left.

    Args:
        endpoint: The account's address at the emulator, such as `http://127.0.0.1:10000/devstoreaccount1`.
    """

    def __init__(self, endpoint: str) -> None:
        place = urlsplit(endpoint)
        self._account = place.path
        self._upstream = (place.hostname or "", place.port or 80)
        self._lock = threading.Lock()
        self._now = _Recording()
        self._server = _Server(("127.0.0.1", 0), self._handler())
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.01,))

    @property
    def endpoint(self) -> str:
        """The account's address through this proxy."""
        return f"http://127.0.0.1:{self._server.server_port}{self._account}"

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    @contextmanager
    def recording(self, cut_at: int | None = None, cut: Cut = "never sent") -> Iterator[list[Mutation]]:
        """Remembers what would change the store, from now until this is left; then everything is passed on again.

        Args:
            cut_at: From this one on, counted from 1, nothing that would change the store comes through; None for no
                cut. Reads always do.
            cut: Whether that one itself comes through, and only its answer is lost.
        """
        with self._lock:
            self._now = now = _Recording(cut_at=cut_at, cut=cut)
        try:
            yield now.mutations
        finally:
            with self._lock:
                self._now = _Recording()

    def admit(self, method: str, path: str, *, is_copy: bool) -> tuple[bool, bool]:
        """Notes a request down, and says whether it is passed on, and whether its answer is."""
        if method in _READS:
            return True, True
        place = urlsplit(path)
        kind = _kind(method, parse_qs(place.query, keep_blank_values=True).get("comp", [""])[0], is_copy=is_copy)
        with self._lock:
            now = self._now
            number = len(now.mutations) + 1
            answered = now.cut_at is None or number < now.cut_at
            sent = answered or (number == now.cut_at and now.cut == "answer lost")
            blob = unquote(place.path).removeprefix(self._account + "/")
            now.mutations.append(Mutation(kind, blob, sent))
        return sent, answered

    def passed_on(self, handler: BaseHTTPRequestHandler, body: bytes) -> tuple[http.client.HTTPResponse, bytes]:
        """Sends a request to the emulator and gives its answer."""
        upstream = http.client.HTTPConnection(*self._upstream, timeout=60)
        try:
            upstream.putrequest(handler.command, handler.path, skip_host=True, skip_accept_encoding=True)
            for name, value in handler.headers.items():
                if name.lower() not in _HOP_BY_HOP:
                    upstream.putheader(name, value)
            upstream.putheader("Connection", "close")
            upstream.endheaders(body or None)
            answer = upstream.getresponse()
            return answer, answer.read()
        finally:
            upstream.close()

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        proxy = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            # Else the body of an answer waits until its headers have been acknowledged.
            disable_nagle_algorithm = True

            def do_GET(self) -> None:
                body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
                is_copy = "x-ms-copy-source" in self.headers
                sent, answered = proxy.admit(self.command, self.path, is_copy=is_copy)
                if sent:
                    answer, content = proxy.passed_on(self, body)
                if not answered:
                    self.close_connection = True
                    return
                self.send_response_only(answer.status, answer.reason)
                for name, value in answer.getheaders():
                    if name.lower() not in _HOP_BY_HOP | {"content-length"}:
                        self.send_header(name, value)
                length = answer.headers.get("Content-Length") if self.command == "HEAD" else str(len(content))
                if length is not None:
                    self.send_header("Content-Length", length)
                self.end_headers()
                self.wfile.write(content)

            do_DELETE = do_HEAD = do_OPTIONS = do_PATCH = do_POST = do_PUT = do_GET  # noqa: N815

            def log_message(self, *_: object) -> None:
                """Keeps the output of tests clean."""

        return Handler


def _kind(method: str, comp: str, *, is_copy: bool) -> str:
    if is_copy:
        return "copy"
    if method == "DELETE":
        return "delete"
    return comp or method.lower()


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 128
