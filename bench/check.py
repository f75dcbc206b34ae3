"""The guard against losses: `python -m bench.check`, which is `make bench-check`, takes three minutes at most.

Two things are compared with what `bench/expected.json` has, and a loss fails:

- *Ratios* to a peer that does comparable work in the same process, turn by turn: CPU time over CPU time, the median of
  the turns. A busy machine slows both.
- *Counts* of one more scan of a fixed table: Python's bytecode instructions, which hardly differ between runs, and
  where valgrind is there the processor's instructions, which see what Arrow does as well. They are judged only with
  the versions that they were stored with.

`--update` stores what is found, and for each ratio how much it may vary, from several rounds.
"""

from __future__ import annotations

import argparse
import os
import platform
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from functools import partial
from importlib.metadata import version
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import Struct

from bench.logs import CACHE, made_log
from bench.measure import ROOT, measured

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from types import FrameType

EXPECTED = Path(__file__).parent / "expected.json"
FILES, TAIL_COMMITS = 100_000, 200
TURNS = 9
ROUNDS = 4

LEAST_SLACK = 0.25
"""A ratio may be so much above the stored one, or twice as much as it varied in the rounds when it was stored."""

BYTECODE_SLACK = 0.01
INSTRUCTION_SLACK = 0.06
LIBRARIES = ("pyarrow", "msgspec", "numpy", "obstore", "xxhash")


class Ratio(Struct, frozen=True):
    """What a ratio was, and how much above that it may be: 0.2 for a fifth."""

    ratio: float
    slack: float


class Expected(Struct, frozen=True):
    """What is stored."""

    versions: dict[str, str]  # that counts hold for
    processor: str  # that counts of its instructions hold for
    ratios: dict[str, Ratio]
    bytecodes: dict[str, int]
    instructions: dict[str, int]


class Found(Struct, frozen=True):
    """What a run has found: of each ratio as many as there were rounds."""

    versions: dict[str, str]
    processor: str
    ratios: dict[str, list[float]]
    bytecodes: dict[str, int]
    instructions: dict[str, int]


class Verdict(Struct, frozen=True):
    """One comparison, in words."""

    text: str
    lost: bool = False


def main() -> None:
    """Measures, and fails on a loss; or stores."""
    parser = argparse.ArgumentParser("python -m bench.check", description="Fails where this library has become slower.")
    parser.add_argument("--update", action="store_true", help="store what is found in bench/expected.json")
    parser.add_argument("--rounds", type=int, help=f"rounds of ratios (default: 1, {ROUNDS} with --update)")
    parser.add_argument("--only", choices=("ratios", "counts"), help="leave the other ones out")
    arguments = parser.parse_args()
    if arguments.update and arguments.only:
        parser.error("what is stored is stored whole: --update goes without --only")
    started = time.monotonic()
    rounds = arguments.rounds or (ROUNDS if arguments.update else 1)
    found = find(0 if arguments.only == "counts" else rounds, counts=arguments.only != "ratios")
    if arguments.update:
        EXPECTED.write_bytes(msgspec.json.format(msgspec.json.encode(stored(found)), indent=2) + b"\n")
        print(f"stored in {EXPECTED.relative_to(ROOT)}")
        return
    verdicts = list(judged(load(), found))
    for verdict in verdicts:
        print(verdict.text)
    lost = sum(verdict.lost for verdict in verdicts)
    print(f"{lost} of {len(verdicts)} are losses" if lost else "no loss", f"({time.monotonic() - started:.0f} s)")
    if lost:
        print("If one is meant, or other libraries are used: python -m bench.check --update")
    sys.exit(bool(lost))


def load() -> Expected:
    """Reads what is stored."""
    return msgspec.json.decode(EXPECTED.read_bytes(), type=Expected)


