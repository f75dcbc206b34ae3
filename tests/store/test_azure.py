from __future__ import annotations

import pytest

from delta_sidecar.errors import OptionError
from delta_sidecar.store.address import parse_address
from delta_sidecar.store.azure import azure_config

BARE = "az://lake/t"
FULL = "abfss://lake@acct.dfs.core.windows.net/t"
SIGNED = "https://acct.blob.core.windows.net/lake/t?sig=url"


def config(
    address: str, call: dict[str, str] | None = None, environment: dict[str, str] | None = None
) -> dict[str, str]:
    found = azure_config(parse_address(address), call or {}, environment or {})
    assert (found.pop("use_emulator"), found.pop("skip_signature")) == ("false", "false")
    return found


def test_the_endpoint_is_the_accounts_unless_it_is_given() -> None:
    assert config(FULL) == {"account_name": "acct", "endpoint": "https://acct.blob.core.windows.net"}
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
    assert config(FULL, {}, environment) == {
        "account_name": "acct",
        "endpoint": "https://acct.blob.core.windows.net",
    }
    assert config(BARE, {}, environment)["endpoint"] == "http://127.0.0.1:1/other"


@pytest.mark.parametrize(
    ("options", "kind"),
    [
        ({"token": "t", "account_key": "k"}, "bearer_token"),
        ({"account_key": "k", "sas_key": "sig=s"}, "access_key"),
        ({"account_key": "k", "sas_key": "sig=s", "credential_type": "sas_token"}, "sas_token"),
        ({"client_secret": "s", "client_id": "c", "tenant_id": "t"}, "client_secret"),
        ({"federated_token_file": "f"}, "workload_identity"),
        ({"use_azure_cli": "true"}, "azure_cli"),
        ({"credential_type": "managed_identity"}, "managed_identity"),
        ({"connection_string": "AccountName=acct;AccountKey=k"}, "access_key"),
    ],
)
def test_the_kind_of_credentials(options: dict[str, str], kind: str) -> None:
    assert config(FULL, options)["credential_type"] == kind


def test_credentials_that_are_asked_for_must_be_there() -> None:
    with pytest.raises(OptionError, match="'credential_type'"):
        config(FULL, {"account_key": "k", "credential_type": "sas_token"})


def test_a_public_container_needs_no_credentials() -> None:
    found = azure_config(parse_address(FULL), {"skip_signature": "true"}, {"account_key": "k"})
    assert found["skip_signature"] == "true"
    assert "account_key" not in found


def test_connection_strings_lie_below_explicit_options() -> None:
    text = "AccountName=acct;AccountKey=string"
    assert config(BARE, {"connection_string": text})["account_key"] == "string"
    assert config(BARE, {}, {"connection_string": text})["account_key"] == "string"
    assert config(BARE, {"connection_string": text, "account_key": "explicit"})["account_key"] == "explicit"


def test_the_emulator_switch() -> None:
    found = config(BARE, {"use_emulator": "true"})
    assert found["endpoint"] == "http://127.0.0.1:10000/devstoreaccount1"
    assert found["credential_type"] == "access_key"
