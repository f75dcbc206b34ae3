"""From a time to the version of a table that was the newest then.

A commit's time is the store's modification time, made to grow with the version: one that is not after the time of the
commit before gets that one's and a millisecond. Where the table has in-commit timestamps they count instead, from the
version on that they begin with; a search that narrows down on the version reads a few commits in each trip.

Only versions that can be read count: those from the oldest base on, or from the start of the log, up to the newest
without a gap.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import numpy as np
from msgspec.structs import replace

from delta_sidecar._arrow import to_numpy
from delta_sidecar.errors import (
    InvalidMetadataError,
    LogCorruptionError,
    MissingCommitError,
    VersionNotFoundError,
)
from delta_sidecar.log.commit_times import COMMIT_INFO_SCHEMA, enablement, timestamp_in
from delta_sidecar.log.names import commit_path
from delta_sidecar.plan import Consume, FileRef, ReadFiles, ScanJson
from delta_sidecar.replay.open import NO_HINT
from delta_sidecar.replay.snapshot import Snapshot, open_snapshot
from delta_sidecar.replay.tail import naming_commits

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import pyarrow as pa
    from numpy.typing import NDArray

    from delta_sidecar.plan import Flow
    from delta_sidecar.replay.open import Opening

AT_ONCE = 8
"""Commits that are looked into in one trip."""

BEGINNING = 64 << 10
"""Bytes of a commit that are read at first."""

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def version_at(opening: Opening, moment: int) -> Flow[int]:
    """The newest version that was committed up to a time, in milliseconds since the epoch.

    A time after the newest commit gives the newest version.

    Raises:
        VersionNotFoundError: The time is before the earliest version that can be read.
        LogCorruptionError: A commit lacks the in-commit timestamp that it must have.
    """
    newest = yield from open_snapshot(replace(opening, version=None, hint=NO_HINT, speculation=0, whole_tail=False))
    return (yield from _search(newest, moment))


def milliseconds(moment: datetime) -> int:
    """A time in milliseconds since the epoch; what is left of one does not count."""
    return (moment - EPOCH) // timedelta(milliseconds=1)


def commit_times(table: str, versions: Sequence[int]) -> Flow[dict[int, int | None]]:
    """The in-commit timestamps of some commits, in milliseconds since the epoch; None where a commit holds none.

    The timestamp is in the first line of a commit, so that its beginning is enough; commits may be large. One whose
    first line is longer, or is not the one that it should be, is read until it is found.
    """
    by_path = {commit_path(version): version for version in versions}
    times: dict[int, int | None] = {}
    cut: list[int] = []
    for batch in (yield Consume(ReadFiles(tuple(by_path), BEGINNING, beginning=True))):
        path, size, beginning = (batch.column(name)[0].as_py() for name in ("path", "size", "data"))
        version, is_whole = by_path[path], size <= len(beginning)
        times[version] = timestamp_in(beginning, is_whole=is_whole)
        if times[version] is None and not is_whole:
            cut.append(version)
    for version in versions:
        if version not in times:
            msg = f"{table}: commit {version} ({commit_path(version)}) was listed and is gone. Try again."
            raise MissingCommitError(msg, version)
    for version in cut:
        plan = ScanJson((FileRef(commit_path(version), label=version),), COMMIT_INFO_SCHEMA)
        with naming_commits(table):
            found = (time for batch in (yield Consume(plan)) for time in _timestamps(batch))
            times[version] = next(found, None)
    return times


def _timestamps(batch: pa.RecordBatch) -> Iterator[int]:
    column = batch.column("commitInfo").flatten()[0]
    return (column[int(row)].as_py() for row in np.flatnonzero(to_numpy(column.is_valid())))


def _search(newest: Snapshot, moment: int) -> Flow[int]:
    """Searches the log of an open table."""
    segment, table = newest.choice.segment, newest.table
    oldest = -1 if segment.from_start else min(base.version for base in newest.choice.bases)
    first, last = max(oldest, segment.commits.first), segment.version
    if first > last:
        msg = (
            f"{table} has no commit left that tells a time: there is only the checkpoint of version {last}. "
            f"Read that version by its number."
        )
        raise VersionNotFoundError(msg)
    since = enablement(newest.protocol, newest.metadata, table)
    if since is None:
        return _by_files(newest, moment, first, last)
    if since.version > last:
        msg = (
            f"the properties of {table} say that in-commit timestamps begin with version {since.version}, not yet there"
        )
        raise InvalidMetadataError(msg)
    if since.time is None or since.version < first:
        # The first one's own time is not known before it is read. Before all of them, that one is enough.
        is_before = since.time is not None and moment < since.time
        return (yield from _by_commits(table, moment, first, first - 1, first + 1 if is_before else last + 1))
    if moment >= since.time:
        return (yield from _by_commits(table, moment, since.version, since.version, last + 1))
    if since.version == first:
        raise _too_early(table, moment, first, since.time)
    return _by_files(newest, moment, first, since.version - 1)


def _by_files(newest: Snapshot, moment: int, first: int, last: int) -> int:
    """The newest of some versions, by when their commits were written to the store."""
    commits = newest.choice.segment.commits
    times = np.array(commits.times[first - commits.first : last + 1 - commits.first], dtype=np.int64)
    known = np.flatnonzero(times)
    if not len(known):
        msg = f"{newest.table}: it is not known when versions {first} to {last} were written; read one by its number"
        raise VersionNotFoundError(msg)
    # A commit that a listing skipped has no time. It gets one from the commit before it, if there is one.
    first += int(known[0])
    growing = _growing(times[int(known[0]) :])
    place = int(np.searchsorted(growing, moment, side="right")) - 1
    if place < 0:
        raise _too_early(newest.table, moment, first, int(growing[0]))
    return first + place


def _growing(times: NDArray[np.int64]) -> NDArray[np.int64]:
    """Times of one commit after another, each that is not after the one before set to a millisecond after it."""
    steps = np.arange(len(times), dtype=np.int64)
    return np.maximum.accumulate(times - steps) + steps


def _by_commits(table: str, moment: int, first: int, low: int, high: int) -> Flow[int]:
    """Narrows down on a version by the timestamps that commits hold.

    Args:
        table: The table's address, for messages.
        moment: The time.
        first: The first version that counts.
        low: The newest version that is known to be committed up to that time; the one before `first` if none is.
        high: The oldest version that is known to be committed later; the one after the last if none is.
    """
    while left := high - 1 - low:
        # The last one is among them, for most who ask want something recent.
        probes = {low - (-left * part // AT_ONCE) for part in range(1, AT_ONCE + 1)}
        times = yield from commit_times(table, sorted(probes))
        later = 0
        for version, time in sorted(times.items()):
            if time is None:
                msg = (
                    f"{table}: commit {version} ({commit_path(version)}) has no commitInfo with an "
                    f"inCommitTimestamp, and by the table's properties it must. Read a version by its number."
                )
                raise LogCorruptionError(msg)
            if time > moment:
                high, later = version, time
                break
            low = version
        if high == first:
            raise _too_early(table, moment, high, later)
    return low


def _too_early(table: str, moment: int, first: int, time: int) -> VersionNotFoundError:
    msg = (
        f"{table} cannot be read as of {_shown(moment)}: the earliest version that can be read is {first}, which was "
        f"committed at {_shown(time)}. Ask for that time or a later one: what was before is cleaned up, or never was."
    )
    return VersionNotFoundError(msg)


def _shown(moment: int) -> str:
    try:
        return (EPOCH + timedelta(milliseconds=moment)).isoformat(timespec="milliseconds")
    except OverflowError:
        return f"{moment} ms after the epoch"
