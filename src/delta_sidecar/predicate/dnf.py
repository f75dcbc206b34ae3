"""Filters in disjunctive normal form, as deltalake and pyarrow take them.

`[("a", "=", 1), ("b", "in", ["x", "y"])]` is a = 1 AND b IN ('x', 'y'); a list of such lists is their OR.
`("a", "=", None)` tests for null. A name may be a tuple of names, for a field of a struct.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeGuard

from delta_sidecar.predicate import names
from delta_sidecar.predicate.building import clause
from delta_sidecar.predicate.expression import Column, Predicate, all_of, any_of
from delta_sidecar.predicate.place import Place, refusal

_CLAUSE_LENGTH = 3


def read(filters: Sequence[object]) -> Predicate:
    """Reads filters; an empty list is TRUE.

    Raises:
        PredicateError: If they are not in this form.
    """
    if _is_clause(filters):
        return _clause(filters, "filter")
    if not filters or all(map(_is_clause, filters)):
        return _conjunction(filters, "filters")
    for position, inner in enumerate(filters):
        if _is_clause(inner) or not _is_list(inner) or not inner:
            msg = (
                "filters are a list of (column, operator, value) tuples, joined by AND, or a list of such lists, "
                f"joined by OR; {inner!r} does not fit in"
            )
            raise refusal(msg, Place(f"filters[{position}]"))
    return any_of(_conjunction(each, f"filters[{i}]") for i, each in enumerate(filters) if _is_list(each))


def _conjunction(clauses: Sequence[object], where: str) -> Predicate:
    return all_of(_clause(item, f"{where}[{position}]") for position, item in enumerate(clauses))


def _clause(item: object, where: str) -> Predicate:
    place = Place(where)
    if not _is_list(item) or len(item) != _CLAUSE_LENGTH or not _is_name(item[0]):
        msg = f"a filter is a tuple (column, operator, value), not {item!r}"
        raise refusal(msg, place)
    name, op, value = item
    path = names.read(name) if isinstance(name, str) else tuple(map(str, name))
    return clause(Column(path, place=place), op, value, place)


def _is_clause(item: object) -> bool:
    """Whether something is meant as a clause: it begins with a name, however wrong the rest may be."""
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
