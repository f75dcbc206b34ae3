"""Every storage option, once.

An option may be written in lower or upper case, by its key or by any of its other names, in `storage_options`
or, where a name below starts with `azure_` or `delta_sidecar_`, as an environment variable in upper case.
What the call says holds before what the address says, and that before the environment.
"""

from __future__ import annotations

import difflib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from delta_sidecar.errors import OptionError
from delta_sidecar.store.redaction import HIDDEN, redact_name

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping


@dataclass(frozen=True, slots=True)
class StorageOption:
    """One storage option.

    Attributes:
        key: Its name.
        meaning: What it does.
        default: What holds when nobody says anything; None for nothing.
        names: Its other names; those that start with `azure_` are environment variables too.
        part: What it configures: Azure's account, the HTTP client, retries, or the cap on requests.
        type: How its value is read: text, a yes or no, a number, or a length of time.
        secret: Its value must never be shown.
    """

    key: str
    meaning: str
    default: str | None = None
    names: tuple[str, ...] = ()
    part: Literal["azure", "client", "retry", "gate"] = "azure"
    type: Literal["text", "flag", "count", "duration"] = "text"
    secret: bool = False

    @property
    def environment(self) -> tuple[str, ...]:
        """The environment variables that set it, the first one first."""
        if self.part != "azure":
            return (f"DELTA_SIDECAR_{self.key.upper()}",)
        return tuple(name.upper() for name in self.names if name.startswith("azure_"))


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
        "Which of several credentials to use.",
        default="the most explicit one",
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
        "encryption_key",
        "A customer-provided encryption key, base64.",
        names=("azure_encryption_key",),
        secret=True,
    ),
)
"""The options of Azure stores."""

REQUEST_OPTIONS: tuple[StorageOption, ...] = (
    StorageOption(
        "max_concurrent_requests",
        "How many requests run at the same time, per account and over all scans of the process.",
        default="64",
        part="gate",
        type="count",
    ),
    StorageOption(
        "retry_max_retries",
        "How often a failed request is tried again (5xx, dropped connections, timeouts).",
        default="5",
        names=("max_retries",),
        part="retry",
        type="count",
    ),
    StorageOption(
        "retry_timeout",
        "After which time a request is not tried again.",
        default="45s",
        part="retry",
        type="duration",
    ),
    StorageOption(
        "retry_init_backoff",
        "The pause before the first retry; it doubles from there on.",
        default="100ms",
        part="retry",
        type="duration",
    ),
    StorageOption(
        "retry_max_backoff",
        "The longest pause between retries.",
        default="5s",
        part="retry",
        type="duration",
    ),
    StorageOption(
        "timeout",
        "How long one try may take, its body included.",
        default="60s",
        part="client",
        type="duration",
    ),
    StorageOption(
        "connect_timeout",
        "How long connecting may take.",
        default="5s",
        part="client",
        type="duration",
    ),
    StorageOption(
        "read_timeout",
        "How long an answer may stall.",
        default="20s",
        part="client",
        type="duration",
    ),
    StorageOption(
        "pool_idle_timeout",
        "How long an unused connection is kept.",
        default="60s",
        part="client",
        type="duration",
    ),
    StorageOption("proxy_url", "The HTTP proxy.", part="client", secret=True),
    StorageOption("proxy_excludes", "Hosts that are reached without the proxy.", part="client"),
    StorageOption("root_certificate", "A root certificate to trust, as PEM text.", part="client"),
    StorageOption(
        "allow_invalid_certificates",
        "Trust any certificate; for tests alone.",
        part="client",
        type="flag",
    ),
    StorageOption(
        "allow_http",
        "Allow http:// for s3 and gs; for Azure the endpoint says it.",
        part="client",
        type="flag",
    ),
    StorageOption("user_agent", "The User-Agent header.", part="client"),
)
"""The options of every remote store."""


def canonical(
    given: Mapping[str, str],
    options: Iterable[StorageOption],
    *,
    strict: bool = True,
) -> tuple[dict[str, str], dict[str, str]]:
    """Sorts the options of a call by their keys.

    Args:
        given: The options as the caller wrote them, in either case.
        options: The options that there are.
        strict: Refuse unknown names; what looks like a secret and not like a name is refused in any case.

    Returns:
        The values by key, and those of unknown names by their lower-case names.

    Raises:
        OptionError: A name is unknown, or two names of the same option have different values.
    """
    if not given:
        return {}, {}
    keys = {name: option.key for option in options for name in _names(option)}
    known: dict[str, str] = {}
    other: dict[str, str] = {}
    for name, value in given.items():
        key = keys.get(name.lower())
        if key is None:
            if strict or redact_name(name) == HIDDEN:
                raise _unknown(name, keys)
            other[name.lower()] = _text(value)
            continue
        if known.setdefault(key, _text(value)) != _text(value):
            msg = f"the storage option {key!r} is given twice, with different values; leave {name!r} out"
            raise OptionError(msg)
    return known, other


def from_environment(environment: Mapping[str, str], options: Iterable[StorageOption]) -> dict[str, str]:
    """Gives the options that environment variables set, by key. An empty variable counts as unset."""
    found: dict[str, str] = {}
    for option in options:
        for name in option.environment:
            value = environment.get(name)
            if value:
                found[option.key] = value
                break
    return found


def _names(option: StorageOption) -> tuple[str, ...]:
    return (option.key, *option.names, *(name.lower() for name in option.environment))


def _text(value: object) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value)


def _unknown(name: str, keys: Mapping[str, str]) -> OptionError:
    shown = redact_name(name)
    if shown == HIDDEN:
        return OptionError("unknown storage option, whose name is not shown: it looks like a secret, not like a name")
    nearest = difflib.get_close_matches(name.lower(), keys, n=1, cutoff=0.6)
    hint = f"; did you mean {nearest[0]!r}?" if nearest else f"; known are {', '.join(sorted(set(keys.values())))}"
    return OptionError(f"unknown storage option {shown!r}{hint}")
