from __future__ import annotations

import pytest

from delta_sidecar.errors import OptionError
from delta_sidecar.store.address import parse_address
from delta_sidecar.store.clouds.azure import azure_access

BARE = "az://lake/t"
FULL = "abfss://lake@acct.dfs.core.windows.net/t"
BARE_CONFIG = {"account_name": "acct", "credential_type": "auto"}
SIGNED = "https://acct.blob.core.windows.net/lake/t?sig=url"


def config(
    address: str, call: dict[str, str] | None = None, environment: dict[str, str] | None = None
) -> dict[str, str]:
    found = dict(azure_access(parse_address(address), call or {}, environment or {}).config)
    assert (found.pop("use_emulator"), found.pop("skip_signature")) == ("false", "false")
    return found


def test_the_endpoint_is_the_accounts_unless_it_is_given() -> None:
    assert config(FULL) == {**BARE_CONFIG, "endpoint": "https://acct.blob.core.windows.net"}
    assert config(FULL, {"endpoint": "http://127.0.0.1:1/acct/"})["endpoint"] == "http://127.0.0.1:1/acct"
    fabric = config(BARE, {"account_name": "onelake", "use_fabric_endpoint": "true"})
    assert fabric["endpoint"] == "https://onelake.blob.fabric.microsoft.com"
    with pytest.raises(OptionError, match="'endpoint' must start with"):
        config(FULL, {"endpoint": "ftp://x"})


def test_without_an_account_there_is_a_hint() -> None:
    with pytest.raises(OptionError, match=r"az://lake/t does not say which Azure account.*account_name"):
        config(BARE, {"account_key": "k"})


def test_the_call_comes_before_the_address_and_that_before_the_environment() -> None:
    environment = {"sas_key": "sig=environment", "tenant_id": "e", "client_id": "e"}
    assert config(FULL, {}, environment)["sas_key"] == "sig=environment"
    assert config(SIGNED, {}, environment)["sas_key"] == "sig=url"
    assert config(SIGNED, {"sas_key": "?sig=call"}, environment)["sas_key"] == "sig=call"
    assert config(SIGNED, {"tenant_id": "c"}, environment)["tenant_id"] == "c"
    assert config(SIGNED, {"tenant_id": "c"}, environment)["client_id"] == "e"
    assert config(FULL, {"account_name": "called"}, {"account_name": "e"})["account_name"] == "called"


def test_credentials_are_never_mixed_from_two_sources() -> None:
    found = config(SIGNED, {}, {"account_key": "environment"})
    assert (found["credential_type"], "account_key" in found) == ("sas_token", False)
    found = config(FULL, {"sas_key": "sig=call"}, {"token": "environment", "account_key": "environment"})
    assert found["credential_type"] == "sas_token"
    assert "environment" not in found.values()


def test_what_the_environment_says_of_another_account_is_not_used() -> None:
    environment = {"account_name": "other", "account_key": "k", "endpoint": "http://127.0.0.1:1/other"}
    assert config(FULL, {}, environment) == {**BARE_CONFIG, "endpoint": "https://acct.blob.core.windows.net"}
    assert config(BARE, {}, environment)["endpoint"] == "http://127.0.0.1:1/other"


@pytest.mark.parametrize(
    ("options", "kind"),
    [
        ({"token": "t", "account_key": "k"}, "bearer_token"),
        ({"account_key": "k", "sas_key": "sig=s"}, "access_key"),
        ({"account_key": "k", "sas_key": "sig=s", "credential_type": "sas_token"}, "sas_token"),
        ({"client_secret": "s", "client_id": "c", "tenant_id": "t"}, "client_secret"),
        ({"federated_token_file": "f", "client_id": "c", "tenant_id": "t"}, "workload_identity"),
        ({"use_azure_cli": "true"}, "azure_cli"),
        ({"credential_type": "managed_identity"}, "managed_identity"),
        ({"object_id": "o"}, "managed_identity"),
        ({"msi_resource_id": "r"}, "managed_identity"),
        ({"msi_endpoint": "http://127.0.0.1:1"}, "managed_identity"),
        ({"connection_string": "AccountName=acct;AccountKey=k"}, "access_key"),
    ],
)
def test_the_kind_of_credentials(options: dict[str, str], kind: str) -> None:
    assert config(FULL, options)["credential_type"] == kind


def test_credentials_that_are_asked_for_must_be_there() -> None:
    with pytest.raises(OptionError, match="'credential_type'"):
        config(FULL, {"account_key": "k", "credential_type": "sas_token"})


def test_a_public_container_needs_no_credentials() -> None:
    found = azure_access(parse_address(FULL), {"skip_signature": "true"}, {"account_key": "k"})
    assert found.config["skip_signature"] == "true"
    assert "account_key" not in found.config
    assert found.provider is None


def test_connection_strings_lie_below_explicit_options() -> None:
    text = "AccountName=acct;AccountKey=string"
    assert config(BARE, {"connection_string": text})["account_key"] == "string"
    assert config(BARE, {}, {"connection_string": text})["account_key"] == "string"
    assert config(BARE, {"connection_string": text, "account_key": "explicit"})["account_key"] == "explicit"


def test_the_emulator_switch() -> None:
    found = config(BARE, {"use_emulator": "true"})
    assert found["endpoint"] == "http://127.0.0.1:10000/devstoreaccount1"
    assert found["credential_type"] == "access_key"


def test_the_kind_that_is_wanted_is_looked_for_in_every_source() -> None:
    environment = {"account_key": "environment", "sas_key": "sig=environment"}
    assert config(FULL, {"credential_type": "sas_token"}, environment)["sas_key"] == "sig=environment"
    assert config(SIGNED, {"credential_type": "ACCESS_KEY"}, environment)["account_key"] == "environment"
    # What the environment wants is no reason to leave out what the call gives.
    found = config(FULL, {"sas_key": "sig=call"}, {**environment, "credential_type": "access_key"})
    assert (found["credential_type"], found["sas_key"]) == ("sas_token", "sig=call")
    with pytest.raises(OptionError, match="'credential_type' wants credentials that are missing, or is none of"):
        config(FULL, {"credential_type": "password"}, environment)


@pytest.mark.parametrize(
    ("call", "tried"),
    [
        ({"account_key": "k"}, "the account key from the storage options"),
        ({"client_secret": "s", "client_id": "c", "tenant_id": "t"}, "the client secret of a service principal from"),
        ({"use_azure_cli": "true"}, "the login of the Azure CLI"),
        ({"credential_type": "managed_identity"}, "the managed identity of this machine"),
        ({"credential_type": "default"}, "azure-identity's DefaultAzureCredential"),
        ({"skip_signature": "true"}, "no credentials, for 'skip_signature' is set"),
        ({}, "the shared access signature from the address"),
    ],
)
def test_what_is_tried_has_a_name(call: dict[str, str], tried: str) -> None:
    assert azure_access(parse_address(SIGNED), call, {"token": "e"}).identity.tried.startswith(tried)


def test_a_notebook_of_fabric_is_left_to_object_store() -> None:
    names = ("token_service_url", "workload_host", "session_token", "cluster_identifier")
    session = {f"fabric_{name}": name for name in names}
    access = azure_access(parse_address(FULL), {}, session)
    assert access.provider is None
    assert session.items() <= access.config.items()
    del session["fabric_session_token"]
    assert azure_access(parse_address(FULL), {}, session).provider is not None
