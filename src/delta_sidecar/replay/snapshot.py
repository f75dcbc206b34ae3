"""A table at one version: the protocol and metadata in force, and the log that makes it up.

    LastCheckpointPhase -> FileListingPhase -> ChecksumPhase? -> TableInTailPhase? -> CheckpointTopPhase? -> Snapshot

Protocol and metadata come from the cheapest source: the newest checksum file and the commits after it, the tail, and
only then the checkpoint. Nothing is emitted before they are known, and a table that asks for more than this library
can do is refused here.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import numpy as np

from delta_sidecar._arrow import valid_mask
from delta_sidecar.errors import InvalidMetadataError, MissingMetadataError, MissingProtocolError
from delta_sidecar.log.actions import TABLE_SCHEMA, Metadata, Protocol, line_action
from delta_sidecar.log.features import check_readable
from delta_sidecar.log.hints import Checksum, read_checksum
from delta_sidecar.log.names import checksum_path, commit_path
from delta_sidecar.log.schema import TableSchema, read_schema
from delta_sidecar.plan import (
    FILE_LABEL,
    LINE,
    Consume,
    ConsumePhase,
    FileRef,
    ReadFiles,
    ScanJson,
    StateMachinePhase,
    Terminus,
)
from delta_sidecar.replay.bases import BaseContinuation, CheckpointTopPhase, TrustedCheckpoint
from delta_sidecar.replay.failures import explain_commit_failure, no_base_left
from delta_sidecar.replay.opening import FileListingPhase, LastCheckpointPhase, ListingContinuation, Opening

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pyarrow as pa

    from delta_sidecar.log.segment import CheckpointFiles, LogSegment

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
        segment: The part of the log that makes it up.
        checkpoint: The base, where it had to be opened to get here.
        excluded: Names of checkpoints that proved unusable on the way.
    """

    table: str
    version: int
    protocol: Protocol
    metadata: Metadata
    columns: TableSchema = field(repr=False)
    segment: LogSegment = field(repr=False)
    checkpoint: TrustedCheckpoint | None = field(default=None, repr=False)
    excluded: frozenset[str] = field(default=frozenset(), repr=False)

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
    return Consume(LastCheckpointPhase(opening, _Listed(opening)))


@dataclass(frozen=True, slots=True)
class _Listed(ListingContinuation[Snapshot]):
    """Looks for protocol and metadata once the log is listed."""

    opening: Opening
    excluded: frozenset[str] = frozenset()

    def listed(self, segment: LogSegment) -> StateMachinePhase[Snapshot]:
        search = _Search(self.opening, segment, self.excluded)
        version = _best_checksum(self.opening, segment)
        return search.in_tail() if version is None else Consume(ChecksumPhase(search, version))


@dataclass(frozen=True, slots=True)
class _Search(BaseContinuation[Snapshot], ListingContinuation[Snapshot]):
    """What is known so far of the table, and where to look for the rest.

    Attributes:
        opening: What is asked for.
        segment: The listed log.
        excluded: Names of checkpoints that proved unusable.
        protocol: The protocol, once it is known.
        metadata: The metadata, once it is known.
        looked_down_to: The version down to which commits were looked through; None before a base proved unusable.
        torn: Why the log is listed again.
    """

    opening: Opening
    segment: LogSegment
    excluded: frozenset[str] = frozenset()
    protocol: Protocol | None = None
    metadata: Metadata | None = None
    looked_down_to: int | None = None
    torn: Exception | None = None

    def in_tail(self, down_to: int | None = None, up_to: int | None = None) -> StateMachinePhase[Snapshot]:
        """Looks through the commits after a version, by default after the base."""
        low = self.segment.base_version if down_to is None else down_to
        high = self.segment.version if up_to is None else up_to
        commits = tuple(entry for entry in self.segment.tail(low) if entry[0] <= high)
        return Consume(TableInTailPhase(self, commits)) if commits else self.in_base()

    def in_base(self) -> StateMachinePhase[Snapshot]:
        """Looks into the base, if something is still unknown."""
        if self.protocol is not None and self.metadata is not None:
            return self.done(None)
        if self.segment.checkpoints:
            return Consume(CheckpointTopPhase(self.segment, self.segment.checkpoints[0], self, with_table=True))
        return self.done(None)

    def trusted(self, base: TrustedCheckpoint) -> StateMachinePhase[Snapshot]:
        known = replace(self, protocol=self.protocol or base.protocol, metadata=self.metadata or base.metadata)
        return known.done(base)

    def distrusted(self, files: CheckpointFiles, error: Exception) -> StateMachinePhase[Snapshot]:
        left = replace(self.segment, checkpoints=self.segment.checkpoints[1:])
        less = replace(self, segment=left, excluded=self.excluded | {files.name}, looked_down_to=files.version)
        if left.checkpoints or left.from_start:
            return less.in_tail(up_to=files.version)
        failure = no_base_left(self.opening.table, files, error)
        if left.complete:
            raise failure from error
        pinned = replace(self.opening, version=self.segment.version)
        return Consume(FileListingPhase(pinned, replace(less, torn=failure), None, less.excluded))

    def unreachable(self) -> Exception | None:
        return self.torn

    def listed(self, segment: LogSegment) -> StateMachinePhase[Snapshot]:
        # Everything above the old base has been looked through.
        return replace(self, segment=segment).in_tail(up_to=self.looked_down_to)

    def done(self, base: TrustedCheckpoint | None) -> StateMachinePhase[Snapshot]:
        table, version = self.opening.table, self.segment.version
        if self.protocol is None:
            msg = f"{table} has no protocol action up to version {version}: its log is not complete"
            raise MissingProtocolError(msg)
        check_readable(self.protocol, table)
        if self.metadata is None:
            msg = f"{table} has no metaData action up to version {version}: its log is not complete"
            raise MissingMetadataError(msg)
        columns = read_schema(self.metadata, self.protocol, table)
        return Terminus(
            Snapshot(table, version, self.protocol, self.metadata, columns, self.segment, base, self.excluded)
        )


