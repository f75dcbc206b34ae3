"""Azure: its options, the account and its endpoint, the credentials, and tokens from azure-identity.

Three sources are asked in turn: the call, the address, the environment. Credentials come whole from the first
source that has any: a signature in the call is not overruled by a key in the environment. What the
environment says of one account is never sent to another. Without any, azure-identity looks for a login.
"""

from __future__ import annotations

import contextlib
import datetime as dt
import importlib.util
import inspect
import logging
import pickle
import re
import threading
from collections import ChainMap
from dataclasses import dataclass, field
from functools import lru_cache
from typing import TYPE_CHECKING, Any
from urllib.parse import SplitResult, urlsplit

from delta_sidecar.errors import AuthenticationError, OptionError, to_install
from delta_sidecar.store.clouds import ENVIRONMENT, OPTIONS, CloudAccess, CredentialProvider, Identity, Pairs, pairs
from delta_sidecar.store.interface import TokenCredential
from delta_sidecar.store.options import flag, is_set, read_endpoint, secret, text, with_prefix

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from delta_sidecar.store.address import Address

AZURE_OPTIONS = with_prefix(
    "azure_",
    text("account_name", "The storage account.", "azure_storage_account_name"),
    secret(
        "account_key",
        "The account's key.",
        "azure_storage_account_key azure_storage_access_key azure_storage_master_key access_key master_key",
    ),
    secret(
        "sas_key",
        "A shared access signature, percent-encoded as the portal shows it.",
        "azure_storage_sas_key azure_storage_sas_token sas_token",
    ),
    secret(
        "connection_string",
        "A connection string, with a key, a signature or UseDevelopmentStorage=true.",
        "azure_storage_connection_string",
    ),
    secret("token", "A bearer token.", "azure_storage_token bearer_token"),
    text(
        "tenant_id",
        "The tenant of a service principal.",
        "azure_storage_tenant_id azure_storage_authority_id azure_tenant_id azure_authority_id authority_id",
    ),
    text("client_id", "The id of a service principal or managed identity.", "azure_storage_client_id azure_client_id"),
    secret("client_secret", "The secret of a service principal.", "azure_storage_client_secret azure_client_secret"),
    text(
        "client_certificate_path",
        "The certificate of a service principal, a PEM or PKCS12 file; needs the extra `azure`.",
    ),
    secret("client_certificate_password", "The password of that file."),
    text(
        "authority_host",
        "Where tokens are asked for.",
        "azure_storage_authority_host azure_authority_host",
        default="https://login.microsoftonline.com",
    ),
    text("federated_token_file", "The token file of a workload identity."),
    text(
        "msi_endpoint",
        "Where a managed identity's token is asked for.",
        "azure_msi_endpoint azure_identity_endpoint identity_endpoint",
    ),
    text("object_id", "The object id of a managed identity."),
    text("msi_resource_id", "The resource id of a managed identity."),
    flag("use_azure_cli", "Use the login of the Azure CLI."),
    flag("skip_signature", "Read a public container."),
    text("credential_type", "Which credentials to use: see above.", default="the first one found"),
    text(
        "endpoint",
        "The blob service's address; http:// is allowed only where this says so.",
        "azure_storage_endpoint azure_endpoint",
        default="https://{account}.blob.core.windows.net",
    ),
    flag("use_emulator", "Use an emulator on 127.0.0.1:10000.", "azure_storage_use_emulator"),
    flag("use_fabric_endpoint", "The account is OneLake's."),
    text("fabric_token_service_url", "Where a notebook of Fabric asks for tokens."),
    text("fabric_workload_host", "The host of its workload."),
    secret("fabric_session_token", "The token of its session."),
    text("fabric_cluster_identifier", "The name of its cluster."),
    flag("disable_tagging", "Write no tags."),
    secret(
        "encryption_key",
        "A customer-provided encryption key, base64.",
        "azure_encryption_key azure_storage_encryption_key",
    ),
)
"""The options of Azure stores."""


