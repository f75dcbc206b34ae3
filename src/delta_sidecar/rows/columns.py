"""The columns that a query for rows needs, under the names and types that they come out with."""

from __future__ import annotations

import difflib
from collections import Counter
from collections.abc import Mapping
from typing import TYPE_CHECKING, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc
from msgspec import Struct

from delta_sidecar.errors import OptionError, UnsupportedFeatureError
from delta_sidecar.execute.parquet.footer import plain_field
from delta_sidecar.log.schema import UNKNOWN_TYPE
from delta_sidecar.predicate.approximate import arrow_tree

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from delta_sidecar.log.schema import TableSchema


class RowColumn(Struct, frozen=True):
    """A top-level column that is needed."""

    logical: pa.Field  # as users see it
    physical: pa.Field  # the same under the names in files
    is_partition: bool  # its values are in the log, one for each file


class RowColumns(Struct, frozen=True):
    """The columns of a query for rows."""

    needed: tuple[RowColumn, ...]  # those that only a filter needs come last
    selected: int  # so many of them come out
    by_id: bool  # they are found in files by the ids of column mapping
    folds: bool  # a name in another case is as good: not where files have generated names

    @property
    def schema(self) -> pa.Schema:
        """The schema of the rows that come out."""
        return row_schema(column.logical for column in self.needed[: self.selected])

    @property
    def needed_schema(self) -> pa.Schema:
        """The schema of the rows that a filter looks at."""
        return row_schema(column.logical for column in self.needed)


def nullable_type(kind: pa.DataType) -> pa.DataType:
    """The same type with nulls allowed everywhere inside, and without metadata.

    A file that was written before a column was added has none of its values, also where the schema says not null today.
    """
    if pa.types.is_struct(kind):
        return pa.struct([pa.field(field.name, nullable_type(field.type)) for field in kind])
    if pa.types.is_list(kind):
        return pa.list_(pa.field("element", nullable_type(kind.value_type)))
    if pa.types.is_map(kind):
        return pa.map_(nullable_type(kind.key_type), nullable_type(kind.item_type))
    return kind


def struct_of(columns: Iterable[pa.Array], schema: pa.Schema, rows: int) -> pa.RecordBatch:
    """A batch of columns; one without columns still has its number of rows."""
    arrays = list(columns)
    if arrays:
        return pa.RecordBatch.from_arrays(arrays, schema=schema)
    empty = pa.Array.from_buffers(pa.struct([]), rows, [None], null_count=0)
    return pa.RecordBatch.from_struct_array(empty)


def row_columns(table: TableSchema, columns: Sequence[str] | None, looked_at: Iterable[str] = ()) -> RowColumns:
    """Finds the columns of a query by their names, in order, None for all; a filter needs those that it looks at.

    Raises:
        OptionError: There is no such column, or it is named twice.
        UnsupportedFeatureError: A column is of a type that is not known here, or came to it by a change that is not.
    """
    if table.unknown_changes:
        msg = (
            "types of columns were changed in ways that are not known here (typeWidening): "
            f"{', '.join(map(str, table.unknown_changes))}. Upgrade delta-sidecar, or read it with its own writer"
        )
        raise UnsupportedFeatureError(msg, ("typeWidening",))
    if isinstance(columns, str):
        msg = f"columns is a list of names: [{columns!r}]; a condition on rows is a predicate"
        raise OptionError(msg)
    names = table.logical.names if columns is None else _found(columns, table.logical)
    asked = Counter(names)
    if len(asked) < len(names):
        msg = f"a column is asked for twice: {', '.join(sorted(name for name in asked if asked[name] > 1))}"
        raise OptionError(msg)
    partitions = frozenset(table.partition_columns)
    needed = tuple(_column(name, table, partitions) for name in dict.fromkeys((*names, *looked_at)))
    return RowColumns(needed, len(names), table.column_mapping == "id", table.column_mapping == "none")


def row_schema(fields: Iterable[pa.Field]) -> pa.Schema:
    """The schema of rows: every column may be null, for older files may lack it; Delta's own notes are left out."""
    return pa.schema([pa.field(field.name, nullable_type(field.type)) for field in fields])


