"""Predicates bound to a schema: columns by their names, literals in the types of their columns, mistakes by name."""

from __future__ import annotations

import datetime as dt
import math
from decimal import Decimal
from fractions import Fraction
from functools import cached_property
from typing import TYPE_CHECKING

import pyarrow as pa
from msgspec import Struct
from msgspec.structs import replace

from delta_sidecar.predicate import literals, tree
from delta_sidecar.predicate.literals import Kind, Value, is_nan, kind_of, refusal, sql_text
from delta_sidecar.predicate.match import checked, plain_text
from delta_sidecar.predicate.tree import UNKNOWN, And, Column, Comparison, In, IsNull, Like, Or, replace_leaves

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from delta_sidecar.predicate.literals import SourcePlace
    from delta_sidecar.predicate.tree import Leaf, Operator, Predicate


_MOST_SHOWN = 10


def bind(predicate: Predicate, schema: pa.Schema | SchemaFields) -> Predicate:
    """Binds a predicate to a schema.

    A name is looked up as written, then without regard to case, as Delta's names are. A dotted name whose
    first part is no column may also be one top-level name with dots in it.

    Args:
        predicate: Unbound, or bound before.
        schema: The logical schema of the table, or its fields where many predicates are bound to it.

    Raises:
        PredicateError: If a column is not in the schema, is of a type that cannot be compared, or is compared
            with a literal of another kind.
    """
    fields = schema if isinstance(schema, SchemaFields) else SchemaFields(schema)
    return replace_leaves(predicate, lambda leaf: _bound(leaf, fields))


class BoundPredicate(Struct, frozen=True):
    """A predicate bound to a table, in physical names."""

    predicate: Predicate  # what rows must satisfy
    partitions: Mapping[tuple[str, ...], pa.DataType]  # type of each partition column that it names
    statistics: Mapping[
        tuple[str, ...], pa.DataType
    ]  # type of each other column that it names and that may have bounds


class SchemaFields:
    """The fields of a schema or of a struct, by name; those of structs inside are indexed at their first use."""

    def __init__(self, fields: Iterable[pa.Field]) -> None:
        self.all = tuple(fields)
        self._named = self._by(str)
        self._inside: dict[str, SchemaFields] = {}

    def __contains__(self, name: str) -> bool:
        return name in self._named

    def find(self, name: str, column: Column) -> pa.Field | None:
        """Finds the field of a name as written, then without regard to case; None if there is none."""
        for matching in (self._named.get(name, ()), self._folded.get(name.casefold(), ())):
            if len(matching) == 1:
                return matching[0]
            if matching:
                listed = ", ".join(tree.written((field.name,)) for field in matching)
                raise refusal(column.place, f"the name {column} stands for more than one column: {listed}")
        return None

    def inside(self, field: pa.Field, kind: pa.StructType) -> SchemaFields:
        """Gives the fields of a struct among them."""
        if field.name not in self._inside:
            self._inside[field.name] = SchemaFields(kind)
        return self._inside[field.name]

    @cached_property
    def _folded(self) -> dict[str, list[pa.Field]]:
        return self._by(str.casefold)

    def _by(self, key: Callable[[str], str]) -> dict[str, list[pa.Field]]:
        found: dict[str, list[pa.Field]] = {}
        for field in self.all:
            found.setdefault(key(field.name), []).append(field)
        return found


def _bound(leaf: Leaf, schema: SchemaFields) -> Predicate:
    column = _found(leaf.column, schema)
    if isinstance(leaf, IsNull):
        return replace(leaf, column=column)
    _check_comparable(column)
    match leaf:
        case Comparison():
            return comparison(leaf.op, column, leaf.value, leaf.place)
        case In():
            # A list that was bound before, to a column of the same type, may be a long one.
            return leaf if column == leaf.column else membership(column, leaf.values, leaf.place)
        case Like():
            return _bound_like(leaf, column)


def _bound_like(predicate: Like, column: Column) -> Predicate:
    if kind_of(column.type) not in {Kind.STRING, Kind.VOID}:
        raise refusal(predicate.place or column.place, f"column {column} has type {column.type}; LIKE is for strings")
    pattern = checked(predicate.pattern, predicate.place)
    text = plain_text(pattern)
    if text is not None or kind_of(column.type) is Kind.VOID:
        return comparison("=", column, text or "", predicate.place)
    return Like(column, pattern, predicate.place)


