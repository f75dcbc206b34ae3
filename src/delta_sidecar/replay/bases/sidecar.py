"""Metadata sidecars as a base.

    trust:  manifest, or the footer without a manifest -> what proves its version -> the list of row groups
    emit:   (segments ->) row groups that may match, a few at once, from either end

A metadata sidecar is used only if its manifest is whole, is proven to be of the history that is there (see
`ProofFiles`) and names files that are there. A row group is emitted whole or not at all. Where one cannot be read, or
is not what its digest says, the keys of those before it are read again, and the next base goes on with the rest.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from itertools import accumulate, chain, dropwhile, takewhile
from typing import TYPE_CHECKING, TypeVar

import msgspec
from msgspec import Struct

from delta_sidecar._arrow import xxh3_128
from delta_sidecar.errors import (
    DeltaSidecarError,
    LogCorruptionError,
    ObjectNotFoundError,
    PageTokenExpiredError,
    SidecarError,
    UnreadableFileError,
)
from delta_sidecar.log.identity import file_keys
from delta_sidecar.log.names import LOG_FOLDER, SIDECAR_FOLDER, checksum_path, commit_path
from delta_sidecar.plan import (
    NOTHING_AHEAD,
    WHOLE_PIECE_BYTES,
    Ahead,
    Consume,
    FileRef,
    Filter,
    PartialResult,
    Piece,
    PieceGroup,
    Plan,
    ReadFiles,
    ReadKeyValue,
    ReadRanges,
    ScanPieces,
)
from delta_sidecar.replay.bases.base import Base, BaseSummary, Torn, raise_unreachable
from delta_sidecar.replay.bases.checkpoint import raise_if_torn
from delta_sidecar.replay.bases.sidecar_rows import SidecarRows
from delta_sidecar.replay.request import Emitted
from delta_sidecar.sidecar.groups import LARGEST_DOCUMENT, RowGroup, Segment
from delta_sidecar.sidecar.layout import SidecarLayout, matching, read_columns
from delta_sidecar.sidecar.manifest import (
    FOOTER_KEY,
    CommitMark,
    Manifest,
    Witness,
    decode_footer_body,
    decode_manifest,
    decode_segment,
)
from delta_sidecar.sidecar.order import newest_first
from delta_sidecar.sidecar.pieces import read_piece_footer
from delta_sidecar.sidecar.rows import VECTOR_COLUMNS, row_keys

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    import pyarrow as pa

    from delta_sidecar.log.segment import CheckpointFiles, ListedFile, ListedSidecar, LogSegment
    from delta_sidecar.plan import Flow, Place
    from delta_sidecar.predicate import BoundPredicate
    from delta_sidecar.replay.request import ScanRequest
    from delta_sidecar.replay.seen.seen import SeenSet
    from delta_sidecar.sidecar.groups import Run
    from delta_sidecar.sidecar.layout import PieceColumns

R = TypeVar("R", bound="Run")

_MOST_BYTES = 8 << 20
"""So much is asked for together, unless one row group, or segment, is larger."""
SEGMENTS_AT_ONCE = 8
"""Most segments that are read together."""


@dataclass(frozen=True, slots=True)
class SidecarBase(Base):
    """A metadata sidecar."""

    listed: Mapping[str, ListedFile] = field(repr=False)  # the listed files of the folder of sidecars, by name
    proof_files: ProofFiles = field(repr=False)  # the files of the log that prove its version
    is_one_file: bool = False  # whether it is read by its footer, for want of a manifest
    layout: SidecarLayout | None = field(default=None, repr=False)  # what is where in it; None before it is trusted
    # What may match the predicate that it was asked for last: asked for ahead, and once more by the scan.
    _matched: list[tuple[BoundPredicate | None, Sequence[Run]]] = field(default_factory=list, repr=False, compare=False)

    @classmethod
    def of(cls, segment: LogSegment, found: ListedSidecar) -> SidecarBase:
        """Makes one of what a listing shows."""
        proof_files = ProofFiles.of(segment, found.version)
        return cls(found.version, found.name, segment.sidecars, proof_files, found.tier > 1, nbytes=found.nbytes)

    @property
    def tier(self) -> int:
        """1 with a manifest, 2 without one."""
        return 2 if self.is_one_file else 1

    @property
    def has_table_in_front(self) -> bool:
        """Its manifest holds protocol and metadata."""
        return self.layout is None

    @property
    def others(self) -> frozenset[str]:
        """Once its manifest is known and right, the same file as it would be read by its footer."""
        if self.layout is None or _fault(self.layout) is not None:
            return frozenset()
        return frozenset(file.name for file in self.layout.manifest.files)

    @property
    def identity(self) -> Mapping[str, str]:
        """The e_tag, or else the size, of the file that is read first: it has digests of everything else."""
        listed = self.listed[self.name]
        return {self.name: listed.e_tag or f"{listed.size} bytes"}

    @property
    def num_files(self) -> int | None:
        """By its manifest."""
        return None if self.layout is None else self.layout.manifest.num_files

    @property
    def trusted_layout(self) -> SidecarLayout:
        """Its layout, once it is trusted."""
        if self.layout is None:
            msg = f"{self.name} is not trusted yet: take what `trust` gives"
            raise RuntimeError(msg)
        return self.layout

    def ahead(self, request: ScanRequest | None) -> Ahead:
        """The pieces that match, where they are few and their places are known."""
        if request is None or self.layout is None or _fault(self.layout) is not None:
            return NOTHING_AHEAD
        found = [run for run in self._matching(request.pruning) if isinstance(run, RowGroup)]
        if not found or len(found) > request.sidecar_groups_at_once:
            return NOTHING_AHEAD
        plan = self._pieces(_ordered(self.layout, found, request), 0, request)
        groups = tuple(
            group for group in plan.groups if all(piece.length <= WHOLE_PIECE_BYTES for piece in group.pieces)
        )
        return Ahead(row_groups=msgspec.structs.replace(plan, groups=groups))

    def trust(self, *, with_table: bool, ahead: tuple[FileRef, ...] = ()) -> Flow[SidecarBase]:
        """Reads its manifest and what proves its version, unless that was done; checks the row groups in it."""
        base = self if self.layout is not None else (yield from self._opened(ahead))
        if not with_table and (fault := _fault(base.trusted_layout)) is not None:
            raise Torn(fault) from fault
        return base

    def _opened(self, ahead: tuple[FileRef, ...]) -> Flow[SidecarBase]:
        proof, path = self.proof_files.needed(), SIDECAR_FOLDER + self.name
        manifest = (yield from self._manifest_in_footer()) if self.is_one_file else None
        paths = () if self.is_one_file else (path,)
        plan = ReadFiles(paths, LARGEST_DOCUMENT, keep=False, heads=proof.heads, tails=proof.tails)
        read = by_path((yield Consume(plan, Ahead(ahead))))
        try:
            manifest = manifest or _decoded(*read.get(path, (0, None)))
            manifest.check_listed(self.version, self.listed)
            layout = SidecarLayout.of(manifest, self.name)
            self.proof_files.proof(read).check(manifest)
        except DeltaSidecarError as error:
            raise Torn(error) from error
        return replace(
            self,
            layout=layout,
            protocol=layout.protocol,
            metadata=layout.metadata,
            columns=layout.table,
            nbytes=sum(file.size for file in manifest.files),
        )

    def _manifest_in_footer(self) -> Flow[Manifest]:
        listed = self.listed[self.name]
        plan = ReadKeyValue(FileRef(listed.path, listed.size), FOOTER_KEY)
        try:
            (value,) = [batch.column("value")[0].as_py() for batch in (yield Consume(plan))]
        except UnreadableFileError as error:
            raise_if_torn(self.name, error)
            raise
        try:
            if value is None:
                msg = "it is no metadata sidecar: its footer does not say so"
                raise SidecarError(msg)  # noqa: TRY301 - one way out for all reasons
            return decode_footer_body(value, self.name, listed.size)
        except SidecarError as error:
            raise Torn(error) from error

    def emit(self, request: ScanRequest, seen: SeenSet) -> Flow[None]:
        """Emits the row groups that may match."""
        runs, start = self._runs(request), request.start
        if start is not None:
            first = start.part
            runs = tuple(dropwhile(lambda run: not _holds(run, first), runs))
            if not runs:
                raise _gone(start)
        skipped = self.trusted_layout.manifest.num_row_groups - sum(run.num_row_groups for run in runs)
        for together in _together(runs, request):
            try:
                groups = yield from self._row_groups(together, request)
            except (SidecarError, UnreadableFileError) as error:
                self._fail(error, request, together[0].first_index, of_segment=True)
                raise
            skipped += sum(run.num_row_groups for run in together)
            if start is not None:
                groups, start = self._from(groups, start), None
            skipped -= len(groups)
            if groups:
                yield from self._emit_groups(groups, skipped, request, seen)
                skipped = 0

    def emitted_keys(self, emitted: Emitted, request: ScanRequest, seen: SeenSet) -> Flow[None]:
        """Reads the keys of the row groups before the one that failed."""
        runs = self._runs(request)
        before = tuple(takewhile(lambda run: not _holds(run, emitted.index), runs))
        if not emitted.of_segment:
            # It may be one of a segment of which others were emitted.
            before = runs[: len(before) + 1]
        # Without them it cannot be known any more which files were emitted: the scan fails.
        with _naming_pieces(request.table):
            for together in _together(before, request):
                groups = yield from self._row_groups(together, request)
                yield from self._read_keys(groups, emitted, request, seen)

    def summary(self, request: ScanRequest) -> Flow[BaseSummary]:
        """By its manifest alone."""
        yield from ()
        layout = self.trusted_layout
        manifest = layout.manifest
        columns = read_columns(layout.schema, request.pruning, request.columns.columns)
        runs = self._matching(request.pruning)
        segments = [run for run in runs if isinstance(run, Segment)]
        groups = [_pieces_of(manifest, run, columns).pieces for run in runs if isinstance(run, RowGroup)]
        return BaseSummary(
            self.name,
            self.version,
            self.tier,
            files=len(manifest.files),
            bytes=sum(file.size for file in manifest.files),
            rows=manifest.num_files,
            row_groups=manifest.num_row_groups,
            row_groups_pruned=manifest.num_row_groups - sum(run.num_row_groups for run in runs),
            index=tuple(pieces[0] for pieces in groups),
            statistics=tuple(piece for pieces in groups for piece in pieces[1:]),
            segments=len(segments),
            segment_bytes=sum(segment.byte_length for segment in segments),
            newest_by=layout.newest_by,
        )

    def _runs(self, request: ScanRequest) -> tuple[Run, ...]:
        """The row groups and segments of the manifest that may hold a file that matches, in the order of reading."""
        layout = self.trusted_layout
        runs = self._matching(request.pruning) if request.skipping else layout.manifest.runs
        return _ordered(layout, runs, request)

    def _matching(self, asked: BoundPredicate | None) -> Sequence[Run]:
        # Scans in several threads may share a snapshot, and what it remembers is of any of them.
        for known, found in tuple(self._matched):
            if known is asked:
                return found
        layout = self.trusted_layout
        found = matching(layout, layout.manifest.runs, asked)
        self._matched[:] = [(asked, found)]
        return found

    def _row_groups(self, runs: Sequence[Run], request: ScanRequest) -> Flow[tuple[RowGroup, ...]]:
        """The row groups that may match, in the order of reading, out of runs of which segments are read."""
        manifest = self.trusted_layout.manifest
        read: dict[int, bytes] = {}
        segments = [run for run in runs if isinstance(run, Segment)]
        for number in dict.fromkeys(segment.file for segment in segments):
            of_file = [segment for segment in segments if segment.file == number]
            ranges = tuple((each.byte_offset, each.byte_offset + each.byte_length) for each in of_file)
            file = manifest.files[number]
            plan = ReadRanges(FileRef(SIDECAR_FOLDER + file.name, file.size), ranges)
            for segment, batch in zip(of_file, (yield Consume(plan)), strict=True):
                read[segment.first_index] = batch.column("data")[0].as_py()
        return tuple(
            chain.from_iterable(
                _in_order(self.trusted_layout, decode_segment(read[run.first_index], run, manifest), request)
                if isinstance(run, Segment)
                else (run,)
                for run in runs
            )
        )

    def _emit_groups(
        self, groups: tuple[RowGroup, ...], skipped: int, request: ScanRequest, seen: SeenSet
    ) -> Flow[None]:
        try:
            yield PartialResult(self._plan(groups, skipped, request, seen), parallel=not request.recent)
        except UnreadableFileError as error:
            if any(group.index == error.label for group in groups):
                self._fail(error, request, error.label)
            raise

    def _from(self, groups: tuple[RowGroup, ...], start: Place) -> tuple[RowGroup, ...]:
        """The row groups from a place on."""
        files = self.trusted_layout.manifest.files
        for at, group in enumerate(groups):
            if group.index == start.part and start.path == SIDECAR_FOLDER + files[group.file].name:
                return groups[at:]
        raise _gone(start)

    def _fail(self, error: Exception, request: ScanRequest, index: int, *, of_segment: bool = False) -> None:
        """Raises `Torn` where a file is torn; the store being out of reach is another matter."""
        (identity,) = self.identity.values()
        try:
            raise_if_torn(request.table, error)
        except Torn as torn:
            raise Torn(torn.reason, Emitted(self.name, self.version, identity, index, of_segment)) from error

    def _read_keys(
        self, groups: tuple[RowGroup, ...], emitted: Emitted, request: ScanRequest, seen: SeenSet
    ) -> Flow[None]:
        """Puts the keys of row groups that were emitted into a seen-set."""
        layout = self.trusted_layout
        found = takewhile(lambda group: group.index != emitted.index, groups)
        columns = (("path", *VECTOR_COLUMNS),)
        pieces = tuple(_pieces_of(layout.manifest, group, columns) for group in found)
        plan = ScanPieces(pieces, columns, (layout.schema.index,), at_once=request.sidecar_groups_at_once)
        for batch in (yield Consume(plan)):
            seen.insert(file_keys(row_keys(batch)))

    def _pieces(self, groups: Sequence[RowGroup], skipped: int, request: ScanRequest) -> ScanPieces:
        layout = self.trusted_layout
        newest = layout.newest_rows if request.recent else None
        columns = read_columns(layout.schema, request.pruning, request.columns.columns, newest)
        read = tuple(_pieces_of(layout.manifest, group, columns) for group in groups)
        largest = max(sum(piece.length for piece in group.pieces) for group in read)
        # Row groups with statistics of many columns are large.
        at_once = max(1, min(request.sidecar_groups_at_once, _MOST_BYTES // max(1, largest)))
        at_first = len(groups) if request.enough is None else _enough(groups, request.enough)
        return ScanPieces(
            read,
            columns,
            (layout.schema.index, layout.schema.statistics_schema)[: len(columns)],
            at_once=at_once,
            at_first=max(1, min(at_first, at_once)),
            directory=read_piece_footer,
            skipped=skipped,
        )

    def _plan(self, groups: Sequence[RowGroup], skipped: int, request: ScanRequest, seen: SeenSet) -> Plan:
        layout = self.trusted_layout
        rows = SidecarRows(
            seen,
            request.columns,
            request.pruning,
            layout.schema,
            layout.manifest.stats_format,
            layout.newest_rows if request.recent else None,
            request.limit,
            request.progress,
        )
        return Filter(self._pieces(groups, skipped, request), rows)


def _in_order(layout: SidecarLayout, runs: Sequence[R], request: ScanRequest) -> tuple[R, ...]:
    """The row groups, or segments, that may hold a file that matches, in the order in which they are read."""
    return _ordered(layout, matching(layout, runs, request.pruning if request.skipping else None), request)


def _ordered(layout: SidecarLayout, runs: Sequence[R], request: ScanRequest) -> tuple[R, ...]:
    if request.recent:
        return newest_first(runs, layout.order)
    return tuple(runs if request.forward else runs[::-1])


def _together(runs: Sequence[Run], request: ScanRequest) -> Iterator[list[Run]]:
    """Runs in the order of reading, cut so that only a few segments are read at once.

    The first ones are no more than are likely to be enough. Without a predicate that is one: a scan of all files may be
    broken off at any of them, and should not wait for segments before.
    """
    enough = 1 if request.pruning is None else request.enough
    together: list[Run] = []
    segments = segment_bytes = rows = 0
    for run in runs:
        if isinstance(run, Segment):
            is_enough = enough is not None and rows >= enough
            is_large = segments == SEGMENTS_AT_ONCE or segment_bytes + run.byte_length > _MOST_BYTES
            if is_enough or (segments and is_large):
                yield together
                together, enough = [], None
                segments = segment_bytes = 0
            segments += 1
            segment_bytes += run.byte_length
        together.append(run)
        rows += run.num_rows
    if together:
        yield together


def _fault(layout: SidecarLayout) -> SidecarError | None:
    """What is wrong with the row groups in a manifest; None where nothing is."""
    try:
        _ = layout.manifest.row_groups
    except SidecarError as error:
        return error
    return None


def _pieces_of(manifest: Manifest, group: RowGroup, columns: PieceColumns) -> PieceGroup:
    """The pieces of a row group that are read."""
    path, footer = SIDECAR_FOLDER + manifest.files[group.file].name, group.stats_footer
    footer_of = (0, "") if footer is None else (footer.length, footer.digest)
    pieces = (
        Piece(path, group.byte_offset, group.byte_length, group.digest),
        Piece(path, group.stats_offset, group.stats_length, group.stats_digest, *footer_of),
    )
    return PieceGroup(group.index, group.num_rows, pieces[: len(columns)])


def _enough(groups: Sequence[RowGroup], files: int) -> int:
    """The number of row groups that hold so many files, if all of them match."""
    held = list(accumulate(group.num_rows for group in groups))
    return min(len(groups), bisect_left(held, files) + 1)


@contextmanager
def _naming_pieces(table: str) -> Iterator[None]:
    """Explains that a metadata sidecar cannot be read again after files of it were emitted."""
    try:
        yield
    except (SidecarError, UnreadableFileError) as error:
        raise_unreachable(table, error)
        advice = "so the scan ends here; build it again, or scan with sidecar_enabled=False"
        if isinstance(error.__cause__, ObjectNotFoundError):
            advice = "and it was removed while it was read: scan again"
        msg = f"{table} cannot be read: {error}. Files of this metadata sidecar were already given out, {advice}."
        raise LogCorruptionError(msg) from error


def _holds(run: Run, index: int) -> bool:
    return run.first_index <= index < run.first_index + run.num_row_groups


def _gone(start: Place) -> PageTokenExpiredError:
    return PageTokenExpiredError(
        f"the page token points into {start.path}, where no file of that place can match any more: begin at the first "
        f"page"
    )


def _decoded(size: int, content: bytes | None) -> Manifest:
    if content is None:
        msg = "it is gone" if not size else f"it has {size} bytes, and more than a manifest may have"
        raise SidecarError(msg, "damaged" if size else "gone")
    return decode_manifest(content)


# Proof that a metadata sidecar is of the history that is there.
#
# A table that was made anew, restored from a backup or forked has other commits under the same names, and mostly the
# same `metaData.id`. So version N of a metadata sidecar is proven by commit N. Where that has been cleaned up, by a
# witness: a checkpoint of version N or `{N}.crc`, which must be what it was when the sidecar was built.


_MOST_FILES = 32
# Totals of two histories can be equal; the id of a transaction is of one commit alone.
_TRANSACTION = re.compile(rb'"txnId"\s*:\s*"[^"]+"')


class VersionProof(Struct, frozen=True):
    """The proof of a version that is there: its commit and its witnesses."""

    commit: CommitMark | None  # the commit; None where it is not there
    witnesses: tuple[Witness, ...] = ()  # the checkpoints and the checksum file, as far as they were asked for

    def check(self, manifest: Manifest) -> None:
        """Lets a manifest pass that is of this history.

        Raises:
            SidecarError: It is of another one, or nothing that is there proves that it is of this one.
        """
        version, mark = manifest.version, manifest.commit
        if self.commit is not None:
            if mark is None:
                msg = f"it was made without commit {version}, which is there now: the table may be another one"
                raise SidecarError(msg, "other_commit")
            if mark != self.commit:
                msg = f"commit {version} is not the one that it was made from: the table was made anew, or restored"
                raise SidecarError(msg, "other_commit")
            return
        known = {witness.name: witness for witness in manifest.witness}
        found = [witness for witness in self.witnesses if witness.name in known]
        for witness in found:
            if witness != known[witness.name]:
                msg = f"commit {version} has been cleaned up, and {witness.name} is not the one that it was made beside"
                raise SidecarError(msg, "unproven")
        if not found:
            msg = (
                f"commit {version} has been cleaned up, and no checkpoint or checksum file of that version is there "
                f"that it was made beside: nothing proves that it is of this table's history"
            )
            raise SidecarError(msg, "unproven")


class ProofFiles(Struct, frozen=True):
    """The files of a log that prove a version."""

    version: int  # the version
    has_commit: bool  # whether its commit is listed
    has_checksum: bool  # whether a checksum file of it is listed
    # Its complete checkpoints, but for those of very many files.
    checkpoints: tuple[CheckpointFiles, ...] = ()

    @classmethod
    def of(cls, segment: LogSegment, version: int) -> ProofFiles:
        """Takes them from a listing."""
        checkpoints = [found for found in segment.checkpoints if found.version == version]
        few = tuple(
            found for found in checkpoints if len(found.files) <= _MOST_FILES and all(file.size for file in found.files)
        )
        return cls(version, segment.commits.first <= version, version in segment.checksums, few)

    def needed(self) -> ProofFiles:
        """Those that a reader asks for: a commit that is listed makes all others needless."""
        return msgspec.structs.replace(self, has_checksum=False, checkpoints=()) if self.has_commit else self

    @property
    def heads(self) -> tuple[str, ...]:
        """The files of which the head is read; a commit may be there and not be listed."""
        return (commit_path(self.version), *((checksum_path(self.version),) if self.has_checksum else ()))

    @property
    def tails(self) -> tuple[FileRef, ...]:
        """The files of which the tail is read."""
        return tuple(FileRef(file.path, file.size) for found in self.checkpoints for file in found.files)

    def proof(self, read: Mapping[str, tuple[int, bytes | None]]) -> VersionProof:
        """Makes a proof of sizes, heads and tails by path; what is absent was not there, or not asked for."""
        size, head = read.get(commit_path(self.version), (0, None))
        commit = None if head is None else CommitMark(size, xxh3_128(head))
        found = []
        for checkpoint in self.checkpoints:
            parts = [read.get(file.path, (0, None)) for file in checkpoint.files]
            tails = [tail for _, tail in parts if tail is not None]
            if len(tails) == len(parts):
                found.append(Witness(checkpoint.name, sum(size for size, _ in parts), xxh3_128(b"".join(tails))))
        size, head = read.get(checksum_path(self.version), (0, None))
        if head is not None and _TRANSACTION.search(head):
            found.append(Witness(checksum_path(self.version).removeprefix(LOG_FOLDER), size, xxh3_128(head)))
        return VersionProof(commit, tuple(found))


def by_path(data: Iterable[pa.RecordBatch]) -> dict[str, tuple[int, bytes | None]]:
    """Sizes and bytes that a `ReadFiles` gave, by path."""
    return {
        batch.column("path")[0].as_py(): (batch.column("size")[0].as_py(), batch.column("data")[0].as_py())
        for batch in data
    }
