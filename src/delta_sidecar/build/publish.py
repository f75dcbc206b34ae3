"""Making a finished sidecar visible: the data file first, the manifest last.

Data files are never overwritten. One that is there under the same name is either the same, to the byte, and serves; or
another one, and then this build takes a name of its own. So a build that is cut off anywhere leaves the old answer, two
builds at once give one good sidecar, and the next build finishes what is missing.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any, NamedTuple

from msgspec.structs import replace

from delta_sidecar._arrow import xxh3_128
from delta_sidecar.build.write import unwritable, write_footer
from delta_sidecar.errors import (
    ObjectExistsError,
    ObjectNotFoundError,
    ObjectTruncatedError,
    SidecarError,
    StorageError,
)
from delta_sidecar.log.names import SIDECAR_FOLDER, manifest_name, part_name, segments_name
from delta_sidecar.replay.bases.sidecar import VersionProof
from delta_sidecar.sidecar.groups import LARGEST_DOCUMENT, RowGroup, RowGroups, Segment, SummaryBounds
from delta_sidecar.sidecar.manifest import (
    MOST_ROW_GROUPS,
    NEWEST_ROW_GROUPS,
    SEGMENT_ROW_GROUPS,
    Manifest,
    SidecarFile,
    decode_manifest,
    decode_segment,
    encode_body_for_footer,
    encode_groups,
    encode_manifest,
    with_row_groups,
)
from delta_sidecar.sidecar.order import bound_scalar, comparable, partition_scalar
from delta_sidecar.sidecar.schema import column_name

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path

    import pyarrow as pa

    from delta_sidecar.build.write import Pieces
    from delta_sidecar.sidecar.groups import JsonScalar
    from delta_sidecar.sidecar.layout import PlannedLayout
    from delta_sidecar.store import Store


_COMPARED_AT_ONCE = 8 << 20
_BUILD_LENGTH = 16
_MOST_ATTEMPTS = 100


@dataclass(frozen=True, slots=True)
class Levels:
    """Most row groups of a manifest without segments, of a segment, and of a manifest with segments."""

    most_row_groups: int = MOST_ROW_GROUPS
    groups_per_segment: int = SEGMENT_ROW_GROUPS
    newest_row_groups: int = NEWEST_ROW_GROUPS


def publish_manifest(store: Store, manifest: Manifest) -> tuple[Manifest, int]:
    """Puts a manifest into the table whose files are there already; returns it and its size."""
    data = encode_manifest(manifest)
    path = SIDECAR_FOLDER + manifest_name(manifest.version)
    try:
        store.put(path, data)
    except ObjectExistsError:
        if bytes(store.get(path).data) != data:
            store.put(path, data, overwrite=True)
    return manifest, len(data)


def put_row_groups(
    store: Store, folder: Path, body: Manifest, groups: RowGroups, layout: PlannedLayout, levels: Levels
) -> Manifest:
    """A manifest with its row groups. Where they are many the older ones are put into the table, as segments.

    A temporary file may be put into `folder`.
    """
    whole = with_row_groups(body, groups)
    older = groups[: -levels.newest_row_groups]
    is_small = len(groups) <= levels.most_row_groups and len(encode_manifest(whole)) <= LARGEST_DOCUMENT
    if is_small or not older:
        return whole
    path = folder / "segments.json"
    found = []
    try:
        with path.open("wb") as file:
            for segment, data in segmented(older, layout, levels.groups_per_segment, len(body.files)):
                file.write(data)
                found.append(segment)
    except OSError as error:
        raise unwritable(folder, error) from error
    build = _build_name("".join(segment.digest for segment in found).encode())
    others = (_build_name(f"{build} {attempt}".encode()) for attempt in range(_MOST_ATTEMPTS))
    for name in (segments_name(body.version, each) for each in (None, build, *others)):
        if _is_put(store, name, path):
            put = SidecarFile(name, path.stat().st_size)
            listed = replace(body, other_files=(*body.other_files, put))
            return with_row_groups(listed, groups[len(older) :], tuple(found))
    msg = f"{store.url} has too many damaged segments of version {body.version}: vacuum them"
    raise StorageError(msg)


def put_data(store: Store, pieces: Pieces, layout: PlannedLayout, body: Manifest) -> Manifest:
    """Puts the data file under the first name that is free, or that holds the same bytes.

    Returns the manifest with its name and its size; `body` names it as a first build does.
    """
    for name in _data_names(body):
        named = replace(body, sidecar_file=name)
        size = write_footer(pieces, layout, encode_body_for_footer(named))
        if _is_put(store, name, pieces.path):
            return replace(named, sidecar_size_bytes=size)
    msg = f"{store.url} has too many damaged metadata sidecars of version {body.version}: vacuum them"
    raise StorageError(msg)


def _data_names(body: Manifest) -> Iterator[str]:
    yield body.sidecar_file
    build = _build_name(encode_body_for_footer(body))
    for attempt in range(_MOST_ATTEMPTS):
        yield part_name(body.version, build, 0, attempt)


def _build_name(content: bytes) -> str:
    return xxh3_128(content)[:_BUILD_LENGTH]


def _is_put(store: Store, name: str, source: Path) -> bool:
    """Puts a file; False where another one is there under its name."""
    path = SIDECAR_FOLDER + name
    # Looking first saves sending a large file for nothing.
    if (same := _is_same(store, path, source)) is not None:
        return same
    try:
        store.put_file(path, str(source))
    except ObjectExistsError:
        return bool(_is_same(store, path, source))
    return True


def _is_same(store: Store, path: str, source: Path) -> bool | None:
    """Compares an object with a file; None where there is no object."""
    try:
        size = store.head(path).size
        if size != source.stat().st_size:
            return False
        with source.open("rb") as file:
            for start in range(0, size, _COMPARED_AT_ONCE):
                end = min(size, start + _COMPARED_AT_ONCE)
                if memoryview(store.get_range(path, start, end)) != file.read(end - start):
                    return False
    except ObjectNotFoundError:
        return None
    return True


# The segments of a long list of row groups.


def segmented(groups: RowGroups, layout: PlannedLayout, most: int, file: int) -> Iterator[tuple[Segment, bytes]]:
    """Gathers row groups into segments of at most so many; yields each segment with its bytes in the segments file.

    Row groups of incomplete rows, which are in an order of their own, have segments of their own.
    """
    offset = 0
    for run in _runs(groups, most):
        data = encode_groups(run)
        low, high = _buckets(run, layout)
        segment = Segment(
            file=file,
            byte_offset=offset,
            byte_length=len(data),
            digest=xxh3_128(data),
            first_index=run[0].index,
            num_row_groups=len(run),
            num_rows=sum(group.num_rows for group in run),
            first_key=run[0].first_key,
            last_key=run[-1].last_key,
            event_hour_min=low,
            event_hour_max=high,
            null_buckets=sum(group.null_buckets for group in run),
            odd_buckets=sum(group.odd_buckets for group in run),
            columns=_bounds(run, layout),
        )
        offset += len(data)
        yield segment, data


def _runs(groups: RowGroups, most: int) -> Iterator[RowGroups]:
    start = 0
    for end in range(1, len(groups) + 1):
        if end == len(groups) or end - start == most or groups[end].first_key[0] != groups[start].first_key[0]:
            yield groups[start:end]
            start = end


def _buckets(run: Sequence[RowGroup], layout: PlannedLayout) -> tuple[str | None, str | None]:
    """Raw texts of the lowest and the highest bucket. Row groups of incomplete rows come first, with any buckets."""
    lows = [group.event_hour_min for group in run if group.event_hour_min is not None]
    highs = [group.event_hour_max for group in run if group.event_hour_max is not None]
    if not lows:
        return None, None
    kind = layout.order.sort[0].arrow_type

    def ordered(text: str) -> tuple[bool, Any]:
        return comparable(partition_scalar(text, kind))

    return min(lows, key=ordered), max(highs, key=ordered)


def _bounds(run: Sequence[RowGroup], layout: PlannedLayout) -> dict[str, SummaryBounds]:
    found = {}
    for path, kind in layout.order.summaries.items():

        def ordered(bound: JsonScalar, kind: pa.DataType = kind) -> tuple[bool, Any]:
            return comparable(bound_scalar(bound, kind))

        bounds = [group.columns.get(column_name(path)) for group in run]
        if None not in bounds:
            low = min((each.min for each in bounds if each), key=ordered)
            found[column_name(path)] = SummaryBounds(low, max((each.max for each in bounds if each), key=ordered))
    return found


# A sidecar that is there already: is it the one that a build would make, and whole?


class BuiltSidecar(NamedTuple):
    """A sidecar that is in the table."""

    manifest: Manifest
    manifest_bytes: int
    groups: Sequence[RowGroup]  # those of segments as well
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


def find_existing(
    store: Store,
    facts: Manifest,
    rows_per_group: int,
    levels: Levels,
    check: Callable[[Iterator[PieceRange], int], None],
) -> BuiltSidecar | None:
    """Finds a good sidecar of the same version and layout as in `facts`; None where there is none.

    `check` reads all pieces, which have so many bytes in all, and raises as `PieceRange.check` does. That is much
    cheaper than to build them: after a scan that found a sidecar damaged, a build must not answer that there is nothing
    to do.
    """
    try:
        fetched = store.get(SIDECAR_FOLDER + manifest_name(facts.version), max_bytes=LARGEST_DOCUMENT + 1)
        manifest = decode_manifest(bytes(fetched.data), version=facts.version)
        VersionProof(facts.commit, facts.witness).check(manifest)
        if manifest.totals is None or any(getattr(manifest, name) != getattr(facts, name) for name in _LAYOUT):
            return None
        if not manifest.segments and manifest.num_row_groups > max(levels.most_row_groups, levels.newest_row_groups):
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
    return BuiltSidecar(manifest, fetched.size, groups, None)


_LAYOUT = ("schema_hash", "protocol", "metadata", "bucket_column", "time_column", "sort", "summaries", "statistics")


def _row_groups(store: Store, manifest: Manifest) -> RowGroups:
    found: list[RowGroup] = []
    for segment in manifest.segments:
        path, start = SIDECAR_FOLDER + manifest.files[segment.file].name, segment.byte_offset
        data = bytes(store.get_range(path, start, start + segment.byte_length))
        found += decode_segment(data, segment, manifest)
    return (*found, *manifest.row_groups)


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
