"""HTTP clients: one for each account, container and set of credentials, shared by all stores of the process.

A client owns a connection pool, so a second scan of the same container finds its connections open.
"""

from __future__ import annotations

import os
import threading
from dataclasses import dataclass, field
from functools import cache, lru_cache
from typing import TYPE_CHECKING, Any

from delta_sidecar.errors import OptionError
from delta_sidecar.store.clouds import NOBODY, Identity, Pairs, pairs
from delta_sidecar.store.clouds.azure import AZURE_OPTIONS, azure_access
from delta_sidecar.store.clouds.google import GOOGLE_OPTIONS, google_access
from delta_sidecar.store.clouds.s3 import S3_OPTIONS, s3_access
from delta_sidecar.store.failures import reason_of
from delta_sidecar.store.options import (
    REQUEST_OPTIONS,
    StorageOption,
    canonical,
    from_environment,
    is_identity_of_deltalake,
    read_count,
)
from delta_sidecar.store.redaction import Scrubber

if TYPE_CHECKING:
    from collections.abc import Mapping

    from obstore.store import ObjectStore

    from delta_sidecar.store.address import Address, StoreKind
    from delta_sidecar.store.clouds import CredentialProvider

__all__ = ["AZURE_OPTIONS", "GOOGLE_OPTIONS", "REQUEST_OPTIONS", "S3_OPTIONS", "environment_secrets", "options_of"]


@dataclass(frozen=True, slots=True)
class ClientSpec:
    """Everything a client is made from. Two stores with equal specs share one client."""

    kind: StoreKind
    container: str  # or the bucket, or the name of the memory store
    account: str  # has one cap on concurrent requests
    limit: int = field(compare=False)  # that cap
    is_limit_explicit: bool = field(compare=False)  # True where the call names it
    config: Pairs = field(default=(), repr=False)  # of the store, with its credentials
    client: Pairs = field(default=(), repr=False)  # options of the HTTP client and its retries
    secrets: frozenset[str] = field(default=frozenset(), repr=False)  # must never be shown
    identity: Identity = NOBODY
    provider: CredentialProvider | None = field(default=None, repr=False)

    @property
    def scrubber(self) -> Scrubber:
        """Keeps this client's secrets, and those of the environment, out of messages."""
        return Scrubber(self.secrets | environment_secrets(os.environ))


def client_spec(
    address: Address, options: Mapping[str, str], environment: Mapping[str, str], credential: object = None
) -> ClientSpec:
    """Reads the options for a remote address.

    Raises:
        OptionError: An option is unknown, or has a value that is not valid.
        AuthenticationError: There are no credentials, and nowhere to look for any.
    """
    known = options_of(address.kind)
    call, variables = canonical(options, known), from_environment(environment, known)
    defaults = {option.key: option.default for option in REQUEST_OPTIONS if option.default}
    texts = defaults | variables | call
    limit = read_count("max_concurrent_requests", texts["max_concurrent_requests"], least=1)
    is_limit_explicit = "max_concurrent_requests" in call
    if address.kind == "memory":
        return ClientSpec("memory", address.container, f"memory://{address.container}", limit, is_limit_explicit)
    if address.kind == "azure":
        access = azure_access(address, call, variables, credential)
        account = access.endpoint
    else:
        unread = filter(is_identity_of_deltalake, options)
        access = s3_access(call, variables, unread) if address.kind == "s3" else google_access(call, variables)
        account = f"{address.kind}://{address.container} {access.endpoint}"
    _check_endpoints(access.config)
    requests = {option.key: option.read(texts[option.key]) for option in REQUEST_OPTIONS if option.key in texts}
    del requests["max_concurrent_requests"]
    if access.endpoint:
        requests["allow_http"] = access.endpoint.startswith("http://")
    secret = {option.key for option in known if option.secret}
    values = (*call.items(), *access.config.items(), *requests.items())
    return ClientSpec(
        address.kind,
        address.container,
        account,
        limit,
        is_limit_explicit,
        config=pairs(access.config),
        client=pairs(requests),
        secrets=access.secrets | {str(value) for key, value in values if key in secret},
        identity=access.identity,
        provider=access.provider,
    )


def client_for(spec: ClientSpec) -> ObjectStore:
    """Returns the client for a spec, which is made on the first call."""
    with _building:
        return _client(spec)


def options_of(kind: StoreKind) -> tuple[StorageOption, ...]:
    """Returns the options that a kind of store knows. A local table knows those of all, and ignores them."""
    clouds = {"azure": AZURE_OPTIONS, "s3": S3_OPTIONS, "gs": GOOGLE_OPTIONS, "memory": ()}
    return (*REQUEST_OPTIONS, *clouds.get(kind, (*AZURE_OPTIONS, *S3_OPTIONS, *GOOGLE_OPTIONS)))


def environment_secrets(environment: Mapping[str, str]) -> frozenset[str]:
    """Returns the secrets that are in environment variables, those that clients look for by themselves included."""
    ours = (name for option in options_of("local") if option.secret for name in option.environment)
    return frozenset(value for name in (*ours, *_SECRETS_OF_CLIENTS) if (value := environment.get(name)))


_SECRETS_OF_CLIENTS = (
    "AWS_CONTAINER_AUTHORIZATION_TOKEN",
    "AWS_TOKEN",
    "AZURE_PASSWORD",
    "IDENTITY_HEADER",
    "MSI_SECRET",
)

_building = threading.Lock()


@lru_cache(maxsize=64)
def _client(spec: ClientSpec) -> ObjectStore:
    from obstore import exceptions, store

    if spec.kind == "memory":
        return _memory_store(spec.container)
    make: Any = {"azure": store.AzureStore, "s3": store.S3Store, "gs": store.GCSStore}[spec.kind]
    client: dict[str, Any] = dict(spec.client)
    retry = {key: client.pop(f"retry_{key}") for key in ("max_retries", "timeout", "init_backoff", "max_backoff")}
    try:
        made: ObjectStore = make(
            spec.container,
            config=dict(spec.config),
            client_options=client,
            credential_provider=spec.provider,
            retry_config={
                "max_retries": retry["max_retries"],
                "retry_timeout": retry["timeout"],
                "backoff": {"init_backoff": retry["init_backoff"], "max_backoff": retry["max_backoff"], "base": 2},
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


def _check_endpoints(config: Mapping[str, str]) -> None:
    """Refuses secrets in addresses of services: those are shown in messages."""
    for key, value in config.items():
        if ("endpoint" in key or key in {"authority_host", "base_url"}) and any(mark in value for mark in "@?#"):
            name = "endpoint" if key == "aws_endpoint_url_s3" else key
            msg = f"the storage option {name!r} must be a plain address, without user, password, query or fragment"
            raise OptionError(msg)
