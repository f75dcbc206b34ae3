"""A table at one version: the protocol and metadata in force, and the log that makes it up.

    hint -> listing -> protocol and metadata -> Snapshot

Protocol and metadata come from the cheapest source: the newest checksum file and the commits after it, the manifest of
a metadata sidecar, the tail, and only then a checkpoint. Nothing is emitted before they are known, and a table that
asks for more than this library can do is refused here.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import numpy as np

from delta_sidecar._arrow import valid_mask
from delta_sidecar.errors import (
    InvalidMetadataError,
    MissingMetadataError,
    MissingProtocolError,
    UnreadableFileError,
)
from delta_sidecar.log.actions import TABLE_SCHEMA, Metadata, Protocol, line_action
from delta_sidecar.log.names import Checksum, checksum_path, commit_path, read_checksum
from delta_sidecar.log.schema import TableSchema, check_readable, read_schema
from delta_sidecar.plan import FILE_LABEL, LINE, Ahead, Consume, ReadFiles, ScanJson, run_flow
from delta_sidecar.replay.bases.base import CHECKPOINT_TIER, Base, Torn, tell_passed_over
from delta_sidecar.replay.bases.checkpoint import CheckpointBase
from delta_sidecar.replay.bases.sidecar import SidecarBase
from delta_sidecar.replay.failures import no_base_left, raise_commit_failure
from delta_sidecar.replay.open import Opening, last_checkpoint, list_log, listed_sidecars
from delta_sidecar.replay.tail import files_of

if TYPE_CHECKING:
    import pyarrow as pa

    from delta_sidecar.events import Events
    from delta_sidecar.log.segment import LogSegment, Tail
    from delta_sidecar.plan import Executor, FileRef, Flow
    from delta_sidecar.replay.builders import ScanBuilder, SnapshotBuilder


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


CHECKSUM_BYTES = 4 << 20
"""A larger checksum file is not read."""


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

    @staticmethod
    def builder(table: str) -> SnapshotBuilder:
        """Opens a table by an executor of the caller's; `table` is its address, for messages."""
        from delta_sidecar.replay.builders import SnapshotBuilder

        return SnapshotBuilder(Opening(table))

    def scan_builder(self) -> ScanBuilder:
        """Scans the table by an executor of the caller's."""
        from delta_sidecar.replay.builders import ScanBuilder

        return ScanBuilder(self)

    @property
    def schema(self) -> pa.Schema:
        """The table's Arrow schema, under the names that users see."""
        return self.columns.logical

    @property
    def partition_columns(self) -> tuple[str, ...]:
        """Names of the partition columns, in order."""
        return self.columns.partition_columns


def open_snapshot(opening: Opening) -> Flow[Snapshot]:
    """Opens a table: finds its version, its bases, and the protocol and metadata in force."""
    segment = opening.segment
    if segment is None or not BaseChoice.of(segment, sidecars=opening.sidecars).is_open:
        # Metadata sidecars may have counted when it was listed, and not count now.
        opening = replace(opening, segment=None)
        hint = yield from last_checkpoint(opening)
        segment = yield from list_log(opening, hint)
    choice = BaseChoice.of(segment, sidecars=opening.sidecars)
    return (yield from _protocol_and_metadata(opening, choice))


def passed_over(table: str, choice: BaseChoice, error: Exception, events: Events) -> Flow[BaseChoice]:
    """The bases that are left where the first one proved unusable.

    Where none is left, a log of which only the end was listed is listed again, all of it.

    Raises:
        CorruptCheckpointError: There is none.
    """
    base = choice.bases[0]
    tell_passed_over(table, base, error, events)
    left = choice.without(base)
    if left.is_open:
        return left
    failure = no_base_left(table, base.name, error)
    # Commits that a listing skipped were not asked for by name where a metadata sidecar seemed to make up for them.
    if left.segment.complete and base.tier == CHECKPOINT_TIER:
        raise failure from error
    pinned = Opening(table, left.segment.version, sidecars=left.sidecars)
    segment = yield from list_log(pinned, None, excluded=left.unusable, otherwise=failure)
    return left.listed(segment)


