"""What a metadata sidecar is made of, how much of it is read and how many files it has, by its manifest alone."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from delta_sidecar.replay.base_summary import BaseSummary
from delta_sidecar.replay.footer_facts import BaseFacts
from delta_sidecar.replay.ranges import Counts, Range
from delta_sidecar.replay.sidecar_course import pieces_of
from delta_sidecar.replay.sidecar_groups import matching
from delta_sidecar.replay.sidecar_rows import wanted_columns
from delta_sidecar.sidecar.manifest import Totals

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
