"""Logs that the suites on clouds, growth and losses read, and the form in which suites give what they measure."""

from __future__ import annotations

import os
import shutil
from statistics import median
from typing import TYPE_CHECKING, Any, NamedTuple

from bench.measure import ROOT
from delta_sidecar.build import build_sidecar
from delta_sidecar.synth import TelemetryLog

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

CACHE = ROOT / ".cache" / "bench"
TAIL = 20
FIRST_FILE, LAST_HOUR = "first file", "last hour"


class MadeLog(NamedTuple):
    """A log, twice on the disk: once as Spark would leave it, once with a metadata sidecar at its checkpoint."""

    log: TelemetryLog
    checkpoint: Path
    sidecar: Path


def made_log(files: int, cache: Path = CACHE) -> MadeLog:
    """Gives a log, and makes it where it is not there yet."""
    log = TelemetryLog(files=files, tail_commits=TAIL)
    plain, with_sidecar = cache / f"log-{files}", cache / f"log-{files}-sidecar"
    if not with_sidecar.exists():
        for folder in (plain, drafted := with_sidecar.with_suffix(".draft")):
            shutil.rmtree(folder, ignore_errors=True)
        log.write(plain)
        # Nobody writes into the files of a log: both tables may share them.
        shutil.copytree(plain, drafted, copy_function=os.link)
        build_sidecar(drafted, version=log.checkpoint_version)
        drafted.rename(with_sidecar)
    return MadeLog(log, plain, with_sidecar)


def run(seconds: float, peak_bytes: int, answer: dict[str, Any]) -> dict[str, Any]:
    """One run of a measurement; what the answer does not tell is None."""
    names = ("first_seconds", "cpu_seconds", "requests", "bytes", "trips")
    return {"seconds": seconds, "peak_bytes": peak_bytes} | {name: answer.get(name) for name in names}


def measurement(runs: Sequence[dict[str, Any]], **about: object) -> dict[str, Any]:
    """A measurement in the form of all suites, out of its runs."""

    def middle(name: str) -> float | None:
        values = [each[name] for each in runs if each[name] is not None]
        return median(values) if values else None

    seconds = [each["seconds"] for each in runs]
    return {
        "shape": "telemetry",
        "tail": TAIL,
        "stats_columns": TelemetryLog.stats_columns,
        "removes": 0,
        "variant": "",
        "runs": list(runs),
        "median": {name: middle(name) for name in runs[0]},
        "spread": {"seconds": [min(seconds), max(seconds)]},
        **about,
    }
