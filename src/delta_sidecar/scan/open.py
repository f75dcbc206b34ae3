"""How a scan begins: the table is opened, and the options that count are known."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime
from typing import TYPE_CHECKING, TypeVar

from delta_sidecar.errors import (
    DeltaSidecarError,
    LogCorruptionError,
    MissingCommitError,
    PageTokenExpiredError,
    StorageError,
    TableNotFoundError,
    UnreadableFileError,
    VersionNotFoundError,
)
from delta_sidecar.events import Events, PropertyIgnored, SnapshotOpened
from delta_sidecar.plan import run_flow
from delta_sidecar.replay.files import FILE_SCHEMA
from delta_sidecar.replay.open import Opening, Question, pin_version
from delta_sidecar.replay.snapshot import open_snapshot
from delta_sidecar.replay.versions import milliseconds, version_at
from delta_sidecar.scan.config import LazyScanConfig, ScanOptions, ScanStrategy
from delta_sidecar.scan.retention import check_retention

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from delta_sidecar.log.segment import LogSegment
    from delta_sidecar.plan import Executor
    from delta_sidecar.replay.snapshot import Snapshot


T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class TableOpener:
    """Opens a table for a scan."""

    table: str  # its address, without secrets
    config: LazyScanConfig
    events: Events
    opened: Callable[[Snapshot], None]  # is called as soon as the table is open, even where the scan then fails
    segment: LogSegment | None = None  # as it was listed earlier, cut at the version that the configuration names

    def pin(self, executor: Executor) -> LogSegment:
        """Lists the log up to the version that is asked for; nothing of the table is read.

        Args:
            executor: Runs the plans.
        """

        def listed(options: ScanOptions) -> LogSegment:
            opening = Opening(
                self.table, self.config.version, sidecars=options.sidecar_enabled, refuse=False, events=self.events
            )
            return list_table(opening, self.config, executor)

        return self._with_sidecars_if_needed(listed)[0]

    def open(
        self, executor: Executor, *, scanning: bool, columns: Sequence[str] = FILE_SCHEMA.names
    ) -> tuple[Snapshot, ScanOptions]:
        """Opens the table, and gives the options that count once its properties are known.

        Args:
            executor: Runs the plans.
            scanning: Whether files are listed afterwards, so that what that needs is worth asking for already.
            columns: Columns of files that are listed then.
        """

        def opened(options: ScanOptions) -> Snapshot:
            return self._open(options, executor, scanning=scanning, columns=columns)

        snapshot, is_with_sidecars = self._with_sidecars_if_needed(opened)
        options = self.options_of(snapshot)
        if options.sidecar_enabled != is_with_sidecars:
            snapshot = opened(options)
        if snapshot.version < snapshot.choice.segment.latest:
            check_retention(snapshot, options.retention_guard, executor, self.events)
        return snapshot, options

    def options_of(self, snapshot: Snapshot) -> ScanOptions:
        """The options that count for a table."""
        return self.config.options(snapshot.metadata.configuration, self._ignored)

    def _with_sidecars_if_needed(self, read: Callable[[ScanOptions], T]) -> tuple[T, bool]:
        """Reads something before the table's properties are known, and says whether metadata sidecars counted."""
        options = self.config.options()
        try:
            return read(options), options.sidecar_enabled
        except DeltaSidecarError:
            # The table's own property may be for metadata sidecars, and they may be what is missing.
            if options.sidecar_enabled or self.config.sidecar_enabled is not None:
                raise
            return read(replace(options, sidecar_enabled=True)), True

    def _open(self, options: ScanOptions, executor: Executor, *, scanning: bool, columns: Sequence[str]) -> Snapshot:
        config = self.config
        is_forward = options.strategy is ScanStrategy.FORWARD
        is_likely_forward = options.strategy is ScanStrategy.AUTO and config.limit is None
        # A first file that has to be looked for may be anywhere in the tail; else it is in the newest commits.
        whole_tail = scanning and (is_forward or is_likely_forward or config.predicate is not None)
        whole_base = whole_tail and config.limit is None
        question = Question(config.parsed_predicate, tuple(columns), options.sidecar_row_groups_per_batch)
        opening = Opening(
            self.table,
            config.version,
            options.commit_read_parallelism,
            whole_tail=whole_tail,
            whole_base=whole_base,
            sidecars=options.sidecar_enabled,
            question=question if whole_base and config.page_token is None else None,
            segment=self.segment,
            events=self.events,
        )
        snapshot = self._open_listed(opening, executor)
        self.opened(snapshot)
        choice, tail = snapshot.choice, snapshot.choice.tail()
        self.events(
            SnapshotOpened(
                table=self.table,
                version=snapshot.version,
                base_version=choice.base_version,
                commits=len(tail),
                tail_bytes=tail.nbytes,
                base_bytes=choice.bases[0].nbytes if choice.bases else 0,
            )
        )
        return snapshot

    def _open_listed(self, opening: Opening, executor: Executor) -> Snapshot:
        try:
            return open_table(opening, self.config, executor)
        except (LogCorruptionError, StorageError, UnreadableFileError):
            if self.segment is None:
                raise
            # What was listed earlier may have been cleaned up meanwhile, and the version still be there.
            snapshot = open_table(replace(opening, segment=None), self.config, executor)
            if not snapshot.choice.segment.is_same_history(self.segment):
                # It may be another table, made anew or restored at the same place.
                raise
            return snapshot

    def _ignored(self, name: str, reason: str) -> None:
        self.events(PropertyIgnored(table=self.table, property=name, reason=reason))


# Opening a table where a configuration says: at a version, at a time, or where a page token stands.


def pinned(opening: Opening, config: LazyScanConfig, executor: Executor) -> Opening:
    """The same opening, at the version of the time that is asked for where there is one."""
    if not isinstance(config.timestamp, datetime):
        return opening
    return replace(opening, version=run_flow(version_at(opening, milliseconds(config.timestamp)), executor))


def list_table(opening: Opening, config: LazyScanConfig, executor: Executor) -> LogSegment:
    """Lists the log of a table up to the version that is asked for; nothing of the table is read."""
    return run_flow(pin_version(pinned(opening, config, executor)), executor)


def open_table(opening: Opening, config: LazyScanConfig, executor: Executor) -> Snapshot:
    """Opens a table.

    Raises:
        PageTokenExpiredError: What the page token points to is gone.
    """
    token = config.token
    if token is None:
        return run_flow(open_snapshot(pinned(opening, config, executor)), executor)
    opening = replace(opening, version=token.version, hint=token.base_version)
    try:
        snapshot = run_flow(open_snapshot(opening), executor)
    except (TableNotFoundError, VersionNotFoundError, MissingCommitError) as error:
        msg = f"{opening.table}: version {token.version}, which the page token is for, is gone: {error}"
        raise PageTokenExpiredError(msg) from error
    return replace(snapshot, choice=token.choice(snapshot))
