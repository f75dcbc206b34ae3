"""Credentials, secrets and pages against a real service."""

from __future__ import annotations

import logging
import pickle
import traceback
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING
from urllib.parse import unquote

import pytest

from delta_sidecar.errors import AuthenticationError, ObjectNotFoundError, OptionError
from delta_sidecar.store import PAGE_SIZE, RequestLog, TripClock, open_store, run_in

if TYPE_CHECKING:
    from tests.azurite import Azurite

    from delta_sidecar.store import Store

WRONG_KEY = "d3JvbmcgU0VDUkVUIGtleSB0aGF0IGlzIHZhbGlkIGJhc2U2NA=="


@pytest.fixture(scope="module")
def container(azurite: Azurite) -> str:
    return azurite.create_container()


def works(store: Store, name: str) -> bool:
    store.put(f"{name}.json", b"hello", overwrite=True)
    return bytes(store.get(f"{name}.json").data) == b"hello"


def test_account_signature(azurite: Azurite, container: str) -> None:
    options = {"account_name": azurite.account, "endpoint": azurite.endpoint}
    assert works(open_store(f"az://{container}/t", {**options, "sas_token": azurite.account_sas()}), "account")
    token = f"?{azurite.account_sas()}"
    assert works(open_store(f"az://{container}/t", {**options, "AZURE_STORAGE_SAS_TOKEN": token}), "question")


def test_addresses_with_an_account(azurite: Azurite, container: str) -> None:
    address = f"abfss://{container}@{azurite.account}.dfs.core.windows.net/t"
    assert works(open_store(address, {"account_key": azurite.key, "endpoint": azurite.endpoint}), "abfss")


def test_connection_strings(azurite: Azurite, container: str) -> None:
    key = f"AccountName={azurite.account};AccountKey={azurite.key};BlobEndpoint={azurite.endpoint};"
    sas = f"BlobEndpoint={azurite.endpoint};SharedAccessSignature={azurite.account_sas()}"
    for text in (key, sas):
        assert works(open_store(f"az://{container}/t", {"connection_string": text}), "string")


