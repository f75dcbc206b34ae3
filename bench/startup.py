"""Start-up: the CPU time of cold processes, beside the imports that none of them can do without.

    python -m bench.startup

The budget is a ratio: the first file of a table with a metadata sidecar, by the command, beside
`import pyarrow.parquet`.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.table import Table

from bench import report
from bench.tables import CACHE
from delta_sidecar import build_sidecar
from delta_sidecar.synth import TelemetryLog

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

FILES = 100_000
PEER = "import pyarrow.parquet"
COMMAND = "delta-sidecar files --limit 1"
BUDGET = 1.5
"""The most that `COMMAND` may take, in times of `PEER`."""

CAVEATS = (
    "CPU time, user and system, of whole processes: a process of several threads takes less by the clock. Every round "
    "runs each process once, and the first round does not count: it warms the disk and writes the bytecode."
)


def processes(path: Path, hour: str) -> dict[str, list[str]]:
    """The processes that are measured, by name.

    Args:
        path: A table with a metadata sidecar.
        hour: Its newest time bucket.
    """
    where = f"_event_hour = '{hour}'"
    command = [sys.executable, "-m", "delta_sidecar.cli"]
    ours = f"from delta_sidecar import DeltaTable, LazyDeltaScanner, LazyScanConfig; place = {str(path)!r}; "
    scanner = f"LazyDeltaScanner(place, LazyScanConfig(predicate={where!r}, limit=1))"
    return {
        "python": [sys.executable, "-c", ""],
        PEER: [sys.executable, "-c", PEER],
        "import deltalake": [sys.executable, "-c", "import deltalake"],
        "delta-sidecar --help": [*command, "--help"],
        COMMAND: [*command, "files", str(path), "--where", where, "--limit", "1"],
        "LazyDeltaScanner, first file": [sys.executable, "-c", f"{ours}next(iter({scanner}.scan_files()))"],
        "DeltaTable, version": [sys.executable, "-c", f"{ours}DeltaTable(place).version()"],
    }


def measurements(path: Path, hour: str, rounds: int = 10, *, compiled: bool = True) -> list[dict[str, Any]]:
    """Measures the processes of `processes`, interleaved.

    Args:
        path: A table with a metadata sidecar.
        hour: Its newest time bucket.
        rounds: How often each is run.
        compiled: Whether modules are there as bytecode, as they are after the first run on most machines; else every
            module is compiled anew, as where nobody may write bytecode.

    Returns:
        For each its name, the CPU seconds of all runs, their median, least and most, and the median in times of `PEER`.

    Raises:
        RuntimeError: A process failed; what it said is on stderr.
    """
    commands = processes(path, hour)
    found: dict[str, list[float]] = {name: [] for name in commands}
    with _environment(compiled=compiled) as environment:
        for number in range(rounds + 1):
            for name, command in commands.items():
                seconds = cpu_seconds(command, environment)
                if number:
                    found[name].append(seconds)
    peer = median(found[PEER])
    return [
        {
            "name": name,
            "compiled": compiled,
            "runs": runs,
            "seconds": median(runs),
            "least": min(runs),
            "most": max(runs),
            "ratio": median(runs) / peer,
        }
        for name, runs in found.items()
    ]


def cpu_seconds(command: list[str], environment: Mapping[str, str]) -> float:
    """The CPU time of a process and its children, user and system.

    Raises:
        RuntimeError: It failed.
    """
    nowhere = [(os.POSIX_SPAWN_OPEN, 1, os.devnull, os.O_WRONLY, 0)]
    process = os.posix_spawn(command[0], command, environment, file_actions=nowhere)
    _, status, usage = os.wait4(process, 0)
    if status:
        msg = f"it failed: {' '.join(command)}"
        raise RuntimeError(msg)
    return usage.ru_utime + usage.ru_stime


@contextmanager
def _environment(*, compiled: bool) -> Iterator[dict[str, str]]:
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    if compiled:
        yield environment
    else:
        with tempfile.TemporaryDirectory() as empty:
            yield environment | {"PYTHONPYCACHEPREFIX": empty, "PYTHONDONTWRITEBYTECODE": "1"}


def made_table(cache: Path = CACHE, files: int = FILES) -> tuple[Path, str]:
    """A table with a metadata sidecar and its newest time bucket; made where it is not there yet."""
    path = cache / f"startup-{files}"
    notes = path / "summary.json"
    if not notes.exists():
        written = TelemetryLog(files=files).write(path)
        build_sidecar(str(path))
        notes.write_text(json.dumps({"hour": written.newest_hour}), encoding="utf-8")
    return path, json.loads(notes.read_text(encoding="utf-8"))["hour"]


def main() -> None:
    """Makes the table, measures, and prints."""
    parser = argparse.ArgumentParser("python -m bench.startup", description="CPU time of cold processes.")
    parser.add_argument("--rounds", type=int, default=10, help="runs of each process (default: %(default)s)")
    parser.add_argument("--cache", type=Path, default=CACHE, metavar="PATH", help="where the table is kept")
    parser.add_argument("--without-bytecode", action="store_true", help="compile every module anew in every process")
    parser.add_argument("--json", type=Path, metavar="PATH", help="write the figures there too")
    arguments = parser.parse_args()
    console = Console(highlight=False)
    console.print("[bold]Before you read the figures[/]")
    console.print(CAVEATS)
    console.print(f"{FILES:,} files; {report.machine()}\n", style="dim")
    path, hour = made_table(arguments.cache)
    found = measurements(path, hour, arguments.rounds, compiled=not arguments.without_bytecode)
    table = Table(title="without bytecode" if arguments.without_bytecode else None)
    table.add_column("process")
    for title in ("CPU, median", "least", "most", f"in times of {PEER}"):
        table.add_column(title, justify="right")
    for each in found:
        times = (f"{each[name] * 1000:.0f} ms" for name in ("seconds", "least", "most"))
        table.add_row(each["name"], *times, f"{each['ratio']:.2f}")
    console.print(table)
    ratio = next(each["ratio"] for each in found if each["name"] == COMMAND)
    console.print(f"Budget of {COMMAND}: {BUDGET} times {PEER}: {'met' if ratio <= BUDGET else 'not met'}")
    console.print("\n[bold]To reproduce[/]: .venv/bin/python -m bench.startup")
    if arguments.json:
        arguments.json.write_text(json.dumps(found, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
