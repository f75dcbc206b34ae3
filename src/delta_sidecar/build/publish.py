"""Making a finished sidecar visible: the data file first, the manifest last.

Data files are never overwritten. One that is there under the same name is either the same, to the byte, and serves; or
another one, and then this build takes a name of its own. So a build that is cut off anywhere leaves the old answer, two
builds at once give one good sidecar, and the next build finishes what is missing.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from delta_sidecar._arrow import xxh3_128
from delta_sidecar.build.write import unwritable, write_footer
from delta_sidecar.errors import ObjectExistsError, ObjectNotFoundError, StorageError
from delta_sidecar.log.names import SIDECAR_FOLDER
from delta_sidecar.sidecar.groups import RowGroup, RowGroups, Segment, Segments, SummaryBounds
from delta_sidecar.sidecar.manifest import (
    LARGEST_DOCUMENT,
    MOST_ROW_GROUPS,
    SEGMENT_ROW_GROUPS,
    SidecarFile,
    encode_body_for_footer,
    encode_manifest,
    encode_segment,
)
from delta_sidecar.sidecar.names import column_name, manifest_name, part_name, segments_name, sidecar_name
from delta_sidecar.sidecar.order import bound_scalar, comparable, partition_scalar

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    import pyarrow as pa

    from delta_sidecar.build.planned_layout import PlannedLayout
    from delta_sidecar.build.write import Pieces
    from delta_sidecar.sidecar.groups import JsonScalar
    from delta_sidecar.sidecar.manifest import Manifest
    from delta_sidecar.store import Store


_COMPARED_AT_ONCE = 8 << 20
_BUILD_LENGTH = 16
_MOST_ATTEMPTS = 100


@dataclass(frozen=True, slots=True)
class Levels:
    """When a manifest gets a second level, and how large its segments are."""

    most_row_groups: int = MOST_ROW_GROUPS
    groups_per_segment: int = SEGMENT_ROW_GROUPS


def publish(
    store: Store, pieces: Pieces, layout: PlannedLayout, facts: Manifest, levels: Levels
) -> tuple[Manifest, int]:
    """Puts a sidecar of one data file into the table; returns its manifest and the size of that.

    `facts` is the manifest without files, row groups and segments.
    """
    body = _with_groups(store, pieces.path.parent, pieces.groups, layout, facts, levels)
    return publish_manifest(store, _put_data(store, pieces, layout, body))


def publish_parts(
    store: Store, folder: Path, groups: Sequence[RowGroup], layout: PlannedLayout, facts: Manifest, levels: Levels
) -> tuple[Manifest, int]:
    """Makes a sidecar visible whose parts are in the table already; returns its manifest and the size of that.

    `groups` are those of all parts, in order; `facts` is the manifest without row groups and segments. A temporary file
    may be put into `folder`.
    """
    return publish_manifest(store, _with_groups(store, folder, groups, layout, facts, levels))


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


def _with_groups(
    store: Store, folder: Path, groups: Sequence[RowGroup], layout: PlannedLayout, facts: Manifest, levels: Levels
) -> Manifest:
    body = replace(facts, row_groups=RowGroups(groups))
    if len(groups) <= levels.most_row_groups and len(encode_manifest(body)) <= LARGEST_DOCUMENT:
        return body
    path = folder / "segments.json"
    found = []
    try:
        with path.open("wb") as file:
            for segment, data in segmented(groups, layout, levels.groups_per_segment):
                file.write(data)
                found.append(segment)
    except OSError as error:
        raise unwritable(folder, error) from error
    build = xxh3_128("".join(segment.digest for segment in found).encode())[:_BUILD_LENGTH]
    builds = (
        None,
        build,
        *(xxh3_128(f"{build} {attempt}".encode())[:_BUILD_LENGTH] for attempt in range(_MOST_ATTEMPTS)),
    )
    size = path.stat().st_size
    for name in (segments_name(body.version, each) for each in builds):
        if _is_put(store, name, path):
            put = SidecarFile(name, size)
            return replace(body, row_groups=RowGroups(), segments=Segments(found), segments_file=put)
    msg = f"{store.url} has too many damaged segments of version {body.version}: vacuum them"
    raise StorageError(msg)


def _put_data(store: Store, pieces: Pieces, layout: PlannedLayout, body: Manifest) -> Manifest:
    """Puts the data file under the first name that is free, or that holds the same bytes."""
    for name in _names(body):
        named = replace(body, files=(SidecarFile(name, 0),))
        size = write_footer(pieces, layout, encode_body_for_footer(named).decode())
        if _is_put(store, name, pieces.path):
            return replace(body, files=(SidecarFile(name, size),))
    msg = f"{store.url} has too many damaged metadata sidecars of version {body.version}: vacuum them"
    raise StorageError(msg)


def _names(body: Manifest) -> Iterator[str]:
    plain = sidecar_name(body.version)
    yield plain
    build = xxh3_128(encode_body_for_footer(replace(body, files=(SidecarFile(plain, 0),))))[:_BUILD_LENGTH]
    for attempt in range(_MOST_ATTEMPTS):
        yield part_name(body.version, build, 0, attempt)


def _is_put(store: Store, name: str, source: Path) -> bool:
    """Puts a file; False where another one is there under its name."""
    path = SIDECAR_FOLDER + name
    # Looking first saves sending a large file for nothing.
    same = _is_same(store, path, source)
    if same is None:
        try:
            store.put_file(path, str(source))
            same = True
        except ObjectExistsError:
            same = _is_same(store, path, source)
    return bool(same)


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


# The second level of a large manifest: row groups gathered into segments.


def segmented(groups: Sequence[RowGroup], layout: PlannedLayout, each: int) -> Iterator[tuple[Segment, bytes]]:
    """Gathers row groups into segments of so many; yields each segment with its bytes in the segments file."""
    offset = 0
    for start in range(0, len(groups), each):
        run = groups[start : start + each]
        data = encode_segment(run)
        low, high = _buckets(run, layout)
        segment = Segment(
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