def test_environment(azurite: Azurite, container: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AZURE_STORAGE_ACCOUNT_NAME", azurite.account)
    monkeypatch.setenv("AZURE_STORAGE_ACCOUNT_KEY", azurite.key)
    monkeypatch.setenv("AZURE_STORAGE_ENDPOINT", azurite.endpoint)
    store = open_store(f"az://{container}/t")
    assert works(store, "environment")
    dumped = pickle.dumps(store)
    for name in ("AZURE_STORAGE_ACCOUNT_NAME", "AZURE_STORAGE_ACCOUNT_KEY", "AZURE_STORAGE_ENDPOINT"):
        monkeypatch.delenv(name)
    assert works(pickle.loads(dumped), "elsewhere")  # noqa: S301 - its own pickle


def test_a_connection_string_in_the_environment(
    azurite: Azurite, container: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = f"AccountName={azurite.account};AccountKey={azurite.key};BlobEndpoint={azurite.endpoint}"
    monkeypatch.setenv("AZURE_STORAGE_CONNECTION_STRING", text)
    assert works(open_store(f"az://{container}/t"), "environment")


def test_the_calls_credentials_are_used_and_not_the_environments(
    azurite: Azurite, container: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AZURE_STORAGE_ACCOUNT_KEY", WRONG_KEY)
    monkeypatch.setenv("AZURE_STORAGE_USE_EMULATOR", "true")
    monkeypatch.setenv("AZURE_STORAGE_ENDPOINT", "http://127.0.0.1:1/nowhere")
    sas = azurite.container_sas(container)
    options = {"account_name": azurite.account, "endpoint": azurite.endpoint, "sas_token": sas}
    assert works(open_store(f"az://{container}/t", options), "call")
    assert works(open_store(f"{azurite.endpoint}/{container}/t?{sas}"), "url")


def secrets_of(azurite: Azurite, container: str) -> list[tuple[dict[str, str], list[str]]]:
    """Options that the service refuses, and the values in them that nobody may see."""
    base = {"account_name": azurite.account, "endpoint": azurite.endpoint}
    read_only = azurite.container_sas(container, permissions="r")
    signature = read_only.rpartition("sig=")[2]
    forged = read_only.replace(signature, "Zm9yZ2VkLVNFQ1JFVA%3D%3D")
    return [
        ({**base, "account_key": WRONG_KEY}, [WRONG_KEY]),
        ({**base, "sas_token": forged}, ["Zm9yZ2VkLVNFQ1JFVA"]),
        ({**base, "sas_token": read_only}, [signature, unquote(signature)]),
        ({**base, "connection_string": f"AccountName=devstoreaccount1;AccountKey={WRONG_KEY}"}, [WRONG_KEY]),
    ]


@pytest.mark.parametrize("number", range(4))
def test_refused_credentials_are_an_error_without_secrets(
    azurite: Azurite, container: str, number: int, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    options, secrets = secrets_of(azurite, container)[number]
    store = open_store(f"az://{container}/t", options)
    shown = [repr(store), str(store), store.url, repr(store.__dict__)]
    for ask in (
        lambda: store.put("f.json", b"x"),
        lambda: list(store.list("")),
        lambda: store.delete("f.json"),
    ):
        with pytest.raises(AuthenticationError, match=f"az://{container}/t.*refused the credentials") as caught:
            ask()
        shown += traceback.format_exception(caught.value)
        shown.append(repr(caught.value))
        assert caught.value.__context__ is None
    shown.append(caplog.text)
    for secret in secrets:
        assert not [text for text in shown if secret in text]


def test_a_signature_in_the_address_is_shown_nowhere(
    azurite: Azurite, container: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    sas = azurite.container_sas(container)
    store = open_store(f"{azurite.endpoint}/{container}/t?{sas}")
    with pytest.raises(ObjectNotFoundError) as caught:
        store.get("nope.json")
    shown = [repr(store), store.url, *traceback.format_exception(caught.value), caplog.text]
    signature = sas.rpartition("sig=")[2]
    assert f"opening {store.url}" in caplog.text
    assert not [text for text in shown if signature in text or unquote(signature) in text or "sig=" in text]


def test_a_key_that_is_none_is_refused_at_once(azurite: Azurite, container: str) -> None:
    with pytest.raises(OptionError, match="Invalid Access Key") as caught:
        open_store(f"az://{container}/t", {**azurite.options, "account_key": "!not-base64-SECRET!"})
    assert "SECRET" not in str(caught.value)


def test_a_missing_container_is_named(azurite: Azurite) -> None:
    with pytest.raises(ObjectNotFoundError, match="container does not exist"):
        open_store("az://nosuchcontainer/t", azurite.options).get("f.json")


def test_plain_http_only_where_the_endpoint_says_so(azurite: Azurite, container: str) -> None:
    store = open_store(f"az://{container}/t", azurite.options)
    assert dict(store._spec.client)["allow_http"] is True  # type: ignore[attr-defined]
    secure = open_store("abfss://lake@acct.dfs.core.windows.net/t", {"account_key": azurite.key, "allow_http": "1"})
    assert dict(secure._spec.client)["allow_http"] is False  # type: ignore[attr-defined]


def test_one_client_and_one_gate_for_all_stores_of_a_container(azurite: Azurite, container: str) -> None:
    one = open_store(f"az://{container}/one", azurite.options)
    two = open_store(f"az://{container}/two", azurite.options).bind(RequestLog())
    copy = pickle.loads(pickle.dumps(one))  # noqa: S301 - its own pickle
    assert one._client is two._client is copy._client  # type: ignore[attr-defined]
    assert one._gate is two._gate is copy._gate  # type: ignore[attr-defined]
    sas = {"account_name": azurite.account, "endpoint": azurite.endpoint, "sas_token": azurite.account_sas()}
    other = open_store(f"az://{container}/one", sas)
    assert other._client is not one._client  # type: ignore[attr-defined]
    assert other._gate is one._gate  # type: ignore[attr-defined]


@pytest.mark.full
def test_long_listings_come_page_by_page(azurite: Azurite) -> None:
    store = open_store(f"az://{azurite.create_container()}/t", azurite.options)
    names = [f"l/{number:05}.json" for number in range(PAGE_SIZE + 20)]
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda name: store.put(name, b"x"), names))
    log = RequestLog()
    listing = store.bind(log).list("l/")

    def first() -> list[str]:
        return [meta.path for meta in next(listing)]

    clock = TripClock()
    found = run_in(clock, first)
    assert (len(found), log.snapshot().lists, log.snapshot().trips) == (PAGE_SIZE, 1, 1)
    found += run_in(clock, first)
    assert sorted(found) == names
    assert run_in(clock, lambda: next(listing, None)) is None
    assert (log.snapshot().lists, log.snapshot().trips) == (2, 2)
    (tail,) = store.list("l/", after=names[-11])
    assert sorted(meta.path for meta in tail) == names[-10:]


def test_a_listing_that_is_closed_asks_for_no_more_pages(azurite: Azurite) -> None:
    store = open_store(f"az://{azurite.create_container()}/t", azurite.options)
    store.put("l/0.json", b"x")
    log = RequestLog()
    listing = store.bind(log).list("l/")
    next(listing)
    listing.close()  # type: ignore[attr-defined]
    assert log.snapshot().lists == 1
