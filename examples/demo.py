"""A table log of a million files: what a lazy reader reads of it, before and after a metadata sidecar is built.

    make demo                              or: python examples/demo.py --files 200000

The log is Delta's real format, made on the spot and deleted at the end; there are no data files behind it. Every
question, and the build, is done in a process of its own, so that its memory can be told from that of the others.
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
from typing import TYPE_CHECKING, Any

import pyarrow.compute as pc
import pyarrow.parquet as pq
from rich import box
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn
from rich.table import Table
from rich.text import Text

from delta_sidecar import LazyDeltaScanner, LazyScanConfig, build_sidecar
from delta_sidecar.synth import SynthSummary, TelemetryLog

if TYPE_CHECKING:
    from collections.abc import Callable

Answer = dict[str, Any]
Question = tuple[dict[str, Any], int]


def main() -> None:
    """Makes the table, asks three questions, builds the sidecar, asks them again and shows what they read."""
    parser = argparse.ArgumentParser(description="A table log of a million files, before and after a sidecar is built.")
    parser.add_argument("--files", type=int, default=1_000_000, help="files in the checkpoint (default: %(default)s)")
    parser.add_argument("--do", nargs=3, metavar=("WHAT", "TABLE", "ARGUMENTS"), help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.do:
        what, table, given = arguments.do
        print(json.dumps({"ask": ask, "build": build}[what](table, json.loads(given))))
        return
    with tempfile.TemporaryDirectory(prefix="delta-sidecar-demo-") as folder:
        show(TelemetryLog(files=arguments.files), Path(folder) / "telemetry", Console(highlight=False))


def show(log: TelemetryLog, table: Path, console: Console) -> None:
    """Writes the table, asks before and after the build, and shows the answers beside each other."""
    written = write(log, table, console)
    before = answers(log, table, console, "checkpoint")
    with console.status("Building the metadata sidecar ..."):
        # At the checkpoint's version: the same commits follow both.
        built = in_its_own_process("build", table, {"version": log.checkpoint_version})
    console.print(
        f"[bold]Its metadata sidecar[/]: {megabytes(built['bytes'])}, and a manifest of "
        f"{built['manifest_bytes'] / 1e3:.0f} kB; built in {built['seconds']:.0f} s, with "
        f"{megabytes(built['memory'])} of memory.\n"
    )
    after = answers(log, table, console, "sidecar")
    for name, answer in before.items():
        if answer["size"] != after[name]["size"]:
            sys.exit(f"{name}: the files before and after are not the same")
    whole = full_load(table, written)
    console.print(comparison(before, after, whole["row_groups"], built["row_groups"]))
    console.print(meaning(before, after, whole))
    console.print(chart(before["the last hour"], after["the last hour"], console))


def questions(log: TelemetryLog) -> dict[str, Question]:
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


def answers(log: TelemetryLog, table: Path, console: Console, base: str) -> dict[str, Answer]:
    """Asks every question."""
    found: dict[str, Answer] = {}
    for name, (config, expected) in questions(log).items():
        with console.status(f"Asking for {name} ({base}) ..."):
            found[name] = in_its_own_process("ask", table, config)
        if found[name]["files"] != expected:
            sys.exit(f"{name}: {found[name]['files']} files were found, and there are {expected}")
    return found


def ask(table: str, given: dict[str, Any]) -> Answer:
    """Answers a question and tells what that took."""
    config = LazyScanConfig(**given)
    before, started = peak_memory(), time.perf_counter()
    scanner = LazyDeltaScanner(table, config)
    first, size = 0.0, 0
    with scanner.scan_batches() as batches:
        for batch in batches:
            first = first or time.perf_counter() - started
            size += pc.sum(batch["size"]).as_py()
    metrics = scanner.metrics
    return {
        "files": metrics.files_emitted,
        "size": size,
        "first": first,
        "seconds": time.perf_counter() - started,
        "requests": metrics.requests.requests,
        "bytes": metrics.requests.bytes,
        "row_groups": metrics.row_groups_read,
        "memory": peak_memory() - before,
    }


def build(table: str, given: dict[str, Any]) -> Answer:
    """Builds the metadata sidecar and tells what that took."""
    before = peak_memory()
    summary = build_sidecar(table, **given)
    return {**summary.as_dict(), "memory": peak_memory() - before}


def in_its_own_process(what: str, table: Path, given: dict[str, Any]) -> Answer:
    """Asks or builds in a fresh interpreter."""
    command = [sys.executable, __file__, "--do", what, str(table), json.dumps(given)]
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
        "bytes": sum(path.stat().st_size for path in (*checkpoints, *tail)),
        "row_groups": sum(pq.read_metadata(path).num_row_groups for path in checkpoints),
    }


def comparison(before: dict[str, Answer], after: dict[str, Answer], in_checkpoint: int, in_sidecar: int) -> Table:
    """The answers beside each other: a row before and a row after for each question."""
    table = Table(box=box.HORIZONTALS, show_edge=False, header_style="bold", padding=(0, 1, 0, 0), pad_edge=False)
    table.add_column("", no_wrap=True)
    for name in ("files", "first\nfile", "all of\nthem", "requests", "bytes\nread", "memory", "row\ngroups"):
        table.add_column(name, justify="right", no_wrap=True)
    for name, answer in before.items():
        table.add_row(name, style="bold")
        table.add_row("  before", *cells(answer, in_checkpoint))
        table.add_row("  after", *cells(after[name], in_sidecar), style="green")
    return table


def cells(answer: Answer, row_groups: int) -> tuple[str, ...]:
    """An answer in the order of the columns."""
    return (
        f"{answer['files']:,}",
        duration(answer["first"]),
        duration(answer["seconds"]),
        f"{answer['requests']:,}",
        megabytes(answer["bytes"]),
        megabytes(answer["memory"]),
        f"{answer['row_groups']} of {row_groups}",
    )


def meaning(before: dict[str, Answer], after: dict[str, Answer], whole: Answer) -> str:
    """What the figures say."""
    share = before["the newest 100"]["bytes"] / whole["bytes"]
    then, now = before["the last hour"], after["the last hour"]
    return (
        f"\nThe newest files are in the commits: {share:.1%} of a full load, either way. A range of time has to let "
        "the whole checkpoint pass by, since Spark orders it by hash; the sidecar is in order of time. So the last "
        f"hour takes {now['requests']} requests and {megabytes(now['bytes'])} in the place of {then['requests']} and "
        f"{megabytes(then['bytes'])}, and the files are the same.\n"
        "\nFor a table of yours: delta-sidecar build TABLE"
    )


def chart(before: Answer, after: Answer, console: Console) -> Text:
    """The last hour as bars, from zero, and as wide as the terminal allows."""
    block = "\N{FULL BLOCK}" if console.encoding.startswith("utf") else "#"
    said: dict[str, tuple[str, Callable[[float], str]]] = {
        "time": ("seconds", duration),
        "bytes read": ("bytes", megabytes),
        "requests": ("requests", "{:,}".format),
    }
    text = Text("\n").append("The last hour, before and after", style="bold")
    for words, (name, say) in said.items():
        figures = {"before": before[name], "after": after[name]}
        room = min(50, console.width - len("  before  ") - max(len(say(figure)) for figure in figures.values()) - 1)
        text.append(f"\n{words}")
        for when, figure in figures.items():
            # What is there is seen, however little it is.
            length = max(figure > 0, round(figure / max(1e-9, *figures.values()) * room))
            text.append(f"\n  {when:6}  {block * length} {say(figure)}", style="green" if when == "after" else None)
    return text


def megabytes(size: int) -> str:
    """A size for people."""
    digits = 1 if size < 1e7 else 0  # noqa: PLR2004 - two digits are enough
    return f"{size / 1e6:,.{digits}f} MB"


def duration(seconds: float) -> str:
    """A time for people."""
    return f"{seconds * 1000:,.0f} ms" if seconds < 1 else f"{seconds:.1f} s"


if __name__ == "__main__":
    main()
