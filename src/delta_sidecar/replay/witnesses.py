"""What proves that a metadata sidecar is of the history that is there.

A table that was made anew, restored from a backup or forked has other commits under the same names, and mostly the
same `metaData.id`. So version N of a metadata sidecar is proven by commit N. Where that has been cleaned up, by a
witness: a checkpoint of version N or `{N}.crc`, which must be what it was when the sidecar was built.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from delta_sidecar._arrow import xxh3_128, xxh3_128_of
from delta_sidecar.errors import SidecarError
from delta_sidecar.log.names import LOG_FOLDER, checksum_path, commit_path
from delta_sidecar.plan import FileRef
from delta_sidecar.sidecar.manifest import CommitMark, Witness

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    import pyarrow as pa

    from delta_sidecar.log.segment import CheckpointFiles, LogSegment
    from delta_sidecar.sidecar.manifest import Manifest

_MOST_FILES = 32
# Totals of two histories can be equal; the id of a transaction is of one commit alone.
_TRANSACTION = re.compile(rb'"txnId"\s*:\s*"[^"]+"')


@dataclass(frozen=True, slots=True)
class VersionProof:
    """What is there of a version: its commit and its witnesses.

    Attributes:
        commit: The commit; None where it is not there.
        witnesses: The checkpoints and the checksum file, as far as they were asked for.
    """

    commit: CommitMark | None
    witnesses: tuple[Witness, ...] = ()

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
    """The files of a log that prove a version.

    Attributes:
        version: The version.
        has_commit: Whether its commit is listed.
        has_checksum: Whether a checksum file of it is listed.
        checkpoints: Its complete checkpoints, but for those of very many files.
    """

    version: int
    has_commit: bool
    has_checksum: bool
    checkpoints: tuple[CheckpointFiles, ...] = field(default=(), repr=False)

    @classmethod
    def of(cls, segment: LogSegment, version: int) -> ProofFiles:
        """Takes them from a listing."""
        checkpoints = [found for found in segment.checkpoints if found.version == version]
        few = tuple(
            found for found in checkpoints if len(found.files) <= _MOST_FILES and all(file.size for file in found.files)
        )
        return cls(version, version in segment.commits, version in segment.checksums, few)

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
                found.append(Witness(checkpoint.name, sum(size for size, _ in parts), xxh3_128_of(tails)))
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
