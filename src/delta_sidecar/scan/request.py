"""From a configuration to a scan request: which end of the log comes first, in which order, bound to the table."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal

import pyarrow as pa

from delta_sidecar.predicate import Comparison, In
from delta_sidecar.predicate.tree import NEGATED, fold
from delta_sidecar.replay.files import FILE_SCHEMA
from delta_sidecar.replay.request import ScanRequest
from delta_sidecar.scan.config import ScanStrategy

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from delta_sidecar.predicate import Predicate
    from delta_sidecar.predicate.tree import Constant, Leaf
    from delta_sidecar.replay.snapshot import Snapshot
    from delta_sidecar.scan.config import LazyScanConfig, ScanOptions
    from delta_sidecar.scan.pages import PageToken

# An entry is so many times as large in a commit as in a base, about: by far most of both are paths and statistics.
_TIMES_CHECKPOINT, _TIMES_SIDECAR = 4, 10
# Bytes of an entry in a commit without statistics, and of those of a column, where the base does not tell; at most, for
# a small base is mostly footer; and of what a commit has besides.
_ENTRY_BYTES, _COLUMN_BYTES, _MOST_BYTES, _COMMIT_BYTES = 300, 60, 5_000, 400
_COLUMNS_WITH_STATISTICS = 32


@dataclass(frozen=True, slots=True)
class Decision:
    """How a scan goes about it."""

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


def bind_request(
    config: LazyScanConfig, options: ScanOptions, snapshot: Snapshot, columns: Iterable[str] = FILE_SCHEMA.names
) -> ScanRequest:
    """Binds a configuration to a table: what the replay is asked for, but for the strategy."""
    at = None if config.token is None else config.token.position
    return replace(
        ScanRequest.bind(snapshot.table, snapshot.columns, config.parsed_predicate, columns),
        limit=None if config.limit is None else config.limit + (0 if at is None else at.rows),
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
    tail = max(0, choice.tail().nbytes - _COMMIT_BYTES * len(choice.tail()))
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
