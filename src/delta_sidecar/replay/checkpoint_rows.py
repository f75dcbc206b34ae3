"""The rows of a checkpoint: what is read of them, and which are live and may match."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from delta_sidecar._arrow import booleans, valid_mask
from delta_sidecar.errors import UnreadableFileError
from delta_sidecar.log.actions import commit_schema
from delta_sidecar.log.keys import file_keys
from delta_sidecar.plan import LINE, FileRef, Filter, Plan, ScanJson, ScanParquet, Substitute
from delta_sidecar.replay.commits import select
from delta_sidecar.replay.files import struct_fields, tags_in_lines
from delta_sidecar.replay.tally import Tally

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from delta_sidecar.replay.files import FileColumns
    from delta_sidecar.replay.pruning import Pruning
    from delta_sidecar.replay.seen import SeenSet

_SUBSTITUTES = {
    "stats": Substitute("add.stats_parsed", "add.stats", "add.path"),
    "partitionValues": Substitute("add.partitionValues_parsed", "add.partitionValues.key_value.key", "add.path"),
}


@dataclass(frozen=True, slots=True)
class BaseRows:
    """Lets through the files of a base that a frozen seen-set does not hide, whatever order they come in.

    Attributes:
        seen: Keys that newer commits spoke of.
        columns: Makes the batches that are let through.
        pruning: Tells which files may match; None: all may.
        path: The file that the rows come from, where it is in JSON.
        tally: Counts what is met.
    """

    seen: SeenSet
    columns: FileColumns
    pruning: Pruning | None
    path: str = ""
    tally: Tally = field(default_factory=Tally, compare=False)

    def __call__(self, batch: pa.RecordBatch) -> pa.RecordBatch | None:
        """Takes rows of a checkpoint; gives its live files that may match."""
        if "add" not in batch.schema.names:
            return None
        actions = batch.column("add")
        fields = struct_fields(actions)
        present = valid_mask(actions) & valid_mask(fields["path"])
        if not present.any():
            return None
        if LINE in batch.schema.names:
            fields["tags"] = self._tags(batch.column(LINE), valid_mask(fields["tags"]))
        if not present.all():
            chosen = booleans(present)
            fields = {name: column.filter(chosen) for name, column in fields.items()}
        live = np.ones(len(fields["path"]), dtype=np.bool_)
        if len(self.seen):
            live = ~self.seen.contains(file_keys(fields))
        count = int(np.count_nonzero(live))
        found = select(fields, live, self.columns, self.pruning) if count else None
        pruned = count - (0 if found is None else found.num_rows)
        self.tally.add(base_adds=len(live), base_hidden=len(live) - count, base_pruned=pruned)
        return found

    def _tags(self, lines: pa.StringArray, present: NDArray[np.bool_]) -> pa.StringArray:
        try:
            return tags_in_lines(lines, present)
        except pa.ArrowInvalid as error:
            msg = f"{self.path}: {error}"
            raise UnreadableFileError(msg, self.path) from error


@dataclass(frozen=True, slots=True)
class PartitionTest:
    """Tells which rows of a checkpoint are worth decoding, by partition values and struct statistics.

    Attributes:
        pruning: Tells which files may match; None: all may.
        tally: Counts those that are not.
    """

    pruning: Pruning | None
    tally: Tally = field(default_factory=Tally, compare=False)

    def __call__(self, batch: pa.RecordBatch) -> NDArray[np.bool_]:
        """Takes rows with only these columns."""
        actions = batch.column("add")
        fields, present = struct_fields(actions), valid_mask(actions)
        keep = present if self.pruning is None else self.pruning.by_partition(fields, present)
        pruned = int(np.count_nonzero(present) - np.count_nonzero(keep))
        self.tally.add(base_adds=pruned, base_pruned_early=pruned)
        return keep


def base_plan(leaf: tuple[FileRef, ...], rows: BaseRows, start: int = 0, enough: int | None = None) -> Plan:
    """What a replay of files of a checkpoint reads; they are all JSON or all Parquet.

    Args:
        leaf: The files.
        rows: Tells which of their rows are let through.
        start: First row group of the first file.
        enough: So many files are likely to be enough; None for all.
    """
    if leaf[0].path.endswith(".json"):
        physical = tuple(name for _, name in rows.columns.partition_columns)
        source = ScanJson(leaf, commit_schema(physical), lines_with=(b'"tags"',))
        return Filter(source, replace(rows, path=leaf[0].path))
    fields = rows.columns.fields()
    early: tuple[str, ...] = ()
    if rows.pruning is not None and rows.pruning.statistics and "stats" not in fields:
        fields += ("stats",)
    if rows.pruning is not None:
        early += rows.pruning.struct_columns if rows.pruning.statistics else ()
    if rows.pruning is not None and rows.pruning.partitions:
        early = ("add.partitionValues", *early)
    tables = ScanParquet(
        leaf,
        tuple(f"add.{name}" for name in fields),
        early=early,
        test=PartitionTest(rows.pruning, rows.tally) if early else None,
        non_null=("add.path",),
        substitutes=tuple(stands_in for name, stands_in in _SUBSTITUTES.items() if name in fields),
        start=start,
        enough=enough,
    )
    return Filter(tables, rows)
