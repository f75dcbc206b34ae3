"""A table at one version: the protocol and metadata in force, and the log that makes it up.

    hint -> listing -> protocol and metadata -> Snapshot

Protocol and metadata come from the cheapest source: the newest checksum file and the commits after it, the manifest of
a metadata sidecar, the tail, and only then a checkpoint. Nothing is emitted before they are known, and a table that
asks for more than this library can do is refused here.
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from delta_sidecar._arrow import to_numpy
from delta_sidecar.errors import (
    DeltaSidecarError,
    InvalidMetadataError,
    MissingMetadataError,
    MissingProtocolError,
)
from delta_sidecar.log.actions import TABLE_SCHEMA, Metadata, Protocol, line_action
from delta_sidecar.log.names import checksum_path, commit_path, read_checksum
from delta_sidecar.log.schema import TableSchema, check_readable, read_schema
from delta_sidecar.plan import FILE_LABEL, LINE, Ahead, Consume, ReadFiles, ScanJson, StateMachinePhase
from delta_sidecar.predicate import parse
from delta_sidecar.replay.bases.base import Torn
from delta_sidecar.replay.bases.choice import BaseChoice, passed_over
from delta_sidecar.replay.files import FILE_SCHEMA
from delta_sidecar.replay.open import Opening, list_log
from delta_sidecar.replay.request import ScanRequest
from delta_sidecar.replay.scan import emit_files
from delta_sidecar.replay.tail import WINDOW, Tail, live_adds_plan, naming_commits

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    import pyarrow as pa

    from delta_sidecar.plan import FileRef, Flow
    from delta_sidecar.predicate import Predicate

CHECKSUM_BYTES = 4 << 20
"""A larger checksum file is not read."""

_SHARED_BYTES = 4 << 20
"""A tail of so many bytes is parsed once, for the table and for the scan that follows."""


class Snapshot(Struct, frozen=True):
    """A table at one version.

    Attributes:
        table: Its address, without secrets.
        version: The version.
        protocol: The protocol in force.
        metadata: The metadata in force.
        columns: The table's columns, under logical and physical names.
        choice: The part of the log that makes it up, and the bases to replay it from.
        counted: A version, and how many files were live at it, by a checksum file.
    """

    table: str
    version: int
    protocol: Protocol
    metadata: Metadata
    columns: TableSchema
    choice: BaseChoice
    counted: tuple[int, int] | None = None

    def __repr__(self) -> str:
        return f"Snapshot(table={self.table!r}, version={self.version})"

    @staticmethod
    def builder(table: str) -> SnapshotBuilder:
        """Opens a table by an executor of the caller's; `table` is its address, for messages."""
        return SnapshotBuilder(Opening(table))

    def scan_builder(self) -> ScanBuilder:
        """Scans the table by an executor of the caller's."""
        return ScanBuilder(self)

    @property
    def schema(self) -> pa.Schema:
        """The table's Arrow schema, under the names that users see."""
        return self.columns.logical

    @property
    def partition_columns(self) -> tuple[str, ...]:
        """Names of the partition columns, in order."""
        return self.columns.partition_columns


class Scan(Struct, frozen=True):
    """A scan that came to its end.

    Attributes:
        snapshot: The table at its version.
        predicate: The physical predicate that files were pruned by; None for all files.
        base_version: Version of the base that the replay ended on; -1 where it went down to version 0.
        unusable: Names of the bases that were passed over.
        seen_keys: How many keys of the tail were remembered.
    """

    snapshot: Snapshot
    predicate: Predicate | None
    base_version: int
    unusable: frozenset[str]
    seen_keys: int

    @property
    def logical_schema(self) -> pa.Schema:
        """The table's columns, under the names that users see."""
        return self.snapshot.columns.logical

    @property
    def physical_schema(self) -> pa.Schema:
        """The same columns, under the names that data files have."""
        return self.snapshot.columns.physical

    @property
    def partition_columns(self) -> tuple[str, ...]:
        """Logical names of the partition columns, in order."""
        return self.snapshot.partition_columns


def scan(snapshot: Snapshot, request: ScanRequest) -> Flow[Scan]:
    """Emits the live files of a table that may match, in the direction that is asked for."""
    choice, seen_keys = yield from emit_files(snapshot.choice, request)
    predicate = None if request.pruning is None else request.pruning.predicate
    return Scan(replace(snapshot, choice=choice), predicate, choice.base_version, choice.unusable, seen_keys)


