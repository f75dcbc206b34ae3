"""Which rows match: `matches`, with SQL's three-valued logic over Arrow columns.

Floats compare as IEEE says and Arrow does: NaN is equal to nothing, not to itself either, and neither above
nor below anything. Strings compare by their bytes, timestamps as moments.
"""

from __future__ import annotations

import math
from functools import reduce
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from delta_sidecar import _arrow
from delta_sidecar.errors import PredicateError
from delta_sidecar.predicate import arrays, like, names
from delta_sidecar.predicate.expression import (
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
    from collections.abc import Callable

_COMPARE: dict[Operator, Callable[[pa.ChunkedArray, pa.Scalar], pa.ChunkedArray]] = {
    "=": pc.equal,
    "!=": pc.not_equal,
    "<": pc.less,
    "<=": pc.less_equal,
    ">": pc.greater,
    ">=": pc.greater_equal,
}


def matches(predicate: Predicate, table: pa.Table | pa.RecordBatch) -> pa.BooleanArray:
    """Tells which rows of a table match.

    Args:
        predicate: A bound predicate.
        table: Rows with the columns that it names.

    Returns:
        One boolean per row, without nulls: what is unknown does not match.

    Raises:
        PredicateError: If a column is not there or not of the type that the predicate is bound to.
    """
    return _arrow.booleans(_arrow.bits_of(_truth(predicate, table)))


def _truth(node: Predicate, table: pa.Table | pa.RecordBatch) -> pa.Array | pa.ChunkedArray:
    if isinstance(node, And | Or):
        join = pc.and_kleene if isinstance(node, And) else pc.or_kleene
        return reduce(join, (_truth(term, table) for term in node.terms))
    if isinstance(node, Not):
        return pc.invert(_truth(node.term, table))
    if isinstance(node, Constant):
        if node.value is None:
            return pa.nulls(table.num_rows, pa.bool_())
        return _arrow.booleans(np.full(table.num_rows, node.value))
    if isinstance(node, IsNull):
        data = _column(node.column, table)
        return pc.is_valid(data) if node.negated else pc.is_null(data)
    if isinstance(node, Comparison):
        return _COMPARE[node.op](_typed(node.column, table), arrays.one(node.value, node.column.type))
    if isinstance(node, In):
        return _among(node, _typed(node.column, table))
    if isinstance(node, Like):
        return like.fits(_typed(node.column, table), node.pattern)
    msg = f"not a predicate: {node!r}"
    raise PredicateError(msg)


def _among(node: In, data: pa.Array | pa.ChunkedArray) -> pa.Array | pa.ChunkedArray:
    members = [value for value in node.values if not (isinstance(value, float) and math.isnan(value))]
    if pa.types.is_floating(node.column.type) and 0.0 in members:
        # Arrow looks a member up by its bits, and both zeros are equal.
        members += [0.0, -0.0]
    found = pc.is_in(data, value_set=arrays.of(members, node.column.type))
    return pc.if_else(pc.is_valid(data), found, _arrow.scalar(None, pa.bool_()))


def _typed(column: Column, table: pa.Table | pa.RecordBatch) -> pa.Array | pa.ChunkedArray:
    if column.type is None:
        msg = f"the predicate on {column} has to be bound to a schema first"
        raise PredicateError(msg)
    data = _column(column, table)
    wanted = arrays.plain_type(column.type)
    if data.type == wanted:
        return data
    try:
        return data.cast(wanted)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        msg = f"column {column} has type {data.type}, and the predicate is bound to {column.type}: {error}"
        raise PredicateError(msg) from None


def _column(column: Column, table: pa.Table | pa.RecordBatch) -> pa.Array | pa.ChunkedArray:
    first, *inner = column.path
    data = table.column(_position(first, table.schema.names, column))
    steps: list[int] = []
    inside = data.type
    for name in inner:
        if not isinstance(inside, pa.StructType):
            msg = f"column {column} is not in the data: {inside} has no fields"
            raise PredicateError(msg)
        fields = list(inside)
        steps.append(_position(name, [field.name for field in fields], column))
        inside = fields[steps[-1]].type
    return pc.struct_field(data, steps) if steps else data


def _position(name: str, among: list[str], column: Column) -> int:
    for matching in (
        [i for i, other in enumerate(among) if other == name],
        [i for i, other in enumerate(among) if other.casefold() == name.casefold()],
    ):
        if len(matching) == 1:
            return matching[0]
    listed = ", ".join(names.written((other,)) for other in among[:10])
    msg = f"column {column} is not in the data, or more than once; it has {listed}"
    raise PredicateError(msg)
