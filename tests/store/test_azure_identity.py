"""Identities: managed, workload, service principals, and azure-identity's search for a login."""

from __future__ import annotations

import pickle
import subprocess
import sys
import traceback
from typing import TYPE_CHECKING

import pytest
from tests.loopback import Answer
from tests.store.identity_server import TOKEN, IdentityServer

from delta_sidecar.errors import AuthenticationError, OptionError
from delta_sidecar.store import open_store
from delta_sidecar.store.clouds.azure import is_installed

if TYPE_CHECKING:
    from pathlib import Path

    from delta_sidecar.store import Store

ADDRESS = "az://lake/t"
SECRET = "s3cr3t/Value+with=signs"  # noqa: S105 - nobody's
PRINCIPAL = {"tenant_id": "tenant", "client_id": "client"}
REFUSAL = Answer(401, b'{"error": "invalid_client", "error_description": "AADSTS7000215: Invalid client secret"}')


def works(store: Store) -> bool:
    return bytes(store.get("f").data) == b"hello"


@pytest.fixture
def token_file(tmp_path: Path) -> str:
    path = tmp_path / "token"
    path.write_text(SECRET)
    return str(path)


@pytest.mark.parametrize("named", [{"client_id": "client"}, {"object_id": "client"}, {"msi_resource_id": "client"}])
def test_a_managed_identity(named: dict[str, str]) -> None:
    with IdentityServer() as server:
        options = {**server.options, "msi_endpoint": f"{server.address}/tokens", **named}
        assert works(open_store(ADDRESS, {**options, "credential_type": "managed_identity"}))
        (asked,) = server.tokens
        assert asked.fields["resource"] == "https://storage.azure.com"
        assert "client" in asked.fields.values()
        assert asked.headers["metadata"] == "true"


def test_a_managed_identity_of_an_app_service(monkeypatch: pytest.MonkeyPatch) -> None:
    with IdentityServer() as server:
        monkeypatch.setenv("IDENTITY_ENDPOINT", f"{server.address}/tokens")
        monkeypatch.setenv("IDENTITY_HEADER", SECRET)
        monkeypatch.setenv("AZURE_CREDENTIAL_TYPE", "managed_identity")
        assert works(open_store(ADDRESS, server.options))
        assert server.tokens[0].headers["x-identity-header"] == SECRET


