"""Google Cloud, against a small stand-in: options and environment, credentials and their refusal."""

from __future__ import annotations

import pickle
import traceback
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import pytest
from tests.store.google_server import TOKEN, GoogleServer

from delta_sidecar.errors import AuthenticationError, OptionError
from delta_sidecar.store import RequestLog, open_store
from delta_sidecar.store.clouds.google import google_access

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from delta_sidecar.store import Store


@pytest.fixture(scope="module")
def server() -> Iterator[GoogleServer]:
    with GoogleServer() as server:
        yield server


def works(store: Store, name: str) -> bool:
    store.put(f"{name}.json", b"hello", overwrite=True)
    return bytes(store.get(f"{name}.json").data) == b"hello"


def bare(server: GoogleServer) -> dict[str, str]:
    return {"base_url": server.address, **server.impatience}


def test_a_service_account(server: GoogleServer, tmp_path: Path) -> None:
    path = tmp_path / "key.json"
    path.write_text(server.service_account)
    for given in ({"service_account": str(path)}, {"GOOGLE_SERVICE_ACCOUNT_KEY": server.service_account}):
        assert works(open_store("gs://bucket/t", {**bare(server), **given}), "account")


def test_the_environment(server: GoogleServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "key.json"
    path.write_text(server.service_account)
    monkeypatch.setenv("GOOGLE_BASE_URL", server.address)
    monkeypatch.setenv("GOOGLE_SERVICE_ACCOUNT", str(path))
    store = open_store("gs://bucket/t", server.impatience)
    assert works(store, "environment")
    dumped = pickle.dumps(store)
    monkeypatch.delenv("GOOGLE_SERVICE_ACCOUNT")
    monkeypatch.delenv("GOOGLE_BASE_URL")
    assert works(pickle.loads(dumped), "elsewhere")  # noqa: S301 - its own pickle
    monkeypatch.setenv("GOOGLE_APPLICATION_CREDENTIALS", str(path))
    assert works(open_store("gs://bucket/t", bare(server)), "application")


def test_without_credentials_the_machine_is_asked(server: GoogleServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/nonexistent")
    for name in ("GCE_METADATA_HOST", "GCE_METADATA_IP", "GCE_METADATA_ROOT"):
        monkeypatch.setenv(name, server.address.removeprefix("http://"))
    assert works(open_store("gs://bucket/t", bare(server)), "machine")
    assert any(path.startswith("/computeMetadata/") for _, path in server.requests)


def test_a_failure_to_find_credentials_says_what_was_tried(
    server: GoogleServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", "/nonexistent")
    store = open_store("gs://lonely/t", {**bare(server), "retry_max_retries": "0"})
    with pytest.raises(AuthenticationError, match=r"gs://lonely/t/f.*Tried: application default.*'service_account'"):
        store.get("f")


def test_refused_tokens_are_an_error_without_secrets(server: GoogleServer) -> None:
    token = "ya29.SECRETthatIsWrong"  # noqa: S105 - nobody's
    store = open_store("gs://bucket/t", {**bare(server), "bearer_token": token})
    for ask in (lambda: store.get("f"), lambda: list(store.list("")), lambda: store.put("f", b"x")):
        with pytest.raises(AuthenticationError, match=r"gs://bucket/t.*Tried: the bearer token from") as caught:
            ask()
        shown = [*traceback.format_exception(caught.value), repr(pickle.dumps(caught.value)), repr(store)]
        assert not [text for text in shown if token in text]


@pytest.mark.parametrize(
    "key", ["SECRETnotJson", '{"private_key": "SECRET", "client_email": "a@b"}', '{"a": "SECRET"}']
)
def test_a_key_that_is_none_is_refused_at_once(server: GoogleServer, key: str) -> None:
    with pytest.raises(OptionError, match="cannot use the storage options for gs container 'bucket'") as caught:
        open_store("gs://bucket/t", {**bare(server), "service_account_key": key}).get("f")
    assert "SECRET" not in str(caught.value)


def test_a_missing_key_file_is_named(server: GoogleServer) -> None:
    with pytest.raises(OptionError, match=r"no-such-key\.json"):
        open_store("gs://bucket/t", {**bare(server), "service_account": "no-such-key.json"})


def test_the_call_stands_above_the_environment_or_is_refused() -> None:
    called = google_access({"application_credentials": "c"}, {"application_credentials": "e"})
    assert called.config["application_credentials"] == "c"
    assert google_access({"service_account": "c"}, {"service_account": "e"}).config["service_account"] == "c"
    assert google_access({"skip_signature": "true"}, {"bearer_token": "e"}).config == {"skip_signature": "true"}
    assert google_access({}, {"bearer_token": "e"}).config["skip_signature"] == "false"
    for variable in ("bearer_token", "service_account", "service_account_key"):
        with pytest.raises(OptionError, match=f"GOOGLE_{variable.upper()}.*unset it"):
            google_access({"application_credentials": "c"}, {variable: "e"})


def test_plain_http_only_where_the_address_says_so(server: GoogleServer) -> None:
    plain = open_store("gs://bucket/t", server.options)
    assert dict(plain._spec.client)["allow_http"] is True  # type: ignore[attr-defined]
    secure = open_store("gs://bucket/t", {"base_url": "https://127.0.0.1:9", "bearer_token": TOKEN})
    assert dict(secure._spec.client)["allow_http"] is False  # type: ignore[attr-defined]
    with pytest.raises(OptionError, match="'base_url' must start with"):
        open_store("gs://bucket/t", {"base_url": "127.0.0.1:9"})


def test_long_listings_come_page_by_page(server: GoogleServer) -> None:
    store = open_store("gs://long/t", server.options)
    names = [f"l/{number:05}.json" for number in range(1020)]
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda name: store.put(name, b"x"), names))
    log = RequestLog()
    pages = [[meta.path for meta in page] for page in store.bind(log).list("l/")]
    assert [len(page) for page in pages] == [1000, 20]
    assert [path for page in pages for path in page] == names
    assert log.snapshot().lists == 2
