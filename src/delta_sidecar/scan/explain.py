"""The plan of a scan, with reasons; with `analyze`, what it did.

Without `analyze` no file entry is read: the table is opened, the strategy is decided, and the base is looked at, a
checkpoint by its footers and a metadata sidecar by its manifest. With it the scan runs, to its end or to its limit.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import asdict, dataclass, fields
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from delta_sidecar.predicate import tree
from delta_sidecar.replay.bases.base import CHECKPOINT_TIER, START_OF_LOG, BaseSummary
from delta_sidecar.replay.bases.choice import trusted_choice
from delta_sidecar.replay.bases.sidecar import SEGMENTS_AT_ONCE
from delta_sidecar.store.interface import CLOSE, merge

if TYPE_CHECKING:
    from collections.abc import Sequence

    from delta_sidecar.events import Events
    from delta_sidecar.plan import Flow, Piece
    from delta_sidecar.replay.request import ScanRequest
    from delta_sidecar.replay.snapshot import Snapshot
    from delta_sidecar.scan.config import LazyScanConfig
    from delta_sidecar.scan.files import ScanMetrics
    from delta_sidecar.scan.request import Decision
    from delta_sidecar.store import RequestCounts


@dataclass(frozen=True, slots=True)
class BaseExplanation:
    """The base that a scan ends on."""

    name: str = ""  # its file name; empty for the start of the log
    version: int = -1  # its version; -1 for the start of the log
    # 1 for a metadata sidecar with its manifest, 2 for one without, 3 for a checkpoint or the start of the log.
    tier: int = 3
    files: int = 0  # files that it is made of
    bytes: int = 0  # their size by the listing
    rows: int = 0  # rows in them
    row_groups: int = 0  # row groups in them
    row_groups_without_files: int = 0  # those of them that hold no file entry and are not read
    # Those of them that a manifest says cannot hold a file that matches; they are not read either.
    row_groups_pruned: int = 0
    # Of a metadata sidecar, size of the index of the others; None where that is not known yet.
    index_bytes: int | None = None
    # Of a metadata sidecar, size of their statistics, 0 where those are not read; None where that is not known
    # yet.
    statistics_bytes: int | None = None
    # Lists of row groups outside of the manifest, which are read before those row groups are known.
    segments: int = 0
    # What its files are in order of time by, in words, so that the newest can come first; empty where they are in
    # no order of time.
    newest_by: tuple[str, ...] = ()

    @classmethod
    def of(cls, base: BaseSummary) -> BaseExplanation:
        """Tells of a base."""
        index, statistics = (sum(piece.length for piece in kind) for kind in (base.index, base.statistics))
        is_known = base.tier < CHECKPOINT_TIER and not base.segments
        pieces = {"index_bytes": index if is_known else None, "statistics_bytes": statistics if is_known else None}
        found: dict[str, Any] = {each.name: getattr(base, each.name, None) for each in fields(cls)}
        return cls(**found | pieces)


@dataclass(frozen=True, slots=True)
class Explanation:
    """The plan of a scan, with reasons.

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
        fallback_reason: Why the base is not a metadata sidecar with its manifest, in a word, as in `ScanEnded`; None
            where it is one.
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
    fallback_reason: str | None
    pruned_by_partition: tuple[str, ...]
    pruned_by_statistics: tuple[str, ...]
    opening: RequestCounts
    expected: Expectation
    actual: ScanMetrics | None = None
    milliseconds: float | None = None

    def to_dict(self) -> dict[str, Any]:
        """The same as plain values, for JSON."""
        return asdict(self)


def explained(
    config: LazyScanConfig,
    snapshot: Snapshot,
    request: ScanRequest,
    decision: Decision,
    base: BaseSummary,
    fallen_back: FallenBack,
    opening: RequestCounts,
    at_once: int,
) -> Explanation:
    """Puts together what is known of a scan before a file entry is read.

    Args:
        config: What is asked for.
        snapshot: The table.
        request: The same, bound to the table.
        decision: How the scan goes about it.
        base: The base that it ends on.
        fallen_back: Why that is not a better one.
        opening: What it took to find this out.
        at_once: How many row groups of a metadata sidecar are fetched together.
    """
    predicate, pruning = config.parsed_predicate, request.pruning
    logical = {physical: path for path, physical in snapshot.columns.physical_names.items()}
    partitions, statistics = (
        tuple(sorted(tree.written(logical.get(path, path)) for path in paths))
        for paths in (({}, {}) if pruning is None else (pruning.partitions, pruning.statistics))
    )
    commits = snapshot.version - base.version
    commit_bytes = snapshot.choice.segment.tail_nbytes(base.version)
    return Explanation(
        table=snapshot.table,
        version=snapshot.version,
        predicate=None if predicate is None else str(predicate),
        limit=config.limit,
        strategy=decision.strategy.value,
        reason=decision.reason,
        order=decision.order,
        commits=commits,
        commit_bytes=commit_bytes,
        base=BaseExplanation.of(base),
        passed_over=tuple(fallen_back.passed_over),
        fallback_reason=fallen_back.reason(base),
        pruned_by_partition=partitions,
        pruned_by_statistics=statistics,
        opening=opening,
        expected=expect(base, commit_bytes, opening, at_once=at_once, in_order=decision.order != "recent"),
    )


