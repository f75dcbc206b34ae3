"""What a checkpoint has of files, rows and bytes, as far as its footers tell.

    FooterCountsPhase -> (JsonLeafPhase) -> whatever `then` says

Footers that were read when the checkpoint was trusted cost nothing. The top of a V2 checkpoint in JSON may have file
actions of its own: it was kept then, and is counted too.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Generic, TypeVar

from delta_sidecar.errors import UnreadableFileError
from delta_sidecar.log.actions import commit_schema
from delta_sidecar.plan import Consume, ConsumePhase, FileRef, ReadFooters, ScanJson, StateMachinePhase, Terminus
from delta_sidecar.replay.checkpoint import CheckpointBase, is_torn
from delta_sidecar.replay.checkpoint_content import CheckpointContent
from delta_sidecar.replay.checkpoint_rows import BaseRows
from delta_sidecar.replay.failures import raise_unreachable
from delta_sidecar.replay.files import FileColumns
from delta_sidecar.replay.footer_facts import COUNTED, BaseFacts, facts_of, is_plain_checkpoint, read_footer_facts
from delta_sidecar.replay.group_pruning import GroupPruning
from delta_sidecar.replay.ranges import NOTHING
from delta_sidecar.replay.seen import SeenSet
from delta_sidecar.replay.tail_counts import counts_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pyarrow as pa

    from delta_sidecar.replay.pruning import Pruning
    from delta_sidecar.replay.snapshot import Snapshot

T = TypeVar("T")


class CountContinuation(ABC, Generic[T]):
    """What goes on once a base is counted."""

    @abstractmethod
    def counted(self, facts: BaseFacts, source: str) -> StateMachinePhase[T]:
        """Goes on with what it has; `source` says in words where that is from."""

    @abstractmethod
    def uncounted(self) -> StateMachinePhase[T]:
        """Goes on where there is no telling."""


def files_in_base(snapshot: Snapshot) -> StateMachinePhase[int | None]:
    """The start of a chain that ends in the number of files in the first base, without a request.

    A manifest tells, a checksum file of the same version, or footers that were read; None where none was.
    """
    choice = snapshot.choice
    if not choice.bases:
        return Terminus(0)
    base = choice.bases[0]
    facts = base.facts(None)
    if facts is not None:
        return _Files().counted(facts, base.name)
    if snapshot.counted is not None and snapshot.counted[0] == base.version:
        return Terminus(snapshot.counted[1])
    if not isinstance(base, CheckpointBase) or base.leaves is None:
        return Terminus(None)
    return count_base(base, FileColumns(()), None, 0, _Files())


class _Files(CountContinuation["int | None"]):
    """Ends in the number of files."""

    def counted(self, facts: BaseFacts, source: str) -> StateMachinePhase[int | None]:
        del source
        files = facts.counts.files
        return Terminus(files.lower if files.is_exact else None)

    def uncounted(self) -> StateMachinePhase[int | None]:
        return Terminus(None)


def count_base(
    base: CheckpointBase,
    columns: FileColumns,
    pruning: Pruning | None,
    most_requests: int,
    then: CountContinuation[T],
) -> StateMachinePhase[T]:
    """Counts what a checkpoint has.

    Args:
        base: The checkpoint. One that was not trusted yet must prove to be one, and to name no other files.
        columns: Makes batches of the files that are in JSON.
        pruning: Tells which of those may match; None: all may.
        most_requests: What may be spent on it.
        then: What goes on.
    """
    leaves = base.files if base.leaves is None else base.leaves
    tables = tuple(leaf for leaf in leaves if not leaf.path.endswith(".json"))
    texts = tuple(leaf for leaf in leaves if leaf.path.endswith(".json"))
    rows = BaseRows(SeenSet(), columns, pruning, path=leaves[0].path)
    return Consume(FooterCountsPhase(base, tables, texts, rows, most_requests, then))


@dataclass(frozen=True, slots=True)
class FooterCountsPhase(ConsumePhase[T]):
    """Reads the footers of a checkpoint.

    Attributes:
        base: The checkpoint.
        tables: Its files in Parquet.
        texts: Its files in JSON.
        rows: Makes files of the rows in those.
        most_requests: What may be spent on it.
        then: What goes on.
    """

    base: CheckpointBase
    tables: tuple[FileRef, ...]
    texts: tuple[FileRef, ...]
    rows: BaseRows = field(repr=False)
    most_requests: int
    then: CountContinuation[T] = field(repr=False)

    def plan(self) -> ReadFooters:
        """What they tell of files; of a checkpoint that was not trusted yet, also whether it is one."""
        content = () if self._is_trusted else CheckpointContent.columns
        columns = dict.fromkeys((*COUNTED, *content, *self._groups.columns))
        return ReadFooters(self.tables, tuple(columns), self.most_requests)

    def next(self, data: Iterator[pa.RecordBatch]) -> StateMachinePhase[T]:
        """Takes them, if all are there."""
        found = read_footer_facts(data)
        footers = [found[file.path] for file in self.tables if file.path in found]
        if len(footers) < len(self.tables) or not (self._is_trusted or is_plain_checkpoint(footers)):
            return self.then.uncounted()
        facts = facts_of(footers, self._groups.may_match)
        if self.texts:
            return Consume(JsonLeafPhase(self.texts, self.rows, facts, self.base.name, self.then))
        return self.then.counted(facts, f"the footers of {self.base.name}")

    def recover(self, error: Exception) -> StateMachinePhase[T] | None:
        """A torn checkpoint tells nothing; a store out of reach is another matter."""
        if is_torn(error):
            return self.then.uncounted()
        raise_unreachable("the checkpoint", error)
        return None

    @property
    def _is_trusted(self) -> bool:
        return self.base.leaves is not None

    @property
    def _groups(self) -> GroupPruning:
        return GroupPruning(self.rows.pruning)


@dataclass(frozen=True, slots=True)
class JsonLeafPhase(ConsumePhase[T]):
    """Counts the files that the top of a checkpoint in JSON has itself, and adds them to those of the footers."""

    files: tuple[FileRef, ...]
    rows: BaseRows = field(repr=False)
    facts: BaseFacts
    name: str
    then: CountContinuation[T] = field(repr=False)

    def plan(self) -> ScanJson:
        """The file, if it was kept."""
        physical = tuple(name for _, name in self.rows.columns.partition_columns)
        return ScanJson(self.files, commit_schema(physical), lines_with=(b'"tags"',), keep=True, kept_only=True)

    def next(self, data: Iterator[pa.RecordBatch]) -> StateMachinePhase[T]:
        """Takes it and the footers together."""
        total, is_read = NOTHING, False
        for batch in data:
            is_read = True
            files = self.rows(batch)
            total = total + counts_of(files) if files is not None else total
        if not is_read:
            return self.then.uncounted()
        inside = BaseFacts(total, total.bytes.upper, total.rows.upper)
        return self.then.counted(self.facts + inside, f"the files of {self.name}")

    def recover(self, error: Exception) -> StateMachinePhase[T] | None:
        """One that is not in Delta's format tells nothing."""
        return self.then.uncounted() if isinstance(error, UnreadableFileError) else None