def as_declared(rows: pa.Table, declared: pa.Schema) -> pa.Table:
    """Rows whose columns are declared as the table's schema has them: not null where that says so and no row is."""
    fields = [plain_field(declared.field(name)) for name in rows.column_names]
    kept = [
        field if field == own or all(_fits(chunk, field) for chunk in column.chunks) else own
        for own, field, column in zip(rows.schema, fields, rows.columns, strict=True)
    ]
    schema = pa.schema(kept)
    if schema == rows.schema:
        return rows
    return pa.Table.from_batches([pa.record_batch(_Redeclared(batch, schema)) for batch in rows.to_batches()], schema)


class _Redeclared(Struct, frozen=True):
    """A batch under a schema that differs in what may be null: casts of Arrow refuse that inside of structs."""

    batch: pa.RecordBatch
    schema: pa.Schema

    def __arrow_c_array__(self, requested_schema: object | None = None) -> tuple[object, object]:
        del requested_schema
        _, array = self.batch.__arrow_c_array__()
        return self.schema.__arrow_c_schema__(), array


def _fits(array: pa.Array, field: pa.Field) -> bool:
    """Whether no value is null that must not be."""
    kind = field.type
    if not field.nullable and array.null_count:
        return False
    if pa.types.is_struct(kind):
        there = array.filter(array.is_valid()) if array.null_count else array
        return all(_fits(there.field(at), inner) for at, inner in enumerate(kind))
    if pa.types.is_list(kind):
        return _fits(array.flatten(), kind.value_field)
    return not pa.types.is_map(kind) or _fits(array.items, kind.item_field)


def _column(name: str, table: TableSchema, partitions: frozenset[str]) -> RowColumn:
    at = table.logical.get_field_index(name)
    logical = table.logical.field(at)
    unknown = _unknown_type(logical)
    if unknown is not None:
        msg = (
            f"column {name} has the type {unknown.decode()}, which is not known here: leave the column out, or upgrade "
            "delta-sidecar"
        )
        raise UnsupportedFeatureError(msg, (unknown.decode(),))
    return RowColumn(logical, table.physical.field(at), name in partitions)


def _unknown_type(field: pa.Field) -> bytes | None:
    """The name of an unknown type of a field, or inside of it at any depth; None where there is none."""
    kind = field.type
    inside = [kind.field(at) for at in range(kind.num_fields)] if pa.types.is_nested(kind) else []
    return (field.metadata or {}).get(UNKNOWN_TYPE) or next(filter(None, map(_unknown_type, inside)), None)


def _found(names: Sequence[str], schema: pa.Schema) -> list[str]:
    own, folded, found = frozenset(schema.names), dict[str, list[str]](), []
    for name in schema.names:
        folded.setdefault(name.casefold(), []).append(name)
    for name in names:
        if not isinstance(name, str):
            msg = f"columns are given by their names, not by {name!r}"
            raise OptionError(msg)
        same = [name] if name in own else folded.get(name.casefold(), [])
        if len(same) != 1:
            near = difflib.get_close_matches(name, schema.names, n=3)
            hint = f"did you mean {' or '.join(near)}?" if near else f"the columns are {', '.join(schema.names[:10])}"
            msg = f"there is no column {name!r}; {hint}"
            raise OptionError(msg)
        found += same
    return found


# The columns of a dataset's scan: some by name, or some that are made of others by expressions of Arrow.


Columns: TypeAlias = "Sequence[str] | Mapping[str, pc.Expression] | None"
"""Names of columns, or expressions by the name of what they make; None for all columns."""


class Projection(Struct, frozen=True):
    """The columns of a dataset's scan."""

    names: tuple[str, ...] | None  # the columns that are read, in order; None for all
    schema: pa.Schema  # of what comes out
    made: Mapping[str, pc.Expression] | None = None  # expressions by name; None where columns come out as they are

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
    """Finds the columns that a scan reads and returns.

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


def expression_columns(expression: pc.Expression) -> set[str] | None:
    """Names of the top-level columns that an expression of Arrow needs; None where it cannot be read."""
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
    return names


def _projection(made: Mapping[str, pc.Expression], table: TableSchema) -> Projection:
    for name, expression in made.items():
        if not isinstance(expression, pc.Expression):
            msg = f"column {name!r} is to be made of {expression!r}, which is no expression of pyarrow"
            raise OptionError(msg)
    needed = [expression_columns(expression) for expression in made.values()]
    known = table.logical.names
    names = set(known) if None in needed else {name for each in needed if each is not None for name in each}
    found = row_columns(table, (*(name for name in known if name in names), *sorted(names - set(known))))
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