@dataclass(frozen=True, slots=True)
class FallenBack:
    """Why a base is not a better one."""

    passed_over: Sequence[tuple[str, str]]  # bases that proved unusable, and why
    code: str | None  # the same in a word; None where no metadata sidecar is among them, or none there

    def reason(self, base: BaseSummary) -> str | None:
        """In a word; None where there is no better one."""
        return self.code or ("no_manifest" if 1 < base.tier < CHECKPOINT_TIER else None)


def look_at_base(snapshot: Snapshot, request: ScanRequest, events: Events) -> Flow[BaseSummary]:
    """The files of the first base that can be trusted, and how much of it a scan reads."""
    choice = yield from trusted_choice(snapshot.table, snapshot.choice, events)
    if not choice.bases:
        return START_OF_LOG
    return (yield from choice.bases[0].summary(request))


# What a scan comes to, as far as that is known before a file entry is read.


@dataclass(frozen=True, slots=True)
class Expectation:
    """The cost of a scan, opening the table included, as far as that is known before a file entry is read."""

    row_groups_at_most: int  # row groups of the base that are read
    bytes_at_most: int  # bytes that are moved
    requests_about: int  # requests to the store, if it comes to its end; an estimate, which may be off either way
    trips_about: int  # round trips, one after another, in the same way


def expect(
    base: BaseSummary, commit_bytes: int, opening: RequestCounts, *, at_once: int, in_order: bool
) -> Expectation:
    """The cost of a scan.

    Args:
        base: The base that it ends on.
        commit_bytes: Size of the commits after it.
        opening: What it took to open the table and look at the base.
        at_once: How many row groups of a metadata sidecar are fetched together.
        in_order: Whether the base is read in its own order.
    """
    groups = base.row_groups_left
    size, requests, trips = base.bytes, groups, int(groups > 0)
    if base.segments:
        # The segments have the places of the pieces; those of a few segments are read before the next ones.
        batches, times = _batches(groups, at_once), -(-base.segments // SEGMENTS_AT_ONCE)
        size = base.bytes + base.segment_bytes + batches * CLOSE
        requests, trips = times + 2 * batches, 2 * times
    elif base.index:
        size = _bytes_at_most(base, at_once, in_order=in_order)
        requests = _requests(base, at_once)
    elif not groups:
        size = 0
    return Expectation(
        row_groups_at_most=groups,
        bytes_at_most=opening.bytes + commit_bytes + size,
        requests_about=opening.requests + requests,
        trips_about=opening.trips + trips,
    )


def _bytes_at_most(base: BaseSummary, at_once: int, *, in_order: bool) -> int:
    """Bytes of pieces, and of the gaps between close ones, which are read over."""
    size = sum(piece.length for piece in (*base.index, *base.statistics))
    by_file: dict[str, tuple[list[Piece], list[Piece]]] = defaultdict(lambda: ([], []))
    for kind, pieces in enumerate((base.index, base.statistics)):
        for piece in pieces:
            by_file[piece.path][kind].append(piece)
    for index, statistics in by_file.values():
        between = min((piece.offset for piece in statistics), default=0) - max(
            piece.offset + piece.length for piece in index
        )
        is_regular = in_order and (not statistics or between >= 0)
        if is_regular:
            # What is fetched together lies together, apart from the step from an index to its statistics.
            size += _gaps(index) + _gaps(statistics)
            size += _batches(len(index), at_once) * CLOSE if statistics and between <= CLOSE else 0
        else:
            size += (len(index) + len(statistics) - 1) * CLOSE
    # What is fetched together is no more than the files have.
    return min(size, (_batches(len(base.index), at_once) if in_order else len(base.index)) * base.bytes)


def _gaps(pieces: Sequence[Piece]) -> int:
    gaps = (after.offset - before.end for before, after in pairwise(pieces))
    return sum(gap for gap in gaps if 0 < gap <= CLOSE)


def _requests(base: BaseSummary, at_once: int) -> int:
    requests = 0
    for first in range(0, len(base.index), at_once):
        together = (*base.index[first : first + at_once], *base.statistics[first : first + at_once])
        for path in {piece.path for piece in together}:
            requests += len(merge([(piece.offset, piece.end) for piece in together if piece.path == path]))
    return requests


def _batches(groups: int, at_once: int) -> int:
    """The most times that row groups are fetched together: the first time it may be only some of them."""
    return 0 if not groups else 1 + -(-groups // at_once)
