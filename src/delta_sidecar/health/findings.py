"""The rules of an inspection: findings about a table's log, how grave each is, and what to do about it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from delta_sidecar.health.report import SEVERITIES, Finding
from delta_sidecar.log.segment import MOST_TAIL

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from delta_sidecar.health.report import BaseReport, SidecarReport, SidecarsReport, TableReport
    from delta_sidecar.scan.estimate import ScanEstimate


LONG_TAIL = 100
"""Commits after a checkpoint that are many."""

LARGE_TAIL_BYTES = 1 << 20
"""A smaller tail costs little, however small the checkpoint is."""

LARGE_COMMIT_BYTES = 64 << 20
LARGE_ROW_GROUP_ROWS = 1_000_000
MANY_PARTS = 64
MANY_FILES = 10_000
SMALL_FILE_BYTES = 16 << 20
MANY_OLD_COMMITS = 5_000

_CHECKPOINT = "Let the table's writer make a checkpoint (Delta's do so every delta.checkpointInterval commits)."


def findings_of(
    report: TableReport, torn: Mapping[str, str], ignored: Mapping[str, str], bucket: str
) -> tuple[Finding, ...]:
    """The findings about a table, gravest first.

    Args:
        report: The table.
        torn: Checkpoints that cannot be used, by name, and why.
        ignored: Properties that do not count, by name, and why.
        bucket: Name of the column that would hold the time bucket.
    """
    found = [
        *_refused(report),
        *_gaps(report),
        *_torn(report, torn),
        *_tail(report),
        *_sidecars(report),
        *_hint(report),
        *_checksums(report),
        *_footers(report),
        *_files(report, bucket),
        *_listing(report),
        *_properties(ignored),
    ]
    return tuple(sorted(found, key=lambda finding: -SEVERITIES.index(finding.severity)))


def _sidecar_base(report: TableReport) -> SidecarReport | None:
    """The metadata sidecar that scans end on; None where they end on a checkpoint."""
    return None if report.metadata_sidecars is None else report.metadata_sidecars.base


def _refused(report: TableReport) -> Iterator[Finding]:
    if report.protocol is not None and report.protocol.unsupported:
        names = ", ".join(report.protocol.unsupported)
        yield Finding(
            "unsupported-feature",
            "problem",
            f"The table uses reader features that this version does not support: {names}.",
            "It is not scanned, for the answer might be wrong. Upgrade delta-sidecar, or read it with its own writer.",
        )
    elif report.refusal is not None:
        yield Finding(
            "not-readable",
            "problem",
            _sentence(f"The table cannot be scanned: {report.refusal}"),
            "Repair what it names.",
        )


def _gaps(report: TableReport) -> Iterator[Finding]:
    log = report.log
    if not log.missing_count:
        return
    more = log.missing_count - len(log.missing_commits)
    shown = ", ".join(map(str, log.missing_commits)) + (f" and {more:,} more" if more else "")
    is_covered = (report.base is not None or _sidecar_base(report) is not None) and report.refusal is None
    yield Finding(
        "missing-commits",
        "warning" if is_covered else "problem",
        f"Commits are missing in the middle of the log: {shown}.",
        "Versions that need them cannot be read; restore the files from a copy if you need those versions."
        if is_covered
        else "Restore the files from a copy: the newest version needs them.",
    )


def _torn(report: TableReport, torn: Mapping[str, str]) -> Iterator[Finding]:
    for name, reason in torn.items():
        yield Finding(
            "torn-checkpoint",
            "warning",
            _sentence(f"Checkpoint {name} cannot be used: {reason}"),
            "Readers go back to an older base and read more commits. Let the table's writer make a new checkpoint.",
        )
    for checkpoint in report.incomplete_checkpoints:
        yield Finding(
            "incomplete-checkpoint",
            "warning",
            f"The checkpoint of version {checkpoint.version} lacks {checkpoint.missing} of {checkpoint.parts} parts.",
            "Readers pass over it. Delete its parts, or let the table's writer make a new checkpoint.",
        )


def _tail(report: TableReport) -> Iterator[Finding]:
    tail, base = report.tail, report.base
    readers = "every reader" if _sidecar_base(report) is None else "every reader that knows no metadata sidecars"
    if tail.commits > LONG_TAIL:
        message = f"{tail.commits:,} commits follow the newest checkpoint; each is a request of {readers}."
        if base is None:
            message = f"There is no checkpoint that can be used: {readers} reads all {tail.commits:,} commits."
        yield Finding(
            "no-checkpoint" if base is None else "long-tail",
            "warning",
            message,
            _CHECKPOINT,
        )
    if base is not None and tail.bytes > max(LARGE_TAIL_BYTES, base.bytes // 2):
        yield Finding(
            "large-tail",
            "warning",
            "The commits after the newest checkpoint are more than half its size, and are read as JSON.",
            _CHECKPOINT,
        )
    if tail.largest_bytes > LARGE_COMMIT_BYTES:
        yield Finding(
            "large-commit",
            "warning",
            f"Commit {tail.largest_version} has {tail.largest_bytes >> 20:,} MiB: readers parse all of it.",
            f"{_CHECKPOINT} Smaller transactions make smaller commits.",
        )


def _hint(report: TableReport) -> Iterator[Finding]:
    hint, there = report.log.last_checkpoint, report.log.checkpoints
    if not there and hint.state in {"missing", "current"}:
        return
    words = {
        "missing": "There are checkpoints and no _last_checkpoint: readers list the log from its start.",
        "corrupt": "_last_checkpoint cannot be read: readers list the log from its start.",
        "dangling": f"_last_checkpoint names version {hint.version}, which has no complete checkpoint.",
        "stale": f"_last_checkpoint names version {hint.version}, and there is a newer checkpoint.",
    }
    if hint.state in words:
        yield Finding(
            f"last-checkpoint-{hint.state}",
            "info" if hint.state == "stale" else "warning",
            words[hint.state],
            "The next checkpoint that the table's writer makes sets it right.",
        )


def _checksums(report: TableReport) -> Iterator[Finding]:
    base, newest = report.base, report.log.newest_checksum
    # A metadata sidecar tells of protocol and metadata too.
    if base is not None and _sidecar_base(report) is None and (newest is None or newest < base.version):
        yield Finding(
            "no-checksums",
            "info",
            "There is no checksum file from the newest checkpoint on: protocol and metadata come from the checkpoint "
            "itself, which takes more trips, and files are not counted exactly.",
            "Newer Delta writers of Spark make one with each commit: spark.databricks.delta.writeChecksumFile.enabled.",
        )


def _footers(report: TableReport) -> Iterator[Finding]:
    base = report.base
    if base is None:
        return
    if base.largest_row_group > LARGE_ROW_GROUP_ROWS:
        yield Finding(
            "large-row-group",
            "warning",
            f"A row group of the checkpoint has {base.largest_row_group:,} rows: it is read by one thread, whole.",
            "Set parquet.block.size for the job that makes checkpoints, or let it make several parts.",
        )
    if base.json_stats is False and base.struct_stats is False:
        yield Finding(
            "no-statistics",
            "warning",
            "The checkpoint has no statistics: a predicate leaves out files by their partition values alone.",
            "Set delta.checkpoint.writeStatsAsJson to true, and make a new checkpoint.",
        )
    if base.kind == "multi-part" and base.files > MANY_PARTS:
        yield Finding(
            "many-parts",
            "warning",
            f"The checkpoint has {base.files:,} parts; a reader asks for the footer of each.",
            "Raise spark.databricks.delta.checkpoint.partSize, or unset it.",
        )
    if base.in_time_order is False and _sidecar_base(report) is None:
        yield Finding(
            "not-in-time-order",
            "info",
            "The checkpoint is not in order of time: to find the newest files, all its row groups are looked into.",
            "Scans with a limit, which begin with the newest commits, seldom come to the checkpoint.",
        )


def _files(report: TableReport, bucket: str) -> Iterator[Finding]:
    metadata, estimate = report.metadata, report.estimate
    if metadata is not None and metadata.bucket_column is None:
        yield Finding(
            "no-time-bucket",
            "info",
            f"The table is not partitioned by a time bucket ({bucket}): a query for a time goes by statistics.",
            "Where the bucket has another name, set deltaSidecar.bucket.column or DELTA_BUCKET_COLUMN.",
        )
    if estimate is None or estimate.bytes.upper is None or estimate.files.lower <= MANY_FILES:
        return
    average = estimate.bytes.upper / estimate.files.lower
    if average < SMALL_FILE_BYTES:
        yield Finding(
            "small-files",
            "warning",
            f"Files have {average / 1e6:.1f} MB on average or less, and there are {estimate.files.lower:,} or more.",
            "Compact them (OPTIMIZE), and write larger ones (delta.autoOptimize.optimizeWrite).",
        )


def _listing(report: TableReport) -> Iterator[Finding]:
    log, base = report.log, report.base
    old = log.commits - report.tail.commits
    if base is not None and old > MANY_OLD_COMMITS:
        yield Finding(
            "old-commits",
            "info",
            f"{old:,} commits are older than the newest checkpoint: a listing from the start shows them all.",
            "Check delta.logRetentionDuration, and that delta.enableExpiredLogCleanup is not false.",
        )
    if log.compacted_commits:
        yield Finding(
            "compacted-commits",
            "info",
            f"There are {log.compacted_commits:,} compacted commits. They are not read: some writers made wrong ones.",
            "Nothing to do.",
        )


def _properties(ignored: Mapping[str, str]) -> Iterator[Finding]:
    for name, reason in ignored.items():
        message = _sentence(f"Property {name} does not count: {reason}")
        yield Finding("property-ignored", "warning", message, "Correct or unset it.")


def _sentence(text: str) -> str:
    return text if text.endswith(".") else f"{text}."


# The rules about metadata sidecars.


LARGE_TABLE_FILES = 100_000
"""From here on the checkpoint takes a reader longer than everything else."""

MANY_COMMITS = 100
"""Commits after a metadata sidecar that are many."""

_MOST_NAMED = 5
_BUILD = "Run `delta-sidecar build`, best after each checkpoint."
_ADVICE = {
    "other_commit": "It belongs to another table that was here, or to a commit that was replaced. Run `delta-sidecar "
    "build`; `delta-sidecar vacuum` removes the old one later.",
    "unproven": "It may be of another table that was here, or of a history that a restore has replaced. Run "
    "`delta-sidecar build`; `delta-sidecar vacuum` removes the old one later.",
}


def _sidecars(report: TableReport) -> Iterator[Finding]:
    sidecars = report.metadata_sidecars
    if sidecars is None:
        return
    yield from _unusable(sidecars)
    yield from _unused(sidecars, report.estimate)
    if sidecars.base is not None:
        yield from _behind(sidecars.base, report.base)
        yield from _lacking(sidecars.base, sidecars.reason)
    if sidecars.leftover_files:
        count = sidecars.leftover_files
        yield Finding(
            "sidecar-leftovers",
            "info",
            f"{count:,} file{'' if count == 1 else 's'} of metadata sidecars ({sidecars.leftover_bytes / 1e6:,.1f} MB) "
            f"{'is' if count == 1 else 'are'} most likely needed by no reader any more.",
            "Run `delta-sidecar vacuum --dry-run` to see what can go.",
        )


def _unusable(sidecars: SidecarsReport) -> Iterator[Finding]:
    # Without its manifest one is tried again by its footer: what was wrong first says most.
    first = {found.version: found for found in reversed(sidecars.unusable)}
    for found in sorted(first.values(), key=lambda found: -found.version):
        yield Finding(
            "sidecar-unusable",
            "warning",
            f"Metadata sidecar {found.name} cannot be used ({found.code}): {found.reason.rstrip('.')}.",
            _ADVICE.get(found.code, "Readers take the next base, which costs them more. Run `delta-sidecar build`."),
        )


def _unused(sidecars: SidecarsReport, estimate: ScanEstimate | None) -> Iterator[Finding]:
    reason = sidecars.reason
    if reason == "none" and estimate is not None and estimate.files.lower >= LARGE_TABLE_FILES:
        yield Finding(
            "no-sidecar",
            "warning",
            f"The table has {estimate.files.lower:,} files or more and no metadata sidecar: a query that does not end "
            f"in the newest commits reads the checkpoint, whatever it asks for.",
            _BUILD,
        )
    elif reason == "too_old":
        newest = sidecars.versions[0]
        yield Finding(
            "sidecar-too-old",
            "warning",
            f"The newest metadata sidecar, of version {newest}, is not used: more than {MOST_TAIL:,} commits follow, "
            f"or some of them are gone.",
            _BUILD,
        )
    elif reason == "disabled" and sidecars.versions:
        yield Finding(
            "sidecars-disabled",
            "info",
            "There are metadata sidecars, and they are disabled.",
            "Unset DELTA_SIDECAR_ENABLED and the table's property deltaSidecar.enabled to use them.",
        )


def _behind(base: SidecarReport, checkpoint: BaseReport | None) -> Iterator[Finding]:
    is_older = checkpoint is not None and base.version < checkpoint.version
    if base.commits <= MANY_COMMITS and not is_older:
        return
    newer = f", and a checkpoint of version {checkpoint.version} is newer" if checkpoint and is_older else ""
    yield Finding(
        "sidecar-stale",
        "warning" if base.commits > MANY_COMMITS else "info",
        f"{base.commits:,} commit{' follows' if base.commits == 1 else 's follow'} the metadata sidecar of version "
        f"{base.version}{newer}; each is a request of every reader.",
        _BUILD,
    )


def _lacking(base: SidecarReport, reason: str | None) -> Iterator[Finding]:
    if base.tier > 1 and reason == "no_manifest":
        yield Finding(
            "sidecar-without-manifest",
            "warning",
            f"Metadata sidecar {base.name} has no manifest: readers look into its footer, which takes more trips.",
            "Run `delta-sidecar build`, which writes what is missing.",
        )
    if base.lacks_bucket:
        yield Finding(
            "sidecar-without-bucket",
            "warning",
            "The metadata sidecar was built without the table's time bucket: to find the newest files, all its row "
            "groups are looked into.",
            "Run `delta-sidecar build` for a newer version, with the same bucket column as readers have.",
        )
    if base.missing_columns:
        shown = ", ".join(base.missing_columns[:_MOST_NAMED])
        more = len(base.missing_columns) - _MOST_NAMED
        shown += f" and {more:,} more" if more > 0 else ""
        yield Finding(
            "sidecar-without-columns",
            "info",
            f"The metadata sidecar has no statistics of {shown}: predicates on them leave out none of its files.",
            "A metadata sidecar of a newer version has them. Run `delta-sidecar build`.",
        )
