"""Which row groups of a data file may hold a matching row, by the statistics in its footer."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from delta_sidecar._arrow import bits_of, booleans, int64s, nullable_int64s, strings
from delta_sidecar.predicate import Bounds, ColumnBounds, columns, may_match
from delta_sidecar.predicate.domain import Kind, kind_of
from delta_sidecar.predicate.expression import leaves

if TYPE_CHECKING:
    import pyarrow.parquet as pq

    from delta_sidecar.data.file_columns import FileColumnsFound
    from delta_sidecar.predicate import Predicate

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
                known[column.path] = _column_bounds(chunks, found.type_at(place), column.type, rows)
        return cls(known, len(groups))


def _column_bounds(
    chunks: list[pq.ColumnChunkMetaData], held: pa.DataType, kind: pa.DataType, rows: pa.Int64Array
) -> ColumnBounds:
    statistics = [chunk.statistics if chunk.is_stats_set else None for chunk in chunks]
    counts = [found.null_count if found is not None and found.has_null_count else None for found in statistics]
    told = np.array([count is not None for count in counts])
    nulls = nullable_int64s(np.array([count or 0 for count in counts], dtype=np.int64), told)
    has_bounds = [found is not None and found.has_min_max for found in statistics]
    is_int96 = any(chunk.physical_type == "INT96" for chunk in chunks)
    if is_int96 or not any(has_bounds):
        return ColumnBounds(None, None, nulls, rows)
    pairs = zip(statistics, has_bounds, strict=True)
    raw = [(found.min_raw, found.max_raw) if found is not None and is_there else None for found, is_there in pairs]
    lower = _typed([None if pair is None else pair[0] for pair in raw], held, kind, is_upper=False)
    upper = _typed([None if pair is None else pair[1] for pair in raw], held, kind, is_upper=True)
    return ColumnBounds(lower, upper, nulls, rows, whole=True)


def _typed(raw: list[Any], held: pa.DataType, kind: pa.DataType, *, is_upper: bool) -> pa.Array | None:
    """Bounds in the table's type; None where the file's type says nothing that is sure to be right for it."""
    wanted, there = kind_of(kind), kind_of(held)
    if wanted is not there:
        return None
    if wanted is Kind.TIMESTAMP:
        times, by = _PER_UNIT[held.unit]
        numbers = [
            None if value is None else -(-value * times // by) if is_upper else value * times // by for value in raw
        ]
        return _integers(numbers, kind)
    if wanted in (Kind.INTEGER, Kind.DATE):
        signed = not pa.types.is_unsigned_integer(held) and not pa.types.is_date64(held)
        return _integers(raw, kind) if signed else None
    if wanted is Kind.FLOATING:
        known = np.array([value is not None and value == value for value in raw])  # noqa: PLR0124 - NaN is not itself
        numbers = np.array([value if is_known else 0.0 for value, is_known in zip(raw, known, strict=True)])
        bits = pa.py_buffer(np.packbits(known, bitorder="little"))
        return pa.Array.from_buffers(pa.float64(), len(raw), [bits, pa.py_buffer(numbers)]).cast(kind, safe=False)
    if wanted is Kind.STRING:
        return _texts(raw)
    if wanted is Kind.BOOLEAN and all(isinstance(value, bool) for value in raw):
        return booleans(np.array(raw, dtype=np.bool_))
    if wanted is Kind.DECIMAL:
        return _decimals(raw, held, kind)
    return None


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


def _decimals(values: list[Any], held: pa.DataType, kind: pa.DataType) -> pa.Array | None:
    texts = []
    for value in values:
        if value is None or not isinstance(value, int | bytes):
            texts.append(None)
            continue
        unscaled = int.from_bytes(value, "big", signed=True) if isinstance(value, bytes) else value
        texts.append(format(Decimal(unscaled).scaleb(-held.scale), "f"))
    try:
        return strings(texts).cast(kind)
    except pa.ArrowInvalid:
        return None
