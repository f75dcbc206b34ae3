"""Credential objects: what is asked of them, how often, and what becomes of their failures."""

from __future__ import annotations

import pickle
import threading
import time
import traceback
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import pytest
from azure.identity import AzureCliCredential, ChainedTokenCredential, ClientSecretCredential, EnvironmentCredential
from azure.identity.aio import EnvironmentCredential as AsyncCredential
from tests.loopback import Answer
from tests.store.credentials import AccessToken, Credential
from tests.store.identity_server import TOKEN, IdentityServer

from delta_sidecar.errors import AuthenticationError, OptionError, StorageError
from delta_sidecar.store import RequestLog, open_store
from delta_sidecar.store.clouds.azure import CredentialTokens, NoTokenError

if TYPE_CHECKING:
    from tests.azurite import Azurite

    from delta_sidecar.store import Store

ADDRESS = "az://lake/t"


class Fixed:
    """Gives one token for an hour, or raises."""

    def __init__(self, error: BaseException | None = None) -> None:
        self.error = error
        self.asked = 0

    def get_token(self, *scopes: str, **named: Any) -> AccessToken:  # noqa: ANN401 - as azure-identity has it
        del scopes, named
        self.asked += 1
        if self.error is not None:
            raise self.error
        return AccessToken(TOKEN, int(time.time()) + 3600)


@pytest.fixture
def container(secure_azurite: Azurite) -> str:
    return secure_azurite.create_container()


def secure_store(azurite: Azurite, container: str, credential: Credential) -> Store:
    return open_store(f"az://{container}/t", azurite.secure_options, credential=credential)


def test_a_token_is_asked_for_once_and_for_storage(secure_azurite: Azurite, container: str) -> None:
    credential = Credential()
    store = secure_store(secure_azurite, container, credential)
    assert credential.asked == []
    store.put("f.json", b"hello")
    with ThreadPoolExecutor(8) as pool:
        assert [bytes(got.data) for got in pool.map(store.get, ["f.json"] * 32)] == [b"hello"] * 32
    assert credential.asked == [(("https://storage.azure.com/.default",), {})]


def test_the_tenant_is_passed_on(secure_azurite: Azurite, container: str) -> None:
    credential = Credential()
    options = {**secure_azurite.secure_options, "tenant_id": "another"}
    assert list(open_store(f"az://{container}/t", options, credential=credential).list("")) == []
    assert [named for _, named in credential.asked] == [{"tenant_id": "another"}]


def test_a_token_is_renewed_before_it_expires(secure_azurite: Azurite, container: str) -> None:
    ending, lasting = Credential(says=120), Credential()
    store = secure_store(secure_azurite, container, ending)
    store.put("f.json", b"hello")
    # The client does not ask for the next one with every request.
    requests = next((number for number in range(5000) if store.get("f.json") and len(ending.asked) > 1), None)
    assert requests is not None
    store = secure_store(secure_azurite, container, lasting)
    for _ in range(requests + 1):
        store.get("f.json")
    assert len(lasting.asked) == 1


@pytest.mark.parametrize(
    "credential", [Credential(seconds=-60, says=3600), Credential(audience="https://vault.azure.net")]
)
def test_a_token_that_is_refused_is_not_shown(secure_azurite: Azurite, container: str, credential: Credential) -> None:
    store = secure_store(secure_azurite, container, credential)
    for ask in (lambda: store.get("f.json"), lambda: list(store.list("")), lambda: store.put("f.json", b"x")):
        with pytest.raises(AuthenticationError, match=f"az://{container}/t.*refused.*Tried: the Credential") as caught:
            ask()
        assert caught.value.__context__ is None
        shown = "\n".join([*traceback.format_exception(caught.value), repr(caught.value), repr(store)])
        for token in credential.tokens:
            assert not [part for part in token.split(".") if part in shown]
        assert b"eyJ" not in pickle.dumps(caught.value)


def test_a_certificate_that_nobody_vouches_for_is_refused(secure_azurite: Azurite, container: str) -> None:
    options = {key: value for key, value in secure_azurite.secure_options.items() if key != "root_certificate"}
    with pytest.raises(StorageError, match=r"not trusted \(UnknownIssuer\).*'root_certificate'"):
        open_store(f"az://{container}/t", options, credential=Credential()).get("f")
    assert secure_azurite.certificate is not None
    options["root_certificate"] = secure_azurite.certificate.read_text()
    assert list(open_store(f"az://{container}/t", options, credential=Credential()).list("")) == []


@pytest.mark.parametrize("option", ["root_certificate", "proxy_ca_certificate"])
@pytest.mark.parametrize("value", ["no-such-file.pem", "-----BEGIN NOTHING-----", __file__])
def test_what_is_no_certificate_is_refused(value: str, option: str) -> None:
    with pytest.raises(OptionError, match=f"'{option}' must be a certificate"):
        open_store(ADDRESS, {"account_name": "acct", option: value})


