"""The tables that are asked, as small declarations: made once, kept in .cache/bench (`make clean` removes them).

Of every table there are two folders that share the same log: one has its V1 checkpoint alone, the other a metadata
sidecar as well, at the checkpoint's version. The same commits follow both.
"""

from __future__ import annotations

import json
import os
import shutil
from dataclasses import asdict, dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from bench.generated import GeneratedLog
from bench.measure import ROOT, measured
from delta_sidecar.log.names import LOG_FOLDER, SIDECAR_FOLDER, manifest_name
from delta_sidecar.synth import TelemetryLog

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    Progress = Callable[[int, int], None]

CACHE = ROOT / ".cache" / "bench"

_WIDE = 50


@dataclass(frozen=True, slots=True)
class Shape:
    """A table's log.

    Attributes:
        files: Live files in the checkpoint; the tail adds to them.
        tail: Commits after it.
        stats_columns: Columns with statistics.
        removes: Files of the checkpoint that the tail removes.
        is_generated: Whether only a metadata sidecar is made, and no checkpoint: for tables that take too long
            otherwise. Nobody but this library can read it.
    """

    files: int
    tail: int = 20
    stats_columns: int = 6
    removes: int = 0
    is_generated: bool = False

    @property
    def words(self) -> str:
        """For people, such as `1,000,000 files, a tail of 20 commits`."""
        parts = [f"{self.files:,} files", f"a tail of {self.tail:,} commits"]
        if self.stats_columns != Shape(0).stats_columns:
            parts.append(f"{self.stats_columns:,} columns with statistics")
        if self.removes:
            parts.append(f"{self.removes:,} removes")
        return ", ".join(parts)

    def folder(self, base: str) -> str:
        """The name of the folder that has it with a base, `checkpoint` or `sidecar`."""
        is_wide = self.stats_columns == _WIDE
        name = f"v1-{'wide' if is_wide else 'spark'}-{'sidecar-' if base == 'sidecar' else ''}{self.files}"
        if self.is_generated:
            name = f"generated-{self.files}"
        like = Shape(self.files, stats_columns=_WIDE if is_wide else 6)
        for field, short in (("tail", "tail"), ("stats_columns", "columns"), ("removes", "removes")):
            if getattr(self, field) != getattr(like, field):
                name += f"-{short}-{getattr(self, field)}"
        return name

    @property
    def log(self) -> TelemetryLog:
        """What makes it, and knows the truth about it."""
        # A checkpoint of very many columns is written with fewer rows at a time.
        rows = None if self.stats_columns <= _WIDE else 1_000
        return (GeneratedLog if self.is_generated else TelemetryLog)(
            files=self.files,
            tail_commits=self.tail,
            stats_columns=self.stats_columns,
            deletes_per_commit=self.removes // max(1, self.tail),
            row_group_rows=rows,
        )


@dataclass(frozen=True)
class BenchTable:
    """A table that is made, and the truth about it."""

    shape: Shape
    path: Path  # with its checkpoint
    sidecar_path: Path  # with a metadata sidecar
    total_size: int  # the sizes of its live files, added up

    @cached_property
    def log(self) -> TelemetryLog:
        """What it was made from."""
        return self.shape.log

    @property
    def bases(self) -> tuple[str, ...]:
        """What it can be read from."""
        return ("sidecar",) if self.shape.is_generated else ("sidecar", "checkpoint")

    @property
    def manifest_bytes(self) -> int:
        """The size of the manifest of its metadata sidecar."""
        return (self.sidecar_path / SIDECAR_FOLDER / manifest_name(self.log.checkpoint_version or 0)).stat().st_size

    def at(self, base: str) -> str:
        """Where it is with a base."""
        return str(self.sidecar_path if base == "sidecar" else self.path)


def table(shape: Shape, cache: Path = CACHE, progress: Progress | None = None, *, sidecar: bool = True) -> BenchTable:
    """Gives a table, and makes it where it is not there yet.

    Args:
        shape: Its log.
        cache: Where tables are kept.
        progress: Called now and then with the files written and the files in all.
        sidecar: Whether its metadata sidecar is built where there is none; else that folder may have none.
    """
    path = cache / shape.folder("checkpoint")
    summary = path / "summary.json"
    if not summary.exists():
        shutil.rmtree(path, ignore_errors=True)
        # The summary comes last: a table without one was not finished.
        summary.write_text(json.dumps(asdict(shape.log.write(path, progress))), encoding="utf-8")
    size = json.loads(summary.read_text(encoding="utf-8"))["table_bytes"]
    if shape.is_generated:
        return BenchTable(shape, path, path, size)
    beside = cache / shape.folder("sidecar")
    link(path, beside)
    made = BenchTable(shape, path, beside, size)
    version = made.log.checkpoint_version or 0
    if sidecar and not (beside / SIDECAR_FOLDER / manifest_name(version)).exists():
        measured(built, table=str(beside), version=version)
    return made


def built(table: str, version: int) -> Callable[[], dict[str, object]]:
    """Builds the metadata sidecar of a table, to be measured."""
    import duckdb  # noqa: F401 - an import is no part of what is measured

    from delta_sidecar.build import build_sidecar

    return lambda: build_sidecar(table, version=version).as_dict()


def warm(made: BenchTable) -> None:
    """Reads the log once, so that no reader pays for the first touch of the disk."""
    seen = set()
    for folder in (made.path, made.sidecar_path):
        for path in sorted((folder / LOG_FOLDER).rglob("*")):
            if path.is_file() and path.stat().st_ino not in seen:
                seen.add(path.stat().st_ino)
                with path.open("rb") as file:
                    while file.read(1 << 24):
                        pass


def link(source: Path, path: Path) -> None:
    """Makes a log that shares its files with another one: nobody writes into them."""
    (path / LOG_FOLDER).mkdir(parents=True, exist_ok=True)
    for file in sorted((source / LOG_FOLDER).iterdir()):
        there = path / LOG_FOLDER / file.name
        if file.is_file() and not there.exists():
            try:
                os.link(file, there)
            except OSError:
                shutil.copy2(file, there)
