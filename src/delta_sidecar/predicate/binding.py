"""A predicate bound to a schema: its names found, its literals typed, its mistakes named."""

from __future__ import annotations

import difflib
from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING

import pyarrow as pa

from delta_sidecar.predicate import coercion, like, names
from delta_sidecar.predicate.domain import Kind, kind_of
from delta_sidecar.predicate.expression import And, Column, Comparison, In, IsNull, Like, Not, Or, Predicate
from delta_sidecar.predicate.place import refusal

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

_MOST_SHOWN = 10


def bind(predicate: Predicate, schema: pa.Schema | SchemaFields) -> Predicate:
    """Binds a predicate to a schema.

    A name is looked up as written, then without regard to case, as Delta's names are. A dotted name whose
    first part is no column may also be one top-level name with dots in it.

    Args:
        predicate: As `parse` gives it; a bound one may be bound again.
        schema: The logical schema of the table, or its fields where many predicates are bound to it.

    Raises:
        PredicateError: If a column is not in the schema, is of a type that cannot be compared, or is compared
            with a literal of another kind.
    """
    return _bound(predicate, schema if isinstance(schema, SchemaFields) else SchemaFields(schema))


class SchemaFields:
    """The fields of a schema or of a struct, by name; what is inside of one is looked through when it is asked for."""

    def __init__(self, fields: Iterable[pa.Field]) -> None:
        self.all = tuple(fields)
        self._named = self._by(str)
        self._inside: dict[str, SchemaFields] = {}

    def __contains__(self, name: str) -> bool:
        return name in self._named

    def find(self, name: str, column: Column) -> pa.Field | None:
        """The field of a name as written, then without regard to case; None where there is none."""
        for matching in (self._named.get(name, ()), self._folded.get(name.casefold(), ())):
            if len(matching) == 1:
                return matching[0]
            if matching:
                listed = ", ".join(names.written((field.name,)) for field in matching)
                msg = f"the name {column} stands for more than one column: {listed}"
                raise refusal(msg, column.place)
        return None

    def inside(self, field: pa.Field, kind: pa.StructType) -> SchemaFields:
        """The fields of a struct among them."""
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


def _bound(predicate: Predicate, schema: SchemaFields) -> Predicate:
    if isinstance(predicate, And):
        return And(tuple(_bound(term, schema) for term in predicate.terms))
    if isinstance(predicate, Or):
        return Or(tuple(_bound(term, schema) for term in predicate.terms))
    if isinstance(predicate, Not):
        return Not(_bound(predicate.term, schema))
    if isinstance(predicate, IsNull):
        return replace(predicate, column=_found(predicate.column, schema))
    if isinstance(predicate, Comparison):
        column = _comparable(_found(predicate.column, schema))
        return coercion.comparison(predicate.op, column, predicate.value, predicate.place)
    if isinstance(predicate, In):
        column = _comparable(_found(predicate.column, schema))
        if column == predicate.column:
            # Bound before, to a column of the same type: the list may be a long one.
            return predicate
        return coercion.membership(column, predicate.values, predicate.place)
    if isinstance(predicate, Like):
        return _bound_like(predicate, _comparable(_found(predicate.column, schema)))
    return predicate


def _bound_like(predicate: Like, column: Column) -> Predicate:
    if kind_of(column.type) not in {Kind.STRING, Kind.VOID}:
        msg = f"column {column} has type {column.type}; LIKE is for strings"
        raise refusal(msg, predicate.place or column.place)
    pattern = like.checked(predicate.pattern, predicate.place)
    text = like.plain_text(pattern)
    if text is not None or kind_of(column.type) is Kind.VOID:
        return coercion.comparison("=", column, text or "", predicate.place)
    return Like(column, pattern, predicate.place)


def _comparable(column: Column) -> Column:
    if isinstance(column.type, pa.StructType):
        fields = ", ".join(names.written((*column.path, field.name)) for field in list(column.type)[:_MOST_SHOWN])
        msg = f"column {column} is a struct: only IS [NOT] NULL is supported on it; name a field: {fields}"
        raise refusal(msg, column.place)
    if kind_of(column.type) in {Kind.NESTED, Kind.OTHER}:
        msg = f"column {column} has type {column.type}: only IS [NOT] NULL is supported on it"
        raise refusal(msg, column.place)
    return column


def _found(column: Column, schema: SchemaFields) -> Column:
    whole = ".".join(column.path)
    if len(column.path) > 1 and whole in schema and column.path[0] not in schema:
        column = replace(column, path=(whole,))
    found = _walked(column, schema)
    if found is None:
        msg = f"there is no column {column}{_suggestion(column, schema)}"
        raise refusal(msg, column.place)
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
                msg = f"{column} cannot be used: {inside} has type {found}, and a {kind} has no fields to name"
                raise refusal(msg, column.place)
            fields = fields.inside(match, found)
        match = fields.find(name, column)
        if match is None:
            return None
        path.append(match.name)
        found = match.type.value_type if pa.types.is_dictionary(match.type) else match.type
    return Column(tuple(path), found, column.place)


def _suggestion(column: Column, schema: SchemaFields) -> str:
    known = {names.written(path): names.written(path).casefold() for path in _paths(schema.all, ())}
    wanted = str(column).casefold()
    near = difflib.get_close_matches(wanted, known.values(), n=3)
    # The last name alone is what someone means who does not know which struct holds it.
    ends = {name: name.rpartition(".")[2].casefold() for name in known}
    inside = [name for name, end in ends.items() if end == wanted.rpartition(".")[2]]
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
