"""The tables that are read: made once, kept in .cache/bench (`make clean` removes them)."""

from __future__ import annotations

import json
import shutil
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from bench.measure import ROOT
from delta_sidecar.synth import TelemetryLog

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

CACHE = ROOT / ".cache" / "bench"

LAYOUTS: dict[str, dict[str, Any]] = {
    "spark": {},
    "single": {"row_group_rows": "single"},
}
"""Row groups as Spark writes them, in the order of hashes; and everything in one row group."""


@dataclass(frozen=True, slots=True)
class BenchTable:
    """A table and the truth about it.

    Attributes:
        layout: How its checkpoint is laid out, as in `LAYOUTS`.
        path: Where it is.
        log: What it was made from.
        total_size: The sizes of its live files, added up.
        checkpoint_bytes: The size of its checkpoint.
    """

    layout: str
    path: Path
    log: TelemetryLog
    total_size: int
    checkpoint_bytes: int


def table(
    layout: str, files: int, cache: Path = CACHE, progress: Callable[[int, int], None] | None = None
) -> BenchTable:
    """Gives a table, and makes it where it is not there yet."""
    log = TelemetryLog(files=files, **LAYOUTS[layout])
    path = cache / f"v1-{layout}-{files}"
    notes = path / "summary.json"
    if not notes.exists():
        shutil.rmtree(path, ignore_errors=True)
        # The notes come last: a table without them was not finished.
        notes.write_text(json.dumps(asdict(log.write(path, progress))), encoding="utf-8")
    written = json.loads(notes.read_text(encoding="utf-8"))
    return BenchTable(layout, path, log, written["table_bytes"], written["checkpoint_bytes"])
