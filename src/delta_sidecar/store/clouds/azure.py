"""Which Azure account to ask, where, and with which credentials.

Three sources are asked in turn: the call, the address, the environment. Credentials come whole from the first
source that has any: a signature in the call is not overruled by a key in the environment. What the
environment says of one account is never sent to another. Without any, azure-identity looks for a login.
"""

from __future__ import annotations

import datetime as dt
import importlib.util
import inspect
import logging
import pickle
import re
import threading
from dataclasses import dataclass, field
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable
from urllib.parse import SplitResult, urlsplit

from delta_sidecar.errors import AuthenticationError, OptionError, to_install
from delta_sidecar.store.failures import ENVIRONMENT, OPTIONS, Access, CredentialProvider, Identity
from delta_sidecar.store.options import StorageOption, read_flag

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


# The options of Azure stores.


AZURE_OPTIONS: tuple[StorageOption, ...] = (
    StorageOption("account_name", "The storage account.", names=("azure_storage_account_name",)),
    StorageOption(
        "account_key",
        "The account's key.",
        names=(
            "azure_storage_account_key",
            "azure_storage_access_key",
            "azure_storage_master_key",
            "access_key",
            "master_key",
        ),
        secret=True,
    ),
    StorageOption(
        "sas_key",
        "A shared access signature, percent-encoded as the portal shows it.",
        names=("azure_storage_sas_key", "azure_storage_sas_token", "sas_token"),
        secret=True,
    ),
    StorageOption(
        "connection_string",
        "A connection string, with a key, a signature or UseDevelopmentStorage=true.",
        names=("azure_storage_connection_string",),
        secret=True,
    ),
    StorageOption("token", "A bearer token.", names=("azure_storage_token", "bearer_token"), secret=True),
    StorageOption(
        "tenant_id",
        "The tenant of a service principal.",
        names=(
            "azure_storage_tenant_id",
            "azure_storage_authority_id",
            "azure_tenant_id",
            "azure_authority_id",
            "authority_id",
        ),
    ),
    StorageOption(
        "client_id",
        "The id of a service principal or managed identity.",
        names=("azure_storage_client_id", "azure_client_id"),
    ),
    StorageOption(
        "client_secret",
        "The secret of a service principal.",
        names=("azure_storage_client_secret", "azure_client_secret"),
        secret=True,
    ),
    StorageOption(
        "client_certificate_path",
        "The certificate of a service principal, a PEM or PKCS12 file; needs the extra `azure`.",
        names=("azure_client_certificate_path",),
    ),
    StorageOption(
        "client_certificate_password",
        "The password of that file.",
        names=("azure_client_certificate_password",),
        secret=True,
    ),
    StorageOption(
        "authority_host",
        "Where tokens are asked for.",
        default="https://login.microsoftonline.com",
        names=("azure_storage_authority_host", "azure_authority_host"),
    ),
    StorageOption(
        "federated_token_file",
        "The token file of a workload identity.",
        names=("azure_federated_token_file",),
    ),
    StorageOption(
        "msi_endpoint",
        "Where a managed identity's token is asked for.",
        names=("azure_msi_endpoint", "azure_identity_endpoint", "identity_endpoint"),
    ),
    StorageOption("object_id", "The object id of a managed identity.", names=("azure_object_id",)),
    StorageOption("msi_resource_id", "The resource id of a managed identity.", names=("azure_msi_resource_id",)),
    StorageOption("use_azure_cli", "Use the login of the Azure CLI.", names=("azure_use_azure_cli",), type="flag"),
    StorageOption("skip_signature", "Read a public container.", names=("azure_skip_signature",), type="flag"),
    StorageOption(
        "credential_type",
        "Which credentials to use: see above.",
        default="the first one found",
        names=("azure_credential_type",),
    ),
    StorageOption(
        "endpoint",
        "The blob service's address; http:// is allowed only where this says so.",
        default="https://{account}.blob.core.windows.net",
        names=("azure_storage_endpoint", "azure_endpoint"),
    ),
    StorageOption(
        "use_emulator",
        "Use an emulator on 127.0.0.1:10000.",
        names=("azure_storage_use_emulator",),
        type="flag",
    ),
    StorageOption(
        "use_fabric_endpoint",
        "The account is OneLake's.",
        names=("azure_use_fabric_endpoint",),
        type="flag",
    ),
    StorageOption(
        "fabric_token_service_url",
        "Where a notebook of Fabric asks for tokens.",
        names=("azure_fabric_token_service_url",),
    ),
    StorageOption("fabric_workload_host", "The host of its workload.", names=("azure_fabric_workload_host",)),
    StorageOption(
        "fabric_session_token",
        "The token of its session.",
        names=("azure_fabric_session_token",),
        secret=True,
    ),
    StorageOption("fabric_cluster_identifier", "The name of its cluster.", names=("azure_fabric_cluster_identifier",)),
    StorageOption("disable_tagging", "Write no tags.", names=("azure_disable_tagging",), type="flag"),
    StorageOption(
        "encryption_key",
        "A customer-provided encryption key, base64.",
        names=("azure_encryption_key", "azure_storage_encryption_key"),
        secret=True,
    ),
)
"""The options of Azure stores."""


