"""The retention guard: refuses versions whose data files may be vacuumed already.

A file that a version has, and a later one removed, is kept for a while after its removal; then a vacuum may delete it.
So an old version is whole for at least that long after the next one was committed, and from then on it is in doubt.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, TypeAlias

from delta_sidecar.errors import RetentionGuardError
from delta_sidecar.events import Events, PropertyIgnored, RetentionDoubted
from delta_sidecar.log.commit_times import enablement, read_interval
from delta_sidecar.plan import run_flow
from delta_sidecar.replay.open import Opening
from delta_sidecar.replay.snapshot import Snapshot, open_snapshot
from delta_sidecar.replay.versions import EPOCH, commit_times

if TYPE_CHECKING:
    from delta_sidecar.plan import Executor

RETENTION = "delta.deletedFileRetentionDuration"
DEFAULT_RETENTION = timedelta(weeks=1)


@dataclass(frozen=True, slots=True)
class RetentionCheck:
    """An old version that somebody wants to read, and what there is to judge it by.

    Attributes:
        table: The table's address, without secrets.
        version: The version.
        latest: The table's newest version.
        superseded_at: When the next version was committed; None where that is not known.
        now: The time of the check.
        retention: How long files are kept after their removal, by the table's `delta.deletedFileRetentionDuration`.
    """

    table: str
    version: int
    latest: int
    superseded_at: datetime | None
    now: datetime
    retention: timedelta


RetentionGuard: TypeAlias = Callable[[RetentionCheck], str | None]
"""Gives the reason to refuse a version; None to read it."""


def default_guard(check: RetentionCheck) -> str | None:
    """Refuses an old version that was superseded longer ago than removed files are kept.

    So it does one of which it is not known when that was: it may be as long ago.
    """
    if check.version == check.latest:
        return None
    if check.superseded_at is None:
        return f"it is not the newest, and it is not known when version {check.version + 1} was committed"
    if check.now - check.superseded_at <= check.retention:
        return None
    return (
        f"version {check.version + 1} was committed at {check.superseded_at.isoformat(timespec='seconds')}, and files "
        f"that were removed then are kept for {str(check.retention).removesuffix(', 0:00:00')}"
    )


def check_retention(
    snapshot: Snapshot,
    guard: RetentionGuard | bool,  # noqa: FBT001 - an option
    executor: Executor,
    events: Events,
) -> None:
    """Lets the retention guard judge a version that is open and not the newest.

    Without a guard nothing is refused, nothing is read, and an event tells where the default guard would refuse. With
    one, what counts is how long the table keeps files now, so that its newest version is opened too; and where commits
    hold timestamps of their own, that of the next one is read.

    Raises:
        RetentionGuardError: The guard refuses.
    """
    segment, table = snapshot.choice.segment, snapshot.table
    # A listing that gives no time gives 0.
    newest, superseded = snapshot, segment.superseded or None
    if guard is not False:
        newest = run_flow(open_snapshot(Opening(table)), executor)
        if superseded is not None:
            superseded = _in_commit(newest, snapshot.version + 1, executor) or superseded
    check = RetentionCheck(
        table=table,
        version=snapshot.version,
        latest=segment.latest,
        superseded_at=_moment(superseded),
        now=_now(),
        retention=_retention(newest.metadata.configuration, table, events),
    )
    reason = guard(check) if callable(guard) else default_guard(check)
    if reason is None:
        return
    if guard is False:
        events(RetentionDoubted(table=table, version=snapshot.version, reason=reason))
        return
    msg = (
        f"{table}: the retention guard refuses version {snapshot.version}: its data files may be vacuumed already, "
        f"for {reason}. Read a newer version, or set retention_guard to False to list its files all the same."
    )
    raise RetentionGuardError(msg, snapshot.version)


def _now() -> datetime:
    return datetime.now(UTC)


def _moment(milliseconds: int | None) -> datetime | None:
    try:
        return None if milliseconds is None else EPOCH + timedelta(milliseconds=milliseconds)
    except OverflowError:
        return None


def _retention(properties: Mapping[str, str], table: str, events: Events) -> timedelta:
    text = properties.get(RETENTION)
    if text is None:
        return DEFAULT_RETENTION
    try:
        return read_interval(str(text))
    except ValueError as error:
        reason = f"table property {RETENTION} must be {error}, not {text!r}"
        events(PropertyIgnored(table=table, property=RETENTION, reason=reason))
        return DEFAULT_RETENTION


def _in_commit(newest: Snapshot, version: int, executor: Executor) -> int | None:
    """When a commit was made, by its own word; None where it says nothing."""
    since = enablement(newest.protocol, newest.metadata, newest.table)
    if since is None or version < since.version:
        return None
    return run_flow(commit_times(newest.table, (version,)), executor)[version]
