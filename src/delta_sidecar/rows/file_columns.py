"""The columns of a query in one data file, and the row groups that may match by their statistics."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
from msgspec import Struct
from msgspec.structs import replace

from delta_sidecar._arrow import from_numpy, strings, to_numpy
from delta_sidecar.errors import UnreadableFileError
from delta_sidecar.execute.parquet.footer import Layout, leaf_paths, plain_field, plain_type
from delta_sidecar.predicate import Bounds, ColumnBounds, columns, may_match
from delta_sidecar.predicate.literals import STEPPED, Kind, kind_of
from delta_sidecar.predicate.tree import leaves
from delta_sidecar.rows.convert import Convert, FileFields, Matching, converter

if TYPE_CHECKING:
    from collections.abc import Mapping

    import pyarrow.parquet as pq

    from delta_sidecar.predicate import Predicate
    from delta_sidecar.rows.columns import RowColumn, RowColumns


class FileColumnsFound(Struct, frozen=True):
    """The columns of a query in one data file."""

    by_name: Mapping[str, RowColumn]  # the needed columns by the names that users see
    held: pa.Schema  # the file's own
    there: FileFields  # the fields of that
    matching: Matching
    names: tuple[str, ...]  # the file's top-level columns that have to be read
    converters: tuple[tuple[str, Convert] | None, ...]  # of each needed column; None where the file does not have it
    layout: Layout

    def leaf(self, path: tuple[str, ...]) -> tuple[int | None, pa.DataType] | None:
        """The number and the plain type of the leaf column of a path; no number where the file lacks it.

        None where it is no leaf, or that is not sure.
        """
        column = self.by_name.get(path[0])
        if column is None or column.is_partition:
            return None
        logical, physical, there, matching = column.logical, column.physical, self.there, self.matching
        number, names, inside = 0, [], list(path[1:])
        while True:
            at = there.find(physical)
            if at is None:
                return None, pa.null()
            held = there.fields[at]
            number += there.first_leaves[at]
            names.append(held.name)
            if not inside:
                break
            inner = logical.type.get_field_index(inside.pop(0)) if pa.types.is_struct(logical.type) else -1
            if inner < 0 or not pa.types.is_struct(held.type):
                return None
            matching = matching.inside(logical)
            there = there.inside(at, matching)
            logical, physical = logical.type.field(inner), physical.type.field(inner)
        # A list that is nothing but repeated has its own name for a leaf, which counts its empty lists as nulls. And a
        # name alone is not enough, for there may be dots in it.
        if pa.types.is_nested(held.type) or self.layout.leaves[number : number + 1] != (".".join(names),):
            return None
        return number, plain_type(held.type)


def file_columns(columns: RowColumns, metadata: pq.FileMetaData, file: str) -> FileColumnsFound:
    """Finds the columns of a query in a data file, whose path is for messages.

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
        found = plain_field(there.fields[at], ids=True)
        if found.name in repeated:
            msg = f"{file} has more than one column {found.name!r}: it cannot be told which one counts"
            raise UnreadableFileError(msg, file)
        names[found.name] = None
        converters.append(
            (found.name, converter(column.logical, column.physical, found, matching, column.logical.name))
        )
    by_name = {column.logical.name: column for column in columns.needed}
    layout = Layout.of(metadata, strict=True)
    return FileColumnsFound(by_name, held, there, matching, tuple(names), tuple(converters), layout)


class KnownColumns:
    """The columns of a query in the files that have been read: most files of a table have the same ones."""

    def __init__(self, columns: RowColumns) -> None:
        self._columns = columns
        self._known: tuple[tuple[pq.FileMetaData, FileColumnsFound], ...] = ()

    def find(self, metadata: pq.FileMetaData, file: str) -> FileColumnsFound:
        """Finds the columns in a file, as `file_columns` does; for messages it may name another one like it."""
        for other, found in self._known:
            if _is_same(metadata, other, found):
                return found
        return self.find_anew(metadata, file)

    def find_anew(self, metadata: pq.FileMetaData, file: str) -> FileColumnsFound:
        """Finds the columns in a file, and names this file in messages."""
        found = file_columns(self._columns, metadata, file)
        self._known = ((metadata, found), *self._known[: _KEPT - 1])
        return found


_KEPT = 4


def _is_same(metadata: pq.FileMetaData, other: pq.FileMetaData, found: FileColumnsFound) -> bool:
    """Whether two files have the same columns.

    Of Parquet's schemas only the leaves are compared by `equals`: the groups that they are in show in their paths, and
    in the names and ids of Arrow's schema.
    """
    schema = metadata.schema
    return (
        bool(other.schema.equals(schema))
        and other.metadata == metadata.metadata
        and leaf_paths(metadata) == found.layout.leaves
        and bool(schema.to_arrow_schema().equals(found.held, check_metadata=True))
    )


# Row groups of a data file that may hold a matching row, by the statistics in its footer.


_BOUNDED = STEPPED | {Kind.FLOATING, Kind.BOOLEAN, Kind.STRING}
_PER_UNIT = {"s": (1_000_000, 1), "ms": (1000, 1), "us": (1, 1), "ns": (1, 1000)}


