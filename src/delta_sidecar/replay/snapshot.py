"""A table at one version: the protocol and metadata in force, and the log that makes it up.

    LastCheckpointPhase -> FileListingPhase -> ChecksumPhase? -> TableInTailPhase? -> (phases of the base)? -> Snapshot

Protocol and metadata come from the cheapest source: the newest checksum file and the commits after it, the tail, and
only then the base. Nothing is emitted before they are known, and a table that asks for more than this library
can do is refused here.
"""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, TypeVar

import numpy as np

from delta_sidecar._arrow import valid_mask
from delta_sidecar.errors import InvalidMetadataError, MissingMetadataError, MissingProtocolError, SidecarError
from delta_sidecar.events import BasePassedOver, Events
from delta_sidecar.log.actions import TABLE_SCHEMA, Metadata, Protocol, line_action
from delta_sidecar.log.names import Checksum, checksum_path, commit_path, read_checksum
from delta_sidecar.log.schema import TableSchema, check_readable, read_schema
from delta_sidecar.plan import FILE_LABEL, LINE, Consume, ConsumePhase, ReadFiles, ScanJson, StateMachinePhase, Terminus
from delta_sidecar.replay.bases.base import CHECKPOINT_TIER, Base, TrustContinuation
from delta_sidecar.replay.bases.checkpoint import CheckpointBase
from delta_sidecar.replay.bases.sidecar import SidecarBase
from delta_sidecar.replay.failures import no_base_left, raise_commit_failure
from delta_sidecar.replay.open import (
    FileListingPhase,
    LastCheckpointPhase,
    ListingContinuation,
    Opening,
    listed_sidecars,
)
from delta_sidecar.replay.tail import files_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pyarrow as pa

    from delta_sidecar.log.segment import LogSegment, Tail
    from delta_sidecar.plan import FileRef, Piece


# Which base a replay ends on: what a listed log offers, and the way down the list.
#
# Bases are tried from the first down. Where one proves unusable the commits up to it join the tail of the next; where
# none is left, a log of which only the end was listed is listed again, all of it.


T = TypeVar("T")


def bases_of(segment: LogSegment, *, sidecars: bool = True) -> tuple[Base, ...]:
    """The bases that a listed log offers, in the order in which they are tried.

    The newest metadata sidecar comes first, even where a checkpoint is newer: it is read as its own version, and the
    commits after it are few. Then comes the newest checkpoint.

    Args:
        segment: The listed log.
        sidecars: Whether metadata sidecars count.
    """
    checkpoints = tuple(CheckpointBase.of(files, segment.sidecars) for files in segment.checkpoints)
    reachable = segment.commits.first - 1
    listed = listed_sidecars(segment.sidecars, segment.version) if sidecars else []
    found = (SidecarBase.of(sidecar, segment) for sidecar in listed if sidecar.version >= reachable)
    return (*found, *checkpoints)


