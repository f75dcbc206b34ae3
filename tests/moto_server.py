"""A local S3 service for tests: moto's server, started on a free port."""

from __future__ import annotations

import contextlib
import re
import subprocess
import sys
import tempfile
import time
import urllib.request
import uuid
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlencode

if TYPE_CHECKING:
    from collections.abc import Iterator

REGION = "eu-west-1"


@dataclass(frozen=True)
class Moto:
    """A running service.

    Attributes:
        endpoint: Its address: `http://127.0.0.1:<port>`.
    """

    endpoint: str

    @property
    def options(self) -> dict[str, str]:
        """The storage options that reach it; it takes any access key unless `refusing`."""
        return {
            "endpoint": self.endpoint,
            "region": REGION,
            "access_key_id": "AKIDEXAMPLE",
            "secret_access_key": "wJalrXUtnFEMIexample",
        }

    def create_bucket(self) -> str:
        """Creates a bucket and gives its name."""
        name = f"b{uuid.uuid4().hex[:12]}"
        body = (
            f"<CreateBucketConfiguration><LocationConstraint>{REGION}</LocationConstraint></CreateBucketConfiguration>"
        )
        self._send("PUT", f"/{name}", body, "s3")
        return name

    def create_key(self) -> dict[str, str]:
        """Creates a user without any rights, and gives the storage options with its access key."""
        name = f"u{uuid.uuid4().hex[:12]}"
        self._iam(Action="CreateUser", UserName=name)
        answer = self._iam(Action="CreateAccessKey", UserName=name)
        found = {tag: re.search(f"<{tag}>([^<]+)</{tag}>", answer) for tag in ("AccessKeyId", "SecretAccessKey")}
        key_id, secret = (match[1] if match else "" for match in found.values())
        return {**self.options, "access_key_id": key_id, "secret_access_key": secret}

    @contextlib.contextmanager
    def refusing(self) -> Iterator[None]:
        """Has it check access keys, signatures and rights for a while."""
        self._send("POST", "/moto-api/reset-auth", "0", "s3")
        try:
            yield
        finally:
            self._send("POST", "/moto-api/reset-auth", "inf", "s3")

    def _iam(self, **fields: str) -> str:
        return self._send("POST", "/", urlencode({**fields, "Version": "2010-05-08"}), "iam")

    def _send(self, method: str, path: str, body: str, service: str) -> str:
        # The service is told by the signature, which is looked at only while `refusing`.
        scope = f"AKIDEXAMPLE/20260101/{REGION}/{service}/aws4_request"
        headers = {"Authorization": f"AWS4-HMAC-SHA256 Credential={scope}, SignedHeaders=host, Signature=none"}
        headers["Content-Type"] = "application/x-www-form-urlencoded" if service == "iam" else "application/xml"
        url = self.endpoint + path
        request = urllib.request.Request(url, method=method, headers=headers, data=body.encode())  # noqa: S310 - loopback
        with urllib.request.urlopen(request) as answer:  # noqa: S310
            text: str = answer.read().decode()
            return text


@contextlib.contextmanager
def running() -> Iterator[Moto]:
    """Starts a service, and stops it at the end."""
    command = [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", "0"]
    with tempfile.TemporaryDirectory() as folder, (Path(folder) / "moto.log").open("w+b") as log:
        process = subprocess.Popen(command, cwd=folder, stdout=log, stderr=subprocess.STDOUT)
        try:
            yield Moto(_address(process, Path(log.name)))
        finally:
            process.terminate()
            process.wait()


def _address(process: subprocess.Popen[bytes], log: Path) -> str:
    for _ in range(2_400):
        output = log.read_text()
        found = re.search(r"Running on (http://127\.0\.0\.1:\d+)\s", output)
        if found:
            return found[1]
        if process.poll() is not None:
            break
        time.sleep(0.05)
    msg = f"moto's server did not start: {output}"
    raise RuntimeError(msg)
