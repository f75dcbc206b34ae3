"""Changes of a column's type that the table's schema tells of, and whether files from before them can be read.

Type widening lets a column become wider while its older files stay as they are. The schema keeps each change in the
field's `delta.typeChanges`, so that a reader who does not know one of them can tell before it reads a row.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

TYPE_CHANGES = "delta.typeChanges"

_INTEGERS = ("byte", "short", "integer", "long")
# The fewest digits before the point that hold every value of an integer.
_DIGITS = {"byte": 3, "short": 5, "integer": 10, "long": 20}
_DECIMAL = re.compile(r"decimal\(\s*(\d+)\s*,\s*(-?\d+)\s*\)")


@dataclass(frozen=True, slots=True)
class TypeChange:
    """One change of a type.

    Attributes:
        column: The column, with the way to what is inside it.
        before: The type before.
        after: The type after.
    """

    column: str
    before: str
    after: str

    def __str__(self) -> str:
        return f"{self.column} from {self.before} to {self.after}"

    @property
    def is_known(self) -> bool:
        """Whether values of the type before are values of the type after."""
        before, after = self.before, self.after
        if before == after:
            return True
        if before in _INTEGERS and after in _INTEGERS:
            return _INTEGERS.index(before) < _INTEGERS.index(after)
        if after == "double":
            return before in ("float", "byte", "short", "integer")
        if (before, after) == ("date", "timestamp_ntz"):
            return True
        wider = _decimal(after)
        narrower = (_DIGITS[before], 0) if before in _DIGITS else _decimal(before)
        if wider is None or narrower is None:
            return False
        more_digits, more_scale = wider[0] - narrower[0], wider[1] - narrower[1]
        return more_digits >= more_scale >= 0


def type_changes(column: str, metadata: Mapping[str, Any]) -> Iterator[TypeChange]:
    """The changes that a field tells of.

    Args:
        column: The field's name with those above it.
        metadata: What the schema says of the field.

    Raises:
        KeyError: What it says is not what a change looks like; also ValueError, TypeError and AttributeError.
    """
    for change in metadata.get(TYPE_CHANGES) or ():
        inside = change.get("fieldPath")
        name = f"{column}.{inside}" if inside else column
        yield TypeChange(name, _name(change["fromType"]), _name(change["toType"]))


def _name(kind: object) -> str:
    return {"int": "integer", "bigint": "long"}.get(str(kind), str(kind))


def _decimal(kind: str) -> tuple[int, int] | None:
    if kind == "decimal":
        return 10, 0
    found = _DECIMAL.fullmatch(kind)
    return (int(found[1]), int(found[2])) if found else None
