"""`python -m bench.full_build [--files N]`: a build of a metadata sidecar, and DuckDB's own sort of the same rows."""

from __future__ import annotations

import argparse
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING

from rich.console import Console

from bench import duckdb_sort, report
from bench.measure import measured
from bench.questions import WrongAnswerError
from bench.tables import CACHE, table, warm

if TYPE_CHECKING:
    from bench.measure import Work


def main() -> None:
    """Makes the table, measures in turns, and prints."""
    parser = argparse.ArgumentParser("python -m bench.full_build", description="A build beside DuckDB's sort.")
    parser.add_argument("--files", type=int, default=10_000_000, help="files in the checkpoint (default: %(default)s)")
    parser.add_argument("--runs", type=int, default=1, help="runs of each; the median counts (default: %(default)s)")
    parser.add_argument("--layout", choices=["sidecar", "wide"], default="sidecar", help="which table")
    parser.add_argument("--cache", type=Path, default=CACHE, metavar="PATH", help="where tables are kept")
    arguments = parser.parse_args()
    made = table(arguments.layout, arguments.files, arguments.cache)
    warm(made)
    works: dict[str, Work] = {
        "delta-sidecar, build": duckdb_sort.build,
        "DuckDB, from the checkpoint": duckdb_sort.from_checkpoint,
        "DuckDB, the sort alone": duckdb_sort.sort_alone,
    }
    found: dict[str, list[tuple[float, float, int]]] = {name: [] for name in works}
    for _ in range(arguments.runs):
        for name, work in works.items():
            run = measured(work, table=str(made.path), version=made.log.checkpoint_version)
            # The checkpoint has the files without those of the commits behind it.
            if run.answer["files"] != made.log.files:
                msg = f"{name}: {run.answer}"
                raise WrongAnswerError(msg)
            found[name].append((run.seconds, run.answer["cpu_seconds"], run.peak_bytes))
    shown = report.grid("reader", right=("time", "processor", "memory", "build takes"))
    ours = median(seconds for seconds, _, _ in found["delta-sidecar, build"])
    for name, runs in found.items():
        seconds, cpu = (median(run[place] for run in runs) for place in (0, 1))
        memory = report.bytes_text(max(run[2] for run in runs))
        shown.add_row(name, report.duration(seconds), report.duration(cpu), memory, f"{ours / seconds:.2f}x")
    Console(highlight=False).print(shown)


if __name__ == "__main__":
    main()
