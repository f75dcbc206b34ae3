"""Random predicates over the made-up files, in all notations."""

from __future__ import annotations

import datetime as dt
import json
import math
from decimal import Decimal
from typing import Any

from hypothesis import strategies as st
from tests.predicate.files import TYPES, VALUES

from delta_sidecar.predicate import (
    FALSE,
    TRUE,
    UNKNOWN,
    And,
    Column,
    Comparison,
    In,
    IsNull,
    Like,
    Not,
    Or,
    Predicate,
)

_OPERATORS = st.sampled_from(["=", "!=", "<", "<=", ">", ">="])
_COLUMNS = st.sampled_from(sorted(TYPES))


def literals_for(path: tuple[str, ...]) -> st.SearchStrategy[Any]:
    """Literals for a column: of its type, and of others that mean something beside it."""
    own = VALUES[path]
    name = path[-1]
    if name in {"i", "l", "x"}:
        return own | st.sampled_from(
            [Decimal("2.5"), Decimal("-0.5"), 10**20, -(10**20), "3", Decimal("3.0"), math.inf]
        )
    if name in {"dec", "wide"}:
        return own | st.sampled_from([1, Decimal("1.005"), 10**30, -(10**30), "1.5", Decimal("1e-30"), -math.inf])
    if name in {"f", "f4"}:
        return own.map(_as_read) | st.sampled_from([1, "1.5", Decimal("0.1")])
    if name in {"d", "ts", "tn"}:
        zones = st.sampled_from([dt.UTC, None, dt.timezone(dt.timedelta(hours=5, minutes=30))])
        moments = st.builds(
            lambda moment, zone: moment.replace(tzinfo=zone), VALUES["ts",].filter(lambda m: 1 < m.year < 9999), zones
        )
        return st.one_of(own, VALUES["d",], moments, moments.map(str), VALUES["d",].map(str))
    if name == "b":
        return own | st.sampled_from(["true", "false"])
    return own


def _as_read(value: float) -> Decimal | float:
    """A float as the parsers give it, with the one NaN that is identical to itself."""
    return math.nan if math.isnan(value) else Decimal(repr(value)) if math.isfinite(value) else value


_PATTERNS = st.lists(
    st.sampled_from(["a", "b", "A", "é", "%", "_", "\\%", "\\_", "\\\\", "\ufffd", "\U0001f600", "\n", "'"]), max_size=5
).map("".join)


@st.composite
def _leaves(draw: st.DrawFn) -> Predicate:
    path = draw(_COLUMNS)
    column = Column(path)
    form = draw(st.integers(0, 9))
    if form == 0:
        return IsNull(column, negated=draw(st.booleans()))
    if form == 1:
        return draw(st.sampled_from([TRUE, FALSE, UNKNOWN]))
    if form <= 3:
        return In(column, tuple(draw(st.lists(literals_for(path), min_size=1, max_size=6))))
    if form <= 5 and path[-1] in {"s", "y"}:
        return Like(column, draw(_PATTERNS))
    return Comparison(draw(_OPERATORS), column, draw(literals_for(path)))


trees: st.SearchStrategy[Predicate] = st.recursive(
    _leaves(),
    lambda inner: st.one_of(
        st.builds(Not, inner),
        st.lists(inner, min_size=2, max_size=3).map(lambda terms: And(tuple(terms))),
        st.lists(inner, min_size=2, max_size=3).map(lambda terms: Or(tuple(terms))),
    ),
    max_leaves=6,
)


@st.composite
def _clauses(draw: st.DrawFn) -> tuple[Any, str, Any]:
    path = draw(_COLUMNS)
    name = draw(st.sampled_from([".".join(path), path]))
    op = draw(st.sampled_from(["=", "==", "!=", "<", "<=", ">", ">=", "in", "not in", "IN"]))
    if op.lower().endswith("in"):
        return name, op, draw(st.lists(st.none() | literals_for(path), max_size=5))
    literals = literals_for(path)
    return name, op, draw(st.none() | literals if op in {"=", "!="} else literals)


filters: st.SearchStrategy[list[Any]] = st.one_of(
    st.lists(_clauses(), max_size=3),
    st.lists(st.lists(_clauses(), min_size=1, max_size=3), min_size=1, max_size=3),
)


@st.composite
def _conditions(draw: st.DrawFn) -> dict[str, Any]:
    path = draw(_COLUMNS)
    literals = literals_for(path)
    form = draw(st.integers(0, 3))
    if form == 0:
        condition: Any = draw(st.none() | literals)
    elif form == 1:
        condition = draw(st.lists(st.none() | literals, max_size=4))
    else:
        condition = draw(st.dictionaries(_OPERATORS, literals, min_size=1, max_size=3))
    return {".".join(path): condition}


mappings: st.SearchStrategy[dict[str, Any]] = st.recursive(
    _conditions(),
    lambda inner: st.one_of(
        st.lists(inner, min_size=1, max_size=3).map(lambda parts: {"$or": parts}),
        st.lists(inner, min_size=1, max_size=3).map(lambda parts: {"$and": parts}),
        inner.map(lambda part: {"$not": part}),
        st.lists(inner, min_size=1, max_size=2).map(lambda parts: {key: part[key] for part in parts for key in part}),
    ),
    max_leaves=5,
)


def as_json(mapping: dict[str, Any]) -> str | None:
    """The JSON text of a mapping; None if JSON has no notation for a value in it."""
    try:
        return json.dumps(mapping)
    except TypeError:
        return None
