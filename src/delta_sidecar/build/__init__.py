"""Metadata sidecars, made and removed on this machine."""

from __future__ import annotations

from delta_sidecar.build.building import build_sidecar
from delta_sidecar.build.summary import BuildProgress, BuildSummary
from delta_sidecar.build.vacuum import vacuum_sidecars
from delta_sidecar.build.vacuum_summary import VacuumSummary

__all__ = ["BuildProgress", "BuildSummary", "VacuumSummary", "build_sidecar", "vacuum_sidecars"]