@dataclass(frozen=True, slots=True)
class BaseChoice:
    """A listed log, and the bases that its replay can end on.

    Attributes:
        segment: The listed log.
        bases: Those that are left, the first to be tried first; what was learned of one stays with it.
        unusable: Names of those that proved unusable.
        sidecars: Whether metadata sidecars count.
        reach: The commits above this version count as the tail even where the first base is newer: a replay went
            through them before the base was known. None where that is not so.
    """

    segment: LogSegment
    bases: tuple[Base, ...]
    unusable: frozenset[str] = frozenset()
    sidecars: bool = True
    reach: int | None = None

    @classmethod
    def of(cls, segment: LogSegment, *, sidecars: bool = True) -> BaseChoice:
        """All that a log offers."""
        return cls(segment, bases_of(segment, sidecars=sidecars), sidecars=sidecars)

    @property
    def base_version(self) -> int:
        """The version of the first base; -1 where replay starts at version 0."""
        return self.bases[0].version if self.bases else -1

    @property
    def tail_base(self) -> int:
        """The version that the tail is above: that of the first base, or less."""
        return self.base_version if self.reach is None else min(self.base_version, self.reach)

    @property
    def tail_bytes(self) -> int:
        """Size of the commits after the first base."""
        return self.tail().nbytes

    @property
    def base_bytes(self) -> int:
        """Size of the first base, as far as the listing tells; 0 where replay starts at version 0."""
        return self.bases[0].nbytes if self.bases else 0

    @property
    def is_sorted(self) -> bool:
        """Whether the first base is a metadata sidecar, whose files are in order."""
        return bool(self.bases) and isinstance(self.bases[0], SidecarBase)

    @property
    def is_open(self) -> bool:
        """Whether there is something to end on: a base, or the start of the log."""
        return bool(self.bases) or self.segment.from_start

    def tail(self, up_to: int | None = None) -> Tail:
        """The commits after the first base, newest first; only those up to a version where one is given."""
        commits = self.segment.tail(self.tail_base)
        return commits if up_to is None else commits.up_to(up_to)

    def learned(self, base: Base) -> BaseChoice:
        """Keeps what was learned of the first base."""
        return replace(self, bases=(base, *self.bases[1:]))

    def without(self, base: Base) -> BaseChoice:
        """Leaves a base out, and those that are made of the same files."""
        unusable = {base.name, *base.others}
        left = tuple(other for other in self.bases if other.name not in unusable)
        return replace(self, bases=left, unusable=self.unusable | unusable)

    def down_from(self, name: str) -> BaseChoice | None:
        """Begins with the base of a name; None where there is none."""
        names = [base.name for base in self.bases]
        return replace(self, bases=self.bases[names.index(name) :]) if name in names else None

    def reaching(self, version: int) -> BaseChoice | None:
        """Takes the commits above a version for the tail; None where there is a gap in them."""
        return replace(self, reach=version) if self.segment.commits.first <= version + 1 else None

    def from_start(self) -> BaseChoice | None:
        """Does without bases; None where the log does not reach down to version 0."""
        return replace(self, bases=()) if self.segment.from_start else None

    def listed(self, segment: LogSegment) -> BaseChoice:
        """What another listing of the same log offers."""
        offered = bases_of(segment, sidecars=self.sidecars)
        offered = tuple(base for base in offered if base.name not in self.unusable)
        return replace(self, segment=segment, bases=offered)


@dataclass(frozen=True, slots=True)
class ChoosesBase(TrustContinuation[T]):
    """Something that ends on a base, and goes down the list until one is trusted.

    Attributes:
        table: The table's address, for messages.
        choice: The log, and the bases that are left.
        events: Is told what happens.
    """

    table: str
    choice: BaseChoice
    events: Events = field(default_factory=Events, repr=False, compare=False, kw_only=True)

    @abstractmethod
    def onto(self, choice: BaseChoice) -> StateMachinePhase[T]:
        """Goes on with another first base. The commits after the one of `self.choice` have been gone through."""

    def distrusted(self, base: Base, error: Exception) -> StateMachinePhase[T]:
        """Goes on to the next base.

        Raises:
            CorruptCheckpointError: There is none.
        """
        code = error.code if isinstance(error, SidecarError) else "damaged"
        version, tier = base.version, base.tier
        event = BasePassedOver(
            table=self.table, base=base.name, version=version, tier=tier, reason=str(error), code=code
        )
        self.events(event)
        left = self.choice.without(base)
        if left.is_open:
            return self.onto(left)
        failure = no_base_left(self.table, base.name, error)
        # Commits that a listing skipped were not asked for by name where a metadata sidecar seemed to make up for them.
        if left.segment.complete and base.tier == CHECKPOINT_TIER:
            raise failure from error
        pinned = Opening(self.table, left.segment.version, sidecars=left.sidecars)
        return Consume(FileListingPhase(pinned, _ListedAgain(self, left, failure), None, left.unusable))


@dataclass(frozen=True, slots=True)
class _ListedAgain(ListingContinuation[T]):
    """Goes on once the whole log is listed, or says why it had to be."""

    then: ChoosesBase[T]
    left: BaseChoice
    failure: Exception

    def listed(self, segment: LogSegment) -> StateMachinePhase[T]:
        return self.then.onto(self.left.listed(segment))

    def unreachable(self) -> Exception | None:
        return self.failure


