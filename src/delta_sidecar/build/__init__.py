"""Metadata sidecars, made on this machine.

Read in this order: `build` (the call, the stream from live files to a data file, the sort), `builder` (the steps around
it), `live_rows`, `write`, `publish`.
"""

from __future__ import annotations

from delta_sidecar.build.build import build_sidecar
from delta_sidecar.build.builder import BuildProgress, BuildSummary

__all__ = ["BuildProgress", "BuildSummary", "build_sidecar"]
