"""HTTP clients: one for each account, container and set of credentials, shared by all stores of the process.

A client owns a connection pool, so a second scan of the same container finds its connections open.
"""

from __future__ import annotations

import os
import threading
from dataclasses import dataclass, field
from functools import cache, lru_cache
from typing import TYPE_CHECKING, Any, TypeAlias

from delta_sidecar.errors import OptionError
from delta_sidecar.store.clouds.azure import AZURE_OPTIONS, azure_access
from delta_sidecar.store.clouds.google import GOOGLE_OPTIONS, google_access
from delta_sidecar.store.clouds.s3 import S3_OPTIONS, s3_access
from delta_sidecar.store.failures import NOBODY, Identity, reason_of
from delta_sidecar.store.options import (
    REQUEST_OPTIONS,
    StorageOption,
    canonical,
    from_environment,
    is_an_identity,
    read_certificate,
    read_count,
    read_duration,
    read_flag,
)
from delta_sidecar.store.redaction import Scrubber

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from datetime import timedelta

    from obstore.store import ObjectStore

    from delta_sidecar.store.address import Address, StoreKind
    from delta_sidecar.store.failures import Access, CredentialProvider


Pairs: TypeAlias = "tuple[tuple[str, Any], ...]"


@dataclass(frozen=True, slots=True)
class ClientSpec:
    """Everything a client is made from. Two stores with equal specs share one client.

    Attributes:
        kind: Which kind of store.
        container: The container, the bucket or the name of the memory store.
        account: What the cap on concurrent requests is for.
        config: The store's configuration, with its credentials.
        client: The HTTP client's options.
        retry: How requests are tried again.
        secrets: The values that must never be shown.
        identity: Who the client says it is.
        provider: What hands the client its credentials, where they are not in the configuration.
    """

    kind: StoreKind
    container: str
    account: str
    config: Pairs = field(default=(), repr=False)
    client: Pairs = field(default=(), repr=False)
    retry: Pairs = field(default=(), repr=False)
    secrets: frozenset[str] = field(default=frozenset(), repr=False)
    identity: Identity = NOBODY
    provider: CredentialProvider | None = field(default=None, repr=False)

    @property
    def scrubber(self) -> Scrubber:
        """What keeps this client's secrets, and those of the environment, out of messages."""
        return Scrubber(self.secrets | environment_secrets(os.environ))


@dataclass(frozen=True, slots=True)
class RequestLimit:
    """How many requests of an account run at the same time, and whether the caller chose it."""

    value: int
    explicit: bool


def client_spec(
    address: Address, options: Mapping[str, str], environment: Mapping[str, str], credential: object = None
) -> tuple[ClientSpec, RequestLimit]:
    """Reads the options for a remote address.

    Raises:
        OptionError: An option is unknown, or has a value that is not valid.
        AuthenticationError: There are no credentials, and nowhere to look for any.
    """
    table = options_of(address.kind)
    call = canonical(options, table)
    variables = from_environment(environment, table)
    requests = {option.key: option for option in REQUEST_OPTIONS}
    values = {
        key: call.get(key) or variables.get(key) or option.default
        for key, option in requests.items()
        if call.get(key) or variables.get(key) or option.default
    }
    limit = RequestLimit(
        read_count("max_concurrent_requests", values.pop("max_concurrent_requests") or "", least=1),
        explicit=bool(call.get("max_concurrent_requests")),
    )
    if address.kind == "memory":
        return ClientSpec("memory", address.container, f"memory://{address.container}"), limit
    access = _access(address, call, variables, credential, filter(is_an_identity, options))
    _check_endpoints(access.config)
    client = {key: _read(requests[key], value) for key, value in values.items() if requests[key].part == "client"}
    if access.endpoint:
        client["allow_http"] = access.endpoint.startswith("http://")
    retry = {key: _read(requests[key], value) for key, value in values.items() if requests[key].part == "retry"}
    secret = {option.key for option in table if option.secret}
    known = (*call.items(), *access.config.items(), *client.items())
    spec = ClientSpec(
        kind=address.kind,
        container=address.container,
        account=access.endpoint
        if address.kind == "azure"
        else f"{address.kind}://{address.container} {access.endpoint}",
        config=_pairs(access.config),
        client=_pairs(client),
        retry=_pairs(retry),
        secrets=frozenset(str(value) for key, value in known if key in secret)
        | (access.provider.secrets if access.provider else frozenset()),
        identity=access.identity,
        provider=access.provider,
    )
    return spec, limit


