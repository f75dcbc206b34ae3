"""From an address to a listed log: which version, which bases, which commits.

    LastCheckpointPhase -> FileListingPhase -> (MissingCommitsPhase) -> what `then` says

`_last_checkpoint` only shortens the listing. A listing that starts there and does not show a base is made again in
full; a commit that a listing skipped is asked for by name before it counts as missing.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from itertools import starmap
from typing import TYPE_CHECKING, ClassVar, Generic, TypeVar

from delta_sidecar.errors import MissingCommitError, TableNotFoundError, VersionNotFoundError
from delta_sidecar.events import Events
from delta_sidecar.log.names import (
    LAST_CHECKPOINT,
    LOG_FOLDER,
    SIDECAR_FOLDER,
    checksum_path,
    commit_path,
    last_checkpoint_version,
    listing_start,
)
from delta_sidecar.log.segment import ListedFile, LogSegment, LogSegmentBuilder
from delta_sidecar.plan import Consume, ConsumePhase, ListFiles, ReadFiles, StateMachinePhase, Terminus
from delta_sidecar.sidecar.names import (
    HIGHEST_VERSION,
    SidecarFileKind,
    manifest_name,
    parse_sidecar_name,
    sidecar_name,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    import pyarrow as pa

    from delta_sidecar.replay.bases.base import Wanted


T = TypeVar("T")

_HINT_BYTES = 1 << 20
_PROBED_AT_ONCE = 10
_LISTED = ("path", "size", "last_modified", "e_tag")


class ListingContinuation(ABC, Generic[T]):
    """What goes on once a log is listed.

    Attributes:
        reads_on: Whether it reads the table at once, so that what it will most likely ask for is worth fetching along
            with the listing.
    """

    reads_on: ClassVar[bool] = True

    @abstractmethod
    def listed(self, segment: LogSegment) -> StateMachinePhase[T]:
        """Says what comes next."""

    def unreachable(self) -> Exception | None:
        """Why the log is listed again, to be raised where the version cannot be reached; None on a first listing."""
        return None


@dataclass(frozen=True, slots=True)
class Opening:
    """What is asked for.

    Attributes:
        table: The table's address, for messages.
        version: The version to read; None for the newest.
        speculation: How many commits after the last checkpoint are asked for before it is known that they exist.
        whole_tail: Whether every commit of the tail will be read, so that they are worth asking for together.
        whole_base: Whether the base will be read as well.
        listed_from: Version to begin the listing at, without asking `_last_checkpoint`; -1 for all of it, None to ask.
        refuse: Whether a table that asks its readers for more than this library can do is refused; else it is opened
            all the same, to be looked at and not to be scanned.
        sidecars: Whether metadata sidecars count as bases.
        wanted: What will be asked of the base, where all that matches in it will be read; None where it will not.
        segment: The log, where it is listed already, cut at the version to read; None to list it.
        events: Is told what happens.
    """

    table: str
    version: int | None = None
    speculation: int = 10
    whole_tail: bool = False
    whole_base: bool = False
    listed_from: int | None = None
    refuse: bool = True
    sidecars: bool = True
    wanted: Wanted | None = None
    segment: LogSegment | None = field(default=None, repr=False)
    events: Events = field(default_factory=Events, repr=False, compare=False)


def pin_version(opening: Opening) -> StateMachinePhase[LogSegment]:
    """The start of the chain that ends in a listed log, cut at the version to read; nothing of the table is read."""
    return Consume(LastCheckpointPhase(opening, _Pinned()))


@dataclass(frozen=True, slots=True)
class _Pinned(ListingContinuation[LogSegment]):
    """Ends with the listing."""

    reads_on: ClassVar[bool] = False

    def listed(self, segment: LogSegment) -> StateMachinePhase[LogSegment]:
        return Terminus(segment)


@dataclass(frozen=True, slots=True)
class LastCheckpointPhase(ConsumePhase[T]):
    """Reads `_last_checkpoint` to learn where the listing may start."""

    opening: Opening
    then: ListingContinuation[T]

    def plan(self) -> ReadFiles:
        """One small file, which may be absent."""
        return ReadFiles((LAST_CHECKPOINT,), max_bytes=_HINT_BYTES)

    def next(self, data: Iterator[pa.RecordBatch]) -> StateMachinePhase[T]:
        """Takes the hint if it helps."""
        hint: int | None = None
        for batch in data:
            text = batch.column("data")[0].as_py()
            hint = last_checkpoint_version(text) if text is not None else None
        wanted = self.opening.version
        if hint is not None and wanted is not None and hint > wanted:
            hint = None
        return Consume(FileListingPhase(self.opening, self.then, hint))


@dataclass(frozen=True, slots=True)
class FileListingPhase(ConsumePhase[T]):
    """Lists the log and cuts it at the version to read.

    Attributes:
        opening: What is asked for.
        then: What goes on.
        hint: Version to start at; None for the whole log.
        excluded: Names of checkpoints that proved unusable.
    """

    opening: Opening
    then: ListingContinuation[T]
    hint: int | None = None
    excluded: frozenset[str] = frozenset()

    def plan(self) -> ListFiles:
        """The listing, and on speculation what will most likely be read next."""
        if self.hint is None:
            return ListFiles(LOG_FOLDER)
        if not self.then.reads_on:
            return ListFiles(LOG_FOLDER, listing_start(self.hint))
        last = self.hint + self.opening.speculation
        if self.opening.version is not None:
            last = min(last, self.opening.version)
        commits = tuple(commit_path(version) for version in range(self.hint + 1, last + 1))
        ahead: tuple[str, ...] = (checksum_path(self.hint), *commits)
        heads: tuple[str, ...] = ()
        if self.opening.sidecars and self.hint <= HIGHEST_VERSION:
            # A metadata sidecar is mostly written along with a checkpoint.
            ahead = (SIDECAR_FOLDER + manifest_name(self.hint), *ahead)
            heads = (commit_path(self.hint),)
        return ListFiles(LOG_FOLDER, listing_start(self.hint), ahead=ahead, heads=heads)

    def next(self, data: Iterator[pa.RecordBatch]) -> StateMachinePhase[T]:
        """Pins the version and finds its bases."""
        table, wanted = self.opening.table, self.opening.version
        builder = LogSegmentBuilder(complete=self.hint is None, excluded=self.excluded, wanted=wanted)
        for batch in data:
            columns = (batch.column(name).to_pylist() for name in _LISTED)
            builder.add_all(starmap(ListedFile, zip(*columns, strict=True)))
        version = builder.latest if wanted is None else wanted
        sidecar = self._newest_sidecar(builder, version)
        if self.hint is not None:
            is_older = sidecar is not None and sidecar.version < self.hint
            if not builder.checkpoints(version) and (sidecar is None or is_older):
                return Consume(FileListingPhase(self.opening, self.then, None, self.excluded))
            if sidecar is not None and is_older:
                # A base all the same: the commits after it are asked for as well.
                return Consume(FileListingPhase(self.opening, self.then, sidecar.version, self.excluded))
        if builder.is_empty:
            msg = f"{table} is not a Delta table: there is no commit and no checkpoint in its _delta_log"
            raise TableNotFoundError(msg)
        if version > builder.latest or version < 0:
            msg = f"{table} has no version {version}; its newest is {builder.latest}"
            raise VersionNotFoundError(msg)
        return _cut(self.opening, self.then, builder, version, -1 if sidecar is None else sidecar.version)

    def _newest_sidecar(self, builder: LogSegmentBuilder, version: int) -> ListedSidecar | None:
        found = listed_sidecars(builder.sidecars, version, self.excluded) if self.opening.sidecars else []
        return found[0] if found else None


@dataclass(frozen=True, slots=True)
class MissingCommitsPhase(ConsumePhase[T]):
    """Asks by name for commits that the listing skipped: a listing may be stale, the commit itself is not."""

    opening: Opening
    then: ListingContinuation[T]
    builder: LogSegmentBuilder
    version: int
    missing: tuple[int, ...]
    sidecar: int

    def plan(self) -> ReadFiles:
        """The commits themselves."""
        return ReadFiles(tuple(commit_path(version) for version in self.missing))

    def next(self, data: Iterator[pa.RecordBatch]) -> StateMachinePhase[T]:
        """Goes on if every one is there."""
        found: set[str] = set()
        for batch in data:
            path, size = batch.column("path")[0].as_py(), batch.column("size")[0].as_py()
            found.add(path)
            self.builder.add(ListedFile(path, size))
        for version in self.missing:
            if commit_path(version) not in found:
                raise self._absent(version)
        return _cut(self.opening, self.then, self.builder, self.version, self.sidecar)

    def _absent(self, missing: int) -> Exception:
        table = self.opening.table
        earlier = self.then.unreachable()
        if earlier is not None:
            return earlier
        if self.opening.version is not None:
            msg = (
                f"{table} cannot be read at version {self.version}: commit {missing} is not there and no checkpoint "
                f"covers it. Its log was cleaned up or damaged; read a version that a checkpoint covers."
            )
            return VersionNotFoundError(msg)
        msg = (
            f"{table} cannot be read: commit {missing} ({commit_path(missing)}) is missing, and no checkpoint after it "
            f"covers it. Restore the file, or read an older version."
        )
        return MissingCommitError(msg, missing)


def _cut(
    opening: Opening, then: ListingContinuation[T], builder: LogSegmentBuilder, version: int, sidecar: int
) -> StateMachinePhase[T]:
    missing = builder.missing(version, _PROBED_AT_ONCE, sidecar)
    if missing:
        return Consume(MissingCommitsPhase(opening, then, builder, version, tuple(missing), sidecar))
    return then.listed(builder.build(version))


# Which metadata sidecars a listing offers as bases.


MOST_TAIL = 1_000
"""A metadata sidecar with more commits after it is no base: a checkpoint is closer."""

_MOST_TRIED = 4


@dataclass(frozen=True, slots=True)
class ListedSidecar:
    """A metadata sidecar, as a listing shows it.

    Attributes:
        version: The version whose state it holds.
        tier: 1 for one with a manifest, 2 for one file that is read by its footer.
    """

    version: int
    tier: int

    @property
    def name(self) -> str:
        """Name of the file that is read first."""
        return manifest_name(self.version) if self.tier == 1 else sidecar_name(self.version)


def listed_sidecars(names: Iterable[str], version: int, excluded: frozenset[str] = frozenset()) -> list[ListedSidecar]:
    """The metadata sidecars that can be a base of a version, the best one first: not too many, not too old.

    Args:
        names: What is in the folder of sidecars.
        version: The version to read.
        excluded: Names of those that proved unusable.
    """
    found = set()
    for name in names:
        parsed = parse_sidecar_name(name)
        if parsed is None or name in excluded or not version - MOST_TAIL <= parsed.version <= version:
            continue
        if parsed.kind is SidecarFileKind.MANIFEST:
            found.add(ListedSidecar(parsed.version, 1))
        elif parsed.kind is SidecarFileKind.DATA:
            found.add(ListedSidecar(parsed.version, 2))
    newest = sorted({sidecar.version for sidecar in found}, reverse=True)[:_MOST_TRIED]
    ordered = sorted(found, key=lambda sidecar: (-sidecar.version, sidecar.tier))
    return [sidecar for sidecar in ordered if sidecar.version in newest]
