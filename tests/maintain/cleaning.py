"""Cleaning up, and what was done."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.scan.reading import agrees_with_model

from delta_sidecar.maintain.vacuum import vacuum_sidecars

if TYPE_CHECKING:
    from tests.maintain.vacuum_tables import SidecarTable

    from delta_sidecar.maintain.vacuum import VacuumSummary

LOG = "_delta_log/_sidecars/"


def deleted(summary: VacuumSummary) -> set[str]:
    return {file.path.removeprefix(LOG) for file in summary.deleted}


def unknown(summary: VacuumSummary) -> set[str]:
    return {file.path.removeprefix(LOG) for file in summary.unknown}


def reason(summary: VacuumSummary, name: str) -> str:
    return {file.path.removeprefix(LOG): file.reason for file in (*summary.deleted, *summary.unknown)}[name]


def clean(made: SidecarTable, **arguments: object) -> VacuumSummary:
    """Cleans up, and asserts what always holds."""
    before = made.names()
    would = vacuum_sidecars(made.root, **{**arguments, "dry_run": True})
    assert made.names() == before, "a dry run deletes nothing"
    summary = vacuum_sidecars(made.root, **arguments)
    assert [file.path for file in would.deleted] == [file.path for file in summary.deleted]
    assert made.names() == before - deleted(summary)
    assert unknown(summary) <= made.names()
    agrees_with_model(made.table)
    return summary


def pair(*versions: int) -> set[str]:
    return {name for version in versions for name in (f"v{version}.parquet", f"v{version}.manifest.json")}