def groups_that_may_match(predicate: Predicate | None, metadata: pq.FileMetaData, found: FileColumnsFound) -> list[int]:
    """The row groups that may hold a row which matches a bound predicate; those without rows are left out."""
    groups = [group for group in range(metadata.num_row_groups) if metadata.row_group(group).num_rows]
    if predicate is None or not groups or not columns(predicate):
        return groups
    kept = to_numpy(may_match(predicate, _FooterBounds.of(predicate, metadata, groups, found)))
    return [group for group, is_kept in zip(groups, kept.tolist(), strict=True) if is_kept]


@dataclass(frozen=True, slots=True)
class _FooterBounds(Bounds):
    known: dict[tuple[str, ...], ColumnBounds]
    groups: int

    @property
    def num_rows(self) -> int:
        return self.groups

    def column(self, path: tuple[str, ...]) -> ColumnBounds | None:
        return self.known.get(path)

    @classmethod
    def of(
        cls, predicate: Predicate, metadata: pq.FileMetaData, groups: list[int], found: FileColumnsFound
    ) -> _FooterBounds:
        rows = from_numpy(np.array([metadata.row_group(group).num_rows for group in groups], dtype=np.int64))
        known = {}
        for leaf in leaves(predicate):
            column = leaf.column
            leaf_column = found.leaf(column.path)
            if leaf_column is None or column.type is None or column.path in known:
                continue
            at, held = leaf_column
            if at is None:
                # Not in the file: null in every row.
                known[column.path] = ColumnBounds(None, None, rows, rows)
                continue
            chunks = [metadata.row_group(group).column(at) for group in groups]
            known[column.path] = _counted(chunks, rows)
            if _is_ordered(metadata.schema.column(at), metadata.created_by):
                lower, upper = found.layout.times.bounds(*_bounds(chunks, held, column.type), held)
                known[column.path] = replace(known[column.path], lower=lower, upper=upper)
        return cls(known, len(groups))


def _is_ordered(column: pq.ColumnSchema, created_by: str | None) -> bool:
    """Whether the bounds of a column are in the order of its values.

    Older writers compared bytes as if they had a sign, which Arrow knows of texts but not of decimals, and only if the
    writer says who it is. Nobody agrees on the order of the oldest timestamps.
    """
    if column.physical_type == "INT96":
        return False
    if column.physical_type not in ("BYTE_ARRAY", "FIXED_LEN_BYTE_ARRAY"):
        return True
    return bool(created_by) and column.logical_type.type != "DECIMAL"


def _counted(chunks: list[pq.ColumnChunkMetaData], rows: pa.Int64Array) -> ColumnBounds:
    """Counts of values and nulls, without bounds."""
    counts = [
        found.null_count if (found := _statistics(chunk)) is not None and found.has_null_count else None
        for chunk in chunks
    ]
    known = np.array([count is not None for count in counts])
    nulls = from_numpy(np.array([count or 0 for count in counts], dtype=np.int64), known)
    return ColumnBounds(None, None, nulls, rows, whole=True)


def _bounds(
    chunks: list[pq.ColumnChunkMetaData], held: pa.DataType, kind: pa.DataType
) -> tuple[pa.Array | None, pa.Array | None]:
    pairs = [
        (found.min_raw, found.max_raw)
        if (found := _statistics(chunk)) is not None and found.has_min_max
        else (None, None)
        for chunk in chunks
    ]
    return _typed([lower for lower, _ in pairs], held, kind), _typed([upper for _, upper in pairs], held, kind)


def _statistics(chunk: pq.ColumnChunkMetaData) -> pq.Statistics | None:
    return chunk.statistics if chunk.is_stats_set else None


def _typed(raw: list[Any], held: pa.DataType, kind: pa.DataType) -> pa.Array | None:
    """Bounds in the table's type; None where the file's type says nothing that is sure to be right for it."""
    own = kind_of(kind)
    if own not in _BOUNDED or own is not kind_of(held) or pa.types.is_unsigned_integer(held):
        return None
    try:
        texts = strings(_text(value, own, held) for value in raw)
        number = {Kind.TIMESTAMP: pa.int64(), Kind.DATE: pa.int32()}.get(own)
        return texts.cast(kind) if number is None else texts.cast(number).view(kind)
    except (pa.ArrowInvalid, UnicodeDecodeError, TypeError):
        return None


def _text(value: object, own: Kind, held: pa.DataType) -> Any:  # noqa: ANN401 - what is no text after all is refused
    if own is Kind.STRING:
        return value.decode() if isinstance(value, bytes) else value
    if own is Kind.FLOATING:
        return repr(value) if isinstance(value, float) and not math.isnan(value) else None
    if not isinstance(value, int):
        return None
    if own is Kind.TIMESTAMP:
        # Cut as the values are.
        times, by = _PER_UNIT[held.unit]
        return str(value * times // by)
    return str(int(value)) if own is not Kind.DECIMAL else format(Decimal(value).scaleb(-held.scale), "f")
