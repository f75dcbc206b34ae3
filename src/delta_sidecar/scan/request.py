"""From a configuration to a scan: the table is opened, the strategy decided, and what is asked for bound to it."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Literal, TypeVar

import pyarrow as pa
from msgspec import Struct
from msgspec.structs import replace

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
from delta_sidecar.predicate import Comparison, In
from delta_sidecar.predicate.tree import NEGATED, fold
from delta_sidecar.replay.open import Opening, list_log
from delta_sidecar.replay.snapshot import open_snapshot
from delta_sidecar.scan.config import LazyScanConfig, ScanOptions, ScanStrategy

if TYPE_CHECKING:
    from collections.abc import Callable

    from delta_sidecar.log.segment import LogSegment
    from delta_sidecar.plan import Executor
    from delta_sidecar.predicate import Predicate
    from delta_sidecar.predicate.tree import Constant, Leaf
    from delta_sidecar.replay.request import Question, ScanRequest
    from delta_sidecar.replay.snapshot import Snapshot
    from delta_sidecar.scan.pages import PageToken

T = TypeVar("T")


class TableOpener(Struct):
    """Opens a table for a scan."""

    table: str  # its address, without secrets
    config: LazyScanConfig
    events: Events
    segment: LogSegment | None = None  # as it was listed earlier, cut at the version that the configuration names
    snapshot: Snapshot | None = None  # the table, as soon as it is open, even where the scan then fails

    def pin(self, executor: Executor) -> LogSegment:
        """Lists the log up to the version that is asked for; nothing of the table is read."""

        def listed(options: ScanOptions) -> LogSegment:
            opening = Opening(
                self.table, self.config.version, sidecars=options.sidecar_enabled, refuse=False, events=self.events
            )
            return run_flow(list_log(pinned(opening, self.config, executor), speculate=False), executor)

        return self._with_sidecars_if_needed(listed)[0]

    def open(self, executor: Executor, question: Question | None = None) -> tuple[Snapshot, ScanOptions]:
        """Opens the table, and gives the options that count once its properties are known.

        Where a question is put to it afterwards, what that needs is asked for already.
        """

        def opened(options: ScanOptions) -> Snapshot:
            return self._open(options, executor, question)

        snapshot, is_with_sidecars = self._with_sidecars_if_needed(opened)
        options = self.options_of(snapshot)
        if options.sidecar_enabled != is_with_sidecars:
            snapshot = opened(options)
        if snapshot.version < snapshot.choice.segment.latest:
            from delta_sidecar.scan.retention import check_retention

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

    def _open(self, options: ScanOptions, executor: Executor, question: Question | None) -> Snapshot:
        config = self.config
        is_forward = options.strategy is ScanStrategy.FORWARD
        is_likely_forward = options.strategy is ScanStrategy.AUTO and config.early_end is None
        # A first file that has to be looked for may be anywhere in the tail; else it is in the newest commits.
        is_whole = is_forward or is_likely_forward or config.predicate is not None
        whole_tail = question is not None and is_whole
        whole_base = whole_tail and config.early_end is None
        opening = Opening(
            self.table,
            config.version,
            options.commit_read_parallelism,
            whole_tail=whole_tail,
            whole_base=whole_base,
            sidecars=options.sidecar_enabled,
            manifests=config.steps.manifests,
            question=question if whole_base and config.page_token is None else None,
            sidecar_groups_at_once=options.sidecar_row_groups_per_batch,
            segment=self.segment,
            events=self.events,
        )
        snapshot = self.snapshot = self._open_listed(opening, executor)
        choice = snapshot.choice
        self.events(
            SnapshotOpened(
                table=self.table,
                version=snapshot.version,
                base_version=choice.base_version,
                commits=snapshot.version - choice.tail_base,
                tail_bytes=choice.segment.tail_nbytes(choice.tail_base),
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
    from delta_sidecar.replay.versions import milliseconds, version_at

    return replace(opening, version=run_flow(version_at(opening, milliseconds(config.timestamp)), executor))


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


# The strategy: which end of the log comes first, and in which order.


# An entry is so many times as large in a commit as in a base, about: by far most of both are paths and statistics.
_TIMES_CHECKPOINT, _TIMES_SIDECAR = 4, 10
# Bytes of an entry in a commit without statistics, and of those of a column, where the base does not tell; at most, for
# a small base is mostly footer; and of what a commit has besides.
_ENTRY_BYTES, _COLUMN_BYTES, _MOST_BYTES, _COMMIT_BYTES = 300, 60, 5_000, 400
_COLUMNS_WITH_STATISTICS = 32


class Decision(Struct, frozen=True):
    """The strategy and order of a scan."""

    strategy: ScanStrategy  # which end of the log comes first: never `AUTO`
    reason: str  # why
    order: Literal["recent", "any"]  # `recent` or `any`


def decide(
    snapshot: Snapshot,
    options: ScanOptions,
    limit: int | None,
    predicate: Predicate | None,
    count_base: Callable[[], int | None],
    token: PageToken | None = None,
    *,
    recent_if_cheap: bool = False,
) -> Decision:
    """Decides.

    Args:
        snapshot: The table.
        options: What is asked for.
        limit: Most files that are wanted.
        predicate: Bound, in physical names.
        count_base: Tells how many files the base has; None where that is not known. It is asked where it matters.
        token: Where another scan stands that this one goes on from.
        recent_if_cheap: Whether the newest are wanted first, where the base has them in order of time.
    """
    if token is not None:
        strategy, reason, order = ScanStrategy(token.strategy), "the page token says so", token.order
    else:
        strategy, reason = _strategy(snapshot, options, limit, predicate, count_base)
        wants_recent = limit is not None or (recent_if_cheap and snapshot.choice.is_sorted)
        order = options.order or ("recent" if wants_recent else "any")
        if strategy is ScanStrategy.FORWARD:
            # The newest commits come last; a call that asks for both is refused, so that one was asked for elsewhere.
            order = "any"
    return Decision(strategy, reason, order)


def bind_request(config: LazyScanConfig, options: ScanOptions, snapshot: Snapshot, question: Question) -> ScanRequest:
    """Binds a question to a table: what the replay is asked for, but for the strategy."""
    at = None if config.token is None else config.token.position
    return replace(
        question.bound(snapshot.table, snapshot.columns),
        skipping=config.steps.pruning,
        limit=None if config.early_end is None else config.early_end + (0 if at is None else at.rows),
        start=None if at is None else at.place,
        emitted=() if config.token is None else config.token.emitted_before,
        strict=options.strict,
        fallback=options.enable_fallback,
        seen_memory=options.remove_set_memory_limit,
        sidecar_groups_at_once=options.sidecar_row_groups_per_batch,
        files_at_once=options.commit_read_parallelism,
        row_groups_at_once=options.checkpoint_row_groups_per_batch,
    )


def bounds_from_below(predicate: Predicate, times: frozenset[tuple[str, ...]]) -> bool:
    """Whether every row that matches has a time that is not before some value of the predicate."""

    def leaf(term: Leaf | Constant, negated: bool) -> bool:  # noqa: FBT001 - as fold calls it
        if isinstance(term, Comparison):
            operator = NEGATED[term.op] if negated else term.op
            return term.column.path in times and operator in ("=", ">", ">=")
        return isinstance(term, In) and not negated and term.column.path in times

    return fold(predicate, leaf, lambda is_and, bounds: any(bounds) if is_and else all(bounds))


def time_columns(snapshot: Snapshot, bucket_column: str) -> frozenset[tuple[str, ...]]:
    """Physical paths of the columns that tell when something happened: the time bucket, timestamps and dates."""
    fields = zip(snapshot.columns.logical, snapshot.columns.physical.names, strict=True)
    return frozenset(
        (physical,)
        for field, physical in fields
        if pa.types.is_timestamp(field.type)
        or pa.types.is_date(field.type)
        # Delta's column names differ by more than their case.
        or field.name.casefold() == bucket_column.casefold()
    )


def _strategy(
    snapshot: Snapshot,
    options: ScanOptions,
    limit: int | None,
    predicate: Predicate | None,
    count_base: Callable[[], int | None],
) -> tuple[ScanStrategy, str]:
    if options.strategy is not ScanStrategy.AUTO:
        return options.strategy, "it was asked for"
    if limit is not None:
        return ScanStrategy.REVERSE, "a limit is soon reached from the newest commits on"
    if options.order == "recent":
        return ScanStrategy.REVERSE, "the newest files are wanted first"
    if predicate is not None and bounds_from_below(predicate, time_columns(snapshot, options.bucket_column)):
        return ScanStrategy.REVERSE, "the predicate asks for times from some value on, which the newest commits hold"
    if not snapshot.choice.bases:
        return ScanStrategy.REVERSE, "there is no base"
    tail, base = _files(snapshot, count_base())
    if tail * 2 > base:
        return ScanStrategy.REVERSE, f"the tail (about {tail:,} files) is more than half of the base ({base:,} files)"
    return ScanStrategy.FORWARD, f"files of any age are wanted, and most are in the base ({base:,} files)"


def _files(snapshot: Snapshot, base_files: int | None) -> tuple[int, int]:
    """About how many files the tail adds, and how many the base has.

    Args:
        snapshot: The table.
        base_files: The number in the base, where it is known.
    """
    choice, counted = snapshot.choice, snapshot.counted
    times = _TIMES_SIDECAR if choice.is_sorted else _TIMES_CHECKPOINT
    commits = snapshot.version - choice.tail_base
    tail = max(0, choice.segment.tail_nbytes(choice.tail_base) - _COMMIT_BYTES * commits)
    # A checkpoint without a byte is torn, and says nothing.
    size = choice.bases[0].entries_nbytes or None
    usual = _ENTRY_BYTES + _COLUMN_BYTES * min(_COLUMNS_WITH_STATISTICS, len(snapshot.schema))
    if base_files is None:
        # What is live at the version that is read is in the base or in the tail.
        total = counted[1] if counted is not None and counted[0] == snapshot.version else None
        if size is None:
            base_files = 0 if total is None else max(0, total - tail // usual)
        else:
            base_files = times * size // usual if total is None else round(total / (1 + tail / (times * size)))
    entry = usual if size is None else max(1, min(_MOST_BYTES, times * size / max(1, base_files)))
    return round(tail / entry), base_files