def trusted_choice(table: str, choice: BaseChoice, events: Events) -> Flow[BaseChoice]:
    """The bases from the first one down that can be trusted."""
    while choice.bases:
        try:
            base = yield from choice.bases[0].trust(with_table=False)
        except Torn as torn:
            choice = yield from passed_over(table, choice, torn.reason, events)
        else:
            return choice.learned(base)
    return choice


def distrust(base: Base, executor: Executor) -> str | None:
    """Why a base cannot be trusted; None where it can."""
    try:
        run_flow(base.trust(with_table=False), executor)
    except Torn as torn:
        return str(torn.reason)
    return None


@dataclass(slots=True)
class _Known:
    """What is known so far of a table."""

    protocol: Protocol | None = None
    metadata: Metadata | None = None
    columns: TableSchema | None = None
    counted: tuple[int, int] | None = None

    @property
    def missing(self) -> frozenset[str]:
        actions = {"protocol": self.protocol, "metaData": self.metadata}
        return frozenset(name for name, action in actions.items() if action is None)


def _protocol_and_metadata(opening: Opening, choice: BaseChoice) -> Flow[Snapshot]:
    """Asks the cheapest source first: a base that has them in front, a checksum file, the tail, and then the base."""
    table, events, known = opening.table, opening.events, _Known()
    while _is_asked_first(opening, choice):
        try:
            base = yield from choice.bases[0].trust(with_table=True, ahead=_next_commits(opening, choice))
        except Torn as torn:
            choice = yield from passed_over(table, choice, torn.reason, events)
        else:
            choice = choice.learned(base)
    reach, checksum = choice.segment.version, _best_checksum(opening, choice)
    if checksum is not None and (yield from _in_checksum(opening, choice, checksum, known)):
        yield from _in_commits(opening, choice, choice.segment.tail(checksum), known, frozenset(TABLE_SCHEMA.names))
    while known.missing:
        yield from _in_commits(opening, choice, choice.tail(reach), known, known.missing)
        if not known.missing or not choice.bases:
            break
        reach = choice.base_version
        try:
            base = yield from choice.bases[0].trust(with_table=True)
        except Torn as torn:
            choice = yield from passed_over(table, choice, torn.reason, events)
            continue
        choice = choice.learned(base)
        if len(known.missing) == len(TABLE_SCHEMA.names):
            known.columns = base.columns
        known.protocol, known.metadata = known.protocol or base.protocol, known.metadata or base.metadata
        break
    return _snapshot(opening, choice, known)


def _snapshot(opening: Opening, choice: BaseChoice, known: _Known) -> Snapshot:
    table, version = opening.table, choice.segment.version
    if known.protocol is None:
        msg = f"{table} has no protocol action up to version {version}: its log is not complete"
        raise MissingProtocolError(msg)
    if opening.refuse:
        check_readable(known.protocol, table)
    if known.metadata is None:
        msg = f"{table} has no metaData action up to version {version}: its log is not complete"
        raise MissingMetadataError(msg)
    columns = known.columns or read_schema(known.metadata, known.protocol, table)
    return Snapshot(table, version, known.protocol, known.metadata, columns, choice, known.counted)


def _is_asked_first(opening: Opening, choice: BaseChoice) -> bool:
    """Whether the first base is asked before a checksum file and the tail.

    A checksum file is sooner: the base's own, if it was asked for along with the listing and so were all commits after
    it; or any, if the tail is not read as a whole.
    """
    if not choice.bases or not choice.bases[0].has_table_in_front:
        return False
    base, segment = choice.bases[0], choice.segment
    if not opening.whole_tail:
        return not any(version >= base.version for version in segment.checksums)
    is_listed_from = any(found.version == base.version for found in segment.checkpoints)
    return not (is_listed_from and _is_near(opening, choice, base.version) and base.version in segment.checksums)


def _is_near(opening: Opening, choice: BaseChoice, base: int) -> bool:
    """Whether all commits after a base were asked for along with the listing."""
    segment = choice.segment
    return opening.segment is None and not segment.complete and segment.version - base <= opening.speculation


