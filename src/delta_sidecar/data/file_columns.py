"""Where the columns of a query are in one data file, and how they come out of it."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

import pyarrow as pa

from delta_sidecar.data.conversion import Convert, FileFields, Matching, converter, nullable_type
from delta_sidecar.errors import UnreadableFileError
from delta_sidecar.execute.footer import Layout, leaf_paths
from delta_sidecar.execute.plain_types import plain_type

if TYPE_CHECKING:
    from collections.abc import Mapping

    import pyarrow.parquet as pq

    from delta_sidecar.data.columns import RowColumn, RowColumns
    from delta_sidecar.execute.times import TimeRules

Place: TypeAlias = tuple[int, ...]
"""The numbers of a field among the fields of each struct above it, from the top level down."""


@dataclass(frozen=True, slots=True)
class FileColumnsFound:
    """The columns of a query in one data file.

    Attributes:
        columns: What is wanted.
        by_name: The needed columns by the names that users see.
        held: The file's own schema.
        there: Its fields, to find a column among them.
        matching: How fields are found.
        names: The file's top-level columns that have to be read.
        converters: For each needed column the place of its file column in `names` and the way from there; None where
            it is not read from the file.
        layout: What else all files with these columns have in common.
    """

    columns: RowColumns
    by_name: Mapping[str, RowColumn]
    held: pa.Schema
    there: FileFields
    matching: Matching
    names: tuple[str, ...]
    converters: tuple[tuple[str, Convert] | None, ...]
    layout: Layout

    def place(self, path: tuple[str, ...]) -> Place | None:
        """Where a column is among the file's fields: nowhere where it is not in it. None where that is not known."""
        column = self.by_name.get(path[0])
        if column is None or column.is_partition:
            return None
        logical, physical, there, matching = column.logical, column.physical, self.there, self.matching
        place: list[int] = []
        for name in (*path[1:], None):
            at = there.find(physical)
            if at is None:
                return ()
            place.append(at)
            if name is None:
                break
            inner = logical.type.get_field_index(name) if pa.types.is_struct(logical.type) else -1
            if inner < 0 or not pa.types.is_struct(there.fields[at].type):
                return None
            matching = matching.inside(logical)
            there = there.inside(at, matching)
            logical, physical = logical.type.field(inner), physical.type.field(inner)
        return tuple(place)

    def leaf(self, place: Place) -> int | None:
        """The number of the leaf column at a place; None where it is no leaf, or that is not sure."""
        number, names, there = 0, [], self.there
        kind: pa.DataType = pa.null()
        for at in place:
            number += there.first_leaves[at]
            names.append(there.fields[at].name)
            kind = there.fields[at].type
            if pa.types.is_struct(kind):
                there = there.inside(at, self.matching)
        if pa.types.is_nested(kind):
            # A list that is nothing but repeated has its own name for a leaf, which counts its empty lists as nulls.
            return None
        # A name alone is not enough, for there may be dots in it.
        return number if self.layout.leaves[number : number + 1] == (".".join(names),) else None

    def field_at(self, place: Place) -> pa.Field:
        """A column of the file, in a plain type."""
        field = self.held.field(place[0])
        for at in place[1:]:
            field = field.type.field(at)
        return field.with_type(plain_type(field.type))


def file_columns(columns: RowColumns, metadata: pq.FileMetaData, file: str, rules: TimeRules) -> FileColumnsFound:
    """Finds the columns of a query in a data file.

    Args:
        columns: What is wanted.
        metadata: The file's footer.
        file: Its path, for messages.
        rules: How dates and timestamps are understood.

    Raises:
        UnreadableFileError: The file's columns cannot be read as the table's.
        UnsupportedFeatureError: A column is a variant in shreds.
    """
    held = metadata.schema.to_arrow_schema()
    matching = Matching(columns.by_id, columns.folds, file)
    there = FileFields(held, matching)
    repeated = {name for name, times in Counter(held.names).items() if times > 1}
    names: dict[str, None] = {}
    converters: list[tuple[str, Convert] | None] = []
    for column in columns.needed:
        at = None if column.is_partition else there.find(column.physical)
        if at is None:
            converters.append(None)
            continue
        found = _plain(there.fields[at])
        if found.name in repeated:
            msg = f"{file} has more than one column {found.name!r}: it cannot be told which one counts"
            raise UnreadableFileError(msg, file)
        names[found.name] = None
        converters.append(
            (found.name, converter(column.logical, column.physical, found, matching, column.logical.name))
        )
    by_name = {column.logical.name: column for column in columns.needed}
    layout = Layout.of(metadata, rules)
    return FileColumnsFound(columns, by_name, held, there, matching, tuple(names), tuple(converters), layout)


class KnownColumns:
    """Where the columns of a query are in the files that have been read: most files of a table are alike.

    Args:
        columns: What is wanted.
        rules: How dates and timestamps are understood.
    """

    def __init__(self, columns: RowColumns, rules: TimeRules) -> None:
        self._columns = columns
        self._rules = rules
        self._known: tuple[tuple[pq.FileMetaData, FileColumnsFound], ...] = ()

    def find(self, metadata: pq.FileMetaData, file: str) -> FileColumnsFound:
        """Finds the columns in a file, as `file_columns` does; for messages it may name another one like it."""
        for other, found in self._known:
            if _is_alike(metadata, other, found):
                return found
        return self.find_anew(metadata, file)

    def find_anew(self, metadata: pq.FileMetaData, file: str) -> FileColumnsFound:
        """Finds the columns in a file, and names this file in messages."""
        found = file_columns(self._columns, metadata, file, self._rules)
        self._known = ((metadata, found), *self._known[: _KEPT - 1])
        return found


_KEPT = 4


def _is_alike(metadata: pq.FileMetaData, other: pq.FileMetaData, found: FileColumnsFound) -> bool:
    """Whether two files have the same columns.

    Of Parquet's schemas only the leaves are compared by `equals`: what they are in is told by their paths, and by the
    names and ids in Arrow's schema.
    """
    schema = metadata.schema
    return (
        bool(other.schema.equals(schema))
        and other.metadata == metadata.metadata
        and leaf_paths(metadata) == found.layout.leaves
        and bool(schema.to_arrow_schema().equals(found.held, check_metadata=True))
    )


def missing(found: FileColumnsFound, at: int, rows: int) -> pa.Array:
    """Nulls in the place of a column that the file does not have."""
    return pa.nulls(rows, nullable_type(found.columns.needed[at].logical.type))


def _plain(field: pa.Field) -> pa.Field:
    """The field as its batches come, with the ids that tell its children apart."""
    return pa.field(field.name, _plain_with_ids(field.type), metadata=field.metadata)


def _plain_with_ids(kind: pa.DataType) -> pa.DataType:
    if pa.types.is_struct(kind):
        return pa.struct([_plain(child) for child in kind])
    if pa.types.is_map(kind):
        return pa.map_(_plain(kind.key_field).with_nullable(nullable=False), _plain(kind.item_field))
    if pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_list_view(kind):
        return pa.list_(_plain(kind.value_field))
    return plain_type(kind)
