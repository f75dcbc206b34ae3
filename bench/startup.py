"""Start-up: the CPU time of cold processes, beside the import that none of them can do without.

    python -m bench.startup

Whole processes, from their start to their end: user and system time, so that waiting for a busy machine does not count.
Every round runs each process once, in turn. The first round does not count: it warms the disk, and writes the bytecode
of what is imported; with `--without-bytecode` every module is compiled anew in every process instead, as where nobody
may write.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec
from rich.console import Console
from rich.table import Table

from bench.results import Run, measurement
from bench.shapes import CACHE
from bench.words import duration, size
from delta_sidecar import build_sidecar
from delta_sidecar.synth import TelemetryLog

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

FILES = 100_000
OURS, PEER = "delta-sidecar", "pyarrow"


class Process(NamedTuple):
    """A process that is measured.

    Attributes:
        reader: Whose it is.
        question: What it does.
        variant: What of this library it takes; the command's first file, which has a budget, has none.
        arguments: Those of Python.
    """

    reader: str
    question: str
    variant: str
    arguments: tuple[str, ...]


def processes(path: Path, hour: str) -> list[Process]:
    """The processes that read a table, and the import that they are compared with.

    Args:
        path: A table with a metadata sidecar.
        hour: Its newest time bucket.
    """
    where = f"_event_hour = '{hour}'"
    command = ("-m", "delta_sidecar.cli")
    scanner = f"delta_sidecar.LazyDeltaScanner({str(path)!r}, delta_sidecar.LazyScanConfig({where!r}, limit=1))"
    return [
        Process(PEER, "import pyarrow.parquet", "", ("-c", "import pyarrow.parquet")),
        Process(OURS, "files, limit 1", "", (*command, "files", str(path), "--where", where, "--limit", "1")),
        Process(OURS, "help", "--help", (*command, "--help")),
        Process(OURS, "first file", "Python", ("-c", f"import delta_sidecar; next(iter({scanner}.scan_files()))")),
        Process(
            OURS,
            "version",
            "DeltaTable",
            ("-c", f"import delta_sidecar; delta_sidecar.DeltaTable({str(path)!r}).version()"),
        ),
    ]


NEIGHBOURS = (
    Process("Python", "nothing", "", ("-c", "")),
    Process("deltalake", "import deltalake", "", ("-c", "import deltalake")),
)
"""What is of interest beside them, and no reader of a table."""


def measurements(
    progress: Callable[[str], object],
    *,
    files: int = FILES,
    rounds: int = 10,
    cache: Path = CACHE,
    neighbours: bool = False,
    compiled: bool = True,
) -> Iterator[dict[str, Any]]:
    """Measures the processes in turn, all of them in each round.

    Args:
        progress: Is told what goes on.
        files: Size of the table.
        rounds: How often each is run.
        cache: Where the table is kept.
        neighbours: Whether `NEIGHBOURS` are measured too.
        compiled: Whether modules are there as bytecode.

    Raises:
        RuntimeError: A process failed.
    """
    progress(f"start-up, {files:,} files: the table")
    path, hour = made_table(cache, files)
    measured = [*processes(path, hour), *(NEIGHBOURS if neighbours else ())]
    runs: list[list[Run]] = [[] for _ in measured]
    with _environment(compiled=compiled) as environment:
        for number in range(rounds + 1):
            progress(f"start-up, {files:,} files: round {number} of {rounds}")
            for process, found in zip(measured, runs, strict=True):
                run = spent(process.arguments, environment)
                if number:
                    found.append(run)
    for process, found in zip(measured, runs, strict=True):
        is_ours = process.reader == OURS
        yield msgspec.to_builtins(
            measurement(
                found,
                suite="startup",
                shape=f"{files:,} files",
                files=files if is_ours else 0,
                base="sidecar" if is_ours else "",
                question=process.question,
                reader=process.reader,
                variant=process.variant,
                extra={"bytecode": compiled},
            )
        )


# Starts a process and prints what it took. It is smaller than what it starts: the most memory that a process has had
# counts what the one that started it had.
_STARTER = """
import os, sys
out = os.open(os.devnull, os.O_WRONLY)
process = os.posix_spawn(sys.executable, [sys.executable, *sys.argv[1:]], os.environ,
    file_actions=[(os.POSIX_SPAWN_DUP2, out, 1)])