def _best_checksum(opening: Opening, choice: BaseChoice) -> int | None:
    """The checksum file that costs least: the base's own where the tail is on its way, else the newest.

    None where none is worth it: a base that is known already and a tail that is read anyway say as much.
    """
    base = choice.base_version
    usable = [version for version in choice.segment.checksums if version >= base]
    is_near = _is_near(opening, choice, base)
    if choice.bases and choice.bases[0].metadata is not None:
        newest = max(usable, default=base)
        return None if is_near or opening.whole_tail or newest == base else newest
    return base if base in usable and is_near else max(usable, default=None)


def _next_commits(opening: Opening, choice: BaseChoice, up_to: int | None = None) -> tuple[FileRef, ...]:
    """The commits that are read next: those after a version, and some to begin the replay with."""
    begun = choice.base_version
    if not opening.whole_tail:
        begun = max(begun, choice.segment.version - opening.speculation)
    return files_of(choice.segment.tail(begun if up_to is None else min(up_to, begun)))


def _ahead(opening: Opening, choice: BaseChoice, files: tuple[FileRef, ...] = ()) -> Ahead:
    """What is worth asking for beside commits: footers and pieces of the base, where it will be read."""
    if not choice.bases:
        return Ahead(files)
    base = choice.bases[0]
    pieces = () if opening.pieces is None else opening.pieces(base)
    return Ahead(files, footers=base.footers() if opening.whole_base else (), pieces=pieces)


def _in_checksum(opening: Opening, choice: BaseChoice, version: int, known: _Known) -> Flow[bool]:
    """Reads a checksum file, which holds protocol and metadata at its version; whether it could be used."""
    plan = ReadFiles((checksum_path(version),), max_bytes=CHECKSUM_BYTES)
    for batch in (yield Consume(plan, _ahead(opening, choice, _next_commits(opening, choice, version)))):
        content = batch.column("data")[0].as_py()
        checksum = read_checksum(content) if content is not None else None
        columns = _columns(checksum, opening.table) if checksum is not None else None
        if checksum is not None and columns is not None:
            known.protocol, known.metadata, known.columns = checksum.protocol, checksum.metadata, columns
            known.counted = None if checksum.num_files is None else (version, checksum.num_files)
            return True
    return False


def _columns(checksum: Checksum, table: str) -> TableSchema | None:
    try:
        return read_schema(checksum.metadata, checksum.protocol, table)
    except InvalidMetadataError:
        return None


def _in_commits(
    opening: Opening, choice: BaseChoice, commits: Tail, known: _Known, names: frozenset[str]
) -> Flow[None]:
    """Looks for the newest actions of some names in commits, newest first; they override what is known."""
    while commits and names:
        plan = ScanJson(
            files_of(commits),
            TABLE_SCHEMA,
            lines_with=(b"",),
            # A scan reads all of them again, and finds out whether they are whole.
            only_with=tuple(f'"{name}"'.encode() for name in names) if opening.whole_tail else (),
            keep=True,
            all_needed=True,
        )
        found: dict[str, tuple[int, object]] = {}
        try:
            for batch in (yield Consume(plan, _ahead(opening, choice))):
                version = batch.column(FILE_LABEL)[0].as_py()
                if len(found) == len(names) and all(at > version for at, _ in found.values()):
                    break
                for name in names:
                    at, _ = found.get(name, (version, None))
                    action = _last_action(batch, name, version) if at == version else None
                    if action is not None:
                        found[name] = (version, action)
        except UnreadableFileError as error:
            raise_commit_failure(opening.table, error)
            raise
        for name, (version, action) in found.items():
            source = f"commit {version} of {opening.table}"
            known.columns = None
            if name == "protocol":
                known.protocol = Protocol.from_action(action, source)
            else:
                known.metadata = Metadata.from_action(action, source)
        commits, names = commits.rest(), names - found.keys()


def _last_action(batch: pa.RecordBatch, name: str, version: int) -> object:
    """The action of a name in a block of a commit; of several, which no writer should make, the last."""
    present = np.flatnonzero(valid_mask(batch.column(name)))
    if not len(present):
        return None
    line = batch.column(LINE)[int(present[-1])].as_py()
    return None if line is None else line_action(line, name, commit_path(version))