@pytest.mark.parametrize("credential", ["a-key-SECRET", object(), Credential])
def test_what_gives_no_tokens_is_no_credential(credential: object) -> None:
    with pytest.raises(OptionError, match="an object with a method get_token") as caught:
        open_store(ADDRESS, {"account_name": "acct"}, credential=credential)  # type: ignore[arg-type]
    assert "SECRET" not in str(caught.value)


def test_asynchronous_credentials_are_refused() -> None:
    with pytest.raises(OptionError, match="EnvironmentCredential is an asynchronous credential"):
        open_store(ADDRESS, {"account_name": "acct"}, credential=AsyncCredential())


def test_a_credential_stands_above_the_environment_and_alone_in_the_call(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AZURE_STORAGE_ACCOUNT_KEY", "a2V5")
    monkeypatch.setenv("AZURE_CREDENTIAL_TYPE", "access_key")
    with IdentityServer() as server:
        assert bytes(open_store(ADDRESS, server.options, credential=Fixed()).get("f").data) == b"hello"
        for other in ({"account_key": "a2V5"}, {"sas_token": "sig=s"}, {"credential_type": "default"}):
            with pytest.raises(OptionError, match="there is a credential object and a storage option"):
                open_store(ADDRESS, {**server.options, **other}, credential=Fixed())


@pytest.mark.parametrize("address", ["s3://b/t", "gs://b/t", "memory://b/t"])
def test_credentials_are_for_azure(address: str) -> None:
    with pytest.raises(OptionError, match=f"credential objects are for Azure; {address}"):
        open_store(address, credential=Fixed())


def test_a_failure_names_the_credential_and_its_reason() -> None:
    with IdentityServer() as server:
        store = open_store(ADDRESS, server.options, credential=Fixed(RuntimeError("the card\nreader is gone")))
        with pytest.raises(AuthenticationError, match=r"Tried: the Fixed .*: Fixed \(the card reader is gone\)"):
            store.get("f")
        assert server.asked == []


def test_a_failure_names_every_credential_of_a_chain(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    chain = ChainedTokenCredential(EnvironmentCredential(), AzureCliCredential())
    with IdentityServer() as server, pytest.raises(AuthenticationError) as caught:
        open_store(ADDRESS, server.options, credential=chain).get("f")
    text = str(caught.value)
    assert "cannot read az://lake/t/f: there is no token for it" in text
    assert "EnvironmentCredential (authentication unavailable. Environment variables are not fully configured)" in text
    assert "AzureCliCredential (Azure CLI not found on path)" in text
    assert "https://aka.ms" not in text


@pytest.mark.parametrize("given", [None, AccessToken(7, 7), AccessToken("t", "soon")])  # type: ignore[arg-type]
def test_what_is_no_token_is_a_failure(given: object) -> None:
    class Odd:
        def get_token(self, *_: str) -> object:
            return given

    with pytest.raises(NoTokenError, match="Odd"):
        CredentialTokens(Odd())()


def test_an_interrupt_while_a_token_is_asked_for_arrives() -> None:
    with IdentityServer() as server:
        store = open_store(ADDRESS, server.options, credential=Fixed(KeyboardInterrupt()))
        with pytest.raises(KeyboardInterrupt):
            store.get("f")
        assert server.objects == []


def test_one_client_for_each_credential_and_one_gate_for_the_account() -> None:
    options = {"account_name": "acct", "endpoint": "http://127.0.0.1:9/acct"}
    one, two = Fixed(), Fixed()
    first = open_store(ADDRESS, options, credential=one)
    again = open_store(ADDRESS, options, credential=one).bind(RequestLog())
    other = open_store(ADDRESS, options, credential=two)
    assert first._client is again._client  # type: ignore[attr-defined]
    assert first._client is not other._client  # type: ignore[attr-defined]
    assert first._gate is other._gate  # type: ignore[attr-defined]


def test_a_store_pickles_if_its_credential_does(secure_azurite: Azurite, container: str) -> None:
    store = secure_store(secure_azurite, container, Credential())
    store.put("f.json", b"hello")
    copy = pickle.loads(pickle.dumps(store))  # noqa: S301 - its own pickle
    assert bytes(copy.get("f.json").data) == b"hello"
    of_the_library = ClientSecretCredential("tenant", "client", "SECRET")
    assert pickle.loads(pickle.dumps(open_store(ADDRESS, {"account_name": "acct"}, credential=of_the_library)))  # noqa: S301


def test_a_credential_that_does_not_pickle_says_so() -> None:
    credential = Fixed()
    credential.lock = threading.Lock()  # type: ignore[attr-defined]
    store = open_store(ADDRESS, {"account_name": "acct"}, credential=credential)
    with pytest.raises(pickle.PicklingError, match="a store with a Fixed cannot be sent to another process"):
        pickle.dumps(store)


def test_a_token_in_an_answer_is_not_shown() -> None:
    echo = Answer(400, f"<Error><Code>Bad</Code><Message>Bearer {TOKEN} is bad</Message></Error>".encode())
    with IdentityServer(fixed=echo) as server, pytest.raises(StorageError, match="Bad") as caught:
        open_store(ADDRESS, server.options, credential=Fixed()).get("f")
    assert TOKEN not in str(caught.value)
