"""HTTP clients: one for each account, container and set of credentials, shared by all stores of the process.

A client owns a connection pool, so a second scan of the same container finds its connections open. Its failures become
this library's errors here.
"""

from __future__ import annotations

import os
import re
import threading
from dataclasses import dataclass, field
from functools import cache, lru_cache
from typing import TYPE_CHECKING, Any

from delta_sidecar.errors import (
    AuthenticationError,
    ObjectExistsError,
    ObjectNotFoundError,
    ObjectTruncatedError,
    OptionError,
    StorageError,
)
from delta_sidecar.store.clouds import NOBODY, Identity, Pairs, pairs
from delta_sidecar.store.clouds.azure import AZURE_OPTIONS, azure_access
from delta_sidecar.store.clouds.google import GOOGLE_OPTIONS, google_access
from delta_sidecar.store.clouds.s3 import S3_OPTIONS, s3_access
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
        reason = _reason(error, spec.scrubber)
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


# Failures of clients as this library's errors, without secrets.


def explain(error: Exception, what: str, scrubber: Scrubber, identity: Identity) -> StorageError:
    """Returns the error to raise for a client's error, about a request that is named by "cannot read ...".

    Raise it outside of the `except` block: the client's own error, with its unscrubbed text, is then not
    chained.
    """
    name = type(error).__name__
    tried = scrubber.scrub(identity.tried)
    if no_token := _NO_TOKEN.search(_own_text(error)):
        why = scrubber.scrub(" ".join(no_token[1].split()))
        return AuthenticationError(f"{what}: there is no token for it. Tried: {tried}: {why}. {identity.hint}")
    reason = _reason(error, scrubber)
    if isinstance(error, FileNotFoundError):
        missing = "its container does not exist" if "ContainerNotFound" in str(error) else "it does not exist"
        return ObjectNotFoundError(f"{what}: {missing}")
    if name == "AlreadyExistsError":
        return ObjectExistsError(f"{what}: it is already there")
    refused = name in {"UnauthenticatedError", "PermissionDeniedError"} or _REFUSED.search(str(error))
    if refused or _NO_CREDENTIALS.search(str(error)):
        problem = "the store refused the credentials" if refused else "there are no credentials for it"
        return AuthenticationError(f"{what}: {problem} ({reason}). Tried: {tried}. {identity.hint}")
    if _BEYOND.search(reason):
        return ObjectTruncatedError(f"{what}: the object is shorter than the range asked for")
    if distrusted := _DISTRUSTED.search(str(error)):
        reason = f"{reason}. The certificate of the service is not trusted ({distrusted[1]}); {_TRUST}"
    return StorageError(f"{what}: {reason}.")


def is_interrupt(error: Exception) -> bool:
    """True if a client's error is a Ctrl-C that came while a credential was asked for its token."""
    return _INTERRUPT in _own_text(error)


def _reason(error: Exception, scrubber: Scrubber) -> str:
    """Returns a client's error text in one short line without secrets."""
    text = _own_text(error)
    answer = re.search(r"<Code>(\w+)</Code>\s*<Message>([^\n<]*)", text)
    if answer:
        text = f"{text.split('<?xml', 1)[0].split('<Error', 1)[0].rstrip(': ')}: {answer[1]}: {answer[2]}"
    text = scrubber.scrub(" ".join(text.split())).rstrip(".")
    return text if len(text) <= _LONGEST_REASON else f"{text[:_LONGEST_REASON]}..."


_LONGEST_REASON = 400

_TRUST = "the storage option 'root_certificate' names the certificates of a company or an emulator"

# The answer of services, and the error of obstore's memory store.
_BEYOND = re.compile(r"status code: 416\b|Wanted range starting at")

# S3 answers 400 to what is wrong with a signature or its token.
_REFUSED = re.compile(
    r"(?i)code: 40[13]\b|invalid_client|invalid_grant"
    r"|<Code>(?:ExpiredToken|InvalidToken|TokenRefreshRequired|AuthorizationHeaderMalformed)</Code>"
)

# Failures on the way to a token or a key come as general ones.
_NO_CREDENTIALS = re.compile(
    r"(?i)token request|azure cli|federated token file|/latest/(?:api/token|meta-data)|AssumeRoleWithWebIdentity"
    r"|computeMetadata|service account file|web identity|POST REDACTED"
)

# The error of a provider of tokens.
_NO_TOKEN = re.compile(r"(?s)External \w+ credential provider: \w+: (.*)")

_INTERRUPT = "credential provider: KeyboardInterrupt"

_DISTRUSTED = re.compile(r"InvalidCertificate\(\s*(\w+)")


def _own_text(error: Exception) -> str:
    """Returns a client's error text without the description of its insides."""
    return str(error).split("\n\nDebug source:", 1)[0]