def client_for(spec: ClientSpec) -> ObjectStore:
    """Gives the client for a spec, which is made on the first call.

    Raises:
        OptionError: The configuration is not valid.
    """
    with _building:
        return _client(spec)


_building = threading.Lock()


@lru_cache(maxsize=64)
def _client(spec: ClientSpec) -> ObjectStore:
    from obstore import exceptions, store

    if spec.kind == "memory":
        return _memory_store(spec.container)
    make: Any = {"azure": store.AzureStore, "s3": store.S3Store, "gs": store.GCSStore}[spec.kind]
    retry = dict(spec.retry)
    try:
        made: ObjectStore = make(
            spec.container,
            config=dict(spec.config),
            client_options=dict(spec.client),
            credential_provider=spec.provider,
            retry_config={
                "max_retries": retry["retry_max_retries"],
                "retry_timeout": retry["retry_timeout"],
                "backoff": {
                    "init_backoff": retry["retry_init_backoff"],
                    "max_backoff": retry["retry_max_backoff"],
                    "base": 2,
                },
            },
        )
    except (exceptions.BaseError, ValueError, TypeError) as error:
        reason = reason_of(error, spec.scrubber)
    else:
        return made
    msg = f"cannot use the storage options for {spec.kind} container {spec.container!r}: {reason}"
    raise OptionError(msg)


@cache
def _memory_store(name: str) -> ObjectStore:  # noqa: ARG001 - the cache's key
    from obstore.store import MemoryStore

    return MemoryStore()


def _access(
    address: Address,
    call: Mapping[str, str],
    variables: Mapping[str, str],
    credential: object,
    unread: Iterable[str],
) -> Access:
    """Gives the way to a cloud, from the options that are not about requests."""
    general = {option.key for option in REQUEST_OPTIONS}
    call, variables = (
        {key: value for key, value in source.items() if key not in general} for source in (call, variables)
    )
    if address.kind == "azure":
        return azure_access(address, call, variables, credential)
    return s3_access(call, variables, unread) if address.kind == "s3" else google_access(call, variables)


def _read(option: StorageOption, value: str | None) -> str | bool | int | timedelta:
    text = value or ""
    if option.type == "flag":
        return read_flag(option.key, text)
    if option.type == "count":
        return read_count(option.key, text)
    if option.type == "duration":
        return read_duration(option.key, text)
    return read_certificate(option.key, text) if option.key in _CERTIFICATES else text


_CERTIFICATES = {"root_certificate", "proxy_ca_certificate"}


def _check_endpoints(config: Mapping[str, str]) -> None:
    """Refuses secrets in addresses of services: those are shown in messages."""
    for key, value in config.items():
        if ("endpoint" in key or key in {"authority_host", "base_url"}) and any(mark in value for mark in "@?#"):
            name = "endpoint" if key == "aws_endpoint_url_s3" else key
            msg = f"the storage option {name!r} must be a plain address, without user, password, query or fragment"
            raise OptionError(msg)


def _pairs(values: Mapping[str, Any]) -> Pairs:
    return tuple(sorted(values.items()))


# Every storage option, once.
#
# An option may be written in lower or upper case, by its key or by any of its other names, in `storage_options`
# or, where a name starts with `azure_`, `aws_`, `google_` or `delta_sidecar_`, as an environment variable in upper
# case. What the call says holds before what the address says, and that before the environment.


__all__ = ["AZURE_OPTIONS", "GOOGLE_OPTIONS", "REQUEST_OPTIONS", "S3_OPTIONS", "environment_secrets", "options_of"]


def options_of(kind: StoreKind) -> tuple[StorageOption, ...]:
    """Gives the options that a kind of store knows. A local table knows those of all, and does nothing with them."""
    clouds = {"azure": AZURE_OPTIONS, "s3": S3_OPTIONS, "gs": GOOGLE_OPTIONS, "memory": ()}
    return (*REQUEST_OPTIONS, *clouds.get(kind, (*AZURE_OPTIONS, *S3_OPTIONS, *GOOGLE_OPTIONS)))


def environment_secrets(environment: Mapping[str, str]) -> frozenset[str]:
    """Gives the secrets that are in environment variables, whoever reads them."""
    ours = (name for option in options_of("local") if option.secret for name in option.environment)
    return frozenset(value for name in (*ours, *_SECRETS_OF_OTHERS) if (value := environment.get(name)))


# Clients look for these by themselves.
_SECRETS_OF_OTHERS = (
    "AWS_CONTAINER_AUTHORIZATION_TOKEN",
    "AWS_TOKEN",
    "AZURE_PASSWORD",
    "IDENTITY_HEADER",
    "MSI_SECRET",
)
