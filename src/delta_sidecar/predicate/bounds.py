"""What is known of the values of columns without reading them."""

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
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from delta_sidecar.predicate.literals import Value

    Mask = NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class ColumnBounds:
    """What is known of one column, one row for each file (or row group, or whatever may be dropped).

    Bounds are as they were written; `may_match` widens them where their writers round or cut.

    Attributes:
        lower: The lowest values, typed as the column; null where unknown.
        upper: The highest values, likewise.
        null_count: How many rows are null, int64; null where unknown.
        num_records: How many rows there are, int64; null where unknown.
        tight: Whether the bounds are of the rows that are there, or wider; absent or null is true.
        whole: Whether the bounds are values that are there, neither rounded nor cut.
        exact: Whether this is a partition value: `lower` is the value of every row, and null there *is* null.
        zoneless: Which exact timestamps were written without a zone, and so may lie 16 hours either way.
    """

    lower: pa.Array | None
    upper: pa.Array | None
    null_count: pa.Array | None
    num_records: pa.Array | None
    tight: pa.Array | None = None
    whole: bool = False
    exact: bool = False
    zoneless: pa.Array | None = None


class Bounds(Protocol):
    """What is known of the columns of some files."""

    @property
    def num_rows(self) -> int:
        """The number of files."""

    def column(self, path: tuple[str, ...]) -> ColumnBounds | None:
        """Gives what is known of a column; None: nothing."""


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


# What a cut bound is followed by to be above all that begins with it, but for binaries that hold as much.
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
    """What is known of one column, ready to be compared.

    Attributes:
        has_values: Where there may be a row that is not null.
        has_nulls: Where there may be a null.
        lower: What no value lies below; null where unknown, None if unknown everywhere.
        upper: What no value lies above, widened, unless `cut`; likewise.
        cut: Whether `upper` may be a prefix only, so that what begins with it may lie above.
        single: Where every value there is equals `lower`.
        values: The values themselves, typed as the column, where bounds are exact.
        may_hide_nan: Whether there may be NaN outside of the bounds.
    """

    has_values: Mask
    has_nulls: Mask
    lower: pa.Array | None = None
    upper: pa.Array | None = None
    cut: bool = False
    single: Mask | None = None
    values: pa.Array | None = None
    may_hide_nan: bool = False


def range_of(bounds: ColumnBounds | None, rows: int, type: pa.DataType) -> ValueRange:  # noqa: A002 - the Arrow word
    """Makes the bounds of a column ready.

    Args:
        bounds: The bounds as written; None if nothing is known.
        rows: The number of files.
        type: The type of the column in the predicate.
    """
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
    """Gives, for upper bounds that may be cut, what lies above all that begins with them."""
    nothing, highest = _arrow.scalar(b"", upper.type), _arrow.scalar(HIGHEST, upper.type)
    return pc.binary_join_element_wise(upper, highest, nothing)


def margins(literals: pa.Array, type: pa.DataType) -> tuple[pa.Array, pa.Array]:  # noqa: A002
    """Gives what a literal may mean at least and at most.

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
    given = _whole(bounds.lower)
    if given is None:
        return ValueRange(np.ones(rows, dtype=np.bool_), np.ones(rows, dtype=np.bool_))
    valid = _arrow.valid_mask(given)
    values = _typed(given, type)
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
            # What does not fit into an int64 some writers cut to its limit: the value may be anything beyond.
            cut = pc.equal(wider, _arrow.scalar(limit, wider.type))
            moved = pc.if_else(cut, _arrow.scalar(None, moved.type), moved)
        return moved.cast(wide).cast(bound.type)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        return None


def _counted(bounds: ColumnBounds, rows: int) -> tuple[Mask, Mask]:
    """Tells where there may be values and where there may be nulls.

    Only two counts say something: no nulls at all, and nothing but nulls. Both mean the same for wide bounds,
    so `tight` is not looked at. A file that says it is empty is taken at its word in nothing.
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
    wanted = arrays.plain_type(type)
    if array.type == wanted:
        return array
    source = kind_of(array.type.value_type if pa.types.is_dictionary(array.type) else array.type)
    target = kind_of(wanted)
    if source is not target and (source, target) not in _CONVERSIONS:
        return None
    zoned = target is Kind.TIMESTAMP and wanted.tz is not None
    if target is Kind.TIMESTAMP and zoned != (source is Kind.TIMESTAMP and array.type.tz is not None):
        return None
    try:
        if pa.types.is_dictionary(array.type):
            array = array.dictionary_decode()
        if (source, target) == (Kind.INTEGER, Kind.DECIMAL):
            array = array.cast(pa.decimal256(76, wanted.scale))
        return array.cast(wanted)
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
    """Whether some value ends in a byte; values without one, which are most, are found by their last byte alone."""
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
