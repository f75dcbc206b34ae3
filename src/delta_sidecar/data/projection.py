"""The columns of a dataset's scan: some by name, or some that are made of others by expressions of Arrow."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc

from delta_sidecar.data.columns import row_columns
from delta_sidecar.data.conversion import struct_of
from delta_sidecar.errors import OptionError
from delta_sidecar.predicate import arrow_tree

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from delta_sidecar.log.schema import TableSchema

Columns: TypeAlias = "Sequence[str] | Mapping[str, pc.Expression] | None"
"""Names of columns, or expressions by the name of what they make; None for all columns."""


@dataclass(frozen=True, slots=True)
class Projection:
    """What comes out of a scan.

    Attributes:
        names: The columns that are read, in order; None for all.
        schema: What comes out.
        made: What is made of them, by name; None where they come out as they are.
    """

    names: tuple[str, ...] | None
    schema: pa.Schema
    made: Mapping[str, pc.Expression] | None = None

    def of(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """A batch of the columns that are read, as it comes out."""
        if self.made is None:
            return batch if len(self.schema) == batch.num_columns else batch.select(self.schema.names)
        if not batch.num_columns:
            # Constants alone: Arrow would forget how many rows there are.
            batch = pa.RecordBatch.from_arrays([pa.nulls(batch.num_rows)], names=["rows"])
        table = _made(pa.Table.from_batches([batch]), self.made).combine_chunks()
        arrays = [column.chunk(0) if column.num_chunks else pa.nulls(0, column.type) for column in table.columns]
        return struct_of(arrays, self.schema, batch.num_rows)


def project(columns: Columns, table: TableSchema) -> Projection:
    """Finds out what a scan of some columns reads and gives.

    Args:
        columns: What is asked for.
        table: The table's columns.

    Raises:
        OptionError: There is no such column.
        UnsupportedFeatureError: A column is of a type that is not known here.
    """
    if isinstance(columns, Mapping):
        return _projection(columns, table)
    if columns is not None and not isinstance(columns, str):
        for name in columns:
            if not isinstance(name, str):
                msg = f"columns is a list of names, or expressions by name: {{'x': {name}}}"
                raise OptionError(msg)
    if columns is None or isinstance(columns, str):
        return Projection(None, row_columns(table, columns).schema)
    # Each is read once, however often it comes out.
    once = {name: at for at, name in enumerate(dict.fromkeys(columns))}
    found = row_columns(table, tuple(once)).schema
    return Projection(tuple(found.names), pa.schema([found.field(once[name]) for name in columns]))


def top_level_names(expressions: Iterable[pc.Expression], schema: pa.Schema) -> tuple[str, ...]:
    """Names of the top-level columns that expressions need: all, where one of them does not tell."""
    names: set[str] = set()
    for expression in expressions:
        root = arrow_tree.read(expression)
        if root is None:
            return tuple(schema.names)
        waiting = [root]
        while waiting:
            node = waiting.pop()
            if isinstance(node, arrow_tree.Field):
                names.add(node.path[0])
            elif isinstance(node, arrow_tree.Call):
                waiting.extend(node.arguments)
    return (*(name for name in schema.names if name in names), *sorted(names - set(schema.names)))


def _projection(made: Mapping[str, pc.Expression], table: TableSchema) -> Projection:
    for name, expression in made.items():
        if not isinstance(expression, pc.Expression):
            msg = f"column {name!r} is to be made of {expression!r}, which is no expression of pyarrow"
            raise OptionError(msg)
    found = row_columns(table, top_level_names(made.values(), table.logical))
    try:
        schema = _made(found.schema.empty_table(), made).schema if made else pa.schema([])
    except pa.ArrowException as error:
        msg = f"these columns cannot be made of the table's: {error}"
        raise OptionError(msg) from error
    return Projection(tuple(found.schema.names), schema, dict(made))


def _made(table: pa.Table, made: Mapping[str, pc.Expression]) -> pa.Table:
    from pyarrow import acero

    steps = [
        acero.Declaration("table_source", acero.TableSourceNodeOptions(table)),
        acero.Declaration("project", acero.ProjectNodeOptions(list(made.values()), list(made))),
    ]
    # One thread keeps the order of the rows.
    return acero.Declaration.from_sequence(steps).to_table(use_threads=False)
