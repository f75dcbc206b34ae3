"""The columns of a table that can have statistics, by the names that users write."""

from __future__ import annotations

import difflib
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa

from delta_sidecar.errors import OptionError
from delta_sidecar.predicate import names
from delta_sidecar.sidecar.names import column_name

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from delta_sidecar.log.schema import ColumnPath, TableSchema


@dataclass(frozen=True, slots=True)
class NamedColumn:
    """A column without fields of its own.

    Attributes:
        name: Its logical name with those above it, parted by dots; a part with a dot in it stands in back-quotes.
        physical: Its path in the log.
        type: Its type.
        has_bounds: Whether the log's bounds can be compared with its values; without, only nulls are counted.
        is_partition: Whether each file has one value of it.
    """

    name: str
    physical: ColumnPath
    type: pa.DataType
    has_bounds: bool
    is_partition: bool


def named_columns(table: TableSchema, wanted: Sequence[str] | None = None) -> tuple[NamedColumn, ...]:
    """Finds columns by their names.

    Args:
        table: The table's columns.
        wanted: Which columns, in order; the name of a struct stands for all columns in it. None for all.

    Raises:
        OptionError: There is no such column.
    """
    if isinstance(wanted, str):
        msg = f"columns is a list of names: [{wanted!r}]"
        raise OptionError(msg)
    known = _leaves(table)
    if wanted is None:
        return tuple(known.values())
    found: dict[ColumnPath, NamedColumn] = {}
    indices = tuple(_by_beginning(known, same) for same in (_as_written, _in_any_case))
    for name in wanted:
        found |= _below(name, known, indices)
    return tuple(found.values())


def _leaves(table: TableSchema) -> dict[ColumnPath, NamedColumn]:
    """The columns without fields of their own, by logical path. A list, a map and a variant are one column each."""
    bounded = table.bounded_types()
    structs = {path[:-1] for path in table.physical_names}
    partitions = frozenset(table.partition_columns)
    leaves = {}
    for path, physical in table.physical_names.items():
        if path in structs:
            continue
        is_partition = path[0] in partitions
        kind = _type_at(table.logical, path)
        has_bounds = is_partition or (physical in bounded and not pa.types.is_binary(kind))
        leaves[path] = NamedColumn(column_name(path), physical, kind, has_bounds, is_partition)
    return leaves


def _by_beginning(
    known: Mapping[ColumnPath, NamedColumn], same: Callable[[ColumnPath], ColumnPath]
) -> Callable[[ColumnPath], dict[ColumnPath, NamedColumn]]:
    """Finds the columns whose paths begin with a path, which a function makes equal or not."""
    beginning: dict[ColumnPath, list[ColumnPath]] = {}
    for path in known:
        for end in range(1, len(path) + 1):
            beginning.setdefault(same(path[:end]), []).append(path)
    return lambda path: {found: known[found] for found in beginning.get(same(path), ())}


def _below(
    name: str,
    known: Mapping[ColumnPath, NamedColumn],
    indices: Iterable[Callable[[ColumnPath], dict[ColumnPath, NamedColumn]]],
) -> dict[ColumnPath, NamedColumn]:
    for path in _readings(name):
        for beginning_with in indices:
            found = beginning_with(path)
            if len({key[: len(path)] for key in found}) == 1:
                return found
    others = [column.name for column in known.values()]
    near = difflib.get_close_matches(name, others, n=3)
    hint = f"did you mean {' or '.join(near)}?" if near else f"the columns are {', '.join(others[:10])}"
    msg = f"there is no column {name!r}; {hint}"
    raise OptionError(msg)


def _readings(name: str) -> Iterable[ColumnPath]:
    """What a text may name: a column with just this name, before a field of a struct."""
    yield (name,)
    yield names.read(name)


def _as_written(path: ColumnPath) -> ColumnPath:
    return path


def _in_any_case(path: ColumnPath) -> ColumnPath:
    return tuple(part.casefold() for part in path)


def _type_at(schema: pa.Schema, path: ColumnPath) -> pa.DataType:
    kind = schema.field(path[0]).type
    for name in path[1:]:
        kind = kind.field(name).type
    return kind
