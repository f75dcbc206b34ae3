"""Bounds of files for `may_match`: partition values as they are, statistics out of JSON or structs.

This is the only place that knows where in the log a bound comes from; what a bound means is `may_match`'s business.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from delta_sidecar._arrow import bits_of
from delta_sidecar.log.partition_values import read_partition_column
from delta_sidecar.log.stats import FileStatistics, parse_statistics, struct_leaves, struct_statistics
from delta_sidecar.predicate import Bounds, ColumnBounds, Predicate, columns, may_match
from delta_sidecar.replay.files import partition_text

if TYPE_CHECKING:
    from collections.abc import Mapping

    import numpy as np
    import pyarrow as pa
    from numpy.typing import NDArray

    from delta_sidecar.log.schema import ColumnPath


@dataclass(frozen=True, slots=True)
class Pruning:
    """A predicate in physical names, and what it takes to test it on `add` actions.

    Attributes:
        predicate: What rows must satisfy.
        partitions: Type of each partition column that it names, by physical path.
        statistics: Type of each other column that it names and that may have bounds, by physical path.
    """

    predicate: Predicate
    partitions: Mapping[ColumnPath, pa.DataType]
    statistics: Mapping[ColumnPath, pa.DataType]

    @property
    def struct_columns(self) -> tuple[str, ...]:
        """Dotted names, below `add`, of the struct statistics that it looks at."""
        return tuple(".".join(("add", "stats_parsed", *leaf)) for leaf in struct_leaves(self.statistics))

    def by_partition(self, add: Mapping[str, pa.Array], rows: int) -> NDArray[np.bool_]:
        """Which files may match, by what is known without the statistics' text."""
        bounds = _FileBounds(self, add, rows)
        parsed = add.get("stats_parsed")
        if self.statistics and parsed is not None:
            bounds.found = struct_statistics(parsed, self.statistics)
        return bits_of(may_match(self.predicate, bounds))

    def by_statistics(self, add: Mapping[str, pa.Array], rows: int) -> NDArray[np.bool_]:
        """Which files may match, by their partition values and the statistics in their text."""
        bounds = _FileBounds(self, add, rows)
        text = add.get("stats")
        if self.statistics and text is not None:
            bounds.found = parse_statistics(text, self.statistics)
        return bits_of(may_match(self.predicate, bounds))


def pruning_for(
    predicate: Predicate, types: Mapping[ColumnPath, pa.DataType], partitions: frozenset[ColumnPath]
) -> Pruning:
    """Makes a `Pruning` of a predicate in physical names.

    Args:
        predicate: Bound, in physical names.
        types: Type of each column that has comparable bounds, by physical path.
        partitions: Which of them are partition columns.
    """
    named = columns(predicate)
    return Pruning(
        predicate=predicate,
        partitions={path: types[path] for path in named if path in partitions},
        statistics={path: types[path] for path in named if path in types and path not in partitions},
    )


@dataclass(slots=True)
class _FileBounds(Bounds):
    pruning: Pruning
    add: Mapping[str, pa.Array]
    rows: int
    found: FileStatistics | None = None
    _partitions: dict[ColumnPath, ColumnBounds | None] = field(default_factory=dict)

    @property
    def num_rows(self) -> int:
        return self.rows

    def column(self, path: ColumnPath) -> ColumnBounds | None:
        if path in self.pruning.partitions:
            if path not in self._partitions:
                self._partitions[path] = self._partition(path)
            return self._partitions[path]
        if self.found is None or path not in self.found.columns:
            return None
        column = self.found.columns[path]
        return ColumnBounds(
            lower=column.lower,
            upper=column.upper,
            null_count=column.null_count,
            num_records=self.found.num_records,
            tight=self.found.tight,
        )

    def _partition(self, path: ColumnPath) -> ColumnBounds | None:
        text = partition_text(self.add, path[0], self.rows)
        values = read_partition_column(text, self.pruning.partitions[path])
        if values is None:
            return None
        return ColumnBounds(
            lower=values.values,
            upper=values.values,
            null_count=None,
            num_records=None,
            exact=True,
            zoneless=values.zoneless,
        )
