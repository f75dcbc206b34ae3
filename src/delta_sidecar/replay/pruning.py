"""Bounds of files for `may_match`: partition values as they are, statistics out of JSON or structs.

This is the only place that knows where in the log a bound comes from; what a bound means is `may_match`'s business.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from delta_sidecar._arrow import bits_of
from delta_sidecar.log.partition_values import read_known_values
from delta_sidecar.log.stats import FileStatistics, parse_statistics, struct_leaves, struct_statistics
from delta_sidecar.predicate import Bounds, ColumnBounds, Predicate, bind, columns, may_match, to_physical
from delta_sidecar.replay.files import partition_texts

if TYPE_CHECKING:
    from collections.abc import Mapping

    import pyarrow as pa
    from numpy.typing import NDArray

    from delta_sidecar.log.partition_values import PartitionColumn, PartitionTexts
    from delta_sidecar.log.schema import ColumnPath, TableSchema


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

    def by_partition(self, add: Mapping[str, pa.Array], present: NDArray[np.bool_]) -> NDArray[np.bool_]:
        """Which files may match, by what is known without the statistics' text; `present` says which rows are files."""
        bounds = _FileBounds(self, _partitions(self, add, len(present)), len(present))
        parsed = add.get("stats_parsed")
        if self.statistics and parsed is not None:
            bounds = replace(bounds, found=struct_statistics(parsed, self.statistics))
        return present & bounds.may_match(present)

    def by_statistics(self, add: Mapping[str, pa.Array], rows: int) -> NDArray[np.bool_]:
        """Which files may match, by their partition values and the statistics in their text."""
        bounds = _FileBounds(self, _partitions(self, add, rows), rows)
        text = add.get("stats")
        if self.statistics and text is not None:
            bounds = replace(bounds, found=parse_statistics(text, self.statistics))
        return bounds.may_match(np.ones(rows, dtype=np.bool_))

    def by_values(self, add: Mapping[str, pa.Array], rows: int, found: FileStatistics | None) -> NDArray[np.bool_]:
        """Which files may match, by their partition values and by statistics that were found for them."""
        bounds = _FileBounds(self, _partitions(self, add, rows), rows, found)
        return bounds.may_match(np.ones(rows, dtype=np.bool_))


def bind_predicate(columns: TableSchema, predicate: Predicate | None) -> Pruning | None:
    """Binds a predicate to a table's columns, in physical names.

    Raises:
        PredicateError: It names an unknown column, or compares one with a value of another type.
    """
    if predicate is None:
        return None
    physical = to_physical(bind(predicate, columns.logical), columns.physical_names)
    types = columns.bounded_types
    partitions = {(name,) for name in columns.physical_partition_columns}
    return pruning_for(physical, types, frozenset(partitions & types.keys()))


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


def _partitions(
    pruning: Pruning, add: Mapping[str, pa.Array], rows: int
) -> dict[ColumnPath, tuple[PartitionTexts, ColumnBounds | None]]:
    """What is known of each partition column: texts, and as bounds."""
    found = {}
    for path, kind in pruning.partitions.items():
        texts, values = read_known_values(partition_texts(add, path[0], rows), kind)
        found[path] = (texts, _exact(values))
    return found


def _exact(values: PartitionColumn | None) -> ColumnBounds | None:
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


@dataclass(frozen=True, slots=True)
class _FileBounds(Bounds):
    pruning: Pruning
    partitions: Mapping[ColumnPath, tuple[PartitionTexts, ColumnBounds | None]]
    rows: int
    found: FileStatistics | None = None

    @property
    def num_rows(self) -> int:
        return self.rows

    def column(self, path: ColumnPath) -> ColumnBounds | None:
        if path in self.partitions:
            return self.partitions[path][1]
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

    def may_match(self, among: NDArray[np.bool_]) -> NDArray[np.bool_]:
        """Which files may match, right for some of them."""
        kept = bits_of(may_match(self.pruning.predicate, self))
        untold = {path: among & ~texts.known for path, (texts, _) in self.partitions.items()}
        partial = {path: rows for path, rows in untold.items() if rows.any()}
        if not partial:
            return kept
        # Where a value is not known, null would be taken for it: those files are tested without such columns.
        known = {path: entry for path, entry in self.partitions.items() if path not in partial}
        without = replace(self, partitions=known)
        return np.where(np.logical_or.reduce(list(partial.values())), without.may_match(among), kept)
