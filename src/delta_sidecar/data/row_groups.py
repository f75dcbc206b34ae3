"""Which row groups of a data file may hold a matching row, by the statistics in its footer."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
import pyarrow as pa

from delta_sidecar._arrow import bits_of, int64s, nullable_int64s, strings
from delta_sidecar.execute.times import is_in_calendar
from delta_sidecar.predicate import Bounds, ColumnBounds, columns, may_match
from delta_sidecar.predicate.domain import Kind, kind_of
from delta_sidecar.predicate.expression import leaves

if TYPE_CHECKING:
    import pyarrow.parquet as pq

    from delta_sidecar.data.file_columns import FileColumnsFound
    from delta_sidecar.predicate import Predicate

T = TypeVar("T")

_PER_UNIT = {"s": (1_000_000, 1), "ms": (1000, 1), "us": (1, 1), "ns": (1, 1000)}


def groups_that_may_match(predicate: Predicate | None, metadata: pq.FileMetaData, found: FileColumnsFound) -> list[int]:
    """The row groups that may hold a matching row; those without rows are left out.

    Args:
        predicate: Bound, in logical names; None for all row groups.
        metadata: The file's footer.
        found: Where the table's columns are in the file.
    """
    groups = [group for group in range(metadata.num_row_groups) if metadata.row_group(group).num_rows]
    if predicate is None or not groups or not columns(predicate):
        return groups
    kept = bits_of(may_match(predicate, _FooterBounds.of(predicate, metadata, groups, found)))
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
        rows = int64s(np.array([metadata.row_group(group).num_rows for group in groups], dtype=np.int64))
        known = {}
        for leaf in leaves(predicate):
            column = leaf.column
            place = found.place(column.path)
            if place is None or column.type is None or column.path in known:
                continue
            if not place:
                # Not in the file: null in every row.
                known[column.path] = ColumnBounds(None, None, rows, rows)
                continue
            at = found.leaf(place)
            if at is not None:
                chunks = [metadata.row_group(group).column(at) for group in groups]
                known[column.path] = _counted(chunks, rows)
                if _is_ordered(metadata.schema.column(at), metadata.created_by):
                    held = found.field_at(place)
                    lower, upper = _bounds(chunks, held.type, column.type)
                    if is_in_calendar(held):
                        lower, upper = (
                            None if each is None else found.layout.times.bounds(each) for each in (lower, upper)
                        )
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
    """What is known of how many values there are."""
    statistics = [chunk.statistics if chunk.is_stats_set else None for chunk in chunks]
    counts = [found.null_count if found is not None and found.has_null_count else None for found in statistics]
    told = np.array([count is not None for count in counts])
    nulls = nullable_int64s(np.array([count or 0 for count in counts], dtype=np.int64), told)
    return ColumnBounds(None, None, nulls, rows, whole=True)


def _bounds(
    chunks: list[pq.ColumnChunkMetaData], held: pa.DataType, kind: pa.DataType
) -> tuple[pa.Array | None, pa.Array | None]:
    statistics = [chunk.statistics if chunk.is_stats_set else None for chunk in chunks]
    raw = [
        (found.min_raw, found.max_raw) if found is not None and found.has_min_max else (None, None)
        for found in statistics
    ]
    return _typed([pair[0] for pair in raw], held, kind), _typed([pair[1] for pair in raw], held, kind)


def _typed(raw: list[Any], held: pa.DataType, kind: pa.DataType) -> pa.Array | None:
    """Bounds in the table's type; None where the file's type says nothing that is sure to be right for it."""
    wanted, there = kind_of(kind), kind_of(held)
    if wanted is not there:
        return None
    if wanted is Kind.TIMESTAMP:
        # Cut as the values are.
        times, by = _PER_UNIT[held.unit]
        return _integers([None if value is None else value * times // by for value in _only(int, raw)], kind)
    if wanted in (Kind.INTEGER, Kind.DATE, Kind.BOOLEAN):
        return None if pa.types.is_unsigned_integer(held) else _integers(_only(int, raw), kind)
    if wanted is Kind.FLOATING:
        return _floats(_only(float, raw), kind)
    if wanted is Kind.STRING:
        return _texts(raw)
    if wanted is Kind.DECIMAL:
        return _decimals(_only(int, raw), held, kind)
    return None


def _only(kind: type[T], values: list[Any]) -> list[T | None]:
    return [value if isinstance(value, kind) else None for value in values]


def _floats(values: list[float | None], kind: pa.DataType) -> pa.Array:
    known = np.array([value is not None and not math.isnan(value) for value in values])
    numbers = np.array([value if is_known else 0.0 for value, is_known in zip(values, known, strict=True)])
    bits = pa.py_buffer(np.packbits(known, bitorder="little"))
    return pa.Array.from_buffers(pa.float64(), len(values), [bits, pa.py_buffer(numbers)]).cast(kind, safe=False)


def _integers(values: list[int | None], kind: pa.DataType) -> pa.Array | None:
    fits = [value is not None and -(2**63) <= value < 2**63 for value in values]
    numbers = np.array([value if is_fit else 0 for value, is_fit in zip(values, fits, strict=True)], dtype=np.int64)
    made = nullable_int64s(numbers, np.array(fits))
    if pa.types.is_timestamp(kind):
        return made.view(kind)
    if pa.types.is_date32(kind):
        return made.cast(pa.int32()).view(kind)
    try:
        return made.cast(kind)
    except pa.ArrowInvalid:
        return None


def _texts(values: list[Any]) -> pa.Array | None:
    try:
        return strings(value.decode() if isinstance(value, bytes) else value for value in values)
    except (UnicodeDecodeError, TypeError):
        return None


def _decimals(values: list[int | None], held: pa.DataType, kind: pa.DataType) -> pa.Array | None:
    texts = [None if value is None else format(Decimal(value).scaleb(-held.scale), "f") for value in values]
    try:
        return strings(texts).cast(kind)
    except pa.ArrowInvalid:
        return None
