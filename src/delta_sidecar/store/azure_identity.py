"""Credentials of azure-identity, by name: the extra `azure`."""

from __future__ import annotations

import importlib.util
import logging
import threading
from dataclasses import dataclass, field
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from delta_sidecar.errors import to_install
from delta_sidecar.store.tokens import NoTokenError, TokenCredential, ask_for_token, describe_failure

if TYPE_CHECKING:
    from collections.abc import Mapping

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
