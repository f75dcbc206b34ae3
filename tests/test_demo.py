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
    assert row(run.stdout, "files") == ["100", "1,250", "30,000", "61,000"]
    assert row(run.stdout, "row groups decoded") == ["0 of 1", "1 of 1", "1 of 1", "1 of 1"]
    share, *_, whole = row(run.stdout, "  of a full load's")
    assert float(share.rstrip("%")) < 10
    assert whole == "100.0%"
    assert list(tmp_path.iterdir()) == []


def row(text: str, label: str) -> list[str]:
    """The cells of a row of the table."""
    (line,) = re.findall(rf"^ {label}  (.*)$", text, re.MULTILINE)
    return re.split(r"\s{2,}", line.strip())