def azure_access(
    address: Address,
    call: Mapping[str, str],
    environment: Mapping[str, str],
    credential: object = None,
) -> CloudAccess:
    """Reads the options of the call and of the environment, by key, for an Azure account.

    `credential` is an object that gives tokens, handed over in the call.

    Raises:
        OptionError: No account is named anywhere, or a value is not valid.
        AuthenticationError: There are no credentials, and without azure-identity nothing else to look for.
    """
    named = {"account_name": address.account, "endpoint": address.endpoint, "sas_key": address.sas}
    sources = [_expanded(source) for source in (call, named, environment)]
    account = ChainMap(*sources).get("account_name")
    if account is None:
        msg = (
            f"{address.url} does not say which Azure account it is in: set the storage option 'account_name' "
            "or the environment variable AZURE_STORAGE_ACCOUNT_NAME, or write "
            "abfss://container@account.dfs.core.windows.net/path"
        )
        raise OptionError(msg)
    sources = [source if source.get("account_name", account) == account else {} for source in sources]
    options = ChainMap(*sources)
    suffix = "fabric.microsoft.com" if is_set(options, "use_fabric_endpoint") else "core.windows.net"
    endpoint = read_endpoint("endpoint", options.get("endpoint", f"https://{account}.blob.{suffix}"))
    config = {
        "account_name": account,
        "endpoint": endpoint,
        # Set in any case, or the client looks for them in the environment by itself.
        "use_emulator": "false",
        "skip_signature": "false",
        "credential_type": "auto",
    }
    config |= {key: options[key] for key in _DESCRIPTIONS if key in options}
    if "authority_host" in config:
        config["authority_host"] = config["authority_host"].rstrip("/")
    if credential is not None:
        return CloudAccess(config, endpoint, *_handed_over(credential, sources[0]))
    identity, provider = _credentials(config, sources, address)
    arguments = provider.arguments if isinstance(provider, IdentityTokens) else ()
    secrets = frozenset(value for name, value in arguments if name == "password")
    return CloudAccess(config, endpoint, identity, provider, secrets)


# Options that describe an identity without proving it, or have nothing to do with credentials: taken from any source.
_DESCRIPTIONS = (
    *("tenant_id", "client_id", "authority_host", "msi_endpoint", "object_id", "msi_resource_id"),
    "encryption_key",
)

# Credentials that are values: the option, object_store's name for its kind, in the order in which object_store
# looks for them, and their name in messages.
_VALUES = (
    ("token", "bearer_token", "the bearer token"),
    ("account_key", "access_key", "the account key"),
    ("client_secret", "client_secret", "the client secret of a service principal"),
    ("client_certificate_path", "client_certificate", "the certificate of a service principal"),
    ("federated_token_file", "workload_identity", "the workload identity"),
    ("sas_key", "sas_token", "the shared access signature"),
)
_OF_PRINCIPALS = {"client_secret", "client_certificate", "workload_identity"}

# Only a managed identity has these.
_OF_MACHINES = ("msi_endpoint", "object_id", "msi_resource_id")

# The session of a notebook of Fabric has all of these.
_OF_FABRIC = ("fabric_token_service_url", "fabric_workload_host", "fabric_session_token", "fabric_cluster_identifier")

_ROLE = "Check that the identity has a role on the account or container, such as Storage Blob Data Reader"
_HINTS = {
    "access_key": "Check the key, and that the account allows keys",
    "sas_token": "Check the signature's permissions and its expiry",
    "bearer_token": f"Check the token's audience and its expiry. {_ROLE}",
}

_LOOKED_FOR = (
    "'account_key', 'sas_key', 'connection_string', 'token', 'client_secret', 'client_certificate_path', "
    "'federated_token_file' or 'credential_type'"
)


def _expanded(options: Mapping[str, str | None]) -> dict[str, str]:
    """Returns a source's options with its connection string and emulator switch spelled out below them."""
    source = {key: value for key, value in options.items() if value}
    if "connection_string" in source:
        source = parse_connection_string(source.pop("connection_string")) | source
    if is_set(source, "use_emulator"):
        source = EMULATOR | source
    if "sas_key" in source:
        source["sas_key"] = source["sas_key"].removeprefix("?")
    return source


