"""`delta-sidecar --log`: events on stderr, and silence without it."""

from __future__ import annotations

import json
import logging
from typing import TYPE_CHECKING

import pytest
from click.testing import CliRunner, Result

from delta_sidecar.cli import main
from delta_sidecar.events import logger

if TYPE_CHECKING:
    from pathlib import Path


def run(*arguments: object) -> Result:
    result = CliRunner().invoke(main, [*map(str, arguments)])
    assert result.exit_code == 0, result.output
    return result


def test_nothing_is_logged_without_it(telemetry: Path) -> None:
    assert run("files", telemetry, "--limit", 3).stderr == ""


def test_json_has_an_event_a_line(telemetry: Path) -> None:
    result = run("--log", "json", "files", telemetry, "--limit", 3)
    events = [json.loads(line) for line in result.stderr.splitlines()]
    assert [event["event"] for event in events if "event" in event] == [
        "snapshot_opened",
        "strategy_chosen",
        "first_file_found",
        "scan_ended",
    ]
    assert events[-1]["files_emitted"] == 3
    assert len(result.stdout.splitlines()) == 3


def test_text_has_an_event_a_line(telemetry: Path) -> None:
    lines = run("--log", "text", "files", telemetry, "--limit", 3).stderr.splitlines()
    (chosen,) = (line for line in lines if line.startswith("debug   strategy_chosen"))
    assert 'strategy="reverse"' in chosen
    assert lines[-1].startswith("info    scan_ended")


@pytest.mark.parametrize("form", ["text", "json"])
def test_the_log_is_left_as_it_was(telemetry: Path, form: str) -> None:
    before = (list(logger.handlers), logger.level)
    run("--log", form, "explain", telemetry)
    assert (list(logger.handlers), logger.level) == before
    assert logging.getLogger().handlers is not logger.handlers
