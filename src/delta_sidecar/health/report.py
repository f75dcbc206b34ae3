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
    """Something that is worth to know of a table.

    Attributes:
        code: A short name that stays the same.
        severity: `info`, `warning` for what slows readers down, `problem` for what stops them.
        message: What it is.
        advice: What to do about it.
    """

    code: str
    severity: Severity
    message: str
    advice: str


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
    """A checkpoint by the listing.

    Attributes:
        version: The version whose state it holds.
        kind: `classic`, `multi-part` or `V2`.
        parts: How many files it has; of a V2 checkpoint only its top file is counted.
        bytes: Their size.
    """

    version: int
    kind: CheckpointKind
    parts: int
    bytes: int


@dataclass(frozen=True, slots=True)
class IncompleteCheckpoint:
    """A multi-part checkpoint of which parts are missing."""

    version: int
    parts: int
    missing: int


@dataclass(frozen=True, slots=True)
class BaseReport:
    """The newest checkpoint that can be used, by its footers; None is what they do not tell.

    Attributes:
        name: Its first file.
        version: The version whose state it holds.
        kind: `classic`, `multi-part` or `V2`.
        files: Its files, V2-checkpoint sidecars too where they were looked at.
        bytes: Their size.
        footers: How many of the files were looked at.
        row_groups: Their row groups.
        rows: Their rows.
        largest_row_group: Rows of the largest row group.
        json_stats: Whether files have statistics in JSON.
        struct_stats: Whether files have statistics as columns.
        in_time_order: Whether row groups lie one after another in time, by the time bucket.
    """

    name: str
    version: int
    kind: CheckpointKind
    files: int
    bytes: int
    footers: int = 0
    row_groups: int = 0
    rows: int = 0
    largest_row_group: int = 0
    json_stats: bool | None = None
    struct_stats: bool | None = None
    in_time_order: bool | None = None


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
    """The whole log, by its listing.

    Attributes:
        files: Files of the log, of any kind.
        bytes: Their size.
        commits: Commits.
        first_commit: The oldest version with a commit; None without any.
        missing_commits: Versions between the oldest and the newest commit that have none: the first ten.
        missing_count: How many those are.
        checkpoints: Complete checkpoints.
        checksums: Checksum files.
        newest_checksum: Version of the newest; None without any.
        compacted_commits: Compacted commits, which are not read.
        sidecar_files: Files in the folder of V2-checkpoint sidecars, where metadata sidecars are too.
        sidecar_bytes: Their size.
        last_checkpoint: The state of `_last_checkpoint`.
    """

    files: int
    bytes: int
    commits: int
    first_commit: int | None
    missing_commits: tuple[int, ...]
    missing_count: int
    checkpoints: int
    checksums: int
    newest_checksum: int | None
    compacted_commits: int
    sidecar_files: int
    sidecar_bytes: int
    last_checkpoint: HintReport


@dataclass(frozen=True, slots=True)
class RequestReport:
    """The requests of the inspection itself."""

    requests: int
    bytes: int
    trips: int


@dataclass(frozen=True, slots=True)
class TableReport:
    """A table's log, and what is to be said about it.

    Attributes:
        table: The table's address, without secrets.
        version: The version that was inspected.
        latest_version: The newest version.
        earliest_version: The oldest version that can be read; None where none can.
        refusal: Why this library does not scan the table; None where it does.
        protocol: Protocol; None where it could not be read.
        metadata: Metadata; None where it could not be read.
        log: The log, by its listing.
        checkpoints: The newest complete checkpoints, newest first.
        incomplete_checkpoints: Those with missing parts, newest first.
        base: The newest checkpoint that can be used; None where there is none.
        tail: The commits after it.
        metadata_sidecars: The metadata sidecars; None where the table could not be opened.
        estimate: Files, rows and bytes; None where the table is not scanned.
        findings: The findings, gravest first.
        requests: The requests of the inspection.
    """

    table: str
    version: int
    latest_version: int
    earliest_version: int | None
    refusal: str | None
    protocol: ProtocolReport | None
    metadata: MetadataReport | None
    log: LogReport
    checkpoints: tuple[CheckpointReport, ...]
    incomplete_checkpoints: tuple[IncompleteCheckpoint, ...]
    base: BaseReport | None
    tail: TailReport
    metadata_sidecars: SidecarsReport | None
    estimate: ScanEstimate | None
    findings: tuple[Finding, ...]
    requests: RequestReport

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
        sorted_by: Columns that its rows are sorted by; none where they are sorted by path.
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
