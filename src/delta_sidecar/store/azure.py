"""Which Azure account to ask, where, and with which credentials.

Three sources are asked in turn: the call, the address, the environment. Credentials come whole from the first
source that has any: a signature in the call is not overruled by a key in the environment. What the
environment says of one account is never sent to another.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from delta_sidecar.errors import OptionError
from delta_sidecar.store.connection_string import EMULATOR, parse_connection_string
from delta_sidecar.store.option_values import read_flag

if TYPE_CHECKING:
    from collections.abc import Mapping

    from delta_sidecar.store.address import Address


def azure_config(address: Address, call: Mapping[str, str], environment: Mapping[str, str]) -> dict[str, str]:
    """Gives the configuration of an Azure client.

    Args:
        address: The table's address.
        call: The options of the call, by key.
        environment: The options of the environment, by key.

    Returns:
        The values by object_store's keys. Without any credentials there is no `credential_type`, and the
        client asks for the machine's managed identity.

    Raises:
        OptionError: No account is named anywhere, or a value is not valid.
    """
    sources = [_expanded(call), _of_address(address), _expanded(environment)]
    account = _first(sources, "account_name")
    if account is None:
        msg = (
            f"{address.url} does not say which Azure account it is in: set the storage option 'account_name' "
            "or the environment variable AZURE_STORAGE_ACCOUNT_NAME, or write "
            "abfss://container@account.dfs.core.windows.net/path"
        )
        raise OptionError(msg)
    sources = [source for source in sources if source.get("account_name", account) == account]
    config = {
        "account_name": account,
        "endpoint": _endpoint(sources, account),
        # Said in any case, or the client looks for it in the environment by itself.
        "use_emulator": "false",
        "skip_signature": "false",
    }
    for key in _IDENTITY:
        value = _first(sources, key)
        if value is not None:
            config[key] = value
    for source in sources:
        credentials = _credentials(source)
        if credentials:
            config |= credentials
            break
    return config


# What describes an identity without proving it, and what has nothing to do with credentials: taken from any
# source.
_IDENTITY = (
    "tenant_id",
    "client_id",
    "authority_host",
    "msi_endpoint",
    "object_id",
    "msi_resource_id",
    "encryption_key",
)

# In the order in which object_store looks for them, and what it calls them.
_CREDENTIALS = (
    ("token", "bearer_token"),
    ("account_key", "access_key"),
    ("client_secret", "client_secret"),
    ("federated_token_file", "workload_identity"),
    ("sas_key", "sas_token"),
)


def _expanded(options: Mapping[str, str]) -> dict[str, str]:
    """Gives a source's options with its connection string and emulator switch spelled out below them."""
    source = {key: value for key, value in options.items() if value}
    text = source.pop("connection_string", None)
    if text is not None:
        source = parse_connection_string(text) | source
    emulator = source.pop("use_emulator", None)
    if emulator is not None and read_flag("use_emulator", emulator):
        source = EMULATOR | source
    if "sas_key" in source:
        source["sas_key"] = source["sas_key"].removeprefix("?")
    return source


def _of_address(address: Address) -> dict[str, str]:
    named = {"account_name": address.account, "endpoint": address.endpoint, "sas_key": address.sas}
    return {key: value for key, value in named.items() if value is not None}


def _first(sources: list[dict[str, str]], key: str) -> str | None:
    return next((source[key] for source in sources if key in source), None)


def _endpoint(sources: list[dict[str, str]], account: str) -> str:
    endpoint = _first(sources, "endpoint")
    if endpoint is None:
        fabric = read_flag("use_fabric_endpoint", _first(sources, "use_fabric_endpoint") or "false")
        return f"https://{account}.blob.{'fabric.microsoft.com' if fabric else 'core.windows.net'}"
    if not endpoint.startswith(("https://", "http://")):
        msg = "the storage option 'endpoint' must start with https:// or http://"
        raise OptionError(msg)
    return endpoint.rstrip("/")


def _credentials(source: dict[str, str]) -> dict[str, str]:
    if read_flag("skip_signature", source.get("skip_signature", "false")):
        return {"skip_signature": "true"}
    wanted = source.get("credential_type", "auto").lower()
    for key, kind in _CREDENTIALS:
        if key in source and wanted in {"auto", kind}:
            return {key: source[key], "credential_type": kind}
    if wanted == "azure_cli" or read_flag("use_azure_cli", source.get("use_azure_cli", "false")):
        return {"use_azure_cli": "true", "credential_type": "azure_cli"}
    if wanted == "auto":
        return {}
    if wanted == "managed_identity":
        return {"credential_type": wanted}
    kinds = ", ".join(sorted({kind for _, kind in _CREDENTIALS} | {"azure_cli", "managed_identity"}))
    msg = f"the storage option 'credential_type' wants credentials that are missing, or is none of {kinds}"
    raise OptionError(msg)
