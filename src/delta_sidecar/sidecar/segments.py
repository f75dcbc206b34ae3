"""The second level of a large manifest: row groups in segments, each a range of `v{N}.segments.json` with a digest.

The manifest then tells of each segment what it would tell of each row group, so that only the segments that can match
are fetched.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from delta_sidecar._digest import xxh3_128
from delta_sidecar.errors import SidecarError
from delta_sidecar.sidecar.canonical import canonical, parse
from delta_sidecar.sidecar.group_reading import read_row_groups
from delta_sidecar.sidecar.groups import RowGroup, RowGroups, Segment, group_json

if TYPE_CHECKING:
    from collections.abc import Iterable

    from delta_sidecar.sidecar.manifest import Manifest

SEGMENT_ROW_GROUPS = 1_000
"""How many row groups a segment has, but for the last one."""


def encode_segment(groups: Iterable[RowGroup]) -> bytes:
    """Writes the row groups of one segment: a JSON array. Segments stand in their file one after another."""
    return canonical([group_json(group) for group in groups])


def decode_segment(data: bytes, segment: Segment, manifest: Manifest) -> RowGroups:
    """Reads the row groups of one segment.

    Args:
        data: The bytes of its range.
        segment: What the manifest tells of it.
        manifest: The manifest.

    Raises:
        SidecarError: The bytes are not what the manifest says.
    """
    if len(data) != segment.byte_length or xxh3_128(data) != segment.digest:
        msg = f"the segment of row group {segment.first_index} does not have its digest"
        raise SidecarError(msg)
    groups = read_row_groups(
        parse(data),
        first_index=segment.first_index,
        sizes=[each.size for each in manifest.files],
        form=manifest.key_form(),
    )
    found = (len(groups), sum(groups.num_rows), sum(groups.null_buckets), sum(groups.odd_buckets))
    told = (segment.num_row_groups, segment.num_rows, segment.null_buckets, segment.odd_buckets)
    if found != told or (groups[0].first_key, groups[-1].last_key) != (segment.first_key, segment.last_key):
        msg = f"the segment of row group {segment.first_index} is not what the manifest says"
        raise SidecarError(msg)
    return groups
