"""Metadata sidecars, made on this machine."""

from __future__ import annotations

from delta_sidecar.build.build import build_sidecar
from delta_sidecar.build.summary import BuildProgress, BuildSummary

__all__ = ["BuildProgress", "BuildSummary", "build_sidecar"]
