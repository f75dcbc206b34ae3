"""How a cloud is reached: a client's configuration, who it says it is, and what hands it its credentials."""

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
        """Gives credentials in obstore's form, with the time until which they hold."""

    def __hash__(self) -> int: ...


@dataclass(frozen=True, slots=True)
class Identity:
    """Who a client says it is, for the messages of failures.

    Attributes:
        tried: Which credentials are used, and where they come from.
        hint: What to do when they are refused.
    """

    tried: str
    hint: str


NOBODY = Identity("no credentials, for none are needed", "")
"""The identity of a store that asks for none."""


@dataclass(frozen=True, slots=True)
class Access:
    """What a client of a cloud is made from.

    Attributes:
        config: The values by object_store's keys.
        endpoint: The service's address; empty for the cloud's own.
        identity: Who the client says it is.
        provider: What hands it its credentials; None where they are in the configuration, or object_store looks
            for them.
    """

    config: dict[str, str] = field(repr=False)
    endpoint: str
    identity: Identity
    provider: CredentialProvider | None = None


OPTIONS = "from the storage options"
ENVIRONMENT = "from the environment"
