"""The report of an inspection, as values; `TableReport.as_dict` is its JSON."""

from __future__ import annotations

from dataclasses import dataclass, fields, is_dataclass
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from delta_sidecar.replay.estimate import Range

if TYPE_CHECKING:
    from collections.abc import Mapping

    from delta_sidecar.scan.estimate import ScanEstimate


Severity: TypeAlias = Literal["info", "warning", "problem"]
SEVERITIES: tuple[Severity, ...] = ("info", "warning", "problem")
"""From the least to the gravest."""

CheckpointKind: TypeAlias = Literal["classic", "multi-part", "V2"]
HintState: TypeAlias = Literal["current", "stale", "dangling", "corrupt", "missing"]


@dataclass(frozen=True, slots=True)
class Finding:
    """Something that is worth to know of a table."""

    code: str  # a short name that stays the same
    severity: Severity  # `info`, `warning` for what slows readers down, `problem` for what stops them
    message: str  # what it is
    advice: str  # what to do about it


@dataclass(frozen=True, slots=True)
class ProtocolReport:
    """The demands on readers and writers; `unsupported` are the reader features that this one lacks."""

    min_reader_version: int
    min_writer_version: int
    reader_features: tuple[str, ...]
    writer_features: tuple[str, ...]
    unsupported: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class MetadataReport:
    """The table itself; `bucket_column` is None where it is not partitioned by one, `properties` are those of ours."""

    id: str
    name: str | None
    columns: int
    partition_columns: tuple[str, ...]
    bucket_column: str | None
    in_commit_timestamps: bool
    properties: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class CheckpointReport:
    """A checkpoint by the listing."""

    version: int  # the version whose state it holds
    kind: CheckpointKind  # `classic`, `multi-part` or `V2`
    parts: int  # how many files it has; of a V2 checkpoint only its top file is counted
    bytes: int  # their size


@dataclass(frozen=True, slots=True)
class IncompleteCheckpoint:
    """A multi-part checkpoint of which parts are missing."""

    version: int
    parts: int
    missing: int


@dataclass(frozen=True, slots=True)
class BaseReport:
    """The newest checkpoint that can be used, by its footers; None is what they do not tell."""

    name: str  # its first file
    version: int  # the version whose state it holds
    kind: CheckpointKind  # `classic`, `multi-part` or `V2`
    files: int  # its files, V2-checkpoint sidecars too where they were looked at
    bytes: int  # their size
    footers: int = 0  # how many of the files were looked at
    row_groups: int = 0  # their row groups
    rows: int = 0  # their rows
    largest_row_group: int = 0  # rows of the largest row group
    json_stats: bool | None = None  # whether files have statistics in JSON
    struct_stats: bool | None = None  # whether files have statistics as columns
    in_time_order: bool | None = None  # whether row groups lie one after another in time, by the time bucket


@dataclass(frozen=True, slots=True)
class TailReport:
    """The commits after the newest checkpoint, or all where there is none; the largest is one of them."""

    commits: int
    bytes: int
    largest_version: int | None
    largest_bytes: int


@dataclass(frozen=True, slots=True)
class HintReport:
    """`_last_checkpoint`: its state, and the version that it names; None where it names none."""

    state: HintState
    version: int | None


@dataclass(frozen=True, slots=True)
class LogReport:
    """The whole log, by its listing."""

    files: int  # files of the log, of any kind
    bytes: int  # their size
    commits: int  # commits
    first_commit: int | None  # the oldest version with a commit; None without any
    missing_commits: tuple[int, ...]  # versions between the oldest and the newest commit that have none: the first ten
    missing_count: int  # how many those are
    checkpoints: int  # complete checkpoints
    checksums: int  # checksum files
    newest_checksum: int | None  # version of the newest; None without any
    compacted_commits: int  # compacted commits, which are not read
    sidecar_files: int  # files in the folder of V2-checkpoint sidecars, where metadata sidecars are too
    sidecar_bytes: int  # their size
    last_checkpoint: HintReport  # the state of `_last_checkpoint`


