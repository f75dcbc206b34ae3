"""Services that say in their refusal what they were sent: nobody gets to see it."""

from __future__ import annotations

import pickle
import traceback
from typing import TYPE_CHECKING, ClassVar
from urllib.parse import quote

import pytest
from tests.loopback import Answer, LoopbackServer

from delta_sidecar.errors import AuthenticationError, StorageError
from delta_sidecar.store import open_store

if TYPE_CHECKING:
    from email.message import Message

SECRET = "c2VjcmV0L3ZhbHVlK29mL3Rlc3Rz"  # noqa: S105 - nobody's
PRINCIPAL = {"tenant_id": "tenant", "client_id": "client"}


class EchoServer(LoopbackServer):
    """Refuses everything, and says in how many ways it knows the secret."""

    credentials: ClassVar[dict[str, str]] = {}
    retries: ClassVar[int] = 0

    def answer(self, method: str, path: str, headers: Message) -> Answer:
        """Refuses a request."""
        del headers
        said = f"{method} {quote(path)}: {SECRET}, {quote(SECRET, safe='')}, client_secret={SECRET}, 'Bearer {SECRET}'"
        return Answer(403, f"<Error><Code>Refused</Code><Message>{said}</Message></Error>".encode())


AZURE = [
    {"account_key": SECRET},
    {"sas_key": f"sv=2024-01-01&sig={SECRET}"},
    {"connection_string": f"AccountName=acct;AccountKey={SECRET}"},
    {"token": SECRET},
    {**PRINCIPAL, "client_secret": SECRET},
]


@pytest.mark.parametrize("options", AZURE, ids=lambda options: list(options)[-1])
@pytest.mark.parametrize("source", ["call", "environment"])
def test_azure(options: dict[str, str], source: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with EchoServer() as server:
        base = {**server.options, "authority_host": server.address}
        if source == "environment":
            names = {
                "tenant_id": "AZURE_TENANT_ID",
                "client_id": "AZURE_CLIENT_ID",
                "client_secret": "AZURE_CLIENT_SECRET",
            }
            for name, value in options.items():
                monkeypatch.setenv(names.get(name, f"AZURE_STORAGE_{name.upper()}"), value)
            options = {}
        refused("az://lake/t", {**base, **options})


@pytest.mark.parametrize("name", ["access_key_id", "secret_access_key", "session_token"])
@pytest.mark.parametrize("source", ["call", "environment"])
def test_s3(name: str, source: str, monkeypatch: pytest.MonkeyPatch) -> None:
    key = {"access_key_id": "AKIDEXAMPLE", "secret_access_key": "wJalrXUtnFEMIexample", name: SECRET}
    if source == "environment":
        for part, value in key.items():
            monkeypatch.setenv(f"AWS_{part.upper()}", value)
        key = {}
    with EchoServer() as server:
        refused("s3://bucket/t", {"endpoint": server.address, **server.impatience, **key})


@pytest.mark.parametrize("source", ["call", "environment"])
def test_google_cloud(source: str, monkeypatch: pytest.MonkeyPatch) -> None:
    token = {"bearer_token": SECRET}
    if source == "environment":
        monkeypatch.setenv("GOOGLE_BEARER_TOKEN", SECRET)
        token = {}
    with EchoServer() as server:
        refused("gs://bucket/t", {"base_url": server.address, **server.impatience, **token})


def test_a_secret_of_the_environment_that_another_client_reads(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("IDENTITY_HEADER", SECRET)
    with EchoServer() as server:
        monkeypatch.setenv("IDENTITY_ENDPOINT", server.address)
        refused("az://lake/t", {**server.options, "credential_type": "managed_identity"})


def refused(address: str, options: dict[str, str]) -> None:
    """Asserts that a store says that it was refused, and not what with."""
    store = open_store(address, options)
    for ask in (lambda: store.get("f"), lambda: list(store.list("")), lambda: store.put("f", b"x")):
        with pytest.raises(StorageError, match=address) as caught:
            ask()
        assert isinstance(caught.value, AuthenticationError)
        text = str(caught.value)
        assert "***" in text
        shown = "\n".join([text, *traceback.format_exception(caught.value), repr(pickle.dumps(caught.value))])
        assert SECRET not in shown
        assert quote(SECRET, safe="") not in shown