_CHECKSUM_BYTES = 4 << 20


@dataclass(frozen=True, slots=True)
class Snapshot:
    """A table at one version.

    Attributes:
        table: Its address, without secrets.
        version: The version.
        protocol: The protocol in force.
        metadata: The metadata in force.
        columns: The table's columns, under logical and physical names.
        choice: The part of the log that makes it up, and the bases to replay it from.
        counted: A version, and how many files were live at it, where a checksum file told.
    """

    table: str
    version: int
    protocol: Protocol
    metadata: Metadata
    columns: TableSchema = field(repr=False)
    choice: BaseChoice = field(repr=False)
    counted: tuple[int, int] | None = None

    @property
    def schema(self) -> pa.Schema:
        """The table's Arrow schema, under the names that users see."""
        return self.columns.logical

    @property
    def partition_columns(self) -> tuple[str, ...]:
        """Names of the partition columns, in order."""
        return self.columns.partition_columns


def open_snapshot(opening: Opening) -> StateMachinePhase[Snapshot]:
    """The start of the chain that ends in a `Snapshot`."""
    if opening.segment is not None:
        choice = BaseChoice.of(opening.segment, sidecars=opening.sidecars)
        # Metadata sidecars may have counted when it was listed, and not count now.
        if choice.is_open:
            return _Search(opening.table, choice, opening, events=opening.events).begin()
        opening = replace(opening, segment=None)
    start = opening.listed_from
    if start is not None:
        return Consume(FileListingPhase(opening, _Listed(opening), None if start < 0 else start))
    return Consume(LastCheckpointPhase(opening, _Listed(opening)))


@dataclass(frozen=True, slots=True)
class _Listed(ListingContinuation[Snapshot]):
    """Looks for protocol and metadata once the log is listed."""

    opening: Opening

    def listed(self, segment: LogSegment) -> StateMachinePhase[Snapshot]:
        choice = BaseChoice.of(segment, sidecars=self.opening.sidecars)
        return _Search(self.opening.table, choice, self.opening, events=self.opening.events).begin()


