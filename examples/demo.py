"""A table log of a million files, and what a lazy reader reads of it.

    make demo                              or: python examples/demo.py --files 200000

The log is Delta's real format, made on the spot and deleted at the end; there are no data files behind it. Every
question is asked in a process of its own, so that its memory can be told from that of the others.
"""

from __future__ import annotations

import argparse
import datetime as dt
import json
import resource
import subprocess
import sys
import tempfile
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
from rich import box
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn
from rich.table import Table

from delta_sidecar import LazyDeltaScanner, LazyScanConfig
from delta_sidecar.synth import SynthSummary, TelemetryLog

Answer = dict[str, Any]


def main() -> None:
    """Makes the table, asks three questions and shows what they read."""
    parser = argparse.ArgumentParser(description="What a lazy reader reads of a table log with a million files.")
    parser.add_argument("--files", type=int, default=1_000_000, help="files in the checkpoint (default: %(default)s)")
    parser.add_argument("--ask", nargs=2, metavar=("TABLE", "CONFIG"), help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.ask:
        table, config = arguments.ask
        print(json.dumps(ask(table, LazyScanConfig(**json.loads(config)))))
        return
    with tempfile.TemporaryDirectory(prefix="delta-sidecar-demo-") as folder:
        show(TelemetryLog(files=arguments.files), Path(folder) / "telemetry", Console(highlight=False))


def show(log: TelemetryLog, table: Path, console: Console) -> None:
    """Writes the table, asks the questions and shows the answers beside a full load."""
    written = write(log, table, console)
    answers: dict[str, Answer] = {}
    for name, (config, expected) in questions(log).items():
        with console.status(f"Asking for {name} ..."):
            answers[name] = in_its_own_process(table, config)
        if answers[name]["files"] != expected:
            sys.exit(f"{name}: {answers[name]['files']} files were found, and there are {expected}")
    whole = full_load(table, written)
    console.print(comparison(answers, whole))
    console.print(meaning(answers["the newest 100"], whole))
    console.print("A full load is not run here: its bytes are those of the checkpoint and the commits.", style="dim")


def questions(log: TelemetryLog) -> dict[str, tuple[dict[str, Any], int]]:
    """The arguments of `LazyScanConfig` by question, and how many files the answer has."""
    hour = log.newest_hour
    yesterday = dt.datetime.strptime(hour[:8], "%Y%m%d").replace(tzinfo=dt.UTC) - dt.timedelta(days=1)
    day = max(f"{yesterday:%Y%m%d}", log.oldest_hour[:8])
    hours = [f"{day}{number:02}" for number in range(24)]
    in_day = sum(log.expected_hour(each) for each in hours if log.oldest_hour <= each <= hour)
    return {
        "the newest 100": ({"limit": 100}, 100),
        "the last hour": ({"predicate": f"_event_hour = '{hour}'"}, log.expected_hour(hour)),
        "one day": ({"predicate": f"_event_hour BETWEEN '{day}00' AND '{day}23'"}, in_day),
    }


def ask(table: str, config: LazyScanConfig) -> Answer:
    """Answers a question and tells what that took."""
    before, started = peak_memory(), time.perf_counter()
    scanner = LazyDeltaScanner(table, config)
    first = 0.0
    with scanner.scan_batches() as batches:
        for _ in batches:
            first = first or time.perf_counter() - started
    metrics = scanner.metrics
    return {
        "files": metrics.files_emitted,
        "first": first,
        "seconds": time.perf_counter() - started,
        "requests": metrics.requests.requests,
        "bytes": metrics.requests.bytes,
        "commits": metrics.commits_read,
        "row_groups": metrics.row_groups_read,
        "memory": peak_memory() - before,
    }


def in_its_own_process(table: Path, config: dict[str, Any]) -> Answer:
    """Asks a question in a fresh interpreter."""
    command = [sys.executable, __file__, "--ask", str(table), json.dumps(config)]
    answer: Answer = json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout)
    return answer


def peak_memory() -> int:
    """The most memory that this process has had so far, in bytes."""
    with suppress(OSError):
        status = Path("/proc/self/status").read_text(encoding="ascii")
        return int(status.partition("VmHWM:")[2].split()[0]) * 1024
    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit


def write(log: TelemetryLog, table: Path, console: Console) -> SynthSummary:
    """Writes the log, with a bar on a terminal."""
    started = time.perf_counter()
    columns = (TextColumn("Writing a log of {task.total:,} files"), BarColumn(), TextColumn("{task.percentage:.0f}%"))
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as bar:
        task = bar.add_task("", total=log.series.count)
        written = log.write(table, lambda done, _: bar.update(task, completed=done))
    console.print(
        f"[bold]A Delta log of {written.files:,} files[/], {log.files_per_hour:,} for each hour: a checkpoint of "
        f"{megabytes(written.checkpoint_bytes)} and {log.tail_commits} commits after it, "
        f"made in {time.perf_counter() - started:.0f} s."
    )
    return written


def full_load(table: Path, written: SynthSummary) -> Answer:
    """What a reader that takes in the whole log has to read. It is not run here."""
    folder = table / "_delta_log"
    base = written.checkpoint_version or 0
    tail = [folder / f"{version:020}.json" for version in range(base + 1, written.version + 1)]
    checkpoints = sorted(folder.glob(f"{base:020}.checkpoint*.parquet"))
    return {
        "files": written.files,
        "bytes": sum(path.stat().st_size for path in (*checkpoints, *tail)),
        "commits": len(tail),
        "row_groups": sum(pq.read_metadata(path).num_row_groups for path in checkpoints),
    }


def comparison(answers: dict[str, Answer], whole: Answer) -> Table:
    """The answers side by side."""
    table = Table(box=box.SIMPLE_HEAD, header_style="bold", pad_edge=False)
    table.add_column("")
    for name in answers:
        table.add_column(name, justify="right", style="green")
    table.add_column("a full load", justify="right", style="dim")
    rows = {
        "files": lambda answer: f"{answer['files']:,}",
        "first file after": lambda answer: duration(answer.get("first")),
        "all of them after": lambda answer: duration(answer.get("seconds")),
        "requests": lambda answer: f"{answer['requests']:,}" if "requests" in answer else "-",
        "bytes read": lambda answer: megabytes(answer["bytes"]),
        "  of a full load's": lambda answer: f"{answer['bytes'] / whole['bytes']:.1%}",
        "row groups decoded": lambda answer: f"{answer['row_groups']} of {whole['row_groups']}",
        "memory used": lambda answer: megabytes(answer["memory"]) if "memory" in answer else "-",
    }
    for label, cell in rows.items():
        table.add_row(label, *(cell(answer) for answer in (*answers.values(), whole)))
    return table


def meaning(newest: Answer, whole: Answer) -> str:
    """What the figures say."""
    return (
        f"The newest files cost {newest['bytes'] / whole['bytes']:.1%} of a full load and open no row group of the "
        "checkpoint. A range of time has to let the checkpoint pass by, since Spark orders it by hash; but it passes "
        "in pieces that are dropped at once, and no list of the table's files is held."
    )


def megabytes(size: int) -> str:
    """A size for people."""
    return f"{size / 1e6:,.1f} MB"


def duration(seconds: float | None) -> str:
    """A time for people."""
    if seconds is None:
        return "-"
    return f"{seconds * 1000:,.0f} ms" if seconds < 1 else f"{seconds:.1f} s"


if __name__ == "__main__":
    main()
