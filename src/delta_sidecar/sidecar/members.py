"""Members of a manifest's objects, each of the type that it must have.

Every function raises `SidecarError` where it is not.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from delta_sidecar._digest import DIGEST_LENGTH
from delta_sidecar.sidecar.canonical import refuse
from delta_sidecar.sidecar.groups import LARGEST

if TYPE_CHECKING:
    from collections.abc import Mapping

    from delta_sidecar.sidecar.names import ColumnPath


def whole(document: Mapping[str, Any], name: str) -> int:
    """A member that is a whole number, from 0 to the largest of 64 bits."""
    value = document.get(name)
    if type(value) is not int or not 0 <= value <= LARGEST:
        refuse(f"has no whole number in range as {name}")
    return value


def text(document: Mapping[str, Any], name: str) -> str:
    """A member that is a text."""
    value = document.get(name)
    if type(value) is not str:
        refuse(f"has no text as {name}")
    return value


def array(document: Mapping[str, Any], name: str) -> list[Any]:
    """A member that is a list."""
    value = document.get(name)
    if type(value) is not list:
        refuse(f"has no list as {name}")
    return value


def mapping(document: Mapping[str, Any], name: str) -> dict[str, Any]:
    """A member that is an object."""
    value = document.get(name)
    if type(value) is not dict:
        refuse(f"has no object as {name}")
    return value


def digest(document: Mapping[str, Any], name: str) -> str:
    """A member that is a digest."""
    value = text(document, name)
    if len(value) != DIGEST_LENGTH:
        refuse(f"has no digest as {name}")
    return value


def path(value: object) -> ColumnPath:
    """A path of names out of a JSON value."""
    if type(value) is not list or not value or any(type(part) is not str for part in value):
        refuse("has a column that is no list of names")
    return tuple(value)
