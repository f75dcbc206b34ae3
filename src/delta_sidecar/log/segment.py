"""The part of a log that makes up one version: a base and the commits after it.

`LogSegmentBuilder` is fed the listing, in any order and page by page, and keeps only numbers: which versions have
a commit, a checksum, a complete checkpoint.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from itertools import islice
from typing import TYPE_CHECKING

from delta_sidecar.log.names import SIDECAR_FOLDER, LogFileKind, commit_path, parse_log_name

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping


@dataclass(frozen=True, slots=True)
class CheckpointFiles:
    """The files of one complete checkpoint.

    Attributes:
        version: The version whose state it holds.
        files: (path, size), in order of the parts; a V2 checkpoint has its top file only.
    """

    version: int
    files: tuple[tuple[str, int], ...]

    @property
    def name(self) -> str:
        """The first file's name, which tells this checkpoint from others of the same version."""
        return self.files[0][0].rpartition("/")[2]


@dataclass(frozen=True, slots=True)
class LogSegment:
    """What a listing showed of a log, cut at a version.

    Attributes:
        version: The version that is read.
        commits: Size of each listed commit up to that version, by its version.
        checkpoints: Complete checkpoints that can be a base of it, newest first.
        checksums: Versions up to it that have a checksum file.
        from_start: Whether the commits reach down to version 0 without a gap.
        sidecar_sizes: Size of each listed file of the `_sidecars` folder, by name.
        complete: Whether the whole log was listed, not only its end.
    """

    version: int
    commits: Mapping[int, int]
    checkpoints: tuple[CheckpointFiles, ...]
    checksums: frozenset[int]
    from_start: bool
    sidecar_sizes: Mapping[str, int]
    complete: bool

    def tail(self, base_version: int) -> tuple[tuple[int, str, int], ...]:
        """(version, path, size) of the commits after a base, newest first."""
        return tuple(
            (version, commit_path(version), self.commits[version]) for version in range(self.version, base_version, -1)
        )


@dataclass(slots=True)
class LogSegmentBuilder:
    """Collects a listing and says what it amounts to.

    Attributes:
        complete: Whether the whole log is listed, not only its end.
        excluded: Names of checkpoints that turned out to be unusable.
    """

    complete: bool = True
    excluded: frozenset[str] = frozenset()
    _commits: dict[int, int] = field(default_factory=dict)
    _checksums: set[int] = field(default_factory=set)
    _checkpoints: dict[int, list[CheckpointFiles]] = field(default_factory=lambda: defaultdict(list))
    _parts: dict[tuple[int, int], dict[int, tuple[str, int]]] = field(default_factory=lambda: defaultdict(dict))
    _sidecar_sizes: dict[str, int] = field(default_factory=dict)

    def add_all(self, listed: Iterable[tuple[str, int]]) -> None:
        """Takes a page of the listing: (path relative to the table, size)."""
        for path, size in listed:
            self.add(path, size)

    def add(self, path: str, size: int) -> None:
        """Takes one listed file."""
        if path.startswith(SIDECAR_FOLDER):
            self._sidecar_sizes[path[len(SIDECAR_FOLDER) :]] = size
            return
        name = parse_log_name(path)
        if name is None:
            return
        if name.kind is LogFileKind.COMMIT:
            self._commits[name.version] = size
        elif name.kind is LogFileKind.CHECKSUM:
            self._checksums.add(name.version)
        elif name.kind in (LogFileKind.CHECKPOINT, LogFileKind.V2_CHECKPOINT):
            self._checkpoints[name.version].append(CheckpointFiles(name.version, ((path, size),)))
        elif name.kind is LogFileKind.CHECKPOINT_PART and 1 <= name.part <= name.parts:
            parts = self._parts[name.version, name.parts]
            parts[name.part] = (path, size)
            if len(parts) == name.parts:
                files = tuple(parts[number] for number in range(1, name.parts + 1))
                self._checkpoints[name.version].append(CheckpointFiles(name.version, files))

    @property
    def is_empty(self) -> bool:
        """Whether no commit and no complete checkpoint was listed."""
        return not self._commits and not self._checkpoints

    @property
    def latest(self) -> int:
        """The highest version with a commit or a complete checkpoint; -1 without any."""
        return max(max(self._commits, default=-1), max(self._checkpoints, default=-1))

    def checkpoints(self, version: int) -> list[CheckpointFiles]:
        """The complete checkpoints up to a version, newest first, those that proved unusable left out."""
        found = [
            checkpoint
            for at in sorted(self._checkpoints, reverse=True)
            if at <= version
            for checkpoint in sorted(self._checkpoints[at], key=_preference)
        ]
        return [checkpoint for checkpoint in found if checkpoint.name not in self.excluded]

    def missing(self, version: int, most: int) -> list[int]:
        """The first commits that a version needs after its newest base and that were not listed."""
        checkpoints = self.checkpoints(version)
        base = checkpoints[0].version if checkpoints else -1
        absent = (wanted for wanted in range(base + 1, version + 1) if wanted not in self._commits)
        return list(islice(absent, most))

    def build(self, version: int) -> LogSegment:
        """Cuts what was listed at a version. Only bases with every commit after them are kept."""
        reachable = version
        while reachable in self._commits:
            reachable -= 1
        commits = {at: self._commits[at] for at in range(reachable + 1, version + 1)}
        return LogSegment(
            version=version,
            commits=commits,
            checkpoints=tuple(c for c in self.checkpoints(version) if c.version >= reachable),
            checksums=frozenset(at for at in self._checksums if at <= version),
            from_start=reachable == -1,
            sidecar_sizes=self._sidecar_sizes,
            complete=self.complete,
        )


def _preference(checkpoint: CheckpointFiles) -> tuple[int, str]:
    # One file before several, so that fewer footers are read; then by name, so that the choice is stable.
    return len(checkpoint.files), checkpoint.name
