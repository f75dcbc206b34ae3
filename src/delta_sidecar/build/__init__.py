"""Metadata sidecars, made on this machine.

Read in this order: `build` (the call, and the stream from live files to a data file), `builder` (the steps around it),
`live_rows`, `sort`, `write`, `publish`.
"""

from __future__ import annotations

from delta_sidecar.build.build import build_sidecar
from delta_sidecar.build.builder import BuildProgress, BuildSummary

__all__ = ["BuildProgress", "BuildSummary", "build_sidecar"]
