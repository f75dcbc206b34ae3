"""The command on a terminal: progress, summary, colours."""

from __future__ import annotations

import codecs
import contextlib
import os
import pty
import re
import signal
import subprocess
import sys
import threading
from typing import TYPE_CHECKING, Self

import pytest
from tests.cli.tables import TELEMETRY

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

COMMAND = [sys.executable, "-m", "delta_sidecar.cli"]
PATIENT = """
from delta_sidecar.cli import main, progress
progress._PATIENCE = 60
main()
"""
PATIENT_COMMAND = [sys.executable, "-c", PATIENT]
"""Shows no progress before a minute: on a busy machine nothing is as quick as it should be."""
PATIENCE = 120
PROGRESS = re.compile(r"[\d,]+ files  \d+ commits, \d+ row groups?, [\d.]+\w*B by \d+ requests  \d+ s")
SUMMARY = re.compile(r"20,030 files of version 2003; read \d commits, \d row groups?, .* requests in [\d.]+ s")
CONTROL = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")
ERASE_LINE, HIDE_CURSOR, SHOW_CURSOR = "\x1b[2K", "\x1b[?25l", "\x1b[?25h"


def test_progress_while_it_runs_and_a_summary_at_the_end(telemetry: Path) -> None:
    with Terminal() as terminal, terminal.run("files", telemetry) as process:
        # Nobody reads the pipe yet, so that the command is still at work.
        terminal.wait_for(PROGRESS)
        out, _ = process.communicate(timeout=PATIENCE)
        assert process.returncode == 0
        assert len(out.splitlines()) == TELEMETRY.live_files
        assert b"\x1b" not in out
    assert terminal.text.rfind(ERASE_LINE) < SUMMARY.search(terminal.text).start()
    assert terminal.text.rfind(SHOW_CURSOR) > terminal.text.rfind(HIDE_CURSOR)


def test_lines_and_progress_share_a_terminal(telemetry: Path) -> None:
    with Terminal() as terminal, terminal.run("files", telemetry, both=True) as process:
        assert process.wait(PATIENCE) == 0
    shown = [line.rpartition("\r")[2] for line in CONTROL.sub("", terminal.text).replace("\r\n", "\n").split("\n")]
    files = [line for line in shown if line.endswith(".parquet")]
    assert len(files) == TELEMETRY.live_files
    # No line of data has a piece of progress in front of it.
    assert all(re.match(r" *[\d.]+[kMG]?B  \d{4}-", line) for line in files)
    assert SUMMARY.match([line for line in shown if line.strip()][-1])


def test_a_quick_answer_shows_no_progress(telemetry: Path) -> None:
    arguments = ("files", telemetry, "--limit", "0", "--no-summary")
    with Terminal() as terminal, terminal.run(*arguments, command=PATIENT_COMMAND) as process:
        assert process.communicate(timeout=PATIENCE)[0] == b""
    assert CONTROL.sub("", terminal.text).strip() == ""


@pytest.mark.full
@pytest.mark.parametrize("both", [True, False])
def test_an_empty_answer_says_so(telemetry: Path, *, both: bool) -> None:
    where = ("--where", "_event_hour = 'never'")
    with Terminal() as terminal, terminal.run("files", telemetry, *where, both=both) as process:
        assert not process.communicate(timeout=PATIENCE)[0]
        assert process.returncode == 0
    assert "no files of version 2003 can hold a matching row; read " in terminal.text


def test_an_interrupt_leaves_the_terminal_as_it_was(telemetry: Path) -> None:
    with Terminal() as terminal, terminal.run("files", telemetry) as process:
        terminal.wait_for(PROGRESS)
        process.send_signal(signal.SIGINT)
        assert process.wait(PATIENCE) == 130
    assert terminal.text.rfind(SHOW_CURSOR) > terminal.text.rfind(HIDE_CURSOR)
    assert terminal.text.rfind(ERASE_LINE) > list(PROGRESS.finditer(CONTROL.sub("", terminal.text)))[-1].start()
    assert "Traceback" not in terminal.text


