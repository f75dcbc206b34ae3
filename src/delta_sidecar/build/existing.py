"""A metadata sidecar that is there already: whether it is the one that a build would make, and whole.

Every byte of it is read, which is much cheaper than to build it: who builds because a scan found a sidecar damaged must
not be told that there is nothing to do.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from delta_sidecar._arrow import xxh3_128
from delta_sidecar.build.publish import publish_manifest
from delta_sidecar.errors import ObjectNotFoundError, ObjectTruncatedError, SidecarError
from delta_sidecar.log.names import SIDECAR_FOLDER
from delta_sidecar.replay.witnesses import VersionProof
from delta_sidecar.sidecar.manifest import LARGEST_DOCUMENT, decode_manifest, decode_segment
from delta_sidecar.sidecar.names import manifest_name

if TYPE_CHECKING:
    from delta_sidecar.build.publish import Levels
    from delta_sidecar.sidecar.groups import RowGroup
    from delta_sidecar.sidecar.manifest import Manifest
    from delta_sidecar.store import Store


class Existing:
    """A sidecar that a build need not make again.

    Attributes:
        manifest: Its manifest.
        manifest_bytes: The manifest's size.
        index_bytes: Bytes of its index pieces.
        stats_bytes: Bytes of its statistics pieces.
    """

    def __init__(self, manifest: Manifest, manifest_bytes: int) -> None:
        self.manifest = manifest
        self.manifest_bytes = manifest_bytes
        self.index_bytes = self.stats_bytes = 0

    def renew(self, store: Store, proof: VersionProof) -> None:
        """Adds witnesses that were not there when it was built, such as a checkpoint that was made since."""
        if not set(proof.witnesses) <= set(self.manifest.witness):
            renewed = publish_manifest(store, replace(self.manifest, witness=proof.witnesses))
            self.manifest, self.manifest_bytes = renewed.manifest, renewed.manifest_bytes


class PieceRange(NamedTuple):
    """A piece of a sidecar, and the digest that it must have.

    Attributes:
        path: Its file.
        start: Its first byte.
        end: The byte after its last.
        digest: Its digest.
    """

    path: str
    start: int
    end: int
    digest: str

    def check(self, store: Store) -> None:
        """Reads the piece.

        Raises:
            SidecarError: It is not what the manifest says.
            ObjectNotFoundError: Its file is gone.
        """
        if xxh3_128(store.get_range(self.path, self.start, self.end)) != self.digest:
            msg = f"{self.path} is damaged"
            raise SidecarError(msg)


PieceCheck: TypeAlias = Callable[[Iterator[PieceRange], int], None]
"""Reads all pieces of a sidecar, of which the bytes in all are told; raises as `PieceRange.check` does."""


def check_here(store: Store, checked: Callable[[int, int], None], pieces: Iterator[PieceRange], total: int) -> None:
    """Reads pieces on this machine, one after another.

    Args:
        store: The table's store.
        checked: Is told how many bytes are checked, and of how many.
        pieces: The pieces.
        total: Bytes of all of them, about.
    """
    done = 0
    for piece in pieces:
        piece.check(store)
        done += piece.end - piece.start
        checked(done, total)


def find_existing(
    store: Store, facts: Manifest, rows_per_group: int, levels: Levels, check: PieceCheck
) -> Existing | None:
    """Finds a good sidecar of the same version that is laid out the same way; None where there is none.

    Args:
        store: The table's store.
        facts: What a build would put into the manifest, but for files and row groups.
        rows_per_group: Rows in a row group.
        levels: When a manifest gets a second level.
        check: Reads the pieces.
    """
    try:
        fetched = store.get(SIDECAR_FOLDER + manifest_name(facts.version), max_bytes=LARGEST_DOCUMENT + 1)
        manifest = decode_manifest(bytes(fetched.data), version=facts.version)
        is_flat = manifest.segments_file is None
        VersionProof(facts.commit, facts.witness).check(manifest)
        if not _is_laid_out_as(manifest, facts) or (is_flat and manifest.num_row_groups > levels.most_row_groups):
            return None
        found = Existing(manifest, fetched.size)
        for each in manifest.files:
            if store.head(SIDECAR_FOLDER + each.name).size != each.size:
                return None
        check(_pieces(store, found, rows_per_group), sum(each.size for each in manifest.files))
    except (SidecarError, ObjectNotFoundError, ObjectTruncatedError):
        return None
    return found


def _is_laid_out_as(manifest: Manifest, facts: Manifest) -> bool:
    same = (
        "schema_hash",
        "protocol",
        "metadata",
        "bucket_column",
        "time_column",
        "sort",
        "summaries",
        "statistics",
    )
    return manifest.totals is not None and all(getattr(manifest, name) == getattr(facts, name) for name in same)


def _pieces(store: Store, found: Existing, rows_per_group: int) -> Iterator[PieceRange]:
    """All pieces of a sidecar, whose bytes are counted on the way.

    Raises:
        SidecarError: A segment is not what the manifest says, or row groups have another size.
    """
    before: RowGroup | None = None
    for group in _groups(store, found.manifest):
        path = SIDECAR_FOLDER + found.manifest.files[group.file].name
        _check_size(before, group, rows_per_group)
        found.index_bytes += group.byte_length
        found.stats_bytes += group.stats_length
        yield PieceRange(path, group.byte_offset, group.byte_offset + group.byte_length, group.digest)
        yield PieceRange(path, group.stats_offset, group.stats_offset + group.stats_length, group.stats_digest)
        before = group


def _check_size(before: RowGroup | None, group: RowGroup, rows_per_group: int) -> None:
    """Only the last row group of its kind in its file has fewer rows."""
    is_next = before is not None and before.file == group.file and before.last_key[0] == group.first_key[0]
    if group.num_rows > rows_per_group or (is_next and before is not None and before.num_rows < rows_per_group):
        msg = "its row groups have another size"
        raise SidecarError(msg)


def _groups(store: Store, manifest: Manifest) -> Iterator[RowGroup]:
    if manifest.segments_file is None:
        yield from manifest.row_groups
        return
    path = SIDECAR_FOLDER + manifest.segments_file.name
    for segment in manifest.segments:
        data = store.get_range(path, segment.byte_offset, segment.byte_offset + segment.byte_length)
        yield from decode_segment(bytes(data), segment, manifest)
