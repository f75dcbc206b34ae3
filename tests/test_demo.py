"""The demo runs, tells the truth and leaves nothing behind."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

DEMO = Path(__file__).parents[1] / "examples" / "demo.py"


def test_the_demo(tmp_path: Path) -> None:
    run = subprocess.run(
        [sys.executable, DEMO, "--files", "60000"],
        check=True,
        capture_output=True,
        text=True,
        env=os.environ | {"TMPDIR": str(tmp_path), "COLUMNS": "80"},
    )
    assert run.stderr == ""
    assert "\x1b" not in run.stdout
    assert max(map(len, run.stdout.splitlines())) <= 80
    groups = {"the newest 100": (0, 0), "the last hour": (1, 1), "one day": (1, 4)}
    for question, files in {"the newest 100": "100", "the last hour": "1,250", "one day": "30,000"}.items():
        before, after = rows(run.stdout, question)
        assert (before[0], after[0]) == (files, files)
        assert (before[-1], after[-1]) == (f"{groups[question][0]} of 1", f"{groups[question][1]} of 6")
    before, after = rows(run.stdout, "the last hour")
    assert int(after[3]) < int(before[3])
    assert megabytes(after[4]) < megabytes(before[4]) / 4
    assert "Its metadata sidecar: " in run.stdout
    assert list(tmp_path.iterdir()) == []


def rows(text: str, question: str) -> tuple[list[str], list[str]]:
    """The cells of a question's two rows, before and after."""
    (found,) = re.findall(rf"^{question} *\n  before  (.*)\n  after  (.*)$", text, re.MULTILINE)
    before, after = (re.split(r"\s{2,}", line.strip()) for line in found)
    return before, after


def megabytes(cell: str) -> float:
    number, unit = cell.split()
    assert unit == "MB"
    return float(number.replace(",", ""))
