"""Files that may hold a matching row, by the bounds of their columns alone: `may_match`.

A file is dropped only where no row of it can match, for any values within the bounds. NOT is carried down to the
leaves, so that there is one question to each leaf: can it be true here? Unknown is not true. Everything works on
whole columns at once, and null stands for what is not known.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from msgspec import Struct

from delta_sidecar import _arrow
from delta_sidecar.errors import PredicateError
from delta_sidecar.predicate import literals
from delta_sidecar.predicate.literals import PER_SECOND, Kind, is_nan, kind_of, one
from delta_sidecar.predicate.match import fits, prefix
from delta_sidecar.predicate.tree import NEGATED, Comparison, Constant, In, IsNull, Like, fold

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from delta_sidecar.predicate.literals import Value
    from delta_sidecar.predicate.tree import Column, Leaf, Predicate


class ColumnBounds(Struct, frozen=True):
    """Bounds and counts of one column, one row for each file, row group or range of rows; null where unknown.

    Bounds are as they were written; `may_match` widens them where their writers round or cut.
    """

    lower: pa.Array | None  # typed as the column
    upper: pa.Array | None
    null_count: pa.Array | None  # int64
    num_records: pa.Array | None  # int64
    tight: pa.Array | None = None  # bounds of the rows that are there, not wider ones; absent or null is true
    whole: bool = False  # bounds are values that are there, neither rounded nor cut
    exact: bool = False  # a partition value: `lower` is the value of every row, and null there *is* null
    zoneless: pa.Array | None = None  # exact timestamps written without a zone, which may lie 16 hours either way


class Bounds(Protocol):
    """Bounds of the columns of some files."""

    @property
    def num_rows(self) -> int:
        """The number of files."""

    def column(self, path: tuple[str, ...]) -> ColumnBounds | None:
        """Gives the bounds of a column; None if nothing is known."""


class KnownBounds(Struct, frozen=True):
    """`Bounds` by column, as they are known."""

    num_rows: int
    columns: Mapping[tuple[str, ...], ColumnBounds | None]

    def column(self, path: tuple[str, ...]) -> ColumnBounds | None:
        """The bounds of a column."""
        return self.columns.get(path)


def may_match(predicate: Predicate, bounds: Bounds) -> pa.BooleanArray:
    """Gives one boolean per file, without nulls: false only where no row can match a bound predicate."""
    ranges: dict[Column, _Range] = {}

    def kept(node: Leaf | Constant, negated: bool) -> pa.BooleanArray:  # noqa: FBT001 - as fold calls it
        if isinstance(node, Constant):
            return _all(bounds.num_rows, value=node.value is not None and node.value != negated)
        if node.column not in ranges:
            ranges[node.column] = _range_of(node.column, bounds)
        return _kept(node, ranges[node.column], negated=negated)

    return fold(predicate, kept, _joined)


def _kept(node: Leaf, found: _Range, *, negated: bool) -> pa.BooleanArray:
    match node:
        case IsNull():
            return found.has_values if node.negated != negated else found.has_nulls
        case Comparison():
            never = _never_compares(node, found, negated=negated)
        case In():
            never = _never_among(node, found, negated=negated)
        case Like():
            never = _never_like(node, found, negated=negated)
    return found.has_values if never is None else pc.and_not(found.has_values, _surely(never))


def _joined(is_and: bool, terms: Iterator[pa.BooleanArray]) -> pa.BooleanArray:  # noqa: FBT001 - as fold calls it
    whole = next(terms)
    while (whole.true_count if is_and else whole.false_count) and (term := next(terms, None)) is not None:
        whole = (pc.and_ if is_and else pc.or_)(whole, term)
    return whole


def _never_compares(node: Comparison, found: _Range, *, negated: bool) -> pa.BooleanArray | None:
    op = NEGATED[node.op] if negated else node.op
    # NOT (x < 5) is true for NaN, and x >= 5 is not: no bound says anything about it.
    if _is_unordered(node.value) or (found.may_hide_nan and (negated or op in {">", ">=", "!="})):
        return None
    literal = _keys_of((node.value,), node.column.type)
    least, most = (side[0] for side in _margins(literal, node.column.type))
    if op == "=":
        return pc.or_kleene(pc.greater(found.lower, most), found.ends_below(least))
    if op == "!=":
        return _only_members(literal, found)
    if op in {"<", "<="}:
        return (pc.greater_equal if op == "<" else pc.greater)(found.lower, most)
    # No value that a cut bound stands for is known to be the highest.
    return pc.less_equal(found.upper, least) if op == ">" and not found.is_cut else found.ends_below(least)


def _never_among(node: In, found: _Range, *, negated: bool) -> pa.BooleanArray | None:
    members = _members(node)
    if members is None:
        return None
    least, most = members
    if negated:
        return _only_members(least, found)
    outside = _surely(pc.or_kleene(pc.greater(found.lower, most[-1]), found.ends_below(least[0])))
    # Inside of the list's own bounds, the first member that is not below is the one that can still be there.
    inside = pc.invert(outside)
    lower, upper = found.lower.filter(inside), found.upper.filter(inside)
    if not len(lower):
        return outside
    upper = _behind(upper) if found.is_cut else upper
    return pc.replace_with_mask(outside, inside, pc.less(upper, least.take(_members_below(most, lower))))


def _only_members(members: pa.Array, found: _Range) -> pa.BooleanArray:
    """Tells where there is one value only, and it is a member."""
    return pc.and_(found.single, pc.is_in(found.lower, value_set=members))


def _never_like(node: Like, found: _Range, *, negated: bool) -> pa.BooleanArray | None:
    if found.values is not None:
        fitting = fits(found.values, node.pattern)
        return fitting if negated else pc.invert(fitting)
    begins = prefix(node.pattern).encode()
    if negated or not begins:
        return None
    least, most = (one(end, found.lower.type) for end in (begins, begins + _HIGHEST))
    return pc.or_kleene(pc.greater(found.lower, most), found.ends_below(least))


@lru_cache(maxsize=16)
def _members(node: In) -> tuple[pa.Array, pa.Array] | None:
    """The list of an IN in order, at the least and the most it may mean; None if it cannot be ordered."""
    if any(map(_is_unordered, node.values)):
        return None
    return _margins(_keys_of(sorted(node.values), node.column.type), node.column.type)


def _members_below(members: pa.Array, values: pa.Array) -> pa.Int64Array:
    """Counts, for each value, the members below it; none for null."""
    # Sorted together, values before members where equal, each value has the members below it in front.
    order = pc.array_sort_indices(pa.concat_arrays([values, members]), null_placement="at_start")
    positions = _arrow.to_numpy(order).astype(np.int64)
    below = np.empty(len(positions), dtype=np.int64)
    below[positions] = np.cumsum(positions >= len(values))
    return _arrow.from_numpy(below[: len(values)])


def _is_unordered(value: Value) -> bool:
    """Tells whether a literal has no place among bounds: NaN, and bytes that may lie above a cut bound made higher."""
    return is_nan(value) or (isinstance(value, bytes) and _HIGHEST in value)


# Bounds made ready to be compared: in one layout per kind, widened once for what their writers leave out.
#
# - Timestamps in statistics are cut to milliseconds: the upper bound goes up by one.
# - A string or binary upper bound may be cut to a prefix: it goes up behind everything that begins with it.
# - NaN takes no part in the order of numbers: a NaN bound is unknown, and behind bounds of floats NaN may hide.
# - Some writers send decimals through a double: with more digits than one holds, both bounds go outwards by what it
#   may have rounded away.
# - A partition timestamp without a zone may be of any zone: 16 hours either way.
#
# A bound whose type is not the column's (a column made wider, a layout of another reader) is converted where no
# value can change by it, and unknown otherwise.


# A cut bound with this behind it is above all that begins with it, but for binaries that hold as much.
_HIGHEST = b"\xff" * 16

# Clocks were once that far apart, on both sides of where a day began.
_ZONE_HOURS = 16
_INT64_MOST = 2**63 - 1
_DOUBLE_DIGITS = 15

# In these kinds a bound is a value, unrounded: where both bounds agree, there is one value only.
_UNROUNDED = {Kind.INTEGER, Kind.DECIMAL, Kind.DATE, Kind.BOOLEAN}

# From the kind of a bound to the kind of a column, where the order of values stays what it is.
_CONVERSIONS = {(Kind.INTEGER, Kind.DECIMAL), (Kind.INTEGER, Kind.FLOATING), (Kind.DATE, Kind.TIMESTAMP)}

_TRUE, _FALSE = (one(value, pa.bool_()) for value in (True, False))
_ZERO = one(0, pa.int64())


class _Range(Struct, frozen=True):
    """Bounds of one column, ready to be compared; null where unknown."""

    has_values: pa.BooleanArray  # there may be a row that is not null
    has_nulls: pa.BooleanArray  # there may be a null
    lower: pa.Array  # no value lies below
    upper: pa.Array  # no value lies above, unless `is_cut`
    single: pa.BooleanArray  # every value equals `lower`
    values: pa.Array | None = None  # the values themselves, typed as the column, where bounds are exact
    may_hide_nan: bool = False  # there may be NaN outside of the bounds
    is_cut: bool = False  # `upper` may be a prefix only, so that what begins with it may lie above

    def ends_below(self, least: pa.Scalar) -> pa.BooleanArray:
        """Tells where every value is below one."""
        below = pc.less(self.upper, least)
        if not self.is_cut:
            return below
        # Only a bound that is shorter can be the beginning of one: most need no copy.
        shorter = pc.less(pc.binary_length(self.upper), one(len(least.as_py()), pa.int64()))
        return pc.less(_behind(self.upper), least) if pc.any(pc.and_(below, shorter)).as_py() else below


def _range_of(column: Column, bounds: Bounds) -> _Range:
    if column.type is None:
        msg = f"the predicate on {column} has to be bound to a schema first"
        raise PredicateError(msg)
    found, rows = bounds.column(column.path), bounds.num_rows
    if found is None:
        found = ColumnBounds(None, None, None, None)
    if not found.exact or found.lower is None:
        return _estimated(found, rows, column.type)
    # A partition value.
    kind = kind_of(column.type)
    valid = pc.is_valid(_whole(found.lower))
    values = _typed(found.lower, rows, column.type)
    lower = upper = _keys(values, kind)
    # A value beside a column of narrower floats may be another one to some engines.
    narrow = pa.types.is_floating(column.type) and column.type.bit_width < lower.type.bit_width
    single = _all(rows, value=not narrow)
    if kind is Kind.TIMESTAMP and found.zoneless is not None:
        unsure = pc.fill_null(_whole(found.zoneless), _TRUE)
        reach = _ZONE_HOURS * 3600 * PER_SECOND[column.type.unit]
        lower = pc.if_else(unsure, _moved(lower, -reach), lower)
        upper = pc.if_else(unsure, _moved(upper, reach), upper)
        single = pc.invert(unsure)
    return _Range(valid, pc.invert(valid), lower, upper, single, values)


def _estimated(bounds: ColumnBounds, rows: int, type: pa.DataType) -> _Range:  # noqa: A002 - the Arrow word
    kind = kind_of(type)
    lower, upper = (_keys(_typed(bound, rows, type), kind) for bound in (bounds.lower, bounds.upper))
    single = _all(rows, value=False)
    if not bounds.whole:
        if kind is Kind.DECIMAL and type.precision > _DOUBLE_DIGITS:
            lower, upper = _outward(lower, -1), _outward(upper, 1)
        elif kind in _UNROUNDED:
            single = pc.equal(lower, upper)
        elif kind is Kind.TIMESTAMP:
            upper = _moved(upper, max(PER_SECOND[type.unit] // 1000, 1))
        elif kind is Kind.STRING:
            upper = _without_tie_breaker(upper)
    is_cut = kind in {Kind.STRING, Kind.BINARY} and not bounds.whole
    return _Range(*_counted(bounds, rows), lower, upper, single, None, kind is Kind.FLOATING, is_cut)


def _counted(bounds: ColumnBounds, rows: int) -> tuple[pa.BooleanArray, pa.BooleanArray]:
    """Tells where there may be values and where there may be nulls.

    Only two counts say something: no nulls at all, and nothing but nulls. Both mean the same for wide bounds,
    so `tight` is not looked at. A file that says it is empty is not believed at all.
    """
    nulls, records = (
        pa.nulls(rows, pa.int64()) if counts is None or not pa.types.is_integer(counts.type) else _whole(counts)
        for counts in (bounds.null_count, bounds.num_records)
    )
    nothing_else = pc.and_(pc.equal(nulls, records), pc.greater(records, _ZERO))
    none = pc.and_not(pc.equal(nulls, _ZERO), _surely(pc.less_equal(records, _ZERO)))
    return pc.invert(_surely(nothing_else)), pc.invert(_surely(none))


def _typed(array: pa.Array | None, rows: int, type: pa.DataType) -> pa.Array:  # noqa: A002
    """Converts bounds to the plain type of the column; null where that could change a value."""
    plain = literals.plain_type(type)
    unknown = pa.nulls(rows, plain)
    if array is None:
        return unknown
    array = _whole(array)
    if array.type == plain:
        return array
    if pa.types.is_dictionary(array.type):
        array = array.dictionary_decode()
    source, target = kind_of(array.type), kind_of(plain)
    if source is not target and (source, target) not in _CONVERSIONS:
        return unknown
    zoned = target is Kind.TIMESTAMP and plain.tz is not None
    if target is Kind.TIMESTAMP and zoned != (source is Kind.TIMESTAMP and array.type.tz is not None):
        return unknown
    try:
        if (source, target) == (Kind.INTEGER, Kind.DECIMAL):
            array = array.cast(pa.decimal256(76, plain.scale))
        return array.cast(plain)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        return unknown


def _keys_of(values: Sequence[Value], type: pa.DataType) -> pa.Array:  # noqa: A002
    """Makes literals of a column comparable with its ranges."""
    return _keys(literals.of(values, type), kind_of(type))


def _keys(array: pa.Array, kind: Kind) -> pa.Array:
    """Gives typed values in the layout that they are compared in."""
    if kind is Kind.DATE:
        return array.view(pa.int32())
    if kind is Kind.TIMESTAMP:
        return array.view(pa.int64())
    if kind is Kind.BOOLEAN:
        return array.cast(pa.int8())
    if kind is Kind.STRING:
        return array.cast(pa.large_binary() if pa.types.is_large_string(array.type) else pa.binary())
    if kind is Kind.FLOATING:
        # One zero, as members of a list are looked up by their bits.
        array = pc.add(array, one(0.0, pa.float64()))
        return pc.if_else(pc.is_nan(array), pa.nulls(1, pa.float64())[0], array)
    return array


def _margins(keys: pa.Array, type: pa.DataType) -> tuple[pa.Array, pa.Array]:  # noqa: A002
    """Gives the least and the most that a literal may mean.

    A number beside a float32 column is that number to some engines and the nearest float32 to others: one
    step of a float32 either way holds both.
    """
    if not pa.types.is_floating(type) or type.bit_width == keys.type.bit_width:
        return keys, keys
    with np.errstate(over="ignore"):
        single = _arrow.to_numpy(keys).astype(np.float32)
        below, above = (np.nextafter(single, np.float32(side)).tolist() for side in (-np.inf, np.inf))
    return literals.of(below, type), literals.of(above, type)


def _outward(bound: pa.Array, side: int) -> pa.Array:
    """Moves decimal bounds by what a double may have rounded away; null where there is no room to."""
    wide = pa.decimal256(76, bound.type.scale)
    try:
        reach = pc.multiply(pc.abs(bound.cast(pa.float64())), one(2.0**-51, pa.float64()))
        step = one(10.0**-bound.type.scale, pa.float64())
        margin = pc.add(reach, step).cast(pa.decimal256(60, bound.type.scale), safe=False)
        wider = bound.cast(pa.decimal256(60, bound.type.scale))
        moved = pc.add(wider, margin) if side > 0 else pc.subtract(wider, margin)
        for limit in (_INT64_MOST, -_INT64_MOST, -_INT64_MOST - 1):
            # Some writers cut a value that does not fit into an int64 to its limit: it may be anything beyond.
            moved = pc.if_else(pc.equal(wider, one(limit, wider.type)), pa.nulls(1, moved.type)[0], moved)
        return moved.cast(wide).cast(bound.type)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        return pa.nulls(len(bound), bound.type)


def _behind(upper: pa.Array) -> pa.Array:
    """Gives values above all that begin with upper bounds that may be cut."""
    highest, nothing = (one(end, upper.type) for end in (_HIGHEST, b""))
    return pc.binary_join_element_wise(upper, highest, nothing)


def _without_tie_breaker(upper: pa.Array) -> pa.Array:
    """Takes U+FFFD off the end: writers put it behind a cut string, yet there are higher characters."""
    if not pc.any(pc.ends_with(upper, pattern="\ufffd")).as_py():
        return upper
    return pc.replace_substring_regex(upper, pattern="(\ufffd)+$", replacement="")


def _moved(moments: pa.Array, by: int) -> pa.Array:
    """Adds to int64 values, staying at their limit instead of running over it."""
    limit, step = (one(number, pa.int64()) for number in (_INT64_MOST - by if by > 0 else -_INT64_MOST - by, by))
    inside = (pc.min_element_wise if by > 0 else pc.max_element_wise)(moments, limit, skip_nulls=False)
    return pc.add(inside, step)


def _all(rows: int, *, value: bool) -> pa.BooleanArray:
    return pc.fill_null(pa.nulls(rows, pa.bool_()), _TRUE if value else _FALSE)


def _surely(condition: pa.BooleanArray) -> pa.BooleanArray:
    return pc.fill_null(condition, _FALSE)


def _whole(array: pa.Array | pa.ChunkedArray) -> pa.Array:
    return array.combine_chunks() if isinstance(array, pa.ChunkedArray) else array
