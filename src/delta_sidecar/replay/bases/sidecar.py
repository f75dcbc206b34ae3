"""Metadata sidecars as a base.

    trust:   ManifestPhase, or FooterPhase -> ProofPhase without a manifest
    replay:  MetadataSidecarPhase...   (see `sidecar_scan`)

A metadata sidecar is used only if its manifest is whole, is proven to be of the history that is there (see
`witnesses`) and speaks of files that are there.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from itertools import takewhile
from typing import TYPE_CHECKING, TypeVar

from delta_sidecar.errors import DeltaSidecarError, PageTokenExpiredError, SidecarError, UnreadableFileError
from delta_sidecar.log.actions import Metadata, Protocol
from delta_sidecar.log.names import SIDECAR_FOLDER
from delta_sidecar.log.schema import read_schema
from delta_sidecar.plan import (
    WHOLE_PIECE_BYTES,
    Consume,
    ConsumePhase,
    FileRef,
    FilterOrdered,
    PartialResult,
    PartialResultPhase,
    Piece,
    Plan,
    ReadFiles,
    ReadKeyValue,
    StateMachinePhase,
    Terminus,
)
from delta_sidecar.replay.bases.base import Base, BaseSummary, TrustContinuation
from delta_sidecar.replay.bases.checkpoint import is_torn
from delta_sidecar.replay.bases.pieces import (
    Course,
    SegmentContinuation,
    SegmentPhase,
    enough,
    matching,
    pieces_of,
    wanted_columns,
)
from delta_sidecar.replay.failures import raise_unreachable
from delta_sidecar.replay.footer_facts import BaseFacts, Counts, Range
from delta_sidecar.replay.pruning import bind_predicate
from delta_sidecar.replay.resume import broken_at, given_keys, holds, in_order, is_one_run, is_told_alike
from delta_sidecar.replay.seen.seen import SeenSet
from delta_sidecar.replay.witnesses import ProofFiles, by_path
from delta_sidecar.sidecar.layout import SidecarLayout
from delta_sidecar.sidecar.manifest import (
    FOOTER_KEY,
    LARGEST_DOCUMENT,
    Manifest,
    Totals,
    decode_footer_body,
    decode_manifest,
)
from delta_sidecar.sidecar.names import sidecar_name

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    import pyarrow as pa

    from delta_sidecar.log.segment import ListedFile, LogSegment
    from delta_sidecar.replay.bases.base import Reading, ReplayContinuation, Wanted
    from delta_sidecar.replay.open import ListedSidecar
    from delta_sidecar.replay.pruning import Pruning
    from delta_sidecar.sidecar.groups import RowGroup, RowGroups, Segment


T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class SidecarBase(Base):
    """A metadata sidecar.

    Attributes:
        listed: The listed files of the folder of sidecars, by name.
        proof_files: The files of the log that prove its version.
        is_one_file: Whether it is read by its footer, for want of a manifest.
        layout: What is where in it; None before it is trusted.
    """

    listed: Mapping[str, ListedFile] = field(repr=False)
    proof_files: ProofFiles = field(repr=False)
    is_one_file: bool = False
    layout: SidecarLayout | None = field(default=None, repr=False)

    @classmethod
    def of(cls, sidecar: ListedSidecar, segment: LogSegment) -> SidecarBase:
        """Makes one of what a listing shows."""
        listed = segment.sidecars
        data = listed.get(sidecar_name(sidecar.version))
        size = _size_of_parts(listed, sidecar.version) if data is None else data.size
        proof = ProofFiles.of(segment, sidecar.version)
        return cls(sidecar.version, sidecar.name, listed, proof, sidecar.tier > 1, nbytes=size)

    @property
    def tier(self) -> int:
        """1 with a manifest, 2 without one."""
        return 2 if self.is_one_file else 1

    @property
    def tells_first(self) -> bool:
        """Its manifest holds protocol and metadata, and is asked for before anything else."""
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

    def pieces(self, wanted: Wanted) -> tuple[Piece, ...]:
        """The pieces that match, where they are few."""
        if self.layout is None:
            return ()
        try:
            pruning = bind_predicate(self.layout.table, wanted.predicate)
        except DeltaSidecarError:
            # The columns may have changed since.
            return ()
        return first_pieces(self.layout, pruning, wanted)

    def trust(
        self, then: TrustContinuation[T], *, with_table: bool, ahead: tuple[FileRef, ...] = ()
    ) -> StateMachinePhase[T]:
        """Reads its manifest and what proves its version, unless that was done."""
        del with_table
        if self.layout is not None:
            return then.trusted(self)
        return Consume(FooterPhase(self, then, ahead) if self.is_one_file else ManifestPhase(self, then, ahead))

    def facts(self, pruning: Pruning | None) -> BaseFacts | None:
        """By its manifest."""
        return None if self.layout is None else sidecar_facts(self.layout, pruning)

    def summary(
        self, table: str, pruning: Pruning | None, without: frozenset[str] = frozenset()
    ) -> StateMachinePhase[BaseSummary]:
        """By its manifest."""
        del table
        if self.layout is None:
            msg = f"{self.name} is not trusted yet: ask what `trust` gives"
            raise RuntimeError(msg)
        return Terminus(sidecar_summary(self, self.layout, pruning, without))

    def replay(self, reading: Reading, then: ReplayContinuation[T]) -> StateMachinePhase[T]:
        """Goes through the row groups that may match."""
        if self.layout is None:
            msg = f"{self.name} is not trusted yet: replay what `trust` gives"
            raise RuntimeError(msg)
        return replay_sidecar(self, self.layout, reading, then)


@dataclass(frozen=True, slots=True)
class ManifestPhase(ConsumePhase[T]):
    """Reads the manifest of a metadata sidecar, and what proves its version."""

    base: SidecarBase
    then: TrustContinuation[T]
    ahead: tuple[FileRef, ...] = ()

    def plan(self) -> ReadFiles:
        """Both together."""
        proof = self.base.proof_files.needed()
        return ReadFiles(
            (SIDECAR_FOLDER + self.base.name,),
            max_bytes=LARGEST_DOCUMENT,
            keep=False,
            heads=proof.heads,
            tails=proof.tails,
            ahead=self.ahead,
        )

    def next(self, data: Iterator[pa.RecordBatch]) -> StateMachinePhase[T]:
        """Goes on with what they say."""
        read = by_path(data)
        size, content = read.get(SIDECAR_FOLDER + self.base.name, (0, None))
        if content is None:
            msg = "it is gone" if not size else f"it has {size} bytes, and more than a manifest may have"
            return self.then.distrusted(self.base, SidecarError(msg, "damaged" if size else "gone"))
        try:
            manifest = decode_manifest(content)
        except SidecarError as error:
            return self.then.distrusted(self.base, error)
        return _checked(self.base, manifest, read, self.then)


@dataclass(frozen=True, slots=True)
class FooterPhase(ConsumePhase[T]):
    """Reads what the footer of a metadata sidecar holds in the place of a manifest."""

    base: SidecarBase
    then: TrustContinuation[T]
    ahead: tuple[FileRef, ...] = ()

    def plan(self) -> ReadKeyValue:
        """The footer."""
        listed = self.base.listed[self.base.name]
        return ReadKeyValue(FileRef(listed.path, listed.size), FOOTER_KEY)

    def next(self, data: Iterator[pa.RecordBatch]) -> StateMachinePhase[T]:
        """Goes on with what it says; what proves it comes next."""
        (value,) = (batch.column("value")[0].as_py() for batch in data)
        if value is None:
            msg = "it is no metadata sidecar: its footer does not say so"
            return self.then.distrusted(self.base, SidecarError(msg))
        try:
            manifest = decode_footer_body(value, self.base.name, self.base.listed[self.base.name].size)
        except SidecarError as error:
            return self.then.distrusted(self.base, error)
        return Consume(ProofPhase(self.base, manifest, self.then, self.ahead))

    def recover(self, error: Exception) -> StateMachinePhase[T] | None:
        """A torn file is no base; the store being out of reach is another matter."""
        if is_torn(error):
            return self.then.distrusted(self.base, error)
        raise_unreachable(self.base.name, error)
        return None


@dataclass(frozen=True, slots=True)
class ProofPhase(ConsumePhase[T]):
    """Reads what proves the version of a metadata sidecar."""

    base: SidecarBase
    manifest: Manifest = field(repr=False)
    then: TrustContinuation[T]
    ahead: tuple[FileRef, ...] = ()

    def plan(self) -> ReadFiles:
        """Only that."""
        proof = self.base.proof_files.needed()
        return ReadFiles((), heads=proof.heads, tails=proof.tails, ahead=self.ahead)

    def next(self, data: Iterator[pa.RecordBatch]) -> StateMachinePhase[T]:
        """Compares it."""
        return _checked(self.base, self.manifest, by_path(data), self.then)


def _checked(
    base: SidecarBase, manifest: Manifest, read: Mapping[str, tuple[int, bytes | None]], then: TrustContinuation[T]
) -> StateMachinePhase[T]:
    """Trusts a manifest that is whole, as far as the log and the listing agree with it."""
    try:
        _check_files(base, manifest)
        learned = _learned(base, manifest)
        base.proof_files.proof(read).check(manifest)
    except DeltaSidecarError as error:
        return then.distrusted(base, error)
    return then.trusted(learned)


def _size_of_parts(listed: Mapping[str, ListedFile], version: int) -> int:
    """Bytes of the parts of a version, with those that a manifest may not name: about what is to be read."""
    own = f"v{version}."
    return sum(file.size for name, file in listed.items() if name.startswith(own) and name.endswith(".parquet"))


def _check_files(base: SidecarBase, manifest: Manifest) -> None:
    if manifest.version != base.version:
        msg = f"it is for version {manifest.version}"
        raise SidecarError(msg, "other_version")
    names = [*manifest.files, *([manifest.segments_file] if manifest.segments_file is not None else [])]
    for file in names:
        listed = base.listed.get(file.name)
        if listed is None:
            msg = f"{file.name}, which it speaks of, is not there"
            raise SidecarError(msg, "missing_file")
        if listed.size != file.size:
            msg = f"{file.name} has {listed.size} bytes where it says {file.size}"
            raise SidecarError(msg, "wrong_size")


def _learned(base: SidecarBase, manifest: Manifest) -> SidecarBase:
    protocol = Protocol.from_action(manifest.protocol, base.name)
    metadata = Metadata.from_action(manifest.metadata, base.name)
    columns = read_schema(metadata, protocol, base.name)
    layout = SidecarLayout.of(manifest, columns)
    size = sum(file.size for file in manifest.files)
    return replace(base, layout=layout, protocol=protocol, metadata=metadata, columns=columns, nbytes=size)


# The replay of a metadata sidecar: its row groups that may match, a few at once.
#
#     (SegmentPhase ->) MetadataSidecarPhase -> ...        in the order of the file; in reverse, and by time, from its
# end
#
# A row group is let through whole or not at all. Where one cannot be read, or is not what its digest says, the base
# breaks off there and tells which files it came past: all those of the row groups before it.


_MOST_NOTED = 100_000


def replay_sidecar(
    base: Base, layout: SidecarLayout, reading: Reading, then: ReplayContinuation[T]
) -> StateMachinePhase[T]:
    """Lets the live files of a metadata sidecar through."""
    course = Course.of(base, layout, reading, then)
    if layout.manifest.segments:
        return _segments(course, in_order(course, course.matching_segments()))
    return _groups(course, layout.manifest.row_groups, ())


def first_pieces(layout: SidecarLayout, pruning: Pruning | None, wanted: Wanted) -> tuple[Piece, ...]:
    """The pieces that a scan reads, where they are few and their places are known."""
    manifest = layout.manifest
    if manifest.segments:
        return ()
    numbers = matching(layout, manifest.row_groups, pruning)
    if len(numbers) > wanted.at_once:
        return ()
    columns = wanted_columns(layout.schema, pruning, wanted.without)
    groups = (pieces_of(manifest, manifest.row_groups[number], columns) for number in numbers)
    return tuple(piece for group in groups for piece in group.pieces if piece.length <= WHOLE_PIECE_BYTES)


@dataclass(frozen=True, slots=True)
class MetadataSidecarPhase(PartialResultPhase[T]):
    """Lets the live files of row groups through. The seen-set does not change any more.

    Incomplete rows come first, and their files are noted down: where another row group fails later, who goes on cannot
    tell by anything else whether such a file was let through. In order of time they come between the others, and so all
    files are noted down.

    Attributes:
        course: What is read.
        groups: The row groups.
        skipped: How many were passed over.
        left: Segments that are read after them.
        noted: Keys of the files that are let through, of incomplete row groups or of all; None where they are not noted
            down.
        complete: Row groups that come after these, where these are the incomplete ones.
    """

    course: Course[T]
    groups: tuple[RowGroup, ...] = field(repr=False)
    skipped: int
    left: tuple[Segment, ...] = field(repr=False)
    noted: SeenSet | None = field(default=None, repr=False)
    complete: tuple[RowGroup, ...] = field(default=(), repr=False)

    def plan(self) -> Plan:
        """The row groups, in order."""
        reading = self.course.reading
        at_first = len(self.groups) if reading.enough is None else enough(self.groups, reading.enough)
        plan = self.course.plan(self.groups, self.skipped, at_first)
        is_noted = self.complete or reading.recent
        return FilterOrdered(plan, _NoteDown(self.noted)) if self.noted is not None and is_noted else plan

    def is_parallelizable(self) -> bool:
        """Unless files are noted down, or wanted in order."""
        return not self.complete and not self.course.reading.recent

    def next(self) -> StateMachinePhase[T]:
        """The complete row groups, the next segment, or what comes after the base."""
        if self.complete:
            return PartialResult(replace(self, groups=self.complete, complete=(), skipped=0))
        return _segments(self.course, self.left) if self.left else self.course.then.replayed()

    def recover(self, error: Exception) -> StateMachinePhase[T] | None:
        """What came before the row group that failed stands; the next base goes on with the rest."""
        if not isinstance(error, UnreadableFileError):
            return None
        failed = next((group for group in self.groups if group.index == error.label), None)
        return None if failed is None else broken_at(self.course, failed, error, self.noted)


@dataclass(frozen=True, slots=True)
class _NoteDown:
    """Notes down the files that are let through."""

    keys: SeenSet

    def __call__(self, files: pa.RecordBatch) -> pa.RecordBatch:
        self.keys.insert(given_keys(files))
        return files


@dataclass(frozen=True, slots=True)
class _GoThrough(SegmentContinuation[T]):
    course: Course[T]
    left: tuple[Segment, ...] = field(repr=False)

    def read(self, groups: RowGroups) -> StateMachinePhase[T]:
        return _groups(self.course, groups, self.left)

    def broken(self, segment: Segment, error: Exception) -> StateMachinePhase[T] | None:
        return broken_at(self.course, segment, error)


def _segments(course: Course[T], left: tuple[Segment, ...]) -> StateMachinePhase[T]:
    """Goes on with the segments that are left, from the one where a page token stands on."""
    start = course.reading.start
    while start is not None and left and not holds(left[0], start.part):
        left = left[1:]
    if not left:
        return course.then.replayed()
    return Consume(SegmentPhase(course, left[0], _GoThrough(course, left[1:])))


def _groups(course: Course[T], groups: RowGroups, left: tuple[Segment, ...]) -> StateMachinePhase[T]:
    """Lets row groups through, and then goes on with the segments that are left."""
    found = in_order(course, course.matching(groups))
    start = course.reading.start
    if start is not None:
        places = [at for at, group in enumerate(found) if group.index == start.part]
        if not places or start.path != course.path(found[places[0]]):
            msg = (
                f"the page token points into {start.path}, where no file of that place can match any more: begin at "
                f"the first page"
            )
            raise PageTokenExpiredError(msg)
        found = found[places[0] :]
        course = replace(course, reading=replace(course.reading, start=None))
    if found:
        phase = MetadataSidecarPhase(course, found, len(groups) - len(found), left)
        return PartialResult(phase if start is not None or course.manifest.segments else _noted(phase))
    return _segments(course, left) if left else course.then.replayed()


def _noted(phase: MetadataSidecarPhase[T]) -> MetadataSidecarPhase[T]:
    """Notes down the files that the sidecar's keys alone do not tell, should a row group fail; as few as possible."""
    course, groups = phase.course, phase.groups
    is_alike = is_told_alike(course)
    if course.reading.recent:
        # Without a limit that would be every file of the table: the row groups are read again instead.
        is_worth_it = course.reading.limit is not None and course.reading.limit <= _MOST_NOTED
        is_needed = is_worth_it and not (is_alike and is_one_run(course.manifest))
        return replace(phase, noted=SeenSet()) if is_needed else phase
    incomplete = tuple(takewhile(lambda group: not group.first_key[0], groups))
    if not is_alike or not 0 < len(incomplete) < len(groups):
        return phase
    return replace(phase, groups=incomplete, noted=SeenSet(), complete=groups[len(incomplete) :])


