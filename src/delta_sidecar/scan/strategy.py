"""Which end of the log a scan begins with, and in which order files come."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa

from delta_sidecar.predicate import And, Comparison, In, Not, Or, Predicate
from delta_sidecar.predicate.expression import NEGATED
from delta_sidecar.replay.recent import Recent
from delta_sidecar.scan.config import ScanStrategy

if TYPE_CHECKING:
    from delta_sidecar.replay.snapshot import Snapshot
    from delta_sidecar.scan.config import ScanOptions
    from delta_sidecar.scan.paging import PageToken

_MANY_COMMITS = 100


@dataclass(frozen=True, slots=True)
class Decision:
    """How a scan goes about it.

    Attributes:
        strategy: Which end of the log comes first: never `AUTO`.
        reason: Why.
        order: `recent` or `any`.
        recent: The order that a base's files are wanted in; None for the base's own.
    """

    strategy: ScanStrategy
    reason: str
    order: str
    recent: Recent | None = None

    def told(self) -> tuple[str, str, str]:
        """Strategy, reason and order in words."""
        return self.strategy.value, self.reason, self.order


def decide(
    snapshot: Snapshot,
    options: ScanOptions,
    limit: int | None,
    predicate: Predicate | None,
    token: PageToken | None = None,
    *,
    recent_if_cheap: bool = False,
) -> Decision:
    """Decides.

    Args:
        snapshot: The table.
        options: What is asked for.
        limit: Most files that are wanted.
        predicate: Bound, in logical names.
        token: Where another scan stands that this one goes on from.
        recent_if_cheap: Whether the newest are wanted first, where the base has them in order of time.
    """
    if token is not None:
        strategy, reason, order = ScanStrategy(token.strategy), "the page token says so", token.order
    else:
        strategy, reason = _strategy(snapshot, options, limit, predicate)
        wants_recent = limit is not None or (recent_if_cheap and snapshot.choice.is_sorted)
        order = options.order or ("recent" if wants_recent else "any")
        if strategy is ScanStrategy.FORWARD:
            # The newest commits come last; a call that asks for both is refused, so that one was asked for elsewhere.
            order = "any"
    recent = _recent(snapshot, options.bucket_column, limit, token) if order == "recent" else None
    return Decision(strategy, reason, order, recent)


def bounds_from_below(predicate: Predicate, times: frozenset[tuple[str, ...]]) -> bool:
    """Whether every row that matches has a time that is not before some value of the predicate."""
    if isinstance(predicate, And):
        return any(bounds_from_below(term, times) for term in predicate.terms)
    if isinstance(predicate, Or):
        return all(bounds_from_below(term, times) for term in predicate.terms)
    if isinstance(predicate, Not):
        opposite = _opposite(predicate.term)
        return opposite is not None and bounds_from_below(opposite, times)
    if isinstance(predicate, Comparison):
        return predicate.column.path in times and predicate.op in ("=", ">", ">=")
    return isinstance(predicate, In) and predicate.column.path in times


def _opposite(term: Predicate) -> Predicate | None:
    """The same as NOT a term, without the NOT; None where there is no such thing."""
    if isinstance(term, Comparison):
        return Comparison(NEGATED[term.op], term.column, term.value)
    if isinstance(term, And):
        return Or(tuple(Not(inner) for inner in term.terms))
    if isinstance(term, Or):
        return And(tuple(Not(inner) for inner in term.terms))
    return term.term if isinstance(term, Not) else None


def time_columns(snapshot: Snapshot, bucket_column: str) -> frozenset[tuple[str, ...]]:
    """Paths of the columns that tell when something happened: the time bucket, timestamps and dates."""
    columns = snapshot.schema
    times = {field.name for field in columns if pa.types.is_timestamp(field.type) or pa.types.is_date(field.type)}
    return frozenset((name,) for name in times | {name for name in columns.names if _is_named(name, bucket_column)})


def _strategy(
    snapshot: Snapshot, options: ScanOptions, limit: int | None, predicate: Predicate | None
) -> tuple[ScanStrategy, str]:
    choice = snapshot.choice
    commits, tail, base = len(choice.tail()), choice.tail_bytes, choice.base_bytes
    if options.strategy is not ScanStrategy.AUTO:
        return options.strategy, "it was asked for"
    if limit is not None:
        return ScanStrategy.REVERSE, "a limit is soon reached from the newest commits on"
    if options.order == "recent":
        return ScanStrategy.REVERSE, "the newest files are wanted first"
    if predicate is not None and bounds_from_below(predicate, time_columns(snapshot, options.bucket_column)):
        return ScanStrategy.REVERSE, "the predicate asks for times from some value on, which the newest commits hold"
    if tail * 2 > base:
        return ScanStrategy.REVERSE, f"the tail ({tail:,} bytes) is more than half of the base ({base:,} bytes)"
    if commits > _MANY_COMMITS:
        return ScanStrategy.FORWARD, f"there are {commits:,} commits after the base, which comes first"
    return ScanStrategy.FORWARD, f"files of any age are wanted, and most are in the base ({base:,} bytes)"


def _recent(snapshot: Snapshot, column: str, limit: int | None, token: PageToken | None) -> Recent | None:
    """The order of buckets, where the table has them as a partition column."""
    column = next((name for name in snapshot.partition_columns if _is_named(name, column)), "")
    if not column:
        return None
    physical = snapshot.columns.physical_names[(column,)][0]
    after = None if token is None else token.position.key
    return Recent(column, physical, snapshot.schema.field(column).type, limit, after)


def _is_named(column: str, name: str) -> bool:
    # Delta's column names are told apart by more than their case.
    return column.casefold() == name.casefold()