def test_a_workload_identity(token_file: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with IdentityServer() as server:
        # As Kubernetes injects them, with the slash.
        monkeypatch.setenv("AZURE_AUTHORITY_HOST", f"{server.address}/")
        monkeypatch.setenv("AZURE_FEDERATED_TOKEN_FILE", token_file)
        monkeypatch.setenv("AZURE_TENANT_ID", "tenant")
        monkeypatch.setenv("AZURE_CLIENT_ID", "client")
        store = open_store(ADDRESS, server.options)
        assert works(store)
        (asked,) = server.tokens
        assert asked.path == "/tenant/oauth2/v2.0/token"
        assert (asked.fields["client_id"], asked.fields["client_assertion"]) == ("client", SECRET)
        assert asked.fields["scope"] == "https://storage.azure.com/.default"


def test_a_service_principal_with_a_secret() -> None:
    with IdentityServer() as server:
        options = {**server.options, **PRINCIPAL, "client_secret": SECRET, "authority_host": server.address}
        store = open_store(ADDRESS, options)
        assert works(store)
        assert works(pickle.loads(pickle.dumps(store)))  # noqa: S301 - its own pickle
        (asked,) = server.tokens
        assert (asked.fields["client_id"], asked.fields["client_secret"]) == ("client", SECRET)


@pytest.mark.parametrize("kind", ["client_secret", "workload_identity", "managed_identity"])
def test_a_refused_identity_is_named_without_its_secret(kind: str, token_file: str) -> None:
    with IdentityServer(REFUSAL) as server:
        given = {
            "client_secret": {**PRINCIPAL, "client_secret": SECRET, "authority_host": server.address},
            "workload_identity": {
                **PRINCIPAL,
                "federated_token_file": token_file,
                "authority_host": server.address,
            },
            "managed_identity": {"msi_endpoint": f"{server.address}/tokens", "client_id": "client"},
        }[kind]
        with pytest.raises(AuthenticationError) as caught:
            open_store(ADDRESS, {**server.options, **given}).get("f")
    shown = "\n".join([*traceback.format_exception(caught.value), repr(caught.value)])
    assert "cannot read az://lake/t/f" in shown
    assert f"Tried: the {kind.replace('_', ' ')}" in shown
    assert "AADSTS7000215" in shown
    assert SECRET not in shown
    assert SECRET.encode() not in pickle.dumps(caught.value)


def test_a_missing_token_file_is_an_error_of_credentials() -> None:
    with IdentityServer() as server:
        options = {**server.options, **PRINCIPAL, "federated_token_file": "no-such-file"}
        with pytest.raises(AuthenticationError, match="the workload identity from the storage options"):
            open_store(ADDRESS, {**options, "authority_host": server.address}).get("f")


def test_the_login_of_the_command_line(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with IdentityServer() as server:
        store = open_store(ADDRESS, {**server.options, "use_azure_cli": "true"})
        with pytest.raises(AuthenticationError, match=r"Tried: the login of the Azure CLI\. Log in with 'az login'"):
            store.get("f")


@pytest.mark.parametrize("option", ["client_secret", "federated_token_file", "client_certificate_path"])
def test_a_principal_has_a_tenant_and_a_client(option: str) -> None:
    with pytest.raises(OptionError, match=f"'{option}' needs 'tenant_id' and 'client_id' too") as caught:
        open_store(ADDRESS, {"account_name": "acct", option: SECRET})
    assert SECRET not in str(caught.value)


def test_without_credentials_a_login_is_looked_for() -> None:
    with IdentityServer() as server:
        store = open_store(ADDRESS, server.options)
        with pytest.raises(AuthenticationError) as caught:
            store.get("f")
        assert server.asked == []
    text = str(caught.value)
    assert "Tried: azure-identity's DefaultAzureCredential, for no credentials were given" in text
    assert "EnvironmentCredential (authentication unavailable" in text
    assert "'az login'" in text


def test_the_login_that_is_found_is_used(monkeypatch: pytest.MonkeyPatch) -> None:
    with IdentityServer() as server:
        monkeypatch.setenv("AZURE_TOKEN_CREDENTIALS", "ManagedIdentityCredential")
        monkeypatch.setenv("IDENTITY_ENDPOINT", f"{server.address}/tokens")
        monkeypatch.setenv("IDENTITY_HEADER", SECRET)
        store = open_store(ADDRESS, {**server.options, "client_id": "my-identity"})
        assert works(store)
        assert works(store)
        (asked,) = server.tokens
        assert asked.fields["client_id"] == "my-identity"
        assert asked.headers["x-identity-header"] == SECRET
        assert [each.headers["authorization"] for each in server.objects] == [f"Bearer {TOKEN}"] * 2
        assert works(pickle.loads(pickle.dumps(store)))  # noqa: S301 - its own pickle
        # Another container of the account finds the token that the login keeps.
        assert works(open_store("az://other/t", {**server.options, "client_id": "my-identity"}))
        assert len(server.tokens) == 1


def test_a_login_can_be_asked_for_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AZURE_STORAGE_ACCOUNT_KEY", "a2V5")
    with IdentityServer() as server:
        store = open_store(ADDRESS, {**server.options, "credential_type": "default"})
        with pytest.raises(
            AuthenticationError, match="Tried: azure-identity's DefaultAzureCredential: EnvironmentCredential"
        ):
            store.get("f")


def test_a_certificate_that_cannot_be_read_is_an_error_of_credentials(tmp_path: Path) -> None:
    (tmp_path / "c.pem").write_text("nothing")
    for path in ("no-such-file.pem", str(tmp_path / "c.pem")):
        options = {**PRINCIPAL, "client_certificate_path": path, "client_certificate_password": SECRET}
        with IdentityServer() as server, pytest.raises(AuthenticationError) as caught:
            open_store(ADDRESS, {**server.options, **options}).get("f")
        assert "the certificate of a service principal from the storage options: CertificateCredential" in str(
            caught.value
        )
        assert SECRET not in str(caught.value)


@pytest.mark.parametrize("options", [{"account_key": "a2V5"}, {"credential_type": "default"}])
def test_azure_identity_is_not_imported_before_a_token_is_asked_for(options: dict[str, str]) -> None:
    code = (
        "import sys; from delta_sidecar.store import open_store; "
        f"open_store('az://lake/t', {{'account_name': 'acct', **{options!r}}}); print('azure.identity' in sys.modules)"
    )
    run = subprocess.run([sys.executable, "-c", code], check=False, capture_output=True, text=True)
    assert (run.stdout, run.stderr) == ("False\n", "")


@pytest.fixture
def _without_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "azure.identity", None)
    assert not is_installed()


@pytest.mark.usefixtures("_without_the_extra")
def test_without_the_extra_missing_credentials_are_an_error_at_once() -> None:
    with pytest.raises(AuthenticationError) as caught:
        open_store(ADDRESS, {"account_name": "acct"})
    text = str(caught.value)
    assert "there are no credentials for az://lake/t" in text
    for part in (
        "'account_key'",
        "credential_type=managed_identity",
        "skip_signature",
        "pip install '.[azure]' in a clone of delta-sidecar",
    ):
        assert part in text


@pytest.mark.usefixtures("_without_the_extra")
def test_without_the_extra_everything_else_works() -> None:
    with IdentityServer() as server:
        machine = {"msi_endpoint": f"{server.address}/tokens"}
        assert works(open_store(ADDRESS, {**server.options, **machine}))
        assert works(open_store(ADDRESS, {**server.options, "token": TOKEN}))
    with IdentityServer(fixed=Answer.whole(b"hello")) as server:
        assert works(open_store(ADDRESS, {**server.options, "skip_signature": "true"}))
        assert "authorization" not in server.objects[0].headers


@pytest.mark.usefixtures("_without_the_extra")
@pytest.mark.parametrize("options", [{"credential_type": "default"}, {**PRINCIPAL, "client_certificate_path": "c.pem"}])
def test_what_needs_the_extra_says_so(options: dict[str, str]) -> None:
    with pytest.raises(
        OptionError, match=r"needs azure-identity: pip install '\.\[azure\]' in a clone of delta-sidecar"
    ):
        open_store(ADDRESS, {"account_name": "acct", **options})
