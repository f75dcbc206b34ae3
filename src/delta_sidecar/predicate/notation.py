"""One way in for every notation."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from delta_sidecar.predicate import dnf, mapping
from delta_sidecar.predicate.expression import Predicate
from delta_sidecar.predicate.place import refusal


def parse(source: str | Sequence[object] | Mapping[str, object] | Predicate) -> Predicate:
    """Reads a predicate.

    Args:
        source: SQL text (`"a >= 5 AND b IN ('x', 'y')"`), DNF filters (`[("a", ">=", 5)]`), a JSON mapping
            (`{"a": {">=": 5}}`) or the JSON text of one of these two, or a predicate, which is given back.

    Returns:
        The unbound predicate.

    Raises:
        PredicateError: If it cannot be read; the message points at the place.
    """
    if isinstance(source, Predicate):
        return source
    try:
        if isinstance(source, str):
            if source.lstrip()[:1] in {"{", "["}:
                return mapping.read_text(source)
            from delta_sidecar.predicate import sql

            return sql.read(source)
        if isinstance(source, Mapping):
            return mapping.read(source)
        if isinstance(source, list | tuple):
            return dnf.read(source)
    except RecursionError:
        msg = "the predicate is nested too deeply"
        raise refusal(msg, None) from None
    msg = f"a predicate is a SQL text, a list of filters or a mapping, not {type(source).__name__}"
    raise refusal(msg, None)
