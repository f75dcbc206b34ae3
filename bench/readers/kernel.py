"""delta-kernel-rs, by a small lister in Rust (`bench/kernel`) that is built where it is first asked.

Files are visited one by one, as engines do that plan tasks from them; or they stay Arrow batches, without statistics
where the question does not ask for those. Both do less than their engines: nothing is handed to Python.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from functools import partial
from typing import TYPE_CHECKING, Any

from bench.measure import ROOT, Measurement
from bench.readers.reader import NotHereError, Reader

if TYPE_CHECKING:
    from collections.abc import Callable

NAME = "delta-kernel-rs"
VERSION = "0.30.1"
VISITING = "visiting"
BATCHES = "batches"

SOURCE = ROOT / "bench" / "kernel"
TARGET = ROOT / ".cache" / "kernel"
_SOURCES = (SOURCE / "Cargo.toml", SOURCE / "src" / "main.rs")
PROGRAM = TARGET / "release" / "kernel-lister"
_OF_WHOLE_TABLE = frozenset({"all files", "last hour, paths", "one day"})


def readers() -> list[Reader]:
    """Both ways of it. With a limit, only visiting knows where to end."""
    return [
        Reader(NAME, partial(_answer, batches=False), variant=VISITING),
        Reader(NAME, partial(_answer, batches=True), variant=BATCHES, questions=_OF_WHOLE_TABLE),
    ]


def built(say: Callable[[str], None] = lambda _: None) -> None:
    """Builds the lister, unless it is there and no older than its source.

    Args:
        say: Is told before a build begins: the first one takes 10 to 15 minutes of two cores.

    Raises:
        NotHereError: There is no cargo, or the build failed.
    """
    if is_built():
        return
    cargo = shutil.which("cargo")
    if cargo is None:
        msg = "no cargo here: the kernel was not measured (rustup.rs has it)"
        raise NotHereError(msg)
    say("building the kernel's lister: 10 to 15 minutes where it was never built (--no-kernel leaves it out)")
    command = [cargo, "build", "--release", "--quiet", "--manifest-path", str(_SOURCES[0])]
    command = [*([nice] if (nice := shutil.which("nice")) else []), *command]
    run = subprocess.run(
        command, env={**os.environ, "CARGO_TARGET_DIR": str(TARGET)}, capture_output=True, text=True, check=False
    )
    if run.returncode:
        why = next((line for line in run.stderr.splitlines() if line.startswith("error")), "see cargo build")
        msg = f"the kernel's lister could not be built, so it was not measured: {why}"
        raise NotHereError(msg)


def is_built() -> bool:
    """Whether the lister is there, and no older than its source."""
    return PROGRAM.exists() and all(each.stat().st_mtime <= PROGRAM.stat().st_mtime for each in _SOURCES)


def _answer(path: str, ask: dict[str, Any], *, batches: bool) -> Measurement:
    command = [str(PROGRAM), path, ask["kind"]]
    if ask["kind"] in {"hour", "day"}:
        command += ["--hour", ask[ask["kind"]]]
    if ask["kind"] == "statistics":
        first, last = ask["sequence"]
        command += ["--from", str(first), "--to", str(last)]
    if ask["limit"] is not None:
        command += ["--limit", str(ask["limit"])]
    if batches:
        command.append("--batches")
    # Without statistics it would prune nothing.
    if ask["kind"] == "all" and ask["columns"] is not None:
        command.append("--no-statistics")
    run = subprocess.run(command, check=True, stdout=subprocess.PIPE)
    found = json.loads(run.stdout)
    return Measurement(found, found["seconds"], found["cpu_seconds"], found["peak_memory"] - found["memory_before"])