@dataclass(frozen=True, slots=True)
class _Search(ChoosesBase[Snapshot]):
    """What is known so far of the table, and where to look for the rest.

    Attributes:
        opening: What is asked for.
        protocol: The protocol, once it is known.
        metadata: The metadata, once it is known.
        columns: What they say of the table's columns, where that has been read.
        counted: A version, and how many files were live at it, where a checksum file told.
    """

    opening: Opening
    protocol: Protocol | None = None
    metadata: Metadata | None = None
    columns: TableSchema | None = field(default=None, repr=False)
    counted: tuple[int, int] | None = None

    def begin(self) -> StateMachinePhase[Snapshot]:
        """Asks the base first, where it tells by the way; then the best checksum file, or else the tail."""
        base = self.choice.bases[0] if self.choice.bases else None
        if base is not None and base.tells_first and not self._is_told_by_checksum(base):
            return base.trust(
                _Told(self.table, self.choice, self, events=self.events), with_table=True, ahead=self.next_commits()
            )
        version = self.best_checksum()
        return self.in_tail() if version is None else Consume(ChecksumPhase(self, version))

    def _is_told_by_checksum(self, base: Base) -> bool:
        """Whether a checksum file tells of the table sooner than a base, whose files may not be wanted at all.

        That is the base's own, if it was asked for along with the listing and so were all commits after it; or any, if
        the tail is not read as a whole.
        """
        segment = self.choice.segment
        if not self.opening.whole_tail:
            return any(version >= base.version for version in segment.checksums)
        is_listed_from = any(found.version == base.version for found in segment.checkpoints)
        return is_listed_from and self._is_near(base.version) and base.version in segment.checksums

    def _is_near(self, base: int) -> bool:
        """Whether all commits after a base were asked for along with the listing."""
        segment, opening = self.choice.segment, self.opening
        return opening.segment is None and not segment.complete and segment.version - base <= opening.speculation

    def best_checksum(self) -> int | None:
        """The checksum file that costs least: the base's own where the tail is on its way, else the newest.

        None where none is worth it: a base that told already and a tail that is read anyway tell as much.
        """
        segment, base = self.choice.segment, self.choice.base_version
        usable = [version for version in segment.checksums if version >= base]
        is_near = self._is_near(base)
        if self.choice.bases and self.choice.bases[0].metadata is not None:
            newest = max(usable, default=base)
            return None if is_near or self.opening.whole_tail or newest == base else newest
        if base in usable and is_near:
            return base
        return max(usable, default=None)

    def next_commits(self, up_to: int | None = None) -> tuple[FileRef, ...]:
        """The commits that are read next: those that tell of the table, and some to begin the replay with.

        Args:
            up_to: Of those that tell of the table, only the ones after this version are needed.
        """
        begun = self.choice.base_version
        if not self.opening.whole_tail:
            begun = max(begun, self.choice.segment.version - self.opening.speculation)
        return files_of(self.choice.segment.tail(begun if up_to is None else min(up_to, begun)))

    def in_tail(self, up_to: int | None = None) -> StateMachinePhase[Snapshot]:
        """Looks through the commits after the base."""
        known = {"protocol": self.protocol, "metaData": self.metadata}
        wanted = frozenset(name for name, action in known.items() if action is None)
        return self.among(self.choice.tail(up_to), wanted)

    def among(self, commits: Tail, wanted: frozenset[str]) -> StateMachinePhase[Snapshot]:
        """Looks for actions in commits, if there are any of either; then in the base."""
        return Consume(TableInTailPhase(self, commits, wanted)) if commits and wanted else self.in_base()

    def in_base(self) -> StateMachinePhase[Snapshot]:
        """Looks into the base, if something is still unknown."""
        is_known = self.protocol is not None and self.metadata is not None
        if is_known or not self.choice.bases:
            return self.done()
        return self.choice.bases[0].trust(self, with_table=True)

    def footers(self) -> tuple[FileRef, ...]:
        """The footers of the base that are worth asking for beside the commits."""
        return self.choice.bases[0].footers() if self.opening.whole_base and self.choice.bases else ()

    def pieces(self) -> tuple[Piece, ...]:
        """The pieces of the base that are worth asking for beside the commits."""
        wanted = self.opening.wanted
        return () if wanted is None or not self.choice.bases else self.choice.bases[0].pieces(wanted)

    def trusted(self, base: Base) -> StateMachinePhase[Snapshot]:
        known = replace(self, protocol=self.protocol or base.protocol, metadata=self.metadata or base.metadata)
        if self.protocol is None and self.metadata is None:
            known = replace(known, columns=base.columns)
        return replace(known, choice=self.choice.learned(base)).done()

    def onto(self, choice: BaseChoice) -> StateMachinePhase[Snapshot]:
        return replace(self, choice=choice).in_tail(up_to=self.choice.base_version)

    def done(self) -> StateMachinePhase[Snapshot]:
        table, version = self.table, self.choice.segment.version
        if self.protocol is None:
            msg = f"{table} has no protocol action up to version {version}: its log is not complete"
            raise MissingProtocolError(msg)
        if self.opening.refuse:
            check_readable(self.protocol, table)
        if self.metadata is None:
            msg = f"{table} has no metaData action up to version {version}: its log is not complete"
            raise MissingMetadataError(msg)
        columns = self.columns or read_schema(self.metadata, self.protocol, table)
        return Terminus(Snapshot(table, version, self.protocol, self.metadata, columns, self.choice, self.counted))


@dataclass(frozen=True, slots=True)
class _Told(ChoosesBase[Snapshot]):
    """Begins the search once a base has told what it knows, or cannot be trusted."""

    search: _Search

    def trusted(self, base: Base) -> StateMachinePhase[Snapshot]:
        return self.onto(self.choice.learned(base))

    def onto(self, choice: BaseChoice) -> StateMachinePhase[Snapshot]:
        return replace(self.search, choice=choice).begin()