def _check_comparable(column: Column) -> None:
    if isinstance(column.type, pa.StructType):
        fields = ", ".join(tree.written((*column.path, field.name)) for field in list(column.type)[:_MOST_SHOWN])
        raise refusal(
            column.place, f"column {column} is a struct: only IS [NOT] NULL is supported on it; name a field: {fields}"
        )
    if kind_of(column.type) in {Kind.NESTED, Kind.OTHER}:
        raise refusal(column.place, f"column {column} has type {column.type}: only IS [NOT] NULL is supported on it")


def _found(column: Column, schema: SchemaFields) -> Column:
    whole = ".".join(column.path)
    if len(column.path) > 1 and whole in schema and column.path[0] not in schema:
        column = replace(column, path=(whole,))
    found = _walked(column, schema)
    if found is None:
        raise refusal(column.place, f"there is no column {column}{_suggestion(column, schema)}")
    return found


def _walked(column: Column, fields: SchemaFields) -> Column | None:
    path: list[str] = []
    match: pa.Field | None = None
    found: pa.DataType | None = None
    for name in column.path:
        if match is not None:
            if not isinstance(found, pa.StructType):
                inside = Column(tuple(path))
                kind = "list or map" if pa.types.is_nested(found) else "column of single values"
                raise refusal(
                    column.place,
                    f"{column} cannot be used: {inside} has type {found}, and a {kind} has no fields to name",
                )
            fields = fields.inside(match, found)
        match = fields.find(name, column)
        if match is None:
            return None
        path.append(match.name)
        found = match.type.value_type if pa.types.is_dictionary(match.type) else match.type
    return Column(tuple(path), found, column.place)


def _suggestion(column: Column, schema: SchemaFields) -> str:
    import difflib

    known = {tree.written(path): tree.written(path).casefold() for path in _paths(schema.all, ())}
    name = str(column).casefold()
    near = difflib.get_close_matches(name, known.values(), n=3)
    # The last name alone may be all that is known of a field of a struct.
    inside = [path for path in known if path.rpartition(".")[2].casefold() == name.rpartition(".")[2]]
    closest = [name for lowered in near for name, own in known.items() if own == lowered]
    suggested = list(dict.fromkeys([*closest, *inside]))[:3]
    if suggested:
        return f"; did you mean {' or '.join(suggested)}?"
    listed = ", ".join(list(known)[:_MOST_SHOWN])
    return f"; the columns are {listed}{', ...' if len(known) > _MOST_SHOWN else ''}" if known else ""


