"""One module a cloud: the list of its options, and the way from them to a client's configuration and credentials."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping


CredentialProvider: TypeAlias = "Callable[[], Mapping[str, Any]]"
"""Returns credentials in obstore's form, with the time until which they hold; called again before they expire.

Providers are values: equal ones share a client, and they pickle with the stores that use them.
"""


Pairs: TypeAlias = "tuple[tuple[str, Any], ...]"
"""Values by name, in a form that has a hash."""


def pairs(values: Mapping[str, Any]) -> Pairs:
    """Returns values by name as pairs, without those that are None."""
    return tuple(sorted((name, value) for name, value in values.items() if value is not None))


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
    secrets: frozenset[str] = field(default=frozenset(), repr=False)  # of the provider


OPTIONS = "from the storage options"
ENVIRONMENT = "from the environment"
