"""Which Azure account to ask, where, and with which credentials.

Three sources are asked in turn: the call, the address, the environment. Credentials come whole from the first
source that has any: a signature in the call is not overruled by a key in the environment. What the
environment says of one account is never sent to another. Without any, azure-identity looks for a login.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from delta_sidecar.errors import AuthenticationError, OptionError
from delta_sidecar.store.access import ENVIRONMENT, OPTIONS, Access, CredentialProvider, Identity
from delta_sidecar.store.azure_identity import INSTALL, certificate_tokens, default_tokens, is_installed
from delta_sidecar.store.connection_string import EMULATOR, parse_connection_string
from delta_sidecar.store.option_values import read_flag
from delta_sidecar.store.tokens import CredentialTokens, check_credential

if TYPE_CHECKING:
    from collections.abc import Mapping

    from delta_sidecar.store.address import Address


def azure_access(
    address: Address,
    call: Mapping[str, str],
    environment: Mapping[str, str],
    credential: object = None,
) -> Access:
    """Gives the way to an Azure account.

    Args:
        address: The table's address.
        call: The options of the call, by key.
        environment: The options of the environment, by key.
        credential: An object that gives tokens, handed over in the call.

    Raises:
        OptionError: No account is named anywhere, or a value is not valid.
        AuthenticationError: There are no credentials, and without azure-identity nothing else to look for.
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
    matching = [source if source.get("account_name", account) == account else {} for source in sources]
    endpoint = _endpoint(matching, account)
    config = {
        "account_name": account,
        "endpoint": endpoint,
        # Said in any case, or the client looks for it in the environment by itself.
        "use_emulator": "false",
        "skip_signature": "false",
        "credential_type": "auto",
    }
    for key in _IDENTITY:
        value = _first(matching, key)
        if value is not None:
            config[key] = value.rstrip("/") if key == "authority_host" else value
    if credential is not None:
        return Access(config, endpoint, *_handed_over(credential, matching[0]))
    identity, provider = _credentials(config, matching, address)
    return Access(config, endpoint, identity, provider)


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

# Credentials that are values: the option, object_store's name for its kind, in the order in which object_store
# looks for them, and what they are.
_VALUES = (
    ("token", "bearer_token", "the bearer token"),
    ("account_key", "access_key", "the account key"),
    ("client_secret", "client_secret", "the client secret of a service principal"),
    ("client_certificate_path", "client_certificate", "the certificate of a service principal"),
    ("federated_token_file", "workload_identity", "the workload identity"),
    ("sas_key", "sas_token", "the shared access signature"),
)
_OF_PRINCIPALS = {"client_secret", "client_certificate", "workload_identity"}

# What only a managed identity has.
_OF_MACHINES = ("msi_endpoint", "object_id", "msi_resource_id")

_OF_FABRIC = (
    "fabric_token_service_url",
    "fabric_workload_host",
    "fabric_session_token",
    "fabric_cluster_identifier",
)

_ROLE = "Check that the identity has a role on the account or container, such as Storage Blob Data Reader"
_HINTS = {
    "access_key": "Check the key, and that the account allows keys",
    "sas_token": "Check the signature's permissions and its expiry",
    "bearer_token": f"Check the token's audience and its expiry. {_ROLE}",
    "skip_signature": "The container is not public: give credentials",
}

