"""The tables that are read: made once, kept in .cache/bench (`make clean` removes them)."""

from __future__ import annotations

import json
import os
import shutil
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

from bench.measure import ROOT
from delta_sidecar.synth import TelemetryLog

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    Progress = Callable[[int, int], None]

CACHE = ROOT / ".cache" / "bench"


@dataclass(frozen=True, slots=True)
class Layout:
    """How a table is laid out.

    Attributes:
        log: Arguments of its `TelemetryLog`.
        of: The layout whose log it shares; None for one of its own.
        sidecar: Whether it has a metadata sidecar, at the version of its checkpoint.
        small: Whether it has few files, whatever the others have.
    """

    log: dict[str, Any] = field(default_factory=dict)
    of: str | None = None
    sidecar: bool = False
    small: bool = False


LAYOUTS = {
    "spark": Layout(),
    "single": Layout({"row_group_rows": "single"}),
    "sidecar": Layout(of="spark", sidecar=True),
    "small": Layout(of="spark", sidecar=True, small=True),
    "wide": Layout({"stats_columns": 50}, sidecar=True, small=True),
}
"""Row groups as Spark writes them, in the order of hashes; everything in one row group; the first one with a metadata
sidecar, the same with few files, and with few files and statistics of 50 columns."""


@dataclass(frozen=True, slots=True)
class BenchTable:
    """A table and the truth about it.

    Attributes:
        layout: How it is laid out, as in `LAYOUTS`.
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

    @property
    def sidecars(self) -> Path:
        """Where its metadata sidecar is, if it is to have one."""
        return self.path / "_delta_log" / "_sidecars"


def table(layout: str, files: int, cache: Path = CACHE, progress: Progress | None = None) -> BenchTable:
    """Gives a table, and makes it where it is not there yet. A metadata sidecar is not built here."""
    like = LAYOUTS[layout]
    if like.of:
        source = table(like.of, files, cache, progress)
        path = cache / f"v1-{like.of}-sidecar-{files}"
        _link(source.path, path)
        return BenchTable(layout, path, source.log, source.total_size, source.checkpoint_bytes)
    log = TelemetryLog(files=files, **like.log)
    path = cache / f"v1-{layout}-{files}"
    notes = path / "summary.json"
    if not notes.exists():
        shutil.rmtree(path, ignore_errors=True)
        # The notes come last: a table without them was not finished.
        notes.write_text(json.dumps(asdict(log.write(path, progress))), encoding="utf-8")
    written = json.loads(notes.read_text(encoding="utf-8"))
    return BenchTable(layout, path, log, written["table_bytes"], written["checkpoint_bytes"])


def warm(made: BenchTable) -> None:
    """Reads the log once, so that no reader pays for the first touch of the disk."""
    for path in sorted((made.path / "_delta_log").rglob("*")):
        if path.is_file():
            with path.open("rb") as file:
                while file.read(1 << 24):
                    pass


def _link(source: Path, path: Path) -> None:
    """Makes a log that shares its files with another one: nobody writes into them."""
    (path / "_delta_log").mkdir(parents=True, exist_ok=True)
    for file in sorted((source / "_delta_log").iterdir()):
        there = path / "_delta_log" / file.name
        if file.is_file() and not there.exists():
            try:
                os.link(file, there)
            except OSError:
                shutil.copy2(file, there)
