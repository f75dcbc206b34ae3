"""The rules: what of a table's log is worth to know, how grave it is, and what to do about it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from delta_sidecar.health.report import SEVERITIES, Finding
from delta_sidecar.replay.open import MOST_TAIL

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from delta_sidecar.health.report import (
        BaseReport,
        IncompleteCheckpoint,
        LogReport,
        MetadataReport,
        Severity,
        SidecarReport,
        SidecarsReport,
        TailReport,
    )
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


@dataclass(frozen=True, slots=True)
class Facts:
    """What the rules look at.

    Attributes:
        log: What the listing shows.
        incomplete: Checkpoints with missing parts.
        base: The newest checkpoint that can be used; None where there is none.
        tail: The commits after it.
        metadata: The table itself; None where that could not be read.
        estimate: Files, rows and bytes; None where the table is not scanned.
        latest: The newest version.
        unsupported: Reader features that this library lacks.
        refusal: Why the table is not scanned; None where it is.
        torn: Checkpoints that cannot be used, by name, and why.
        ignored: Properties that do not count, by name, and why.
        bucket: Name of the column that would hold the time bucket.
        sidecars: The metadata sidecars; None where the table could not be opened.
    """

    log: LogReport
    incomplete: tuple[IncompleteCheckpoint, ...]
    base: BaseReport | None
    tail: TailReport
    metadata: MetadataReport | None
    estimate: ScanEstimate | None
    latest: int
    unsupported: tuple[str, ...]
    refusal: str | None
    torn: tuple[tuple[str, str], ...]
    ignored: tuple[tuple[str, str], ...]
    bucket: str
    sidecars: SidecarsReport | None = None

    @property
    def sidecar(self) -> SidecarReport | None:
        """The metadata sidecar that scans end on; None where they end on a checkpoint."""
        return None if self.sidecars is None else self.sidecars.base


def findings_of(facts: Facts) -> tuple[Finding, ...]:
    """What is to be said, gravest first."""
    rules = (_refused, _gaps, _torn, _tail, _sidecars, _hint, _checksums, _footers, _files, _listing, _properties)
    found = [finding for rule in rules for finding in rule(facts)]
    return tuple(sorted(found, key=lambda finding: -SEVERITIES.index(finding.severity)))


def _refused(facts: Facts) -> Iterator[Finding]:
    if facts.unsupported:
        names = ", ".join(facts.unsupported)
        yield Finding(
            "unsupported-feature",
            "problem",
            f"The table uses reader features that this version does not support: {names}.",
            "It is not scanned, for the answer might be wrong. Upgrade delta-sidecar, or read it with its own writer.",
        )
    elif facts.refusal is not None:
        yield Finding(
            "not-readable",
            "problem",
            _sentence(f"The table cannot be scanned: {facts.refusal}"),
            "Repair what it names.",
        )


def _gaps(facts: Facts) -> Iterator[Finding]:
    log = facts.log
    if not log.missing_count:
        return
    shown = ", ".join(map(str, log.missing_commits))
    shown += (
        f" and {log.missing_count - len(log.missing_commits):,} more"
        if len(log.missing_commits) < log.missing_count
        else ""
    )
    is_covered = (facts.base is not None or facts.sidecar is not None) and facts.refusal is None
    yield Finding(
        "missing-commits",
        "warning" if is_covered else "problem",
        f"Commits are missing in the middle of the log: {shown}.",
        "Versions that need them cannot be read; restore the files from a copy if you need those versions."
        if is_covered
        else "Restore the files from a copy: the newest version needs them.",
    )


def _torn(facts: Facts) -> Iterator[Finding]:
    for name, reason in facts.torn:
        yield Finding(
            "torn-checkpoint",
            "warning",
            _sentence(f"Checkpoint {name} cannot be used: {reason}"),
            "Readers go back to an older base and read more commits. Let the table's writer make a new checkpoint.",
        )
    for checkpoint in facts.incomplete:
        yield Finding(
            "incomplete-checkpoint",
            "warning",
            f"The checkpoint of version {checkpoint.version} lacks {checkpoint.missing} of {checkpoint.parts} parts.",
            "Readers pass over it. Delete its parts, or let the table's writer make a new checkpoint.",
        )


def _tail(facts: Facts) -> Iterator[Finding]:
    tail, base = facts.tail, facts.base
    readers = "every reader" if facts.sidecar is None else "every reader that knows no metadata sidecars"
    if base is None and tail.commits > LONG_TAIL:
        yield Finding(
            "no-checkpoint",
            "warning",
            f"There is no checkpoint that can be used: {readers} reads all {tail.commits:,} commits.",
            _CHECKPOINT,
        )
    elif tail.commits > LONG_TAIL:
        yield Finding(
            "long-tail",
            "warning",
            f"{tail.commits:,} commits follow the newest checkpoint; each is a request of {readers}.",
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


def _sidecars(facts: Facts) -> Iterable[Finding]:
    return () if facts.sidecars is None else sidecar_findings(facts.sidecars, facts.base, facts.estimate)


def _hint(facts: Facts) -> Iterator[Finding]:
    hint, there = facts.log.last_checkpoint, facts.log.checkpoints
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


def _checksums(facts: Facts) -> Iterator[Finding]:
    base, newest = facts.base, facts.log.newest_checksum
    # A metadata sidecar tells of protocol and metadata too.
    if base is not None and facts.sidecar is None and (newest is None or newest < base.version):
        yield Finding(
            "no-checksums",
            "info",
            "There is no checksum file from the newest checkpoint on: protocol and metadata come from the checkpoint "
            "itself, which takes more trips, and files are not counted exactly.",
            "Newer Delta writers of Spark make one with each commit: spark.databricks.delta.writeChecksumFile.enabled.",
        )


def _footers(facts: Facts) -> Iterator[Finding]:
    base = facts.base
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
    if base.in_time_order is False and facts.sidecar is None:
        yield Finding(
            "not-in-time-order",
            "info",
            "The checkpoint is not in order of time: to find the newest files, all its row groups are looked into.",
            "Scans with a limit, which begin with the newest commits, seldom come to the checkpoint.",
        )


def _files(facts: Facts) -> Iterator[Finding]:
    metadata, estimate = facts.metadata, facts.estimate
    if metadata is not None and metadata.bucket_column is None:
        yield Finding(
            "no-time-bucket",
            "info",
            f"The table is not partitioned by a time bucket ({facts.bucket}): a query for a time goes by statistics.",
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


def _listing(facts: Facts) -> Iterator[Finding]:
    log, base = facts.log, facts.base
    old = log.commits - facts.tail.commits
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


def _properties(facts: Facts) -> Iterable[Finding]:
    severity: Severity = "warning"
    return [
        Finding(
            "property-ignored", severity, _sentence(f"Property {name} does not count: {reason}"), "Correct or unset it."
        )
        for name, reason in facts.ignored
    ]


def _sentence(text: str) -> str:
    return text if text.endswith(".") else f"{text}."


# The rules about metadata sidecars: whether there is one, whether scans end on it, and what it lacks.


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


def sidecar_findings(
    sidecars: SidecarsReport, checkpoint: BaseReport | None, estimate: ScanEstimate | None
) -> Iterator[Finding]:
    """What is to be said of the metadata sidecars of a log.

    Args:
        sidecars: The metadata sidecars.
        checkpoint: The newest checkpoint that can be used; None where there is none.
        estimate: Files, rows and bytes; None where the table is not scanned.
    """
    yield from _unusable(sidecars)
    yield from _unused(sidecars, estimate)
    if sidecars.base is not None:
        yield from _behind(sidecars.base, checkpoint)
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