# Azure connection strings, as the portal shows them, taken apart into options.


EMULATOR = {
    "account_name": "devstoreaccount1",
    # Every emulator has this account and this key; both are in Azure's documentation.
    "account_key": "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw==",
    "endpoint": "http://127.0.0.1:10000/devstoreaccount1",
}
"""The options that reach an emulator on its usual port."""


def parse_connection_string(text: str) -> dict[str, str]:
    """Gives the options `account_name, account_key, sas_key, endpoint`, as far as the string holds them.

    Raises:
        OptionError: It is not a list of `Name=value` separated by semicolons, names no account, or an address in it is
            not valid. The message holds names alone, never values.
    """
    fields = _fields(text)
    if fields.get("usedevelopmentstorage", "").lower() == "true":
        return _emulator(fields)
    options: dict[str, str] = {}
    for name, key in (("accountname", "account_name"), ("accountkey", "account_key")):
        if fields.get(name):
            options[key] = fields[name]
    if fields.get("sharedaccesssignature"):
        options["sas_key"] = fields["sharedaccesssignature"].removeprefix("?")
    endpoint = fields.get("blobendpoint", "").rstrip("/")
    if endpoint:
        options["endpoint"] = endpoint
        options.setdefault("account_name", _account_of(endpoint))
    elif "account_name" in options:
        scheme = fields.get("defaultendpointsprotocol", "https")
        suffix = fields.get("endpointsuffix", "core.windows.net")
        options["endpoint"] = f"{scheme}://{options['account_name']}.blob.{suffix}"
    if not options.get("account_name"):
        msg = "the connection string names no account: it needs AccountName or BlobEndpoint"
        raise OptionError(msg)
    return options


def _fields(text: str) -> dict[str, str]:
    fields: dict[str, str] = {}
    for number, part in enumerate(filter(None, (part.strip() for part in text.split(";"))), start=1):
        name, equals, value = part.partition("=")
        if not equals:
            msg = f"part {number} of the connection string is not of the form Name=value"
            raise OptionError(msg)
        fields[name.strip().lower()] = value.strip()
    return fields


def _emulator(fields: dict[str, str]) -> dict[str, str]:
    proxy = fields.get("developmentstorageproxyuri", "").rstrip("/")
    if not proxy:
        return dict(EMULATOR)
    parts, port = _split(proxy, "DevelopmentStorageProxyUri")
    host = parts.netloc if port else f"{parts.netloc}:10000"
    return {**EMULATOR, "endpoint": f"{parts.scheme or 'http'}://{host}/{EMULATOR['account_name']}"}


