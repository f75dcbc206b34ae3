"""Estimates of the files, rows and bytes of a scan, for a planner that has to decide before it starts."""

from __future__ import annotations

from contextlib import closing
from dataclasses import dataclass
from typing import TYPE_CHECKING

from msgspec.structs import replace

from delta_sidecar.execute import open_executor
from delta_sidecar.plan import run_flow
from delta_sidecar.replay.estimate import NOTHING, Counts, Range, estimate
from delta_sidecar.replay.open import Opening
from delta_sidecar.scan.request import open_table
from delta_sidecar.scan.retention import check_retention

if TYPE_CHECKING:
    from delta_sidecar.plan import Executor
    from delta_sidecar.replay.estimate import Estimate
    from delta_sidecar.replay.snapshot import Snapshot
    from delta_sidecar.scan.config import LazyScanConfig, ScanOptions
    from delta_sidecar.scan.run import ScanRun
    from delta_sidecar.store import Store


@dataclass(frozen=True, slots=True)
class ScanEstimate:
    """An estimate of a scan, within bounds that always hold.

    Each of the three has `lower`, `upper` and `is_exact`; `upper` is None where there is no telling.

    Attributes:
        version: The version that the scan reads.
        files: How many files.
        rows: How many rows are in them, deleted ones not counted. Rows of files are meant: with a predicate fewer of
            them may match.
        bytes: The size of the files together.
        sources: What the bounds were derived from, in words.
    """

    version: int
    files: Range
    rows: Range
    bytes: Range
    sources: tuple[str, ...]


def estimate_scan(store: Store, run: ScanRun) -> ScanEstimate:
    """Estimates what a scan will give, by at most two requests beyond those that open the table.

    Args:
        store: The table's store.
        run: What is asked for, and the account of the requests.
    """
    config = run.config
    parallelism = config.options().commit_read_parallelism
    with closing(open_executor(store.bind(run.requests), file_parallelism=parallelism)) as executor:
        try:
            snapshot, options = _opened(store, run, executor)
            if snapshot.version < snapshot.choice.segment.latest:
                check_retention(snapshot, options.retention_guard, executor, run.events)
            found = run_flow(estimate(snapshot, config.parsed_predicate), executor)
        finally:
            run.requests.cancel()
    return _of_scan(snapshot.version, found, config)


def _opened(store: Store, run: ScanRun, executor: Executor) -> tuple[Snapshot, ScanOptions]:
    """Opens the table, as a scan would: with metadata sidecars unless they are disabled, by the table itself too."""
    config = run.config
    options = config.options()
    # Nothing is asked for on speculation: most often a checksum file tells all, and no commit is needed.
    opening = Opening(store.url, config.version, speculation=0, sidecars=options.sidecar_enabled, events=run.events)
    snapshot = run.snapshot = open_table(opening, config, executor)
    options = config.options(snapshot.metadata.configuration)
    if options.sidecar_enabled != opening.sidecars:
        opening = replace(opening, sidecars=options.sidecar_enabled)
        snapshot = run.snapshot = open_table(opening, config, executor)
    return snapshot, options


def _of_scan(version: int, found: Estimate, config: LazyScanConfig) -> ScanEstimate:
    counts, sources = found.counts, found.sources
    if config.predicate is not None:
        sources += ("the predicate",)
    if config.token is not None:
        counts, sources = counts.any_part(), (*sources, "the page token")
    limit = config.limit
    if limit is not None:
        sources += ("the limit",)
        counts = _limited(counts, limit)
    return ScanEstimate(version, counts.files, counts.rows, counts.bytes, sources)


def _limited(counts: Counts, limit: int) -> Counts:
    if limit == 0:
        return NOTHING
    if counts.files.upper is not None and counts.files.upper <= limit:
        return counts
    # Which files it will be is open, and so is what is in them.
    return replace(counts.any_part(), files=counts.files.at_most(limit))