@dataclass(frozen=True, slots=True)
class ChecksumPhase(ConsumePhase[Snapshot]):
    """Reads a checksum file, which holds protocol and metadata at its version."""

    search: _Search
    version: int

    def plan(self) -> ReadFiles:
        """The file, and the commits that are read next: those after it, and some to begin the replay with."""
        segment = self.search.segment
        begun = max(segment.base_version, segment.version - self.search.opening.speculation)
        ahead = tuple(FileRef(path, size, version) for version, path, size in segment.tail(min(self.version, begun)))
        return ReadFiles((checksum_path(self.version),), max_bytes=_CHECKSUM_BYTES, ahead=ahead)

    def next(self, data: Iterator[pa.RecordBatch]) -> StateMachinePhase[Snapshot]:
        """Takes it if it is whole; the commits after it may say something newer."""
        for batch in data:
            content = batch.column("data")[0].as_py()
            checksum = read_checksum(content, self.version) if content is not None else None
            if checksum is not None and self._is_usable(checksum):
                known = replace(self.search, protocol=checksum.protocol, metadata=checksum.metadata)
                commits = self.search.segment.tail(self.version)
                if not commits:
                    return known.done(None)
                return Consume(TableInTailPhase(known, commits, newer=True))
        return self.search.in_tail()

    def _is_usable(self, checksum: Checksum) -> bool:
        try:
            read_schema(checksum.metadata, checksum.protocol, self.search.opening.table)
        except InvalidMetadataError:
            return False
        return True


@dataclass(frozen=True, slots=True)
class TableInTailPhase(ConsumePhase[Snapshot]):
    """Looks for protocol and metadata in commits, newest first, and stops when both are found.

    Attributes:
        search: What is known so far.
        commits: Where to look.
        newer: Whether the commits are newer than what is known, and so override it.
    """

    search: _Search
    commits: tuple[tuple[int, str, int], ...]
    newer: bool = False

    def plan(self) -> ScanJson:
        """The commits; a replay reads them again, so what is fetched is kept."""
        files = tuple(FileRef(path, size, version) for version, path, size in self.commits)
        return ScanJson(files, TABLE_SCHEMA, lines_with=(b"",), keep=True, all_needed=True)

    def next(self, data: Iterator[pa.RecordBatch]) -> StateMachinePhase[Snapshot]:
        """Takes the newest of each; what a checksum file said stands where the commits say nothing."""
        found: dict[str, tuple[int, object]] = {}
        for batch in data:
            version = batch.column(FILE_LABEL)[0].as_py()
            if len(found) == len(TABLE_SCHEMA) and all(at > version for at, _ in found.values()):
                break
            for name in TABLE_SCHEMA.names:
                at, _ = found.get(name, (version, None))
                action = _last_action(batch, name, version) if at == version else None
                if action is not None:
                    found[name] = (version, action)
        source = self.search.opening.table
        known = self.search
        if "protocol" in found and (known.protocol is None or self.newer):
            version, action = found["protocol"]
            known = replace(known, protocol=Protocol.from_action(action, f"commit {version} of {source}"))
        if "metaData" in found and (known.metadata is None or self.newer):
            version, action = found["metaData"]
            known = replace(known, metadata=Metadata.from_action(action, f"commit {version} of {source}"))
        return known.in_base()

    def recover(self, error: Exception) -> StateMachinePhase[Snapshot] | None:
        """A commit of the tail that cannot be read fails the table; the error names it."""
        raise explain_commit_failure(self.search.opening.table, error) from error


def _last_action(batch: pa.RecordBatch, name: str, version: int) -> object:
    """The action of a name in a block of a commit; of several, which no writer should make, the last."""
    present = np.flatnonzero(valid_mask(batch.column(name)))
    if not len(present):
        return None
    line = batch.column(LINE)[int(present[-1])].as_py()
    return None if line is None else line_action(line, name, commit_path(version))


def _best_checksum(opening: Opening, segment: LogSegment) -> int | None:
    """The checksum file that costs least: the base's own where the tail is on its way, else the newest."""
    usable = [version for version in segment.checksums if version >= segment.base_version]
    if not usable:
        return None
    base = segment.base_version
    if base in usable and not segment.complete and segment.version - base <= opening.speculation:
        return base
    return max(usable)