def stored(found: Found) -> Expected:
    """What is to be stored of what was found."""
    ratios = {}
    for name, values in found.ratios.items():
        middle = statistics.median(values)
        spread = (max(values) - min(values)) / middle
        ratios[name] = Ratio(round(middle, 4), round(max(LEAST_SLACK, 2 * spread), 2))
    return Expected(found.versions, found.processor, ratios, found.bytecodes, found.instructions)


def judged(expected: Expected, found: Found) -> Iterator[Verdict]:
    """Compares what was found with what is stored."""
    for name, values in found.ratios.items():
        known, value = expected.ratios.get(name), statistics.median(values)
        if known is None:
            yield Verdict(f"new     {name}: {value:.3f}, not stored yet", lost=True)
            continue
        lost = value > (most := known.ratio * (1 + known.slack))
        text = f"{name}: {value:.3f} (stored {known.ratio:.3f}, at most {most:.3f})"
        yield Verdict(f"{'LOSS  ' if lost else 'ratio '}  {text}", lost)
    changed = [name for name in found.versions if found.versions[name] != expected.versions.get(name)]
    if changed:
        said = ", ".join(f"{name} {found.versions[name]} for {expected.versions.get(name)}" for name in changed)
        yield Verdict(f"skipped counts, which are stored for other versions: {said}")
        return
    yield from _judged_counts("bytecode instructions", expected.bytecodes, found.bytecodes, BYTECODE_SLACK)
    if not found.instructions:
        yield Verdict("skipped counts of the processor's instructions: they are not asked for, or there is no valgrind")
    elif found.processor != expected.processor:
        yield Verdict(f"skipped counts of the processor's instructions, which are stored for {expected.processor}")
    else:
        instructions = expected.instructions, found.instructions
        yield from _judged_counts("instructions", *instructions, INSTRUCTION_SLACK)


def _judged_counts(what: str, expected: Mapping[str, int], found: Mapping[str, int], slack: float) -> Iterator[Verdict]:
    for name, value in found.items():
        if (known := expected.get(name)) is None:
            yield Verdict(f"new     {name}: {value:,} {what}, not stored yet", lost=True)
            continue
        lost = value > known * (1 + slack)
        text = f"{name}: {value:,} {what} (stored {known:,}, at most {slack:.0%} more)"
        yield Verdict(f"{'LOSS  ' if lost else 'count '}  {text}", lost)


def find(rounds: int, *, counts: bool) -> Found:
    """Measures everything, each in a process of its own."""
    # Sets of texts are then in the same order each time.
    os.environ["PYTHONHASHSEED"] = "0"
    tables = made_tables()
    ratios: dict[str, list[float]] = {}
    for _ in range(rounds):
        for name in PAIRS:
            answer = measured(paired, name=name, tables=tables).answer
            ratios.setdefault(f"{name} / {answer['peer']}", []).append(answer["ratio"])
        ratios.setdefault("start of the command / import pyarrow.parquet", []).append(_start_up(tables))
    bytecodes, instructions = {}, {}
    if counts:
        bytecodes = {name: measured(traced, name=name, tables=tables).answer["count"] for name in COUNTED}
        if (valgrind := shutil.which("valgrind")) is not None:
            instructions = {name: _instructions(valgrind, name, tables) for name in UNDER_VALGRIND}
    versions = {"python": platform.python_version(), **{name: version(name) for name in LIBRARIES}}
    return Found(versions, _processor(), ratios, bytecodes, instructions)


def made_tables(cache: Path = CACHE, files: int = FILES, commits: int = TAIL_COMMITS) -> dict[str, str]:
    """Makes the tables, unless they are there: their places, and the newest hour of the large one."""
    from delta_sidecar.synth import TelemetryLog

    log, checkpoint, sidecar = made_log(files, cache)
    tail = cache / f"log-commits-{commits}"
    if not tail.exists():
        draft = tail.with_suffix(".draft")
        shutil.rmtree(draft, ignore_errors=True)
        TelemetryLog(files=0, checkpoint=None, tail_commits=commits).write(draft)
        draft.rename(tail)
    return {"checkpoint": str(checkpoint), "sidecar": str(sidecar), "commits": str(tail), "hour": log.newest_hour}


