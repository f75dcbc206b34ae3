"""When commits were made, by their own word: the in-commit timestamps of some of them.

    CommitTimesPhase -> (CommitInfoPhase, one for each commit that begins with something else) -> whatever `then` says

The timestamp is in the first line of a commit, so that its beginning is enough; commits may be large. One whose first
line is longer, or is not the one that it should be, is gone through until it is found.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING, Generic, TypeVar

import numpy as np

from delta_sidecar._arrow import valid_mask
from delta_sidecar.errors import MissingCommitError
from delta_sidecar.log.in_commit_timestamps import COMMIT_INFO_SCHEMA, timestamp_in
from delta_sidecar.log.names import commit_path
from delta_sidecar.plan import Consume, ConsumePhase, FileRef, ReadFiles, ScanJson, StateMachinePhase
from delta_sidecar.replay.failures import raise_commit_failure

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    import pyarrow as pa

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