def _handed_over(credential: object, call: Mapping[str, str]) -> tuple[Identity, CredentialProvider]:
    """Returns the identity of a credential object; no other credentials may stand beside it in the call."""
    name = type(credential).__name__
    if isinstance(credential, type) or not isinstance(credential, TokenCredential):
        msg = f"a credential is an object with a method get_token, as those of azure-identity; {name} is none"
        raise OptionError(msg)
    if inspect.iscoroutinefunction(credential.get_token):
        msg = f"{name} is an asynchronous credential, of azure.identity.aio; give its twin of azure.identity"
        raise OptionError(msg)
    for key in (*(key for key, _, _ in _VALUES), "credential_type", "use_azure_cli", "skip_signature"):
        if key in call:
            msg = f"there is a credential object and a storage option {key!r}: give one of them"
            raise OptionError(msg)
    return Identity(f"the {name} that was handed over", _ROLE), CredentialTokens(credential, call.get("tenant_id"))


def _credentials(
    config: dict[str, str], sources: list[dict[str, str]], address: Address
) -> tuple[Identity, CredentialProvider | None]:
    """Adds to the configuration the credentials of the first source that has any, or any of the chosen kind."""
    chosen = "auto"
    for source, origin in zip(sources, (OPTIONS, "from the address", ENVIRONMENT), strict=True):
        if chosen == "auto":
            chosen = source.get("credential_type", "auto").lower()
        if is_set(source, "skip_signature"):
            config["skip_signature"] = "true"
            hint = "The container is not public: give credentials"
            return Identity("no credentials, for 'skip_signature' is set", hint), None
        for key, kind, what in _VALUES:
            if key in source and chosen in {"auto", kind}:
                return Identity(f"{what} {origin}", _HINTS.get(kind, _ROLE)), _use_value(config, source, key, kind)
        if chosen == "azure_cli" or (is_set(source, "use_azure_cli") and chosen == "auto"):
            config |= {"use_azure_cli": "true", "credential_type": "azure_cli"}
            return Identity("the login of the Azure CLI", f"Log in with 'az login'. {_ROLE}"), None
        if chosen == "managed_identity" or (chosen == "auto" and any(key in source for key in _OF_MACHINES)):
            config["credential_type"] = "managed_identity"
            return Identity("the managed identity of this machine", _ROLE), None
        if chosen == "auto" and all(key in source for key in _OF_FABRIC):
            config |= {key: source[key] for key in _OF_FABRIC}
            return Identity(f"the session of Fabric {origin}", _ROLE), None
    return _login(config, chosen, address)


def _use_value(config: dict[str, str], source: dict[str, str], key: str, kind: str) -> CredentialProvider | None:
    """Adds one credential to the configuration, or returns a provider that asks azure-identity with it."""
    missing = [name for name in ("tenant_id", "client_id") if kind in _OF_PRINCIPALS and name not in config]
    if missing:
        msg = f"the storage option {key!r} needs {' and '.join(map(repr, missing))} too"
        raise OptionError(msg)
    if kind == "client_certificate":
        if not is_installed():
            msg = f"the storage option {key!r} needs azure-identity: {_INSTALL}"
            raise OptionError(msg)
        arguments = {
            "authority": config.get("authority_host"),
            "certificate_path": source[key],
            "client_id": config["client_id"],
            "password": source.get("client_certificate_password"),
            "tenant_id": config["tenant_id"],
        }
        return IdentityTokens("CertificateCredential", pairs(arguments))
    config |= {key: source[key], "credential_type": kind}
    return None