_LOOKED_FOR = (
    "'account_key', 'sas_key', 'connection_string', 'token', 'client_secret', 'client_certificate_path', "
    "'federated_token_file' or 'credential_type'"
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


def _handed_over(credential: object, call: Mapping[str, str]) -> tuple[Identity, CredentialProvider]:
    """Gives the identity of a credential object; no other credentials may stand beside it in the call."""
    checked = check_credential(credential)
    others = [key for key, _, _ in _VALUES if key in call]
    others += [key for key in ("credential_type", "use_azure_cli", "skip_signature") if key in call]
    if others:
        msg = f"there is a credential object and a storage option {others[0]!r}: give one of them"
        raise OptionError(msg)
    identity = Identity(f"the {type(checked).__name__} that was handed over", _ROLE)
    return identity, CredentialTokens(checked, call.get("tenant_id"))


def _credentials(
    config: dict[str, str], sources: list[dict[str, str]], address: Address
) -> tuple[Identity, CredentialProvider | None]:
    """Adds the credentials to the configuration, from the first source that has any of the kind that is wanted."""
    wanted = "auto"
    for source, origin in zip(sources, (OPTIONS, "from the address", ENVIRONMENT), strict=True):
        if wanted == "auto":
            wanted = source.get("credential_type", "auto").lower()
        if read_flag("skip_signature", source.get("skip_signature", "false")):
            config["skip_signature"] = "true"
            return Identity("no credentials, for 'skip_signature' is set", _HINTS["skip_signature"]), None
        for key, kind, what in _VALUES:
            if key in source and wanted in {"auto", kind}:
                identity = Identity(f"{what} {origin}", _HINTS.get(kind, _ROLE))
                return identity, _use_value(config, source, key, kind)
        cli = wanted == "azure_cli" or read_flag("use_azure_cli", source.get("use_azure_cli", "false"))
        if cli and wanted in {"auto", "azure_cli"}:
            config |= {"use_azure_cli": "true", "credential_type": "azure_cli"}
            return Identity("the login of the Azure CLI", f"Log in with 'az login'. {_ROLE}"), None
        if wanted == "managed_identity" or (wanted == "auto" and any(key in source for key in _OF_MACHINES)):
            config["credential_type"] = "managed_identity"
            return Identity("the managed identity of this machine", _ROLE), None
        if wanted == "auto" and all(key in source for key in _OF_FABRIC):
            config |= {key: source[key] for key in _OF_FABRIC}
            return Identity(f"the session of Fabric {origin}", _ROLE), None
    return _login(config, wanted, address)


def _use_value(config: dict[str, str], source: dict[str, str], key: str, kind: str) -> CredentialProvider | None:
    """Adds one credential to the configuration, or gives what asks azure-identity with it."""
    missing = [name for name in ("tenant_id", "client_id") if kind in _OF_PRINCIPALS and name not in config]
    if missing:
        msg = f"the storage option {key!r} needs {' and '.join(map(repr, missing))} too"
        raise OptionError(msg)
    if kind == "client_certificate":
        if not is_installed():
            msg = f"the storage option {key!r} needs azure-identity: {INSTALL}"
            raise OptionError(msg)
        return certificate_tokens(config, source[key], source.get("client_certificate_password"))
    config |= {key: source[key], "credential_type": kind}
    return None


def _login(config: dict[str, str], wanted: str, address: Address) -> tuple[Identity, CredentialProvider]:
    """Gives azure-identity's own search, where there are no credentials or it is asked for."""
    if wanted not in {"auto", "default"}:
        kinds = ", ".join(sorted({kind for _, kind, _ in _VALUES} | {"azure_cli", "default", "managed_identity"}))
        msg = f"the storage option 'credential_type' wants credentials that are missing, or is none of {kinds}"
        raise OptionError(msg)
    if is_installed():
        found = "azure-identity's DefaultAzureCredential" + (
            "" if wanted == "default" else ", for no credentials were given"
        )
        hint = f"Log in with 'az login', or give a storage option: {_LOOKED_FOR}. {_ROLE}"
        return Identity(found, hint), default_tokens(config)
    if wanted == "default":
        msg = f"the storage option 'credential_type' is 'default', which needs azure-identity: {INSTALL}"
        raise OptionError(msg)
    msg = (
        f"there are no credentials for {address.url}. Looked for in the storage options, the address and the "
        f"environment: {_LOOKED_FOR}. Give one of them, credential_type=managed_identity for the identity of this "
        f"machine, or skip_signature=true for a public container; or have azure-identity look for a login: {INSTALL}"
    )
    raise AuthenticationError(msg)