def _paths(fields: Iterable[pa.Field], above: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
    for field in fields:
        path = (*above, field.name)
        yield path
        if isinstance(field.type, pa.StructType):
            yield from _paths(list(field.type), path)


# Literals in the type of the column they are compared with, without a change of meaning.
#
# A literal that the type cannot hold does not fail and is not rounded: the comparison is rewritten to one that
# is true, false and unknown for the same rows (`n < 2.5` to `n <= 2`; `n = 2.5` to what is false unless n is
# null).
#
# - A timestamp without a zone is in UTC; a date beside a timestamp is its midnight in UTC.
# - A string beside a number, date, timestamp or boolean column is read as such a value; beside any other column
#   it is a string. A number beside a string column is an error: it is not clear which order is meant.
# - A number beside a floating column is a double, and so is each value of the column, also of a narrower one: `x = 0.1`
#   finds no 32-bit float, for none of them is that double.


def comparison(op: Operator, column: Column, value: Value, place: SourcePlace | None) -> Predicate:
    """Gives the comparison of a bound column with a literal, brought into the column's type."""
    kind = kind_of(column.type)
    if kind is Kind.VOID:
        return _never(column)
    if kind in literals.STEPPED:
        return _stepped(op, column, _read(value, column, place), place)
    if kind is Kind.FLOATING:
        return _floating(op, column, _read(value, column, place), place)
    if kind is Kind.BOOLEAN and isinstance(value, str) and value.lower() in {"true", "false"}:
        value = value.lower() == "true"
    python_type = {Kind.BOOLEAN: bool, Kind.STRING: str, Kind.BINARY: bytes}.get(kind)
    if python_type is None or not isinstance(value, python_type):
        raise _mismatch(column, value, place)
    return Comparison(op, column, value, place)


def membership(column: Column, values: Iterable[Value], place: SourcePlace | None) -> Predicate:
    """Gives the membership of a bound column in a list of literals."""
    equal = [comparison("=", column, value, place) for value in values]
    members = {each.value for each in equal if isinstance(each, Comparison)}
    if not members:
        return _never(column)
    if len(members) == 1:
        return Comparison("=", column, members.pop(), place)
    # NaN comes last; all the values of one list are of one type.
    return In(column, tuple(sorted(members, key=lambda value: (is_nan(value), value))), place)


def _read(value: Value, column: Column, place: SourcePlace | None) -> Value:
    """Reads a string beside a column that holds no strings."""
    if not isinstance(value, str):
        return value
    kind = kind_of(column.type)
    read = literals.moment(value, place) if kind in {Kind.DATE, Kind.TIMESTAMP} else literals.number(value, place)
    if read is None or (kind is Kind.INTEGER and not isinstance(read, int)):
        raise _mismatch(column, value, place)
    return read


def _stepped(op: Operator, column: Column, value: Value, place: SourcePlace | None) -> Predicate:
    lowest, highest = literals.limits(column.type)
    if isinstance(value, float) and not math.isfinite(value) and kind_of(column.type) in {Kind.INTEGER, Kind.DECIMAL}:
        if math.isnan(value):
            raise _mismatch(column, value, place)
        count = Fraction(highest + 1 if value > 0 else lowest - 1)
    else:
        found = literals.steps(value, column.type)
        if found is None:
            raise _mismatch(column, value, place)
        count = found
    whole = math.floor(count)
    if count != whole:
        # Between two steps: nothing is equal, and both sides of the gap are said by the step below.
        if op in {"=", "!="}:
            return _never(column) if op == "=" else _always(column)
        op = "<=" if op in {"<", "<="} else ">"
    if not lowest <= whole <= highest:
        holds = {"!="} | ({">", ">="} if whole < lowest else {"<", "<="})
        return _always(column) if op in holds else _never(column)
    try:
        return Comparison(op, column, literals.value_at(whole, column.type), place)
    except OverflowError:
        raise refusal(place, f"{sql_text(value)} is outside of the years 1 to 9999 in UTC") from None


def _floating(op: Operator, column: Column, value: Value, place: SourcePlace | None) -> Predicate:
    if isinstance(value, bool) or not isinstance(value, int | Decimal | float):
        raise _mismatch(column, value, place)
    rounded = float(Decimal(value))
    if math.isinf(rounded) and not (isinstance(value, float) and math.isinf(value)):
        # Finite, yet beyond every finite double: only an infinity can lie on its far side.
        if op in {"=", "!="}:
            return _never(column) if op == "=" else _always(column)
        below, above = _BEYOND[rounded > 0]
        op = below if op in {"<", "<="} else above
    return Comparison(op, column, rounded, place)


_BEYOND: dict[bool, tuple[Operator, Operator]] = {True: ("<", ">="), False: ("<=", ">")}


def _never(column: Column) -> Predicate:
    """A condition that is false for every value and unknown for null, as a comparison is."""
    return And((IsNull(column), UNKNOWN))


def _always(column: Column) -> Predicate:
    """A condition that is true for every value and unknown for null, as a comparison is."""
    return Or((IsNull(column, negated=True), UNKNOWN))


def _mismatch(column: Column, value: Value, place: SourcePlace | None) -> Exception:
    shown = sql_text(value)
    problem = (
        f"column {column} has type {column.type} and cannot be compared with {shown}, {literals.kind_in_words(value)}"
    )
    kind = kind_of(column.type)
    if kind is Kind.STRING:
        text = str(value) if not isinstance(value, dt.date | bytes) else shown.partition("'")[2].rstrip("'")
        problem += f"; write it as a string: '{text}'"
    elif kind in _WRITTEN:
        problem += f"; write {_WRITTEN[kind]}"
    return refusal(place, problem)


_WRITTEN = {
    Kind.INTEGER: "a whole number, such as 5",
    Kind.DECIMAL: "a number, such as 2.5",
    Kind.FLOATING: "a number, such as 2.5",
    Kind.BOOLEAN: "TRUE or FALSE",
    Kind.DATE: "a date, such as '2026-02-08'",
    Kind.TIMESTAMP: "a timestamp, such as '2026-02-08 10:00:00'",
    Kind.BINARY: "bytes, such as X'00FF'",
}
