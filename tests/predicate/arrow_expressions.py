"""Random pyarrow expressions over the made-up files."""

# ruff: noqa: ANN401 - literals of every type

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from hypothesis import strategies as st
from tests.predicate.files import TYPES, VALUES

UTC = dt.UTC
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


def own_literals(path: tuple[str, ...]) -> st.SearchStrategy[pa.Scalar]:
    """Literals of the column's own type."""
    return (st.none() | VALUES[path]).map(lambda value: _scalar(value, TYPES[path]))


def any_literals(path: tuple[str, ...]) -> st.SearchStrategy[pa.Scalar]:
    """Literals of the column's own type, and of others that Arrow casts, rounds or refuses."""
    name = path[-1]
    others = (
        _STRANGE_NUMBERS
        if name in _NUMBERS
        else _STRANGE_MOMENTS
        if name in _MOMENTS
        else _STRANGE_TEXTS
        if name in _TEXTS
        else [_scalar(1, pa.int64()), _scalar("true", pa.string()), pa.scalar(None)]
    )
    return own_literals(path) | st.sampled_from(others)


def _cast_targets(path: tuple[str, ...]) -> list[pa.DataType]:
    name = path[-1]
    if name in _NUMBERS:
        return [pa.int8(), pa.int64(), pa.float32(), pa.float64(), pa.decimal128(30, 4), pa.string()]
    if name in _MOMENTS:
        return [pa.timestamp("us"), pa.timestamp("s"), pa.timestamp("us", "UTC"), pa.date32(), pa.int64()]
    return [pa.large_string(), pa.binary(), pa.string()]


@st.composite
def _leaves(draw: st.DrawFn, *, strange: bool) -> pc.Expression:
    path = draw(_PATHS)
    column = field(path)
    literals = any_literals(path) if strange else own_literals(path)
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
        column = column.cast(draw(st.sampled_from(_cast_targets(path))), safe=draw(st.booleans()))
    literal = pc.scalar(draw(literals))
    sides = (literal, column) if draw(st.booleans()) else (column, literal)
    return draw(st.sampled_from(_OPERATORS))(*sides)


def _membership(draw: st.DrawFn, column: pc.Expression, literals: st.SearchStrategy[pa.Scalar]) -> pc.Expression:
    listed = draw(st.lists(literals, max_size=4))
    kind = listed[0].type if listed else pa.null()
    values = [scalar for scalar in listed if scalar.type == kind]
    if pa.types.is_dictionary(kind):
        kind, values = pa.string(), []
    found = pa.array([_count(scalar) for scalar in values], pa.int64()).view(kind) if pa.types.is_timestamp(kind) else (
        pa.array([scalar.as_py() for scalar in values], kind)
    )
    return pc.is_in(column, value_set=found, skip_nulls=draw(st.booleans()))


def _count(scalar: pa.Scalar) -> int | None:
    return scalar.value if scalar.is_valid else None


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
            st.builds(lambda term, other: pc.coalesce(term, other), inner, inner),
        ),
        max_leaves=5,
    )
