"""What an inspection found of metadata sidecars, as values."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class SidecarReport:
    """The metadata sidecar that scans end on, by its manifest.

    Attributes:
        name: The file that is read first: its manifest, or the metadata sidecar itself where that is missing.
        version: The version whose state it holds.
        tier: 1 with a manifest, 2 without.
        files: Live files that it has rows of.
        row_groups: Its row groups.
        data_files: Files that it is made of, its manifest not counted.
        bytes: Their size.
        commits: Commits after it.
        sorted_by: What its rows are sorted by: columns, or nothing for their paths.
        time_column: The column whose bounds are kept beside the paths; None without one.
        statistics: How many columns it has statistics of.
        missing_columns: Columns that the table has statistics of and this has not.
        lacks_bucket: Whether it was built without the table's time bucket.
    """

    name: str
    version: int
    tier: int
    files: int
    row_groups: int
    data_files: int
    bytes: int
    commits: int
    sorted_by: tuple[str, ...]
    time_column: str | None
    statistics: int
    missing_columns: tuple[str, ...] = ()
    lacks_bucket: bool = False


@dataclass(frozen=True, slots=True)
class UnusableSidecar:
    """A metadata sidecar that cannot be trusted; `code` and `reason` are those of the event `base_passed_over`."""

    name: str
    version: int
    code: str
    reason: str


@dataclass(frozen=True, slots=True)
class SidecarsReport:
    """The metadata sidecars of a log.

    Attributes:
        base: The one that scans end on; None where they end on a checkpoint.
        reason: Why that is not one with its manifest, in a word, as in the event `scan_ended`; None where it is.
        versions: Versions up to the inspected one that the listing shows one of, newest first: the newest twenty.
        files: Files of metadata sidecars in the log.
        bytes: Their size.
        unusable: Those that were tried and cannot be trusted.
        leftover_files: Files that are neither of the two newest nor young: a clean-up looks at them.
        leftover_bytes: Their size.
    """

    base: SidecarReport | None
    reason: str | None
    versions: tuple[int, ...] = ()
    files: int = 0
    bytes: int = 0
    unusable: tuple[UnusableSidecar, ...] = ()
    leftover_files: int = 0
    leftover_bytes: int = 0