def _login(config: dict[str, str], chosen: str, address: Address) -> tuple[Identity, CredentialProvider]:
    """Returns azure-identity's own search, where there are no credentials or it is asked for."""
    if chosen not in {"auto", "default"}:
        kinds = ", ".join(sorted({kind for _, kind, _ in _VALUES} | {"azure_cli", "default", "managed_identity"}))
        msg = f"the storage option 'credential_type' wants credentials that are missing, or is none of {kinds}"
        raise OptionError(msg)
    if is_installed():
        why = "" if chosen == "default" else ", for no credentials were given"
        hint = f"Log in with 'az login', or give a storage option: {_LOOKED_FOR}. {_ROLE}"
        arguments = {
            "authority": config.get("authority_host"),
            "managed_identity_client_id": config.get("client_id"),
            "workload_identity_client_id": config.get("client_id"),
            "workload_identity_tenant_id": config.get("tenant_id"),
        }
        found = Identity(f"azure-identity's DefaultAzureCredential{why}", hint)
        return found, IdentityTokens("DefaultAzureCredential", pairs(arguments))
    if chosen == "default":
        msg = f"the storage option 'credential_type' is 'default', which needs azure-identity: {_INSTALL}"
        raise OptionError(msg)
    msg = (
        f"there are no credentials for {address.url}. Looked for in the storage options, the address and the "
        f"environment: {_LOOKED_FOR}. Give one of them, credential_type=managed_identity for the identity of this "
        f"machine, or skip_signature=true for a public container; or have azure-identity look for a login: {_INSTALL}"
    )
    raise AuthenticationError(msg)


# Connection strings, as the portal shows them.


EMULATOR = {
    "account_name": "devstoreaccount1",
    # Every emulator has this account and this key; both are in Azure's documentation.
    "account_key": "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw==",
    "endpoint": "http://127.0.0.1:10000/devstoreaccount1",
}
"""The options that reach an emulator on its usual port."""


def parse_connection_string(connection_string: str) -> dict[str, str]:
    """Returns the options `account_name, account_key, sas_key, endpoint`, as far as the string holds them.

    Raises:
        OptionError: It is not a list of `Name=value` separated by semicolons, names no account, or an address in it is
            not valid. The message holds names alone, never values.
    """
    fields: dict[str, str] = {}
    for number, part in enumerate(filter(None, map(str.strip, connection_string.split(";"))), start=1):
        name, equals, value = part.partition("=")
        if not equals:
            msg = f"part {number} of the connection string is not of the form Name=value"
            raise OptionError(msg)
        fields[name.strip().lower()] = value.strip()
    if fields.get("usedevelopmentstorage", "").lower() == "true":
        return _emulator(fields)
    options = {
        "account_name": fields.get("accountname", ""),
        "account_key": fields.get("accountkey", ""),
        "sas_key": fields.get("sharedaccesssignature", "").removeprefix("?"),
        "endpoint": fields.get("blobendpoint", "").rstrip("/"),
    }
    if options["endpoint"] and not options["account_name"]:
        parts, _ = _split(options["endpoint"], "BlobEndpoint")
        options["account_name"] = parts.path.strip("/") or (parts.hostname or "").split(".", 1)[0]
    if not options["account_name"]:
        msg = "the connection string names no account: it needs AccountName or BlobEndpoint"
        raise OptionError(msg)
    if not options["endpoint"]:
        scheme = fields.get("defaultendpointsprotocol", "https")
        suffix = fields.get("endpointsuffix", "core.windows.net")
        options["endpoint"] = f"{scheme}://{options['account_name']}.blob.{suffix}"
    return {key: value for key, value in options.items() if value}


def _emulator(fields: dict[str, str]) -> dict[str, str]:
    proxy = fields.get("developmentstorageproxyuri", "").rstrip("/")
    if not proxy:
        return dict(EMULATOR)
    parts, port = _split(proxy, "DevelopmentStorageProxyUri")
    host = parts.netloc if port else f"{parts.netloc}:10000"
    return {**EMULATOR, "endpoint": f"{parts.scheme or 'http'}://{host}/{EMULATOR['account_name']}"}


def _split(address: str, field: str) -> tuple[SplitResult, int | None]:
    try:
        return (parts := urlsplit(address)), parts.port
    except ValueError:
        # Its text may hold a part of the address.
        msg = f"the {field} of the connection string is not an address"
    raise OptionError(msg)


# Tokens, from credentials of azure-identity (the extra `azure`) or any other object that gives some.
#
# obstore keeps a token and asks for the next one when fewer than five minutes are left of it. However many requests
# wait for it, it asks once, in the thread of one of them. Its own `obstore.auth.azure` imports azure-identity with the
# first store and lets the credential's error through as it is, hence these.


