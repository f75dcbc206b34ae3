"""`delta-sidecar build`, called in this process, as a process and on a terminal."""

from __future__ import annotations

import json
import re
import shutil
import signal
import tempfile
from typing import TYPE_CHECKING

import pytest
from click.testing import CliRunner, Result
from tests.build.reading_back import read_back, scanned_files
from tests.cli.tables import TELEMETRY
from tests.cli.test_terminal import CONTROL, HIDE_CURSOR, PATIENCE, PATIENT_COMMAND, SHOW_CURSOR, Terminal

from delta_sidecar.build import BuildSummary
from delta_sidecar.cli import main
from delta_sidecar.cli.commands.upkeep import summary_lines
from delta_sidecar.synth import TelemetryLog

if TYPE_CHECKING:
    from pathlib import Path

    from tests.builder import TableBuilder


def run(*arguments: object, code: int = 0) -> Result:
    result = CliRunner().invoke(main, ["build", *map(str, arguments)])
    assert result.exit_code == code, result.output
    return result


@pytest.fixture
def table(telemetry: Path, tmp_path: Path) -> Path:
    return shutil.copytree(telemetry, tmp_path / "telemetry")


def facts(result: Result) -> dict[str, str]:
    """Gives the named lines of the text."""
    return {line[:12].strip(): line[12:] for line in result.stdout.splitlines() if re.match(r"[a-z]", line)}


@pytest.mark.full
def test_text_of_a_build(table: Path) -> None:
    result = run(table)
    shown = facts(result)
    assert shown["table"] == f"{table}, version 2003"
    assert re.fullmatch(r"_delta_log/_sidecars/v2003\.parquet, [\d.]+MB", shown["sidecar"])
    assert re.search(r"^ {12}index [\d.]+kB, statistics [\d.]+kB; manifest [\d.]+kB$", result.stdout, re.MULTILINE)
    assert shown["files"] == f"{TELEMETRY.live_files:,} in 3 row groups"
    assert shown["sorted by"] == "time bucket _event_hour"
    assert shown["time column"] == "event_ts"
    assert shown["statistics"] == "of 6 columns"
    assert re.search(r"^Built in [\d.]+ s\.$", result.stdout, re.MULTILINE)
    assert result.stderr == ""
    assert "\x1b" not in result.stdout
    assert read_back(table, 2003).files() == scanned_files(table)


def test_a_second_build_says_that_there_is_nothing_to_do(table: Path) -> None:
    run(table)
    again = run(table)
    assert re.search(r"^It is there already and good: nothing was built \([\d.]+ s\)\.$", again.stdout, re.MULTILINE)
    assert json.loads(run(table, "--output", "json").stdout)["already_there"] is True


def test_json_of_a_build(table: Path) -> None:
    said = json.loads(run(table, "--version", "2001", "--rows-per-group", "2500", "--output", "json").stdout)
    manifest = read_back(table, 2001).manifest
    assert set(said) == set(BuildSummary.__dataclass_fields__)
    assert (said["version"], said["files"], said["row_groups"]) == (2001, manifest.num_files, 9)
    assert (said["file"], said["bytes"]) == (manifest.sidecar_file, manifest.sidecar_size_bytes)
    assert said["bytes"] > said["index_bytes"] + said["stats_bytes"]


def test_columns_by_name(table: Path) -> None:
    run(table, "--sort", "EVENT_TS", "--summaries", "device_id, `temperature`")
    assert read_back(table, 2003).manifest.summaries == (("event_ts",), ("device_id",), ("temperature",))


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (("--sort", "nothing"), 1, "sort: the table has no column 'nothing'; columns with bounds: event_ts, "),
        (("--sort", "_event_hour"), 1, "is a partition column"),
        (("--summaries", "a,,b"), 2, "names of columns are expected"),
        (("--summaries", ""), 2, "names of columns are expected"),
        (("--rows-per-group", "0"), 2, "0 is not in the range"),
        (("--memory-limit", "much"), 1, "memory_limit must be a size"),
        (("--temp-directory", "/nowhere/at/all"), 1, "no temporary folder can be made in /nowhere/at/all"),
        (("--version", "9999"), 1, "has no version 9999"),
        (("--version", "1999"), 1, "cannot be read at version 1999"),
    ],
)
def test_what_cannot_be_done(telemetry: Path, arguments: tuple[str, ...], code: int, message: str) -> None:
    result = run(telemetry, *arguments, code=code)
    assert message in result.stderr
    assert result.stdout == ""
    assert not (telemetry / "_delta_log" / "_sidecars").exists()


