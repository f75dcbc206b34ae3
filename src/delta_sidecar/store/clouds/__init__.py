"""One module a cloud: the list of its options, and the way from them to a client's configuration and credentials."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from collections.abc import Mapping


class CredentialProvider(Protocol):
    """Hands a client its credentials, once and again before they expire.

    Providers are values: equal ones share a client, and they pickle with the stores that use them.
    """

    @property
    def secrets(self) -> frozenset[str]:
        """The values in it that must never be shown."""

    def __call__(self) -> Mapping[str, Any]:
        """Returns credentials in obstore's form, with the time until which they hold."""

    def __hash__(self) -> int: ...


@dataclass(frozen=True, slots=True)
class Identity:
    """The identity that a client claims, for the messages of failures."""

    tried: str  # the credentials in use, and where they come from
    hint: str  # what to do when they are refused


NOBODY = Identity("no credentials, for none are needed", "")


@dataclass(frozen=True, slots=True)
class CloudAccess:
    """The way to a cloud: its client's configuration, identity and credentials."""

    config: dict[str, str] = field(repr=False)  # by object_store's keys
    endpoint: str  # empty for the cloud's own
    identity: Identity
    provider: CredentialProvider | None = None  # None: credentials are in `config`, or object_store finds them


OPTIONS = "from the storage options"
ENVIRONMENT = "from the environment"