# Ratios: what each of the two does, how often in a turn, and the files that it has to find.

_COLUMNS = ["path", "size", "modification_time", "partition_values"]


def paired(name: str, tables: dict[str, str]) -> Callable[[], dict[str, Any]]:
    """One ratio: this library and a peer, turn by turn."""
    kind, limit, peer_of, peer_name, times = PAIRS[name]
    ours, peer = scan_of(tables, kind, limit), peer_of(tables)

    def cpu(do: Callable[[], object], count: int) -> float:
        started = time.process_time()
        for _ in range(count):
            do()
        return (time.process_time() - started) / count

    def work() -> dict[str, Any]:
        # The first turn of each is warm-up.
        turns = [cpu(ours, times) / cpu(peer, 1) for _ in range(TURNS + 1)][1:]
        return {"peer": peer_name, "ratio": statistics.median(turns)}

    return work


def scan_of(tables: dict[str, str], kind: str, limit: int | None = None) -> Callable[[], int]:
    """A scan of this library, which gives the number of files: of the newest hour, of the first ones, or of all."""
    from delta_sidecar import LazyDeltaScanner, LazyScanConfig

    kind, _, is_hour = kind.partition(" ")
    config = LazyScanConfig(predicate=f"_event_hour = '{tables['hour']}'" if is_hour else None, limit=limit)

    def scan() -> int:
        with LazyDeltaScanner(tables[kind], config) as scanner:
            return sum(batch.num_rows for batch in scanner.scan_batches(_COLUMNS))

    if scan() == 0:
        msg = f"a scan of {tables[kind]} found nothing"
        raise RuntimeError(msg)
    return scan


def _deltalake(tables: dict[str, str]) -> Callable[[], object]:
    from deltalake import DeltaTable

    partition = [("_event_hour", "=", tables["hour"])]
    return lambda: DeltaTable(tables["checkpoint"]).file_uris(partition_filters=partition)


def _parquet(tables: dict[str, str], kind: str, columns: list[str]) -> Callable[[], object]:
    import pyarrow.parquet as pq

    log = Path(tables[kind]) / "_delta_log"
    pattern = "_sidecars/v*.parquet" if kind == "sidecar" else "*.checkpoint.parquet"
    (path,) = log.glob(pattern)
    return lambda: pq.ParquetFile(path).read(columns=columns, use_threads=False)


def _json(tables: dict[str, str]) -> Callable[[], object]:
    import pyarrow as pa
    import pyarrow.json as pj

    texts = {"path": pa.string(), "stats": pa.string()}
    numbers = {"size": pa.int64(), "modificationTime": pa.int64()}
    add = pa.struct({**texts, **numbers, "partitionValues": pa.struct({"_event_hour": pa.string()})}.items())
    schema = pa.schema({"add": add, "remove": pa.struct([("path", pa.string())])})
    parse = pj.ParseOptions(explicit_schema=schema, unexpected_field_behavior="ignore")
    read = pj.ReadOptions(use_threads=False, block_size=1 << 27)
    paths = sorted(Path(tables["commits"], "_delta_log").glob("*[0-9].json"))

    def work() -> object:
        data = b"".join(path.read_bytes() for path in paths)
        return pj.read_json(pa.BufferReader(data), read_options=read, parse_options=parse)

    return work


PAIRS: dict[str, tuple[str, int | None, Callable[[dict[str, str]], Callable[[], object]], str, int]] = {
    "last hour, metadata sidecar": ("sidecar hour", None, _deltalake, "deltalake's listing", 10),
    "first file": ("sidecar", 1, _json, "pyarrow.json", 10),
    "all files, metadata sidecar": (
        "sidecar",
        None,
        partial(_parquet, kind="sidecar", columns=["path", "size", "modification_time", "_event_hour"]),
        "pyarrow.parquet",
        1,
    ),
    "last hour, checkpoint": (
        "checkpoint hour",
        None,
        partial(
            _parquet,
            kind="checkpoint",
            columns=["add.path", "add.size", "add.modificationTime", "add.partitionValues"],
        ),
        "pyarrow.parquet",
        1,
    ),
    "all files, commits alone": ("commits", None, _json, "pyarrow.json", 1),
}


