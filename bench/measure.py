"""Time and memory of one piece of work, in a process of its own."""

from __future__ import annotations

import importlib
import json
import os
import subprocess
import sys
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    Work = Callable[..., Callable[[], dict[str, Any]]]
    """Gets ready, imports included, and gives what is to be measured."""

ROOT = Path(__file__).parents[1]


@dataclass(frozen=True, slots=True)
class Measurement:
    """What a piece of work took.

    Attributes:
        answer: What it gave.
        seconds: How long it took, without imports.
        cpu_seconds: The time of all its threads together.
        peak_bytes: How much its memory rose above what it was after the imports.
    """

    answer: dict[str, Any]
    seconds: float
    cpu_seconds: float
    peak_bytes: int


def measured(work: Work, **arguments: object) -> Measurement:
    """Does a piece of work in a fresh interpreter.

    Args:
        work: A function of a module.
        arguments: Its arguments, as JSON can hold them.

    Raises:
        subprocess.CalledProcessError: It failed; what it said is on stderr.
    """
    return measured_by([sys.executable], work, arguments)


def measured_by(
    interpreter: Sequence[str],
    work: Work,
    arguments: Mapping[str, object],
    environment: Mapping[str, str] | None = None,
) -> Measurement:
    """Does a piece of work in a fresh interpreter that is started in some way.

    Raises:
        subprocess.CalledProcessError: It failed; what it said is on stderr.
    """
    name = f"{work.__module__}:{work.__qualname__}"
    command = [*interpreter, "-m", "bench.measure", name, json.dumps(arguments)]
    run = subprocess.run(
        command, check=True, cwd=ROOT, stdout=subprocess.PIPE, env={**os.environ, **(environment or {})}
    )
    # What is measured may print as well.
    return Measurement(**json.loads(run.stdout.splitlines()[-1]))


def peak_memory() -> int:
    """The most memory that this process has had so far, in bytes."""
    # ru_maxrss counts what the parent had before this program was started in its place; this does not.
    with suppress(OSError):
        return int(Path("/proc/self/status").read_text(encoding="ascii").partition("VmHWM:")[2].split()[0]) * 1024
    import resource

    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)


def limit_memory(share: float = 0.6) -> int:
    """Ends this process rather than the machine: it gets no more than a share of the memory that there is.

    Returns:
        The limit in bytes.
    """
    import resource

    limit = int(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") * share)
    resource.setrlimit(resource.RLIMIT_DATA, (limit, limit))
    return limit


def _main(name: str, arguments: str) -> None:
    module, _, function = name.partition(":")
    work = getattr(importlib.import_module(module), function)(**json.loads(arguments))
    before, cpu, started = peak_memory(), time.process_time(), time.perf_counter()
    answer = work()
    taken = {"seconds": time.perf_counter() - started, "cpu_seconds": time.process_time() - cpu}
    print(json.dumps({"answer": answer, "peak_bytes": peak_memory() - before, **taken}))


if __name__ == "__main__":
    _main(*sys.argv[1:])