def _account_of(endpoint: str) -> str:
    parts, _ = _split(endpoint, "BlobEndpoint")
    return parts.path.strip("/") or (parts.hostname or "").split(".", 1)[0]


def _split(address: str, field: str) -> tuple[SplitResult, int | None]:
    try:
        return (parts := urlsplit(address)), parts.port
    except ValueError:
        # Its text may hold a part of the address.
        msg = f"the {field} of the connection string is not an address"
    raise OptionError(msg)


# Credentials of azure-identity, by name: the extra `azure`.


INSTALL = to_install("azure")

Pairs = tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class IdentityTokens:
    """Hands a client the tokens of a credential of azure-identity, which is made when the first one is asked for.

    Equal ones share one credential, and with it the tokens that it keeps.

    Attributes:
        kind: `default` or `client_certificate`.
        arguments: The arguments of the credential, by name.
        secrets: The values among them that must never be shown.
    """

    kind: str
    arguments: Pairs = field(default=(), repr=False)
    secrets: frozenset[str] = field(default=frozenset(), repr=False)

    def __call__(self) -> dict[str, Any]:
        """Gives a token."""
        with _making:
            credential = _credential(self.kind, self.arguments)
        return ask_for_token(credential)


def is_installed() -> bool:
    """Tells whether azure-identity is there, without importing it."""
    try:
        return importlib.util.find_spec("azure.identity") is not None
    except ModuleNotFoundError:
        return False


def default_tokens(config: Mapping[str, str]) -> IdentityTokens:
    """Gives what asks azure-identity's `DefaultAzureCredential`, for the identity that the options describe."""
    named = {
        "authority": config.get("authority_host"),
        "managed_identity_client_id": config.get("client_id"),
        "workload_identity_client_id": config.get("client_id"),
        "workload_identity_tenant_id": config.get("tenant_id"),
    }
    return IdentityTokens("default", _pairs(named))


def certificate_tokens(config: Mapping[str, str], path: str, password: str | None) -> IdentityTokens:
    """Gives what asks for tokens with the certificate of a service principal."""
    named = {
        "authority": config.get("authority_host"),
        "certificate_path": path,
        "client_id": config.get("client_id"),
        "password": password,
        "tenant_id": config.get("tenant_id"),
    }
    return IdentityTokens("client_certificate", _pairs(named), frozenset([password] if password else []))


_making = threading.Lock()


@lru_cache(maxsize=64)
def _credential(kind: str, arguments: Pairs) -> TokenCredential:
    from azure.identity import CertificateCredential, DefaultAzureCredential

    # It warns of what is raised anyway, and without a handler the warning goes to the user's terminal.
    logging.getLogger("azure.identity").addHandler(logging.NullHandler())
    named: dict[str, Any] = dict(arguments)
    make: Any = DefaultAzureCredential if kind == "default" else CertificateCredential
    try:
        made: TokenCredential = make(**named)
    except (OSError, ValueError, TypeError) as error:
        why = describe_failure(make.__name__, error)
    else:
        return made
    raise NoTokenError(why)


def _pairs(named: Mapping[str, str | None]) -> Pairs:
    return tuple(sorted((name, value) for name, value in named.items() if value is not None))


# Tokens from credential objects, such as those of azure-identity.
#
# obstore keeps a token and asks for the next one when fewer than five minutes are left of it. However many requests
# wait for it, it asks once, in the thread of one of them.


STORAGE_SCOPE = "https://storage.azure.com/.default"
"""What tokens for Azure's storage are asked for, in every Azure cloud and for OneLake."""


@runtime_checkable
class TokenCredential(Protocol):
    """What gives tokens: the protocol that azure-identity's credentials follow."""

    def get_token(self, *scopes: str, **kwargs: Any) -> Any:  # noqa: ANN401 - `kwargs` are the credential's own
        """Gives an object with a `token` and with `expires_on`, in seconds since the epoch."""


class NoTokenError(Exception):
    """A credential gave no token. It travels through the client as text and becomes an `AuthenticationError`."""


