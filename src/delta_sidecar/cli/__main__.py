"""`python -m delta_sidecar.cli`, the same as `delta-sidecar`."""

from __future__ import annotations

from delta_sidecar.cli.program import main

main(prog_name="delta-sidecar")
