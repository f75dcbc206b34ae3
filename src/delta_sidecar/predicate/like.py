r"""Patterns of LIKE: % is any text, _ is one character, \\% \\_ and \\\\ stand for the character itself."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import pyarrow as pa
import pyarrow.compute as pc

from delta_sidecar.errors import PredicateError
from delta_sidecar.predicate.place import refusal

if TYPE_CHECKING:
    from delta_sidecar.predicate.place import Place

_ESCAPE: Final = "\\"
_ANY: Final = "%"
_ONE: Final = "_"


def plain_text(pattern: str) -> str | None:
    """Gives the one text that a pattern without wildcards fits; None if it has wildcards."""
    parts = _parts(pattern)
    return "".join(text for _, text in parts) if all(not wild for wild, _ in parts) else None


def prefix(pattern: str) -> str:
    """Gives what every fitting text begins with: the pattern up to its first wildcard."""
    found: list[str] = []
    for wild, text in _parts(pattern):
        if wild:
            break
        found.append(text)
    return "".join(found)


def checked(pattern: str, place: Place | None, escape: str = _ESCAPE) -> str:
    """Gives a pattern with the backslash as its escape character.

    Raises:
        PredicateError: If the escape character stands before an ordinary character, or last.
    """
    written: list[str] = []
    characters = iter(pattern)
    for character in characters:
        if character == escape:
            following = next(characters, "")
            if following not in {_ANY, _ONE, escape} or not following:
                msg = (
                    f"in the LIKE pattern {pattern!r} the escape character {escape!r} stands before "
                    f"{following!r}; it may stand only before %, _ and itself"
                )
                raise refusal(msg, place)
            written.append(_literal(following))
        elif character in {_ANY, _ONE}:
            written.append(character)
        else:
            written.append(_literal(character))
    return "".join(written)


def fits(texts: pa.Array | pa.ChunkedArray, pattern: str) -> pa.Array | pa.ChunkedArray:
    """Tells, text by text, whether it fits a pattern; null for null."""
    parts = _parts(pattern)
    begins = prefix(pattern)
    if [text for wild, text in parts if wild] == [_ANY] and parts[-1] == (True, _ANY):
        return pc.starts_with(texts, begins)
    regex = "".join(_regex(wild=wild, text=text) for wild, text in parts)
    try:
        return pc.match_substring_regex(texts, rf"(?s)\A{regex}\z")
    except pa.ArrowInvalid as error:
        msg = f"the LIKE pattern is too long to be used: {error}"
        raise PredicateError(msg) from None


def _parts(pattern: str) -> list[tuple[bool, str]]:
    """Takes a checked pattern apart into (is it a wildcard, character)."""
    parts: list[tuple[bool, str]] = []
    characters = iter(pattern)
    for character in characters:
        if character == _ESCAPE:
            parts.append((False, next(characters, _ESCAPE)))
        else:
            parts.append((character in {_ANY, _ONE}, character))
    return parts


def _literal(character: str) -> str:
    return _ESCAPE + character if character in {_ESCAPE, _ANY, _ONE} else character


def _regex(*, wild: bool, text: str) -> str:
    if wild:
        return ".*" if text == _ANY else "."
    if text == "\0":
        return r"\x00"
    return text if text.isalnum() or not text.isascii() else _ESCAPE + text
