"""What a scan is going to do, and why; with `analyze`, what it did.

Without `analyze` no file entry is read: the table is opened, the strategy is decided, and the footers of the base are
looked at. With it the scan runs, to its end or to its limit.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

from delta_sidecar.plan import Consume, ConsumePhase, ReadFooters, StateMachinePhase, Terminus
from delta_sidecar.predicate import names
from delta_sidecar.replay.checkpoint import CheckpointBase
from delta_sidecar.replay.choice import BaseChoice, ChoosesBase
from delta_sidecar.replay.failures import raise_base_failure
from delta_sidecar.replay.pruning import bind_predicate

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    import pyarrow as pa

    from delta_sidecar.events import Events
    from delta_sidecar.plan import FileRef
    from delta_sidecar.replay.bases import Base
    from delta_sidecar.replay.snapshot import Snapshot
    from delta_sidecar.scan.config import LazyScanConfig
    from delta_sidecar.scan.metrics import ScanMetrics
    from delta_sidecar.scan.strategy import Decision
    from delta_sidecar.store import RequestCounts

_FILES = "add.path"


@dataclass(frozen=True, slots=True)
class BaseExplanation:
    """The base that a scan ends on.

    Attributes:
        name: Its file name; empty for the start of the log.
        version: Its version; -1 for the start of the log.
        files: Files that it is made of.
        bytes: Their size by the listing.
        rows: Rows in them.
        row_groups: Row groups in them.
        row_groups_without_files: Those of them that hold no file entry and are not read.
    """

    name: str = ""
    version: int = -1
    files: int = 0
    bytes: int = 0
    rows: int = 0
    row_groups: int = 0
    row_groups_without_files: int = 0


@dataclass(frozen=True, slots=True)
class Expectation:
    """What a scan comes to, opening the table included, as far as that is known before a file entry is read.

    That is for one pass over the base. Order `recent` takes another one for every 65,536 files, or 32 MB of entries.

    Attributes:
        row_groups_at_most: Row groups of the base that are read.
        bytes_at_most: Bytes that are moved.
        requests_about: Requests to the store, if it comes to its end; an estimate, which may be off either way.
        trips_about: Round trips, one after another, in the same way.
    """

    row_groups_at_most: int
    bytes_at_most: int
    requests_about: int
    trips_about: int


@dataclass(frozen=True, slots=True)
class Explanation:
    """What a scan is going to do, and why.

    Attributes:
        table: The table's address, without secrets.
        version: The version that is read.
        predicate: What rows must satisfy, as SQL; None for all.
        limit: Most files that are wanted; None for all.
        strategy: `reverse` or `forward`.
        reason: Why.
        order: `recent` or `any`.
        commits: Commits after the base.
        commit_bytes: Their size by the listing.
        base: The base.
        passed_over: Bases that proved unusable, and why.
        pruned_by_partition: Partition columns that files are tested by, before anything else of them is decoded.
        pruned_by_statistics: Columns whose statistics they are tested by.
        opening: What it took to find this out.
        expected: What the scan comes to.
        actual: What the scan did; None where it was not run.
        milliseconds: How long that took.
    """

    table: str
    version: int
    predicate: str | None
    limit: int | None
    strategy: str
    reason: str
    order: str
    commits: int
    commit_bytes: int
    base: BaseExplanation
    passed_over: tuple[tuple[str, str], ...]
    pruned_by_partition: tuple[str, ...]
    pruned_by_statistics: tuple[str, ...]
    opening: RequestCounts
    expected: Expectation
    actual: ScanMetrics | None = None
    milliseconds: float | None = None

    def to_dict(self) -> dict[str, Any]:
        """The same as plain values, for JSON."""
        return asdict(self)


def expect(base: BaseExplanation, commit_bytes: int, opening: RequestCounts) -> Expectation:
    """What a scan comes to.

    Args:
        base: The base that it ends on.
        commit_bytes: Size of the commits after it.
        opening: What it took to open the table and look at the base.
    """
    groups = base.row_groups - base.row_groups_without_files
    return Expectation(
        row_groups_at_most=groups,
        bytes_at_most=opening.bytes + commit_bytes + base.bytes,
        requests_about=opening.requests + groups,
        trips_about=opening.trips + (groups > 0),
    )


def explained(
    config: LazyScanConfig,
    snapshot: Snapshot,
    decision: Decision,
    base: BaseExplanation,
    passed_over: Iterable[tuple[str, str]],
    opening: RequestCounts,
) -> Explanation:
    """Puts together what is known of a scan before a file entry is read."""
    predicate = config.parsed_predicate
    pruning = bind_predicate(snapshot.columns, predicate)
    logical = {physical: path for path, physical in snapshot.columns.physical_names.items()}
    partitions, statistics = (
        tuple(sorted(names.written(logical.get(path, path)) for path in paths))
        for paths in (() if pruning is None else pruning.partitions, () if pruning is None else pruning.statistics)
    )
    commits = snapshot.choice.segment.tail(base.version)
    strategy, reason, order = decision.told()
    return Explanation(
        table=snapshot.table,
        version=snapshot.version,
        predicate=None if predicate is None else str(predicate),
        limit=config.limit,
        strategy=strategy,
        reason=reason,
        order=order,
        commits=len(commits),
        commit_bytes=commits.nbytes,
        base=base,
        passed_over=tuple(passed_over),
        pruned_by_partition=partitions,
        pruned_by_statistics=statistics,
        opening=opening,
        expected=expect(base, commits.nbytes, opening),
    )


def look_at_base(table: str, choice: BaseChoice, events: Events) -> StateMachinePhase[BaseExplanation]:
    """The start of a chain that ends in what the first base that can be trusted is made of."""
    return _Looking(table, choice, events=events).begin()


@dataclass(frozen=True, slots=True)
class _Looking(ChoosesBase[BaseExplanation]):
    def begin(self) -> StateMachinePhase[BaseExplanation]:
        return self.choice.bases[0].trust(self, with_table=False) if self.choice.bases else Terminus(BaseExplanation())

    def trusted(self, base: Base) -> StateMachinePhase[BaseExplanation]:
        if not isinstance(base, CheckpointBase):
            return Terminus(BaseExplanation(base.name, base.version, bytes=base.nbytes))
        return Consume(_FootersPhase(self.table, base, base.leaves or base.files))

    def onto(self, choice: BaseChoice) -> StateMachinePhase[BaseExplanation]:
        return _Looking(self.table, choice, events=self.events).begin()


@dataclass(frozen=True, slots=True)
class _FootersPhase(ConsumePhase[BaseExplanation]):
    table: str
    base: CheckpointBase
    leaves: tuple[FileRef, ...] = field(repr=False)

    def plan(self) -> ReadFooters:
        return ReadFooters(tuple(leaf for leaf in self.leaves if not leaf.path.endswith(".json")), (_FILES,))

    def next(self, data: Iterator[pa.RecordBatch]) -> StateMachinePhase[BaseExplanation]:
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
        base = self.base
        return Terminus(BaseExplanation(base.name, base.version, len(self.leaves), size, rows, groups, without))

    def recover(self, error: Exception) -> StateMachinePhase[BaseExplanation] | None:
        raise_base_failure(self.table, error)
        return None
