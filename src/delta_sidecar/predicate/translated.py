"""What a foreign expression comes to as a predicate: true wherever the expression is, perhaps elsewhere too.

Only where something is true is asked, so TRUE may stand for whatever has no notation here, and NULL is as good as
FALSE. A NOT has to be carried down to the leaves first: the opposite of too much is too little.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from delta_sidecar.predicate.expression import FALSE, TRUE, UNKNOWN, Predicate, all_of, any_of

if TYPE_CHECKING:
    from collections.abc import Sequence


@dataclass(frozen=True, slots=True)
class Translated:
    """A predicate made from a foreign expression.

    Attributes:
        predicate: True wherever the expression is true.
        exact: Whether it is true nowhere else.
    """

    predicate: Predicate
    exact: bool


GIVEN_UP = Translated(TRUE, exact=False)
EVERYWHERE = Translated(TRUE, exact=True)
NOWHERE = Translated(FALSE, exact=True)


def where_all(terms: Sequence[Translated]) -> Translated:
    """Where all of some terms are true."""
    if any(_is_never(term) for term in terms):
        return NOWHERE
    kept = [term.predicate for term in terms if term.predicate != TRUE]
    return Translated(all_of(kept), exact=all(term.exact for term in terms))


def where_any(terms: Sequence[Translated]) -> Translated:
    """Where any of some terms is true."""
    if EVERYWHERE in terms:
        return EVERYWHERE
    if GIVEN_UP in terms:
        return GIVEN_UP
    kept = [term for term in terms if not _is_never(term)]
    return Translated(any_of(term.predicate for term in kept), exact=all(term.exact for term in kept))


def _is_never(term: Translated) -> bool:
    return term.predicate in {FALSE, UNKNOWN}
