"""The notations of a predicate: SQL text (`sql`), and filters, mappings and JSON (`filters`)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pyarrow.compute as pc

from delta_sidecar.predicate.literals import refusal
from delta_sidecar.predicate.read import filters
from delta_sidecar.predicate.tree import Predicate

_MOST_SHOWN = 200


def parse(source: str | Sequence[object] | Mapping[str, object] | pc.Expression | Predicate) -> Predicate:
    """Reads an unbound predicate.

    Args:
        source: SQL text (`"a >= 5 AND b IN ('x', 'y')"`), DNF filters (`[("a", ">=", 5)]`), a JSON mapping
            (`{"a": {">=": 5}}`) or the JSON text of one of these two, a pyarrow expression (`pc.field("a") >= 5`),
            or a predicate, which is returned as it is.

    Raises:
        PredicateError: If it cannot be read; the message points at the place.
    """
    if isinstance(source, Predicate):
        return source
    try:
        if isinstance(source, str):
            if source.lstrip()[:1] in {"{", "["}:
                return filters.read_text(source)
            from delta_sidecar.predicate.read import sql

            return sql.read(source)
        if isinstance(source, Mapping):
            return filters.read_mapping(source)
        if isinstance(source, list | tuple):
            return filters.read_dnf(source)
        if isinstance(source, pc.Expression):
            return _from_arrow(source)
    except RecursionError:
        msg = "the predicate is nested too deeply"
        raise refusal(msg, None) from None
    msg = (
        f"a predicate is a SQL text, a list of filters, a mapping or a pyarrow expression, not {type(source).__name__}"
    )
    raise refusal(msg, None)


def _from_arrow(expression: pc.Expression) -> Predicate:
    from delta_sidecar.predicate.approximate.arrow import from_arrow_expression

    translated = from_arrow_expression(expression)
    if translated.exact:
        return translated.predicate
    try:
        shown = str(expression)
    except UnicodeDecodeError:
        shown = "with bytes that are no text"
    cut = shown if len(shown) <= _MOST_SHOWN else f"{shown[:_MOST_SHOWN]}..."
    msg = (
        f"the pyarrow expression {cut} has a part that cannot be put into a predicate; "
        "write the predicate as SQL text, such as \"a >= 5 AND b IN ('x', 'y')\""
    )
    raise refusal(msg, None)
