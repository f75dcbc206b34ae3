"""Filters as DataFusion means them, said in Arrow's own terms.

DataFusion hands a filter over as an expression of pyarrow and leaves out every row for which that is not true. But the
two do not mean the same everywhere:

- NaN equals NaN in DataFusion, and is above every number; in Arrow it equals nothing, and nothing is above or below it.
- `x IN (...)` is null in DataFusion where `x` is null, which NOT leaves as it is; in Arrow it is false.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from delta_sidecar._arrow import scalar, strings
from delta_sidecar.errors import PredicateError
from delta_sidecar.predicate import arrow_tree
from delta_sidecar.predicate.arrow_tree import Call, Field, Literal

if TYPE_CHECKING:
    from delta_sidecar.predicate.arrow_tree import Node

Compare = Callable[[Any, Any], Any]

_COMPARISONS: dict[str, Compare] = {
    "equal": operator.eq,
    "not_equal": operator.ne,
    "less": operator.lt,
    "less_equal": operator.le,
    "greater": operator.gt,
    "greater_equal": operator.ge,
}
_PLAIN: dict[str, Callable[..., Any]] = {
    "and_kleene": operator.and_,
    "or_kleene": operator.or_,
    "invert": operator.invert,
    "is_null": lambda inner: inner.is_null(),
    "is_valid": lambda inner: inner.is_valid(),
}


def as_meant(filter_: pc.Expression | pa.Scalar, schema: pa.Schema) -> pc.Expression:
    """Gives an expression that is true in Arrow where a filter is true in DataFusion.

    Args:
        filter_: As DataFusion hands it over: a scalar where it is the same for all rows.
        schema: The columns.

    Raises:
        PredicateError: There is something in it that is not known here.
    """
    if isinstance(filter_, pa.Scalar):
        return pc.scalar(filter_)
    root = arrow_tree.read(filter_)
    if root is None:
        msg = f"DataFusion hands over a filter that cannot be taken apart: {filter_}"
        raise PredicateError(msg)
    # Without recursion: a chain of many ORs is as deep as it is long.
    made: list[pc.Expression] = []
    waiting: list[tuple[Node, bool]] = [(root, False)]
    while waiting:
        node, is_ready = waiting.pop()
        if isinstance(node, Field):
            made.append(pc.field(*node.path))
        elif isinstance(node, Literal):
            made.append(pc.scalar(_plain(node.value)))
        elif is_ready:
            first = len(made) - len(node.arguments)
            arguments = made[first:]
            made[first:] = [_called(node, arguments, schema)]
        else:
            waiting.append((node, True))
            waiting.extend((argument, False) for argument in reversed(node.arguments))
    return made[0]


def _called(node: Call, arguments: list[pc.Expression], schema: pa.Schema) -> pc.Expression:
    if node.function in _COMPARISONS:
        is_floating = any(_is_floating(argument, schema) for argument in node.arguments)
        return (_compared_floats if is_floating else _compared)(node, *arguments)
    if node.function in _PLAIN:
        return _PLAIN[node.function](*arguments)
    if node.function == "is_in":
        (inner,) = arguments
        found = inner.isin(node.option("value_set").values)
        return pc.if_else(inner.is_valid(), found, pc.scalar(scalar(None, pa.bool_())))
    msg = f"DataFusion hands over a filter with {node.function}, which is not known here"
    raise PredicateError(msg)


def _compared(node: Call, left: pc.Expression, right: pc.Expression) -> pc.Expression:
    return _COMPARISONS[node.function](left, right)


def _compared_floats(node: Call, left: pc.Expression, right: pc.Expression) -> pc.Expression:
    """Compares numbers of which one may be NaN.

    Beside a constant that is none, as little is added as can be: files are pruned by what stays a plain comparison.
    """
    said = _COMPARISONS[node.function](left, right)
    first, second = node.arguments
    if _is_number(second) or _is_number(first):
        column, above = (left, "greater") if _is_number(second) else (right, "less")
        return said | pc.is_nan(column) if node.function.startswith(above) else said
    left_nan, right_nan = pc.is_nan(left), pc.is_nan(right)
    if node.function == "equal":
        return said | (left_nan & right_nan)
    if node.function == "not_equal":
        return ~((left == right) | (left_nan & right_nan))
    if node.function == "greater":
        return said | (left_nan & ~right_nan)
    if node.function == "greater_equal":
        return said | (left_nan & right.is_valid())
    if node.function == "less":
        return said | (right_nan & ~left_nan)
    return said | (right_nan & left.is_valid())


def _is_floating(node: Node, schema: pa.Schema) -> bool:
    if isinstance(node, Literal):
        return bool(pa.types.is_floating(node.value.type))
    if not isinstance(node, Field):
        return False
    kind = schema.field(node.path[0]).type
    for name in node.path[1:]:
        kind = kind.field(name).type
    return bool(pa.types.is_floating(kind))


def _is_number(node: Node) -> bool:
    """Whether a node is a constant that is neither null nor NaN."""
    return isinstance(node, Literal) and bool(node.value.is_valid) and not math.isnan(node.value.as_py())


def _plain(value: pa.Scalar) -> pa.Scalar:
    """A constant in a layout that columns of files have."""
    if pa.types.is_string_view(value.type):
        return strings([value.as_py()])[0]
    return value
