"""Conditions on partition columns, as deltalake takes them: tuples of column, operator and text."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, TypeAlias

from delta_sidecar.errors import PredicateError
from delta_sidecar.predicate import Predicate, columns, parse

Filters: TypeAlias = Sequence[Any]
"""A list of tuples, all of which hold, or a list of such lists, of which one holds."""


def partition_predicate(filters: Filters | None, partition_columns: Sequence[str]) -> Predicate | None:
    """Reads a filter; an empty text stands for null, as in deltalake.

    Args:
        filters: The filter; None or empty for all.
        partition_columns: The table's.

    Raises:
        PredicateError: It names a column that is no partition column, or cannot be read.
    """
    if not filters:
        return None
    predicate = parse(_with_nulls(filters))
    known = {name.casefold() for name in partition_columns}
    others = sorted({path[0] for path in columns(predicate) if path[0].casefold() not in known})
    if others:
        msg = (
            f"{', '.join(others)}: not a partition column; the partition columns are "
            f"{', '.join(partition_columns) or 'none'}. A condition on other columns is a predicate."
        )
        raise PredicateError(msg)
    return predicate


def _with_nulls(filters: Filters) -> list[Any]:
    return [_with_null(entry) if _is_clause(entry) else _with_nulls(entry) for entry in filters]


def _is_clause(entry: object) -> bool:
    return isinstance(entry, tuple) and bool(entry) and isinstance(entry[0], str)


def _with_null(clause: tuple[Any, ...]) -> tuple[Any, ...]:
    name, *rest = clause
    if len(rest) != 2:  # noqa: PLR2004 - an operator and a value; whatever else it is, the parser says what is wrong
        return clause
    operator, value = rest
    if isinstance(value, str):
        return (name, operator, value or None)
    if isinstance(value, Iterable) and not isinstance(value, bytes):
        return (name, operator, [item if item != "" else None for item in value])
    return clause
