"""Rows that match: `matches`, with SQL's three-valued logic over Arrow columns; and patterns of LIKE.

Floats compare as IEEE says and Arrow does: NaN is equal to nothing, not to itself either, and neither above
nor below anything. Strings compare by their bytes, timestamps as moments.
"""

from __future__ import annotations

from functools import reduce
from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from delta_sidecar import _arrow
from delta_sidecar.errors import PredicateError
from delta_sidecar.predicate import literals, tree
from delta_sidecar.predicate.literals import is_nan, refusal
from delta_sidecar.predicate.tree import Comparison, Constant, In, IsNull, Like, fold

if TYPE_CHECKING:
    from collections.abc import Callable

    from delta_sidecar.predicate.literals import SourcePlace, Value
    from delta_sidecar.predicate.tree import Column, Leaf, Operator, Predicate


_COMPARE: dict[Operator, Callable[[pa.ChunkedArray, pa.Scalar], pa.ChunkedArray]] = {
    "=": pc.equal,
    "!=": pc.not_equal,
    "<": pc.less,
    "<=": pc.less_equal,
    ">": pc.greater,
    ">=": pc.greater_equal,
}


def matches(predicate: Predicate, table: pa.Table | pa.RecordBatch) -> pa.BooleanArray:
    """Gives one boolean per row of a table, without nulls: what is unknown does not match.

    Raises:
        PredicateError: If a column is not there or not of the type that the predicate is bound to.
    """
    rows = _Rows(table)

    def truth(node: Leaf | Constant, negated: bool) -> pa.Array | pa.ChunkedArray:  # noqa: FBT001 - as fold calls it
        return pc.invert(_truth(node, rows)) if negated else _truth(node, rows)

    found = fold(predicate, truth, lambda is_and, terms: reduce(pc.and_kleene if is_and else pc.or_kleene, terms))
    return _arrow.booleans(_arrow.bits_of(found))


def _truth(node: Leaf | Constant, rows: _Rows) -> pa.Array | pa.ChunkedArray:
    match node:
        case Constant(None):
            return pa.nulls(rows.table.num_rows, pa.bool_())
        case Constant(value):
            return _arrow.booleans(np.full(rows.table.num_rows, value))
        case IsNull(column, negated):
            return (pc.is_valid if negated else pc.is_null)(rows.column(column))
        case Comparison(op, column, value):
            return _COMPARE[op](_typed(column, rows), literals.one(value, column.type))
        case In(column, values):
            return _among(_typed(column, rows), values, column.type)
        case Like(column, pattern):
            return fits(_typed(column, rows), pattern)


def _among(data: pa.Array | pa.ChunkedArray, values: tuple[Value, ...], type_: pa.DataType) -> pa.Array:
    members = [value for value in values if not is_nan(value)]
    if pa.types.is_floating(type_) and 0.0 in members:
        # Arrow looks a member up by its bits, and both zeros are equal.
        members += [0.0, -0.0]
    found = pc.is_in(data, value_set=literals.of(members, type_))
    return pc.if_else(pc.is_valid(data), found, _arrow.scalar(None, pa.bool_()))


def _typed(column: Column, rows: _Rows) -> pa.Array | pa.ChunkedArray:
    if column.type is None:
        msg = f"the predicate on {column} has to be bound to a schema first"
        raise PredicateError(msg)
    data = rows.column(column)
    plain = literals.plain_type(column.type)
    if data.type == plain:
        return data
    try:
        return data.cast(plain)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        msg = f"column {column} has type {data.type}, and the predicate is bound to {column.type}: {error}"
        raise PredicateError(msg) from None


class _Rows:
    """Rows by their columns. The nulls of a struct are computed once, however many of its fields are needed."""

    def __init__(self, table: pa.Table | pa.RecordBatch) -> None:
        self.table = table
        self._structs: dict[tuple[str, ...], tuple[pa.StructArray, pa.BooleanArray | None]] = {}

    def column(self, column: Column) -> pa.Array | pa.ChunkedArray:
        """Gives the values of a column; those in a struct that is null are null."""
        *above, name = column.path
        if not above:
            return self.table.column(_position(name, self.table.schema, column))
        struct, absent = self._struct(tuple(above), column)
        at = _position(name, struct.type, column)
        if isinstance(struct, pa.ChunkedArray):
            return pc.struct_field(struct, [at])
        values = struct.field(at)
        # Flattening lays the nulls of a struct over its fields, of any type and without a copy.
        return values if absent is None else pa.StructArray.from_arrays([values], [name], mask=absent).flatten()[0]

    def _struct(self, path: tuple[str, ...], column: Column) -> tuple[pa.StructArray, pa.BooleanArray | None]:
        if path in self._structs:
            return self._structs[path]
        *above, name = path
        absent: pa.BooleanArray | None = None
        if above:
            outer, absent = self._struct(tuple(above), column)
            at = _position(name, outer.type, column)
            found = pc.struct_field(outer, [at]) if isinstance(outer, pa.ChunkedArray) else outer.field(at)
        else:
            found = self.table.column(_position(name, self.table.schema, column))
        if not isinstance(found.type, pa.StructType):
            msg = f"column {column} is not in the data: {found.type} has no fields"
            raise PredicateError(msg)
        if isinstance(found, pa.Array) and found.null_count:
            absent = found.is_null() if absent is None else pc.or_(absent, found.is_null())
        self._structs[path] = found, absent
        return found, absent


def _position(name: str, among: pa.Schema | pa.StructType, column: Column) -> int:
    matching = among.get_all_field_indices(name)
    if len(matching) != 1:
        fields = [field.name for field in among]
        matching = [i for i, other in enumerate(fields) if other.casefold() == name.casefold()]
    if len(matching) == 1:
        return int(matching[0])
    listed = ", ".join(tree.written((other,)) for other in fields[:10])
    msg = f"column {column} is not in the data, or more than once; it has {listed}"
    raise PredicateError(msg)


# Patterns of LIKE: % is any text, _ is one character, \\% \\_ and \\\\ stand for the character itself.


_ESCAPE: Final = "\\"
_ANY: Final = "%"
_ONE: Final = "_"


def plain_text(pattern: str) -> str | None:
    """Gives the one text that a pattern without wildcards fits; None if it has wildcards."""
    parts = _parts(pattern)
    return "".join(text for _, text in parts) if all(not wild for wild, _ in parts) else None


def prefix(pattern: str) -> str:
    """Gives the beginning of every fitting text: the pattern up to its first wildcard."""
    found: list[str] = []
    for wild, text in _parts(pattern):
        if wild:
            break
        found.append(text)
    return "".join(found)


def checked(pattern: str, place: SourcePlace | None, escape: str = _ESCAPE) -> str:
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
