"""An Azure Blob service on the loopback that serves a folder, and fails some requests for a while before it answers."""

from __future__ import annotations

import random
import threading
from collections import Counter
from typing import TYPE_CHECKING
from urllib.parse import parse_qs, unquote, urlsplit
from xml.sax.saxutils import escape

from tests.loopback import STANDARD, Answer, LoopbackServer

if TYPE_CHECKING:
    from email.message import Message
    from pathlib import Path

_STATUSES = (500, 502, 503, 408)


class FlakyServer(LoopbackServer):
    """Serves what is below a folder as the container `lake`.

    `serve` says which folder, and with which dice: requests for an object, or for the listing, fail as often as they
    are tried again, by a status or a body that breaks off, and are then answered.
    """

    def __init__(self) -> None:
        super().__init__()
        self._root: Path | None = None
        self._dice = random.Random(0)  # noqa: S311 - no secret
        self._left: dict[str, int] = {}
        self._cut_listings = 0
        self._lock = threading.Lock()
        self.failed: Counter[str] = Counter()

    def serve(self, root: Path, seed: int, *, cut_listings: int = 0) -> None:
        """Goes over to another folder and other faults; so many listings break off on top of them."""
        with self._lock:
            self._root = root
            self._dice.seed(seed)
            self._left.clear()
            self._cut_listings = cut_listings
            self.failed.clear()

    def answer(self, method: str, path: str, headers: Message) -> Answer:
        """What is asked for, or a fault."""
        del method
        fault = self._fault(path)
        if fault not in {None, "cut"}:
            return Answer(int(fault))
        found = self._found(path, headers.get("x-ms-range") or headers.get("Range"))
        if fault == "cut":
            return Answer(found.status, found.body[: len(found.body) // 2], found.headers, len(found.body))
        return found

    def _fault(self, path: str) -> str | None:
        """What goes wrong with a request this time; None: nothing."""
        is_listing = "comp=list" in path
        with self._lock:
            if is_listing and self._cut_listings:
                self._cut_listings -= 1
                return "cut"
            left = self._left.setdefault(path, self._dice.choice([0, 0, 1, 2, self.retries]))
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
                    f"<Blob><Name>{escape(name)}</Name><Properties><Last-Modified>{STANDARD['Last-Modified']}</Last-Modified>"
                    f"<Etag>0x1</Etag><Content-Length>{path.stat().st_size}</Content-Length>"
                    f"<Content-Type>application/octet-stream</Content-Type></Properties></Blob>"
                )
        body = f"<EnumerationResults><Blobs>{''.join(blobs)}</Blobs><NextMarker/></EnumerationResults>"
        return b'<?xml version="1.0" encoding="utf-8"?>' + body.encode()

    def _found(self, url: str, wanted: str | None) -> Answer:
        parts = urlsplit(url)
        query = parse_qs(parts.query)
        if query.get("comp") == ["list"]:
            return Answer(200, self._listing(query), {"Content-Type": "application/xml"})
        assert self._root is not None
        path = self._root / unquote(parts.path).removeprefix("/acct/lake/")
        if not path.is_file():
            return Answer(404, headers={"x-ms-error-code": "BlobNotFound"})
        whole = path.read_bytes()
        if wanted is None:
            return Answer.whole(whole)
        first, _, last = wanted.removeprefix("bytes=").partition("-")
        start, end = int(first), min(int(last) + 1 if last else len(whole), len(whole))
        if start >= len(whole):
            return Answer(416, headers={"x-ms-error-code": "InvalidRange"})
        return Answer.part(whole, start, end)