def test_no_table(tmp_path: Path) -> None:
    assert "is not a Delta table" in run(tmp_path, code=1).stderr
    assert "one TABLE is expected" in run(tmp_path, "secret", code=2).stderr


def test_texts_that_cannot_be_rebuilt_are_told_of(small: TableBuilder) -> None:
    shown = facts(run(small.root))
    assert shown["sorted by"] == "partition values day"
    assert shown["time column"] == "none: no timestamp has statistics (--sort names one)"
    assert shown["statistics"] == "of 1 column; beside them the text of 1 file, which cannot be rebuilt"


def test_names_cannot_steer_a_terminal() -> None:
    evil = "evil\x1b[2J\x07\u202e\n"
    texts = {name: evil for name, kind in BuildSummary.__annotations__.items() if "str" in kind}
    numbers = {name: 1 for name, kind in BuildSummary.__annotations__.items() if "str" not in kind}
    lines = list(summary_lines(BuildSummary(**texts, **numbers)))
    assert all(line.isprintable() for line in lines[:-1])


@pytest.mark.full
def test_a_bar_moves_while_it_is_built(tmp_path: Path) -> None:
    TelemetryLog(files=300_000, tail_commits=3).write(tmp_path)
    with Terminal() as terminal, terminal.run("build", tmp_path) as process:
        terminal.wait_for(re.compile(r"reading .*[\d,]+ of 300,150 files"))
        out, _ = process.communicate(timeout=PATIENCE)
        assert process.returncode == 0
    assert b"Built in" in out
    assert b"\x1b" not in out
    shown = CONTROL.sub("", terminal.text)
    assert re.search(r"writing .*[\d,]+ of 300,150 files", shown)
    assert terminal.text.rfind(SHOW_CURSOR) > terminal.text.rfind(HIDE_CURSOR)


def test_a_quick_build_shows_no_bar(small: TableBuilder) -> None:
    with Terminal() as terminal, terminal.run("build", small.root, command=PATIENT_COMMAND) as process:
        assert b"Built in" in process.communicate(timeout=PATIENCE)[0]
    assert "%" not in terminal.text
    assert "reading" not in CONTROL.sub("", terminal.text)


@pytest.mark.full
def test_an_interrupt_leaves_nothing_behind(tmp_path: Path) -> None:
    table, temporary = tmp_path / "table", tmp_path / "temporary"
    TelemetryLog(files=300_000, tail_commits=3).write(table)
    temporary.mkdir()
    with Terminal() as terminal, terminal.run("build", table, "--temp-directory", temporary) as process:
        terminal.wait_for(re.compile(r"reading .*[\d,]+ of 300,150 files"))
        assert list(temporary.iterdir())
        process.send_signal(signal.SIGINT)
        assert process.wait(PATIENCE) == 130
    assert list(temporary.iterdir()) == []
    assert not (table / "_delta_log" / "_sidecars").exists()
    assert "Traceback" not in terminal.text
    assert terminal.text.rfind(SHOW_CURSOR) > terminal.text.rfind(HIDE_CURSOR)


def test_temporary_files_go_where_the_machine_has_them(
    table: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    machine = tmp_path / "machine"
    machine.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(machine))
    made = machine.stat().st_mtime_ns
    run(table)
    assert machine.stat().st_mtime_ns > made
    assert list(machine.iterdir()) == []
