"""Rows that match: `matches`, with SQL's three-valued logic over Arrow columns; and patterns of LIKE.

Floats compare as IEEE says and Arrow does: NaN is equal to nothing, not to itself either, and neither above
nor below anything. Strings compare by their bytes, timestamps as moments.
"""

from __future__ import annotations

import re
from functools import reduce
from typing import TYPE_CHECKING, Final

import pyarrow as pa
import pyarrow.compute as pc

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

    def truth(node: Leaf | Constant, negated: bool) -> pa.Array | pa.ChunkedArray:  # noqa: FBT001 - as fold calls it
        return pc.invert(_truth(node, table)) if negated else _truth(node, table)

    found = fold(predicate, truth, lambda is_and, terms: reduce(pc.and_kleene if is_and else pc.or_kleene, terms))
    known = pc.fill_null(found, literals.one(value=False, type=pa.bool_()))
    return known.combine_chunks() if isinstance(known, pa.ChunkedArray) else known


def _truth(node: Leaf | Constant, table: pa.Table | pa.RecordBatch) -> pa.Array | pa.ChunkedArray:
    match node:
        case Constant(value):
            unknown = pa.nulls(table.num_rows, pa.bool_())
            return unknown if value is None else pc.fill_null(unknown, literals.one(value, pa.bool_()))
        case IsNull(column, negated):
            return (pc.is_valid if negated else pc.is_null)(_values(column, table))
        case Comparison(op, column, value):
            return _COMPARE[op](_typed(column, table), literals.one(value, column.type))
        case In(column, values):
            return _among(_typed(column, table), values, column.type)
        case Like(column, pattern):
            return fits(_typed(column, table), pattern)


def _among(data: pa.Array | pa.ChunkedArray, values: tuple[Value, ...], type_: pa.DataType) -> pa.Array:
    members = [value for value in values if not is_nan(value)]
    if pa.types.is_floating(type_) and 0.0 in members:
        # Arrow looks a member up by its bits, and both zeros are equal.
        members += [0.0, -0.0]
    found = pc.is_in(data, value_set=literals.of(members, type_))
    return pc.if_else(pc.is_valid(data), found, pa.nulls(1, pa.bool_())[0])


def _typed(column: Column, table: pa.Table | pa.RecordBatch) -> pa.Array | pa.ChunkedArray:
    if column.type is None:
        msg = f"the predicate on {column} has to be bound to a schema first"
        raise PredicateError(msg)
    data = _values(column, table)
    plain = literals.plain_type(column.type)
    if data.type == plain:
        return data
    try:
        return data.cast(plain)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        msg = f"column {column} has type {data.type}, and the predicate is bound to {column.type}: {error}"
        raise PredicateError(msg) from None


def _values(column: Column, table: pa.Table | pa.RecordBatch) -> pa.Array | pa.ChunkedArray:
    """Gives the values of a column; those in a struct that is null are null."""
    first, *inner = column.path
    found = table.column(_position(first, table.schema, column))
    for name in inner:
        if not isinstance(found.type, pa.StructType):
            msg = f"column {column} is not in the data: {found.type} has no fields"
            raise PredicateError(msg)
        found = pc.struct_field(found, [_position(name, found.type, column)])
    return found


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


_PREFIX: Final = re.compile(r"(?:\\.|[^\\%_])*", re.DOTALL)


def plain_text(pattern: str) -> str | None:
    """Gives the one text that a pattern without wildcards fits; None if it has wildcards."""
    return prefix(pattern) if _PREFIX.fullmatch(pattern) else None


def prefix(pattern: str) -> str:
    """Gives the beginning of every fitting text: the pattern up to its first wildcard."""
    found = _PREFIX.match(pattern)
    return re.sub(r"\\(.)", r"\1", found[0] if found else "", flags=re.DOTALL)


def checked(pattern: str, place: SourcePlace | None, escape: str = "\\") -> str:
    """Gives a pattern with the backslash as its escape character.

    Raises:
        PredicateError: If the escape character stands before an ordinary character, or last.
    """

    def written(found: re.Match[str]) -> str:
        character, following = found[0], found[1]
        if following is not None and following not in {"%", "_", escape}:
            raise refusal(
                place,
                f"in the LIKE pattern {pattern!r} the escape character {escape!r} stands before "
                f"{following!r}; it may stand only before %, _ and itself",
            )
        if character in {"%", "_"}:
            return character
        literal = character if following is None else following
        return "\\" + literal if literal in {"\\", "%", "_"} else literal

    return re.sub(rf"{re.escape(escape)}(.?)|.", written, pattern, flags=re.DOTALL)


def fits(texts: pa.Array | pa.ChunkedArray, pattern: str) -> pa.Array | pa.ChunkedArray:
    """Tells, text by text, whether it fits a pattern; null for null."""
    try:
        if "\\" not in pattern:
            return pc.match_like(texts, pattern)
        # Arrow misreads some escaped backslashes.
        regex = re.sub(r"\\(.)|.", _regex, pattern, flags=re.DOTALL)
        return pc.match_substring_regex(texts, rf"(?s)\A{regex}\z")
    except pa.ArrowInvalid as error:
        msg = f"the LIKE pattern is too long to be used: {error}"
        raise PredicateError(msg) from None


def _regex(part: re.Match[str]) -> str:
    return {"%": ".*", "_": "."}.get(part[0], re.escape(part[1] or part[0]))