class SnapshotBuilder(Struct, frozen=True):
    """Says which version of a table is opened, and how."""

    opening: Opening

    def at_version(self, version: int | None) -> SnapshotBuilder:
        """Opens a version; None for the newest."""
        return replace(self, opening=replace(self.opening, version=version))

    def with_sidecars(self, *, enabled: bool) -> SnapshotBuilder:
        """Says whether metadata sidecars count as bases; they do by default."""
        return replace(self, opening=replace(self.opening, sidecars=enabled))

    def build(self) -> StateMachinePhase[Snapshot]:
        """The first phase of opening it; nothing is read yet."""
        return StateMachinePhase(open_snapshot(self.opening))


class ScanBuilder(Struct, frozen=True):
    """Says which files of a snapshot are wanted, and what of them."""

    snapshot: Snapshot
    predicate: Predicate | None = None
    columns: tuple[str, ...] = tuple(FILE_SCHEMA.names)
    limit: int | None = None
    forward: bool = False

    def with_predicate(self, predicate: Any) -> ScanBuilder:  # noqa: ANN401 - every notation of a predicate
        """Only files that may hold a matching row: SQL text, DNF tuples or a mapping; None for all."""
        return replace(self, predicate=None if predicate is None else parse(predicate))

    def with_columns(self, columns: Sequence[str]) -> ScanBuilder:
        """Only these columns of a batch of files; the others come as nulls."""
        return replace(self, columns=tuple(columns))

    def with_limit(self, limit: int | None) -> ScanBuilder:
        """About how many files are wanted: no more of the log is asked for than is likely to hold them."""
        return replace(self, limit=limit)

    def oldest_first(self, *, forward: bool = True) -> ScanBuilder:
        """Begins with the base, then the commits after it; by default it is the other way round."""
        return replace(self, forward=forward)

    def build(self) -> StateMachinePhase[Scan]:
        """The first phase of the scan; nothing is read yet.

        Raises:
            PredicateError: The predicate names an unknown column, or compares one with a value of another type.
        """
        request = ScanRequest.bind(self.snapshot.table, self.snapshot.columns, self.predicate, self.columns)
        return StateMachinePhase(scan(self.snapshot, replace(request, limit=self.limit, forward=self.forward)))


def open_snapshot(opening: Opening) -> Flow[Snapshot]:
    """Opens a table: finds its version, its bases, and the protocol and metadata in force."""
    segment = opening.segment
    if segment is None or not BaseChoice.of(segment, sidecars=opening.sidecars).is_open:
        # Metadata sidecars may have counted when it was listed, and not count now.
        opening = replace(opening, segment=None)
        segment = yield from list_log(opening)
    table, version, known = opening.table, segment.version, _Known()
    choice = BaseChoice.of(segment, sidecars=opening.sidecars, manifests=opening.manifests)
    choice = yield from _protocol_and_metadata(opening, choice, known)
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


class _Known(Struct):
    """Protocol, metadata and columns as far as they are known."""

    protocol: Protocol | None = None
    metadata: Metadata | None = None
    columns: TableSchema | None = None
    counted: tuple[int, int] | None = None

    @property
    def missing(self) -> frozenset[str]:
        actions = {"protocol": self.protocol, "metaData": self.metadata}
        return frozenset(name for name, action in actions.items() if action is None)


def _protocol_and_metadata(opening: Opening, choice: BaseChoice, known: _Known) -> Flow[BaseChoice]:
    """Asks the cheapest source first: a base that has them in front, a checksum file, the tail, and then the base.

    Returns:
        The bases that are left, with what was learned of the first one.
    """
    table, events = opening.table, opening.events
    while _is_asked_first(opening, choice):
        try:
            base = yield from choice.bases[0].trust(with_table=True, ahead=_next_commits(opening, choice))
        except Torn as torn:
            choice = yield from passed_over(table, choice, torn.reason, events)
        else:
            choice = choice.learned(base)
    reach, checksum = choice.segment.version, _best_checksum(opening, choice)
    if checksum is not None and (yield from _in_checksum(opening, choice, checksum, known)):
        yield from _in_commits(opening, choice, Tail.of(choice.segment, checksum), known, frozenset(TABLE_SCHEMA.names))
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
    return choice


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
    commits = Tail.of(choice.segment, begun if up_to is None else min(up_to, begun))
    return next(commits.windows(), ())


def _ahead(opening: Opening, choice: BaseChoice, files: tuple[FileRef, ...] = ()) -> Ahead:
    """Files worth fetching beside commits: footers and pieces of the base, where it will be read."""
    if not choice.bases or not opening.whole_base:
        return Ahead(files)
    return msgspec.structs.replace(choice.bases[0].ahead(_request(opening, choice)), files=files)