_INSTALL = to_install("azure")

# In every Azure cloud and for OneLake.
_STORAGE_SCOPE = "https://storage.azure.com/.default"


class NoTokenError(Exception):
    """A credential gave no token. It travels through the client as text and becomes an `AuthenticationError`."""


@dataclass(frozen=True, slots=True)
class IdentityTokens:
    """Hands a client the tokens of a credential of azure-identity, which is made when the first one is asked for.

    Equal ones share one credential, and with it the tokens that it keeps.
    """

    name: str  # of the credential's class
    arguments: Pairs = field(default=(), repr=False)

    def __call__(self) -> dict[str, Any]:
        """Returns a token."""
        return _token(self.name, lambda: _credential(self.name, self.arguments))


class CredentialTokens:
    """Hands a client the tokens of a credential object, of another tenant than the credential's own if there is one.

    Two are equal if they ask the same object.
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

    def __reduce__(self) -> tuple[Any, ...]:
        # The object's own code may raise anything, with a secret in it.
        with contextlib.suppress(Exception):
            pickle.dumps(self.credential)
            return CredentialTokens, (self.credential, self.tenant)
        msg = (
            f"a store with a {type(self.credential).__name__} cannot be sent to another process, for that credential "
            "cannot be pickled: open the store there, or name its kind in the storage option 'credential_type'"
        )
        raise pickle.PicklingError(msg)

    def __call__(self) -> dict[str, Any]:
        """Returns a token."""
        return _token(type(self.credential).__name__, lambda: self.credential, self.tenant)


def is_installed() -> bool:
    """True if azure-identity is there; it is not imported."""
    try:
        return importlib.util.find_spec("azure.identity") is not None
    except ModuleNotFoundError:
        return False


def _token(name: str, credential: Callable[[], TokenCredential], tenant: str | None = None) -> dict[str, Any]:
    """Asks for a token, in obstore's form, or raises `NoTokenError` that names each credential that gave none."""
    try:
        token = credential().get_token(_STORAGE_SCOPE, **({} if tenant is None else {"tenant_id": tenant}))
        value, until = token.token, dt.datetime.fromtimestamp(token.expires_on, dt.UTC)
    except Exception as error:  # noqa: BLE001 - the object is anybody's
        why = _describe(name, error)
    else:
        if isinstance(value, str):
            return {"token": value, "expires_at": until}
        why = f"{name} (gave no token)"
    raise NoTokenError(why)


def _credential(name: str, arguments: Pairs) -> TokenCredential:
    # One at a time, or two clients that ask at once have one each.
    with _making:
        return _make_credential(name, arguments)


_making = threading.Lock()


@lru_cache(maxsize=64)
def _make_credential(name: str, arguments: Pairs) -> TokenCredential:
    import azure.identity

    # It warns of what is raised anyway, and without a handler the warning goes to the user's terminal.
    logging.getLogger("azure.identity").addHandler(logging.NullHandler())
    made: TokenCredential = getattr(azure.identity, name)(**dict(arguments))
    return made


def _describe(name: str, error: Exception) -> str:
    """Returns the names of the credentials that were tried, each with its reason in brackets, in a few words."""
    message = str(error) or type(error).__name__
    reasons = []
    for tried, why in _ATTEMPT.findall(message) or [(name, message)]:
        short = " ".join(_ADVICE.split(why, maxsplit=1)[0].split())
        short = short.removeprefix(f"{tried} ").removeprefix(f"{tried}: ").rstrip(". ")
        reasons.append(f"{tried} ({short if len(short) <= _LONGEST else f'{short[:_LONGEST]}...'})")
    return ", ".join(reasons)


_LONGEST = 160

# The list of the credentials in a chain of azure-identity.
_ATTEMPT = re.compile(r"^\t(\w+): (.*(?:\n(?!\t|To mitigate).*)*)", re.MULTILINE)
_ADVICE = re.compile(r"(?:\n|\s)(?=Visit https?://|See the troubleshooting|To mitigate|Please visit )")
