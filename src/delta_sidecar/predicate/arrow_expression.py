"""Predicates from pyarrow expressions, such as DuckDB and DataFusion hand to the scanner of a dataset.

A node of an expression is asked one question: where is it true, or where is it false? The answer is a predicate
that is true there, and the question turns around at every NOT. So what has no notation here becomes TRUE in its
place, and the whole stays true wherever the expression is: it may keep a row too many, never one too few.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa

from delta_sidecar.errors import PredicateError
from delta_sidecar.predicate import arrow_tree
from delta_sidecar.predicate.arrow_leaves import Leaves
from delta_sidecar.predicate.arrow_tree import Call, Field, Literal, Node
from delta_sidecar.predicate.expression import TRUE
from delta_sidecar.predicate.translated import EVERYWHERE, GIVEN_UP, NOWHERE, Translated, where_all, where_any

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pyarrow.compute as pc

    from delta_sidecar.predicate.expression import Predicate

__all__ = ["Translated", "from_arrow_expression", "prunable"]


def from_arrow_expression(expression: pc.Expression) -> Translated:
    """Translates an expression into an unbound predicate; never fails.

    Without a schema, a literal is taken to be of its column's own type. Beside another type it is compared as in
    every predicate, where Arrow may round differently: `prunable` knows the types and leaves such things out.
    """
    return _translated(expression, Leaves(None))


def prunable(expression: pc.Expression, schema: pa.Schema) -> Predicate | None:
    """Gives what of an expression files can be pruned by; never fails.

    Args:
        expression: What an engine asks for. It has to be evaluated on the rows all the same.
        schema: The logical schema of the table.

    Returns:
        A bound predicate that is true wherever the expression is; None if nothing is left but TRUE.
    """
    predicate = _translated(expression, Leaves(schema)).predicate
    return None if predicate == TRUE else predicate


# What a literal, an option or an argument that is not as expected ends in.
_UNEXPECTED = (pa.ArrowException, ArithmeticError, LookupError, PredicateError, TypeError, ValueError)


def _translated(expression: pc.Expression, leaves: Leaves) -> Translated:
    try:
        root = arrow_tree.read(expression)
        return GIVEN_UP if root is None else _where(root, leaves, truth=True)
    except RecursionError:
        return GIVEN_UP


def _where(node: Node, leaves: Leaves, *, truth: bool) -> Translated:
    """Tells where a node is true, or where it is false."""
    if isinstance(node, Call) and node.function in _JOINTS:
        return _joined(node, leaves, truth=truth)
    try:
        if isinstance(node, Literal):
            return _constant(node.value, truth=truth)
        if isinstance(node, Field):
            return leaves.flag(node, truth=truth)
        if node.function == "invert":
            (inner,) = node.arguments
            return _where(inner, leaves, truth=not truth)
        if node.function == "if_else":
            condition, then, other = node.arguments
            return where_any(
                [
                    where_all([_where(condition, leaves, truth=holds), _where(result, leaves, truth=truth)])
                    for holds, result in ((True, then), (False, other))
                ]
            )
        return leaves.called(node, truth=truth)
    except _UNEXPECTED:
        return GIVEN_UP


_JOINTS = {"and_kleene", "or_kleene", "and", "or"}


def _joined(node: Call, leaves: Leaves, *, truth: bool) -> Translated:
    terms = [_where(term, leaves, truth=truth) for term in _terms(node)]
    if truth == node.function.startswith("and"):
        return where_all(terms)
    found = where_any(terms)
    # Beside a null, plain AND is null where Kleene's is false, and plain OR where Kleene's is true.
    return Translated(found.predicate, exact=found.exact and node.function.endswith("_kleene"))


def _terms(node: Call) -> Iterator[Node]:
    """Takes a chain of one joint apart, however long it is: each link is one level deeper than the one before."""
    waiting: list[Node] = [node]
    while waiting:
        inner = waiting.pop()
        if isinstance(inner, Call) and inner.function == node.function:
            waiting.extend(reversed(inner.arguments))
        else:
            yield inner


def _constant(value: pa.Scalar, *, truth: bool) -> Translated:
    if not value.is_valid:
        return NOWHERE
    if not pa.types.is_boolean(value.type):
        return GIVEN_UP
    return EVERYWHERE if value.as_py() == truth else NOWHERE
