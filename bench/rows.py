"""Rows of real data files: the first one, and those of the newest hour, through this library and beside others.

The data files are small, 20 rows each, partitioned by hour, with statistics: what is compared is what it takes to get
to the rows. Every reader opens the table anew. A frame of Polars comes whole: its first row comes with its last.
"""

from __future__ import annotations

import os
import shutil
import sys
from functools import partial
from typing import TYPE_CHECKING, Any

import msgspec
from tests.small_files import FILES_AN_HOUR, TAIL, hour_name, small_files

from bench import row_peers, row_readers
from bench.measure import measured, measured_by
from bench.questions import WrongAnswerError
from bench.readers.ours import NAME
from bench.results import Run, measurement
from bench.shapes import CACHE
from delta_sidecar.build import build_sidecar

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from bench.measure import Measurement

    Asked = Callable[..., Measurement]

_COLUMNS_WITH_STATISTICS = 3
# Where it is not read to its end the process crashes, or never ends.
_UNSTOPPABLE = "deltalake, dataset"
_QUESTIONS = (("first row", 1), ("last hour", None))


def measurements(
    progress: Callable[[str], object], *, files: int = 100_000, runs: int = 3, cache: Path = CACHE
) -> Iterator[dict[str, Any]]:
    """Measures readers in turns.

    Args:
        progress: Is told what goes on.
        files: Data files of the table.
        runs: How often each reader is asked.
        cache: Where the table is kept.

    Raises:
        WrongAnswerError: Readers do not agree on the rows.
    """
    tables = dict(zip(("checkpoint", "sidecar"), _tables(files, cache, progress), strict=True))
    hour = hour_name(-(-files // FILES_AN_HOUR) - 1)
    readers = _readers()
    for question, limit in _QUESTIONS:
        found: dict[tuple[str, str], list[Run]] = {of: [] for of in readers}
        answers = set()
        for number in range(runs):
            for (reader, base), ask in readers.items() if number % 2 == 0 else reversed(readers.items()):
                progress(f"rows, {question}: {reader}, {base}, {number + 1} of {runs}")
                if limit is not None and reader == _UNSTOPPABLE:
                    continue
                done = ask(table=str(tables[base]), hour=hour, limit=limit)
                found[reader, base].append(_run(done))
                # Any row may be the first.
                answers.add((done.answer["rows"], None if limit else done.answer["total"]))
        if len(answers) != 1:
            msg = f"the readers do not agree on {question}: {answers}"
            raise WrongAnswerError(msg)
        for (reader, base), runs_of in found.items():
            if runs_of:
                yield _measurement(files, runs_of, {"base": base, "question": question, "reader": reader})


def _run(done: Measurement) -> Run:
    first = done.answer["first_seconds"]
    memory = max(0, done.peak_bytes)
    return Run(seconds=done.seconds, first_seconds=first, cpu_seconds=done.cpu_seconds, peak_bytes=memory)


def _measurement(files: int, runs: list[Run], of: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = msgspec.to_builtins(
        measurement(
            runs,
            suite="rows",
            shape=f"{files:,} data files",
            files=files,
            tail=TAIL,
            stats_columns=_COLUMNS_WITH_STATISTICS,
            **of,
        )
    )
    return found


def _readers() -> dict[tuple[str, str], Asked]:
    """Who is asked, and on which base."""
    ours: dict[str, Asked] = {
        f"{NAME}, DeltaTable": partial(measured, row_readers.ours),
        f"{NAME}, DuckDB": partial(measured, row_readers.ours_duckdb),
        f"{NAME}, Polars": partial(measured, row_readers.ours_polars),
        f"{NAME}, DataFusion": partial(measured, row_readers.ours_datafusion),
    }
    peers: dict[str, Asked] = {
        _UNSTOPPABLE: partial(measured, row_readers.deltalake_dataset),
        "deltalake, DataFusion": partial(measured, row_readers.deltalake_sql),
        "Polars": partial(measured, row_readers.polars_delta),
        "DuckDB delta": _duckdb_delta,
    }
    found = {(reader, base): ask for reader, ask in ours.items() for base in ("sidecar", "checkpoint")}
    return found | {(reader, "checkpoint"): ask for reader, ask in peers.items()}


def _duckdb_delta(**asked: object) -> Measurement:
    environment = row_peers.in_own_environment()
    return measured_by([sys.executable, "-S", "-P"], row_peers.duckdb_delta, asked, environment)


def _tables(files: int, cache: Path, progress: Callable[[str], object]) -> tuple[Path, Path]:
    """The same data files with a checkpoint alone, and with a metadata sidecar beside it."""
    plain, beside = cache / f"rows-{files}", cache / f"rows-sidecar-{files}"
    done = beside / "done"
    if not done.exists():
        progress(f"writing {files:,} data files")
        for path in (plain, beside):
            shutil.rmtree(path, ignore_errors=True)
        small_files(plain, files)
        # The data files are not written again.
        shutil.copytree(plain, beside, copy_function=os.link)
        build_sidecar(beside)
        done.touch()
    return plain, beside
