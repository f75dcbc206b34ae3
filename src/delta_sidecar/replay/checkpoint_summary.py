"""What a checkpoint is made of, by its footers."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from delta_sidecar.plan import ConsumePhase, ReadFooters, StateMachinePhase, Terminus
from delta_sidecar.replay.base_summary import BaseSummary
from delta_sidecar.replay.failures import raise_base_failure

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pyarrow as pa

    from delta_sidecar.plan import FileRef

_FILES = "add.path"


@dataclass(frozen=True, slots=True)
class CheckpointSummaryPhase(ConsumePhase[BaseSummary]):
    """Reads the footers of a checkpoint, which were kept when it was trusted.

    Attributes:
        table: The table's address, for messages.
        name: The checkpoint's name.
        version: Its version.
        leaves: Its files.
    """

    table: str
    name: str
    version: int
    leaves: tuple[FileRef, ...] = field(repr=False)

    def plan(self) -> ReadFooters:
        """Those of its files in Parquet."""
        return ReadFooters(tuple(leaf for leaf in self.leaves if not leaf.path.endswith(".json")), (_FILES,))

    def next(self, data: Iterator[pa.RecordBatch]) -> StateMachinePhase[BaseSummary]:
        """Sums them up."""
        rows = groups = without = 0
        for batch in data:
            columns = batch.column("column").to_pylist()
            values = batch.column("values").to_pylist()
            (whole,) = (row for row, name in enumerate(columns) if name is None)
            rows += batch.column("rows")[whole].as_py()
            groups += batch.column("group")[whole].as_py()
            told = [value for value, name in zip(values, columns, strict=True) if name == _FILES]
            # A file without the column has entries in none of its row groups.
            without += sum(value == 0 for value in told) if told else batch.column("group")[whole].as_py()
        size = sum(leaf.size or 0 for leaf in self.leaves)
        return Terminus(
            BaseSummary(
                self.name,
                self.version,
                files=len(self.leaves),
                bytes=size,
                rows=rows,
                row_groups=groups,
                row_groups_without_files=without,
            )
        )

    def recover(self, error: Exception) -> StateMachinePhase[BaseSummary] | None:
        """They were read before: a checkpoint without them was replaced meanwhile."""
        raise_base_failure(self.table, error)
        return None
