"""Which row groups of a metadata sidecar may hold a file that matches, by what its manifest says of them.

The bucket's range counts, the range of the column that rows are sorted by, and the summaries of other columns. Segments
of a large manifest are tested in the same way: they say the same things of more rows.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from decimal import Decimal
from typing import TYPE_CHECKING, TypeAlias

import numpy as np
import pyarrow as pa

from delta_sidecar._arrow import bits_of, int64s, nullable_int64s, strings
from delta_sidecar.log.partition_values import read_partition_column
from delta_sidecar.log.stats import parse_statistics
from delta_sidecar.predicate import Bounds, ColumnBounds, may_match
from delta_sidecar.sidecar.names import column_name

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from delta_sidecar.log.schema import ColumnPath
    from delta_sidecar.replay.pruning import Pruning
    from delta_sidecar.replay.sidecar_layout import SidecarLayout
    from delta_sidecar.sidecar.groups import JsonScalar, RowGroups, Segments

    Summed: TypeAlias = RowGroups | Segments


def may_hold(layout: SidecarLayout, groups: Summed, pruning: Pruning | None) -> NDArray[np.bool_]:
    """Which row groups, or segments, may hold a file that matches."""
    if pruning is None or not groups:
        return np.ones(len(groups), dtype=np.bool_)
    return bits_of(may_match(pruning.predicate, _GroupBounds(layout, groups, pruning)))


def matching(layout: SidecarLayout, groups: Summed, pruning: Pruning | None) -> list[int]:
    """Numbers of the row groups, or segments, that may hold a file that matches."""
    found: list[int] = np.flatnonzero(may_hold(layout, groups, pruning)).tolist()
    return found


@dataclass(frozen=True, slots=True)
class _GroupBounds(Bounds):
    """The bounds of row groups."""

    layout: SidecarLayout
    groups: Summed
    pruning: Pruning

    @property
    def num_rows(self) -> int:
        return len(self.groups)

    def column(self, path: ColumnPath) -> ColumnBounds | None:
        # What was the lowest of a type is not the lowest of another one, which the column may have now.
        if path in self.pruning.partitions:
            kind = self.pruning.partitions[path]
            first = self.layout.order.sort[0] if self.layout.order.sort else None
            if first is None or first.path != path or first.type != kind:
                return None
            return self._buckets(kind) if first.kind == "bucket" else self._sorted_by(kind)
        kind = self.pruning.statistics.get(path)
        return None if kind is None or self.layout.order.summaries.get(path) != kind else self._summary(path, kind)

    def _buckets(self, kind: pa.DataType) -> ColumnBounds | None:
        told = np.array(self.groups.odd_buckets, dtype=np.int64) == 0
        if told.all():
            lower, upper = self.groups.event_hour_min, self.groups.event_hour_max
        else:
            # With a text among them that is no value nobody can tell what its file holds.
            lower, upper = (
                [text if is_told else None for text, is_told in zip(texts, told.tolist(), strict=True)]
                for texts in (self.groups.event_hour_min, self.groups.event_hour_max)
            )
        counts = nullable_int64s(np.array(self.groups.null_buckets, dtype=np.int64), told)
        return _between(lower, upper, kind, counts, self._rows())

    def _sorted_by(self, kind: pa.DataType) -> ColumnBounds | None:
        """The range of the first column of the order; nulls come first, so that a first value means there are none."""
        # A segment may hold the end of the incomplete rows and the start of the complete ones.
        keys = [(group.first_key, group.last_key) for group in self.groups]
        known = [first[0] == last[0] and first[1] is not None for first, last in keys]
        lower, upper = (
            [_text(key[1]) if is_known else None for key, is_known in zip(side, known, strict=True)]
            for side in ([first for first, _ in keys], [last for _, last in keys])
        )
        counts = nullable_int64s(np.zeros(len(known), dtype=np.int64), np.array(known, dtype=np.bool_))
        return _between(lower, upper, kind, counts, self._rows())

    def _summary(self, path: ColumnPath, kind: pa.DataType) -> ColumnBounds:
        texts = [_as_statistics(path, *bounds) for bounds in zip(*self.groups.bounds(column_name(path)), strict=True)]
        found = parse_statistics(strings(texts), {path: kind}).columns[path]
        # Upper bounds of texts may be cut off, each to another length: the highest of them says nothing.
        upper = None if pa.types.is_string(kind) else found.upper
        return ColumnBounds(lower=found.lower, upper=upper, null_count=None, num_records=self._rows())

    def _rows(self) -> pa.Int64Array:
        return int64s(np.array(self.groups.num_rows, dtype=np.int64))


def _between(
    lower: Sequence[str | None], upper: Sequence[str | None], kind: pa.DataType, nulls: pa.Array, rows: pa.Array
) -> ColumnBounds | None:
    low, high = (read_partition_column(strings(texts), kind) for texts in (lower, upper))
    if low is None or high is None:
        return None
    for column in (low, high):
        # A time without a zone may lie 16 hours either way.
        if column.zoneless is not None and bits_of(column.zoneless).any():
            return None
    return ColumnBounds(lower=low.values, upper=high.values, null_count=nulls, num_records=rows, whole=True)


def _as_statistics(path: ColumnPath, low: JsonScalar | None, high: JsonScalar | None) -> str | None:
    """A summary in the form of a file's statistics, which is how its values are written."""
    if low is None or high is None:
        return None
    before = "".join(f"{{{json.dumps(name)}:" for name in path)
    after = "}" * len(path)
    return f'{{"minValues":{before}{_json(low)}{after},"maxValues":{before}{_json(high)}{after}}}'


def _json(value: JsonScalar) -> str:
    return str(value) if isinstance(value, Decimal) else json.dumps(value)


def _text(value: JsonScalar | None) -> str | None:
    return None if value is None else str(value)