@dataclass(frozen=True, slots=True)
class ChecksumPhase(ConsumePhase[Snapshot]):
    """Reads a checksum file, which holds protocol and metadata at its version."""

    search: _Search
    version: int

    def plan(self) -> ReadFiles:
        """The file, and the commits that are read next: those after it, and some to begin the replay with."""
        return ReadFiles(
            (checksum_path(self.version),),
            max_bytes=_CHECKSUM_BYTES,
            ahead=self.search.next_commits(self.version),
            footers=self.search.footers(),
            pieces=self.search.pieces(),
        )

    def next(self, data: Iterator[pa.RecordBatch]) -> StateMachinePhase[Snapshot]:
        """Takes it if it is whole; the commits after it may say something newer."""
        for batch in data:
            content = batch.column("data")[0].as_py()
            checksum = read_checksum(content) if content is not None else None
            columns = self._columns(checksum) if checksum is not None else None
            if checksum is not None and columns is not None:
                known = replace(self.search, protocol=checksum.protocol, metadata=checksum.metadata, columns=columns)
                if checksum.num_files is not None:
                    known = replace(known, counted=(self.version, checksum.num_files))
                return known.among(self.search.choice.segment.tail(self.version), frozenset(TABLE_SCHEMA.names))
        return self.search.in_tail()

    def _columns(self, checksum: Checksum) -> TableSchema | None:
        """What it says of the table's columns; None where it says nothing that can be used."""
        try:
            return read_schema(checksum.metadata, checksum.protocol, self.search.table)
        except InvalidMetadataError:
            return None


@dataclass(frozen=True, slots=True)
class TableInTailPhase(ConsumePhase[Snapshot]):
    """Looks for protocol and metadata in commits, newest first, and stops when both are found.

    Attributes:
        search: What is known so far.
        commits: Where to look.
        wanted: Names of the actions to look for; what is found overrides what is known.
    """

    search: _Search
    commits: Tail
    wanted: frozenset[str]

    def plan(self) -> ScanJson:
        """The next window of commits; a replay reads them again, so what is fetched is kept."""
        return ScanJson(
            files_of(self.commits),
            TABLE_SCHEMA,
            lines_with=(b"",),
            # A scan reads all of them again, and finds out whether they are whole.
            only_with=tuple(f'"{name}"'.encode() for name in self.wanted) if self.search.opening.whole_tail else (),
            keep=True,
            all_needed=True,
            footers=self.search.footers(),
            pieces=self.search.pieces(),
        )

    def next(self, data: Iterator[pa.RecordBatch]) -> StateMachinePhase[Snapshot]:
        """Takes the newest of each; what was known stands where the commits say nothing."""
        found: dict[str, tuple[int, object]] = {}
        for batch in data:
            version = batch.column(FILE_LABEL)[0].as_py()
            if len(found) == len(self.wanted) and all(at > version for at, _ in found.values()):
                break
            for name in self.wanted:
                at, _ = found.get(name, (version, None))
                action = _last_action(batch, name, version) if at == version else None
                if action is not None:
                    found[name] = (version, action)
        source = self.search.table
        known = self.search
        if "protocol" in found:
            version, action = found["protocol"]
            protocol = Protocol.from_action(action, f"commit {version} of {source}")
            known = replace(known, protocol=protocol, columns=None)
        if "metaData" in found:
            version, action = found["metaData"]
            metadata = Metadata.from_action(action, f"commit {version} of {source}")
            known = replace(known, metadata=metadata, columns=None)
        return known.among(self.commits.rest(), self.wanted - found.keys())

    def recover(self, error: Exception) -> StateMachinePhase[Snapshot] | None:
        """A commit of the tail that cannot be read fails the table; the error names it."""
        raise_commit_failure(self.search.table, error)
        return None


def _last_action(batch: pa.RecordBatch, name: str, version: int) -> object:
    """The action of a name in a block of a commit; of several, which no writer should make, the last."""
    present = np.flatnonzero(valid_mask(batch.column(name)))
    if not len(present):
        return None
    line = batch.column(LINE)[int(present[-1])].as_py()
    return None if line is None else line_action(line, name, commit_path(version))
