"""Bounds of columns, known without reading them: as they were written, and ready to be compared."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from delta_sidecar import _arrow
from delta_sidecar.predicate import literals as arrays
from delta_sidecar.predicate.literals import PER_SECOND, Kind, kind_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from delta_sidecar.predicate.literals import Value

    Mask = NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class ColumnBounds:
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


@dataclass(frozen=True, slots=True)
class KnownBounds:
    """`Bounds` by column, as they are known."""

    num_rows: int
    columns: Mapping[tuple[str, ...], ColumnBounds | None]

    def column(self, path: tuple[str, ...]) -> ColumnBounds | None:
        """The bounds of a column."""
        return self.columns.get(path)


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
HIGHEST = b"\xff" * 16

# Clocks were once that far apart, on both sides of where a day began.
_ZONE_HOURS = 16
_INT64_MOST = 2**63 - 1
_DOUBLE_DIGITS = 15

# In these kinds a bound is a value, unrounded: where both bounds agree, there is one value only.
_UNROUNDED = frozenset({Kind.INTEGER, Kind.DECIMAL, Kind.DATE, Kind.BOOLEAN})

# From the kind of a bound to the kind of a column, where the order of values stays what it is.
_CONVERSIONS = frozenset(
    {
        (Kind.INTEGER, Kind.DECIMAL),
        (Kind.INTEGER, Kind.FLOATING),
        (Kind.DATE, Kind.TIMESTAMP),
    }
)


@dataclass(frozen=True, slots=True)
class ValueRange:
    """Bounds of one column, ready to be compared; null where unknown, None if unknown everywhere."""

    has_values: Mask  # there may be a row that is not null
    has_nulls: Mask  # there may be a null
    lower: pa.Array | None = None  # no value lies below
    upper: pa.Array | None = None  # no value lies above, unless `cut`
    cut: bool = False  # `upper` may be a prefix only, so that values that begin with it may lie above
    single: Mask | None = None  # every value equals `lower`
    values: pa.Array | None = None  # the values themselves, typed as the column, where bounds are exact
    may_hide_nan: bool = False  # there may be NaN outside of the bounds


def range_of(bounds: ColumnBounds | None, rows: int, type: pa.DataType) -> ValueRange:  # noqa: A002 - the Arrow word
    """Makes the bounds of a column ready, for the type that it has in the predicate."""
    everywhere = np.ones(rows, dtype=np.bool_)
    kind = kind_of(type)
    hiding = kind is Kind.FLOATING
    if bounds is None:
        return ValueRange(everywhere, everywhere, may_hide_nan=hiding)
    if bounds.exact:
        return _exact(bounds, rows, type)
    has_values, has_nulls = _counted(bounds, rows)
    lower = _keys(_typed(bounds.lower, type), kind)
    upper = _keys(_typed(bounds.upper, type), kind)
    if bounds.whole:
        return ValueRange(has_values, has_nulls, lower, upper, may_hide_nan=hiding)
    single = None
    if kind in _UNROUNDED and lower is not None and upper is not None:
        single = _arrow.bits_of(pc.equal(lower, upper))
    if kind is Kind.DECIMAL and type.precision > _DOUBLE_DIGITS:
        lower, upper, single = _outward(lower, -1), _outward(upper, 1), None
    if upper is not None and kind is Kind.TIMESTAMP:
        upper = _moved(upper, max(PER_SECOND[type.unit] // 1000, 1))
    if upper is not None and kind is Kind.STRING:
        upper = _without_tie_breaker(upper)
    cut = kind in {Kind.STRING, Kind.BINARY}
    return ValueRange(has_values, has_nulls, lower, upper, cut, single, may_hide_nan=hiding)


def keys(values: Sequence[Value], type: pa.DataType) -> pa.Array:  # noqa: A002
    """Makes literals of a column comparable with its ranges."""
    made = _keys(arrays.of(values, type), kind_of(type))
    if made is None:
        msg = f"no literals of type {type}"
        raise TypeError(msg)
    return made


def raised(upper: pa.Array) -> pa.Array:
    """Gives values above all that begin with upper bounds that may be cut."""
    nothing, highest = _arrow.scalar(b"", upper.type), _arrow.scalar(HIGHEST, upper.type)
    return pc.binary_join_element_wise(upper, highest, nothing)


def margins(literals: pa.Array, type: pa.DataType) -> tuple[pa.Array, pa.Array]:  # noqa: A002
    """Gives the least and the most that a literal may mean.

    A number beside a float32 column is that number to some engines and the nearest float32 to others: one
    step of a float32 either way holds both.
    """
    if not pa.types.is_floating(type) or type.bit_width == literals.type.bit_width:
        return literals, literals
    with np.errstate(over="ignore"):
        single = _arrow.numbers_of(literals).astype(np.float32)
        around = [np.nextafter(single, np.float32(side)).astype(np.float64) for side in (-np.inf, np.inf)]
    below, above = (pa.Array.from_buffers(pa.float64(), len(each), [None, pa.py_buffer(each)]) for each in around)
    return below, above


def _exact(bounds: ColumnBounds, rows: int, type: pa.DataType) -> ValueRange:  # noqa: A002
    kind = kind_of(type)
    partition_values = _whole(bounds.lower)
    if partition_values is None:
        return ValueRange(np.ones(rows, dtype=np.bool_), np.ones(rows, dtype=np.bool_))
    valid = _arrow.valid_mask(partition_values)
    values = _typed(partition_values, type)
    lower = upper = _keys(values, kind)
    if lower is None:
        return ValueRange(valid, ~valid)
    single = _arrow.valid_mask(lower)
    if pa.types.is_floating(type) and type.bit_width < lower.type.bit_width:
        single = np.zeros(rows, dtype=np.bool_)
    zoneless = _whole(bounds.zoneless)
    if kind is Kind.TIMESTAMP and zoneless is not None:
        unsure = pc.fill_null(zoneless, _arrow.scalar(value=True, type=pa.bool_()))
        reach = _ZONE_HOURS * 3600 * PER_SECOND[type.unit]
        lower = pc.if_else(unsure, _moved(lower, -reach), lower)
        upper = pc.if_else(unsure, _moved(upper, reach), upper)
        single &= ~_arrow.bits_of(unsure)
    return ValueRange(valid, ~valid, lower, upper, single=single, values=values)


def _outward(bound: pa.Array | None, side: int) -> pa.Array | None:
    """Moves decimal bounds by what a double may have rounded away; None where there is no room to."""
    if bound is None:
        return None
    wide = pa.decimal256(76, bound.type.scale)
    try:
        reach = pc.multiply(pc.abs(bound.cast(pa.float64())), _arrow.scalar(2.0**-51, pa.float64()))
        step = _arrow.scalar(10.0**-bound.type.scale, pa.float64())
        margin = pc.add(reach, step).cast(pa.decimal256(60, bound.type.scale), safe=False)
        wider = bound.cast(pa.decimal256(60, bound.type.scale))
        moved = pc.add(wider, margin) if side > 0 else pc.subtract(wider, margin)
        for limit in (_INT64_MOST, -_INT64_MOST, -_INT64_MOST - 1):
            # Some writers cut a value that does not fit into an int64 to its limit: it may be anything beyond.
            cut = pc.equal(wider, _arrow.scalar(limit, wider.type))
            moved = pc.if_else(cut, _arrow.scalar(None, moved.type), moved)
        return moved.cast(wide).cast(bound.type)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        return None


def _counted(bounds: ColumnBounds, rows: int) -> tuple[Mask, Mask]:
    """Tells where there may be values and where there may be nulls.

    Only two counts say something: no nulls at all, and nothing but nulls. Both mean the same for wide bounds,
    so `tight` is not looked at. A file that says it is empty is not believed at all.
    """
    nulls, nulls_known = _counts(bounds.null_count, rows)
    records, records_known = _counts(bounds.num_records, rows)
    absurd = (nulls_known & (nulls < 0)) | (records_known & ((records <= 0) | (nulls_known & (nulls > records))))
    nulls_known &= ~absurd
    records_known &= ~absurd
    return ~(nulls_known & records_known & (nulls == records)), ~(nulls_known & (nulls == 0))


def _counts(counts: pa.Array | None, rows: int) -> tuple[NDArray[np.int64], Mask]:
    counts = _whole(counts)
    if counts is None or not pa.types.is_integer(counts.type):
        return np.zeros(rows, dtype=np.int64), np.zeros(rows, dtype=np.bool_)
    if counts.type != pa.int64():
        counts = counts.cast(pa.int64())
    return _arrow.numbers_of(counts), _arrow.valid_mask(counts)


def _typed(array: pa.Array | None, type: pa.DataType) -> pa.Array | None:  # noqa: A002
    """Converts bounds to the plain type of the column; None where that could change a value."""
    array = _whole(array)
    if array is None:
        return None
    plain = arrays.plain_type(type)
    if array.type == plain:
        return array
    source = kind_of(array.type.value_type if pa.types.is_dictionary(array.type) else array.type)
    target = kind_of(plain)
    if source is not target and (source, target) not in _CONVERSIONS:
        return None
    zoned = target is Kind.TIMESTAMP and plain.tz is not None
    if target is Kind.TIMESTAMP and zoned != (source is Kind.TIMESTAMP and array.type.tz is not None):
        return None
    try:
        if pa.types.is_dictionary(array.type):
            array = array.dictionary_decode()
        if (source, target) == (Kind.INTEGER, Kind.DECIMAL):
            array = array.cast(pa.decimal256(76, plain.scale))
        return array.cast(plain)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        return None


def _keys(array: pa.Array | None, kind: Kind) -> pa.Array | None:
    """Gives typed values in the layout that they are compared in."""
    if array is None:
        return None
    if kind is Kind.DATE:
        return array.view(pa.int32())
    if kind is Kind.TIMESTAMP:
        return array.view(pa.int64())
    if kind is Kind.BOOLEAN:
        return array.cast(pa.int8())
    if kind is Kind.STRING:
        return array.cast(pa.large_binary() if pa.types.is_large_string(array.type) else pa.binary())
    if kind is Kind.FLOATING:
        array = array.cast(pa.float64())
        return pc.if_else(pc.is_nan(array), _arrow.scalar(None, pa.float64()), array)
    return array if kind in {Kind.INTEGER, Kind.DECIMAL, Kind.BINARY} else None


def _without_tie_breaker(upper: pa.Array) -> pa.Array:
    """Takes U+FFFD off the end: writers put it behind a cut string, yet there are higher characters."""
    if not _ends_in(upper, "\ufffd".encode()[-1]):
        return upper
    return pc.replace_substring_regex(upper, pattern="(\ufffd)+$", replacement="")


def _ends_in(array: pa.Array, byte: int) -> bool:
    """Tells whether some value ends in a byte; to look at the last bytes alone is fast."""
    _, offsets, data = array.buffers()
    if not len(array) or data is None or data.size == 0:
        return False
    width = np.int64 if pa.types.is_large_binary(array.type) else np.int32
    ends = np.frombuffer(offsets, dtype=width)[array.offset + 1 : array.offset + 1 + len(array)]
    return bool((np.frombuffer(data, dtype=np.uint8)[ends - 1] == byte).any())


def _moved(moments: pa.Array, by: int) -> pa.Array:
    """Adds to int64 values, staying at their limit instead of running over it."""
    limit = _arrow.scalar(_INT64_MOST - by if by > 0 else -_INT64_MOST - by, pa.int64())
    inside = (pc.min_element_wise if by > 0 else pc.max_element_wise)(moments, limit, skip_nulls=False)
    return pc.add(inside, _arrow.scalar(by, pa.int64()))


def _whole(array: pa.Array | pa.ChunkedArray | None) -> pa.Array | None:
    return array.combine_chunks() if isinstance(array, pa.ChunkedArray) else array
