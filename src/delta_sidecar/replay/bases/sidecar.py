"""Metadata sidecars as a base.

    trust:  manifest, or the footer without a manifest -> what proves its version
    emit:   (segment ->) row groups that may match, a few at once, from either end

A metadata sidecar is used only if its manifest is whole, is proven to be of the history that is there (see
`ProofFiles`) and names files that are there. A row group is emitted whole or not at all. Where one cannot be read, or
is not what its digest says, the keys of those before it are read again, and the next base goes on with the rest.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from itertools import accumulate, takewhile
from typing import TYPE_CHECKING, overload

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
from delta_sidecar.sidecar.layout import SidecarLayout, matching, read_columns
from delta_sidecar.sidecar.manifest import (
    FOOTER_KEY,
    LARGEST_DOCUMENT,
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
    from delta_sidecar.replay.request import ScanRequest
    from delta_sidecar.replay.seen.seen import SeenSet
    from delta_sidecar.sidecar.groups import RowGroup, RowGroups, Segment, Segments
    from delta_sidecar.sidecar.layout import PieceColumns

_MOST_BYTES = 8 << 20
"""So much is asked for together, unless one row group is larger."""


@dataclass(frozen=True, slots=True)
class SidecarBase(Base):
    """A metadata sidecar."""

    listed: Mapping[str, ListedFile] = field(repr=False)  # the listed files of the folder of sidecars, by name
    proof_files: ProofFiles = field(repr=False)  # the files of the log that prove its version
    is_one_file: bool = False  # whether it is read by its footer, for want of a manifest
    layout: SidecarLayout | None = field(default=None, repr=False)  # what is where in it; None before it is trusted

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
        """Once its manifest is known, the same file as it would be read by its footer."""
        return frozenset() if self.layout is None else frozenset(file.name for file in self.layout.manifest.files)

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
        if request is None or self.layout is None or self.layout.manifest.segments:
            return NOTHING_AHEAD
        manifest = self.layout.manifest
        columns = read_columns(self.layout.schema, request.pruning, request.columns.columns)
        found = matching(self.layout, manifest.row_groups, request.pruning)
        if len(found) > request.sidecar_groups_at_once:
            return NOTHING_AHEAD
        groups = (_pieces_of(manifest, group, columns) for group in found)
        pieces = (piece for group in groups for piece in group.pieces if piece.length <= WHOLE_PIECE_BYTES)
        return Ahead(pieces=tuple(pieces))

    def trust(self, *, with_table: bool, ahead: tuple[FileRef, ...] = ()) -> Flow[SidecarBase]:
        """Reads its manifest and what proves its version, unless that was done."""
        del with_table
        if self.layout is not None:
            return self
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
        manifest = self.trusted_layout.manifest
        if not manifest.segments:
            yield from self._emit_groups(manifest.row_groups, request, seen)
            return
        for segment in _in_order(self, manifest.segments, request):
            if request.start is not None and not _holds(segment, request.start.part):
                continue
            try:
                groups = yield from self._read_segment(segment)
            except (SidecarError, UnreadableFileError) as error:
                self._fail(error, request, segment.first_index, of_segment=True)
                raise
            yield from self._emit_groups(groups, request, seen)
            request = replace(request, start=None)

    def emitted_keys(self, emitted: Emitted, request: ScanRequest, seen: SeenSet) -> Flow[None]:
        """Reads the keys of the row groups before the one that failed."""
        manifest = self.trusted_layout.manifest
        # Without them it cannot be known any more which files were emitted: the scan fails.
        with _naming_pieces(request.table):
            if not manifest.segments:
                yield from self._read_keys(manifest.row_groups, emitted, request, seen)
            for segment in _in_order(self, manifest.segments, request):
                is_last = _holds(segment, emitted.index)
                if is_last and emitted.of_segment:
                    break
                groups = yield from self._read_segment(segment)
                yield from self._read_keys(groups, emitted, request, seen)
                if is_last:
                    break

    def summary(self, request: ScanRequest) -> Flow[BaseSummary]:
        """By its manifest alone."""
        yield from ()
        layout = self.trusted_layout
        manifest = layout.manifest
        made_of = manifest.files if manifest.segments_file is None else (*manifest.files, manifest.segments_file)
        found = BaseSummary(
            self.name,
            self.version,
            self.tier,
            files=len(made_of),
            bytes=sum(file.size for file in made_of),
            rows=manifest.num_files,
            row_groups=manifest.num_row_groups,
            newest_by=layout.newest_by,
        )
        if manifest.segments:
            segments = matching(layout, manifest.segments, request.pruning)
            return replace(
                found,
                row_groups_pruned=found.row_groups - sum(segment.num_row_groups for segment in segments),
                segments=len(segments),
                segment_bytes=sum(segment.byte_length for segment in segments),
            )
        columns = read_columns(layout.schema, request.pruning, request.columns.columns)
        matched = matching(layout, manifest.row_groups, request.pruning)
        groups = [_pieces_of(manifest, group, columns).pieces for group in matched]
        return replace(
            found,
            row_groups_pruned=found.row_groups - len(groups),
            index=tuple(pieces[0] for pieces in groups),
            statistics=tuple(piece for pieces in groups for piece in pieces[1:]),
        )

    def _emit_groups(self, groups: RowGroups, request: ScanRequest, seen: SeenSet) -> Flow[None]:
        found = _in_order(self, groups, request)
        if request.start is not None:
            found = self._from(found, request.start)
        if not found:
            return
        try:
            plan = self._plan(found, len(groups) - len(found), request, seen)
            yield PartialResult(plan, parallel=not request.recent)
        except UnreadableFileError as error:
            if any(group.index == error.label for group in found):
                self._fail(error, request, error.label)
            raise

    def _from(self, found: tuple[RowGroup, ...], start: Place) -> tuple[RowGroup, ...]:
        """The row groups from a place on."""
        files = self.trusted_layout.manifest.files
        for at, group in enumerate(found):
            if group.index == start.part and start.path == SIDECAR_FOLDER + files[group.file].name:
                return found[at:]
        msg = (
            f"the page token points into {start.path}, where no file of that place can match any more: begin at "
            f"the first page"
        )
        raise PageTokenExpiredError(msg)

    def _fail(self, error: Exception, request: ScanRequest, index: int, *, of_segment: bool = False) -> None:
        """Raises `Torn` where a file is torn; the store being out of reach is another matter."""
        (identity,) = self.identity.values()
        try:
            raise_if_torn(request.table, error)
        except Torn as torn:
            raise Torn(torn.reason, Emitted(self.name, self.version, identity, index, of_segment)) from error

    def _read_segment(self, segment: Segment) -> Flow[RowGroups]:
        """Reads one segment of a large manifest: the row groups in it."""
        manifest, start = self.trusted_layout.manifest, segment.byte_offset
        if manifest.segments_file is None:
            msg = "a manifest with segments names their file"
            raise RuntimeError(msg)
        ref = FileRef(SIDECAR_FOLDER + manifest.segments_file.name, manifest.segments_file.size)
        plan = ReadRanges(ref, ((start, start + segment.byte_length),))
        (content,) = [batch.column("data")[0].as_py() for batch in (yield Consume(plan))]
        return decode_segment(content, segment, manifest)

    def _read_keys(self, groups: RowGroups, emitted: Emitted, request: ScanRequest, seen: SeenSet) -> Flow[None]:
        """Puts the keys of row groups that were emitted into a seen-set."""
        layout = self.trusted_layout
        found = takewhile(lambda group: group.index != emitted.index, _in_order(self, groups, request))
        columns = (("path", *VECTOR_COLUMNS),)
        pieces = tuple(_pieces_of(layout.manifest, group, columns) for group in found)
        plan = ScanPieces(pieces, columns, (layout.schema.index,), at_once=request.sidecar_groups_at_once)
        for batch in (yield Consume(plan)):
            seen.insert(file_keys(row_keys(batch)))

    def _plan(self, groups: Sequence[RowGroup], skipped: int, request: ScanRequest, seen: SeenSet) -> Plan:
        layout = self.trusted_layout
        newest = layout.newest_rows if request.recent else None
        columns = read_columns(layout.schema, request.pruning, request.columns.columns, newest)
        read = tuple(_pieces_of(layout.manifest, group, columns) for group in groups)
        largest = max(sum(piece.length for piece in group.pieces) for group in read)
        # Row groups with statistics of many columns are large.
        at_once = max(1, min(request.sidecar_groups_at_once, _MOST_BYTES // max(1, largest)))
        at_first = len(groups) if request.enough is None else _enough(groups, request.enough)
        pieces = ScanPieces(
            read,
            columns,
            (layout.schema.index, layout.schema.statistics_schema)[: len(columns)],
            at_once=at_once,
            at_first=max(1, min(at_first, at_once)),
            directory=read_piece_footer,
            skipped=skipped,
        )
        rows = SidecarRows(
            seen,
            request.columns,
            request.pruning,
            layout.schema,
            layout.manifest.stats_format,
            newest,
            request.limit,
            request.progress,
        )
        return Filter(pieces, rows)


@overload
def _in_order(base: SidecarBase, groups: RowGroups, request: ScanRequest) -> tuple[RowGroup, ...]: ...


@overload
def _in_order(base: SidecarBase, groups: Segments, request: ScanRequest) -> tuple[Segment, ...]: ...


def _in_order(base: SidecarBase, groups: RowGroups | Segments, request: ScanRequest) -> tuple[RowGroup | Segment, ...]:
    """The row groups, or segments, that may hold a file that matches, in the order in which they are read."""
    layout = base.trusted_layout
    found = matching(layout, groups, request.pruning if request.skipping else None)
    if request.recent:
        return newest_first(found, layout.order)  # type: ignore[type-var,return-value]
    return found if request.forward else found[::-1]


def _pieces_of(manifest: Manifest, group: RowGroup, columns: PieceColumns) -> PieceGroup:
    """The pieces of a row group that are read."""
    path, footer = SIDECAR_FOLDER + manifest.files[group.file].name, group.stats_footer
    pieces = (
        Piece(path, group.byte_offset, group.byte_length, group.digest),
        Piece(path, group.stats_offset, group.stats_length, group.stats_digest, footer.length, footer.digest),
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


def _holds(segment: Segment, index: int) -> bool:
    return segment.first_index <= index < segment.first_index + segment.num_row_groups


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


@dataclass(frozen=True, slots=True)
class VersionProof:
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


@dataclass(frozen=True, slots=True)
class ProofFiles:
    """The files of a log that prove a version."""

    version: int  # the version
    has_commit: bool  # whether its commit is listed
    has_checksum: bool  # whether a checksum file of it is listed
    # Its complete checkpoints, but for those of very many files.
    checkpoints: tuple[CheckpointFiles, ...] = field(default=(), repr=False)

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
        return replace(self, has_checksum=False, checkpoints=()) if self.has_commit else self

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
