"""How a scan begins: the table is opened, and the options that count are known."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from delta_sidecar.errors import DeltaSidecarError
from delta_sidecar.events import Events, PropertyIgnored, SnapshotOpened
from delta_sidecar.replay.bases import Wanted
from delta_sidecar.replay.opening import Opening
from delta_sidecar.scan.config import LazyScanConfig, ScanOptions, ScanStrategy
from delta_sidecar.scan.opening import open_table
from delta_sidecar.scan.retention import check_retention

if TYPE_CHECKING:
    from collections.abc import Callable

    from delta_sidecar.execute import LocalExecutor
    from delta_sidecar.replay.snapshot import Snapshot


@dataclass(frozen=True, slots=True)
class Beginning:
    """Opens a table for a scan.

    Attributes:
        table: Its address, without secrets.
        config: What is asked for.
        events: Is told what happens.
        opened: Is given the table as soon as it is open, whatever becomes of the scan.
    """

    table: str
    config: LazyScanConfig
    events: Events
    opened: Callable[[Snapshot], None]

    def open(
        self, executor: LocalExecutor, *, scanning: bool, without: frozenset[str] = frozenset()
    ) -> tuple[Snapshot, ScanOptions]:
        """Opens the table, and gives the options that count once its properties are known.

        Args:
            executor: Runs the plans.
            scanning: Whether files are listed afterwards, so that what that needs is worth asking for already.
            without: Columns of files that nobody wants.
        """
        first = self.config.options()
        try:
            snapshot = self._open(first, executor, scanning=scanning, without=without)
        except DeltaSidecarError:
            # The table's own property may be for metadata sidecars, and they may be what is missing.
            if first.sidecar_enabled or self.config.sidecar_enabled is not None:
                raise
            first = replace(first, sidecar_enabled=True)
            snapshot = self._open(first, executor, scanning=scanning, without=without)
        options = self.options_of(snapshot)
        if options.sidecar_enabled != first.sidecar_enabled:
            snapshot = self._open(options, executor, scanning=scanning, without=without)
        check_retention(snapshot, options, executor, self.events)
        return snapshot, options

    def options_of(self, snapshot: Snapshot) -> ScanOptions:
        """The options that count for a table."""
        return self.config.options(snapshot.metadata.configuration, self._ignored)

    def _open(
        self, options: ScanOptions, executor: LocalExecutor, *, scanning: bool, without: frozenset[str]
    ) -> Snapshot:
        config = self.config
        is_forward = options.strategy is ScanStrategy.FORWARD
        is_likely_forward = options.strategy is ScanStrategy.AUTO and config.limit is None
        # A first file that has to be looked for may be anywhere in the tail; else it is in the newest commits.
        whole_tail = scanning and (is_forward or is_likely_forward or config.predicate is not None)
        whole_base = whole_tail and config.limit is None
        wanted = Wanted(config.parsed_predicate, without, options.sidecar_row_groups_per_batch)
        opening = Opening(
            self.table,
            config.version,
            options.commit_read_parallelism,
            whole_tail=whole_tail,
            whole_base=whole_base,
            sidecars=options.sidecar_enabled,
            wanted=wanted if whole_base and config.page_token is None else None,
            events=self.events,
        )
        snapshot = open_table(opening, config, executor)
        self.opened(snapshot)
        choice = snapshot.choice
        self.events(
            SnapshotOpened(
                table=self.table,
                version=snapshot.version,
                base_version=choice.base_version,
                commits=len(choice.tail()),
                tail_bytes=choice.tail_bytes,
                base_bytes=choice.base_bytes,
            )
        )
        return snapshot

    def _ignored(self, name: str, reason: str) -> None:
        self.events(PropertyIgnored(table=self.table, property=name, reason=reason))
