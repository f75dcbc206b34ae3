"""From a time to the version of a table that was the newest then.

    (phases that open the newest version, over a listing of the whole log) -> (CommitTimesPhase)* -> version

A commit's time is the store's modification time, made to grow with the version: one that is not after the time of the
commit before gets that one's and a millisecond. Where the table has in-commit timestamps they count instead, from the
version on that they begin with; a search that narrows down on the version reads a few commits in each trip.

Only versions that can be read count: those from the oldest base on, or from the start of the log, up to the newest
without a gap.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Generic, TypeVar

import numpy as np

from delta_sidecar._arrow import valid_mask
from delta_sidecar.errors import InvalidMetadataError, LogCorruptionError, MissingCommitError, VersionNotFoundError
from delta_sidecar.log.commit_times import COMMIT_INFO_SCHEMA, enablement, timestamp_in
from delta_sidecar.log.names import commit_path
from delta_sidecar.plan import (
    Consume,
    ConsumePhase,
    FileRef,
    PartialResult,
    ReadFiles,
    ScanJson,
    StateMachinePhase,
    Terminus,
)
from delta_sidecar.replay.failures import raise_commit_failure
from delta_sidecar.replay.snapshot import Snapshot, open_snapshot

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    import pyarrow as pa
    from numpy.typing import NDArray

    from delta_sidecar.plan import Plan
    from delta_sidecar.replay.open import Opening


# When commits were made, by their own word: the in-commit timestamps of some of them.
#
#     CommitTimesPhase -> (CommitInfoPhase, one for each commit that begins with something else) -> whatever `then` says
#
# The timestamp is in the first line of a commit, so that its beginning is enough; commits may be large. One whose first
# line is longer, or is not the one that it should be, is gone through until it is found.


T = TypeVar("T")

BEGINNING = 64 << 10
"""How much of a commit is read at first."""


class TimesContinuation(ABC, Generic[T]):
    """What goes on once the times of some commits are known."""

    @abstractmethod
    def timed(self, times: Mapping[int, int | None]) -> StateMachinePhase[T]:
        """Says what comes next. Times are in milliseconds since the epoch; None where a commit holds none."""


@dataclass(frozen=True, slots=True)
class CommitTimesPhase(ConsumePhase[T]):
    """Reads the beginnings of some commits, all in one trip.

    Attributes:
        table: The table's address, for messages.
        versions: The commits.
        then: What goes on.
    """

    table: str
    versions: tuple[int, ...]
    then: TimesContinuation[T]

    def plan(self) -> ReadFiles:
        """Their beginnings."""
        return ReadFiles(tuple(commit_path(version) for version in self.versions), BEGINNING, beginning=True)

    def next(self, data: Iterator[pa.RecordBatch]) -> StateMachinePhase[T]:
        """Takes the timestamps out of them."""
        by_path = {commit_path(version): version for version in self.versions}
        times: dict[int, int | None] = {}
        cut: list[int] = []
        for batch in data:
            path, size, beginning = (batch.column(name)[0].as_py() for name in ("path", "size", "data"))
            version, is_whole = by_path[path], size <= len(beginning)
            times[version] = timestamp_in(beginning, is_whole=is_whole)
            if times[version] is None and not is_whole:
                cut.append(version)
        for version in self.versions:
            if version not in times:
                msg = f"{self.table}: commit {version} ({commit_path(version)}) was listed and is gone. Try again."
                raise MissingCommitError(msg, version)
        return _read_on(self.table, tuple(cut), times, self.then)


@dataclass(frozen=True, slots=True)
class CommitInfoPhase(ConsumePhase[T]):
    """Goes through a commit, up to the first `commitInfo` with a timestamp.

    Attributes:
        table: The table's address, for messages.
        versions: The commits that are left to go through, this one first.
        times: What is known of others.
        then: What goes on.
    """

    table: str
    versions: tuple[int, ...]
    times: Mapping[int, int | None]
    then: TimesContinuation[T]

    def plan(self) -> ScanJson:
        """The commit, block by block."""
        version = self.versions[0]
        return ScanJson((FileRef(commit_path(version), label=version),), COMMIT_INFO_SCHEMA)

    def next(self, data: Iterator[pa.RecordBatch]) -> StateMachinePhase[T]:
        """Takes the timestamp."""
        version, *rest = self.versions
        found = (time for batch in data for time in _timestamps(batch))
        return _read_on(self.table, tuple(rest), {**self.times, version: next(found, None)}, self.then)

    def recover(self, error: Exception) -> StateMachinePhase[T] | None:
        """A commit that cannot be read fails the search; the error names it."""
        raise_commit_failure(self.table, error)
        return None


def _read_on(
    table: str, cut: tuple[int, ...], times: Mapping[int, int | None], then: TimesContinuation[T]
) -> StateMachinePhase[T]:
    return Consume(CommitInfoPhase(table, cut, times, then)) if cut else then.timed(times)


def _timestamps(batch: pa.RecordBatch) -> Iterator[int]:
    column = batch.column("commitInfo").flatten()[0]
    return (column[int(row)].as_py() for row in np.flatnonzero(valid_mask(column)))


AT_ONCE = 8
"""How many commits are looked into in one trip."""

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def version_at(opening: Opening, moment: int) -> StateMachinePhase[int]:
    """The start of the chain that ends in the newest version that was committed up to a time.

    A time after the newest commit gives the newest version. The chain fails with a `VersionNotFoundError` where the
    time is before the earliest version that can be read, and with a `LogCorruptionError` where a commit lacks the
    in-commit timestamp that it must have.

    Args:
        opening: What is asked for; its version does not count.
        moment: The time, in milliseconds since the epoch.
    """
    newest = replace(opening, version=None, listed_from=-1, speculation=0, whole_tail=False)
    return _then(open_snapshot(newest), moment)


def milliseconds(moment: datetime) -> int:
    """A time in milliseconds since the epoch; what is left of one does not count."""
    return (moment - EPOCH) // timedelta(milliseconds=1)


@dataclass(frozen=True, slots=True)
class NewestVersionPhase(ConsumePhase[int]):
    """A phase of opening the newest version, and then the search."""

    phase: ConsumePhase[Snapshot]
    moment: int

    def plan(self) -> Plan:
        """What that phase reads."""
        return self.phase.plan()

    def next(self, data: Iterator[pa.RecordBatch]) -> StateMachinePhase[int]:
        """Goes on as that phase does, until the table is open."""
        return _then(self.phase.next(data), self.moment)

    def recover(self, error: Exception) -> StateMachinePhase[int] | None:
        """Recovers as that phase does."""
        step = self.phase.recover(error)
        return None if step is None else _then(step, self.moment)


def _then(step: StateMachinePhase[Snapshot], moment: int) -> StateMachinePhase[int]:
    if isinstance(step, Consume):
        return Consume(NewestVersionPhase(step.phase, moment))
    if isinstance(step, PartialResult):
        msg = "opening a table gives no batches"
        raise TypeError(msg)
    return _search(step.value, moment)


def _search(newest: Snapshot, moment: int) -> StateMachinePhase[int]:
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
        return Terminus(_by_files(newest, moment, first, last))
    if since.version > last:
        msg = (
            f"the properties of {table} say that in-commit timestamps begin with version {since.version}, not yet there"
        )
        raise InvalidMetadataError(msg)
    if since.time is None or since.version < first:
        # The first one's own time is not known before it is read. Before all of them, that one is enough.
        is_before = since.time is not None and moment < since.time
        return InCommitSearch(table, moment, first, first - 1, first + 1 if is_before else last + 1).step()
    if moment >= since.time:
        return InCommitSearch(table, moment, since.version, since.version, last + 1).step()
    if since.version == first:
        raise _too_early(table, moment, first, since.time)
    return Terminus(_by_files(newest, moment, first, since.version - 1))


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


@dataclass(frozen=True, slots=True)
class InCommitSearch(TimesContinuation[int]):
    """Narrows down on a version by the timestamps that commits hold.

    Attributes:
        table: The table's address, for messages.
        moment: The time.
        first: The first version that counts.
        low: The newest version that is known to be committed up to that time; the one before `first` if none is.
        high: The oldest version that is known to be committed later; the one after the last if none is.
    """

    table: str
    moment: int
    first: int
    low: int
    high: int

    def step(self) -> StateMachinePhase[int]:
        """Looks into more commits, if there are any between."""
        left = self.high - 1 - self.low
        if not left:
            return Terminus(self.low)
        # The last one is among them, for most who ask want something recent.
        probes = {self.low - (-left * part // AT_ONCE) for part in range(1, AT_ONCE + 1)}
        return Consume(CommitTimesPhase(self.table, tuple(sorted(probes)), self))

    def timed(self, times: Mapping[int, int | None]) -> StateMachinePhase[int]:
        """Takes what they say."""
        low, high, later = self.low, self.high, 0
        for version, time in sorted(times.items()):
            if time is None:
                msg = (
                    f"{self.table}: commit {version} ({commit_path(version)}) has no commitInfo with an "
                    f"inCommitTimestamp, and by the table's properties it must. Read a version by its number."
                )
                raise LogCorruptionError(msg)
            if time > self.moment:
                high, later = version, time
                break
            low = version
        if high == self.first:
            raise _too_early(self.table, self.moment, high, later)
        return replace(self, low=low, high=high).step()


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