class CredentialTokens:
    """Hands a client the tokens of a credential object.

    Two are equal if they ask the same object.

    Args:
        credential: The object.
        tenant: The tenant to ask for tokens of; None for the credential's own.
    """

    def __init__(self, credential: TokenCredential, tenant: str | None = None) -> None:
        self.credential = credential
        self.tenant = tenant

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, CredentialTokens):
            return NotImplemented
        return other.credential is self.credential and other.tenant == self.tenant

    def __hash__(self) -> int:
        return hash((id(self.credential), self.tenant))

    def __repr__(self) -> str:
        """Shows the kind of credential alone."""
        return f"CredentialTokens({type(self.credential).__name__})"

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickles the credential, if it can be pickled."""
        try:
            pickle.dumps(self.credential)
        except Exception:  # noqa: BLE001 - whatever the object's own code raises
            refused = True
        else:
            refused = False
        if refused:
            msg = (
                f"a store with a {type(self.credential).__name__} cannot be sent to another process, for that "
                "credential cannot be pickled: open the store there, or name its kind in the storage option "
                "'credential_type'"
            )
            raise pickle.PicklingError(msg)
        return CredentialTokens, (self.credential, self.tenant)

    @property
    def secrets(self) -> frozenset[str]:
        """None that anybody can know of."""
        return frozenset()

    def __call__(self) -> dict[str, Any]:
        """Gives a token."""
        return ask_for_token(self.credential, self.tenant)


def check_credential(credential: object) -> TokenCredential:
    """Gives a credential object that has been looked at.

    Raises:
        OptionError: It gives no tokens, or gives them asynchronously.
    """
    kind = type(credential).__name__
    if isinstance(credential, type) or not isinstance(credential, TokenCredential):
        msg = f"a credential is an object with a method get_token, as those of azure-identity; {kind} is none"
        raise OptionError(msg)
    if inspect.iscoroutinefunction(credential.get_token):
        msg = f"{kind} is an asynchronous credential, of azure.identity.aio; give its twin of azure.identity"
        raise OptionError(msg)
    return credential


def ask_for_token(credential: TokenCredential, tenant: str | None = None) -> dict[str, Any]:
    """Asks for a token, in obstore's form.

    Raises:
        NoTokenError: There is none. Its text names the credential or, where it is a chain, each one in it.
    """
    name = type(credential).__name__
    try:
        token = credential.get_token(STORAGE_SCOPE, **({} if tenant is None else {"tenant_id": tenant}))
        text, until = token.token, dt.datetime.fromtimestamp(token.expires_on, dt.UTC)
    except Exception as error:  # noqa: BLE001 - the object is anybody's
        why = describe_failure(name, error)
    else:
        if isinstance(text, str):
            return {"token": text, "expires_at": until}
        why = f"{name} (gave no token)"
    raise NoTokenError(why)


def describe_failure(name: str, error: Exception) -> str:
    """Gives the names of the credentials that were tried, each with its reason in brackets."""
    text = str(error) or type(error).__name__
    inner = [(found[1], found[2]) for found in _ATTEMPT.finditer(text)]
    if not inner:
        return f"{name} ({_short(name, text)})"
    return ", ".join(f"{tried} ({_short(tried, why)})" for tried, why in inner)


def _short(name: str, why: str) -> str:
    """Gives a reason in a few words: without the name before it, and without the advice after it."""
    text = " ".join(_ADVICE.split(why, maxsplit=1)[0].split())
    text = text.removeprefix(f"{name} ").removeprefix(f"{name}: ").rstrip(". ")
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}..."


_LONGEST = 160

# How a chain of azure-identity lists the credentials in it.
_ATTEMPT = re.compile(r"^\t(\w+): (.*(?:\n(?!\t|To mitigate).*)*)", re.MULTILINE)
_ADVICE = re.compile(r"(?:\n|\s)(?=Visit https?://|See the troubleshooting|To mitigate|Please visit )")
