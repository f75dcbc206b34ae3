"""Conditions on rows as tuples of column, operator and value, with nulls treated as deltalake and pyarrow do.

SQL does not know whether a null is in a list or not, so that it is in neither answer. In these tuples `not in` is true
for a null, unless the list has one too.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING, Any

from delta_sidecar.predicate import FALSE, Not, Predicate, all_of, any_of, parse

if TYPE_CHECKING:
    from delta_sidecar.table.partition_filters import Filters

_CLAUSE_LENGTH = 3


def row_predicate(filters: Filters) -> Predicate:
    """Reads filter tuples: a list of which all hold, or a list of such lists, of which one holds.

    Raises:
        PredicateError: They cannot be read.
    """
    if all(map(_is_clause, filters)):
        return all_of(map(_clause, filters))
    if all(_is_list(inner) and inner and all(map(_is_clause, inner)) for inner in filters):
        return any_of(all_of(map(_clause, inner)) for inner in filters)
    # Whatever it is, the parser says what is wrong.
    return parse(filters)


def _clause(clause: Sequence[Any]) -> Predicate:
    name, operator, value = clause
    kind = " ".join(str(operator).lower().split())
    if kind not in ("in", "not in") or not isinstance(value, Collection) or isinstance(value, str | bytes):
        return parse([clause])
    known = [item for item in value if item is not None]
    is_in = parse([(name, "in", known)]) if known else FALSE
    is_null = parse([(name, "=", None)])
    has_null = len(known) < len(value)
    if kind == "in":
        return any_of([is_in, is_null]) if has_null else is_in
    return all_of([Not(is_in), Not(is_null)]) if has_null else any_of([Not(is_in), is_null])


def _is_clause(item: object) -> bool:
    return _is_list(item) and len(item) == _CLAUSE_LENGTH and isinstance(item[0], str)  # type: ignore[arg-type, index]


def _is_list(item: object) -> bool:
    return isinstance(item, Sequence) and not isinstance(item, str | bytes)
