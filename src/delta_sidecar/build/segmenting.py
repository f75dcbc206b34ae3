"""The second level of a large manifest: row groups gathered into segments."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow.compute as pc

from delta_sidecar._digest import xxh3_128
from delta_sidecar.sidecar.groups import Bounds, RowGroup, Segment
from delta_sidecar.sidecar.keys import bound_scalar, partition_scalar
from delta_sidecar.sidecar.names import column_name
from delta_sidecar.sidecar.segments import SEGMENT_ROW_GROUPS, encode_segment

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import pyarrow as pa

    from delta_sidecar.build.layout import PlannedLayout


def segmented(
    groups: Sequence[RowGroup], layout: PlannedLayout, groups_per_segment: int = SEGMENT_ROW_GROUPS
) -> Iterator[tuple[Segment, bytes]]:
    """Gathers row groups into segments, one at a time.

    Args:
        groups: The row groups in order.
        layout: The layout of the sidecar.
        groups_per_segment: How many row groups a segment has; the last one may have fewer.

    Yields:
        What the manifest tells of a segment, and its bytes in the segments file.
    """
    offset = 0
    for start in range(0, len(groups), groups_per_segment):
        run = groups[start : start + groups_per_segment]
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
    """Raw texts of the lowest and the highest bucket. Row groups with incomplete rows come first, whatever theirs."""
    lows = [group.event_hour_min for group in run if group.event_hour_min is not None]
    highs = [group.event_hour_max for group in run if group.event_hour_max is not None]
    if not lows:
        return None, None
    kind = layout.order.sort[0].type
    low = _lowest([partition_scalar(text, kind) for text in lows])
    return lows[low], highs[_highest([partition_scalar(text, kind) for text in highs])]


def _bounds(run: Sequence[RowGroup], layout: PlannedLayout) -> dict[str, Bounds]:
    found = {}
    for path, kind in layout.order.summaries.items():
        name = column_name(path)
        bounds = [group.columns[name] for group in run if name in group.columns]
        if len(bounds) == len(run):
            low = _lowest([bound_scalar(each.min, kind) for each in bounds])
            high = _highest([bound_scalar(each.max, kind) for each in bounds])
            found[name] = Bounds(bounds[low].min, bounds[high].max)
    return found


def _lowest(values: Sequence[pa.Scalar]) -> int:
    place = 0
    for number, value in enumerate(values):
        if pc.less(value, values[place]).as_py():
            place = number
    return place


def _highest(values: Sequence[pa.Scalar]) -> int:
    place = 0
    for number, value in enumerate(values):
        if pc.greater(value, values[place]).as_py():
            place = number
    return place