_, status, usage = os.wait4(process, 0)
print(usage.ru_utime + usage.ru_stime, usage.ru_maxrss)
sys.exit(status != 0)
"""


def spent(arguments: tuple[str, ...], environment: Mapping[str, str]) -> Run:
    """The CPU time of a process of Python, and the most memory that it had; its time is its CPU time.

    Raises:
        RuntimeError: It failed; what it said is on stderr.
    """
    command = [sys.executable, "-I", "-S", "-c", _STARTER, *arguments]
    done = subprocess.run(command, check=False, stdout=subprocess.PIPE, env=dict(environment), text=True)
    if done.returncode:
        msg = f"it failed: python {' '.join(arguments)}"
        raise RuntimeError(msg)
    seconds, kilobytes = done.stdout.split()
    return Run(seconds=float(seconds), cpu_seconds=float(seconds), peak_bytes=int(kilobytes) * 1024)


@contextmanager
def _environment(*, compiled: bool) -> Iterator[dict[str, str]]:
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    if compiled:
        yield environment
    else:
        with tempfile.TemporaryDirectory() as empty:
            yield environment | {"PYTHONPYCACHEPREFIX": empty, "PYTHONDONTWRITEBYTECODE": "1"}


def made_table(cache: Path, files: int) -> tuple[Path, str]:
    """A table with a metadata sidecar at its newest version, and its newest hour; made where it is not there yet."""
    path = cache / f"startup-{files}"
    notes = path / "summary.json"
    if not notes.exists():
        written = TelemetryLog(files=files).write(path)
        build_sidecar(str(path))
        # The notes come last: a table without them was not finished.
        notes.write_text(json.dumps({"hour": written.newest_hour}), encoding="utf-8")
    return path, json.loads(notes.read_text(encoding="utf-8"))["hour"]


def main() -> None:
    """Makes the table, measures, and prints."""
    parser = argparse.ArgumentParser("python -m bench.startup", description="CPU time of cold processes.")
    parser.add_argument("--files", type=int, default=FILES, help="files of the table (default: %(default)s)")
    parser.add_argument("--rounds", type=int, default=10, help="runs of each process (default: %(default)s)")
    parser.add_argument("--cache", type=Path, default=CACHE, metavar="PATH", help="where the table is kept")
    parser.add_argument("--without-bytecode", action="store_true", help="compile every module in every process")
    parser.add_argument("--json", type=Path, metavar="PATH", help="write the figures there too")
    of = parser.parse_args()
    console = Console(highlight=False)
    with console.status("") as status:
        compiled = not of.without_bytecode
        found = list(
            measurements(
                status.update, files=of.files, rounds=of.rounds, cache=of.cache, neighbours=True, compiled=compiled
            )
        )
    peer = next(each["median"]["seconds"] for each in found if each["reader"] == PEER)
    table = Table(caption="CPU time of whole processes; bytecode " + ("is there" if compiled else "is not there"))
    table.add_column("process")
    for title in ("median", "least", "most", f"x {PEER}", "memory"):
        table.add_column(title, justify="right")
    for each in found:
        seconds = each["median"]["seconds"]
        times = map(duration, (seconds, *each["spread"]["seconds"]))
        memory = size(each["median"]["peak_bytes"])
        table.add_row(f"{each['reader']}: {each['question']}", *times, f"{seconds / peer:.2f}", memory)
    console.print(table)
    console.print("\n[bold]To reproduce[/]: .venv/bin/python -m bench.startup")
    if of.json:
        of.json.write_text(json.dumps(found, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
