"""Files that may hold a matching row, by their bounds alone: `may_match`.

A file is dropped only where no row of it can match, for any values within the bounds. NOT is carried down to the
leaves, so that there is one question to each leaf: can it be true here? Unknown is not true. Everything works on
whole columns at once.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from delta_sidecar import _arrow
from delta_sidecar.errors import PredicateError
from delta_sidecar.predicate.bounds import HIGHEST, keys, margins, raised, range_of
from delta_sidecar.predicate.literals import is_nan
from delta_sidecar.predicate.match import fits, prefix
from delta_sidecar.predicate.tree import NEGATED, Comparison, Constant, In, IsNull, Like, Operator, fold

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from delta_sidecar.predicate.bounds import Bounds, Mask, ValueRange
    from delta_sidecar.predicate.tree import Column, Leaf, Predicate


def may_match(predicate: Predicate, bounds: Bounds) -> pa.BooleanArray:
    """Gives one boolean per file, without nulls: false only where no row can match a bound predicate."""
    ranges: dict[Column, ValueRange] = {}

    def kept(node: Leaf | Constant, negated: bool) -> Mask:  # noqa: FBT001 - as fold calls it
        if isinstance(node, Constant):
            return np.full(bounds.num_rows, node.value is not None and node.value != negated)
        if node.column not in ranges:
            ranges[node.column] = _range_of(node.column, bounds)
        return _kept(node, ranges[node.column], negated=negated)

    return _arrow.booleans(fold(predicate, kept, _joined))


def _kept(node: Leaf, found: ValueRange, *, negated: bool) -> Mask:
    match node:
        case IsNull():
            return found.has_values if node.negated != negated else found.has_nulls
        case Comparison():
            never = _never_compares(node, found, negated=negated)
        case In():
            never = _never_among(node, found, negated=negated)
        case Like():
            never = _never_like(node, found, negated=negated)
    return found.has_values & ~never


def _joined(is_and: bool, terms: Iterator[Mask]) -> Mask:  # noqa: FBT001 - as fold calls it
    whole = next(terms)
    while (whole.any() if is_and else not whole.all()) and (term := next(terms, None)) is not None:
        whole = whole & term if is_and else whole | term
    return whole


def _range_of(column: Column, bounds: Bounds) -> ValueRange:
    if column.type is None:
        msg = f"the predicate on {column} has to be bound to a schema first"
        raise PredicateError(msg)
    return range_of(bounds.column(column.path), bounds.num_rows, column.type)


def _never_compares(node: Comparison, found: ValueRange, *, negated: bool) -> Mask:
    op: Operator = node.op
    if negated:
        if found.may_hide_nan:
            # NOT (x < 5) is true for NaN, and x >= 5 is not: no bound says anything about it.
            return _nowhere(found)
        op = NEGATED[op]
    if is_nan(node.value) or (found.may_hide_nan and op in {">", ">=", "!="}):
        return _nowhere(found)
    literal = keys((node.value,), node.column.type)
    least, most = (side[0] for side in margins(literal, node.column.type))
    if op == "=":
        return _above(found, most) | _below(found, least)
    if op == "!=":
        return _only_members(literal, found)
    if op in {"<", "<="}:
        return _above(found, most, or_at=op == "<")
    return _below(found, least, or_at=op == ">")


def _never_among(node: In, found: ValueRange, *, negated: bool) -> Mask:
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
        upper = raised(upper) if found.cut else upper
        never[open_rows] = _arrow.bits_of(pc.less(upper, _next_member(least, position))) | (position > last)
    return never


def _only_members(members: pa.Array, found: ValueRange) -> Mask:
    """Tells where there is one value only, and it is a member."""
    never = _nowhere(found)
    if found.single is not None and found.lower is not None:
        single = np.flatnonzero(found.single)
        lower = found.lower.take(_arrow.int64s(single))
        near = _next_member(members, _members_below(members, lower))
        never[single] = _arrow.bits_of(pc.equal(lower, near))
    return never


def _never_like(node: Like, found: ValueRange, *, negated: bool) -> Mask:
    if found.values is not None:
        fitting = fits(found.values, node.pattern)
        return _arrow.bits_of(fitting if negated else pc.invert(fitting))
    begins = prefix(node.pattern).encode()
    if negated or not begins or found.lower is None or found.upper is None:
        return _nowhere(found)
    after = _arrow.scalar(begins + HIGHEST, found.lower.type)
    before = _arrow.scalar(begins, found.upper.type)
    return _above(found, after) | _below(found, before)


@lru_cache(maxsize=16)
def _members(node: In) -> tuple[pa.Array | None, pa.Array | None]:
    """The list of an IN in order, at the least and the most it may mean; None if it cannot be ordered."""
    if any(isinstance(value, bytes) and HIGHEST in value for value in node.values):
        return None, None
    if any(map(is_nan, node.values)):
        return None, None
    literals = keys(sorted(node.values), node.column.type)
    return margins(literals, node.column.type)


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


def _above(found: ValueRange, literal: pa.Scalar, *, or_at: bool = False) -> Mask:
    """Tells where every value is known to lie above a literal, or at it."""
    if found.lower is None:
        return _nowhere(found)
    return _arrow.bits_of((pc.greater_equal if or_at else pc.greater)(found.lower, literal))


def _below(found: ValueRange, literal: pa.Scalar, *, or_at: bool = False) -> Mask:
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
        beginnings = keys([whole[:length] for length in cuts], found.upper.type)
        uppers = found.upper.take(_arrow.int64s(shorter))
        below[shorter] = ~_arrow.bits_of(pc.is_in(uppers, value_set=beginnings))
    return below


def _nowhere(found: ValueRange) -> Mask:
    return np.zeros(len(found.has_values), dtype=np.bool_)
