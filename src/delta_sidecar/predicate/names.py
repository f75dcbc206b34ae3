"""Column names as they are written: `a.b` is field b of struct a, `` `a.b` `` is one name with a dot."""

from __future__ import annotations

import re

_BARE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\Z")
_PART = re.compile(r"`((?:[^`]|``)+)`|([^`.]+)")

# Words that a SQL parser reads as something else than a name in at least one place.
_RESERVED = frozenset(
    (  # noqa: SIM905 - a page of words, not of quotes
        "alter and any array as between call case connect_by_root create cross current_catalog "
        "current_date current_time current_timestamp current_user describe distinct drop else except "
        "execute explain false fetch for from glob grant having if ilike in inner insert intersect "
        "interval into is isnull join lateral like list localtime localtimestamp map not notnull null "
        "nullable object on optimize or outer partitioned_by prepare qualify range regexp rename "
        "returning revoke rlike rollback select session_user show straight_join struct table tablesample "
        "then true uncache union using vacuum values when where with xor "
    ).split()
)


def written(path: tuple[str, ...]) -> str:
    """Writes a path so that every notation reads it back as the same path."""
    return ".".join(_quoted(part) for part in path)


def read(name: str) -> tuple[str, ...]:
    """Reads a name of a DNF filter or a JSON predicate.

    Dots part the fields of a struct and back-quotes keep a name together. A text that does not read as that
    is one name, whole.
    """
    parts: list[str] = []
    position = 0
    while match := _PART.match(name, position):
        quoted, bare = match.groups()
        parts.append(quoted.replace("``", "`") if quoted is not None else bare)
        position = match.end()
        if position == len(name):
            return tuple(parts)
        if name[position] != ".":
            break
        position += 1
    return (name,)


def is_reserved(word: str) -> bool:
    """Whether a word has to be put in back-quotes to be a name in SQL."""
    return word.lower() in _RESERVED


def _quoted(part: str) -> str:
    if _BARE.match(part) and not is_reserved(part):
        return part
    return "`" + part.replace("`", "``") + "`"