def _start_up(tables: dict[str, str]) -> float:
    """CPU time of the command that finds one file, over that of importing pyarrow.parquet, of fresh processes."""
    program = [sys.executable, "-m", "delta_sidecar.cli", "files", tables["sidecar"], "--limit", "1"]
    where = ["--where", f"_event_hour = '{tables['hour']}'"]
    peer = [sys.executable, "-c", "import pyarrow.parquet"]
    turns = [_cpu_of([*program, *where]) / _cpu_of(peer) for _ in range(TURNS // 2 + 1)]
    return statistics.median(turns[1:])


def _cpu_of(command: Sequence[str]) -> float:
    before = os.times()
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    after = os.times()
    return after.children_user + after.children_system - before.children_user - before.children_system


# Counts.

COUNTED = {
    "last hour, metadata sidecar": ("sidecar hour", None),
    "first file": ("sidecar", 1),
    "last hour, checkpoint": ("checkpoint hour", None),
    "all files, commits alone": ("commits", None),
}

UNDER_VALGRIND = {"last hour, metadata sidecar": (2, 22), "all files, commits alone": (2, 6)}
"""Few scans and many: the start of a process varies by half a hundredth, and is divided by their difference."""


def traced(name: str, tables: dict[str, str]) -> Callable[[], dict[str, Any]]:
    """Counts the bytecode instructions of a scan in the caller's thread, after another scan."""
    scan = scan_of(tables, *COUNTED[name])

    def work() -> dict[str, Any]:
        return {"count": bytecodes(scan)}

    return work


def bytecodes(work: Callable[[], object]) -> int:
    """Counts the bytecode instructions that this thread runs for a piece of work."""
    count = 0

    def trace(frame: FrameType, event: str, _: object) -> Any:  # noqa: ANN401 - what it gives is itself
        nonlocal count
        frame.f_trace_opcodes, frame.f_trace_lines = True, False
        count += event == "opcode"
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        work()
    finally:
        sys.settrace(before)
    return count


def scans(name: str, tables: dict[str, str], count: int) -> Callable[[], dict[str, Any]]:
    """Scans so often."""
    scan = scan_of(tables, *COUNTED[name])

    def work() -> dict[str, Any]:
        return {"files": [scan() for _ in range(count)]}

    return work


def _instructions(valgrind: str, name: str, tables: dict[str, str]) -> int:
    """Instructions of one scan: those of a process with many, less those of one with few."""
    few, many = UNDER_VALGRIND[name]
    return (_refs(valgrind, name, tables, many) - _refs(valgrind, name, tables, few)) // (many - few)


def _refs(valgrind: str, name: str, tables: dict[str, str], count: int) -> int:
    asked = msgspec.json.encode({"name": name, "tables": tables, "count": count}).decode()
    with tempfile.NamedTemporaryFile("r") as log:
        flags = ["--tool=cachegrind", "--cache-sim=no", "--cachegrind-out-file=/dev/null", f"--log-file={log.name}"]
        program = [sys.executable, "-m", "bench.measure", "bench.check:scans", asked]
        subprocess.run([valgrind, *flags, *program], check=True, cwd=ROOT, stdout=subprocess.DEVNULL)
        (refs,) = re.findall(r"I\s+refs:\s+([\d,]+)", Path(log.name).read_text(encoding="utf-8"))
    return int(refs.replace(",", ""))


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return platform.processor()
    names = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(chain(names, [platform.machine()]))


if __name__ == "__main__":
    # What is measured is found by the name of its module.
    from bench.check import main as check_losses

    check_losses()
