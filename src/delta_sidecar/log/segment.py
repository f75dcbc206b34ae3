"""A listing of a log, and the part of the log that makes up one version: a base and the commits after it.

`LogListing` takes the listed files, in any order and page by page. Replay cuts it at a version (`LogSegment`),
inspections and clean-ups report on it. There may be millions of commits: only numbers are kept of each.
"""

from __future__ import annotations

from array import array
from collections import defaultdict
from itertools import chain
from typing import TYPE_CHECKING

import numpy as np
from msgspec import Struct, field

from delta_sidecar.errors import TableNotFoundError, VersionNotFoundError
from delta_sidecar.log.names import (
    HIGHEST_VERSION,
    SIDECAR_FOLDER,
    LogFileKind,
    SidecarFileKind,
    commit_path,
    manifest_name,
    parse_log_name,
    parse_sidecar_name,
    sidecar_name,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

    import pyarrow as pa
    from numpy.typing import NDArray


_NEWEST_CHECKSUMS = 1_000


class CommitRange(Struct, frozen=True):
    """Listed commits without a gap: their sizes, and the times the store wrote them (milliseconds since the epoch)."""

    first: int = 0  # version
    sizes: array[int] = field(default_factory=lambda: array("q"))
    times: array[int] = field(default_factory=lambda: array("q"))

    def __len__(self) -> int:
        return len(self.sizes)

    def __contains__(self, version: int) -> bool:
        return 0 <= version - self.first < len(self.sizes)

    def size(self, version: int) -> int:
        """Size of a commit."""
        return self.sizes[version - self.first]

    def time(self, version: int) -> int:
        """The time at which the store wrote a commit."""
        return self.times[version - self.first]


class ListedCommits:
    """Collects listed commits, in any order."""

    def __init__(self) -> None:
        self._added = array("q")  # version, size and time of each
        self._sorted: NDArray[np.int64] | None = None

    def add(self, version: int, size: int, time: int) -> None:
        """Adds a commit."""
        self._added.extend((version, size, time))
        self._sorted = None

    @property
    def versions(self) -> NDArray[np.int64]:
        """The versions in order, each once."""
        return self._rows()[:, 0]

    def time(self, version: int) -> int | None:
        """The time at which the store wrote a commit; None if it was not listed."""
        times = self._rows()[self.versions == version, 2]
        return int(times[0]) if len(times) else None

    def missing(self, base: int, version: int, most: int) -> list[int]:
        """The first versions above a base and up to a version that were not listed."""
        listed = self.versions[(self.versions > base) & (self.versions <= version)]
        if len(listed) == version - base:
            return []
        # As many numbers as these have to hold `most` that are not listed.
        last = min(version, base + len(listed) + most, HIGHEST_VERSION - 1)
        numbers = np.arange(min(base, last) + 1, last + 1, dtype=np.int64)
        absent: list[int] = np.setdiff1d(numbers, listed, assume_unique=True)[:most].tolist()
        return absent

    def sizes(self, base: int, version: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """The listed versions above a base and up to a version, and the size of each."""
        chosen = self._rows()[(self.versions > base) & (self.versions <= version)]
        return chosen[:, 0], chosen[:, 1]

    def up_to(self, version: int) -> CommitRange:
        """The commits up to a version, down to the first gap."""
        rows = self._rows()[: int(np.searchsorted(self.versions, version, side="right"))]
        if not len(rows) or rows[-1, 0] != version:
            return CommitRange(version + 1)
        # Without a gap, versions grow as their places do.
        steps = rows[:, 0] - np.arange(len(rows))
        rows = rows[int(np.argmax(steps == steps[-1])) :]
        return CommitRange(int(rows[0, 0]), *(array("q", rows[:, column].tobytes()) for column in (1, 2)))

    def _rows(self) -> NDArray[np.int64]:
        """Version, size and time of each in order; of one that was added twice, what was added last."""
        if self._sorted is None:
            added = np.frombuffer(self._added, dtype=np.int64).reshape(-1, 3)
            order = np.argsort(added[:, 0], kind="stable")
            self._sorted = added[order[np.diff(added[order, 0], append=-1) != 0]]
        return self._sorted


class ListedFile(Struct, frozen=True):
    """A file of the log, as a listing shows it."""

    path: str  # relative to the table
    size: int
    last_modified: int = 0  # milliseconds since the epoch, by the store
    e_tag: str | None = None  # None if the store has none


class CheckpointFiles(Struct, frozen=True):
    """The files of one complete checkpoint."""

    version: int
    files: tuple[ListedFile, ...]  # in order of the parts; of a V2 checkpoint the top file only

    @property
    def name(self) -> str:
        """The first file's name, unique among the checkpoints of a version."""
        return self.files[0].path.rpartition("/")[2]


class ListedSidecar(Struct, frozen=True):
    """A metadata sidecar, as a listing shows it."""

    version: int
    tier: int  # 1 with a manifest; 2 for one file that is read by its footer
    name: str  # of the file that is read first
    nbytes: int  # of its parts, with those that a manifest may not name: about what is to be read

    @classmethod
    def of(cls, files: Mapping[str, ListedFile], version: int, tier: int) -> ListedSidecar:
        """Looks for its parts among the files of the folder."""
        whole, own = sidecar_name(version), f"v{version}."
        parts = [whole] if whole in files else [name for name in files if name.startswith(own)]
        nbytes = sum(files[name].size for name in parts if name.endswith(".parquet"))
        return cls(version, tier, manifest_name(version) if tier == 1 else whole, nbytes)


MOST_TAIL = 1_000
"""A metadata sidecar with more commits after it is no base: a checkpoint is closer."""

_MOST_TRIED = 4
_TIERS = {SidecarFileKind.MANIFEST: 1, SidecarFileKind.DATA: 2}


class LogSegment(Struct, frozen=True):
    """The listed log, cut at a version."""

    version: int
    latest: int  # the newest version in the listing
    commits: CommitRange  # up to the version, down to the first gap
    checkpoints: tuple[CheckpointFiles, ...]  # complete ones that can be a base of the version, newest first
    checksums: frozenset[int]  # versions that have one: the newest ones, and those of checkpoints
    from_start: bool  # the commits reach down to version 0
    sidecars: Mapping[str, ListedFile]  # the files of the `_sidecars` folder, by name
    sidecar_bases: tuple[ListedSidecar, ...]  # metadata sidecars that can be a base of the version, newest first
    complete: bool  # the whole log was listed, not only its end
    e_tag: str | None = None  # of the version's own commit; None if that was not listed
    superseded: int | None = None  # time of the next version, by the store; None if that was not listed

    def tail_nbytes(self, base: int) -> int:
        """Size of the commits after a version, which all have to be there."""
        return sum(self.commits.sizes[base + 1 - self.commits.first :]) if base < self.version else 0

    def is_same_history(self, other: LogSegment) -> bool:
        """True if another listing proves to be of the same history.

        Proof is the version's own commit, or a checkpoint of it, with the same contents in both: a clean-up keeps the
        commit of its checkpoint.
        """
        own, others = self._own_files(), other._own_files()
        common = own.keys() & others.keys()
        return bool(common) and all(own[path] == others[path] for path in common)

    def _own_files(self) -> dict[str, str]:
        """Identities of the contents of the version's own commit and checkpoints, by path."""
        found = {}
        if self.version in self.commits:
            size, time = self.commits.size(self.version), self.commits.time(self.version)
            found[commit_path(self.version)] = self.e_tag or f"{size} {time}"
        for checkpoint in self.checkpoints:
            if checkpoint.version == self.version:
                found |= {file.path: file.e_tag or f"{file.size} {file.last_modified}" for file in checkpoint.files}
        return found


class LogListing(Struct):
    """The files of a log, as a listing shows them."""

    start: int | None = None  # the version that the listing begins at; None: the whole log is listed
    excluded: frozenset[str] = frozenset()  # names of bases that turned out to be unusable
    version: int | None = None  # the version that is to be read; None for the newest
    files: int = 0  # how many files there are, of any kind
    nbytes: int = 0  # their size together
    newest_time: int = 0  # when the newest of them was written, by the store
    commits: ListedCommits = field(default_factory=ListedCommits)  # the commits
    compacted: int = 0  # how many compacted commits there are
    # Every file of a checkpoint, those of incomplete ones too, by path.
    checkpoint_files: dict[str, ListedFile] = field(default_factory=dict)
    sidecars: dict[str, ListedFile] = field(default_factory=dict)  # the files of the `_sidecars` folder, by name
    _checksums: array[int] = field(default_factory=lambda: array("q"))
    # The parts of each checkpoint by number, under its version, how many there have to be, and a name.
    _checkpoints: dict[tuple[int, int, str], dict[int, ListedFile]] = field(default_factory=lambda: defaultdict(dict))
    _tagged: tuple[int, str | None] = (-1, None)

    def add_page(self, page: pa.RecordBatch) -> None:
        """Takes a page of the listing, as a plan gives it."""
        columns = (page.column(name).to_pylist() for name in ("path", "size", "last_modified", "e_tag"))
        for fields in zip(*columns, strict=True):
            self.add(ListedFile(*fields))

    def add(self, file: ListedFile) -> None:
        """Takes one listed file."""
        self.files += 1
        self.nbytes += file.size
        self.newest_time = max(self.newest_time, file.last_modified)
        if file.path.startswith(SIDECAR_FOLDER):
            self.sidecars[file.path[len(SIDECAR_FOLDER) :]] = file
            return
        name = parse_log_name(file.path)
        if name is None or name.version > HIGHEST_VERSION:
            return
        if name.kind is LogFileKind.COMMIT:
            self.commits.add(name.version, file.size, file.last_modified)
            if name.version >= self._tagged[0] and (self.version is None or name.version == self.version):
                self._tagged = (name.version, file.e_tag)
        elif name.kind is LogFileKind.CHECKSUM:
            self._checksums.append(name.version)
        elif name.kind is LogFileKind.COMPACTED:
            self.compacted += 1
        else:
            self.checkpoint_files[file.path] = file
            if name.kind is not LogFileKind.CHECKPOINT_PART:
                self._checkpoints[name.version, 1, file.path][1] = file
            elif 1 <= name.part <= name.parts:
                self._checkpoints[name.version, name.parts, ""][name.part] = file

    @property
    def latest(self) -> int:
        """The highest version with a commit or a complete checkpoint; -1 without any."""
        complete = (version for (version, parts, _), files in self._checkpoints.items() if len(files) == parts)
        return max(int(max(self.commits.versions[-1:], default=-1)), max(complete, default=-1))

    @property
    def checksums(self) -> NDArray[np.int64]:
        """Versions with a checksum file, in order, each once."""
        listed = np.sort(np.array(self._checksums, dtype=np.int64))
        return listed[np.diff(listed, prepend=-1) > 0]

    @property
    def incomplete(self) -> list[tuple[int, int, int]]:
        """The checkpoints with missing parts, newest first: version, number of parts, how many are missing."""
        found = [
            (version, parts, parts - len(files))
            for (version, parts, _), files in self._checkpoints.items()
            if len(files) < parts
        ]
        return sorted(found, key=lambda checkpoint: -checkpoint[0])

    def check_has(self, version: int, table: str) -> None:
        """Raises where a version cannot be of the table; commits that the listing skipped may still be missing."""
        if self.latest < 0:
            msg = f"{table} is not a Delta table: there is no commit and no checkpoint in its _delta_log"
            raise TableNotFoundError(msg)
        if not 0 <= version <= self.latest:
            msg = f"{table} has no version {version}; its newest is {self.latest}"
            raise VersionNotFoundError(msg)

    def checkpoints(self, version: int) -> list[CheckpointFiles]:
        """The complete, usable checkpoints up to a version, newest first."""
        found = [
            CheckpointFiles(at, tuple(files[number] for number in sorted(files)))
            for (at, parts, _), files in self._checkpoints.items()
            if at <= version and len(files) == parts
        ]
        # One file before several, so that fewer footers are read; then by name, so that the choice is stable.
        found.sort(key=lambda checkpoint: (-checkpoint.version, len(checkpoint.files), checkpoint.name))
        return [checkpoint for checkpoint in found if checkpoint.name not in self.excluded]

    def sidecar_bases(self, version: int, most: int | None = _MOST_TRIED) -> list[ListedSidecar]:
        """The usable metadata sidecars that can be a base of a version, those of the newest few, newest first."""
        found = set()
        for name in self.sidecars:
            parsed = parse_sidecar_name(name)
            if parsed is not None and parsed.kind in _TIERS and name not in self.excluded:
                found.add((-parsed.version, _TIERS[parsed.kind]))
        near = [(-at, tier) for at, tier in sorted(found) if version - MOST_TAIL <= -at <= version]
        newest = sorted({at for at, _ in near}, reverse=True)[:most]
        return [ListedSidecar.of(self.sidecars, at, tier) for at, tier in near if at in newest]

    def missing(self, version: int, most: int, other_base: int = -1) -> list[int]:
        """The first unlisted commits, at most `most`, between the newest base and a version.

        `other_base` is the version of the newest base that is no checkpoint; -1 for none.
        """
        checkpoints = self.checkpoints(version)
        base = max(other_base, checkpoints[0].version if checkpoints else -1)
        return self.commits.missing(base, version, most)

    def segment(self, version: int) -> LogSegment:
        """The listing, cut at a version. Only bases with every commit after them are kept."""
        commits = self.commits.up_to(version)
        reachable = commits.first - 1
        checkpoints = tuple(found for found in self.checkpoints(version) if found.version >= reachable)
        # Where nothing else can serve, all of them are tried.
        most = _MOST_TRIED if checkpoints or reachable == -1 else None
        return LogSegment(
            version=version,
            latest=self.latest,
            commits=commits,
            checkpoints=checkpoints,
            checksums=self._useful_checksums(version, {found.version for found in checkpoints}),
            from_start=reachable == -1,
            sidecars=self.sidecars,
            sidecar_bases=tuple(self.sidecar_bases(version, most)),
            complete=self.start is None,
            e_tag=self._tagged[1] if self._tagged[0] == version else None,
            superseded=self.commits.time(version + 1),
        )

    def _useful_checksums(self, version: int, checkpoints: set[int]) -> frozenset[int]:
        listed = self.checksums
        listed = listed[listed <= version]
        of_bases = (at for at in listed[:-_NEWEST_CHECKSUMS].tolist() if at in checkpoints)
        return frozenset(chain(listed[-_NEWEST_CHECKSUMS:].tolist(), of_bases))
