"""Metadata sidecars as a base.

    trust:   ManifestPhase, or FooterPhase -> ProofPhase without a manifest
    replay:  MetadataSidecarPhase...   (see `sidecar_scan`)

A metadata sidecar is used only if its manifest is whole, is proven to be of the history that is there (see
`witnesses`) and speaks of files that are there.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, TypeVar

from delta_sidecar.errors import DeltaSidecarError, SidecarError
from delta_sidecar.log.actions import Metadata, Protocol
from delta_sidecar.log.names import SIDECAR_FOLDER
from delta_sidecar.log.schema import read_schema
from delta_sidecar.plan import Consume, ConsumePhase, FileRef, ReadFiles, ReadKeyValue, Terminus
from delta_sidecar.replay.bases import Base, TrustContinuation
from delta_sidecar.replay.checkpoint import is_torn
from delta_sidecar.replay.failures import raise_unreachable
from delta_sidecar.replay.pruning import bind_predicate
from delta_sidecar.replay.sidecar_layout import SidecarLayout
from delta_sidecar.replay.sidecar_scan import first_pieces, replay_sidecar
from delta_sidecar.replay.sidecar_summary import sidecar_facts, sidecar_summary
from delta_sidecar.replay.witnesses import ProofFiles, by_path
from delta_sidecar.sidecar.canonical import LARGEST_DOCUMENT
from delta_sidecar.sidecar.manifest import (
    FOOTER_KEY,
    Manifest,
    decode_footer_body,
    decode_manifest,
)
from delta_sidecar.sidecar.names import sidecar_name

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    import pyarrow as pa

    from delta_sidecar.log.segment import ListedFile, LogSegment
    from delta_sidecar.plan import Piece, StateMachinePhase
    from delta_sidecar.replay.base_summary import BaseSummary
    from delta_sidecar.replay.bases import Reading, ReplayContinuation, Wanted
    from delta_sidecar.replay.footer_facts import BaseFacts
    from delta_sidecar.replay.listed_sidecars import ListedSidecar
    from delta_sidecar.replay.pruning import Pruning

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
