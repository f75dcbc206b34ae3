"""Which rows a query keeps, and what of that can be decided from bounds alone."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from delta_sidecar.data.conversion import filtered
from delta_sidecar.predicate import Predicate, all_of, arrow_tree, bind, columns, matches
from delta_sidecar.predicate.arrow_expression import prunable

if TYPE_CHECKING:
    import pyarrow as pa
    import pyarrow.compute as pc

    from delta_sidecar.data.file_rows import RowFilter
    from delta_sidecar.data.query import RowQuery


@dataclass(frozen=True, slots=True)
class Selection:
    """Which rows are kept.

    Attributes:
        predicate: Rows that match this; None for all.
        expression: Rows that match this too, by Arrow's own rules; None for all.
        prunes: What files are pruned by; not bound to the table's columns yet.
        row_groups: What row groups are pruned by, once it is bound.
        keeps: Leaves out rows; None to keep all, or where it is not bound yet.
        looked_at: Names of the top-level columns that `keeps` and `row_groups` need.
    """

    predicate: Predicate | None = None
    expression: pc.Expression | None = None
    prunes: Predicate | None = None
    row_groups: Predicate | None = None
    keeps: RowFilter | None = None
    looked_at: tuple[str, ...] = ()

    def bound(self, schema: pa.Schema) -> Selection:
        """The same for a table's columns.

        Raises:
            PredicateError: The predicate does not fit the table.
        """
        exact = None if self.predicate is None else bind(self.predicate, schema)
        prunes = None if self.prunes is None else bind(self.prunes, schema)
        names = {path[0] for path in columns(exact)} if exact is not None else set()
        order: tuple[str, ...] = ()
        if self.expression is not None:
            found = _names_in(self.expression, schema)
            names |= set(schema.names) if found is None else found
            order = tuple(schema.names) if found is None else ()
        return replace(
            self,
            row_groups=prunes,
            keeps=None if exact is None and self.expression is None else _Keeps(exact, self.expression, order),
            looked_at=tuple(name for name in schema.names if name in names),
        )


def select_rows(query: RowQuery, schema: pa.Schema | None) -> Selection:
    """Makes the selection of a query.

    Args:
        query: What is asked for.
        schema: The table's columns, where they are known; without them an expression of Arrow prunes nothing.
    """
    known = None if query.expression is None or schema is None else prunable(query.expression, schema)
    terms = [term for term in (query.parsed_predicate, known, query.prunes) if term is not None]
    return Selection(query.parsed_predicate, query.expression, all_of(terms) if terms else None)


@dataclass(frozen=True, slots=True)
class _Keeps:
    """Leaves out rows. Where there is an order of columns, the expression may name them by their places in it."""

    predicate: Predicate | None
    expression: pc.Expression | None
    order: tuple[str, ...] = ()

    def __call__(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        if self.predicate is not None:
            batch = filtered(batch, matches(self.predicate, batch))
        if self.expression is None:
            return batch
        if self.order:
            return batch.select(list(self.order)).filter(self.expression).select(batch.schema.names)
        return batch.filter(self.expression)


def _names_in(expression: pc.Expression, schema: pa.Schema) -> set[str] | None:
    """Names of the top-level columns that an expression needs; None where it does not tell."""
    root = arrow_tree.read(expression)
    if root is None:
        return None
    names, waiting = set(), [root]
    while waiting:
        node = waiting.pop()
        if isinstance(node, arrow_tree.Field):
            names.add(node.path[0])
        elif isinstance(node, arrow_tree.Call):
            waiting.extend(node.arguments)
    # Arrow evaluates nothing on rows that have no columns.
    return names or set(schema.names[:1])
