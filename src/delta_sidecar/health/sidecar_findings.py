"""The rules about metadata sidecars: whether there is one, whether scans end on it, and what it lacks."""

from __future__ import annotations

from typing import TYPE_CHECKING

from delta_sidecar.health.report import Finding
from delta_sidecar.replay.listed_sidecars import MOST_TAIL

if TYPE_CHECKING:
    from collections.abc import Iterator

    from delta_sidecar.health.report import BaseReport
    from delta_sidecar.health.sidecar_report import SidecarReport, SidecarsReport
    from delta_sidecar.scan.estimate import ScanEstimate

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
