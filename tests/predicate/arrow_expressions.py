"""Pyarrow expressions over the made-up files: random ones, and one leaf for every literal that may be odd."""

# ruff: noqa: ANN401 - literals of every type

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc
from hypothesis import strategies as st
from tests.predicate.files import TYPES, VALUES

if TYPE_CHECKING:
    from collections.abc import Iterator

_OPERATORS = [pc.equal, pc.not_equal, pc.less, pc.less_equal, pc.greater, pc.greater_equal]
_PATHS = st.sampled_from(sorted(TYPES))
_NUMBERS = {"i", "l", "x", "f", "f4", "dec", "wide"}
_MOMENTS = {"ts", "tn", "d"}
_TEXTS = {"s", "y", "bin"}


def field(path: tuple[str, ...]) -> pc.Expression:
    return pc.field(*path)


def _scalar(value: Any, type_: pa.DataType) -> pa.Scalar:
    return pa.scalar(value, type_)


_STRANGE_NUMBERS = [
    *(_scalar(number, pa.int64()) for number in (0, 1, 2**24 + 1, 2**53 + 1, -(2**63))),
    *(_scalar(number, pa.int8()) for number in (-1, 3)),
    _scalar(2**64 - 1, pa.uint64()),
    *(_scalar(number, pa.float64()) for number in (0.1, 0.7, 2.5, 1e300, -1e20, 1e-50, -0.0)),
    *(_scalar(number, pa.float64()) for number in (float("nan"), float("inf"), -float("inf"))),
    *(_scalar(number, pa.float32()) for number in (0.1, 3.0, float("nan"))),
    _scalar(1.5, pa.float16()),
    *(pa.scalar(Decimal(text)) for text in ("0.7", "2.500", "1e-20", "100000000000000000000.0001")),
    _scalar(Decimal(3), pa.decimal256(50, 1)),
]
_MIDNIGHT = dt.datetime(2026, 2, 8)  # noqa: DTZ001 - with a zone and without one
_STRANGE_MOMENTS = [
    *(_scalar(_MIDNIGHT, pa.timestamp(unit)) for unit in ("s", "ms", "us", "ns")),
    *(_scalar(_MIDNIGHT, pa.timestamp(unit, zone)) for unit in ("s", "us", "ns") for zone in ("UTC", "Asia/Tokyo")),
    *(_scalar(1_770_508_800_000_000_001, pa.timestamp("ns", zone)) for zone in (None, "UTC")),
    _scalar(_MIDNIGHT.replace(microsecond=5), pa.timestamp("us")),
    *(_scalar(dt.date(2026, 2, 8), type_) for type_ in (pa.date32(), pa.date64())),
    _scalar(86_400_001, pa.date64()),
    _scalar(2**62, pa.timestamp("s")),
    _scalar("2026-02-08", pa.string()),
    _scalar(1_770_508_800_000_000, pa.int64()),
    _scalar(dt.time(1), pa.time64("us")),
]
_STRANGE_TEXTS = [
    *(_scalar("a", type_) for type_ in (pa.string(), pa.large_string(), pa.string_view())),
    *(_scalar(b"a", type_) for type_ in (pa.binary(), pa.large_binary(), pa.binary(1), pa.binary_view())),
    _scalar("b", pa.string()).cast(pa.dictionary(pa.int32(), pa.string())),
    _scalar(5, pa.int64()),
]


_OTHERS: dict[str, list[pa.Scalar]] = {
    **dict.fromkeys(_NUMBERS, _STRANGE_NUMBERS),
    **dict.fromkeys(_MOMENTS, _STRANGE_MOMENTS),
    **dict.fromkeys(_TEXTS, _STRANGE_TEXTS),
    "b": [_scalar(1, pa.int64()), _scalar("true", pa.string()), pa.scalar(None)],
}
_TARGETS: dict[str, tuple[pa.DataType, ...]] = {
    **dict.fromkeys(_NUMBERS, (pa.int8(), pa.int64(), pa.float32(), pa.float64(), pa.decimal128(30, 4), pa.string())),
    **dict.fromkeys(
        _MOMENTS, (pa.timestamp("us"), pa.timestamp("s"), pa.timestamp("us", "UTC"), pa.date32(), pa.int64())
    ),
    **dict.fromkeys(_TEXTS, (pa.large_string(), pa.binary(), pa.string())),
    "b": (pa.int64(),),
}