def test_a_dumb_terminal_gets_plain_lines(telemetry: Path) -> None:
    with Terminal(TERM="dumb") as terminal, terminal.run("files", telemetry) as process:
        process.communicate(timeout=PATIENCE)
    assert "\x1b" not in terminal.text
    assert SUMMARY.match(terminal.text)


def test_errors_are_coloured(tmp_path: Path) -> None:
    with Terminal() as terminal, terminal.run("files", tmp_path) as process:
        assert process.wait(PATIENCE) == 1
    assert "\x1b[31m" in terminal.text


def test_no_color_is_honoured(tmp_path: Path, telemetry: Path) -> None:
    for table in (tmp_path, telemetry):
        with Terminal(NO_COLOR="1") as terminal, terminal.run("files", table) as process:
            process.communicate(timeout=PATIENCE)
        assert re.search("is not a Delta table|of version 2003", terminal.text)
        assert not re.search(r"\x1b\[[0-9;]*(3[0-7]|9[0-7]|38;)[0-9;]*m", terminal.text)


def test_arrow_does_not_go_to_a_terminal(telemetry: Path) -> None:
    with Terminal() as terminal, terminal.run("files", telemetry, "--output", "arrow", both=True) as process:
        assert process.wait(PATIENCE) == 2
    assert "redirect it" in terminal.text


@pytest.mark.full
@pytest.mark.parametrize("columns", ["40", "200"])
def test_progress_is_one_line_however_wide_the_terminal(telemetry: Path, columns: str) -> None:
    with Terminal(COLUMNS=columns) as terminal, terminal.run("files", telemetry) as process:
        terminal.wait_for(re.compile(r"[\d,]+ files"))
        process.communicate(timeout=PATIENCE)
    shown = CONTROL.sub("", terminal.text)
    assert "20,030 files of version 2003" in shown
    assert max(len(line) for line in re.split(r"[\r\n]+", shown)) <= int(columns)


class Terminal:
    """A terminal that remembers everything it was sent."""

    def __init__(self, **environment: str) -> None:
        self.text = ""
        self._environment = {key: value for key, value in os.environ.items() if key != "NO_COLOR"}
        self._environment |= {"TERM": "xterm-256color", "COLUMNS": "120"} | environment
        self._ours, self._theirs = pty.openpty()
        self._changed = threading.Condition()
        self._reader = threading.Thread(target=self._read, daemon=True)

    def __enter__(self) -> Self:
        self._reader.start()
        return self

    def __exit__(self, *_: object) -> None:
        # With the last of their ends closed, reading comes to its end.
        os.close(self._theirs)
        self._reader.join(PATIENCE)
        os.close(self._ours)

    @contextlib.contextmanager
    def run(
        self, *arguments: object, both: bool = False, command: Sequence[str] = COMMAND
    ) -> Iterator[subprocess.Popen[bytes]]:
        """Runs the command with stderr on the terminal, and stdout too or in a pipe."""
        with subprocess.Popen(
            [*command, *map(str, arguments)],
            stdin=self._theirs,
            stdout=self._theirs if both else subprocess.PIPE,
            stderr=self._theirs,
            env=self._environment,
        ) as process:
            try:
                yield process
            finally:
                process.kill()

    def wait_for(self, pattern: re.Pattern[str]) -> None:
        with self._changed:
            found = self._changed.wait_for(lambda: pattern.search(CONTROL.sub("", self.text)), PATIENCE)
        assert found, self.text[-400:]

    def _read(self) -> None:
        # A read may end inside of a character.
        decoder = codecs.getincrementaldecoder("utf-8")()
        with contextlib.suppress(OSError):
            while part := os.read(self._ours, 65_536):
                with self._changed:
                    self.text += decoder.decode(part)
                    self._changed.notify_all()