# What a metadata sidecar is made of, how much of it is read and how many files it has, by its manifest alone.


def sidecar_summary(
    base: Base, layout: SidecarLayout, pruning: Pruning | None, without: frozenset[str] = frozenset()
) -> BaseSummary:
    """What a trusted metadata sidecar is made of, and what a scan reads of it.

    Args:
        base: The metadata sidecar.
        layout: What is where in it.
        pruning: Which files are wanted; None for all.
        without: Columns of files that nobody wants.
    """
    manifest = layout.manifest
    made_of = manifest.files if manifest.segments_file is None else (*manifest.files, manifest.segments_file)
    found = BaseSummary(
        base.name,
        base.version,
        base.tier,
        files=len(made_of),
        bytes=sum(file.size for file in made_of),
        rows=manifest.num_files,
        row_groups=manifest.num_row_groups,
        newest_by=layout.newest_by,
    )
    if manifest.segments:
        segments = [manifest.segments[at] for at in matching(layout, manifest.segments, pruning)]
        return replace(
            found,
            row_groups_pruned=found.row_groups - sum(segment.num_row_groups for segment in segments),
            segments=len(segments),
            segment_bytes=sum(segment.byte_length for segment in segments),
        )
    columns = wanted_columns(layout.schema, pruning, without)
    numbers = matching(layout, manifest.row_groups, pruning)
    groups = [pieces_of(manifest, manifest.row_groups[at], columns).pieces for at in numbers]
    return replace(
        found,
        row_groups_pruned=found.row_groups - len(groups),
        index=tuple(pieces[0] for pieces in groups),
        statistics=tuple(pieces[1] for pieces in groups) if columns.has_statistics else (),
    )


def sidecar_facts(layout: SidecarLayout, pruning: Pruning | None) -> BaseFacts:
    """What a metadata sidecar has; with a predicate, the files of row groups that may hold one that matches."""
    manifest = layout.manifest
    totals = manifest.totals or Totals(None, None, None, None)
    rows, size = _range(totals.rows), _range(totals.bytes)
    if pruning is None:
        counts = Counts(Range.exactly(manifest.num_files), rows, size)
    else:
        groups = manifest.segments or manifest.row_groups
        files = sum(groups.num_rows[at] for at in matching(layout, groups, pruning))
        counts = Counts(Range.exactly(files), Range(0, rows.upper), Range(0, size.upper))
    return BaseFacts(counts.tidy(), totals.largest, totals.most_rows)


def _range(number: int | None) -> Range:
    return Range() if number is None else Range.exactly(number)
