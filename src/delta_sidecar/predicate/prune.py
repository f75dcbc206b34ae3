"""What can be decided from bounds alone: `may_match`.

A file is dropped only where no row of it can match, whatever its values are within the bounds. NOT is carried
down to the leaves on the way, so that each leaf is asked one question: can it be true here? Unknown is not
true. Everything works on whole columns at once.
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from delta_sidecar import _arrow
from delta_sidecar.errors import PredicateError
from delta_sidecar.predicate import bounds as ranges
from delta_sidecar.predicate import match
from delta_sidecar.predicate.tree import (
    NEGATED,
    And,
    Column,
    Comparison,
    Constant,
    In,
    IsNull,
    Like,
    Not,
    Operator,
    Or,
    Predicate,
)

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from delta_sidecar.predicate.bounds import Bounds, Range
    from delta_sidecar.predicate.literals import Value

    Mask = NDArray[np.bool_]


def may_match(predicate: Predicate, bounds: Bounds) -> pa.BooleanArray:
    """Tells which files may hold a row that matches.

    Args:
        predicate: A bound predicate.
        bounds: What is known of the files, as it was written.

    Returns:
        One boolean per file, without nulls: false only where no row can match.
    """
    return _arrow.booleans(_Pruning(bounds).kept(predicate, negated=False))


class _Pruning:
    """One run over some bounds; each column's range is made ready once."""

    def __init__(self, bounds: Bounds) -> None:
        self._bounds = bounds
        self._rows = bounds.num_rows
        self._ranges: dict[Column, Range] = {}

    def kept(self, node: Predicate, *, negated: bool) -> Mask:
        """Tells where a node, or its opposite, may be true for some row."""
        if isinstance(node, Not):
            return self.kept(node.term, negated=not negated)
        if isinstance(node, And | Or):
            return self._joined(node, negated=negated)
        if isinstance(node, Constant):
            return np.full(self._rows, node.value is not None and node.value != negated)
        if isinstance(node, IsNull):
            found = self._range(node.column)
            return found.has_values if node.negated != negated else found.has_nulls
        if isinstance(node, Comparison):
            found = self._range(node.column)
            return found.has_values & ~_never_compares(node, found, negated=negated)
        if isinstance(node, In):
            found = self._range(node.column)
            return found.has_values & ~_never_among(node, found, negated=negated)
        if isinstance(node, Like):
            found = self._range(node.column)
            return found.has_values & ~_never_like(node, found, negated=negated)
        msg = f"not a predicate: {node!r}"
        raise PredicateError(msg)

    def _joined(self, node: And | Or, *, negated: bool) -> Mask:
        is_and = isinstance(node, And) != negated
        kept = np.full(self._rows, is_and)
        for term in node.terms:
            if is_and:
                kept &= self.kept(term, negated=negated)
            else:
                kept |= self.kept(term, negated=negated)
            settled = not kept.any() if is_and else kept.all()
            if settled:
                break
        return kept

    def _range(self, column: Column) -> Range:
        if column.type is None:
            msg = f"the predicate on {column} has to be bound to a schema first"
            raise PredicateError(msg)
        found = self._ranges.get(column)
        if found is None:
            found = ranges.range_of(self._bounds.column(column.path), self._rows, column.type)
            self._ranges[column] = found
        return found


def _never_compares(node: Comparison, found: Range, *, negated: bool) -> Mask:
    op: Operator = node.op
    if negated:
        if found.may_hide_nan:
            # NOT (x < 5) is true for NaN, and x >= 5 is not: no bound says anything about it.
            return _nowhere(found)
        op = NEGATED[op]
    if _is_nan(node.value) or (found.may_hide_nan and op in {">", ">=", "!="}):
        return _nowhere(found)
    literal = ranges.keys((node.value,), node.column.type)
    least, most = (side[0] for side in ranges.margins(literal, node.column.type))
    if op == "=":
        return _above(found, most) | _below(found, least)
    if op == "!=":
        return _only_members(literal, found)
    if op in {"<", "<="}:
        return _above(found, most, or_at=op == "<")
    return _below(found, least, or_at=op == ">")


