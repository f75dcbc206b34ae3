"""A small stand-in for Google Cloud Storage: the part of its XML interface that object_store uses."""

from __future__ import annotations

import base64
import datetime as dt
import hashlib
import json
import re
import threading
from email.utils import format_datetime
from typing import TYPE_CHECKING
from urllib.parse import parse_qs, unquote, urlsplit
from xml.sax.saxutils import escape

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import padding, rsa
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from tests.loopback import Answer, LoopbackServer

if TYPE_CHECKING:
    from email.message import Message

PAGE = 1000
TOKEN = "ya29.a0-token-of-the-tests"  # noqa: S105 - the fake's own
EMAIL = "reader@project.iam.gserviceaccount.com"


class GoogleServer(LoopbackServer):
    """Keeps objects in memory, takes a bearer token or what its service account signs, and hands out tokens.

    Attributes:
        requests: The methods and paths that it was asked, in order.
    """

    def __init__(self) -> None:
        super().__init__()
        self.requests: list[tuple[str, str]] = []
        self._objects: dict[str, tuple[bytes, str, dt.datetime]] = {}
        self._lock = threading.Lock()
        self._key = rsa.generate_private_key(public_exponent=65537, key_size=2048)

    @property
    def options(self) -> dict[str, str]:
        """Storage options that reach it with a bearer token."""
        return {"base_url": self.address, "bearer_token": TOKEN, **self.impatience}

    @property
    def service_account(self) -> str:
        """The key of its service account."""
        private = self._key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()).decode()
        named = {"type": "service_account", "client_email": EMAIL, "private_key_id": "k1-of-the-tests"}
        return json.dumps({**named, "private_key": private})

    def answer(self, method: str, path: str, headers: Message) -> Answer:
        """Answers a request without a body."""
        return self.respond(method, path, headers, b"")

    def respond(self, method: str, path: str, headers: Message, body: bytes) -> Answer:
        """Answers a request."""
        parts = urlsplit(path)
        with self._lock:
            self.requests.append((method, parts.path))
            if parts.path.startswith("/computeMetadata/"):
                token = {"access_token": TOKEN, "expires_in": 3600, "token_type": "Bearer"}
                return Answer(200, json.dumps(token).encode(), {"Content-Type": "application/json"})
            if not self._authorized(headers.get("Authorization", "")):
                return Answer(401, b"<Error><Code>AuthenticationRequired</Code><Message>no access</Message></Error>")
            bucket, _, key = unquote(parts.path).removeprefix("/").partition("/")
            if not key:
                return self._list(f"{bucket}/", parse_qs(parts.query))
            return self._object(method, f"{bucket}/{key}", headers, body)

    def _authorized(self, header: str) -> bool:
        token = header.removeprefix("Bearer ")
        if token == TOKEN:
            return True
        signed, _, signature = token.rpartition(".")
        try:
            claims = json.loads(_decoded(signed.partition(".")[2]))
            self._key.public_key().verify(_decoded(signature), signed.encode(), padding.PKCS1v15(), hashes.SHA256())
        except (InvalidSignature, ValueError):
            return False
        return bool(claims["iss"] == EMAIL)

    def _list(self, bucket: str, query: dict[str, list[str]]) -> Answer:
        prefix, after = (query.get(name, [""])[0] for name in ("prefix", "start-after"))
        after = max(after, query.get("continuation-token", [""])[0])
        names = sorted(key.removeprefix(bucket) for key in self._objects if key.startswith(bucket + prefix))
        names = [name for name in names if name > after]
        shown = names[:PAGE]
        more = f"<NextContinuationToken>{escape(shown[-1])}</NextContinuationToken>" if len(names) > PAGE else ""
        contents = "".join(
            f"<Contents><Key>{escape(name)}</Key><Size>{len(data)}</Size><ETag>{escape(e_tag)}</ETag>"
            f"<LastModified>{written:%Y-%m-%dT%H:%M:%S.000Z}</LastModified></Contents>"
            for name in shown
            for data, e_tag, written in [self._objects[bucket + name]]
        )
        return Answer(200, f"<ListBucketResult>{contents}{more}</ListBucketResult>".encode())

    def _object(self, method: str, key: str, headers: Message, body: bytes) -> Answer:
        found = self._objects.get(key)
        if method == "PUT":
            if found is not None and headers.get("x-goog-if-generation-match") == "0":
                return Answer(412, b"<Error><Code>PreconditionFailed</Code><Message>it is there</Message></Error>")
            e_tag = f'"{hashlib.md5(body).hexdigest()}"'  # noqa: S324 - as the service's
            self._objects[key] = (body, e_tag, dt.datetime.now(dt.UTC))
            return Answer(200, headers={"ETag": e_tag, "x-goog-generation": "1"})
        if found is None:
            return Answer(404, b"<Error><Code>NoSuchKey</Code><Message>there is none</Message></Error>")
        if method == "DELETE":
            del self._objects[key]
            return Answer(204)
        data, e_tag, written = found
        described = {"ETag": e_tag, "Last-Modified": format_datetime(written, usegmt=True), "x-goog-generation": "1"}
        wanted = re.fullmatch(r"bytes=(\d+)-(\d+)", headers.get("Range", ""))
        if wanted is None:
            return Answer(200, data, described)
        start, end = int(wanted[1]), min(int(wanted[2]) + 1, len(data))
        if start >= len(data):
            return Answer(416, b"<Error><Code>InvalidRange</Code><Message>beyond the end</Message></Error>")
        return Answer(206, data[start:end], {**described, "Content-Range": f"bytes {start}-{end - 1}/{len(data)}"})


def _decoded(text: str) -> bytes:
    return base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))
