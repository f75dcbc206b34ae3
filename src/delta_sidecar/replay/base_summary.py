"""What a base is made of and what is read of it, told before a file entry of it is."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from delta_sidecar.plan import Piece


@dataclass(frozen=True, slots=True)
class BaseSummary:
    """What a base is made of.

    Attributes:
        name: Its file name; empty for the start of the log.
        version: Its version; -1 for the start of the log.
        tier: How good a base it is.
        files: Files that it is made of.
        bytes: Their size by the listing.
        rows: Rows in them.
        row_groups: Row groups in them.
        row_groups_without_files: Those that hold no file entry and are not read.
        row_groups_pruned: Those that a manifest says cannot hold a file that matches; they are not read either.
        index: Pieces of indexes that are read, in the order of the file; empty where a base has none.
        statistics: Pieces of statistics that are read, in the order of the file.
        segments: Parts of a large manifest that are read first; where there are any, pieces are not known before.
        segment_bytes: Their size.
        newest_by: What its files are in order of time by, in words; empty where they are in no order of time.
    """

    name: str = ""
    version: int = -1
    tier: int = 3
    files: int = 0
    bytes: int = 0
    rows: int = 0
    row_groups: int = 0
    row_groups_without_files: int = 0
    row_groups_pruned: int = 0
    index: tuple[Piece, ...] = field(default=(), repr=False)
    statistics: tuple[Piece, ...] = field(default=(), repr=False)
    segments: int = 0
    segment_bytes: int = 0
    newest_by: tuple[str, ...] = ()

    @property
    def row_groups_left(self) -> int:
        """Those that are read, at most."""
        return self.row_groups - self.row_groups_without_files - self.row_groups_pruned


START_OF_LOG = BaseSummary()
"""What there is before version 0."""