@dataclass(frozen=True, slots=True)
class RequestReport:
    """The requests of the inspection itself."""

    requests: int
    bytes: int
    trips: int


@dataclass(frozen=True, slots=True)
class TableReport:
    """A table's log, and what is to be said about it."""

    table: str  # the table's address, without secrets
    version: int  # the version that was inspected
    latest_version: int  # the newest version
    earliest_version: int | None  # the oldest version that can be read; None where none can
    refusal: str | None  # why this library does not scan the table; None where it does
    protocol: ProtocolReport | None  # protocol; None where it could not be read
    metadata: MetadataReport | None  # metadata; None where it could not be read
    log: LogReport  # the log, by its listing
    checkpoints: tuple[CheckpointReport, ...]  # the newest complete checkpoints, newest first
    incomplete_checkpoints: tuple[IncompleteCheckpoint, ...]  # those with missing parts, newest first
    base: BaseReport | None  # the newest checkpoint that can be used; None where there is none
    tail: TailReport  # the commits after it
    metadata_sidecars: SidecarsReport | None  # the metadata sidecars; None where the table could not be opened
    estimate: ScanEstimate | None  # files, rows and bytes; None where the table is not scanned
    findings: tuple[Finding, ...]  # the findings, gravest first
    requests: RequestReport  # the requests of the inspection

    def worst(self) -> Severity | None:
        """The gravest severity of its findings; None without any."""
        return max((finding.severity for finding in self.findings), key=SEVERITIES.index, default=None)

    def as_dict(self) -> dict[str, Any]:
        """The report in values that JSON has."""
        return {field.name: _plain(getattr(self, field.name)) for field in fields(self)}


def _plain(value: Any) -> Any:  # noqa: ANN401 - any field of a report
    if isinstance(value, Range):
        return {"lower": value.lower, "upper": value.upper, "is_exact": value.is_exact}
    if is_dataclass(value):
        return {field.name: _plain(getattr(value, field.name)) for field in fields(value)}
    if isinstance(value, tuple):
        return [_plain(item) for item in value]
    return dict(value) if isinstance(value, dict) else value


# Metadata sidecars.


@dataclass(frozen=True, slots=True)
class SidecarReport:
    """The metadata sidecar that scans end on, by its manifest."""

    name: str  # the file that is read first: its manifest, or the metadata sidecar itself where that is missing
    version: int  # the version whose state it holds
    tier: int  # 1 with a manifest, 2 without
    files: int  # live files that it has rows of
    row_groups: int  # its row groups
    data_files: int  # files that it is made of, its manifest not counted
    bytes: int  # their size
    commits: int  # commits after it
    sorted_by: tuple[str, ...]  # columns that its rows are sorted by; none where they are sorted by path
    time_column: str | None  # the column whose bounds are kept beside the paths; None without one
    statistics: int  # how many columns it has statistics of
    missing_columns: tuple[str, ...] = ()  # columns that the table has statistics of and this has not
    lacks_bucket: bool = False  # whether it was built without the table's time bucket


@dataclass(frozen=True, slots=True)
class UnusableSidecar:
    """A metadata sidecar that cannot be trusted; `code` and `reason` are those of the event `base_passed_over`."""

    name: str
    version: int
    code: str
    reason: str


@dataclass(frozen=True, slots=True)
class SidecarsReport:
    """The metadata sidecars of a log."""

    base: SidecarReport | None  # the one that scans end on; None where they end on a checkpoint
    # Why that is not one with its manifest, in a word, as in the event `scan_ended`; None where it is.
    reason: str | None
    # Versions up to the inspected one that the listing shows one of, newest first: the newest twenty.
    versions: tuple[int, ...] = ()
    files: int = 0  # files of metadata sidecars in the log
    bytes: int = 0  # their size
    unusable: tuple[UnusableSidecar, ...] = ()  # those that were tried and cannot be trusted
    leftover_files: int = 0  # files that are neither of the two newest nor young: a clean-up looks at them
    leftover_bytes: int = 0  # their size
