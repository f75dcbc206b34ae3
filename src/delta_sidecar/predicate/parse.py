"""Predicates in any notation: `parse`, and those written as Python values.

Filters as deltalake and pyarrow take them are in disjunctive normal form: `[("a", "=", 1), ("b", "in", ["x", "y"])]` is
a = 1 AND b IN ('x', 'y'), and a list of such lists is their OR. `("a", "=", None)` tests for null. A name may be a
tuple of names: a field of a struct.

Mappings: `{"date": "2026-02-08"}` is an equality, `{"n": {">=": 1, "<": 5}}` a range, `{"n": [1, 2]}` an IN,
`{"n": null}` an IS NULL; several columns are joined by AND. `{"$or": [...]}`, `{"$and": [...]}` and
`{"$not": {...}}` join and negate whole objects; back-quotes keep a column that begins with a dollar sign
apart from them.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from decimal import Decimal
from typing import Any, TypeGuard

import pyarrow.compute as pc

from delta_sidecar.predicate import tree
from delta_sidecar.predicate.literals import SourcePlace, refusal, taken
from delta_sidecar.predicate.match import checked
from delta_sidecar.predicate.tree import (
    OPERATORS,
    Column,
    Comparison,
    IsNull,
    Like,
    Not,
    Predicate,
    all_of,
    among,
    any_of,
)

_MOST_SHOWN = 200
_CLAUSE_LENGTH = 3
_WORDS = ("in", "not in", "like", "not like")


def parse(source: str | Sequence[object] | Mapping[str, object] | pc.Expression | Predicate) -> Predicate:
    """Reads an unbound predicate.

    Args:
        source: SQL text (`"a >= 5 AND b IN ('x', 'y')"`), DNF filters (`[("a", ">=", 5)]`), a JSON mapping
            (`{"a": {">=": 5}}`) or the JSON text of one of these two, a pyarrow expression (`pc.field("a") >= 5`),
            or a predicate, which is returned as it is.

    Raises:
        PredicateError: If it cannot be read; the message points at the place.
    """
    if isinstance(source, Predicate):
        return source
    try:
        if isinstance(source, str):
            if source.lstrip()[:1] in {"{", "["}:
                return _text(source)
            from delta_sidecar.predicate import sql

            return sql.read(source)
        if isinstance(source, Mapping):
            return _object(source, "$")
        if isinstance(source, list | tuple):
            return _filters(source)
        if isinstance(source, pc.Expression):
            return _from_arrow(source)
    except RecursionError:
        raise refusal(None, "the predicate is nested too deeply") from None
    kind = type(source).__name__
    raise refusal(None, f"a predicate is a SQL text, a list of filters, a mapping or a pyarrow expression, not {kind}")


def _from_arrow(expression: pc.Expression) -> Predicate:
    from delta_sidecar.predicate.approximate.arrow import from_arrow_expression

    translated = from_arrow_expression(expression)
    if translated.exact:
        return translated.predicate
    try:
        shown = str(expression)
    except UnicodeDecodeError:
        shown = "with bytes that are no text"
    cut = shown if len(shown) <= _MOST_SHOWN else f"{shown[:_MOST_SHOWN]}..."
    raise refusal(
        None,
        f"the pyarrow expression {cut} has a part that cannot be put into a predicate; "
        "write the predicate as SQL text, such as \"a >= 5 AND b IN ('x', 'y')\"",
    )


def _filters(filters: Sequence[object]) -> Predicate:
    """Reads filters; an empty list is TRUE."""
    if _is_clause(filters):
        return _clause(filters, "filter")
    if not filters or all(map(_is_clause, filters)):
        return _conjunction(filters, "filters")
    for position, inner in enumerate(filters):
        if _is_clause(inner) or not _is_list(inner) or not inner:
            raise refusal(
                SourcePlace(f"filters[{position}]"),
                "filters are a list of (column, operator, value) tuples, joined by AND, or a list of such lists, "
                f"joined by OR; {inner!r} does not fit in",
            )
    return any_of(_conjunction(each, f"filters[{i}]") for i, each in enumerate(filters) if _is_list(each))


def _conjunction(clauses: Sequence[object], where: str) -> Predicate:
    return all_of(_clause(item, f"{where}[{position}]") for position, item in enumerate(clauses))


def _clause(item: object, where: str) -> Predicate:
    place = SourcePlace(where)
    if not _is_list(item) or len(item) != _CLAUSE_LENGTH or not _is_name(item[0]):
        raise refusal(place, f"a filter is a tuple (column, operator, value), not {item!r}")
    name, op, value = item
    path = tree.read(name) if isinstance(name, str) else tuple(map(str, name))
    return _leaf(Column(path, place=place), op, value, place)


def _is_clause(item: object) -> bool:
    """Tells whether something is meant as a clause: it begins with a name, however wrong the rest may be."""
    if not _is_list(item) or not item:
        return False
    if isinstance(item[0], str):
        return True
    return _is_name(item[0]) and len(item) == _CLAUSE_LENGTH and isinstance(item[1], str)


def _is_name(item: object) -> bool:
    return isinstance(item, str) or (
        isinstance(item, tuple) and bool(item) and all(isinstance(part, str) for part in item)
    )


def _is_list(item: object) -> TypeGuard[Sequence[Any]]:
    return isinstance(item, Sequence) and not isinstance(item, str | bytes)


def _text(text: str) -> Predicate:
    """Reads the text of a JSON object, or of DNF filters as JSON lists; numbers are kept exact."""
    try:
        source = json.loads(text, parse_float=Decimal, object_pairs_hook=_without_repetition)
    except json.JSONDecodeError as error:
        raise refusal(
            SourcePlace(text, error.pos, error.pos + 1),
            f"a predicate that begins with {text.lstrip()[0]} has to be JSON: {error.msg}",
        ) from None
    except ValueError as error:
        raise refusal(SourcePlace(text, 0, 1), f"this JSON cannot be a predicate: {error}") from None
    return _filters(source) if isinstance(source, list) else _object(source, "$")


def _object(source: object, where: str) -> Predicate:
    if not isinstance(source, Mapping):
        raise refusal(SourcePlace(where), f"an object such as {{'column': value}} is expected, not {source!r}")
    return all_of(_entry(key, value, f"{where}.{key}") for key, value in source.items())


def _entry(key: object, value: object, where: str) -> Predicate:
    place = SourcePlace(where)
    if not isinstance(key, str):
        raise refusal(place, f"a column name or one of $and, $or, $not is expected, not {key!r}")
    if key == "$not":
        return Not(_object(value, where))
    if key in {"$and", "$or"}:
        if not isinstance(value, Sequence) or isinstance(value, str) or not value:
            raise refusal(place, f"{key} needs a list of objects, not {value!r}")
        join = all_of if key == "$and" else any_of
        return join([_object(item, f"{where}[{position}]") for position, item in enumerate(value)])
    if key.startswith("$"):
        raise refusal(
            place, f"unknown operator {key}; the operators are $and, $or, $not (write a column of this name `{key}`)"
        )
    return _column(Column(tree.read(key), place=place), value, where)


def _column(column: Column, value: object, where: str) -> Predicate:
    if isinstance(value, Mapping):
        if not value:
            raise refusal(SourcePlace(where), f'no condition on {column}; write one, such as {{">=": 1}}')
        return all_of([_leaf(column, op, item, SourcePlace(f"{where}['{op}']")) for op, item in value.items()])
    is_list = isinstance(value, Sequence | set | frozenset) and not isinstance(value, str | bytes | bytearray)
    return _leaf(column, "in" if is_list else "=", value, SourcePlace(where))


def _without_repetition(pairs: list[tuple[str, object]]) -> dict[str, object]:
    found = dict(pairs)
    if len(found) < len(pairs):
        repeated = next(key for key in found if sum(key == other for other, _ in pairs) > 1)
        msg = f"the key {repeated!r} stands twice in one object"
        raise ValueError(msg)
    return found


def _leaf(column: Column, op: object, value: object, place: SourcePlace) -> Predicate:
    """Reads a (column, operator, value) of a DNF filter or a JSON predicate, where None stands for null."""
    word = " ".join(op.lower().split()) if isinstance(op, str) else None
    if word in OPERATORS:
        operator = OPERATORS[word]
        literal = taken(value, place)
        if literal is not None:
            return Comparison(operator, column, literal, place)
        if operator in {"=", "!="}:
            return IsNull(column, negated=operator == "!=")
        raise refusal(
            place, f"{column} {operator} null is never true; compare with a value, or with = or != to test for null"
        )
    if word in {"in", "not in"}:
        if isinstance(value, str | bytes) or not hasattr(value, "__iter__"):
            raise refusal(place, f"the operator {word!r} needs a list of values, not {value!r}")
        found = among(column, [taken(item, place) for item in value], place)
    elif word in {"like", "not like"}:
        if not isinstance(value, str):
            raise refusal(place, f"the operator {word!r} needs a pattern, not {value!r}")
        found = Like(column, checked(value, place), place)
    else:
        known = ", ".join((*OPERATORS, *_WORDS))
        raise refusal(place, f"unknown operator {op!r}; the operators are {known}")
    return Not(found) if word.startswith("not") else found
