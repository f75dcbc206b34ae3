"""What a scan comes to, as far as that is known before a file entry is read."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING

from delta_sidecar.store.ranges import CLOSE, merge

if TYPE_CHECKING:
    from collections.abc import Sequence

    from delta_sidecar.plan import Piece
    from delta_sidecar.replay.base_summary import BaseSummary
    from delta_sidecar.store import RequestCounts


@dataclass(frozen=True, slots=True)
class Expectation:
    """What a scan comes to, opening the table included, as far as that is known before a file entry is read.

    Attributes:
        row_groups_at_most: Row groups of the base that are read.
        bytes_at_most: Bytes that are moved.
        requests_about: Requests to the store, if it comes to its end; an estimate, which may be off either way.
        trips_about: Round trips, one after another, in the same way.
    """

    row_groups_at_most: int
    bytes_at_most: int
    requests_about: int
    trips_about: int


def expect(
    base: BaseSummary, commit_bytes: int, opening: RequestCounts, *, at_once: int, in_order: bool
) -> Expectation:
    """What a scan comes to.

    Args:
        base: The base that it ends on.
        commit_bytes: Size of the commits after it.
        opening: What it took to open the table and look at the base.
        at_once: How many row groups of a metadata sidecar are fetched together.
        in_order: Whether the base is read in its own order.
    """
    groups = base.row_groups_left
    size, requests, trips = base.bytes, groups, int(groups > 0)
    if base.index:
        size = _bytes_at_most(base, at_once, in_order=in_order)
        requests = _requests(base, at_once)
    elif base.segments:
        # Where the pieces are is told by the segments; those of one segment are read before the next one.
        batches = _batches(groups, at_once)
        size = base.bytes + base.segment_bytes + batches * CLOSE
        requests, trips = base.segments + 2 * batches, 2 * base.segments
    elif not groups:
        size = 0
    return Expectation(
        row_groups_at_most=groups,
        bytes_at_most=opening.bytes + commit_bytes + size,
        requests_about=opening.requests + requests,
        trips_about=opening.trips + trips,
    )


def _bytes_at_most(base: BaseSummary, at_once: int, *, in_order: bool) -> int:
    """Bytes of pieces, and of the gaps between close ones, which are read over."""
    size = sum(piece.length for piece in (*base.index, *base.statistics))
    by_file: dict[str, tuple[list[Piece], list[Piece]]] = defaultdict(lambda: ([], []))
    for kind, pieces in enumerate((base.index, base.statistics)):
        for piece in pieces:
            by_file[piece.path][kind].append(piece)
    for index, statistics in by_file.values():
        between = min((piece.offset for piece in statistics), default=0) - max(
            piece.offset + piece.length for piece in index
        )
        is_regular = in_order and (not statistics or between >= 0)
        if is_regular:
            # What is fetched together lies together, apart from the step from an index to its statistics.
            size += _gaps(index) + _gaps(statistics)
            size += _batches(len(index), at_once) * CLOSE if statistics and between <= CLOSE else 0
        else:
            size += (len(index) + len(statistics) - 1) * CLOSE
    # Whatever is fetched together is no more than the files have.
    return min(size, (_batches(len(base.index), at_once) if in_order else len(base.index)) * base.bytes)


def _gaps(pieces: Sequence[Piece]) -> int:
    gaps = (after.offset - before.end for before, after in pairwise(pieces))
    return sum(gap for gap in gaps if 0 < gap <= CLOSE)


def _requests(base: BaseSummary, at_once: int) -> int:
    requests = 0
    for first in range(0, len(base.index), at_once):
        together = (*base.index[first : first + at_once], *base.statistics[first : first + at_once])
        for path in {piece.path for piece in together}:
            requests += len(merge([(piece.offset, piece.end) for piece in together if piece.path == path]))
    return requests


def _batches(groups: int, at_once: int) -> int:
    """How often row groups are fetched together, at most: the first time it may be only some of them."""
    return 0 if not groups else 1 + -(-groups // at_once)
