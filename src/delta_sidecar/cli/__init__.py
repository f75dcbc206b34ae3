"""The command `delta-sidecar`.

Data goes to stdout, everything else to stderr. pyarrow, rich and the scanner are imported by the command that
needs them, when it runs.
"""

from __future__ import annotations

from delta_sidecar.cli.program import main

__all__ = ["main"]
