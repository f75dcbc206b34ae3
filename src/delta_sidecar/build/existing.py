"""A metadata sidecar that is there already: is it the one that a build would make, and whole?

Every byte of it is read, which is much cheaper than to build it: after a scan that found a sidecar damaged, a build
must not answer that there is nothing to do.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from delta_sidecar._arrow import xxh3_128
from delta_sidecar.errors import ObjectNotFoundError, ObjectTruncatedError, SidecarError
from delta_sidecar.log.names import SIDECAR_FOLDER
from delta_sidecar.replay.bases.sidecar import VersionProof
from delta_sidecar.sidecar.groups import RowGroups
from delta_sidecar.sidecar.manifest import LARGEST_DOCUMENT, Manifest, decode_manifest, decode_segment
from delta_sidecar.sidecar.names import manifest_name

if TYPE_CHECKING:
    from delta_sidecar.build.publish import Levels
    from delta_sidecar.store import Store


class BuiltSidecar(NamedTuple):
    """A sidecar that is in the table."""

    manifest: Manifest
    manifest_bytes: int
    index_bytes: int
    stats_bytes: int
    kept_texts: int | None  # files whose statistics had to be kept as text; None where it was there before the build


class PieceRange(NamedTuple):
    """A piece of a sidecar: its range in a file, and the digest that it must have."""

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
"""Reads all pieces of a sidecar, which have so many bytes in all; raises as `PieceRange.check` does."""


def check_here(store: Store, checked: Callable[[int, int], None], pieces: Iterator[PieceRange], total: int) -> None:
    """Reads pieces on this machine, one after another; `checked` is called with the bytes so far and in all."""
    done = 0
    for piece in pieces:
        piece.check(store)
        done += piece.end - piece.start
        checked(done, total)


def find_existing(
    store: Store, facts: Manifest, rows_per_group: int, levels: Levels, check: PieceCheck
) -> BuiltSidecar | None:
    """Finds a good sidecar of the same version and layout as in `facts`; None where there is none."""
    try:
        fetched = store.get(SIDECAR_FOLDER + manifest_name(facts.version), max_bytes=LARGEST_DOCUMENT + 1)
        manifest = decode_manifest(bytes(fetched.data), version=facts.version)
        is_flat = manifest.segments_file is None
        VersionProof(facts.commit, facts.witness).check(manifest)
        if not _is_laid_out_as(manifest, facts) or (is_flat and manifest.num_row_groups > levels.most_row_groups):
            return None
        for each in manifest.files:
            if store.head(SIDECAR_FOLDER + each.name).size != each.size:
                return None
        groups = _row_groups(store, manifest)
        if not _have_rows(groups, rows_per_group):
            return None
        check(_pieces(groups, manifest), sum(each.size for each in manifest.files))
    except (SidecarError, ObjectNotFoundError, ObjectTruncatedError):
        return None
    index_bytes = sum(group.byte_length for group in groups)
    return BuiltSidecar(manifest, fetched.size, index_bytes, sum(group.stats_length for group in groups), None)


_LAYOUT = ("schema_hash", "protocol", "metadata", "bucket_column", "time_column", "sort", "summaries", "statistics")


def _is_laid_out_as(manifest: Manifest, facts: Manifest) -> bool:
    return manifest.totals is not None and all(getattr(manifest, name) == getattr(facts, name) for name in _LAYOUT)


def _row_groups(store: Store, manifest: Manifest) -> RowGroups:
    if manifest.segments_file is None:
        return manifest.row_groups
    path = SIDECAR_FOLDER + manifest.segments_file.name
    return RowGroups(
        group
        for segment in manifest.segments
        for group in decode_segment(
            bytes(store.get_range(path, segment.byte_offset, segment.byte_offset + segment.byte_length)),
            segment,
            manifest,
        )
    )


def _have_rows(groups: RowGroups, rows_per_group: int) -> bool:
    """Tells whether row groups have a size. Only the last one of its kind in its file has fewer rows."""
    return all(group.num_rows <= rows_per_group for group in groups) and all(
        before.num_rows == rows_per_group
        for before, group in pairwise(groups)
        if before.file == group.file and before.last_key[0] == group.first_key[0]
    )


def _pieces(groups: RowGroups, manifest: Manifest) -> Iterator[PieceRange]:
    for group in groups:
        path = SIDECAR_FOLDER + manifest.files[group.file].name
        yield PieceRange(path, group.byte_offset, group.byte_offset + group.byte_length, group.digest)
        yield PieceRange(path, group.stats_offset, group.stats_offset + group.stats_length, group.stats_digest)