def _request(opening: Opening, choice: BaseChoice) -> ScanRequest | None:
    """The request of the scan that follows, as the columns of the base have it; None where it is not known."""
    columns = choice.bases[0].columns if choice.bases else None
    if opening.question is None or columns is None:
        return None
    # The columns may have changed since: the scan itself says so.
    with suppress(DeltaSidecarError):
        request = opening.question.bound(opening.table, columns)
        return replace(request, sidecar_groups_at_once=opening.sidecar_groups_at_once)
    return None


def _in_checksum(opening: Opening, choice: BaseChoice, version: int, known: _Known) -> Flow[bool]:
    """Reads a checksum file, which holds protocol and metadata at its version; whether it could be used."""
    plan = ReadFiles((checksum_path(version),), max_bytes=CHECKSUM_BYTES)
    for batch in (yield Consume(plan, _ahead(opening, choice, _next_commits(opening, choice, version)))):
        content = batch.column("data")[0].as_py()
        checksum = read_checksum(content) if content is not None else None
        if checksum is None:
            continue
        with suppress(InvalidMetadataError):
            known.columns = read_schema(checksum.metadata, checksum.protocol, opening.table)
            known.protocol, known.metadata = checksum.protocol, checksum.metadata
            known.counted = None if checksum.num_files is None else (version, checksum.num_files)
            return True
    return False


def _in_commits(
    opening: Opening, choice: BaseChoice, commits: Tail, known: _Known, names: frozenset[str]
) -> Flow[None]:
    """Looks for the newest actions of some names in commits, newest first; they override what is known."""
    ahead, request = _ahead(opening, choice), _request(opening, choice)
    with naming_commits(opening.table):
        for window in commits.windows():
            plan = ScanJson(
                (yield from _files_with(names, window, request, ahead)),
                TABLE_SCHEMA,
                lines_with=(b"",),
                # A scan reads all of them again, and finds out whether they are whole.
                only_with=tuple(f'"{name}"'.encode() for name in names) if opening.whole_tail else (),
                keep=True,
                all_needed=True,
                together=WINDOW if opening.whole_tail else 1,
            )
            if not plan.files:
                continue
            found, versions = dict[str, object](), dict[str, int]()
            for batch in (yield Consume(plan, ahead)):
                if len(found) == len(names) and min(versions.values()) > batch.column(FILE_LABEL)[0].as_py():
                    break
                for name in names:
                    version, action = _newest_action(batch, name)
                    if action is not None and version >= versions.get(name, version):
                        found[name], versions[name] = action, version
            for name, action in found.items():
                source = f"commit {versions[name]} of {opening.table}"
                known.columns = None
                if name == "protocol":
                    known.protocol = Protocol.from_action(action, source)
                else:
                    known.metadata = Metadata.from_action(action, source)
            names -= found.keys()
            if not names:
                return


def _files_with(
    names: Iterable[str], commits: tuple[FileRef, ...], request: ScanRequest | None, ahead: Ahead
) -> Flow[tuple[FileRef, ...]]:
    """The commits that may have an action of one of some names.

    Where the scan that follows is known they are parsed as that one reads them, and it has the rows already.
    """
    if request is None or sum(ref.size or _SHARED_BYTES for ref in commits) > _SHARED_BYTES:
        return commits
    plan = live_adds_plan(commits, request.columns, request.pruning)
    plan = msgspec.structs.replace(plan, keep=True, keep_rows=True, all_needed=True)
    found = set[int]()
    for batch in (yield Consume(plan, ahead)):
        present = np.logical_or.reduce([to_numpy(batch.column(name).is_valid()) for name in names])
        found.update(to_numpy(batch.column(FILE_LABEL))[present].tolist())
    return tuple(ref for ref in commits if ref.label in found)


def _newest_action(batch: pa.RecordBatch, name: str) -> tuple[int, object]:
    """The version and content of an action in some commits; of several in one, which no writer should make, the last.

    It is None where there is none.
    """
    present = np.flatnonzero(to_numpy(batch.column(name).is_valid()))
    versions = to_numpy(batch.column(FILE_LABEL))[present]
    if not len(present):
        return -1, None
    version = int(versions.max())
    line = batch.column(LINE)[int(present[versions == version][-1])].as_py()
    return version, None if line is None else line_action(line, name, commit_path(version))