def leaves_about(path: tuple[str, ...], values: list[pa.Scalar]) -> Iterator[pc.Expression]:
    """Every kind of leaf with every literal: of the column's own values, and of other types."""
    column = field(path)
    yield from (column.is_null(), column.is_valid(), column.is_null(nan_is_null=True))
    for literal in [*_OTHERS[path[-1]], *values]:
        for operator in _OPERATORS:
            yield operator(column, pc.scalar(literal))
        for target in _TARGETS[path[-1]]:
            yield column.cast(target) < pc.scalar(literal)
            yield column.cast(target) == pc.scalar(literal)
        yield pc.is_in(column, value_set=_array([literal]))


@st.composite
def _leaves(draw: st.DrawFn, *, strange: bool) -> pc.Expression:
    path = draw(_PATHS)
    column = field(path)
    literals = (st.none() | VALUES[path]).map(lambda value: _scalar(value, TYPES[path]))
    if strange:
        literals |= st.sampled_from(_OTHERS[path[-1]])
    form = draw(st.integers(0, 11))
    if form == 0:
        return draw(st.sampled_from([column.is_null(), column.is_valid(), column.is_null(nan_is_null=True)]))
    if form == 1:
        return pc.scalar(draw(st.sampled_from([True, False, pa.scalar(None, pa.bool_())])))
    if form == 2:
        return draw(st.sampled_from([field(("b",)), pc.field("l") == pc.field("i"), pc.field("l") + 1 > 2]))
    if form <= 5:
        return _membership(draw, column, literals)
    if form <= 7 and path[-1] in {"s", "y"}:
        return _like(draw, column)
    if form == 8 and strange:
        column = column.cast(draw(st.sampled_from(_TARGETS[path[-1]])), safe=draw(st.booleans()))
    literal = pc.scalar(draw(literals))
    sides = (literal, column) if draw(st.booleans()) else (column, literal)
    return draw(st.sampled_from(_OPERATORS))(*sides)


def _membership(draw: st.DrawFn, column: pc.Expression, literals: st.SearchStrategy[pa.Scalar]) -> pc.Expression:
    listed = draw(st.lists(literals, max_size=4))
    of_one_type = [scalar for scalar in listed if scalar.type == listed[0].type]
    return pc.is_in(column, value_set=_array(of_one_type), skip_nulls=draw(st.booleans()))


def _array(scalars: list[pa.Scalar]) -> pa.Array:
    """Scalars of one type as an array; Python's datetime has no nanoseconds."""
    if not scalars:
        return pa.nulls(0)
    return pa.concat_arrays([pa.repeat(scalar, 1) for scalar in scalars])


def _like(draw: st.DrawFn, column: pc.Expression) -> pc.Expression:
    pattern = draw(st.text("abAé%_\\\n", max_size=4))
    ignore = draw(st.integers(0, 3)) == 0
    return draw(st.sampled_from([pc.match_like, pc.starts_with, pc.ends_with, pc.match_substring]))(
        column, pattern=pattern, ignore_case=ignore
    )


def expressions(*, strange: bool) -> st.SearchStrategy[pc.Expression]:
    """Expressions whose literals are of the column's own type or, if strange, of others too."""

    def called(name: str, *arguments: pc.Expression) -> pc.Expression:
        return pc.Expression._call(name, list(arguments))

    return st.recursive(
        _leaves(strange=strange),
        lambda inner: st.one_of(
            inner.map(lambda term: ~term),
            st.builds(lambda left, right: left & right, inner, inner),
            st.builds(lambda left, right: left | right, inner, inner),
            st.builds(called, st.sampled_from(["and", "or", "xor", "and_not_kleene"]), inner, inner),
            st.builds(pc.if_else, inner, inner, inner),
            st.builds(pc.coalesce, inner, inner),
        ),
        max_leaves=5,
    )
