"""An Azure Blob service on the loopback that serves a folder, and fails some requests for a while before it answers."""

from __future__ import annotations

import random
import threading
from collections import Counter
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Self
from urllib.parse import parse_qs, unquote, urlsplit
from xml.sax.saxutils import escape

if TYPE_CHECKING:
    from pathlib import Path
    from types import TracebackType

RETRIES = 3
_STATUSES = (500, 502, 503, 408)
_MODIFIED = "Sun, 15 Feb 2026 10:00:00 GMT"


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    # A connection that finds the queue full is tried again by the system only a second later.
    request_queue_size = 128


class FlakyServer:
    """Serves what is below a folder as the container `lake`.

    `serve` says which folder, and with which dice: requests for an object, or for the listing, fail up to `RETRIES`
    times in all, by a status or a body that breaks off, and are then answered.
    """

    def __init__(self) -> None:
        self._root: Path | None = None
        self._dice = random.Random(0)  # noqa: S311 - no secret
        self._left: dict[str, int] = {}
        self._cut_listings = 0
        self._lock = threading.Lock()
        self._server = _Server(("127.0.0.1", 0), self._handler())
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.01,))
        self.failed: Counter[str] = Counter()

    @property
    def options(self) -> dict[str, str]:
        """Storage options that reach it, and try again as often as it fails."""
        return {
            "account_name": "acct",
            "skip_signature": "true",
            "endpoint": f"http://127.0.0.1:{self._server.server_port}/acct",
            "retry_max_retries": str(RETRIES),
            "retry_init_backoff": "1ms",
            "retry_max_backoff": "2ms",
        }

    def serve(self, root: Path, seed: int, *, cut_listings: int = 0) -> None:
        """Goes over to another folder and other faults; so many listings break off on top of them."""
        with self._lock:
            self._root = root
            self._dice.seed(seed)
            self._left.clear()
            self._cut_listings = cut_listings
            self.failed.clear()

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def _fault(self, path: str) -> str | None:
        """What goes wrong with a request this time; None: nothing."""
        is_listing = "comp=list" in path
        with self._lock:
            if is_listing and self._cut_listings:
                self._cut_listings -= 1
                return "cut"
            left = self._left.setdefault(path, self._dice.choice([0, 0, 1, 2, RETRIES]))
            if not left:
                return None
            self._left[path] = left - 1
            fault = self._dice.choice([*map(str, _STATUSES), *([] if is_listing else ["cut"])])
            self.failed[fault] += 1
            return fault

    def _listing(self, query: dict[str, list[str]]) -> bytes:
        root = self._root
        assert root is not None
        prefix = query.get("prefix", [""])[0]
        start = query.get("startFrom", [""])[0]
        blobs = []
        for path in sorted(root.rglob("*")):
            name = path.relative_to(root).as_posix()
            if path.is_file() and name.startswith(prefix) and name >= start:
                blobs.append(
                    f"<Blob><Name>{escape(name)}</Name><Properties><Last-Modified>{_MODIFIED}</Last-Modified>"
                    f"<Etag>0x1</Etag><Content-Length>{path.stat().st_size}</Content-Length>"
                    f"<Content-Type>application/octet-stream</Content-Type></Properties></Blob>"
                )
        body = f"<EnumerationResults><Blobs>{''.join(blobs)}</Blobs><NextMarker/></EnumerationResults>"
        return b'<?xml version="1.0" encoding="utf-8"?>' + body.encode()

    def _answer(self, url: str, wanted: str | None) -> tuple[int, bytes, dict[str, str]]:
        parts = urlsplit(url)
        query = parse_qs(parts.query)
        if query.get("comp") == ["list"]:
            return 200, self._listing(query), {"Content-Type": "application/xml"}
        assert self._root is not None
        path = self._root / unquote(parts.path).removeprefix("/acct/lake/")
        if not path.is_file():
            return 404, b"", {"x-ms-error-code": "BlobNotFound"}
        whole = path.read_bytes()
        headers = {"ETag": '"0x1"', "Last-Modified": _MODIFIED}
        if wanted is None:
            return 200, whole, headers
        first, _, last = wanted.removeprefix("bytes=").partition("-")
        start, end = int(first), min(int(last) + 1 if last else len(whole), len(whole))
        if start >= len(whole):
            return 416, b"", {"x-ms-error-code": "InvalidRange"}
        return 206, whole[start:end], headers | {"Content-Range": f"bytes {start}-{end - 1}/{len(whole)}"}

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        service = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                wanted = self.headers.get("x-ms-range") or self.headers.get("Range")
                fault = service._fault(self.path)
                status, body, headers = service._answer(self.path, wanted)
                if fault not in {None, "cut"}:
                    status, body, headers = int(fault), b"", {}
                self.send_response(status)
                for name, value in headers.items():
                    self.send_header(name, value)
                self.send_header("Content-Length", str(len(body)))
                self.send_header("Connection", "close")
                self.end_headers()
                if self.command != "HEAD":
                    self.wfile.write(body[: len(body) // 2] if fault == "cut" else body)
                self.close_connection = True

            do_HEAD = do_GET  # noqa: N815

            def log_message(self, *_: object) -> None:
                """Keeps the output of tests clean."""

        return Handler
