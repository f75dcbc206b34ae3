"""Conditions on the rows of a table: one tree, several notations, pruning by bounds alone.

    predicate = bind(parse("event_hour >= '2026021022' AND device_id IN ('a', 'b')"), schema)
    keep = may_match(predicate, bounds)       # files, row groups or ranges of rows that may hold a matching row
    rows = matches(predicate, table)          # rows that match

No I/O. Read `tree` first, then `bind`, and `match` for rows or `bounds` for files.
"""

from __future__ import annotations

from delta_sidecar.predicate.bind import BoundPredicate, bind
from delta_sidecar.predicate.bounds import Bounds, ColumnBounds, KnownBounds, may_match
from delta_sidecar.predicate.match import matches
from delta_sidecar.predicate.parse import parse
from delta_sidecar.predicate.tree import (
    FALSE,
    TRUE,
    UNKNOWN,
    And,
    Column,
    Comparison,
    Constant,
    In,
    IsNull,
    Like,
    Not,
    Or,
    Predicate,
    all_of,
    any_of,
    columns,
    to_physical,
)

__all__ = [
    "FALSE",
    "TRUE",
    "UNKNOWN",
    "And",
    "BoundPredicate",
    "Bounds",
    "Column",
    "ColumnBounds",
    "Comparison",
    "Constant",
    "In",
    "IsNull",
    "KnownBounds",
    "Like",
    "Not",
    "Or",
    "Predicate",
    "all_of",
    "any_of",
    "bind",
    "columns",
    "matches",
    "may_match",
    "parse",
    "to_physical",
]
