"""The command on a narrow terminal: lines end between words, and nothing is left out."""

from __future__ import annotations

import datetime as dt
import json
from typing import TYPE_CHECKING

import pytest
from rich.cells import cell_len
from tests.builder import TableBuilder, add
from tests.cli.test_terminal import CONTROL, PATIENCE, PATIENT_COMMAND, Terminal

if TYPE_CHECKING:
    from pathlib import Path

MOMENT = dt.datetime(2026, 2, 10, 22, 30, 0, 107000, dt.UTC)
SCHEMA = {"event_ts": "timestamp", "device_of_the_machine": "string", "温度": "double", "status": "string", "n": "long"}


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A table whose columns do not fit into a line, of which a file has no statistics."""
    built = TableBuilder(tmp_path_factory.mktemp("narrow") / "table", schema=SCHEMA)
    for number in range(3):
        first = {"event_ts": f"{MOMENT + dt.timedelta(hours=number):%Y-%m-%dT%H:%M:%S.107Z}", "温度": -0.5, "n": 5}
        bounds = {**first, "device_of_the_machine": f"machine-{number:05}", "status": "ok"}
        nulls = dict.fromkeys(SCHEMA, 0)
        stats = {"numRecords": 5, "minValues": bounds, "maxValues": bounds, "nullCount": nulls}
        built.commit([add(f"{number}.parquet", stats=json.dumps(stats))])
    built.commit([add("without.parquet", stats=None)])
    return built.root


def shown(width: int, *arguments: object) -> list[str]:
    """The lines that stay on a terminal of a width."""
    terminal = Terminal(COLUMNS=str(width))
    with terminal, terminal.run(*arguments, both=True, command=PATIENT_COMMAND) as process:
        assert process.wait(PATIENCE) == 0
    lines = CONTROL.sub("", terminal.text).replace("\r\n", "\n").split("\n")
    return [line.rpartition("\r")[2] for line in lines]


def piped(*arguments: object) -> list[str]:
    with Terminal() as terminal, terminal.run(*arguments) as process:
        out, _ = process.communicate(timeout=PATIENCE)
        assert process.returncode == 0
    return out.decode().split()


COMMANDS = {
    "stats": ["stats"],
    "explain": ["explain", "--where", "event_ts >= '2026-02-10 02:00:00' AND status = 'ok' AND n IN (1, 2, 3, 4)"],
}


@pytest.mark.full
@pytest.mark.parametrize(("command", "width"), [("stats", 60), ("stats", 80), ("explain", 80)])
def test_words_are_whole_and_all_there(table: Path, command: str, width: int) -> None:
    name, *options = COMMANDS[command]
    words = piped(name, table, *options)
    lines = shown(width, name, table, *options)
    # A path is longer than the line may be.
    assert max(cell_len(line) for line in lines if str(table) not in line) <= width
    rulers = {word for word in words if set(word) == {"─"}}
    assert not set(words) - rulers - set(" ".join(lines).split())


def test_what_was_measured_fits(table: Path) -> None:
    lines = shown(60, "explain", table, "--analyze")
    assert max(cell_len(line) for line in lines if str(table) not in line) <= 60
    (head,) = [line for line in lines if "statistics" in line and "met" in line]
    assert head.split() == ["met", "dead", "partition", "statistics", "left"]


@pytest.mark.full
def test_a_build_and_summaries(table: Path) -> None:
    for arguments in (["build", table], ["files", table, "--summary"], ["vacuum", table, "--dry-run"]):
        lines = shown(50, *arguments)
        ends = [line for line in lines if str(table) not in line and ".parquet" not in line]
        assert max(map(cell_len, ends)) <= 50
        assert not any(line.startswith((" s", "equests")) for line in ends)
