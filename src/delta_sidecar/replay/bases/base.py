"""Bases: what a replay can end on.

A base holds the state of a table at one version. It must be trusted before its first row is used, which takes reading;
only then does it let its live files through. Both are chains of phases: a base gives their start, and says at their
end, to whoever asked, what came of it. Nothing here knows what a base is made of: a new kind is a new class, and a
line in `snapshot.bases_of`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Generic, TypeVar

import numpy as np

from delta_sidecar._arrow import booleans
from delta_sidecar.events import Events
from delta_sidecar.plan import Filter, Terminus
from delta_sidecar.replay.counts import Tally

if TYPE_CHECKING:
    from collections.abc import Mapping

    import pyarrow as pa

    from delta_sidecar.log.actions import Metadata, Protocol
    from delta_sidecar.log.schema import TableSchema
    from delta_sidecar.plan import FileRef, Piece, Place, Plan, StateMachinePhase
    from delta_sidecar.plan.nodes import RowTest
    from delta_sidecar.predicate import Predicate
    from delta_sidecar.replay.files import FileColumns
    from delta_sidecar.replay.footer_facts import BaseFacts
    from delta_sidecar.replay.pruning import Pruning
    from delta_sidecar.replay.seen.seen import SeenSet


T = TypeVar("T")

CHECKPOINT_TIER = 3
"""The tier of checkpoints, and of the start of the log."""


@dataclass(frozen=True, slots=True)
class Base(ABC):
    """The state of a table at one version. A value: it pickles, and what is learned of it makes another one.

    Attributes:
        version: The version whose state it holds.
        name: A file name that tells it from the other bases of its log.
        protocol: The protocol in it; None where it was not asked for yet.
        metadata: The metadata in it; None where it was not asked for yet.
        columns: What they say of the table's columns, where that has been read.
        nbytes: Its size by the listing.
    """

    version: int
    name: str
    protocol: Protocol | None = field(default=None, repr=False, kw_only=True)
    metadata: Metadata | None = field(default=None, repr=False, kw_only=True)
    columns: TableSchema | None = field(default=None, repr=False, kw_only=True)
    nbytes: int = field(default=0, repr=False, kw_only=True)

    @property
    @abstractmethod
    def identity(self) -> Mapping[str, str]:
        """What tells its contents from others under the same names: an e_tag, or else the size, by file name."""

    @property
    def tells_first(self) -> bool:
        """Whether it is to be asked for protocol and metadata before anything else: it tells them by the way."""
        return False

    @property
    def tier(self) -> int:
        """How good a base it is: 1 and 2 for metadata sidecars, 3 for checkpoints."""
        return CHECKPOINT_TIER

    @property
    def others(self) -> frozenset[str]:
        """Names of other bases that are made of the same files: what breaks off here breaks off there."""
        return frozenset()

    @property
    def entries_nbytes(self) -> int | None:
        """The size of the files that hold its entries; None where that is not known yet."""
        return self.nbytes

    def footers(self) -> tuple[FileRef, ...]:
        """Parquet files whose footers `trust` asks for first, where they are few."""
        return ()

    def pieces(self, wanted: Wanted) -> tuple[Piece, ...]:
        """Pieces that a replay begins with, where that can be told already and they are few."""
        del wanted
        return ()

    def facts(self, pruning: Pruning | None) -> BaseFacts | None:
        """How much it has, where that is known without reading more of it; None where it is not.

        Args:
            pruning: Only files that may match count, as far as can be told; None for all.
        """
        del pruning
        return None

    def summary(
        self, table: str, pruning: Pruning | None, without: frozenset[str] = frozenset()
    ) -> StateMachinePhase[BaseSummary]:
        """Says what it is made of, and how much of it a scan reads; no row of it is read. Only a trusted base can.

        Args:
            table: The table's address, for messages.
            pruning: Which files are wanted; None for all.
            without: Columns of files that nobody wants.
        """
        del table, pruning, without
        return Terminus(BaseSummary(self.name, self.version, self.tier, bytes=self.nbytes))

    @abstractmethod
    def trust(
        self, then: TrustContinuation[T], *, with_table: bool, ahead: tuple[FileRef, ...] = ()
    ) -> StateMachinePhase[T]:
        """Finds out whether every file of it is there and whole, as far as that can be told before its first row.

        Args:
            then: What goes on, with a base that has learned what it takes to be replayed, or without one.
            with_table: Whether protocol and metadata are wanted too.
            ahead: Files that are read next, to be asked for at the same time if anything is.
        """

    @abstractmethod
    def replay(self, reading: Reading, then: ReplayContinuation[T]) -> StateMachinePhase[T]:
        """Lets the live files through that may match. Only a trusted base can.

        Args:
            reading: Which files those are; every plan goes through `Reading.rest`. Its seen-set does not change any
                more.
            then: What goes on after them.
        """


@dataclass(frozen=True, slots=True)
class Wanted:
    """What a scan is going to ask of a base, as far as that is known before the table is.

    Attributes:
        predicate: Which files; None for all.
        without: Columns of files that nobody wants.
        at_once: How many row groups of a metadata sidecar are fetched together.
    """

    predicate: Predicate | None = None
    without: frozenset[str] = frozenset()
    at_once: int = 5


@dataclass(frozen=True, slots=True)
class Decided:
    """What a base decided on before it broke off.

    Attributes:
        version: The version that the tail was above. Its commits have the last word on files, and are not passed over.
        test: Tells of a batch of files, from a base or commits up to that version, which ones it decided on.
    """

    version: int
    test: RowTest


@dataclass(frozen=True, slots=True)
class Reading:
    """What a scan wants of the files that it meets, and what it knows of them already.

    Attributes:
        table: The table's address, for messages.
        seen: Keys that newer commits spoke of.
        columns: Makes the batches that are let through.
        pruning: Tells which files may match; None: all may.
        forward: Whether the oldest files are wanted first.
        recent: Whether the newest files of a base are wanted first, as far as it is in order of time.
        start: Where in the base to begin; None for its start.
        decided: What bases decided on before they broke off.
        at_once: How many row groups of a metadata sidecar are fetched together.
        limit: Most files that are wanted, with those that count as given out where `start` is; None for all.
        enough: So many files of a base are likely to be enough; None for all.
        tally: Counts what is met.
        events: Is told what happens.
    """

    table: str
    seen: SeenSet = field(repr=False)
    columns: FileColumns
    pruning: Pruning | None
    forward: bool
    recent: bool = False
    start: Place | None = None
    decided: tuple[Decided, ...] = ()
    at_once: int = 5
    limit: int | None = None
    enough: int | None = None
    tally: Tally = field(default_factory=Tally, repr=False, compare=False)
    events: Events = field(default_factory=Events, repr=False, compare=False)

    def of_base(self) -> Reading:
        """What is wanted of a base, once the commits that come before it are through."""
        enough = self.limit
        if enough is not None:
            counts = self.tally.counts()
            enough = max(1, enough - (counts.commit_adds - counts.commit_hidden - counts.commit_pruned))
        elif self.recent:
            # Who wants the newest first often stops soon.
            enough = 1
        return replace(self, seen=self.seen.freeze(), enough=enough, tally=self.tally.of_base())

    def rest(self, plan: Plan, newest: int = -1) -> Plan:
        """A plan of files without those that are decided on.

        Args:
            plan: The plan.
            newest: Version of the newest commit that they come from; -1 for a base.
        """
        tests = tuple(each.test for each in self.decided if newest <= each.version)
        return Filter(plan, _Undecided(tests)) if tests else plan


class TrustContinuation(ABC, Generic[T]):
    """What goes on once a base is, or is not, trusted."""

    @abstractmethod
    def trusted(self, base: Base) -> StateMachinePhase[T]:
        """Goes on with a base, which has learned something."""

    @abstractmethod
    def distrusted(self, base: Base, error: Exception) -> StateMachinePhase[T]:
        """Goes on without it."""


class ReplayContinuation(ABC, Generic[T]):
    """What goes on after a base."""

    @abstractmethod
    def replayed(self) -> StateMachinePhase[T]:
        """Goes on once its live files are through."""

    @abstractmethod
    def broken(self, base: Base, error: Exception, decided: RowTest) -> StateMachinePhase[T]:
        """Goes on where a base broke off and can tell how far it came.

        Args:
            base: The base.
            error: Why it broke off.
            decided: Tells of a batch of files, whatever part of the log they are from, which ones the base came past:
                if such a file is in the base, live and may match, it was let through.
        """


@dataclass(frozen=True, slots=True)
class _Undecided:
    decided: tuple[RowTest, ...]

    def __call__(self, batch: pa.RecordBatch) -> pa.RecordBatch | None:
        left = ~np.logical_or.reduce([test(batch) for test in self.decided])
        if left.all():
            return batch
        return batch.filter(booleans(left)) if left.any() else None


# What a base is made of and what is read of it, told before a file entry of it is.


@dataclass(frozen=True, slots=True)
class BaseSummary:
    """What a base is made of.

    Attributes:
        name: Its file name; empty for the start of the log.
        version: Its version; -1 for the start of the log.
        tier: How good a base it is.
        files: Files that it is made of.
        bytes: Their size by the listing.
        rows: Rows in them.
        row_groups: Row groups in them.
        row_groups_without_files: Those that hold no file entry and are not read.
        row_groups_pruned: Those that a manifest says cannot hold a file that matches; they are not read either.
        index: Pieces of indexes that are read, in the order of the file; empty where a base has none.
        statistics: Pieces of statistics that are read, in the order of the file.
        segments: Parts of a large manifest that are read first; where there are any, pieces are not known before.
        segment_bytes: Their size.
        newest_by: What its files are in order of time by, in words; empty where they are in no order of time.
    """

    name: str = ""
    version: int = -1
    tier: int = 3
    files: int = 0
    bytes: int = 0
    rows: int = 0
    row_groups: int = 0
    row_groups_without_files: int = 0
    row_groups_pruned: int = 0
    index: tuple[Piece, ...] = field(default=(), repr=False)
    statistics: tuple[Piece, ...] = field(default=(), repr=False)
    segments: int = 0
    segment_bytes: int = 0
    newest_by: tuple[str, ...] = ()

    @property
    def row_groups_left(self) -> int:
        """Those that are read, at most."""
        return self.row_groups - self.row_groups_without_files - self.row_groups_pruned


START_OF_LOG = BaseSummary()
"""What there is before version 0."""
