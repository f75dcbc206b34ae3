"""Which rows a query keeps, and what of that can be decided from bounds alone."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import pyarrow as pa

from delta_sidecar.data.columns import row_schema
from delta_sidecar.data.conversion import filtered
from delta_sidecar.errors import PredicateError, UnsupportedFeatureError
from delta_sidecar.log.schema import COLLATIONS
from delta_sidecar.predicate import Predicate, all_of, arrow_tree, bind, columns, matches
from delta_sidecar.predicate.arrow_expression import prunable
from delta_sidecar.predicate.expression import IsNull, leaves

if TYPE_CHECKING:
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
        prunes_groups: What row groups are pruned by; likewise.
        row_groups: What row groups are pruned by, once it is bound.
        keeps: Leaves out rows; None to keep all, or where it is not bound yet.
        looked_at: Names of the top-level columns that `keeps` and `row_groups` need.
    """

    predicate: Predicate | None = None
    expression: pc.Expression | None = None
    prunes: Predicate | None = None
    prunes_groups: Predicate | None = None
    row_groups: Predicate | None = None
    keeps: RowFilter | None = None
    looked_at: tuple[str, ...] = ()

    def bound(self, schema: pa.Schema) -> Selection:
        """The same for a table's columns.

        Raises:
            PredicateError: The predicate does not fit the table.
            UnsupportedFeatureError: It compares texts whose order is not that of their bytes.
        """
        exact = None if self.predicate is None else bind(self.predicate, schema)
        if exact is not None:
            check_collations(exact, schema)
        prunes = exact if self.prunes_groups is self.predicate else None
        if prunes is None and self.prunes_groups is not None:
            prunes = bind(self.prunes_groups, schema)
        names = {path[0] for path in columns(exact)} if exact is not None else set()
        order: tuple[str, ...] = ()
        if self.expression is not None:
            _check_expression(self.expression, schema)
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
    groups = [term for term in (query.parsed_predicate, known, query.prunes) if term is not None]
    files = groups if query.prunes_files is None else [*groups, query.prunes_files]
    return Selection(
        query.parsed_predicate,
        query.expression,
        prunes=all_of(files) if files else None,
        prunes_groups=all_of(groups) if groups else None,
    )


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
        try:
            if self.order:
                return batch.select(list(self.order)).filter(self.expression).select(batch.schema.names)
            return batch.filter(self.expression)
        except MemoryError:
            # Arrow's is one of its own, and says nothing of the filter.
            raise
        except pa.ArrowException as error:
            msg = f"the filter {self.expression} cannot be evaluated: {error}"
            raise PredicateError(msg) from error


def _check_expression(expression: pc.Expression, schema: pa.Schema) -> None:
    """Refuses an expression that does not fit the table, before any row is there to try it on."""
    made = row_schema(schema)
    # Some mistakes show only where there is a row.
    row = pa.Table.from_arrays([pa.nulls(1, field.type) for field in made], schema=made)
    try:
        row.filter(expression)
    except (pa.ArrowException, TypeError) as error:
        msg = f"the filter {expression} does not fit the table: {error}"
        raise PredicateError(msg) from error


def check_collations(predicate: Predicate, schema: pa.Schema) -> None:
    """Refuses to compare texts that are to be compared by other rules than byte by byte.

    Args:
        predicate: Bound.
        schema: The table's columns under the names that users see.

    Raises:
        UnsupportedFeatureError: It compares a column that has a collation.
    """
    for leaf in leaves(predicate):
        collation = None if isinstance(leaf, IsNull) else _collation(leaf.column.path, schema)
        if collation is not None:
            msg = (
                f"column {leaf.column} has the collation {collation} (collations), and byte by byte other values are "
                "equal or less: leave it out of the predicate, and filter in an engine that knows the collation"
            )
            raise UnsupportedFeatureError(msg, ("collations",))


def _collation(path: tuple[str, ...], schema: pa.Schema) -> str | None:
    """The collation of a column of texts; None where they are compared byte by byte."""
    field = schema.field(path[0])
    for name in path[1:]:
        field = field.type.field(name)
    told = (field.metadata or {}).get(COLLATIONS.encode())
    if told is None or not pa.types.is_string(field.type):
        return None
    named = json.loads(told)
    # A column that was renamed may be there under its old name.
    found = str((named.get(field.name) or next(iter(named.values()), None)) if isinstance(named, dict) else named)
    return None if found.upper().removeprefix("SPARK.") == "UTF8_BINARY" else found


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
