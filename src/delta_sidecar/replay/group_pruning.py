"""Which row groups of a checkpoint may hold a file that matches, by the partition values that their footers tell.

A row group counts only where every file in it has a value: then each file's own value lies between the smallest and the
largest, and what cannot match with all of them cannot match with one. Values are in the typed columns of
`partitionValues_parsed`, or in the map of texts where that has one key only, that of a text column.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa

from delta_sidecar._arrow import scalar, strings
from delta_sidecar.predicate import Bounds, ColumnBounds, may_match
from delta_sidecar.replay.footer_facts import PATH

if TYPE_CHECKING:
    from collections.abc import Mapping

    from delta_sidecar.log.schema import ColumnPath
    from delta_sidecar.replay.footer_facts import ColumnFacts
    from delta_sidecar.replay.pruning import Pruning

_KEY = "add.partitionValues.key_value.key"
_VALUE = "add.partitionValues.key_value.value"


@dataclass(frozen=True, slots=True)
class GroupPruning:
    """Tests a predicate on row groups.

    Attributes:
        pruning: The predicate; None where every file may match.
    """

    pruning: Pruning | None

    @property
    def columns(self) -> tuple[str, ...]:
        """Dotted names of the leaf columns that it wants to know of."""
        if self.pruning is None or not self.pruning.partitions:
            return ()
        return (_KEY, _VALUE, *(_typed(path) for path in self.pruning.partitions))

    def may_match(self, group: Mapping[str, ColumnFacts]) -> bool:
        """Whether a row group may hold a file that matches."""
        if self.pruning is None or not self.pruning.partitions:
            return True
        found = {path: _bounds(group, path, kind) for path, kind in self.pruning.partitions.items()}
        return bool(may_match(self.pruning.predicate, _GroupBounds(found))[0].as_py())


@dataclass(frozen=True, slots=True)
class _GroupBounds(Bounds):
    """The bounds of one row group."""

    found: Mapping[ColumnPath, ColumnBounds | None]

    @property
    def num_rows(self) -> int:
        return 1

    def column(self, path: ColumnPath) -> ColumnBounds | None:
        return self.found.get(path)


def _bounds(group: Mapping[str, ColumnFacts], path: ColumnPath, kind: pa.DataType) -> ColumnBounds | None:
    facts = _facts(group, path, kind)
    if facts is None or facts.lower is None or facts.upper is None:
        return None
    try:
        lower, upper = (_array(text, kind) for text in (facts.lower, facts.upper))
    except (ValueError, OverflowError):
        # The column is of another type than the table's.
        return None
    return ColumnBounds(lower=lower, upper=upper, null_count=None, num_records=None)


def _facts(group: Mapping[str, ColumnFacts], path: ColumnPath, kind: pa.DataType) -> ColumnFacts | None:
    """The values of a partition column, where every file of the row group has one."""
    files, keys, values = group.get(PATH), group.get(_KEY), group.get(_VALUE)
    if files is None or files.values is None:
        return None
    if pa.types.is_string(kind) and keys is not None and values is not None:
        is_only_key = keys.lower == keys.upper == path[0]
        if is_only_key and keys.values == values.values == files.values:
            return values
    typed = group.get(_typed(path)) if pa.types.is_string(kind) or pa.types.is_integer(kind) else None
    return typed if typed is not None and typed.values == files.values else None


def _typed(path: ColumnPath) -> str:
    return f"add.partitionValues_parsed.{path[0]}"


def _array(text: str, kind: pa.DataType) -> pa.Array:
    if pa.types.is_string(kind):
        return strings([text])
    return pa.repeat(scalar(int(text), kind), 1)
