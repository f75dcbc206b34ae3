"""What a storage option is, and how it is found by any of its names."""

from __future__ import annotations

import difflib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from delta_sidecar.errors import OptionError
from delta_sidecar.store.deltalake_options import is_for_deltalake
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
        names: Its other names; those that start with a cloud's name are environment variables too.
        part: What it configures: the access to a cloud, the HTTP client, retries, or the cap on requests.
        type: How its value is read: text, a yes or no, a number, or a length of time.
        secret: Its value must never be shown.
    """

    key: str
    meaning: str
    default: str | None = None
    names: tuple[str, ...] = ()
    part: Literal["access", "client", "retry", "gate"] = "access"
    type: Literal["text", "flag", "count", "duration"] = "text"
    secret: bool = False

    @property
    def environment(self) -> tuple[str, ...]:
        """The environment variables that set it, the first one first."""
        ours = () if self.part == "access" else (f"DELTA_SIDECAR_{self.key.upper()}",)
        return (*ours, *(name.upper() for name in self.names if name.startswith(("azure_", "aws_", "google_"))))


def canonical(given: Mapping[str, str], options: Iterable[StorageOption]) -> dict[str, str]:
    """Sorts the options of a call by their keys; those of deltalake alone are left out.

    Args:
        given: The options as the caller wrote them, in either case.
        options: The options that there are.

    Raises:
        OptionError: A name is unknown, or two names of the same option have different values.
    """
    if not given:
        return {}
    keys = {name: option.key for option in options for name in _names(option)}
    known: dict[str, str] = {}
    for name, value in given.items():
        key = keys.get(name.lower())
        if key is None and is_for_deltalake(name):
            continue
        if key is None:
            raise _unknown(name, keys)
        if known.setdefault(key, _text(value)) != _text(value):
            msg = f"the storage option {key!r} is given twice, with different values; leave {name!r} out"
            raise OptionError(msg)
    return known


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


def names_of(options: Iterable[StorageOption]) -> frozenset[str]:
    """Gives every name that some options can be written by, in lower case."""
    return frozenset(name for option in options for name in _names(option))


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
