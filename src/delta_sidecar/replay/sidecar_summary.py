"""What a metadata sidecar is made of, how much of it is read and how many files it has, by its manifest alone."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from delta_sidecar.log.names import SIDECAR_FOLDER
from delta_sidecar.replay.base_summary import BaseSummary, PieceRange
from delta_sidecar.replay.footer_facts import BaseFacts
from delta_sidecar.replay.ranges import Counts, Range
from delta_sidecar.replay.sidecar_groups import may_hold
from delta_sidecar.replay.sidecar_rows import wanted_columns

if TYPE_CHECKING:
    from delta_sidecar.replay.bases import Base
    from delta_sidecar.replay.pruning import Pruning
    from delta_sidecar.replay.sidecar_layout import SidecarLayout


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
    segments_file = manifest.segments_file
    size = sum(file.size for file in manifest.files) + (0 if segments_file is None else segments_file.size)
    made_of = len(manifest.files) + (segments_file is not None)
    total, rows = manifest.num_row_groups, manifest.num_files
    if manifest.segments:
        matching = [manifest.segments[at] for at in _matching(layout, pruning)]
        pruned = total - sum(segment.num_row_groups for segment in matching)
        return BaseSummary(
            base.name,
            base.version,
            base.tier,
            made_of,
            size,
            rows,
            total,
            row_groups_pruned=pruned,
            segments=len(matching),
            segment_bytes=sum(segment.byte_length for segment in matching),
        )
    groups = [manifest.row_groups[at] for at in _matching(layout, pruning)]
    paths = [SIDECAR_FOLDER + file.name for file in manifest.files]
    index = tuple(
        PieceRange(paths[group.file], group.byte_offset, group.byte_offset + group.byte_length) for group in groups
    )
    statistics = tuple(
        PieceRange(paths[group.file], group.stats_offset, group.stats_offset + group.stats_length) for group in groups
    )
    has_statistics = wanted_columns(layout.schema, pruning, without).has_statistics
    return BaseSummary(
        base.name,
        base.version,
        base.tier,
        made_of,
        size,
        rows,
        total,
        row_groups_pruned=total - len(groups),
        index=index,
        statistics=statistics if has_statistics else (),
    )


def sidecar_facts(layout: SidecarLayout, pruning: Pruning | None) -> BaseFacts:
    """How many files a metadata sidecar has; with a predicate, in the row groups that may hold one that matches."""
    manifest = layout.manifest
    if pruning is None:
        return BaseFacts(Counts(Range.exactly(manifest.num_files)).tidy(), None, None)
    rows = (manifest.segments or manifest.row_groups).num_rows
    files = sum(rows[at] for at in _matching(layout, pruning))
    return BaseFacts(Counts(Range.exactly(files)).tidy(), None, None)


def _matching(layout: SidecarLayout, pruning: Pruning | None) -> list[int]:
    """Numbers of the segments, or else of the row groups, that may hold a file that matches."""
    manifest = layout.manifest
    found: list[int] = np.flatnonzero(may_hold(layout, manifest.segments or manifest.row_groups, pruning)).tolist()
    return found
