"""Realistic Delta logs made in seconds: metadata only, in the real format, without data files.

The demo, the tests and the benchmarks all take their big tables from here:

    log = TelemetryLog(files=1_000_000)
    summary = log.write("/tmp/telemetry")
    log.expected_hour(summary.newest_hour)   # the number of live files of the newest hour

Every value of a file is a function of its number and the seed, so a log of any size streams to disk in
bounded memory, two runs write the same bytes, and the right answer to a query needs no second replay.
"""

from __future__ import annotations

from delta_sidecar.synth.log_writer import SynthSummary, TelemetryLog

__all__ = ["SynthSummary", "TelemetryLog"]
