"""Commits of a log without a gap, as numbers: there may be millions of them.

A tail is what comes after a base. It is gone through newest first, a window of 1,000 versions at a time, so that names
and requests are made for one window and no more.
"""

from __future__ import annotations

from array import array
from dataclasses import dataclass, field, replace
from itertools import chain
from typing import TYPE_CHECKING

import numpy as np

from delta_sidecar.log.names import commit_path

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

WINDOW = 1_000
"""Versions in a window of a tail."""

Commit = tuple[int, str, int]
"""Version, path and size."""


@dataclass(frozen=True, slots=True)
class CommitRange:
    """Listed commits, version after version.

    Attributes:
        first: The first version.
        sizes: Size of each in bytes.
        times: When each was written, by the store, in milliseconds since the epoch.
    """

    first: int = 0
    sizes: array[int] = field(default_factory=lambda: array("q"), repr=False)
    times: array[int] = field(default_factory=lambda: array("q"), repr=False)

    def __len__(self) -> int:
        return len(self.sizes)

    def __contains__(self, version: int) -> bool:
        return 0 <= version - self.first < len(self.sizes)

    def size(self, version: int) -> int:
        """Size of a commit."""
        return self.sizes[version - self.first]

    def time(self, version: int) -> int:
        """When a commit was written, by the store."""
        return self.times[version - self.first]


@dataclass(frozen=True, slots=True)
class Tail:
    """The commits after a base, newest first.

    Attributes:
        commits: All that are listed.
        newest: The newest version of the tail.
        base: Version of the base: the tail's are above it.
    """

    commits: CommitRange
    newest: int
    base: int

    def __len__(self) -> int:
        return max(0, self.newest - self.base)

    def __iter__(self) -> Iterator[Commit]:
        return self._commits(self.newest, self.base)

    @property
    def nbytes(self) -> int:
        """Their size together."""
        first = self.commits.first
        return sum(self.commits.sizes[self.base + 1 - first : self.newest + 1 - first]) if self else 0

    def window(self) -> tuple[Commit, ...]:
        """The newest 1,000 of them."""
        return tuple(self._commits(self.newest, max(self.base, self.newest - WINDOW)))

    def rest(self) -> Tail:
        """Those after the window."""
        return self.up_to(self.newest - WINDOW)

    def up_to(self, version: int) -> Tail:
        """Those up to a version."""
        return replace(self, newest=min(self.newest, version))

    def above(self, version: int) -> Tail:
        """Those above a version."""
        return replace(self, base=max(self.base, version))

    def _commits(self, newest: int, base: int) -> Iterator[Commit]:
        return ((version, commit_path(version), self.commits.size(version)) for version in range(newest, base, -1))


class ListedCommits:
    """Listed commits, in any order: version, size and time of each, and nothing else."""

    def __init__(self) -> None:
        self._versions, self._sizes, self._times = array("q"), array("q"), array("q")
        self._sorted: tuple[NDArray[np.int64], NDArray[np.int64]] | None = None

    def __len__(self) -> int:
        return len(self._versions)

    def add(self, version: int, size: int, time: int) -> None:
        """Takes one."""
        self._versions.append(version)
        self._sizes.append(size)
        self._times.append(time)
        self._sorted = None

    @property
    def highest(self) -> int:
        """The highest version; -1 without any."""
        versions, _ = self._in_order()
        return int(versions[-1]) if len(versions) else -1

    def time(self, version: int) -> int | None:
        """When a commit was written; None where it was not listed."""
        versions, rows = self._in_order()
        at = int(np.searchsorted(versions, version))
        return self._times[rows[at]] if at < len(versions) and versions[at] == version else None

    def missing(self, base: int, version: int, most: int) -> list[int]:
        """The first versions above a base and up to a version that were not listed."""
        versions, _ = self._in_order()
        listed = versions[(versions > base) & (versions <= version)]
        absent: list[int] = []
        if len(listed) == version - base:
            return absent
        wanted = base + 1
        for at in chain(listed.tolist(), [version + 1]):
            absent += range(wanted, min(at, wanted + most - len(absent)))
            if len(absent) == most:
                break
            wanted = at + 1
        return absent

    def up_to(self, version: int) -> CommitRange:
        """Those up to a version, down to the first gap."""
        versions, rows = self._in_order()
        versions = versions[: int(np.searchsorted(versions, version, side="right"))]
        if not len(versions) or versions[-1] != version:
            return CommitRange(version + 1)
        # Without a gap, versions grow as their places do.
        steps = versions - np.arange(len(versions))
        start = int(np.argmax(steps == steps[-1]))
        chosen = rows[start : len(versions)]
        return CommitRange(int(versions[start]), _taken(self._sizes, chosen), _taken(self._times, chosen))

    def _in_order(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Versions in order, and where each was added; of one that was added twice, the last time."""
        if self._sorted is None:
            added = np.array(self._versions, dtype=np.int64)
            rows = np.argsort(added, kind="stable")
            is_last = np.append(np.diff(added[rows]) != 0, len(rows) > 0)[: len(rows)]
            rows = rows[is_last]
            self._sorted = (added[rows], rows)
        return self._sorted


def _taken(values: array[int], rows: NDArray[np.int64]) -> array[int]:
    return array("q", np.array(values, dtype=np.int64)[rows].tobytes())
