"""The ladder: how much of the design a scan uses, level by level. Each adds one thing, and all give the same files.

It is there to measure what each of them is worth, on a table of one's own too.
"""

from __future__ import annotations

from msgspec import Struct
from msgspec.structs import replace


class Level(Struct, frozen=True):
    """What a scan uses; by default as little as it can."""

    words: str = "everything is collected before the first file is given"
    collected: bool = True  # whether all files are in memory before the first is given
    commits_at_once: int | None = 1  # how many commits are fetched together; None for what is asked for
    sidecars: bool = False  # whether metadata sidecars are used
    manifests: bool = False  # whether by their manifests, or only by their footers
    projection: bool = False  # whether only those columns are read that are wanted
    pruning: bool = False  # whether only those row groups are read that may hold a file that matches
    early_end: bool = False  # whether a scan with a limit ends once it has enough


def _ladder() -> tuple[Level, ...]:
    levels = [Level()]
    for words, added in (
        ("files are streamed, out of the checkpoint", {"collected": False}),
        ("commits are fetched together", {"commits_at_once": None}),
        ("metadata sidecars, found by their footers", {"sidecars": True}),
        ("their manifests", {"manifests": True}),
        ("only the columns that are wanted", {"projection": True}),
        ("only the row groups that may match", {"pruning": True}),
        ("a limit ends the scan", {"early_end": True}),
    ):
        levels.append(replace(levels[-1], words=words, **added))
    return tuple(levels)


LEVELS = _ladder()
"""From 0 to 7. The last is a scan as it is without a level."""