def _never_among(node: In, found: Range, *, negated: bool) -> Mask:
    least, most = _members(node)
    if least is None or most is None:
        return _nowhere(found)
    if negated:
        return _only_members(least, found)
    last = len(least) - 1
    never = _above(found, most[last]) | _below(found, least[0])
    # Inside of the list's own bounds, the first member that is not below is the one that can still be there.
    open_rows = np.flatnonzero(~never)
    if last and len(open_rows) and found.lower is not None and found.upper is not None:
        picked = _arrow.int64s(open_rows)
        position = _members_below(most, found.lower.take(picked))
        upper = found.upper.take(picked)
        upper = ranges.raised(upper) if found.cut else upper
        never[open_rows] = _arrow.bits_of(pc.less(upper, _next_member(least, position))) | (position > last)
    return never


def _only_members(members: pa.Array, found: Range) -> Mask:
    """Tells where there is one value only, and it is a member."""
    never = _nowhere(found)
    if found.single is not None and found.lower is not None:
        single = np.flatnonzero(found.single)
        lower = found.lower.take(_arrow.int64s(single))
        near = _next_member(members, _members_below(members, lower))
        never[single] = _arrow.bits_of(pc.equal(lower, near))
    return never


def _never_like(node: Like, found: Range, *, negated: bool) -> Mask:
    if found.values is not None:
        fitting = match.fits(found.values, node.pattern)
        return _arrow.bits_of(fitting if negated else pc.invert(fitting))
    begins = match.prefix(node.pattern).encode()
    if negated or not begins or found.lower is None or found.upper is None:
        return _nowhere(found)
    after = _arrow.scalar(begins + ranges.HIGHEST, found.lower.type)
    before = _arrow.scalar(begins, found.upper.type)
    return _above(found, after) | _below(found, before)


@lru_cache(maxsize=16)
def _members(node: In) -> tuple[pa.Array | None, pa.Array | None]:
    """The list of an IN in order, at the least and the most it may mean; None if it cannot be ordered."""
    if any(isinstance(value, bytes) and ranges.HIGHEST in value for value in node.values):
        return None, None
    if any(map(_is_nan, node.values)):
        return None, None
    literals = ranges.keys(sorted(node.values), node.column.type)
    return ranges.margins(literals, node.column.type)


def _members_below(members: pa.Array, values: pa.Array) -> NDArray[np.int64]:
    """Counts, for each value, the members below it; none for null."""
    if pa.types.is_integer(values.type) or pa.types.is_floating(values.type):
        found = np.searchsorted(_arrow.numbers_of(members), _arrow.numbers_of(values), side="left").astype(np.int64)
        return np.where(_arrow.valid_mask(values), found, 0)
    # Sorted together, values before members where equal, each value has the members below it in front.
    order = _arrow.numbers_of(
        pc.array_sort_indices(pa.concat_arrays([values, members]), null_placement="at_start")
    ).astype(np.int64)
    below = np.empty(len(order), dtype=np.int64)
    below[order] = np.cumsum(order >= len(values))
    return below[: len(values)]


def _next_member(members: pa.Array, position: NDArray[np.int64]) -> pa.Array:
    return members.take(_arrow.int64s(np.minimum(position, len(members) - 1)))


def _is_nan(value: Value) -> bool:
    return isinstance(value, float) and math.isnan(value)


def _above(found: Range, literal: pa.Scalar, *, or_at: bool = False) -> Mask:
    """Tells where every value is known to lie above a literal, or at it."""
    if found.lower is None:
        return _nowhere(found)
    return _arrow.bits_of((pc.greater_equal if or_at else pc.greater)(found.lower, literal))


def _below(found: Range, literal: pa.Scalar, *, or_at: bool = False) -> Mask:
    """Tells where every value is known to lie below a literal, or at it."""
    if found.upper is None:
        return _nowhere(found)
    if not found.cut:
        return _arrow.bits_of((pc.less_equal if or_at else pc.less)(found.upper, literal))
    below = _arrow.bits_of(pc.less(found.upper, literal))
    # A bound that the literal begins with may be cut off from something above the literal.
    whole: bytes = literal.as_py()
    lengths = _arrow.numbers_of(pc.binary_length(found.upper))
    shorter = np.flatnonzero(below & (lengths < len(whole)))
    if len(shorter):
        cuts = sorted(set(lengths[shorter].tolist()))
        beginnings = ranges.keys([whole[:length] for length in cuts], found.upper.type)
        uppers = found.upper.take(_arrow.int64s(shorter))
        below[shorter] = ~_arrow.bits_of(pc.is_in(uppers, value_set=beginnings))
    return below


def _nowhere(found: Range) -> Mask:
    return np.zeros(len(found.has_values), dtype=np.bool_)
